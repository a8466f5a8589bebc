"""Mistakes on purpose in ``fan_in``."""

from dataclasses import replace

from permitflow_model.fan_in import SYSTEM, Parameters, State
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake

ONE = Parameters(producers=1, producer_window=1, channel_window=1, consumer_window=1, total=2, consumers=1, faults=1)
UNREAD = replace(ONE, producers=2, total=1, consumers=0, faults=0)
READ = replace(UNREAD, consumers=1)
LONG = replace(READ, total=2)


def _with(state: State, name: int, **changed: object) -> State:
    one = state.producers.get(name)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(producers=state.producers.put(name, one))


def counts_its_own(state: State, parameters: Parameters, name: int) -> State:
    """An answer counts the messages of its own producer: others' that stand before them seem to be consumed."""
    one = state.producers.get(name)
    after = SYSTEM.perform("NoteLeft", _with(state, name, mark=one.offered), parameters, name)
    return _with(after, name, mark=one.mark, due=one.offered)


def counts_purged(state: State, parameters: Parameters, name: int) -> State:
    """What an administrator has dropped counts as consumed."""
    unpurged = state._replace(channel=state.channel._replace(purged=0))
    return SYSTEM.perform("AnswerEnd", unpurged, parameters, name)._replace(channel=state.channel)


def overtakes(state: State, parameters: Parameters, name: int) -> State:
    """A producer that finds room takes it, though others wait for it."""
    if state.producers.get(name).ticket > 0:
        return SYSTEM.perform("TakeIn", state, parameters, name)
    empty = state._replace(line=state.line._replace(given=state.line.served))
    return SYSTEM.perform("TakeIn", empty, parameters, name)._replace(line=state.line)


def takes_in_where_full(state: State, parameters: Parameters, name: int) -> State:
    """A message is taken in without room for it."""
    require(state.producers.get(name).ticket == 0)
    after = SYSTEM.perform("TakeIn", state._replace(channel=state.channel._replace(held=0)), parameters, name)
    return after._replace(channel=after.channel._replace(held=state.channel.held + 1))


def takes_in_uncounted(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("TakeIn", state, parameters, name)
    return after._replace(channel=after.channel._replace(taken=state.channel.taken))


def gives_a_ticket_twice(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("LineUp", state, parameters, name)._replace(line=state.line)


def ends_for_all(state: State, parameters: Parameters, name: int) -> State:
    """The first End ends the channel for all."""
    closes = state.producers.get(name).closes
    return _with(SYSTEM.perform("NoteEnd", _with(state, name, closes=True), parameters, name), name, closes=closes)


def takes_the_end_too_early(state: State, parameters: Parameters, name: int) -> State:
    """An End overtakes the messages before it."""
    incoming = state.producers.get(name).incoming
    return _with(SYSTEM.perform("NoteEnd", _with(state, name, incoming=0), parameters, name), name, incoming=incoming)


def loses_quietly(state: State, parameters: Parameters, name: int) -> State:
    """A lost producer is forgotten: there are others."""
    after = SYSTEM.perform("LoseProducer", state, parameters, name)
    return after._replace(channel=state.channel, consumer=state.consumer)


def drops_quietly(state: State, parameters: Parameters, name: int) -> State:
    """What comes to a channel that is closed is dropped, and its sender is not told."""
    SYSTEM.perform("RefuseClosed", state, parameters, name)
    return _with(state, name, incoming=0)


def reads_end_before_the_line(state: State, parameters: Parameters) -> State:
    """The end overtakes the messages that wait in the line."""
    empty = state._replace(line=state.line._replace(given=state.line.served))
    return SYSTEM.perform("ReadEnd", empty, parameters)._replace(line=state.line)


def forgets_the_lost(state: State, parameters: Parameters) -> State:
    """Another consumer goes on where one was lost."""
    consumer = state.consumer
    fresh = state._replace(consumer=consumer._replace(handed=0))
    after = SYSTEM.perform("GiveUpConsumer", fresh, parameters)
    return after._replace(consumer=after.consumer._replace(handed=consumer.handed))


def takes_in_what_has_not_come(state: State, parameters: Parameters, name: int) -> State:
    one = state.producers.get(name)
    after = SYSTEM.perform("TakeIn", _with(state, name, incoming=one.incoming + 1), parameters, name)
    return _with(after, name, incoming=one.incoming - 1)


MISTAKES = (
    Mistake("NoteEnd", ends_for_all, "OpenUntilClosed", UNREAD),
    Mistake("NoteEnd", takes_the_end_too_early, "EndIsBehindAll", UNREAD),
    Mistake("NoteLeft", counts_its_own, "EndIsBehindAll", READ),
    Mistake("AnswerEnd", counts_purged, "EachIsToldTrue", ONE),
    Mistake("TakeIn", overtakes, "TakenInTurn", LONG),
    Mistake("TakeIn", takes_in_where_full, "FanInBounded", UNREAD),
    Mistake("TakeIn", takes_in_uncounted, "PassedOnOnce", UNREAD),
    Mistake("LineUp", gives_a_ticket_twice, "OneInEachPlace", UNREAD),
    Mistake("LoseProducer", loses_quietly, "LossBreaks", ONE),
    Mistake("RefuseClosed", drops_quietly, "EachTakenOnce", UNREAD),
    Mistake("ReadEnd", reads_end_before_the_line, "EndIsOfAll", READ),
    Mistake("GiveUpConsumer", forgets_the_lost, "PassedOnOnce", ONE),
    Mistake("TakeIn", takes_in_what_has_not_come, "TypeOK", UNREAD),
)
