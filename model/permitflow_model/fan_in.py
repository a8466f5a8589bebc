"""``FanIn.tla``, action for action: the producers of an exchange's channel that is read once, any number of them.

docs/protocols/bridge.md explains it.  Producers are numbered from 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from permitflow_model.kernel.family import Family, Members, family
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Life = Literal["away", "open", "gone"]
Ending = Literal["none", "sent", "here", "left"]
Told = Literal["none", "accepted", "consumed", "cancelled", "error"]
Phase = Literal["open", "ended", "spent", "broken"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    producers: Positive
    """That may come."""

    producer_window: Positive
    """Messages that may be in the stream of each."""

    channel_window: Positive
    """... in the channel."""

    consumer_window: Positive
    """... in the consumer's stream."""

    total: Natural
    """Messages that each producer offers at most."""

    consumers: Natural
    """Consumers that come at most, one after the other."""

    waits: bool = True
    """Does a producer's end wait until the consumer has consumed everything before it?"""

    faults: Natural = 0
    """Connections that are cut, peers that are lost, purges and resets, at most."""


class Producer(NamedTuple):
    """A producer, and its stream as far as the channel."""

    life: Life
    """"gone": it has given up, or is lost."""
    is_cut: bool
    """Is its connection lost, and may it come back?"""
    offered: int
    """Messages that have come to the exchange."""
    incoming: int
    """Messages among them that the channel has not taken in."""
    ticket: int
    """Its place in the line; 0: none of its messages waits there."""
    since: int
    """How many messages the channel had taken in when it lined up."""
    end: Ending
    """"here": End has come behind its messages; "left": so has all before it."""
    closes: bool
    """Does its End say that no other producer follows?"""
    mark: int
    """The number of the channel's last message when its End came."""
    awaits: int
    """The number of the consumer for which its answer waits; 0: for none."""
    due: int
    """Messages that this consumer has to have consumed."""
    told: Told
    """Its last word."""


class Channel(NamedTuple):
    """The channel."""

    phase: Phase
    held: int
    taken: int
    """Messages that it has ever taken in."""
    purged: int
    """Messages that an administrator has dropped."""
    gap: int
    """The number of the first one among them; 0: there is none."""
    is_cancelled: bool
    is_retired: bool
    """Was it reset?"""


class Line(NamedTuple):
    """The messages that wait for room in the channel, one of a producer at most."""

    given: int
    """Tickets so far."""
    served: int
    """... of those whose message was taken in."""


class Consumer(NamedTuple):
    """The consumer."""

    came: int
    """Consumers so far."""
    is_there: bool
    handed: int
    """Messages that were passed on."""
    consumed: int


class State(NamedTuple):
    """The variables of the specification."""

    producers: Family[Producer]
    channel: Channel
    line: Line
    consumer: Consumer
    faults: int


BEFORE = Producer(
    life="away",
    is_cut=False,
    offered=0,
    incoming=0,
    ticket=0,
    since=0,
    end="none",
    closes=False,
    mark=0,
    awaits=0,
    due=0,
    told="none",
)


def initial(parameters: Parameters) -> State:
    """Nobody has come."""
    return State(
        family(BEFORE, parameters.producers),
        Channel("open", 0, 0, 0, 0, False, False),
        Line(0, 0),
        Consumer(0, False, 0, 0),
        faults=0,
    )


def goes(channel: Channel) -> bool:
    """May messages still reach a consumer?"""
    return channel.phase == "open" or channel.phase == "ended"


def is_read(channel: Channel) -> bool:
    """Was it read to its end?"""
    return channel.phase == "spent" and not channel.is_cancelled


def is_over(channel: Channel) -> bool:
    """Does everybody hear that it is over?"""
    return channel.phase == "broken" or channel.is_cancelled or channel.is_retired


def is_live(one: Producer) -> bool:
    """Has it heard no last word?"""
    return one.life == "open" and one.told == "none"


def sends(one: Producer, channel: Channel) -> bool:
    """May it send?  What comes behind the end of all is nobody's."""
    return is_live(one) and not is_over(channel) and not one.is_cut and one.end == "none"


def has_ended(one: Producer) -> bool:
    """Has its End come?"""
    return one.end == "here" or one.end == "left"


