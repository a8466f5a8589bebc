"""Plots: self-contained, in the reader's colours, equal for equal figures; what is drawn is what was seen."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from permitflow.pictures.assets import asset
from permitflow.pictures.plots import (
    SUFFIXES,
    MapCell,
    Panel,
    Series,
    SweepPicture,
    VerdictMap,
    back_pressure_figure,
    read_looks,
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
def test_every_kind_of_file_is_one_and_equal_for_equal_figures(suffix: str, beginning: bytes) -> None:
    assert suffix in SUFFIXES
    content = PICTURE.as_file(suffix)
    assert content.startswith(beginning)
    assert content == PICTURE.as_file(suffix)


def test_a_drawing_names_what_it_shows_and_marks_the_product() -> None:
    drawing = PICTURE.as_file(".svg").decode()
    for label in (
        "permit batch 256",
        "permit batch 4,096",
        "bandwidth-delay product, 10,000",
        "deadlock, or refused",
        "row permits",
    ):
        assert label in drawing


def test_no_colour_is_fixed_that_a_dark_scheme_would_have_to_change() -> None:
    drawing = PICTURE.as_file(".svg").decode()
    outside = re.sub(r"<style>.*?</style>", "", drawing, count=1, flags=re.DOTALL)
    assert "var(--series-1)" in outside
    light = set(re.findall(r"#[0-9a-f]{6}", asset("palette.css")))
    assert light & set(re.findall(r"#[0-9a-f]{6}", outside)) == set()


def test_a_sweep_in_which_nothing_flows_can_be_drawn() -> None:
    stuck = Series("permit batch 9", [], [], [], [2048, 65536], None)
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


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_maps_are_equal_files(suffix: str) -> None:
    assert MAP.as_file(suffix) == MAP.as_file(suffix)


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


def test_no_colour_of_a_map_is_fixed_that_a_dark_scheme_would_have_to_change() -> None:
    outside = re.sub(r"<style>.*?</style>", "", MAP.as_file(".svg").decode(), count=1, flags=re.DOTALL)
    assert {"var(--permits)", "var(--bad)", "var(--ink)"} <= set(re.findall(r"var\(--[\w-]+\)", outside))
    light = set(re.findall(r"#[0-9a-f]{6}", asset("palette.css")))
    assert light & set(re.findall(r"#[0-9a-f]{6}", outside)) == set()


def test_one_cell_can_be_drawn() -> None:
    lone = Panel(title="", cells=[MapCell(256, 1792, "live", None)], line={256: 1793})
    assert replace(MAP, panels=[lone]).as_file(".svg").startswith(b"<svg")


def test_where_nothing_can_be_there_is_no_line() -> None:
    nothing = Panel(title="", cells=[MapCell(4, 4, "impossible", None)], line={})
    assert replace(MAP, panels=[nothing]).as_file(".svg").startswith(b"<svg")


def test_the_page_of_a_map_is_readable_in_a_real_browser(visit: Callable[..., Visit]) -> None:
    page = visit(MAP.as_file(".html").decode(), scheme="dark", scripts=False, width=1280, height=900).page
    assert page.inner_text("h1") == "Live <or> stuck"
    assert page.locator("tr.fails").count() == 1
    assert "permitflow check" in page.inner_text("footer")
    drawing = page.locator("svg").bounding_box()
    assert drawing is not None
    assert drawing["width"] > 1000


def look(at_seconds: float, **held_rows: int) -> dict[str, object]:
    """A line of ``permitflow top --json``, as far as it is drawn."""
    flows = [
        {
            "channel": channel,
            "blocked_share": rows / 100,
            "consumer_blocked_share": 0.5,
            "rows_held": rows,
            "window_rows": 100,
            "rows_in_per_second": 10.0 * rows,
        }
        for channel, rows in held_rows.items()
    ]
    return {"at_seconds": at_seconds, "channels": flows}


def heights(axes: Axes) -> list[list[float]]:
    """Of each line."""
    return [np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()]


LOOKS = [look(5.0, a=0, b=0), look(6.0, a=10, b=20), look(7.5, a=30, b=40)]


def test_the_drawing_has_both_channels_and_the_bound() -> None:
    figure = back_pressure_figure(LOOKS, ["b", "a"], "Orders")
    above, middle, below = figure.axes
    # The first look has no rates; the next is a second later.
    assert [np.asarray(line.get_xdata()).tolist() for line in below.get_lines()] == [[1.0, 2.5]] * 2
    assert heights(below) == [[200.0, 400.0], [100.0, 300.0]]
    assert [0.2, 0.4] in heights(above)
    assert [100, 100] in heights(middle)
    words = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"a", "b", "bound, 100"} < words
    assert figure.get_suptitle() == "Orders"


def test_a_file_of_top_is_read_without_the_lines_that_say_why_nothing_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "top.jsonl"
    path.write_text("\n".join(map(json.dumps, [LOOKS[0], {"error": "it is gone"}, *LOOKS[1:]])) + "\n")
    assert read_looks(path) == LOOKS


@pytest.mark.parametrize("line", ["{", "[]", '{"event": "traffic"}', "3"])
def test_another_file_is_refused_with_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(f"{json.dumps(LOOKS[0])}\n{line}\n")
    with pytest.raises(ValueError, match=r"other\.jsonl, line 2: this is no line of permitflow top --json"):
        read_looks(path)


def test_an_impossible_drawing_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs two looks at least, and here are 1"):
        back_pressure_figure(LOOKS[:1])
    with pytest.raises(ValueError, match="channel 'c' is in none of the looks, which have a, b"):
        back_pressure_figure(LOOKS, ["a", "c"])
