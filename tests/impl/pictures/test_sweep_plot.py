"""The picture of a sweep: self-contained, in the reader's colours, equal for equal figures."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from permitflow.pictures.assets import asset
from permitflow.pictures.plots import SUFFIXES, Series, SweepPicture
from tests.support.browser import Visit

PICTURE = SweepPicture(
    title="Two batches <compared>",
    sentence="Chunks of 256 rows & a round trip of 20 ms.",
    x_label="row count, rows",
    series=[
        Series("batch 256", [2048, 4096, 8192], [1e5, 2e5, 4e5], [0.8, 0.6, 0.2], [], 10_000),
        Series("batch 4,096", [4096, 8192], [1.5e5, 3e5], [0.7, 0.4], [2048], 10_000),
    ],
    most=500_000,
    head=["row_count", "rows/s"],
    rows=[(True, ["4,096", "200,000"]), (False, ["2,048", ""])],
)


@pytest.mark.parametrize(
    ("suffix", "beginning"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".pdf", b"%PDF"), (".html", b"<!DOCTYPE html>")]
)
def test_every_kind_of_file_is_one_and_equal_for_equal_figures(suffix: str, beginning: bytes) -> None:
    assert suffix in SUFFIXES
    content = PICTURE.as_file(suffix)
    assert content.startswith(beginning)
    assert content == PICTURE.as_file(suffix)


def test_a_drawing_names_what_it_shows_and_marks_the_product() -> None:
    drawing = PICTURE.as_file(".svg").decode()
    for label in (
        "batch 256",
        "batch 4,096",
        "bandwidth-delay product, 10,000",
        "deadlock, or refused",
        "row count, rows",
    ):
        assert label in drawing


def test_no_colour_is_fixed_that_a_dark_scheme_would_have_to_change() -> None:
    drawing = PICTURE.as_file(".svg").decode()
    outside = re.sub(r"<style>.*?</style>", "", drawing, count=1, flags=re.DOTALL)
    assert "var(--series-1)" in outside
    light = set(re.findall(r"#[0-9a-f]{6}", asset("palette.css")))
    assert light & set(re.findall(r"#[0-9a-f]{6}", outside)) == set()


def test_other_figures_are_another_drawing() -> None:
    other = replace(PICTURE, series=PICTURE.series[:1])
    assert other.as_file(".svg") != PICTURE.as_file(".svg")


def test_a_sweep_in_which_nothing_flows_can_be_drawn() -> None:
    stuck = Series("batch 9", [], [], [], [2048, 65536], None)
    assert replace(PICTURE, series=[stuck], most=None).as_file(".svg").startswith(b"<svg")


def test_wide_ranges_are_drawn_by_factors() -> None:
    wide = Series("wide", [16, 4096, 65536], [1, 2, 3], [0, 0, 0], [], None)
    drawing = replace(PICTURE, series=[wide]).as_file(".svg").decode()
    assert all(f">{tick}<" in drawing for tick in ("16", "4,096", "65,536"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_in_a_real_browser(visit: Callable[..., Visit], scheme: str) -> None:
    page = visit(PICTURE.as_file(".html").decode(), scheme=scheme, scripts=False, width=1280, height=900).page
    assert page.inner_text("h1") == "Two batches <compared>"
    assert page.locator("tr.fails").count() == 1
    drawing = page.locator("svg").bounding_box()
    assert drawing is not None
    assert drawing["width"] > 1000
    ink = page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
    paper = page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
    assert ink != paper
