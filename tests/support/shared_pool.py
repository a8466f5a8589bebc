"""A model with a family, on which tests try what is said of families: channels that borrow from one pool."""

from dataclasses import dataclass
from itertools import product
from operator import add
from typing import Any, Literal, NamedTuple

from permitflow_model.kernel.family import Family, family, some
from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The channels, the pool's permits, and the largest cost of a message."""

    channels: Positive
    permits: Positive
    largest: Positive


class Message(NamedTuple):
    kind: Literal["data", "end"]
    cost: int
    epoch: int


class Channel(NamedTuple):
    wanted: int
    borrowed: int
    ended: bool
    wire: Queue[Message]
    blocked: bool


class State(NamedTuple):
    channels: Family[Channel]
    pool: int
    epoch: int


def initial(parameters: Parameters) -> State:
    opened = Channel(wanted=0, borrowed=0, ended=False, wire=Fifo(), blocked=False)
    return State(channels=family(opened, parameters.channels), pool=parameters.permits, epoch=0)


def offer(state: State, _parameters: Parameters, name: int, cost: int) -> State:
    channel = state.channels.get(name)
    require(channel.wanted == 0 and not channel.ended)
    return state._replace(channels=state.channels.put(name, channel._replace(wanted=cost)))


def end(state: State, _parameters: Parameters, name: int) -> State:
    channel = state.channels.get(name)
    require(channel.wanted == 0 and not channel.ended)
    wire = channel.wire.push(Message("end", 0, state.epoch))
    return state._replace(channels=state.channels.put(name, channel._replace(ended=True, wire=wire)))


def borrow(state: State, _parameters: Parameters, name: int) -> State:
    channel = state.channels.get(name)
    require(state.pool > 0 and channel.borrowed < channel.wanted)
    channels = state.channels.put(name, channel._replace(borrowed=channel.borrowed + 1))
    return state._replace(pool=state.pool - 1, channels=channels)


def send(state: State, _parameters: Parameters, name: int) -> State:
    channel = state.channels.get(name)
    require(channel.wanted > 0 and channel.borrowed == channel.wanted)
    wire = channel.wire.push(Message("data", channel.wanted, state.epoch))
    return state._replace(channels=state.channels.put(name, channel._replace(wanted=0, borrowed=0, wire=wire)))


def consume(state: State, _parameters: Parameters, name: int) -> State:
    channel = state.channels.get(name)
    require(not channel.wire.is_empty() and channel.wire.head().kind == "data")
    channels = state.channels.put(name, channel._replace(wire=channel.wire.without_head()))
    return state._replace(pool=state.pool + channel.wire.head().cost, channels=channels)


def consume_end(state: State, _parameters: Parameters, name: int) -> State:
    channel = state.channels.get(name)
    require(not channel.wire.is_empty() and channel.wire.head().kind == "end")
    channel = channel._replace(wire=channel.wire.without_head(), blocked=True)
    return state._replace(channels=state.channels.put(name, channel))


def is_blocked(channel: Channel) -> bool:
    return channel.blocked


def opened_again(channel: Channel) -> Channel:
    return channel._replace(ended=False, blocked=False)


def align(state: State, _parameters: Parameters) -> State:
    require(state.channels.every(is_blocked))
    return state._replace(channels=state.channels.map(opened_again), epoch=(state.epoch + 1) % 2)


def cost_of(message: Message) -> int:
    return message.cost


def held(channel: Channel) -> int:
    """Permits that a channel has, and its messages."""
    return channel.borrowed + channel.wire.sum_of(cost_of, add, 0)


def conservation(state: State, parameters: Parameters) -> bool:
    return state.pool + state.channels.sum_of(held) == parameters.permits


def waits(channel: Channel) -> bool:
    return channel.wanted > 0


def never_stuck(state: State, parameters: Parameters) -> bool:
    return not some(state.channels, waits) or SYSTEM.can_move(state, parameters)


def is_message(message: Message, parameters: Parameters) -> bool:
    return message.cost == 0 if message.kind == "end" else 1 <= message.cost <= parameters.largest


def channel_type_ok(channel: Channel, parameters: Parameters) -> bool:
    return (
        channel.wire.every(is_message, parameters)
        and channel.wanted <= parameters.largest
        and 0 <= channel.borrowed <= channel.wanted
    )


def type_ok(state: State, parameters: Parameters) -> bool:
    return (
        state.channels.every(channel_type_ok, parameters)
        and state.channels.size() == parameters.channels
        and state.pool >= 0
        and 0 <= state.epoch <= 1
    )


class Order(NamedTuple):
    """Of some messages: how many they are, how many ends are among them, and how many messages are behind an end."""

    messages: int
    ends: int
    behind: int


NO_ORDER = Order(0, 0, 0)


def order_of(message: Message) -> Order:
    return Order(1, 1, 0) if message.kind == "end" else Order(1, 0, 0)


def then(ahead: Order, behind: Order) -> Order:
    """That of both together."""
    late = behind.messages if ahead.ends > 0 else behind.behind
    return Order(ahead.messages + behind.messages, ahead.ends + behind.ends, ahead.behind + late)


def order_in(messages: Any) -> Order:
    """Of a queue, or of what a proof knows of one."""
    order: Order = messages.sum_of(order_of, then, NO_ORDER)
    return order


def channel_ends(channel: Channel) -> bool:
    due = (1 if channel.ended else 0) - (1 if channel.blocked else 0)
    return (
        order_in(channel.wire).ends == due
        and (not channel.ended or channel.wanted == 0)
        and (not channel.blocked or channel.wire.is_empty())
    )


def ends(state: State, _parameters: Parameters) -> bool:
    return state.channels.every(channel_ends)


def is_of(message: Message, epoch: int) -> bool:
    return message.epoch == epoch


def channel_in_epoch(channel: Channel, epoch: int) -> bool:
    return channel.wire.every(is_of, epoch) and order_in(channel.wire).behind == 0


def in_epoch(state: State, _parameters: Parameters) -> bool:
    return state.channels.every(channel_in_epoch, state.epoch)


def _names(parameters: Parameters) -> list[tuple[int]]:
    return [(name,) for name in range(parameters.channels)]


def _offers(parameters: Parameters) -> list[tuple[int, int]]:
    return list(product(range(parameters.channels), range(1, parameters.largest + 1)))


def _channels(state: State) -> Family[Channel]:
    return state.channels


SYSTEM: System[State, Parameters] = System(
    module="SharedPool",
    initial=initial,
    actions=(
        Action("Offer", offer, _offers, is_environment=True, members=_channels),
        Action("End", end, _names, is_environment=True, members=_channels),
        Action("Borrow", borrow, _names, members=_channels),
        Action("Send", send, _names, members=_channels),
        Action("Consume", consume, _names, members=_channels),
        Action("ConsumeEnd", consume_end, _names, members=_channels),
        Action("Align", align),
    ),
    invariants={
        "TypeOK": type_ok,
        "Ends": ends,
        "Conservation": conservation,
        "InEpoch": in_epoch,
        "NeverStuck": never_stuck,
    },
)
