"""A run of a user's own model is a page, too, with the model's own text."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.liveness import Lasso
from permitflow_model.kernel.system import Action, LeadsTo, System, require
from permitflow_tools.explain.own import OwnLook, explain_states, explain_system, own_page
from permitflow_tools.explain.run import RunOutcome
from permitflow_tools.explain.run_page import page_of, storyboard
from permitflow_tools.explain.state_graph import graph_page, graph_sentence, reachable
from tests.support.browser import Visit
from tests.support.own_model import CALLS, ENDLESS, FIVE, SIX, send
from tests.support.pages import PageReader


def embedded(page: str) -> dict[str, Any]:
    (text,) = PageReader(page).data.values()
    document: dict[str, Any] = json.loads(text)
    return document


def test_a_deadlock_is_told_with_the_guards_and_their_values() -> None:
    document = embedded(own_page(CALLS, SIX, explore(CALLS, SIX).deadlock))
    assert document["sentence"] == "After 10 steps nothing but the application can move."
    told = [None if number < 0 else document["reasonTexts"][number] for number in document["reasons"][-1]]
    assert told == [
        "state.requests < service.requests is false (2 < 2)",
        "state.at_work == 0 is false (1 == 0)",
        "state.replies < service.replies is false (2 < 2)",
        "state.sent == service.calls is false (5 == 6)",
        None,
    ]


def test_a_state_without_steps_is_told_without_the_application() -> None:
    run, _ = explain_system(replace(CALLS, actions=CALLS.actions[:-1]), SIX)
    assert run.sentence == "After 10 steps nothing can move."


def test_the_page_has_the_text_of_each_action() -> None:
    action = embedded(own_page(CALLS, SIX))["actions"][0]
    assert action["place"] == f"own_model.py:{send.__code__.co_firstlineno}"
    assert action["text"].startswith("def send(state: State, service: Service) -> State:")
    assert action["does"] == "The client sends a call."


def test_a_live_model_is_shown_by_its_farthest_state() -> None:
    run, found = explain_system(CALLS, FIVE)
    assert (run.verdict, found) == (RunOutcome.LIVE, None)
    assert run.sentence.startswith("All 35 states were visited: none is stuck, and Bounded holds.")
    assert len(run.steps) == explore(CALLS, FIVE).depth - 1


def test_what_never_happens_in_a_live_model_is_told() -> None:
    def never(number: int, _: None) -> int:
        require(number < 0)
        return number

    promise = LeadsTo[int, None](lambda number, _: number > 9, lambda number, _: number == 0)
    moves = [Action[int, None](name, never) for name in ("sink", "fly")]
    stay = Action[int, None]("stay", lambda number, _: number)
    run, _ = explain_system(System("Idle", lambda _: 0, (stay, *moves), {}, leads_to={"Landed": promise}), None)
    assert "In none of them sink, fly are possible. In none of them the premise of Landed holds." in run.sentence


def test_a_loop_is_shown_at_the_end_of_its_run() -> None:
    run, found = explain_system(ENDLESS, FIVE)
    assert isinstance(found, Lasso)
    assert run.verdict is RunOutcome.VIOLATED
    assert [step.state for step in run.steps][-1] == (run.steps[len(found.steps) - 1].state)
    assert run.conclusions[0].heading == "And so for ever"


def test_a_broken_invariant_comes_first() -> None:
    broken = replace(CALLS, invariants={"Few": lambda state, _: state.sent < 3})
    run, _ = explain_system(broken, SIX)
    assert run.sentence == "After 4 steps Few does not hold."


def test_what_is_wrong_early_in_an_endless_model_is_shown() -> None:
    up = Action[int, None]("up", lambda number, _: number + 1)
    endless = System[int, None]("Endless", lambda _: 0, (up,), {"Small": lambda number, _: number < 3})
    run, _ = explain_system(endless, None, max_states=10)
    assert run.sentence == "After 3 steps Small does not hold."


def test_a_state_that_is_a_number_has_a_page() -> None:
    def up(number: int, _: None) -> int:
        require(number < 3)
        return number + 1

    run, _ = explain_system(System[int, None]("Up", lambda _: 0, (Action("up", up),), {}), None)
    assert run.look.variables(run.end) == {"state": "3"}
    assert "up" in storyboard(run)


def test_an_action_without_text_refuses_all_the_same() -> None:
    names: dict[str, Any] = {"require": require}
    exec("def up(number, _):\n    require(number < 3)\n    return number + 1", names)
    system = System[int, None]("Up", lambda _: 0, (Action("up", names["up"]),), {})
    document = embedded(own_page(system, None))
    assert document["reasonTexts"] == ["it refuses"]
    assert document["actions"][0]["text"] == "(its text is in no file)"


class Level(Enum):
    HIGH = "high"
    LOW = "low"


class Nameless:
    def __repr__(self) -> str:
        raise ValueError("I have no name")


ODD_VALUES = (Level.LOW, "</script>\ud800", None, 2.5, b"\xff", (1, None), frozenset({1, "a"}), 10**5_000, Nameless())


@pytest.mark.parametrize("value", ODD_VALUES, ids=lambda value: type(value).__name__)
def test_a_value_of_any_kind_is_shown(value: object) -> None:
    def take(state: tuple[object], _: None, given: object) -> tuple[object]:
        require(state != (given,))
        return (given,)

    action = Action[tuple[object], None]("take", take, arguments=lambda _: [(value,)])  # type: ignore[list-item]
    system = System[tuple[object], None]("Odd", lambda _: (0,), (action,), {"Zero": lambda state, _: state == (0,)})
    run, found = explain_system(system, None)
    assert "Zero does not hold" in str(found)
    for text in (page_of(run), storyboard(run), graph_page(explain_states(system, None)[0])):
        assert "take(" in text.encode().decode()


def test_a_set_is_told_in_one_order() -> None:
    look = OwnLook(CALLS)
    members = [frozenset({number}) for number in range(20)]
    assert look.value(frozenset(members)) == look.value(frozenset(reversed(members)))
    assert look.value(frozenset({10, 9})) == "⟨9, 10⟩"


def test_a_graph_that_graphviz_cannot_route_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    drawing = '<svg width="9pt" height="9pt" viewBox="0 0 9 9"></svg>'
    program.write_text(f"#!/bin/sh\ngrep -q xlabel && echo '{drawing}'\n")  # with names in the way it fails
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert '<svg class="graph" role="img"' in graph_page(reachable(OwnLook(CALLS), SIX))


def test_the_graph_marks_what_the_application_alone_can_leave() -> None:
    graph = reachable(OwnLook(CALLS), SIX)
    assert graph_sentence(graph) == "18 states and 41 steps: 1 state is stuck (red), 10 steps from the beginning."
    assert "Calls with calls 6, requests 2, replies 2" in graph_page(graph)


def test_the_page_of_a_model_works_in_a_browser(visit: Callable[..., Visit]) -> None:
    page = visit(own_page(CALLS, SIX), fragment="step=10").page
    assert page.locator("#passage h2").inner_text().startswith("send in the model own_model.py:")
    assert page.locator("#variables tr").count() == 5
