"""Pages on which the reader takes the steps: their states are the model's, and so are the verdicts."""

import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.permit_channel import SYSTEM, Parameters
from permitflow_tools.explain.look import Look
from permitflow_tools.explain.looks.permit_channel.look import LOOK
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.own import own_page
from permitflow_tools.explain.playground import PlaygroundSetting, play_page
from permitflow_tools.explain.playgrounds import PLAYGROUNDS
from permitflow_tools.explain.run_page import page_of
from permitflow_tools.explain.surroundings import Surroundings
from tests.permitflow_tools.explain.runs import run_of, shortest_stuck
from tests.permitflow_tools.explain.test_browser_runs import read, shows
from tests.support.axe import violations
from tests.support.browser import Visit
from tests.support.own_model import CALLS, SIX

Open = Callable[..., Visit]
STUCK = Parameters(row_permits=4, permit_batch=3, max_chunk_cost=3, sizes=(1, 2, 3))
DEADLOCK = ("OfferChunk(1)", "SendChunk", "Deliver", "Consume", "OfferChunk(2)")


def graph_of(look: Look, parameters: Any, most: int) -> tuple[dict[str, Any], dict[str, Any]]:
    surroundings = Surroundings(look)
    graph: dict[str, Any] = surroundings.graph(parameters, look.system.initial(parameters), most=most)
    tables: dict[str, Any] = surroundings.document()
    return graph, tables


@pytest.mark.parametrize(
    ("look", "parameters"),
    [
        (LOOK, STUCK),
        *(
            (each.look, each.setting(*(k.start for k in each.knobs)).parameters)
            for each in [PLAYGROUNDS["mute"], PLAYGROUNDS["demand"]]
        ),
    ],
    ids=["PermitChannel", "Mute", "Demand"],
)
def test_a_page_has_exactly_the_states_and_steps_of_the_model(look: Look, parameters: Any) -> None:
    explored = explore(look.system, parameters, invariants={})
    graph, tables = graph_of(look, parameters, most=explored.state_count)
    names = [action.name for action in look.system.actions]
    steps = [
        (source, (names[action], *arguments), way[place + 1])
        for source, way in enumerate(graph["steps"])
        for place in range(0, len(way), 2)
        for action, *arguments in [tables["moves"][way[place]]]
    ]
    of_model = zip(explored.sources, (explored.moves[taken] for taken in explored.taken), explored.targets, strict=True)
    assert steps == [(source, (name, *arguments), target) for source, (name, arguments), target in of_model]
    told = [[tables["viewTexts"][text] for text in tables["views"][view][0]] for view in graph["states"]]
    assert told == [list(look.variables(state).values()) for state in explored.states]
    assert graph["stuck"] == [n for n, state in enumerate(explored.states) if look.is_stuck(state, parameters)]


def test_a_page_ends_where_it_would_need_more_states_and_says_so() -> None:
    graph, _ = graph_of(LOOK, STUCK, most=20)
    assert len(graph["states"]) <= 20
    assert graph["steps"][0] is not None
    assert None in graph["steps"]
    assert all(target < 20 for way in graph["steps"] if way for target in way[1::2])


def is_live(setting: PlaygroundSetting, look: Look) -> bool:
    """By the model: all states."""
    system = setting.system or look.system
    invariant = {"NeverStuck": system.invariants["NeverStuck"]}
    return not explore(system, setting.parameters, invariants=invariant, stop_at_violation=True).violations


@pytest.mark.parametrize("name", ["permit-channel", "demand"])
def test_the_verdict_on_small_numbers_is_what_the_model_finds(name: str) -> None:
    playground = PLAYGROUNDS[name]
    small = [key for key in playground.settings() if key < "3"]
    settings = playground.settings()
    assert {key: settings[key].is_live for key in small} == {
        key: is_live(settings[key], playground.look) for key in small
    }


@pytest.mark.sample
def test_a_reader_may_leave_the_run_and_come_back_to_it(visit: Open) -> None:
    run = shortest_stuck(STUCK)
    opened = visit(page_of(run), fragment="step=0")
    walk = random.Random(3)
    steps = []
    state = run.start
    for _ in range(12):
        possible = list(SYSTEM.successors(state, STUCK))
        if not possible:
            break
        step = walk.choice(possible)
        opened.page.locator(f'#possible [data-call="{step.call}"]').click()
        steps.append(step)
        state = step.state
        shows(read(opened), run_of(STUCK, steps), len(steps))
    opened.page.get_by_role("button", name="Back to the run").click()
    opened.press("End")
    shows(read(opened), run, len(run.steps))


def test_a_step_is_taken_by_the_keyboard_and_the_focus_stays(visit: Open) -> None:
    opened = visit(page_of(shortest_stuck(STUCK)), fragment="step=0")
    button = opened.page.get_by_role("button", name="OfferChunk(3)")
    button.focus()
    opened.press("Enter")
    opened.press("Enter")  # on the first step that is possible now
    assert opened.page.locator("#position").inner_text() == "Step 2 of 2: SendChunk"


def test_a_model_of_one_s_own_is_played_the_same_way(visit: Open) -> None:
    opened = visit(own_page(CALLS, SIX), fragment="step=0")
    opened.page.get_by_role("button", name="send", exact=True).click()
    assert opened.page.locator("#step-heading").inner_text().startswith("Step 1: send")


@cache
def page(name: str) -> str:
    return play_page(PLAYGROUNDS[name], PLAYGROUNDS.values())


