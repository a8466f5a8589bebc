"""The drawing of a run shows the model's numbers, and stands alone."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from permitflow_model.permit_channel import Parameters
from permitflow_tools.explain.look import BAR_AT, BAR_WIDTH
from permitflow_tools.explain.looks.permit_channel.look import PLACES, ledger_of
from permitflow_tools.explain.looks.permit_channel.runs import live_run
from permitflow_tools.explain.run_page import MOST_ROWS, ROWS_AT_EACH_END, storyboard
from tests.permitflow_tools.explain.runs import shortest_stuck, states_of

SVG = "{http://www.w3.org/2000/svg}"
STUCK = Parameters(row_permits=8, permit_batch=3, max_chunk_cost=7, sizes=tuple(range(1, 8)))
LIVE = Parameters(
    row_permits=2048, permit_batch=256, max_chunk_cost=1792, sizes=(512, 1792), barrier_permits=1, watermarks=True
)


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(drawing).iter(f"{SVG}text")]


def bars(drawing: str) -> list[dict[str, float]]:
    """Of each drawn state: by place, how wide its pieces are together.  They stand side by side and fill the bar."""
    rows: dict[float, list[tuple[float, float, str]]] = {}
    for element in ET.fromstring(drawing).iter(f"{SVG}rect"):
        kind, _, place = element.get("class", "").partition(" ")
        # The legend's samples are 12 pixels high.
        if kind == "place" and element.get("height") != "12":
            x, y, width = (float(element.attrib[name]) for name in ("x", "y", "width"))
            rows.setdefault(y, []).append((x, width, place))
    widths = []
    for _, pieces in sorted(rows.items()):
        at: float = BAR_AT
        widths.append(dict.fromkeys(PLACES, 0.0))
        for x, width, place in pieces:
            assert x == pytest.approx(at, abs=0.4)  # rounding adds up
            at += width
            widths[-1][place] += width
        assert at == pytest.approx(BAR_AT + BAR_WIDTH, abs=0.4)
    return widths


@pytest.mark.parametrize("parameters", [LIVE, replace(LIVE, flush_idle=True)])
def test_every_bar_is_divided_as_the_permits_are(parameters: Parameters) -> None:
    run = live_run(parameters)
    drawn = bars(storyboard(run))
    for row, state in zip(drawn, states_of(run), strict=True):
        for place, permits in ledger_of(state)._asdict().items():
            assert row[place] == pytest.approx(permits.rows * BAR_WIDTH / parameters.row_permits, abs=0.05)


def test_a_long_run_is_drawn_as_its_beginning_and_its_end() -> None:
    parameters = replace(LIVE, sizes=(1,), row_permits=64, initial_permits=64, permit_batch=16, max_chunk_cost=48)
    run = live_run(parameters)
    assert len(run.steps) >= MOST_ROWS
    drawing = storyboard(run)
    assert len(bars(drawing)) == 2 * ROWS_AT_EACH_END
    assert f"{len(run.steps) + 1 - 2 * ROWS_AT_EACH_END} steps are not drawn" in texts(drawing)
    assert str(len(run.steps)) in texts(drawing)


def test_it_stands_alone_and_takes_no_markup_from_texts() -> None:
    stuck = shortest_stuck(STUCK)
    hostile = replace(stuck, title="</svg><script>alert(1)</script>", sentence="a & b < c")
    drawing = storyboard(hostile)
    tags = {element.tag for element in ET.fromstring(drawing).iter()}
    assert f"{SVG}script" not in tags
    assert "prefers-color-scheme: dark" in drawing
    assert re.findall(r"(?:href|src|url\()", drawing) == []
    assert "<style>" not in storyboard(stuck, standalone=False)
