"""Runs of stop-and-wait are behaviours of the model, or it says which event is not; demand of size 1 is the same."""

from typing import NamedTuple

import pytest

from permitflow_model import demand
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.replay import Replay, StepByStep, World, replay
from permitflow_model.stop_and_wait import SYSTEM, Parameters, State

ANY = Parameters(waiters=9, withdrawals=True)


class Event(NamedTuple):
    """A step as a recorder says it."""

    action: str
    counters: tuple[int, ...] = ()
    arguments: tuple[int, ...] = ()


SENDER = [
    Event("Offer", (1,)),
    Event("Offer", (1,)),
    Event("Send", (0,)),
    Event("Answer", (1,)),
    Event("Withdraw"),
]
RECEIVER = [Event("Deliver", (1,)), Event("Consume", (0,))]


def judged(sender: list[Event], receiver: list[Event]) -> Replay[World[State], Event]:
    interpretation = StepByStep(SYSTEM, ANY)
    return replay(interpretation, World(SYSTEM.initial(ANY)), [sender, receiver])


def test_a_run_of_both_ends_is_put_together() -> None:
    found = judged(SENDER, RECEIVER)
    assert found.is_valid
    assert found.performed == 7
    assert found.worlds == (World(SYSTEM.initial(ANY)),)


@pytest.mark.parametrize(
    ("sender", "receiver", "reason"),
    [
        (["Offer", "Offer", "Send", "Send"], [], "only Deliver can go on"),
        (["Offer", "Send", "Answer"], ["Deliver"], "only Consume can go on"),
        (["Offer", "Resend"], [], "the specification has no action 'Resend'"),
        ([], ["Consume"], "only the application can go on"),
    ],
)
def test_an_event_that_the_protocol_does_not_allow_is_named(
    sender: list[str], receiver: list[str], reason: str
) -> None:
    found = judged([*map(Event, sender)], [*map(Event, receiver)])
    assert [block.reason.rpartition("; ")[2] for block in found.blocked] == [reason]
    assert found.blocked[0].event.action == (sender or receiver)[-1]


def test_an_event_that_waits_for_the_other_end_is_starved() -> None:
    assert [block.is_refused for block in judged([Event("Offer"), Event("Send"), Event("Answer")], []).blocked] == [
        False
    ]
    assert [block.is_refused for block in judged([Event("Send")], []).blocked] == [True]


def test_an_end_that_counts_otherwise_is_noticed() -> None:
    found = judged([Event("Offer"), Event("Send", (1,))], [])
    assert "its end counts (1,) afterwards, but it must have (0,)" in found.blocked[0].reason


@pytest.mark.parametrize(("waiters", "tags"), [(0, 1), (2, 3), (1, 0)])
def test_parameters_that_the_specification_refuses_are_refused(waiters: int, tags: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        Parameters(waiters=waiters, tags=tags)


def test_demand_of_size_one_has_the_same_states_and_steps() -> None:
    """The library's flow: an answer here is a request for one message there."""

    def of_demand(state: demand.State) -> State:
        kept = {name: value for name, value in state._asdict().items() if name in State._fields}
        return State(**kept, free=state.credit, answers=state.requests)

    ours = explore(SYSTEM, Parameters(waiters=2, withdrawals=True, tags=4))
    constants = demand.Parameters(size=1, batch=1, initial=1, waiters=2, withdrawals=True, tags=4)
    theirs = explore(demand.SYSTEM, constants)
    states = [of_demand(state) for state in theirs.states]
    assert {*states} == {*ours.states}
    told = {(states[start], action.replace("Request", "Answer"), states[end]) for start, action, end in theirs.edges}
    assert told == {(ours.states[start], action, ours.states[end]) for start, action, end in ours.edges}
