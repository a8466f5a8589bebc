"""``InputGateCredit.tla``, action for action: what a gate consists of, and how data flows for credit.

Each channel has exclusive buffers and borrows floating ones; a credit is a buffer at the gate.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from permitflow_model.kernel.family import Family, family
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import require

RESUME = 0
"""Among grants: consumption is resumed."""

REVOKE = -1
"""Among grants: consumption is resumed, and all credit granted before is void."""


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification; what ships in Flink is the default."""

    inputs: Positive
    """Channels of the gate."""

    exclusive: Natural
    """Buffers that each channel has of its own."""

    floating: Natural
    """Buffers of the pool."""

    backlog: Positive
    """Data and barriers of a channel that may be offered and not yet consumed."""

    epochs: int = 1
    """Epochs are counted modulo this; 1: they are not told apart; 0: they are counted without end."""

    revoke: bool = False
    """Does a barrier take back all credit that was granted, exclusive or not?"""

    skip: Natural = 0
    """This many barriers may an input leave out at once; if any, numbers are not modulo, but below ``epochs``."""

    ends: bool = False
    """May inputs end?"""

    losses: bool = False
    """May inputs be lost?"""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if self.epochs not in (0, 1) and self.epochs <= self.backlog + 1:
            raise ValueError(f"epochs must be 0, 1 or above backlog + 1 = {self.backlog + 1}, not {self.epochs}")
        if self.skip > 0 and self.epochs == 1:
            raise ValueError(f"skip must be 0 if epochs are not told apart, not {self.skip}")


class Item(NamedTuple):
    """A message that waits, travels or is stored.

    Data has the epoch behind the last barrier before it; a barrier has its own number, which may be larger.
    """

    kind: Literal["data", "barrier", "backlog", "return"]
    """Credit returns in ``withdrawing_gate`` only."""
    epoch: int
    backlog: int
    """Data that waited behind it when it was sent."""


class Channel(NamedTuple):
    """One input: its sender, both wires, and what the gate has of it."""

    epoch: int
    """The epoch of what is offered next."""
    sent: int
    """The epoch of what is sent next."""
    waiting: Queue[Item]
    stopped: bool
    announced: int
    credit: int
    wire: Queue[Item]
    inbox: Queue[Item]
    blocked: bool
    released: bool
    required: int
    free: int
    borrowed: int
    grants: Queue[int]
    closed: bool
    """Nothing more is offered."""
    over: bool
    """Its end was consumed, or it was lost."""


class State(NamedTuple):
    """The variables of the specification."""

    channels: Family[Channel]
    pool: int
    epoch: int
    """The number of the barrier that is pending, or may be next."""
    failed: bool
    """An input was lost."""


class Content(NamedTuple):
    """The numbers of some items: all, those that are data or barriers, and those behind a barrier."""

    items: int
    data: int
    barriers: int
    behind: int


def content_of(item: Item) -> Content:
    """The content of one item."""
    if item.kind == "data":
        return Content(1, 1, 0, 0)
    return Content(1, 0, 1, 0) if item.kind == "barrier" else Content(1, 0, 0, 0)


def followed_by(ahead: Content, behind: Content) -> Content:
    """The content of some items, and of those behind them."""
    late = behind.items if ahead.barriers > 0 else behind.behind
    return Content(
        ahead.items + behind.items, ahead.data + behind.data, ahead.barriers + behind.barriers, ahead.behind + late
    )


_EMPTY = Content(0, 0, 0, 0)


def content_in(items: Any) -> Content:
    """The content of a queue, or of what a proof knows of one."""
    content: Content = items.sum_of(content_of, followed_by, _EMPTY)
    return content


def takes_back(parameters: Parameters) -> bool:
    """Does a barrier take back what its channel has: without exclusive buffers the floating ones?"""
    return parameters.revoke or parameters.exclusive == 0


def starts(queue: Queue[Item], kind: str) -> bool:
    """Has a queue got a head of this kind?"""
    return not queue.is_empty() and queue.head().kind == kind


def opened(credit: int) -> Channel:
    """An input of which nothing was offered yet, with so much credit."""
    return Channel(
        epoch=0,
        sent=0,
        waiting=Fifo(),
        stopped=False,
        announced=0,
        credit=credit,
        wire=Fifo(),
        inbox=Fifo(),
        blocked=False,
        released=False,
        required=0,
        free=0,
        borrowed=0,
        grants=Fifo(),
        closed=False,
        over=False,
    )


def initial(parameters: Parameters) -> State:
    """Each sender has its exclusive credit, and nothing was offered yet."""
    channels = family(opened(parameters.exclusive), parameters.inputs)
    return State(channels=channels, pool=parameters.floating, epoch=0, failed=False)


