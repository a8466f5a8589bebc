"""``Bridge.tla``, action for action: an exchange's channel that is read once, between two streams with their windows.

docs/protocols/bridge.md explains it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

ProducerLife = Literal["open", "ended", "aborted", "gone"]
Told = Literal["none", "accepted", "consumed", "cancelled", "error"]
Phase = Literal["open", "ended", "spent", "broken"]
ConsumerLife = Literal["none", "reading", "suspended", "gone"]
Seen = Literal["none", "end", "abort", "error", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    producer_window: Positive
    """Messages that may be in the producer's stream."""

    channel_window: Positive
    """... in the channel."""

    consumer_window: Positive
    """... in the consumer's stream."""

    total: Natural
    """Messages that are offered at most."""

    consumers: Natural
    """Consumers that come at most, one after the other."""

    waits: bool = True
    """Does the producer's end wait until the consumer has consumed everything?"""

    faults: bool = True
    """May peers be lost, and may an administrator purge and reset?"""


class Producer(NamedTuple):
    """The producer, and its stream as far as the first bridge."""

    life: ProducerLife
    offered: int
    credit: int
    returned: int
    """Permits on their way back."""
    told: Told
    """Its last word."""


class Channel(NamedTuple):
    """What the exchange knows of the channel."""

    phase: Phase
    held: int
    taken: int
    """Messages that it has ever taken over."""
    purged: int
    """Messages that an administrator has dropped."""
    is_awaited: bool
    """Does the answer to End wait for the consumer that is there?"""
    is_cancelled: bool
    is_lost: bool
    """Has a consumer left halfway?"""
    is_retired: bool
    """Was it reset?  The name then has another channel, which begins anew."""


class Consumer(NamedTuple):
    """The consumer that is there, and its stream from the second bridge on."""

    life: ConsumerLife
    handed: int
    """Messages that the second bridge has passed on to it."""
    credit: int
    wire: int
    inbox: int
    returned: int
    has_end: bool
    """Is End behind them?"""
    seen: Seen
    """What its application was told, or has said."""


class State(NamedTuple):
    """The variables of the specification."""

    producer: Producer
    incoming: int
    channel: Channel
    consumer: Consumer
    comers: int
    consumed: int
    lost: int


def nobody(seen: Seen) -> Consumer:
    """No consumer is there; the last one was told this."""
    return Consumer("none", 0, 0, 0, 0, 0, False, seen)


def initial(parameters: Parameters) -> State:
    """Nothing was offered, and no consumer has come."""
    return State(
        Producer("open", 0, parameters.producer_window, 0, "none"),
        incoming=0,
        channel=Channel("open", 0, 0, 0, False, False, False, False),
        consumer=nobody("none"),
        comers=parameters.consumers,
        consumed=0,
        lost=0,
    )


def is_live(producer: Producer) -> bool:
    """Has it heard no last word?"""
    return (producer.life == "open" or producer.life == "ended") and producer.told == "none"


def is_there(state: State) -> bool:
    """Has the channel a consumer?"""
    return state.consumer.life != "none"


def goes(channel: Channel) -> bool:
    """May messages still reach a consumer?"""
    return channel.phase == "open" or channel.phase == "ended"


def of_consumer(consumer: Consumer) -> int:
    """Messages in its stream."""
    return consumer.wire + consumer.inbox


def _told(state: State, word: Told) -> State:
    """A producer that has heard no last word hears this one."""
    return state._replace(producer=state.producer._replace(told=word)) if is_live(state.producer) else state


def _dropped(state: State) -> State:
    """What is in the channel, and on its way to it, is dropped."""
    channel = state.channel
    return state._replace(lost=state.lost + state.incoming + channel.held, incoming=0, channel=channel._replace(held=0))


def _broken(state: State) -> State:
    """The channel breaks, if it is not over: what is in it is incomplete."""
    if not goes(state.channel):
        return state
    state = _dropped(state)
    return state._replace(channel=state.channel._replace(phase="broken"))


def _left(state: State, word: Seen) -> State:
    """The consumer leaves with this as its last word, unless it had one."""
    consumer = state.consumer
    seen = word if consumer.seen == "none" else consumer.seen
    return state._replace(lost=state.lost + of_consumer(consumer), consumer=nobody(seen))


# The applications, and what happens to them.


def done(state: State, _parameters: Parameters) -> State:
    """Nothing can be done any more, or nobody comes."""
    require(not is_there(state))
    require(not is_live(state.producer) or state.comers == 0)
    return state


