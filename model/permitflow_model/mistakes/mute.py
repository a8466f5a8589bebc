"""Mistakes on purpose in ``mute``."""

from permitflow_model.mistakes import Mistake
from permitflow_model.mute import SYSTEM, Parameters, State, in_flight, source_at

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


def hears_older_ones_too(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("ReceiveSignal", state, parameters, up, down)
    signal = in_flight(state, up, down).head()
    heard = after.heard.get(up - 1).put(signal.muter - 1, signal.epoch)
    return after._replace(heard=after.heard.put(up - 1, heard))


def a_relay_keeps_it_to_itself(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("ReceiveSignal", state, parameters, up, down)
    if not parameters.is_relay(up):
        return after
    signals = state.signals.put(up - 1, after.signals.get(up - 1))
    return after._replace(signals=signals)


def counts_mutes(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("ReceiveSignal", state, parameters, up, down)
    if not parameters.is_source(up):
        return after
    muter, source = in_flight(state, up, down).head().muter, source_at(state, parameters, up)
    holds = source.holds.put(muter - 1, source.holds.get(muter - 1) + 1)
    number = up - parameters.sinks - parameters.relays - 1
    return after._replace(sources=after.sources.put(number, source._replace(holds=holds)))


def says_nothing_on_a_new_connection(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("Reconnect", state, parameters, up, down)
    silent = in_flight(state, up, down).without_head()
    return after._replace(signals=state.signals.put(up - 1, state.signals.get(up - 1).put(down - 1, silent)))


def mutes_in_no_new_epoch(state: State, parameters: Parameters, name: int) -> State:
    after: State = SYSTEM.perform("Deliver", state, parameters, name)
    return after._replace(heard=state.heard, signals=state.signals)


MISTAKES = (
    Mistake("ReceiveSignal", hears_older_ones_too, "OnItsWay", TWO_PATHS),
    Mistake("ReceiveSignal", a_relay_keeps_it_to_itself, "OnItsWay", TWO_PATHS),
    Mistake("ReceiveSignal", counts_mutes, "NewestHolds", TWO_PATHS),
    Mistake("Reconnect", says_nothing_on_a_new_connection, "OnItsWay", TWO_PATHS),
    Mistake("Deliver", mutes_in_no_new_epoch, "Marks", TWO_PATHS),
)
