"""Any system can be shown: by its variables, with the words that its look has for them."""

import random
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from permitflow_model.exploration import is_explorable, parameters_for
from permitflow_model.grpc_call import Message
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.queue import Fifo
from permitflow_model.registry import systems
from permitflow_model.stop_and_wait import SYSTEM, Parameters
from permitflow_tools.explain.document import document_of
from permitflow_tools.explain.look import COMMON_WORDS
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.run_page import page_of, storyboard
from permitflow_tools.explain.state_graph import dot_of, graph_document, graph_page, reachable
from tests.permitflow_tools.explain.runs import guards_of, states_of, walked
from tests.support.browser import Visit
from tests.support.specification import MODELS

PARAMETERS = Parameters(waiters=2, withdrawals=True)
LOOK = look_of(SYSTEM.module)


def choices(count: int) -> list[int]:
    choose = random.Random(1)
    return [choose.randrange(1_000) for _ in range(count)]


@pytest.mark.parametrize("module", systems())
def test_a_run_of_any_system_is_a_page_and_a_drawing(module: str) -> None:
    model = next(each for each in MODELS.values() if each.module == module and is_explorable(each))
    run = walked(look_of(module), parameters_for(model), choices(30))
    page, drawing = page_of(run, most_states=50), ET.fromstring(storyboard(run))
    assert f"{module}.tla" in page
    texts = {element.text or "" for element in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert {step.action for step in run.steps} <= {text.partition("(")[0] for text in texts}


def test_the_page_is_told_each_variable_in_each_state() -> None:
    run = walked(LOOK, PARAMETERS, choices(40))
    document: dict[str, Any] = document_of(run)
    told = [[document["valueTexts"][number] for number in row] for row in document["values"]]
    assert told == [list(LOOK.variables(state).values()) for state in states_of(run)]
    assert LOOK.variables(run.start)["waiting"] == "\u27e8\u27e9"


@pytest.mark.parametrize("module", [name for name in systems() if set(look_of(name).words) - set(COMMON_WORDS)])
def test_there_are_words_for_exactly_the_guards_that_the_model_has(module: str) -> None:
    look = look_of(module)
    guards = {guard for action in look.system.actions for guard in guards_of(action.perform)}
    assert guards - set(look.words) == set()
    assert set(look.words) - guards <= set(COMMON_WORDS)


def test_a_calls_message_is_its_number_and_its_bytes() -> None:
    assert look_of("GrpcCall").value(Fifo((Message(0, 1), Message(12, 3_000)))) == "⟨#0, #12 (3,000 B)⟩"


def test_the_page_of_another_protocol_has_all_its_states() -> None:
    graph, explored = reachable(LOOK, PARAMETERS), explore(SYSTEM, PARAMETERS)
    assert (len(graph.states), len(graph.edges)) == (len(explored.states), len(explored.edges))
    assert not graph.stuck
    assert f"{len(explored.states)} states of StopAndWait with Waiters 2" in graph_page(graph)
    assert graph_document(graph)["variables"] == ["waiting", "free", "wire", "inbox", "answers"]
    assert dot_of(graph).count(" -> ") == len(graph.edges)


def in_boxes(text: str) -> str:
    """The page puts each item of a sequence into a box, without brackets."""
    return text.strip("\u27e8\u27e9").replace(", ", " ") or text


def test_a_browser_shows_what_the_model_says(visit: Callable[..., Visit]) -> None:
    run = walked(LOOK, PARAMETERS, choices(12))
    opened = visit(page_of(run), fragment="step=0", width=800)
    for k, state in enumerate(states_of(run)):
        rows = opened.page.locator("#variables tr")
        shown: Sequence[str] = rows.locator("td:first-of-type").all_inner_texts()
        assert list(shown) == [in_boxes(text) for text in LOOK.variables(state).values()]
        before = states_of(run)[max(k - 1, 0)]
        changed = [name for name, value in LOOK.variables(state).items() if k and LOOK.variables(before)[name] != value]
        assert opened.page.locator("#variables tr.changed th").all_inner_texts() == changed
        opened.page.keyboard.press("ArrowRight")
    assert not opened.page.locator("#scene").is_visible()
    assert not opened.page.locator("#ledgers").is_visible()