def offer(state: State, parameters: Parameters) -> State:
    """A message leaves the producer."""
    producer = state.producer
    require(producer.life == "open")
    require(producer.told == "none")
    require(producer.credit > 0)
    require(producer.offered < parameters.total)
    producer = producer._replace(offered=producer.offered + 1, credit=producer.credit - 1)
    return state._replace(producer=producer, incoming=state.incoming + 1)


def end_stream(state: State, _parameters: Parameters) -> State:
    """End is behind its messages."""
    require(state.producer.life == "open")
    require(state.producer.told == "none")
    return state._replace(producer=state.producer._replace(life="ended"))


def abort(state: State, _parameters: Parameters) -> State:
    """It gives up, and the exchange learns of it at once, whatever waits."""
    require(state.producer.life == "open")
    require(state.producer.told == "none")
    return _broken(state._replace(producer=state.producer._replace(life="aborted")))


def lose_producer(state: State, parameters: Parameters) -> State:
    """It is gone, and the exchange has noticed; if its End has come, it leaves nothing behind."""
    require(parameters.faults)
    require(is_live(state.producer))
    state = state._replace(producer=state.producer._replace(life="gone"))
    return _broken(state) if state.channel.phase == "open" else state


def claim(state: State, parameters: Parameters) -> State:
    """A consumer comes."""
    channel = state.channel
    require(state.comers > 0)
    require(not is_there(state))
    require(channel.phase != "spent")
    require(not channel.is_lost)
    require(not channel.is_retired)
    consumer = nobody("none")._replace(life="reading", credit=parameters.consumer_window)
    return state._replace(comers=state.comers - 1, consumer=consumer)


def consume(state: State, _parameters: Parameters) -> State:
    """The consumer's application has consumed a message: the permit goes back."""
    consumer = state.consumer
    require(consumer.life == "reading" or consumer.life == "suspended")
    require(consumer.inbox > 0)
    require(consumer.seen == "none")
    consumer = consumer._replace(inbox=consumer.inbox - 1, returned=consumer.returned + 1)
    return state._replace(consumer=consumer, consumed=state.consumed + 1)


def cancel(state: State, _parameters: Parameters) -> State:
    """It needs no more."""
    require(state.consumer.life == "reading")
    require(state.consumer.seen == "none")
    return state._replace(consumer=state.consumer._replace(seen="cancelled"))


def suspend_consumer(state: State, parameters: Parameters) -> State:
    """Its connection is lost, and what was under way is kept."""
    require(parameters.faults)
    require(state.consumer.life == "reading")
    return state._replace(consumer=state.consumer._replace(life="suspended"))


def resume_consumer(state: State, _parameters: Parameters) -> State:
    """It comes back."""
    require(state.consumer.life == "suspended")
    return state._replace(consumer=state.consumer._replace(life="reading"))


def lose_reader(state: State, parameters: Parameters) -> State:
    """It is gone, nobody has noticed yet, and permits that it has returned may still arrive."""
    require(parameters.faults)
    require(state.consumer.life == "reading")
    return state._replace(consumer=state.consumer._replace(life="gone"))


def purge(state: State, parameters: Parameters) -> State:
    """An administrator drops what is in the channel."""
    channel = state.channel
    require(parameters.faults)
    require(goes(channel))
    require(channel.held > 0)
    purged = channel._replace(held=0, purged=channel.purged + channel.held)
    return state._replace(channel=purged, lost=state.lost + channel.held)


def reset(state: State, parameters: Parameters) -> State:
    """... ends it for all; the name gets another channel."""
    require(parameters.faults)
    require(not state.channel.is_retired)
    state = state._replace(channel=state.channel._replace(is_retired=True))
    if goes(state.channel):
        state = _broken(_told(state, "error"))
    return _left(state, "error") if is_there(state) else state


# The bridges.


def take_in(state: State, parameters: Parameters) -> State:
    """A message goes into the channel if there is room, and its permit back."""
    channel, producer = state.channel, state.producer
    require(channel.phase == "open")
    require(state.incoming > 0)
    require(channel.held < parameters.channel_window)
    return state._replace(
        incoming=state.incoming - 1,
        channel=channel._replace(held=channel.held + 1, taken=channel.taken + 1),
        producer=producer._replace(returned=producer.returned + 1),
    )


def hear_permit(state: State, _parameters: Parameters) -> State:
    """The permit arrives."""
    producer = state.producer
    require(producer.returned > 0)
    producer = producer._replace(returned=producer.returned - 1, credit=producer.credit + 1)
    return state._replace(producer=producer)


