"""Mistakes on purpose in ``squelch``."""

from dataclasses import replace

from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake
from permitflow_model.squelch import OFF, ON, SYSTEM, Parameters, State, is_on_due, told_now

SMALL = Parameters(waiters=1, high=1, low=0, capacity=3, rate=1, signal_delay=1, data_delay=1, repeat=2)

LOSSY = replace(SMALL, capacity=5, losses=1, reminders=True)


def sends_faster(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Send", state._replace(sent=0), parameters)


def sends_while_stopped(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Send", state._replace(heard=ON), parameters)._replace(heard=state.heard)


def sends_though_something_is_late(state: State, parameters: Parameters) -> State:
    in_time = state._replace(wire=0, inbox=0, told=ON, signals=Fifo())
    after = SYSTEM.perform("Send", in_time, parameters)
    return state._replace(waiting=after.waiting, sent=after.sent, wire=state.wire + after.wire)


def time_passes_before_the_signal(state: State, parameters: Parameters) -> State:
    """As if the inbox were below the watermark."""
    after = SYSTEM.perform("Tick", state._replace(inbox=0, told=ON), parameters)
    return after._replace(inbox=state.inbox, told=state.told)


def forgets_to_tell(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("SendXoff", state, parameters)._replace(signals=state.signals)


def tells_at_once_what_was_lost(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("LoseSignal", state, parameters)._replace(lost=state.lost)


def goes_on_above_the_low_watermark(state: State, parameters: Parameters) -> State:
    require(state.told == OFF)
    require(state.inbox > parameters.high)
    require(not is_on_due(state, parameters))
    return told_now(state, ON)._replace(since=0)


def consumes_what_is_not_there(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state._replace(inbox=state.inbox + 1), parameters)
    return after._replace(inbox=state.inbox - 1)


MISTAKES = (
    Mistake("Send", sends_faster, "Crossed", SMALL),
    Mistake("Send", sends_while_stopped, "StillToCome", SMALL),
    Mistake("Send", sends_though_something_is_late, "InFlight", SMALL),
    Mistake("Tick", time_passes_before_the_signal, "Crossed", SMALL),
    Mistake("SendXoff", forgets_to_tell, "LastWord", SMALL),
    Mistake("LoseSignal", tells_at_once_what_was_lost, "LastWord", LOSSY),
    Mistake("SendXon", goes_on_above_the_low_watermark, "Crossed"),
    Mistake("Consume", consumes_what_is_not_there, "TypeOK", SMALL),
)
