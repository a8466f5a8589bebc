"""Pages of state graphs in a real, headless Chromium without a network."""

from collections.abc import Callable

from permitflow.pictures.document import PLACES, ledger_of
from permitflow.pictures.state_graph import graph_page, reachable
from permitflow_model.permit_channel import Parameters
from tests.support.browser import Visit

Open = Callable[..., Visit]


def test_a_state_graph_is_walked_by_keyboard(visit: Open) -> None:
    graph = reachable(Parameters(row_count=3, batch=2, clamp=3, sizes=(1, 2, 3)))
    (stuck,) = graph.stuck
    opened = visit(graph_page(graph))
    heading = opened.page.locator("#state h2")
    assert heading.inner_text() == f"State {stuck} of {len(graph.states) - 1}"
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
    assert heading.inner_text().startswith("State 0 of")
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


def test_every_state_of_a_graph_shows_the_model_s_numbers(visit: Open) -> None:
    graph = reachable(Parameters(row_count=2, batch=2, clamp=2, sizes=(1, 2)))
    opened = visit(graph_page(graph), scheme="dark", width=800)
    panel = opened.page.locator("#state")
    for number, state in enumerate(graph.states):
        opened.page.locator(f".graph [data-state='{number}']").dispatch_event("click")
        counts = zip(PLACES.values(), ledger_of(state).of_class("rows"), strict=True)
        label = panel.locator(".bar").get_attribute("aria-label")
        assert label == ", ".join(f"{place} {count}" for place, count in counts)
        out = [edge for edge in graph.edges if edge.source == number]
        targets = panel.locator("h3:text('Steps out of it') + *").evaluate(
            "(list) => [...list.querySelectorAll('button')].map((one) => [one.textContent, Number(one.dataset.target)])"
        )
        assert targets == [[edge.label, edge.target] for edge in out]


def test_the_drawing_grows_and_fits(visit: Open) -> None:
    opened = visit(graph_page(reachable(Parameters(row_count=3, batch=2, clamp=3, sizes=(1, 2, 3)))), width=900)
    drawing = opened.page.locator(".graph-scroll svg")

    def width() -> float:
        box = drawing.bounding_box()
        assert box is not None
        return box["width"]

    fitting = width()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 900
    opened.press("+", "+")
    assert abs(width() / fitting - 1.25**2) < 0.01
    opened.page.locator("#smaller").click()
    assert abs(width() / fitting - 1.25) < 0.01
    opened.page.locator("#fit").click()
    assert abs(width() - fitting) < 1
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 900