def pass_on(state: State, _parameters: Parameters) -> State:
    """A message leaves for the consumer if that has a permit for it; its room in the channel is free again."""
    channel, consumer = state.channel, state.consumer
    require(goes(channel))
    require(is_there(state))
    require(channel.held > 0)
    require(consumer.credit > 0)
    consumer = consumer._replace(handed=consumer.handed + 1, credit=consumer.credit - 1, wire=consumer.wire + 1)
    return state._replace(channel=channel._replace(held=channel.held - 1), consumer=consumer)


def deliver(state: State, _parameters: Parameters) -> State:
    """It arrives."""
    consumer = state.consumer
    require(consumer.life == "reading")
    require(consumer.wire > 0)
    require(consumer.seen == "none")
    return state._replace(consumer=consumer._replace(wire=consumer.wire - 1, inbox=consumer.inbox + 1))


def hear_consumed(state: State, _parameters: Parameters) -> State:
    """The exchange hears that a message is consumed."""
    consumer = state.consumer
    require(is_heard(consumer))
    require(consumer.returned > 0)
    return state._replace(consumer=consumer._replace(returned=consumer.returned - 1, credit=consumer.credit + 1))


def is_heard(consumer: Consumer) -> bool:
    """Does what it has written arrive?"""
    return consumer.life == "reading" or consumer.life == "gone"


def end_channel(state: State, parameters: Parameters) -> State:
    """End has come behind all messages; its answer waits for the consumer that is there, if it has to."""
    require(state.producer.life == "ended")
    require(state.channel.phase == "open")
    require(state.incoming == 0)
    is_awaited = parameters.waits and is_there(state)
    return state._replace(channel=state.channel._replace(phase="ended", is_awaited=is_awaited))


def has_heard_all(state: State, parameters: Parameters) -> bool:
    """Has the consumer that is there consumed everything, as the exchange knows?"""
    return is_there(state) and state.channel.held == 0 and state.consumer.credit == parameters.consumer_window


def was_read(state: State, parameters: Parameters) -> bool:
    """Is everything consumed, as the exchange knows, or was purged before?"""
    channel = state.channel
    return (channel.is_awaited and has_heard_all(state, parameters)) or channel.phase == "spent"


def answer_end(state: State, parameters: Parameters) -> State:
    """The producer is told what became of its messages."""
    producer, channel = state.producer, state.channel
    require(producer.life == "ended")
    require(producer.told == "none")
    require(channel.phase == "ended" or channel.phase == "spent")
    is_read = was_read(state, parameters)
    require(not channel.is_awaited or is_read)
    told: Told = "consumed" if is_read and channel.purged == 0 else "accepted"
    return state._replace(producer=producer._replace(told=told))


def pass_end(state: State, _parameters: Parameters) -> State:
    """End leaves for the consumer."""
    require(state.channel.phase == "ended")
    require(state.channel.held == 0)
    require(is_there(state))
    require(not state.consumer.has_end)
    return state._replace(consumer=state.consumer._replace(has_end=True))


def read_end(state: State, _parameters: Parameters) -> State:
    """The consumer's application reads the end."""
    consumer = state.consumer
    require(consumer.life == "reading")
    require(consumer.has_end)
    require(of_consumer(consumer) == 0)
    require(consumer.seen == "none")
    return state._replace(consumer=consumer._replace(seen="end"))


def spend(state: State, _parameters: Parameters) -> State:
    """The exchange learns of it: the channel is spent."""
    consumer = state.consumer
    require(is_heard(consumer))
    require(consumer.seen == "end")
    require(consumer.returned == 0)
    return state._replace(channel=state.channel._replace(phase="spent"), consumer=nobody("end"))


def pass_abort(state: State, _parameters: Parameters) -> State:
    """The consumer of a broken channel is told so, behind no end."""
    require(state.channel.phase == "broken")
    require(is_there(state))
    return _left(state, "abort")


def hear_cancel(state: State, _parameters: Parameters) -> State:
    """The exchange hears that no more is needed."""
    require(goes(state.channel))
    require(is_heard(state.consumer))
    require(state.consumer.seen == "cancelled")
    state = _left(_told(_dropped(state), "cancelled"), "cancelled")
    return state._replace(channel=state.channel._replace(phase="spent", is_cancelled=True))