def test_a_page_to_play_with_tells_how_far_it_is() -> None:
    shares: list[float] = []
    play_page(PLAYGROUNDS["demand"], report=shares.append)
    assert (len(shares), shares[-1]) == (len(PLAYGROUNDS["demand"].settings()), 1)
    assert shares == sorted(set(shares))


def test_numbers_are_chosen_by_the_keyboard(visit: Open) -> None:
    opened = visit(page("demand"))
    for knob, key in (("batch", "End"), ("size", "ArrowLeft"), ("pulls", " ")):
        opened.page.locator(f"#knob-{knob}").focus()
        opened.press(key)
    assert opened.page.evaluate("location.hash") == "#set=2-5-1"
    assert opened.page.get_by_role("status").first.inner_text() == opened.page.locator("header .sentence").inner_text()


@pytest.mark.long
def test_the_smallest_deadlock_is_found_by_clicks(visit: Open) -> None:
    opened = visit(page("permit-channel"))
    for knob in ("row_permits", "permit_batch", "max_chunk_cost"):
        opened.page.locator(f"#knob-{knob}").fill("2")
    assert opened.page.locator(".title .badge").inner_text() == "can get stuck"
    for call in DEADLOCK:
        opened.page.get_by_role("button", name=call).click()
    assert opened.page.locator("#possible h2").inner_text() == "Nothing can move any more"
    assert "After 5 steps. There is no shorter way." in opened.page.locator("#conclusions").inner_text()
    opened.page.locator("#knob-flush_idle").check()
    assert opened.page.locator(".title .badge").inner_text() == "never stuck"
    assert not opened.page.locator("#shortest").is_enabled()


@pytest.mark.parametrize("way", ["0.0.2.2.1", "0.0.2.2.1.0", "0.0.2.2.1.7.1"], ids=["whole", "stuck before", "beyond"])
def test_an_address_keeps_the_steps_that_are_possible(visit: Open, way: str) -> None:
    opened = visit(page("permit-channel"), fragment=f"set=2-2-2-0&way={way}")
    assert opened.page.locator("#position").inner_text() == "Step 5 of 5: OfferChunk(2)"
    opened.press("ArrowLeft")
    assert opened.page.evaluate("location.hash") == "#set=2-2-2-0&way=0.0.2.2"


def test_a_printed_page_shows_the_chosen_numbers_alone(visit: Open) -> None:
    opened = visit(page("demand"))
    opened.page.emulate_media(media="print")
    assert opened.page.locator("#knob-size").is_visible()
    assert not opened.page.locator(".storyboard").is_visible()


@pytest.mark.long
@pytest.mark.parametrize("name", PLAYGROUNDS)
def test_each_choice_shows_the_verdict_of_the_model(visit: Open, name: str) -> None:
    playground = PLAYGROUNDS[name]
    opened = visit(page(name))
    for key, setting in playground.settings().items():
        opened.page.evaluate(f"location.hash = '#set={key}'")
        opened.page.wait_for_function(f"location.hash === '#set={key}'")
        seen = opened.page.locator(".title .badge").inner_text() == "never stuck"
        # A gate with buffers of its own has too many states: theorems decide there, and for buffers out of nothing.
        assert seen == (setting.is_live if name == "gate" else is_live(setting, playground.look)), key
        assert opened.page.locator("p.sentence").inner_text() == setting.sentence


@pytest.mark.long
@pytest.mark.parametrize("name", PLAYGROUNDS)
def test_the_shown_way_ends_where_nothing_can_move(visit: Open, name: str) -> None:
    playground = PLAYGROUNDS[name]
    key, setting = next((k, s) for k, s in playground.settings().items() if not s.is_live and s.steps)
    opened = visit(page(name), fragment=f"set={key}")
    opened.page.locator("#shortest").click()
    opened.press("End")
    assert (
        opened.page.locator("#position").inner_text().startswith(f"Step {len(setting.steps)} of {len(setting.steps)}")
    )
    assert "There is no shorter way" in opened.page.locator("#conclusions").inner_text()


@pytest.mark.long
@pytest.mark.parametrize("name", PLAYGROUNDS)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_everybody_can_use_a_page(visit: Open, name: str, scheme: str, width: int) -> None:
    opened = visit(page(name), scheme=scheme, width=width)
    assert violations(opened.page) == []
    opened.page.locator("#possible button").first.click()
    assert violations(opened.page) == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.long
@pytest.mark.parametrize("name", PLAYGROUNDS)
def test_a_telephone_shows_the_picture_and_its_buttons(visit: Open, name: str) -> None:
    opened = visit(page(name), width=360)
    opened.page.set_viewport_size({"width": 360, "height": 640})
    opened.page.evaluate("document.querySelector('main').scrollIntoView()")
    picture = opened.page.locator("#scene, #variables").filter(visible=True).first.bounding_box()
    button = opened.page.locator("#possible button").first.bounding_box()
    assert picture is not None
    assert button is not None
    assert 0 <= picture["y"] < picture["y"] + picture["height"] <= button["y"]
    assert button["y"] + button["height"] <= 640


def test_the_document_of_a_page_is_json() -> None:
    graph, tables = graph_of(look_of("InputGate"), PLAYGROUNDS["gate"].setting(0, 1, True, True, True).parameters, 30)
    assert json.loads(json.dumps([graph, tables])) == [graph, tables]
