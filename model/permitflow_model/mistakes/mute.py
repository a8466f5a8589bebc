"""Mistakes on purpose in ``mute``."""

from dataclasses import replace

from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake
from permitflow_model.mute import SYSTEM, Parameters, State, in_flight, is_mute, source_at, with_source

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
FADING = replace(TWO_PATHS, disposals=True, clears=True)
JOINED = Parameters(
    sinks=1,
    relays=0,
    sources=2,
    hops=frozenset(map(frozenset, ((1, 2), (1, 3)))),
    high=0,
    low=0,
    supply=2,
    newcomers=1,
)


# The published faults, and a counter that does not mend them, as in MuteMistakes.tla.


def join_untold(state: State, parameters: Parameters, node: int) -> State:
    """A source that joins is not told who mutes."""
    after: State = SYSTEM.perform("Join", state, parameters, node)
    joined = source_at(after, parameters, node)._replace(holds=source_at(state, parameters, node).holds)
    return with_source(after._replace(heard=state.heard), parameters, node, joined)


def dispose_silently(state: State, parameters: Parameters, name: int) -> State:
    """A sink that leaves does not unmute."""
    after: State = SYSTEM.perform("Dispose", state, parameters, name)
    return after._replace(heard=state.heard, signals=state.signals)


def clear_silently(state: State, parameters: Parameters, name: int) -> State:
    """A sink drops its queue, and does not look at its marks."""
    after: State = SYSTEM.perform("Clear", state, parameters, name)
    return after._replace(heard=state.heard, signals=state.signals)


def reconnect_silently(state: State, parameters: Parameters, up: int, down: int) -> State:
    """On a new connection a node does not tell its epochs again."""
    after: State = SYSTEM.perform("Reconnect", state, parameters, up, down)
    return after._replace(signals=state.signals.put(up - 1, state.signals.get(up - 1).put(down - 1, Fifo())))


def receive_signal_into_set(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A source keeps the set of its muters: each signal counts as news, however old."""
    heard = SYSTEM.perform("ReceiveSignal", state, parameters, up, down).heard
    signal = in_flight(state, up, down).head()
    older = state.heard.get(up - 1).put(signal.muter - 1, signal.epoch - 1)
    unheard = state._replace(heard=state.heard.put(up - 1, older))
    return SYSTEM.perform("ReceiveSignal", unheard, parameters, up, down)._replace(heard=heard)


def receive_signal_into_counter(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A source counts the mutes of each muter that were not taken back."""
    after = receive_signal_into_set(state, parameters, up, down)
    if not parameters.is_source(up):
        return after
    signal, source = in_flight(state, up, down).head(), source_at(state, parameters, up)
    count = source.holds.get(signal.muter - 1)
    counted = count + 1 if is_mute(signal.epoch) else max(count - 1, 0)
    return with_source(after, parameters, up, source._replace(holds=source.holds.put(signal.muter - 1, counted)))


# Others.


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


def mutes_in_no_new_epoch(state: State, parameters: Parameters, name: int) -> State:
    after: State = SYSTEM.perform("Deliver", state, parameters, name)
    return after._replace(heard=state.heard, signals=state.signals)


def consumes_what_is_not_there(state: State, parameters: Parameters, name: int) -> State:
    require(name <= parameters.sinks)
    sink = state.sinks.get(name - 1)
    one_more = state._replace(sinks=state.sinks.put(name - 1, sink._replace(inbox=sink.inbox + 1)))
    after = SYSTEM.perform("Consume", one_more, parameters, name)
    return after._replace(sinks=after.sinks.put(name - 1, after.sinks.get(name - 1)._replace(inbox=sink.inbox - 1)))


MISTAKES = (
    Mistake("ReceiveSignal", hears_older_ones_too, "OnItsWay", TWO_PATHS),
    Mistake("ReceiveSignal", a_relay_keeps_it_to_itself, "OnItsWay", TWO_PATHS),
    Mistake("Join", join_untold, "OnItsWay", JOINED),
    Mistake("Dispose", dispose_silently, "Marks", FADING),
    Mistake("Clear", clear_silently, "Marks", FADING),
    Mistake("Reconnect", reconnect_silently, "OnItsWay", TWO_PATHS),
    Mistake("ReceiveSignal", receive_signal_into_set, "NewestHolds", TWO_PATHS),
    Mistake("ReceiveSignal", receive_signal_into_counter, "NewestHolds", TWO_PATHS),
    Mistake("Deliver", mutes_in_no_new_epoch, "Marks", TWO_PATHS),
    Mistake("Consume", consumes_what_is_not_there, "TypeOK", TWO_PATHS),
)
