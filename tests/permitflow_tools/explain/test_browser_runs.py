"""Pages in a real, headless Chromium without a network: they load, step, and show the model's numbers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import expect

from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters, State
from permitflow_tools.explain.looks.permit_channel.look import PLACES, ledger_of
from permitflow_tools.explain.looks.permit_channel.runs import live_run
from permitflow_tools.explain.run import ExplainedRun, RunOutcome
from permitflow_tools.explain.run_page import page_of
from permitflow_tools.explain.specification import Specification
from tests.permitflow_tools.explain.runs import run_of, shortest_stuck
from tests.support.browser import Scheme, Visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STUCK = Parameters(row_permits=8, permit_batch=3, max_chunk_cost=7, sizes=tuple(range(1, 8)))
LIVE = Parameters(
    row_permits=2048,
    permit_batch=256,
    max_chunk_cost=1792,
    sizes=tuple(range(1, 1793)),
    barrier_permits=1,
    watermarks=True,
    flush_idle=True,
)

READ_RUN = Path(__file__).with_name("read_run.js").read_text()
CONTRASTS = Path(__file__).with_name("contrasts.js").read_text()
TEXTS_OUTSIDE = Path(__file__).with_name("texts_outside.js").read_text()
TWENTY_STEPS = Path(__file__).with_name("twenty_steps.js").read_text()
Open = Callable[..., Visit]


def read(visit: Visit) -> dict[str, Any]:
    seen = visit.page.evaluate(READ_RUN)
    assert isinstance(seen, dict)
    return seen


@pytest.fixture(scope="module")
def stuck() -> ExplainedRun:
    return shortest_stuck(STUCK, advice=["a batch of 2"])


@pytest.fixture(scope="module")
def live() -> ExplainedRun:
    return live_run(LIVE)


def shows(seen: dict[str, Any], run: ExplainedRun, k: int) -> None:
    """The page shows state ``k`` as the model has it."""
    state = run.steps[k - 1].state if k else run.start
    for name, counts in seen["ledgers"].items():
        assert counts == dict(zip(PLACES, ledger_of(state).of_class(name), strict=True))
    rows = ledger_of(state).of_class("rows")
    assert seen["sum"] == f"{' + '.join(map(str, rows))} = {run.parameters.row_permits}"
    assert seen["boxes"]["wire"] == [message.cost for message in state.wire if message.kind == "chunk"]
    assert seen["boxes"]["inbox"] == [message.cost for message in state.inbox if message.kind == "chunk"]
    assert seen["boxes"]["waiting"] == [message.cost for message in state.waiting if message.kind == "chunk"]
    assert seen["boxes"]["grants"] == [grant.rows for grant in reversed(tuple(state.grants)) if grant.rows]
    others = [message for message in (*state.wire, *state.inbox, *state.waiting) if message.kind != "chunk"]
    grants = [grant for grant in state.grants if not grant.rows]
    assert seen["flags"] == len(others) + len(grants) + (state.watermark_pending >= 0)
    protocol = [action.name for action in SYSTEM.actions if not action.is_environment]
    assert seen["enabled"] == [name for name in protocol if SYSTEM.is_enabled(name, state, run.parameters)]
    assert (seen["slider"], seen["address"]) == (k, f"#step={k}")
    call = f": {run.steps[k - 1].action}" if k else ""
    assert seen["position"].startswith(f"Step {k} of {len(run.steps)}{call}")
    if k:
        assert seen["place"] == Specification(SYSTEM.module).operators()[run.steps[k - 1].action].place


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), pytest.param("dark", 390, marks=pytest.mark.sample)])
def test_every_step_shows_the_model_s_numbers(visit: Open, live: ExplainedRun, scheme: Scheme, width: int) -> None:
    opened = visit(page_of(live), scheme=scheme, width=width)
    assert set(read(opened)["ledgers"]) == {"rows", "barriers", "watermarks"}
    for k in range(len(live.steps) + 1):
        shows(read(opened), live, k)
        opened.press("ArrowRight")
    shows(read(opened), live, len(live.steps))


def test_the_keyboard_goes_everywhere(visit: Open, live: ExplainedRun) -> None:
    opened = visit(page_of(live))
    last = len(live.steps)
    tenth = int(last / 10 + 0.5)
    for key, k in [
        ("End", last),
        ("ArrowLeft", last - 1),
        ("PageUp", last - 1 - tenth),
        ("Home", 0),
        ("ArrowLeft", 0),
        ("PageDown", tenth),
    ]:
        opened.press(key)
        shows(read(opened), live, k)


def test_the_slider_the_buttons_and_the_timeline_go_to_steps(visit: Open, live: ExplainedRun) -> None:
    opened = visit(page_of(live))
    slider = opened.page.locator("#slider")
    slider.fill("7")
    shows(read(opened), live, 7)
    slider.focus()
    opened.press("ArrowRight")
    shows(read(opened), live, 8)
    for button, k in [("#forward", 9), ("#back", 8), ("#last", len(live.steps)), ("#first", 0)]:
        opened.page.locator(button).click()
        shows(read(opened), live, k)
    timeline = opened.page.locator("#history")
    box = timeline.bounding_box()
    assert box is not None
    column = box["width"] / (len(live.steps) + 1)
    timeline.click(position={"x": 12.5 * column, "y": 20})
    shows(read(opened), live, 12)


def test_the_address_leads_to_a_step(visit: Open, live: ExplainedRun) -> None:
    opened = visit(page_of(live), fragment="step=7")
    shows(read(opened), live, 7)
    opened.page.evaluate("location.hash = '#step=3'")
    expect(opened.page.locator("#slider")).to_have_value("3")
    shows(read(opened), live, 3)
    opened.page.evaluate("location.hash = '#step=99999'")
    expect(opened.page.locator("#slider")).to_have_value(str(len(live.steps)))


def test_space_plays_to_the_end_and_stops_there(visit: Open, stuck: ExplainedRun) -> None:
    opened = visit(page_of(stuck), fragment="step=0")
    opened.page.locator("h1").click()
    opened.press("Space")
    assert opened.page.locator("#play").get_attribute("aria-label") == "Pause"
    # Not before: it would be at the end before a busy browser can be asked whether it plays.
    opened.page.locator("#speed").select_option("20")
    expect(opened.page.locator("#play")).to_have_attribute("aria-pressed", "false")
    shows(read(opened), stuck, len(stuck.steps))


@pytest.mark.sample
def test_a_deadlock_ends_with_each_guard_that_is_false(visit: Open, stuck: ExplainedRun) -> None:
    opened = visit(page_of(stuck), fragment="step=0")
    conclusions = opened.page.locator("#conclusions")
    assert not conclusions.is_visible()
    opened.press("End")
    assert opened.page.locator("#possible h2").inner_text() == "Nothing can move any more"
    guards = opened.page.locator("#possible .guards li").all_inner_texts()
    assert [text.partition(":")[0].split()[-1] for text in guards] == ["SendChunk", "Deliver", "Consume", "AddPermits"]
    needs = f"SendChunk: the chunk needs 7 permits, {8 - stuck.end.unreturned} are at the sender"
    assert needs in " ".join(guards).replace("\n", " ")
    assert opened.page.locator("#scene .mark.short").text_content() == "the next chunk needs 7"
    assert conclusions.locator("li").all_inner_texts() == list(stuck.conclusions[0].items)


def test_a_recorded_run_that_is_wrong_opens_at_its_end(visit: Open, stuck: ExplainedRun) -> None:
    opened = visit(page_of(replace(stuck, verdict=RunOutcome.INVALID, is_recorded=True)))
    shows(read(opened), stuck, len(stuck.steps))
    assert opened.page.locator("#conclusions .verdict-note").is_visible()


def test_a_deadlock_opens_at_its_end(visit: Open, stuck: ExplainedRun) -> None:
    opened = visit(page_of(stuck))
    shows(read(opened), stuck, len(stuck.steps))
    assert opened.page.locator("#possible h2").inner_text() == "Nothing can move any more"


@pytest.mark.parametrize(
    ("most_states", "heading", "told"),
    [
        (0, "What the protocol can do now", "OfferChunk \u2713 comes next"),
        (300, "What can happen now: choose a step", "OfferChunk(1) OfferChunk(2) comes next OfferChunk(3)"),
    ],
)
def test_what_the_application_may_do_stands_first(
    visit: Open, stuck: ExplainedRun, most_states: int, heading: str, told: str
) -> None:
    opened = visit(page_of(stuck, most_states=most_states), fragment="step=0")
    lines = [" ".join(line.split()) for line in opened.page.locator("#possible").inner_text().splitlines() if line]
    assert lines[0] == heading
    assert lines[1].startswith(f"The application may: {told}")


def test_variables_that_the_channel_lacks_are_not_told(visit: Open, stuck: ExplainedRun, live: ExplainedRun) -> None:
    for run, is_there in ((stuck, False), (live, True)):
        names = visit(page_of(run)).page.locator("#variables th").all_text_contents()
        assert ("newestWatermark" in names, "watermarkPending" in names) == (is_there, is_there)


@pytest.mark.parametrize("width", [390, 1280])
def test_an_arrow_shows_what_moved_at_any_width(visit: Open, live: ExplainedRun, width: int) -> None:
    number = next(n for n, step in enumerate(live.steps, start=1) if step.action == "Deliver")
    opened = visit(page_of(live), fragment=f"step={number}", width=width)
    (taken,) = opened.page.locator("#scene .taken").all()
    assert taken.text_content() == "Deliver"


def test_the_whole_circuit_is_in_view_on_a_telephone(visit: Open, stuck: ExplainedRun) -> None:
    opened = visit(page_of(stuck), width=390, height=844)
    scene, bar = (opened.page.locator(name).bounding_box() for name in ("#scene", ".timeline"))
    assert scene is not None
    assert bar is not None
    assert scene["height"] + bar["height"] < 844 * 0.6


# How many things move after a step, and for how long.
MOVES = """() => {
  document.getElementById("forward").click();
  const moves = document.getAnimations();
  return [moves.length > 0, Math.max(0, ...moves.map((move) => move.effect.getComputedTiming().duration))];
}"""


@pytest.mark.parametrize(("motion", "moves"), [("no-preference", [True, 300]), ("reduce", [False, 0])])
def test_a_step_moves_for_300_ms_unless_asked_not_to(
    visit: Open, live: ExplainedRun, motion: Literal["no-preference", "reduce"], moves: list[object]
) -> None:
    opened = visit(page_of(live), fragment="step=1")
    opened.page.emulate_media(reduced_motion=motion)
    assert opened.page.evaluate(MOVES) == moves


def test_motion_is_not_cut_short_by_a_panel_that_grows(visit: Open, live: ExplainedRun) -> None:
    opened = visit(page_of(live), fragment="step=1")
    opened.page.emulate_media(reduced_motion="no-preference")
    opened.page.evaluate("document.querySelector('#scene').firstChild.id = 'first-drawn'")
    for _ in live.steps[1:8]:
        opened.press("ArrowRight")
    assert opened.page.locator("#first-drawn").count() == 1, "it was drawn anew"


def long_run(rounds: int) -> ExplainedRun:
    """One chunk after the other goes all the way: five steps each."""
    parameters = Parameters(row_permits=64, permit_batch=1, max_chunk_cost=32, sizes=tuple(range(33)))
    state = SYSTEM.initial(parameters)
    steps: list[Step[State]] = []
    for number in range(rounds):
        for action in ("OfferChunk", "SendChunk", "Deliver", "Consume", "AddPermits"):
            arguments = (number % 33,) if action == "OfferChunk" else ()
            state = SYSTEM.perform(action, state, parameters, *arguments)
            steps.append(Step(action, arguments, state))
    return run_of(parameters, steps)


def test_a_run_of_a_hundred_thousand_steps_opens_and_steps(visit: Open) -> None:
    run = long_run(20_000)
    assert len(run.steps) == 100_000
    opened = visit(page_of(run), fragment="step=54321")
    shown = read(opened)
    state = run.steps[54_320].state
    assert shown["ledgers"]["rows"] == dict(zip(PLACES, ledger_of(state).of_class("rows"), strict=True))
    assert shown["position"] == f"Step 54321 of 100000: OfferChunk({54_320 // 5 % 33})"
    opened.press("End")
    shows(read(opened), run, 100_000)
    assert opened.page.evaluate("document.querySelectorAll('*').length") < 2500
    # The median, since a busy machine interrupts some steps; drawing all steps instead of one takes seconds each.
    assert median(opened.page.evaluate(TWENTY_STEPS)) < 500


@pytest.mark.parametrize("width", [320, 700, 920, 1000, 1920])
def test_nothing_is_wider_than_the_window_and_no_text_covers_another(
    visit: Open, live: ExplainedRun, width: int
) -> None:
    opened = visit(page_of(live), fragment="step=1", width=width)
    for k in range(len(live.steps)):
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert (k, opened.page.evaluate(TEXTS_OUTSIDE)) == (k, [])
        opened.press("ArrowRight")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(visit: Open, stuck: ExplainedRun, scheme: Scheme) -> None:
    """WCAG 2.2, success criterion 1.4.3: at least 4.5 to 1."""
    opened = visit(page_of(stuck), fragment=f"step={len(stuck.steps)}", scheme=scheme)
    pairs = opened.page.evaluate(CONTRASTS)
    assert len(pairs) > 40
    assert [pair for pair in pairs if pair[1] < 4.5] == []
    backgrounds = {"light": "rgb(246, 245, 241)", "dark": "rgb(18, 22, 27)"}
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == backgrounds[scheme]


def test_without_scripts_the_storyboard_tells_the_run(visit: Open, stuck: ExplainedRun) -> None:
    opened = visit(page_of(stuck), scripts=False)
    assert opened.page.locator("h1").inner_text() == stuck.title
    assert opened.page.locator(".storyboard svg").is_visible()
    assert not opened.page.locator("main").is_visible()


def test_a_screen_reader_gets_each_step(visit: Open, stuck: ExplainedRun) -> None:
    opened = visit(page_of(stuck), fragment="step=0")
    opened.press("ArrowRight", "ArrowRight")
    told = opened.page.locator("#summary").inner_text()
    assert told.startswith("Step 2: SendChunk by the sender. Of 8 row permits: permits at the sender ")
    assert opened.page.locator("#slider").get_attribute("aria-valuetext") == told
    controls = opened.page.get_by_role("button").or_(opened.page.get_by_role("slider"))
    assert all(control.get_attribute("aria-label") or control.inner_text() for control in controls.all())


def test_a_page_that_fetches_or_fails_would_be_noticed(browser: "Browser", tmp_path: Path) -> None:
    file = tmp_path / "bad.html"
    file.write_text("<img src='http://192.0.2.1/x.png'><script>missing()</script>")
    visit = Visit(browser, file)
    visit.close()
    assert any("request: http://192.0.2.1/x.png" in complaint for complaint in visit.complaints)
    assert any("missing is not defined" in complaint for complaint in visit.complaints)
