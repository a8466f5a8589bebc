"""TLC, with the specification's own text, judges recorded runs as the model does; where it does not, that is seen."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from permitflow import ChannelParameters, Oversize
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.tracing import ChannelTrace, Event
from permitflow_model.permit_channel import SYSTEM, State
from permitflow_model.tlc.trace import TraceStep, module_text, walk_trace
from permitflow_testing.referee import Referee, ask_tlc
from permitflow_testing.subjects import UNLIMITED
from permitflow_testing.subjects.permits import model_of
from permitflow_testing.traces import judge
from tests.support.made_traces import random_behaviour

AGREED = ChannelParameters(row_permits=4, permit_batch=2, max_chunk_cost=3, barrier_permits=2, oversize=Oversize.WHOLE)


def random_run(seed: int, events: int) -> ChannelTrace:
    """All actions, chunks of all kinds, several barriers and chunks waiting; both ends in one log."""
    parameters = model_of(AGREED, sizes=(0, 1, 3, 5), waiters=3)
    log = tuple(random_behaviour(parameters, seed=seed, events=events))
    return ChannelTrace("channel", PERMIT_ACTIONS, asdict(AGREED), frozenset({"sender", "receiver"}), (log,))


def test_a_long_run_is_a_behaviour_in_both_opinions() -> None:
    channel = random_run(seed=3, events=2000)
    channel = replace(channel, logs=channel.logs_by_end)
    assert {event.action for log in channel.logs for event in log} == {
        *("OfferChunk", "OfferBarrier", "OfferWatermark", "WithdrawChunk", "WithdrawBarrier"),
        *("SendChunk", "SendBarrier", "SendWatermark", "Deliver", "Consume", "Flush", "AddPermits"),
    }

    referee = ask_tlc(channel)

    assert referee.agrees
    # Where a chunk may have been withdrawn from the middle, an event is several steps.
    assert referee.walk.reached == referee.walk.steps == referee.steps >= 2000
    assert f"TLC agrees: all {referee.steps:,} steps are steps of the specification (" in referee.describe()


SABOTAGES: dict[str, tuple[str, Callable[[Event], list[Event]]]] = {
    "dropped": ("AddPermits", lambda event: []),
    "repeated": ("AddPermits", lambda event: [event, event]),
    "miscounted": (
        "Consume",
        lambda event: [event._replace(counters=(event.counters[0] + 1, *event.counters[1:]))],
    ),
    "misread": (
        "Deliver",
        lambda event: [event._replace(arguments=(event.arguments[0] + 1, *event.arguments[1:]), counters=())],
    ),
}


# One is in make test: each takes a start of TLC, and the replay judges all kinds.
@pytest.mark.parametrize(
    "sabotage", [pytest.param(name, marks=() if name == "dropped" else pytest.mark.long) for name in SABOTAGES]
)
def test_both_stop_at_the_same_step_of_a_bad_run(sabotage: str) -> None:
    action, change = SABOTAGES[sabotage]
    channel = random_run(seed=5, events=300)
    (log,) = channel.logs
    place = [place for place, event in enumerate(log) if event.action == action][5]
    channel = replace(channel, logs=((*log[:place], *change(log[place]), *log[place + 1 :]),))
    verdict = judge(channel)
    assert not verdict.is_valid

    referee = ask_tlc(channel)

    assert referee.agrees
    assert referee.walk.reached == referee.steps >= verdict.replay.performed
    assert verdict.left_over > 0
    assert referee.impossible == 1
    assert "and nothing that was recorded can follow" in referee.describe()


@pytest.mark.long
def test_a_specification_that_disagrees_is_asked_no_more(repository: Path, tmp_path: Path) -> None:
    """In it the receiver returns each chunk at once; segments behind that are not walked."""
    text = (repository / "spec/permit_channel/PermitChannel.tla").read_text()
    batched = "IF unreturned + m.cost >= PermitBatch"
    assert text.count(batched) == 1
    (tmp_path / "PermitChannel.tla").write_text(text.replace(batched, "IF unreturned + m.cost >= 1"))

    referee = ask_tlc(random_run(seed=3, events=400), spec_directory=tmp_path, segment_steps=50)

    assert not referee.agrees
    assert referee.walk.steps - 50 <= referee.walk.reached < referee.walk.steps < 400
    assert f"TLC DISAGREES: step {referee.walk.reached + 1} is not a step of the specification" in referee.describe()
    assert referee.as_json()["agrees"] is False


def test_an_event_that_only_tlc_allows_is_a_disagreement() -> None:
    parameters = model_of(AGREED)
    offer = TraceStep("OfferChunk", (3, 3, 0, 0))

    walk = walk_trace(SYSTEM, [offer], parameters, impossible=[TraceStep("SendChunk", (3, 3, 0, 0))])

    assert (walk.reached, walk.goes_on) == (1, True)
    referee = Referee(walk, steps=1, impossible=1)
    assert not referee.agrees
    assert "an event is possible that the model refuses" in referee.describe()


def test_a_long_run_is_walked_in_segments() -> None:
    channel = random_run(seed=1, events=100)

    in_segments = ask_tlc(channel, segment_steps=80)

    assert in_segments.agrees
    assert in_segments.walk.steps == in_segments.walk.reached == in_segments.steps > 100


def test_a_segment_must_end_where_the_next_one_starts() -> None:
    """Or the states in between would be taken on trust."""
    channel = random_run(seed=3, events=100)
    verdict = judge(channel, keep_path=True)
    assert verdict.world.path is not None
    states = [step.state for step in verdict.world.path.steps()]
    parameters = model_of(AGREED, waiters=UNLIMITED)
    told = [TraceStep(step.action, step.arguments) for step in verdict.world.path.steps()]
    wrong = states[59]._replace(unreturned=states[59].unreturned + 1)

    def reached(end: State) -> int:
        return walk_trace(SYSTEM, told[40:60], parameters, start=states[39], end=end).reached

    assert reached(states[59]) == 20
    assert reached(wrong) == 19


def test_numbers_beyond_those_of_tlc_are_refused() -> None:
    with pytest.raises(ValueError, match="2147483648 is too large for TLC"):
        module_text(SYSTEM, [TraceStep("OfferChunk", (2**31,))], [])
