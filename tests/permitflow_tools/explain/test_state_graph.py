"""Pictures of state graphs hold every state and every step; their pages are looked at in a real browser."""

import shutil
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable

import pytest

from permitflow_model.kernel.explore import StateLimitReached, explore
from permitflow_model.permit_channel import SYSTEM, Parameters, is_stuck
from permitflow_tools.explain.looks.permit_channel.look import LOOK, PLACES, ledger_of
from permitflow_tools.explain.own import OwnLook
from permitflow_tools.explain.state_graph import MOST_LABELS, StateGraph, graph_drawing, graph_page, reachable
from tests.support.browser import Visit
from tests.support.own_model import CALLS, SIX

SVG = "{http://www.w3.org/2000/svg}"
TINY = Parameters(row_permits=2, permit_batch=2, max_chunk_cost=2, sizes=(1, 2))
SMALL = Parameters(row_permits=3, permit_batch=2, max_chunk_cost=3, sizes=(1, 2, 3))
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="there is no Graphviz")
LIVE = Parameters(row_permits=2, permit_batch=1, max_chunk_cost=2, sizes=(1, 2), barrier_permits=1, flush_idle=True)


@pytest.fixture(params=[TINY, SMALL, LIVE], ids=["tiny", "small", "live"])
def graph(request: pytest.FixtureRequest) -> StateGraph:
    parameters = request.param
    assert isinstance(parameters, Parameters)
    return reachable(LOOK, parameters)


def test_the_graph_is_the_explorer_s(graph: StateGraph) -> None:
    explored = explore(SYSTEM, graph.parameters)
    assert list(graph.states) == explored.states
    assert Counter((edge.source, edge.action, edge.target) for edge in graph.edges) == Counter(explored.edges)
    assert max(graph.depths) == explored.depth - 1
    assert graph.stuck == {number for number, state in enumerate(explored.states) if is_stuck(state, graph.parameters)}


@needs_dot
def test_the_drawing_holds_every_state_and_every_step(graph: StateGraph) -> None:
    root = ET.fromstring(graph_drawing(graph))
    drawn = {element.attrib["id"]: element for element in root.iter(f"{SVG}g") if element.get("id")}

    def text_of(name: str) -> str | None:
        return next((text.text for text in drawn[name].iter(f"{SVG}text")), None)

    for number, state in enumerate(graph.states):
        assert text_of(f"state-{number}") == str(state.permits.rows)
        assert ("stuck" in drawn[f"state-{number}"].attrib["class"].split()) == (number in graph.stuck)
    for number, edge in enumerate(graph.edges):
        assert drawn[f"edge-{number}"].attrib["class"].split()[:2] == ["edge", edge.action]
        assert text_of(f"edge-{number}") == (edge.label if len(graph.edges) <= MOST_LABELS else None)


def test_a_graph_that_shows_nothing_any_more_is_refused() -> None:
    with pytest.raises(StateLimitReached, match="more than 100 reachable states"):
        reachable(LOOK, SMALL, most=100)


Open = Callable[..., Visit]


@needs_dot
def test_a_state_graph_is_walked_by_keyboard(visit: Open) -> None:
    graph = reachable(LOOK, Parameters(row_permits=3, permit_batch=2, max_chunk_cost=3, sizes=(1, 2, 3)))
    (stuck,) = graph.stuck
    opened = visit(graph_page(graph))
    heading = opened.page.locator("#state h2")
    assert heading.inner_text() == f"State {stuck}"
    assert "the chunk needs 3 permits, 2 are at the sender" in opened.page.locator("#state").inner_text().replace(
        "\n", " "
    )
    way = opened.page.locator("#state .ways button").all_inner_texts()
    at = stuck
    expected: list[str] = []
    while at:
        edge = graph.edges[graph.arrivals[at]]
        expected.insert(0, edge.label)
        at = edge.source
    assert way == expected
    assert opened.page.locator(".graph .edge.way").count() == len(expected)
    opened.press("Home")
    assert heading.inner_text() == "State 0"
    for _ in range(graph.depths[stuck]):
        opened.press("ArrowRight")
    assert opened.page.evaluate("location.hash") != "#state=0"
    for _ in range(graph.depths[stuck]):
        opened.press("ArrowLeft")
    assert opened.page.evaluate("location.hash") == "#state=0"
    opened.press("ArrowRight", "ArrowDown")
    assert opened.page.evaluate("location.hash") == "#state=2"
    opened.page.locator("#next-stuck").click()
    assert opened.page.evaluate("location.hash") == f"#state={stuck}"


