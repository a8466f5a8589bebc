"""Mistakes on purpose in ``mute_links``."""

from dataclasses import replace

from permitflow_model.kernel.family import NamedFamily
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.mistakes import Mistake
from permitflow_model.mute import Signal, Sink
from permitflow_model.mute_links import SYSTEM, WELCOME, Parameters, State

SMALL = Parameters(
    sinks=2,
    relays=1,
    sources=1,
    hops=frozenset(map(frozenset, ((1, 3), (2, 3), (3, 4)))),
    boundaries=1,
    high=0,
    low=0,
    supply=1,
    remakes=1,
    deaths=True,
    clears=True,
)
TWICE = replace(SMALL, supply=2, deaths=False, leaves=True)
LASTING = replace(SMALL, supply=2, remakes=0, deaths=False, clears=False)
TWO_WAYS = replace(
    SMALL,
    relays=3,
    hops=frozenset(map(frozenset, ((1, 3), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6)))),
    deaths=False,
    clears=False,
)


def _with_signals(state: State, up: int, down: int, signals: Queue[Signal]) -> State:
    return state._replace(signals=state.signals.put(up - 1, state.signals.get(up - 1).put(down - 1, signals)))


def _signals(state: State, up: int, down: int) -> Queue[Signal]:
    return state.signals.get(up - 1).get(down - 1)


# A link that is lost, and made anew.


def reads_on_over_a_lost_link(state: State, parameters: Parameters, up: int, down: int) -> State:
    """Its boundary does not mute."""
    SYSTEM.perform("NoticeLoss", state, parameters, up, down)
    return _with_signals(state, up, down, Fifo())


def keeps_what_it_has_heard(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A sink that has died behind the lost link holds the source for ever."""
    after: State = SYSTEM.perform("Reconnect", state, parameters, up, down)
    return _with_signals(state, up, down, _signals(after, up, down))


def tells_nothing_on_a_new_link(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("Reconnect", state, parameters, up, down)
    return _with_signals(after, up, down, Fifo((WELCOME,)))


def says_welcome_first(state: State, parameters: Parameters, up: int, down: int) -> State:
    """The boundary unmutes before it has heard who mutes behind the new link."""
    after: State = SYSTEM.perform("Reconnect", state, parameters, up, down)
    return _with_signals(after, up, down, Fifo((WELCOME, *list(_signals(after, up, down))[:-1])))


def loses_a_link_more(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("LoseLink", state._replace(remade=0), parameters, up, down)
    return after._replace(remade=state.remade + 1)


# Who speaks of whom.


def forgets_though_another_one_speaks(state: State, parameters: Parameters, up: int, down: int) -> State:
    """One node downstream says that a muter is gone; another one may have said meanwhile that it mutes."""
    speakers = state.spoken.get(up - 1)
    alone = state._replace(spoken=state.spoken.put(up - 1, speakers.map_by_name(_silent, down)))
    after: State = SYSTEM.perform("ReceiveSignal", alone, parameters, up, down)
    return after._replace(
        spoken=state.spoken.put(up - 1, speakers.put(down - 1, after.spoken.get(up - 1).get(down - 1)))
    )


def _silent(name: int, speaker: NamedFamily[bool], down: int) -> NamedFamily[bool]:
    return speaker if name + 1 == down else speaker.map_by_name(_false)


def _false(_name: int, _spoken: bool) -> bool:
    return False


def forgets_and_does_not_say_so(state: State, parameters: Parameters, up: int, down: int) -> State:
    after: State = SYSTEM.perform("Reconnect", state, parameters, up, down)
    return _with_signals(state, up, down, _signals(after, up, down))._replace(
        heard=after.heard, sources=after.sources, spoken=after.spoken
    )


def does_not_note_who_speaks(state: State, parameters: Parameters, up: int, down: int) -> State:
    return SYSTEM.perform("ReceiveSignal", state, parameters, up, down)._replace(spoken=state.spoken)


# A source that leaves, and may come back.


def leaves_and_knows_who_muted(state: State, parameters: Parameters, node: int) -> State:
    """Nobody tells it of what changes meanwhile."""
    return SYSTEM.perform("Leave", state, parameters, node)._replace(heard=state.heard)


def leaves_what_was_on_its_way(state: State, parameters: Parameters, node: int) -> State:
    """It comes back, and hears what was meant for it before."""
    return SYSTEM.perform("Leave", state, parameters, node)._replace(signals=state.signals)


# A sink.


def begins_again_under_its_name(state: State, parameters: Parameters, name: int) -> State:
    """Its epochs begin again, too, and an older one over another way counts."""
    after: State = SYSTEM.perform("LoseSink", state, parameters, name)
    return after._replace(sinks=after.sinks.put(name - 1, Sink(gone=False, wire=0, inbox=0)))


def dies_unnoticed(state: State, parameters: Parameters, name: int) -> State:
    """Its connection says nothing."""
    return SYSTEM.perform("LoseSink", state, parameters, name)._replace(signals=state.signals)


def clears_and_does_not_look_at_its_marks(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("Clear", state, parameters, name)._replace(heard=state.heard, signals=state.signals)


def consumes_and_never_unmutes(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("Consume", state, parameters, name)._replace(heard=state.heard, signals=state.signals)


MISTAKES = (
    Mistake("Reconnect", tells_nothing_on_a_new_link, "OnItsWay", SMALL),
    Mistake("Reconnect", says_welcome_first, "HeldThroughout", TWICE),
    Mistake("Reconnect", keeps_what_it_has_heard, "Settled", SMALL, at_once="SpeakersKnow"),
    Mistake("Reconnect", forgets_and_does_not_say_so, "SpeakersKnow", SMALL),
    Mistake("NoticeLoss", reads_on_over_a_lost_link, "OnItsWay", SMALL),
    Mistake("LoseLink", loses_a_link_more, "TypeOK", SMALL),
    Mistake("ReceiveSignal", forgets_though_another_one_speaks, "HeldThroughout", TWO_WAYS, at_once="OnItsWay"),
    Mistake("ReceiveSignal", does_not_note_who_speaks, "KnownFromSpeakers", SMALL),
    Mistake("Leave", leaves_and_knows_who_muted, "KnownFromSpeakers", replace(SMALL, leaves=True), at_once="Absent"),
    Mistake("Leave", leaves_what_was_on_its_way, "SpeakersKnow", replace(SMALL, leaves=True), at_once="Absent"),
    Mistake("LoseSink", begins_again_under_its_name, "InOrder", replace(TWO_WAYS, remakes=0, deaths=True)),
    Mistake("LoseSink", dies_unnoticed, "Settled", SMALL, at_once="SpeakersKnow"),
    Mistake("Clear", clears_and_does_not_look_at_its_marks, "Marks", SMALL),
    Mistake("Consume", consumes_and_never_unmutes, "NeverStuck", LASTING, at_once="Marks"),
)