def left(state: State) -> int:
    """The number of the last message that was passed on or dropped."""
    return state.consumer.handed + state.channel.purged


def is_waiting(one: Producer, consumer: Consumer) -> bool:
    """Does its answer wait for the consumer that is there?"""
    return one.awaits > 0 and one.awaits == consumer.came and consumer.is_there


def is_lined_up(line: Line) -> bool:
    """Does a message wait in the line?"""
    return line.given > line.served


def _with(state: State, name: int, one: Producer) -> State:
    return state._replace(producers=state.producers.put(name, one))


def _left_alone(state: State) -> State:
    """No consumer is there."""
    return state._replace(consumer=state.consumer._replace(is_there=False))


def _broken(state: State) -> State:
    """The channel breaks, if it is not over, and its consumer learns of it."""
    if not goes(state.channel):
        return _left_alone(state)
    return _left_alone(state)._replace(channel=state.channel._replace(phase="broken"))


def _failing(state: State, parameters: Parameters) -> State:
    require(state.faults < parameters.faults)
    return state._replace(faults=state.faults + 1)


# The applications, and what happens to them.


def done(state: State, parameters: Parameters) -> State:
    """Nobody comes any more to read it."""
    require(not state.consumer.is_there)
    require(state.consumer.came == parameters.consumers or not goes(state.channel))
    return state


def dial_in(state: State, _parameters: Parameters, name: int) -> State:
    """A producer comes, first or late."""
    one = state.producers.get(name)
    require(one.life == "away")
    require(state.channel.phase == "open")
    return _with(state, name, one._replace(life="open"))


def offer(state: State, parameters: Parameters, name: int) -> State:
    """A message of it comes to the exchange."""
    one = state.producers.get(name)
    require(sends(one, state.channel))
    require(one.offered < parameters.total)
    require(one.incoming < parameters.producer_window)
    return _with(state, name, one._replace(offered=one.offered + 1, incoming=one.incoming + 1))


def end_stream(state: State, _parameters: Parameters, name: int) -> State:
    """End is behind its messages; others may follow."""
    one = state.producers.get(name)
    require(sends(one, state.channel))
    return _with(state, name, one._replace(end="sent"))


def close_stream(state: State, _parameters: Parameters, name: int) -> State:
    """... and says that no other producer follows."""
    one = state.producers.get(name)
    require(sends(one, state.channel))
    return _with(state, name, one._replace(end="sent", closes=True))


def abort(state: State, _parameters: Parameters, name: int) -> State:
    """It gives up."""
    one = state.producers.get(name)
    require(sends(one, state.channel))
    return _broken(_with(state, name, one._replace(life="gone")))


def lose_producer(state: State, parameters: Parameters, name: int) -> State:
    """It is gone, and the exchange has noticed, or waits for it no longer; if its End has come, nothing is lost."""
    one = state.producers.get(name)
    state = _failing(state, parameters)
    require(is_live(one))
    require(not is_over(state.channel))
    state = _with(state, name, one._replace(life="gone"))
    return state if has_ended(one) else _broken(state)


def cut_producer(state: State, parameters: Parameters, name: int) -> State:
    """Its connection is lost; what has come to the exchange goes on."""
    one = state.producers.get(name)
    state = _failing(state, parameters)
    require(is_live(one))
    require(not is_over(state.channel))
    require(not one.is_cut)
    return _with(state, name, one._replace(is_cut=True))


def resume_producer(state: State, _parameters: Parameters, name: int) -> State:
    """It comes back."""
    one = state.producers.get(name)
    require(one.life == "open")
    require(one.is_cut)
    return _with(state, name, one._replace(is_cut=False))


def claim(state: State, parameters: Parameters) -> State:
    """A consumer comes."""
    consumer = state.consumer
    require(not consumer.is_there)
    require(consumer.came < parameters.consumers)
    require(goes(state.channel))
    return state._replace(consumer=consumer._replace(is_there=True, came=consumer.came + 1))


def consume(state: State, _parameters: Parameters) -> State:
    """It has consumed a message, and the exchange learns of it."""
    consumer = state.consumer
    require(consumer.is_there)
    require(consumer.consumed < consumer.handed)
    return state._replace(consumer=consumer._replace(consumed=consumer.consumed + 1))


