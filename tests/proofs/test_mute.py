"""A mistake in muting makes a proof fail, and the explorer finds a run that shows it."""

import pytest

from permitflow_model.kernel.family import Members
from permitflow_model.mute import SYSTEM, Parameters, State, in_flight, source_at
from permitflow_model.mute_delay import SYSTEM as DELAY
from permitflow_model.mute_delay import Parameters as DelayParameters
from permitflow_model.mute_delay import State as DelayState
from permitflow_model.mute_scheduler import SYSTEM as SCHEDULER
from permitflow_model.mute_scheduler import Parameters as SchedulerParameters
from permitflow_model.mute_scheduler import State as SchedulerState
from permitflow_proofs import mute, mute_delay, mute_scheduler
from tests.support.faults import Fault, broken_by

TWO_PATHS = Parameters(
    sinks=1,
    relays=2,
    sources=1,
    hops=frozenset(map(frozenset, ((1, 2), (1, 3), (2, 4), (3, 4)))),
    high=0,
    low=0,
    supply=2,
    remakes=1,
)
NEAR = DelayParameters(
    sources=1, rate=1, depth=1, flight=1, first_rate=1, first_depth=2, first_flight=2, high=1, low=0, capacity=5
)


def hears_older_ones_too(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("Hear", state, parameters, up, down)
    signal = in_flight(state, up, down).head()
    return after._replace(heard=after.heard.put(up - 1, Members([signal.epoch])))


def a_relay_keeps_it_to_itself(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("Hear", state, parameters, up, down)
    if not parameters.is_relay(up):
        return after
    signals = state.signals.put(up - 1, after.signals.get(up - 1))
    return after._replace(signals=signals)


def counts_mutes(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("Hear", state, parameters, up, down)
    if not parameters.is_source(up):
        return after
    source = source_at(after, parameters, up)
    more = source_at(state, parameters, up).holds.get(0) + 1
    return after._replace(sources=Members([source._replace(holds=Members([more]))]))


def says_nothing_on_a_new_connection(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("Lose", state, parameters, up, down)
    silent = in_flight(state, up, down).without_head()
    return after._replace(signals=state.signals.put(up - 1, state.signals.get(up - 1).put(down - 1, silent)))


def mutes_in_no_new_epoch(state: State, parameters: Parameters, name: int) -> State:
    after: State = SYSTEM.perform("Deliver", state, parameters, name)
    return after._replace(heard=state.heard, signals=state.signals)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("Hear", hears_older_ones_too, "OnItsWay"),
        Fault("Hear", a_relay_keeps_it_to_itself, "OnItsWay"),
        Fault("Hear", counts_mutes, "NewestHolds"),
        Fault("Lose", says_nothing_on_a_new_connection, "OnItsWay"),
        Fault("Deliver", mutes_in_no_new_epoch, "Marks"),
    ],
    ids=str,
)
def test_a_faulty_action_of_the_protocol_breaks_the_clause_that_is_about_it(fault: Fault) -> None:
    assert broken_by(fault, mute.SUBJECT, mute.INVARIANT, TWO_PATHS)


def told_without_a_signal(state: DelayState, parameters: DelayParameters, name: int) -> DelayState:
    after: DelayState = DELAY.perform("Deliver", state, parameters, name)
    return after._replace(sources=after.sources.map(lambda source: source._replace(ahead=0)))


def sends_while_late(state: DelayState, parameters: DelayParameters, name: int) -> DelayState:
    source = state.sources.get(name)
    on_time = state._replace(sources=state.sources.put(name, source._replace(late=False)))
    after: DelayState = DELAY.perform("Send", on_time, parameters, name)
    sent = after.sources.get(name)._replace(late=source.late)
    return after._replace(sources=after.sources.put(name, sent))


def a_loss_costs_nothing(state: DelayState, parameters: DelayParameters, name: int) -> DelayState:
    source = state.sources.get(name)
    generous = source._replace(spare=source.rate)
    after: DelayState = DELAY.perform(
        "Lose", state._replace(sources=state.sources.put(name, generous)), parameters, name
    )
    again = after.sources.get(name)._replace(spare=source.spare)
    return after._replace(sources=after.sources.put(name, again))


@pytest.mark.parametrize(
    "fault",
    [
        Fault("Deliver", told_without_a_signal, "Heard"),
        Fault("Send", sends_while_late, "InTime"),
        Fault("Lose", a_loss_costs_nothing, "Coming"),
    ],
    ids=str,
)
def test_a_faulty_action_overflows_the_places(fault: Fault) -> None:
    assert broken_by(fault, mute_delay.SUBJECT, mute_delay.INVARIANT, NEAR)


def mutes_the_busy(state: SchedulerState, parameters: SchedulerParameters, name: int, to: int) -> SchedulerState:
    idle = state.actors.get(name)._replace(overloaded=False, pressed=False)
    after: SchedulerState = SCHEDULER.perform(
        "Send", state._replace(actors=state.actors.put(name, idle)), parameters, name, to
    )
    busy = after.actors.get(name)._replace(
        overloaded=state.actors.get(name).overloaded, pressed=state.actors.get(name).pressed
    )
    return after._replace(actors=after.actors.put(name, busy))


def frees_nobody(state: SchedulerState, parameters: SchedulerParameters, name: int) -> SchedulerState:
    after: SchedulerState = SCHEDULER.perform("Rest", state, parameters, name)
    return after._replace(freed=state.freed)


def runs_before_all_have_freed_it(
    state: SchedulerState, parameters: SchedulerParameters, name: int, muter: int
) -> SchedulerState:
    after: SchedulerState = SCHEDULER.perform("Hear", state, parameters, name, muter)
    return after._replace(actors=after.actors.put(name, after.actors.get(name)._replace(muted=False)))


@pytest.mark.parametrize(
    ("fault", "actors"),
    [
        (Fault("Send", mutes_the_busy, "MutedByIsAcyclic"), 2),
        (Fault("Rest", frees_nobody, "Woken"), 2),
        (Fault("Hear", runs_before_all_have_freed_it, "MutedIfHeld"), 3),
    ],
    ids=str,
)
def test_a_faulty_scheduler_breaks_the_clause_that_is_about_it(fault: Fault, actors: int) -> None:
    parameters = SchedulerParameters(actors=actors, batch=1, messages=2)
    assert fault.breaks in broken_by(fault, mute_scheduler.SUBJECT, mute_scheduler.INVARIANT, parameters)