def with_changes(state: State, name: int, **changes: Any) -> State:
    """The state, with a changed channel of this name."""
    channels = state.channels.put(name, state.channels.get(name)._replace(**changes))
    return State(channels, state.pool, state.epoch, state.failed)


def has_room(channel: Channel, parameters: Parameters) -> bool:
    """May the application of this input offer one more?"""
    contents = [content_in(queue) for queue in (channel.inbox, channel.wire, channel.waiting)]
    room = parameters.backlog - sum([content.data + content.barriers for content in contents])
    return not channel.closed and room > 0


def offer_data(state: State, parameters: Parameters, name: int) -> State:
    """The application of an input wants to send data."""
    channel = state.channels.get(name)
    require(has_room(channel, parameters))
    return with_changes(state, name, waiting=channel.waiting.push(Item("data", channel.epoch, 0)))


def send_data(state: State, _parameters: Parameters, name: int) -> State:
    """Data costs a credit, and tells how much waits behind it."""
    channel = state.channels.get(name)
    require(starts(channel.waiting, "data"))
    require(not channel.stopped)
    require(channel.credit > 0)
    left = content_in(channel.waiting).data - 1
    wire = channel.wire.push(Item("data", channel.waiting.head().epoch, left))
    return with_changes(
        state, name, waiting=channel.waiting.without_head(), credit=channel.credit - 1, announced=left, wire=wire
    )


def announce_backlog(state: State, parameters: Parameters, name: int) -> State:
    """A sender without any credit says that it has data; with exclusive buffers the next data says so."""
    channel = state.channels.get(name)
    require(parameters.exclusive == 0)
    require(not channel.stopped)
    require(channel.credit == 0)
    backlog = content_in(channel.waiting).data
    require(channel.announced < backlog)
    wire = channel.wire.push(Item("backlog", channel.sent, backlog))
    return with_changes(state, name, announced=backlog, wire=wire)


def add_credit(state: State, _parameters: Parameters, name: int) -> State:
    """Credit arrives at the sender."""
    channel = state.channels.get(name)
    require(not channel.grants.is_empty())
    grant, grants = channel.grants.head(), channel.grants.without_head()
    require(grant > 0)
    return with_changes(state, name, grants=grants, credit=channel.credit + grant)


def deliver(state: State, parameters: Parameters, name: int) -> State:
    """A message arrives at the gate.  A barrier may take back all buffers of the channel that hold no data."""
    channel = state.channels.get(name)
    require(not channel.wire.is_empty())
    message, wire = channel.wire.head(), channel.wire.without_head()
    if message.kind == "backlog":
        return with_changes(state, name, wire=wire, required=message.backlog)
    inbox = channel.inbox.push(message)
    if message.kind == "barrier" and takes_back(parameters):
        data = content_in(channel.inbox).data
        kept = min(channel.borrowed, data)
        free = parameters.exclusive + kept - data
        changed = with_changes(
            state, name, wire=wire, required=message.backlog, inbox=inbox, released=True, free=free, borrowed=kept
        )
        return changed._replace(pool=state.pool + channel.borrowed - kept)
    return with_changes(state, name, wire=wire, required=message.backlog, inbox=inbox)


def consume_data(state: State, _parameters: Parameters, name: int) -> State:
    """The buffer is free again: a floating one goes home, an exclusive one is granted again."""
    channel = state.channels.get(name)
    require(not state.failed)
    require(not channel.blocked)
    require(starts(channel.inbox, "data"))
    inbox = channel.inbox.without_head()
    if channel.borrowed > 0:
        return with_changes(state, name, inbox=inbox, borrowed=channel.borrowed - 1)._replace(pool=state.pool + 1)
    return with_changes(state, name, inbox=inbox, free=channel.free + 1)


def borrow(state: State, _parameters: Parameters, name: int) -> State:
    """The backlog needs one more buffer than the channel has, and the pool has one."""
    channel = state.channels.get(name)
    require(state.pool > 0)
    require(not channel.released)
    require(not channel.over)
    require(channel.borrowed - content_in(channel.inbox).data < channel.required)
    return with_changes(state, name, borrowed=channel.borrowed + 1, free=channel.free + 1)._replace(pool=state.pool - 1)


def grant(state: State, _parameters: Parameters, name: int) -> State:
    """All free buffers of a channel are granted together."""
    channel = state.channels.get(name)
    require(channel.free > 0)
    require(not channel.released)
    return with_changes(state, name, free=0, grants=channel.grants.push(channel.free))