def cancel(state: State, _parameters: Parameters) -> State:
    """It needs no more."""
    require(state.consumer.is_there)
    return _left_alone(state)._replace(channel=state.channel._replace(phase="spent", is_cancelled=True))


def give_up_consumer(state: State, parameters: Parameters) -> State:
    """It is lost; if it was handed messages, the channel breaks, else another one may come."""
    state = _failing(state, parameters)
    require(state.consumer.is_there)
    return _broken(state) if state.consumer.handed > 0 else _left_alone(state)


def purge(state: State, parameters: Parameters) -> State:
    """An administrator drops what is in the channel."""
    channel = state.channel
    state = _failing(state, parameters)
    require(goes(channel))
    require(channel.held > 0)
    gap = left(state) + 1 if channel.gap == 0 else channel.gap
    return state._replace(channel=channel._replace(held=0, purged=channel.purged + channel.held, gap=gap))


def reset(state: State, parameters: Parameters) -> State:
    """... ends it for all."""
    state = _failing(state, parameters)
    require(not state.channel.is_retired)
    return _broken(state._replace(channel=state.channel._replace(is_retired=True)))


# The exchange.


def tell_over(state: State, _parameters: Parameters, name: int) -> State:
    """A producer hears that the channel is over, also one that has nothing to send."""
    one = state.producers.get(name)
    require(is_live(one))
    require(is_over(state.channel))
    told: Told = "cancelled" if state.channel.is_cancelled else "error"
    return _with(state, name, one._replace(told=told))


def answer_end(state: State, _parameters: Parameters, name: int) -> State:
    """A producer is told what became of its messages, and of all before its End."""
    one, channel = state.producers.get(name), state.channel
    require(is_live(one))
    require(has_ended(one))
    require(not is_over(channel))
    waits = is_waiting(one, state.consumer)
    was_read = (waits and one.end == "left" and state.consumer.consumed >= one.due) or channel.phase == "spent"
    require(not waits or was_read)
    told: Told = "consumed" if was_read and channel.purged == 0 else "accepted"
    return _with(state, name, one._replace(told=told))


def note_left(state: State, _parameters: Parameters, name: int) -> State:
    """All that was in the channel then has left: the answer waits until this is consumed."""
    one = state.producers.get(name)
    require(is_live(one))
    require(one.end == "here")
    require(is_waiting(one, state.consumer))
    require(left(state) >= one.mark)
    return _with(state, name, one._replace(end="left", due=state.consumer.handed))


def note_end(state: State, parameters: Parameters, name: int) -> State:
    """A producer's End has come behind its messages; it ends the channel if it says so, and nobody has before."""
    one, channel = state.producers.get(name), state.channel
    require(is_live(one))
    require(one.end == "sent")
    require(one.incoming == 0)
    require(not is_over(channel))
    awaits = state.consumer.came if parameters.waits and state.consumer.is_there else 0
    state = _with(state, name, one._replace(end="here", mark=channel.taken, awaits=awaits))
    if one.closes and channel.phase == "open":
        return state._replace(channel=channel._replace(phase="ended"))
    return state


def refuse_closed(state: State, _parameters: Parameters, name: int) -> State:
    """A message comes to a channel that another one has closed: its sender is told, and nobody reads an end."""
    one = state.producers.get(name)
    require(is_live(one))
    require(one.incoming > 0)
    require(one.ticket == 0)
    require(not is_over(state.channel))
    require(state.channel.phase != "open")
    return _broken(_with(state, name, one._replace(told="error")))


def line_up(state: State, parameters: Parameters, name: int) -> State:
    """A producer's next message waits for room in the channel, behind those that wait already."""
    one, channel, line = state.producers.get(name), state.channel, state.line
    require(is_live(one))
    require(channel.phase == "open")
    require(one.incoming > 0)
    require(one.ticket == 0)
    require(channel.held == parameters.channel_window or is_lined_up(line))
    state = _with(state, name, one._replace(ticket=line.given + 1, since=channel.taken))
    return state._replace(line=line._replace(given=line.given + 1))


