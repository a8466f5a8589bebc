"""Plots: self-contained, in the reader's colours, equal for equal figures; what is drawn is what was seen."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from permitflow_tools.explain.plots import (
    SUFFIXES,
    MapCell,
    Panel,
    Series,
    SweepPicture,
    VerdictMap,
)
from tests.support.browser import Visit

PICTURE = SweepPicture(
    title="Two batches <compared>",
    sentence="Chunks of 256 rows & a round trip of 20 ms.",
    x_label="row permits",
    series=[
        Series("permit batch 256", [2048, 4096, 8192], [1e5, 2e5, 4e5], [0.8, 0.6, 0.2], [], 10_000),
        Series("permit batch 4,096", [4096, 8192], [1.5e5, 3e5], [0.7, 0.4], [2048], 10_000),
    ],
    most=500_000,
    head=["row_permits", "rows/s"],
    rows=[(True, ["4,096", "200,000"]), (False, ["2,048", ""])],
)


@pytest.mark.parametrize(
    ("suffix", "beginning"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".pdf", b"%PDF"), (".html", b"<!DOCTYPE html>")]
)
def test_every_kind_of_file_is_one(suffix: str, beginning: bytes) -> None:
    assert suffix in SUFFIXES
    assert PICTURE.as_file(suffix).startswith(beginning)


@pytest.mark.parametrize("suffix", [".html", ".pdf"])
def test_equal_figures_are_equal_files(suffix: str) -> None:
    assert PICTURE.as_file(suffix) == PICTURE.as_file(suffix)


def test_a_sweep_in_which_nothing_flows_can_be_drawn() -> None:
    stuck = Series("permit batch 9", [], [], [], [2048, 65536], None)
    assert replace(PICTURE, series=[stuck], most=None).as_file(".svg").startswith(b"<svg")


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


VERDICTS = ("live", "live", "deadlock", "too large", "impossible", "overspend", "undecided", "violation", "live")
PANEL = Panel(
    title="4 row permits",
    cells=[MapCell(1 + number % 3, 1 + number // 3, verdict, number) for number, verdict in enumerate(VERDICTS)],
    line={1: 3, 2: 2, 3: 0},
)
MAP = VerdictMap(
    title="Live <or> stuck",
    sentence="9 channels & a line.",
    x_label="permit batch, rows",
    y_label="largest cost of a chunk, rows",
    line_label="the proved line",
    panels=[PANEL, replace(PANEL, title="5 row permits", cells=PANEL.cells[:3])],
    head=["permit_batch", "verdict"],
    rows=[(True, ["1", "live"]), (False, ["2", "deadlock"])],
)


def test_a_map_names_what_it_shows() -> None:
    drawing = MAP.as_file(".svg").decode()
    for label in (
        "4 row permits",
        "5 row permits",
        "permit batch, rows",
        "largest cost of a chunk, rows",
        "the proved line",
        *VERDICTS,
    ):
        assert f">{label}<" in drawing
