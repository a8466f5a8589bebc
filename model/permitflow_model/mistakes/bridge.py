"""Mistakes on purpose in ``bridge``."""

from permitflow_model.bridge import SYSTEM, Parameters, State, goes, nobody, of_consumer
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake

ONE = Parameters(producer_window=1, channel_window=1, consumer_window=1, total=1, consumers=1)
TWO = Parameters(producer_window=1, channel_window=1, consumer_window=1, total=2, consumers=2)


def answers_when_passed_on(state: State, parameters: Parameters) -> State:
    """Each hop answers for itself: a message that has left for the consumer counts as consumed."""
    heard = state.consumer._replace(credit=parameters.consumer_window)
    after = SYSTEM.perform("AnswerEnd", state._replace(consumer=heard), parameters)
    return after._replace(consumer=state.consumer)


def answers_consumed_though_purged(state: State, parameters: Parameters) -> State:
    unpurged = state.channel._replace(purged=0)
    return SYSTEM.perform("AnswerEnd", state._replace(channel=unpurged), parameters)._replace(channel=state.channel)


def lets_another_go_on(state: State, parameters: Parameters) -> State:
    """Another consumer may go on where one has left halfway, although what that one was handed is lost."""
    return SYSTEM.perform("GiveUpConsumer", state._replace(consumer=state.consumer._replace(handed=0)), parameters)


def breaks_in_silence(state: State, parameters: Parameters) -> State:
    """The producer of a channel that has lost its consumer is not told."""
    return SYSTEM.perform("GiveUpConsumer", state, parameters)._replace(producer=state.producer)


def ends_for_the_lost(state: State, parameters: Parameters) -> State:
    """A producer that is gone counts as one that has ended."""
    require(parameters.faults)
    channel = state.channel
    after = SYSTEM.perform("LoseProducer", state._replace(channel=channel._replace(phase="ended")), parameters)
    is_open = channel.phase == "open"
    return after._replace(
        channel=channel._replace(phase="ended") if is_open else channel, incoming=0, lost=state.lost + state.incoming
    )


def ends_before_all_is_in(state: State, parameters: Parameters) -> State:
    """End overtakes the messages that wait for room in the channel."""
    overtaken = state._replace(incoming=0, lost=state.lost + state.incoming)
    return SYSTEM.perform("EndChannel", overtaken, parameters)


def cancels_as_consumed(state: State, parameters: Parameters) -> State:
    """A consumer that cancels is taken for one that has consumed what it drops."""
    inbox = state.consumer.inbox
    after = SYSTEM.perform("Cancel", state, parameters)
    consumer = after.consumer._replace(inbox=0, returned=after.consumer.returned + inbox)
    return after._replace(consumer=consumer, lost=state.lost + inbox)


def cancels_in_silence(state: State, parameters: Parameters) -> State:
    """The producer is not told that no more is needed."""
    return SYSTEM.perform("HearCancel", state, parameters)._replace(producer=state.producer)


def takes_in_without_room(state: State, parameters: Parameters) -> State:
    """The first bridge consumes a message before there is room for it, and holds it: the channel has no bound."""
    after = SYSTEM.perform("TakeIn", state._replace(channel=state.channel._replace(held=0)), parameters)
    return after._replace(channel=after.channel._replace(held=state.channel.held + 1))


def takes_in_without_a_permit(state: State, parameters: Parameters) -> State:
    """It forgets the permit."""
    return SYSTEM.perform("TakeIn", state, parameters)._replace(producer=state.producer)


def passes_on_and_keeps_it(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("PassOn", state, parameters)._replace(channel=state.channel)


def returns_a_permit_twice(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("HearConsumed", state, parameters)
    return after._replace(consumer=after.consumer._replace(returned=state.consumer.returned))


def passes_the_end_before_the_last(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("PassEnd", state._replace(channel=state.channel._replace(held=0)), parameters)
    return after._replace(channel=state.channel)


def spends_what_is_broken(state: State, parameters: Parameters) -> State:
    """The consumer of a broken channel leaves it as if it were read."""
    after = SYSTEM.perform("PassAbort", state, parameters)
    return after._replace(channel=after.channel._replace(phase="spent"))


def reads_the_end_too_early(state: State, parameters: Parameters) -> State:
    """The end overtakes messages on their way."""
    consumer = state.consumer._replace(wire=0, inbox=0)
    after = SYSTEM.perform("ReadEnd", state._replace(consumer=consumer), parameters)
    return after._replace(consumer=state.consumer._replace(seen=after.consumer.seen))


def resets_without_a_word(state: State, parameters: Parameters) -> State:
    """The consumer of a channel that was reset is forgotten, and the producer is not told."""
    require(parameters.faults)
    require(goes(state.channel))
    require(not state.channel.is_retired)
    dropped = state.incoming + state.channel.held + of_consumer(state.consumer)
    return state._replace(
        channel=state.channel._replace(phase="broken", held=0, is_retired=True),
        incoming=0,
        lost=state.lost + dropped,
        consumer=nobody(state.consumer.seen),
    )


MISTAKES = (
    Mistake("AnswerEnd", answers_when_passed_on, "AnswerIsTrue", ONE),
    Mistake("AnswerEnd", answers_consumed_though_purged, "AnswerIsTrue", TWO),
    Mistake("GiveUpConsumer", lets_another_go_on, "HandedOutOnce", ONE),
    Mistake("GiveUpConsumer", breaks_in_silence, "BreakIsTold", ONE),
    Mistake("LoseProducer", ends_for_the_lost, "TakenConserved", ONE),
    Mistake("EndChannel", ends_before_all_is_in, "TakenConserved", ONE),
    Mistake("Cancel", cancels_as_consumed, "HandedOutOnce", ONE),
    Mistake("HearCancel", cancels_in_silence, "BreakIsTold", ONE),
    Mistake("TakeIn", takes_in_without_room, "TypeOK", TWO),
    Mistake("TakeIn", takes_in_without_a_permit, "ProducerPermits", ONE),
    Mistake("PassOn", passes_on_and_keeps_it, "MessagesConserved", ONE),
    Mistake("HearConsumed", returns_a_permit_twice, "ReaderPermits", ONE),
    Mistake("PassEnd", passes_the_end_before_the_last, "EndIsLast", ONE),
    Mistake("PassAbort", spends_what_is_broken, "SpentIsRead", ONE),
    Mistake("ReadEnd", reads_the_end_too_early, "EndIsWhole", ONE),
    Mistake("Reset", resets_without_a_word, "BreakIsTold", ONE),
)