def take_in(state: State, parameters: Parameters, name: int) -> State:
    """A message goes into the channel: the first one of the line; any one, if nobody waits there."""
    one, channel, line = state.producers.get(name), state.channel, state.line
    require(goes(channel))
    require(one.incoming > 0)
    require(channel.held < parameters.channel_window)
    waits = one.ticket > 0
    if waits:
        require(one.ticket == line.served + 1)
    else:
        require(channel.phase == "open")
        require(line.given == line.served)
    state = _with(state, name, one._replace(incoming=one.incoming - 1, ticket=0, since=0))
    state = state._replace(channel=channel._replace(held=channel.held + 1, taken=channel.taken + 1))
    return state._replace(line=line._replace(served=line.served + 1)) if waits else state


def pass_on(state: State, parameters: Parameters) -> State:
    """A message leaves for the consumer; its room is free again."""
    channel, consumer = state.channel, state.consumer
    require(consumer.is_there)
    require(channel.held > 0)
    require(consumer.handed - consumer.consumed < parameters.consumer_window)
    return state._replace(
        channel=channel._replace(held=channel.held - 1), consumer=consumer._replace(handed=consumer.handed + 1)
    )


def read_end(state: State, _parameters: Parameters) -> State:
    """The consumer has consumed all that is there, and reads the end: the channel is spent."""
    channel, consumer = state.channel, state.consumer
    require(channel.phase == "ended")
    require(channel.held == 0)
    require(state.line.given == state.line.served)
    require(consumer.is_there)
    require(consumer.consumed == consumer.handed)
    return _left_alone(state)._replace(channel=channel._replace(phase="spent"))


# Invariants.


def producer_ok(one: Producer) -> bool:
    """Of one producer: is no number negative?"""
    counts = one.offered >= 0 and one.incoming >= 0 and one.ticket >= 0 and one.since >= 0
    return counts and one.mark >= 0 and one.awaits >= 0 and one.due >= 0


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    channel, line, consumer = state.channel, state.line, state.consumer
    each = state.producers.every(producer_ok)
    counts = channel.held >= 0 and channel.taken >= 0 and channel.purged >= 0 and channel.gap >= 0
    others = line.given >= 0 and line.served >= 0 and consumer.handed >= 0 and consumer.consumed >= 0
    return each and counts and others and state.faults >= 0 and 0 <= consumer.came <= parameters.consumers


def taken_of(one: Producer) -> int:
    """Its messages that the channel has taken in."""
    return one.offered - one.incoming


def each_taken_once(state: State, _parameters: Parameters) -> bool:
    """Each message that a producer has offered is incoming, or was taken in once."""
    return state.channel.taken == state.producers.sum_of(taken_of)


def passed_on_once(state: State, _parameters: Parameters) -> bool:
    """What was taken in is held, was dropped, or was passed on to one consumer."""
    channel, consumer = state.channel, state.consumer
    if channel.taken != channel.held + left(state) or consumer.consumed > consumer.handed:
        return False
    if (channel.gap == 0) != (channel.purged == 0):
        return False
    if consumer.is_there:
        return goes(channel)
    return not goes(channel) or consumer.handed == 0


def stream_bounded(one: Producer, window: int) -> bool:
    """Of one producer: does its window bound what is in its stream?"""
    return one.incoming <= window


def fan_in_bounded(state: State, parameters: Parameters) -> bool:
    """Each window bounds what is in it."""
    streams = state.producers.every(stream_bounded, parameters.producer_window)
    outstanding = state.consumer.handed - state.consumer.consumed
    is_held = state.channel.held <= parameters.channel_window
    return streams and is_held and outstanding <= parameters.consumer_window


def is_in_line(one: Producer, given: int, served: int) -> bool:
    """Of one producer: is its ticket one of those that wait, and is it that of a message?"""
    return one.ticket == 0 or (served < one.ticket <= given and one.incoming > 0)


def is_elsewhere(one: Producer, ticket: int) -> bool:
    """Has it not this ticket?"""
    return one.ticket != ticket