def give_up_consumer(state: State, _parameters: Parameters) -> State:
    """It is noticed that it is gone, it has not come back in time, or another one comes in its place.

    If it was handed messages, they are lost, and the channel breaks; else another one may come.
    """
    require(state.consumer.life == "suspended" or state.consumer.life == "gone")
    if state.consumer.handed > 0 and goes(state.channel):
        state = _broken(_told(state, "error"))
        state = state._replace(channel=state.channel._replace(is_lost=True))
    else:
        state = state._replace(channel=state.channel._replace(is_awaited=False))
    return _left(state, "error")


# Invariants.


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    producer, channel, consumer = state.producer, state.channel, state.consumer
    return (
        producer.offered >= 0
        and producer.credit >= 0
        and producer.returned >= 0
        and state.incoming >= 0
        and state.consumed >= 0
        and state.lost >= 0
        and state.comers >= 0
        and 0 <= channel.held <= parameters.channel_window
        and channel.taken >= 0
        and channel.purged >= 0
        and consumer.handed >= 0
        and consumer.credit >= 0
        and consumer.wire >= 0
        and consumer.inbox >= 0
        and consumer.returned >= 0
        and (is_there(state) or consumer == nobody(consumer.seen))
    )


def producer_permits(state: State, parameters: Parameters) -> bool:
    """No permit of the producer is lost or doubled."""
    producer = state.producer
    in_all = producer.credit + state.incoming + producer.returned
    return not goes(state.channel) or in_all == parameters.producer_window


def reader_permits(state: State, parameters: Parameters) -> bool:
    """... of the consumer."""
    consumer = state.consumer
    in_all = consumer.credit + of_consumer(consumer) + consumer.returned
    return not is_there(state) or in_all == parameters.consumer_window


def messages_conserved(state: State, _parameters: Parameters) -> bool:
    """Each message is somewhere, once."""
    under_way = state.incoming + state.channel.held + of_consumer(state.consumer)
    return state.producer.offered == under_way + state.consumed + state.lost


def taken_conserved(state: State, _parameters: Parameters) -> bool:
    """The channel has taken over each message but the incoming ones, and lost none; one that is over is empty."""
    channel = state.channel
    if not goes(channel):
        return state.incoming == 0 and channel.held == 0
    return channel.taken == state.producer.offered - state.incoming and state.lost == channel.purged


def handed_out_once(state: State, _parameters: Parameters) -> bool:
    """All messages that any consumer has got belong to the one that is there: nothing is handed out twice."""
    return not goes(state.channel) or state.consumed + of_consumer(state.consumer) == state.consumer.handed


def end_is_last(state: State, _parameters: Parameters) -> bool:
    """The end is behind all messages, in the channel and in the consumer's stream."""
    channel, consumer = state.channel, state.consumer
    if channel.phase == "ended" and (state.incoming > 0 or not has_ended(state.producer)):
        return False
    if consumer.has_end and (channel.held > 0 or channel.phase != "ended"):
        return False
    if is_there(state) and consumer.seen == "end" and (not consumer.has_end or of_consumer(consumer) > 0):
        return False
    if is_there(state) and (channel.phase == "spent" or channel.is_lost or channel.is_retired):
        return False
    return not channel.is_awaited or channel.phase != "open"


def has_ended(producer: Producer) -> bool:
    """Has it ended its stream, or is it gone, perhaps behind its end?"""
    return producer.life == "ended" or producer.life == "gone"


def spent_is_read(state: State, _parameters: Parameters) -> bool:
    """A channel that was not cancelled is spent by who has read it to its end."""
    channel = state.channel
    if channel.phase != "spent" or channel.is_cancelled:
        return True
    offered = state.producer.offered
    return state.consumed + channel.purged == offered and channel.taken == offered and has_ended(state.producer)


def answer_is_true(state: State, _parameters: Parameters) -> bool:
    """What a producer is told is true; an error says that the channel broke, and nothing of what was consumed."""
    producer, channel = state.producer, state.channel
    if producer.told == "consumed":
        return state.consumed == producer.offered
    if producer.told == "accepted":
        return channel.taken == producer.offered
    if producer.told == "cancelled":
        return channel.is_cancelled
    return producer.told == "none" or channel.phase == "broken"


def end_is_whole(state: State, _parameters: Parameters) -> bool:
    """A consumer that reads the end has consumed all that was offered, and not purged."""
    if state.consumer.seen != "end":
        return True
    return state.consumed + state.channel.purged == state.producer.offered and has_ended(state.producer)


