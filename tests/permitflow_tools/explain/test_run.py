"""What is said about a run is true; a recorded run is shown as far as the model can follow."""

from dataclasses import asdict, replace

import pytest

from permitflow import ChannelParameters, Permits
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS
from permitflow.tracing import ChannelTrace, Event
from permitflow_model.permit_channel import SYSTEM, Parameters
from permitflow_testing.subjects import UNLIMITED
from permitflow_testing.subjects.permits import agreed_of, model_of
from permitflow_testing.traces import judge
from permitflow_tools.explain.looks.permit_channel.look import LOOK
from permitflow_tools.explain.looks.permit_channel.runs import stuck_run
from permitflow_tools.explain.run import ExplainedRun, RunOutcome, recorded_run
from tests.permitflow_tools.explain.runs import shortest_stuck
from tests.support.made_traces import random_behaviour, with_permits

STUCK = Parameters(row_permits=4, permit_batch=3, max_chunk_cost=3, sizes=(1, 2, 3))


def test_the_sentence_of_a_stuck_run_tells_its_last_state() -> None:
    run = shortest_stuck(STUCK, advice=["a batch of 2"])
    kept = run.end.unreturned
    assert run.verdict is RunOutcome.STUCK
    assert run.sentence == (
        f"After {len(run.steps)} steps a chunk that needs 3 permits waits, {4 - kept} are at the sender, "
        f"the receiver keeps {kept} until it holds 3, and nothing can move."
    )
    assert run.conclusions[0].items == ("a batch of 2",)
    with pytest.raises(ValueError, match="the channel is not stuck"):
        stuck_run(STUCK, run.start, run.steps[:-1])


AGREED = ChannelParameters(row_permits=64, permit_batch=8, max_chunk_cost=20)


@pytest.fixture(scope="module")
def recorded() -> ChannelTrace:
    """A run with barriers and watermarks, as the ends of a channel would record it."""
    events = random_behaviour(model_of(AGREED, sizes=(3, 17)), seed=1, events=400, channel="orders", settle=True)
    return ChannelTrace("orders", PERMIT_ACTIONS, asdict(AGREED), frozenset(ENDS), (tuple(events),))


def shown(channel: ChannelTrace) -> ExplainedRun:
    parameters = model_of(agreed_of(channel), sizes=(AGREED.max_chunk_cost,), waiters=UNLIMITED)
    return recorded_run(judge(channel, keep_path=True), LOOK, parameters, SYSTEM.initial(parameters))


def sabotaged(channel: ChannelTrace, action: str, permits: Permits) -> tuple[ChannelTrace, Event]:
    """The third event of this action is recorded with other permits."""
    (log,) = channel.logs
    at = [position for position, event in enumerate(log) if event.action == action][2]
    event = with_permits(log[at], *permits)
    return replace(channel, logs=((*log[:at], event, *log[at + 1 :]),)), event


def test_a_valid_run_is_shown_step_by_step(recorded: ChannelTrace) -> None:
    run = shown(recorded)
    assert run.verdict is RunOutcome.VALID
    assert run.sentence == (
        f"{len(recorded.logs[0])} recorded events are a behaviour of the specification; "
        "at the end everything has been consumed and all permits are back."
    )
    assert [step.action for step in run.steps] == [event.action for event in recorded.logs[0]]
    state = run.start
    for step in run.steps:
        state = SYSTEM.perform(step.action, state, run.parameters, *step.arguments)
        assert state == step.state
    assert (run.conclusions, run.remarks) == ((), ())


def test_permits_out_of_nowhere_are_told_with_what_was_allowed(recorded: ChannelTrace) -> None:
    channel, event = sabotaged(recorded, "AddPermits", Permits(rows=60))
    run = shown(channel)
    assert run.verdict is RunOutcome.INVALID
    where = f"event {event.sequence} of the sender, AddPermits (60 row permits)"
    assert f"recorded events, {where} has no cause: " in run.sentence
    objection, allowed = run.conclusions
    assert objection.heading == "What no behaviour allows here"
    assert objection.items[0].startswith(where)
    assert any(item.startswith("AddPermits of") for item in allowed.items)
    assert "later events were not looked at" in run.remarks[-1]
    assert [step.action for step in run.steps] == [event.action for event in channel.logs[0]][: len(run.steps)]


def test_omitted_checks_are_shown(recorded: ChannelTrace) -> None:
    (log,) = recorded.logs
    sender = tuple(event for event in log if event.end == "sender")
    run = shown(replace(recorded, ends=frozenset({"sender"}), logs=(sender,)))
    assert run.verdict is RunOutcome.VALID
    assert run.remarks[0].startswith("Only the sender was recorded: checked that some receiver that obeys")
    assert {"Deliver", "Consume"} <= {step.action for step in run.steps}  # the model's own


def test_a_replay_without_its_path_is_refused(recorded: ChannelTrace) -> None:
    with pytest.raises(ValueError, match="kept no path; replay with keep_path=True"):
        recorded_run(judge(recorded), LOOK, None, None)