def one_in_each_place(state: State, _parameters: Parameters) -> bool:
    """Each ticket that waits is one producer's, and no other one's."""
    line = state.line
    if not state.producers.every(is_in_line, line.given, line.served):
        return False
    tickets = [one.ticket for one in cast("Members[Producer]", state.producers) if one.ticket > 0]
    return sorted(tickets) == list(range(line.served + 1, line.given + 1))


def is_in_turn(one: Producer, taken: int, served: int, producers: int) -> bool:
    """Of one producer: with those before it, have no more than all producers' messages come since it lined up?"""
    return one.ticket == 0 or (taken - one.since) + (one.ticket - served) <= producers


def taken_in_turn(state: State, parameters: Parameters) -> bool:
    """While a message waits in the line, at most one of each other producer is taken in."""
    return state.producers.every(is_in_turn, state.channel.taken, state.line.served, parameters.producers)


def is_behind_all(one: Producer, taken: int, handed: int, purged: int) -> bool:
    """Of one producer: is its End behind its messages, and its mark behind them?"""
    if not has_ended(one):
        return True
    if one.incoming != 0 or one.life == "away" or one.mark > taken:
        return False
    return one.end == "here" or (one.due <= handed and one.mark <= one.due + purged)


def end_is_behind_all(state: State, _parameters: Parameters) -> bool:
    """An End comes behind all messages of its producer, and is answered for all that were in the channel then."""
    channel = state.channel
    return state.producers.every(is_behind_all, channel.taken, state.consumer.handed, channel.purged)


def is_told_true(one: Producer, channel: Channel, consumed: int) -> bool:
    """Of one producer: is what it was told true?"""
    if one.told == "none":
        return True
    if one.told == "consumed":
        is_whole = channel.gap == 0 or one.mark < channel.gap
        return has_ended(one) and one.mark <= consumed and is_whole
    if one.told == "accepted":
        return has_ended(one)
    if one.told == "cancelled":
        return channel.is_cancelled
    return channel.phase == "broken" or channel.is_retired or (is_read(channel) and one.incoming > 0)


def each_is_told_true(state: State, _parameters: Parameters) -> bool:
    """What a producer is told is true; consumed: so are all messages up to its End, whosever."""
    return state.producers.every(is_told_true, state.channel, state.consumer.consumed)


def end_is_of_all(state: State, _parameters: Parameters) -> bool:
    """A consumer that has read the end has consumed all that was taken in, and not dropped."""
    channel, line = state.channel, state.line
    if not is_read(channel):
        return True
    return state.consumer.consumed + channel.purged == channel.taken and line.given == line.served


def has_not_closed(one: Producer) -> bool:
    """Has no End of it come that closes the channel?"""
    return not one.closes or not has_ended(one)


def open_until_closed(state: State, _parameters: Parameters) -> bool:
    """The channel ends when a producer says that it closes it, and not before."""
    has_nobody_closed = state.producers.every(has_not_closed)
    is_ended = state.channel.phase == "ended" or is_read(state.channel)
    return not is_ended or not has_nobody_closed


def has_left_nothing(one: Producer) -> bool:
    """Of one producer: is it not gone, or only behind its End?"""
    return one.life != "gone" or has_ended(one)


def loss_breaks(state: State, _parameters: Parameters) -> bool:
    """A producer that is gone before its End has come breaks the channel."""
    return not goes(state.channel) or state.producers.every(has_left_nothing)


def has_nothing_under_way(one: Producer) -> bool:
    """Of one producer: does it wait for nothing?"""
    return not is_live(one) or (one.incoming == 0 and one.end == "none")


def fan_in_moves(state: State, parameters: Parameters) -> bool:
    """Where a consumer reads and a producer has something under way, something moves, or a message is with it."""
    consumer = state.consumer
    if not consumer.is_there or consumer.consumed < consumer.handed:
        return True
    return state.producers.every(has_nothing_under_way) or SYSTEM.can_move(state, parameters)


def has_heard(one: Producer) -> bool:
    """Of one producer: has it a last word, or is not there?"""
    return not is_live(one)


def over_is_told(state: State, parameters: Parameters) -> bool:
    """When nothing moves any more, each producer has heard that the channel is over."""
    if not is_over(state.channel):
        return True
    return state.producers.every(has_heard) or SYSTEM.can_move(state, parameters)


# Probes.