def break_is_told(state: State, _parameters: Parameters) -> bool:
    """When the channel is over, its producer learns of it."""
    channel, producer = state.channel, state.producer
    if channel.phase == "open":
        return is_live(producer) and not channel.is_cancelled
    if channel.phase == "broken" and is_live(producer):
        return False
    if channel.is_cancelled:
        return channel.phase == "spent" and not is_live(producer)
    return channel.phase != "spent" or not is_live(producer) or producer.life == "ended"


def bridge_bounded(state: State, parameters: Parameters) -> bool:
    """No more than three windows are on their way: the bridges hold nothing."""
    windows = parameters.producer_window + parameters.channel_window + parameters.consumer_window
    return state.incoming + state.channel.held + of_consumer(state.consumer) <= windows


def bridge_moves(state: State, parameters: Parameters) -> bool:
    """While both live, something moves, or an application is waited for: one that sends, or one that consumes."""
    producer, consumer = state.producer, state.consumer
    if not is_live(producer) or consumer.life != "reading" or consumer.seen != "none":
        return True
    if consumer.inbox > 0 or (producer.life == "open" and producer.credit > 0):
        return True
    return SYSTEM.can_move(state, parameters)


# Probes.


def accepted_is_kept(state: State, _parameters: Parameters) -> bool:
    """What was accepted is consumed."""
    return state.producer.told != "accepted" or not state.channel.is_lost


def returned_is_consumed(state: State, parameters: Parameters) -> bool:
    """A permit that is back was of a message that is consumed."""
    return state.producer.credit != parameters.producer_window or state.consumed == state.producer.offered


def error_is_loss(state: State, _parameters: Parameters) -> bool:
    """Where a producer is told that its consumer is lost, something that it has sent was not consumed."""
    producer = state.producer
    return producer.told != "error" or not state.channel.is_lost or state.consumed < producer.offered


def second_reader(state: State, parameters: Parameters) -> bool:
    """A channel that a consumer has left is read no more."""
    return state.comers >= parameters.consumers - 1 or state.consumed == 0


def windows_full(state: State, parameters: Parameters) -> bool:
    """The windows are never full all at once."""
    windows = parameters.producer_window + parameters.channel_window + parameters.consumer_window
    return state.incoming + state.channel.held + of_consumer(state.consumer) < windows


SYSTEM: System[State, Parameters] = System(
    module="Bridge",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("Offer", offer, is_environment=True),
        Action("EndStream", end_stream, is_environment=True),
        Action("Abort", abort, is_environment=True),
        Action("LoseProducer", lose_producer, is_environment=True),
        Action("Claim", claim, is_environment=True),
        Action("Consume", consume, is_environment=True),
        Action("Cancel", cancel, is_environment=True),
        Action("SuspendConsumer", suspend_consumer, is_environment=True),
        Action("ResumeConsumer", resume_consumer, is_environment=True),
        Action("LoseReader", lose_reader, is_environment=True),
        Action("Purge", purge, is_environment=True),
        Action("Reset", reset, is_environment=True),
        Action("TakeIn", take_in),
        Action("HearPermit", hear_permit),
        Action("PassOn", pass_on),
        Action("Deliver", deliver),
        Action("HearConsumed", hear_consumed),
        Action("EndChannel", end_channel),
        Action("AnswerEnd", answer_end),
        Action("PassEnd", pass_end),
        Action("ReadEnd", read_end),
        Action("Spend", spend),
        Action("PassAbort", pass_abort),
        Action("HearCancel", hear_cancel),
        Action("GiveUpConsumer", give_up_consumer),
    ),
    invariants={
        "TypeOK": type_ok,
        "ProducerPermits": producer_permits,
        "ReaderPermits": reader_permits,
        "MessagesConserved": messages_conserved,
        "TakenConserved": taken_conserved,
        "HandedOutOnce": handed_out_once,
        "EndIsLast": end_is_last,
        "SpentIsRead": spent_is_read,
        "AnswerIsTrue": answer_is_true,
        "EndIsWhole": end_is_whole,
        "BreakIsTold": break_is_told,
        "BridgeBounded": bridge_bounded,
        "BridgeMoves": bridge_moves,
    },
    probes={
        "AcceptedIsKeptProbe": accepted_is_kept,
        "ReturnedIsConsumedProbe": returned_is_consumed,
        "ErrorIsLossProbe": error_is_loss,
        "SecondReaderProbe": second_reader,
        "WindowsFullProbe": windows_full,
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.bridge:theorems")