@needs_dot
def test_a_graph_without_a_stuck_state_offers_none(visit: Open) -> None:
    graph = reachable(LOOK, Parameters(row_permits=2, permit_batch=1, max_chunk_cost=1, sizes=(1,)))
    assert visit(graph_page(graph)).page.locator("#next-stuck").is_hidden()


@needs_dot
def test_every_state_of_a_graph_shows_the_model_s_numbers(visit: Open) -> None:
    graph = reachable(LOOK, Parameters(row_permits=2, permit_batch=2, max_chunk_cost=2, sizes=(1, 2)))
    opened = visit(graph_page(graph), scheme="dark", width=800)
    panel = opened.page.locator("#state")
    for number, state in enumerate(graph.states):
        opened.page.locator(f"#state-{number}").dispatch_event("click")
        counts = zip(PLACES.values(), ledger_of(state).of_class("rows"), strict=True)
        label = panel.locator(".bar").get_attribute("aria-label")
        assert label == ", ".join(f"{place} {count}" for place, count in counts)
        out = [edge for edge in graph.edges if edge.source == number]
        targets = panel.locator("h3:text('Steps out of it') + *").evaluate(
            "(list) => [...list.querySelectorAll('button')].map((one) => [one.textContent, Number(one.dataset.target)])"
        )
        assert targets == [[edge.label, edge.target] for edge in out]


WHOLE = """() => {
  const frame = document.querySelector(".graph-scroll"), drawing = frame.querySelector("svg");
  return [frame.scrollWidth - frame.clientWidth, frame.scrollHeight - frame.clientHeight];
}"""


@needs_dot
@pytest.mark.parametrize("width", [390, 1400])
def test_a_large_graph_fits_when_asked_to(visit: Callable[..., Visit], width: int) -> None:
    large = reachable(LOOK, Parameters(row_permits=4, permit_batch=2, max_chunk_cost=4, sizes=(1, 2, 3, 4)))
    page = visit(graph_page(large), width=width).page
    page.locator("#fit").click()
    assert page.evaluate(WHOLE) == [0, 0]


@needs_dot
def test_edges_are_seen_beside_a_chosen_state(visit: Callable[..., Visit]) -> None:
    page = visit(graph_page(reachable(LOOK, SMALL))).page
    faintest = (
        "Math.min(...[...document.querySelectorAll('.edge')].map((edge) => Number(getComputedStyle(edge).opacity)))"
    )
    assert page.evaluate(faintest) >= 0.5


def test_a_graph_without_graphviz_is_walked_in_a_list(
    visit: Callable[..., Visit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    text = graph_page(reachable(LOOK, TINY))
    monkeypatch.undo()
    opened = visit(text)
    opened.page.locator("#state-3").click()
    assert opened.page.locator("#state h2").inner_text() == "State 3"
    assert opened.page.locator(".states .chosen").inner_text() == "3"
    opened.press("ArrowLeft")
    assert opened.page.locator("#state h2").inner_text() != "State 3"


def test_each_action_of_ones_own_model_has_a_colour(visit: Callable[..., Visit]) -> None:
    page = visit(graph_page(reachable(OwnLook(CALLS), SIX))).page
    colours = page.evaluate(
        "[...document.querySelectorAll('.legend .edge path')].map((path) => getComputedStyle(path).stroke)"
    )
    assert len(set(colours)) == len(colours) == 4