def ended_by_all(state: State, _parameters: Parameters) -> bool:
    """A channel whose producers have all ended has ended."""
    return not state.producers.every(has_ended) or state.channel.phase != "open"


def is_alone_if_consumed(one: Producer, taken: int) -> bool:
    """Was it the only one to send, if it was told consumed?"""
    return one.told != "consumed" or taken == one.offered


def told_with_others(state: State, _parameters: Parameters) -> bool:
    """One that is told consumed was the only one to send."""
    return state.producers.every(is_alone_if_consumed, state.channel.taken)


def is_not_told_well(one: Producer) -> bool:
    """Was it not told that its messages are accepted, or consumed?"""
    return one.told != "accepted" and one.told != "consumed"


def told_before_break(state: State, _parameters: Parameters) -> bool:
    """A producer that was told so hears of no break afterwards."""
    return state.channel.phase != "broken" or state.producers.every(is_not_told_well)


def has_not_all_before(one: Producer, served: int, producers: int) -> bool:
    """Do fewer than all others wait before it?"""
    return one.ticket - served < producers


def waits_for_all(state: State, parameters: Parameters) -> bool:
    """A producer never waits behind all others."""
    return state.producers.every(has_not_all_before, state.line.served, parameters.producers)


def is_not_refused(one: Producer) -> bool:
    """Has it heard of no error?"""
    return one.told != "error"


def refused(state: State, _parameters: Parameters) -> bool:
    """No producer of a channel that was read to its end, and not reset, hears an error."""
    return not is_read(state.channel) or state.channel.is_retired or state.producers.every(is_not_refused)


def _names(parameters: Parameters) -> list[tuple[int]]:
    return [(name,) for name in range(parameters.producers)]


def _producers(state: State) -> Family[Producer]:
    return state.producers


def _of_each(name: str, perform: Callable[..., State], *, is_environment: bool = False) -> Action[State, Parameters]:
    return Action(name, perform, _names, is_environment=is_environment, members=_producers)


SYSTEM: System[State, Parameters] = System(
    module="FanIn",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        _of_each("DialIn", dial_in, is_environment=True),
        _of_each("Offer", offer, is_environment=True),
        _of_each("EndStream", end_stream, is_environment=True),
        _of_each("CloseStream", close_stream, is_environment=True),
        _of_each("Abort", abort, is_environment=True),
        _of_each("LoseProducer", lose_producer, is_environment=True),
        _of_each("CutProducer", cut_producer, is_environment=True),
        _of_each("ResumeProducer", resume_producer, is_environment=True),
        Action("Claim", claim, is_environment=True),
        Action("Consume", consume, is_environment=True),
        Action("Cancel", cancel, is_environment=True),
        Action("GiveUpConsumer", give_up_consumer, is_environment=True),
        Action("Purge", purge, is_environment=True),
        Action("Reset", reset, is_environment=True),
        _of_each("TellOver", tell_over),
        _of_each("AnswerEnd", answer_end),
        _of_each("NoteLeft", note_left),
        _of_each("NoteEnd", note_end),
        _of_each("RefuseClosed", refuse_closed),
        _of_each("LineUp", line_up),
        _of_each("TakeIn", take_in),
        Action("PassOn", pass_on),
        Action("ReadEnd", read_end),
    ),
    invariants={
        "TypeOK": type_ok,
        "EachTakenOnce": each_taken_once,
        "PassedOnOnce": passed_on_once,
        "FanInBounded": fan_in_bounded,
        "OneInEachPlace": one_in_each_place,
        "TakenInTurn": taken_in_turn,
        "EndIsBehindAll": end_is_behind_all,
        "EachIsToldTrue": each_is_told_true,
        "EndIsOfAll": end_is_of_all,
        "OpenUntilClosed": open_until_closed,
        "LossBreaks": loss_breaks,
        "FanInMoves": fan_in_moves,
        "OverIsTold": over_is_told,
    },
    probes={
        "EndedByAllProbe": ended_by_all,
        "ToldWithOthersProbe": told_with_others,
        "ToldBeforeBreakProbe": told_before_break,
        "WaitsForAllProbe": waits_for_all,
        "RefusedProbe": refused,
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.fan_in:theorems")
