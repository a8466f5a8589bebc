"""The map of a sweep: a cell for each combination, and the proved line between those that are live and the others."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from permitflow.pictures.assets import asset
from permitflow.pictures.plots import SUFFIXES, MapCell, Panel, VerdictMap
from tests.support.browser import Visit

VERDICTS = ("live", "live", "deadlock", "too large", "impossible", "overspend", "undecided", "violation", "live")
PANEL = Panel(
    title="ROW_COUNT 4",
    cells=[MapCell(1 + number % 3, 1 + number // 3, verdict, number) for number, verdict in enumerate(VERDICTS)],
    line={1: 3, 2: 2, 3: 0},
)
MAP = VerdictMap(
    title="Live <or> stuck",
    sentence="9 channels & a line.",
    x_label="BATCH, rows",
    y_label="max chunk, rows",
    line_label="the proved line",
    panels=[PANEL, replace(PANEL, title="ROW_COUNT 5", cells=PANEL.cells[:3])],
    head=["batch", "verdict"],
    rows=[(True, ["1", "live"]), (False, ["2", "deadlock"])],
)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_maps_are_equal_files(suffix: str) -> None:
    assert MAP.as_file(suffix) == MAP.as_file(suffix)


def test_a_map_names_what_it_shows() -> None:
    drawing = MAP.as_file(".svg").decode()
    for label in ("ROW_COUNT 4", "ROW_COUNT 5", "BATCH, rows", "max chunk, rows", "the proved line", *VERDICTS):
        assert f">{label}<" in drawing


def test_another_line_is_another_map() -> None:
    other = replace(MAP, panels=[replace(PANEL, line={1: 3, 2: 3, 3: 0}), MAP.panels[1]])
    assert other.as_file(".svg") != MAP.as_file(".svg")


def test_no_colour_is_fixed_that_a_dark_scheme_would_have_to_change() -> None:
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


def test_the_page_is_readable_in_a_real_browser(visit: Callable[..., Visit]) -> None:
    page = visit(MAP.as_file(".html").decode(), scheme="dark", scripts=False, width=1280, height=900).page
    assert page.inner_text("h1") == "Live <or> stuck"
    assert page.locator("tr.fails").count() == 1
    assert "permitflow check" in page.inner_text("footer")
    drawing = page.locator("svg").bounding_box()
    assert drawing is not None
    assert drawing["width"] > 1000
