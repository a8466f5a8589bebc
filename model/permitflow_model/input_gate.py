"""``InputGate.tla``, action for action: a consumer of several inputs aligns barriers, and stores nothing behind them.

Each channel has exclusive buffers and borrows floating ones; a credit is a buffer at the gate.
docs/protocols/gate.md says what holds, and what goes wrong without one of the rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from permitflow_model.kernel.family import Family, family
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

RESUME = 0
"""Among grants: consumption is resumed."""

REVOKE = -1
"""Among grants: consumption is resumed, and all credit granted before is void."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The constants of the specification; what ships in Flink is the default."""

    inputs: int
    """Channels of the gate."""

    exclusive: int
    """Buffers that each channel has of its own."""

    floating: int
    """Buffers of the pool."""

    backlog: int
    """Data and barriers of a channel that may be offered and not yet consumed."""

    epochs: int = 1
    """Epochs are counted modulo this; 1: they are not told apart; 0: they are counted without end."""

    revoke: bool = False
    """Does a barrier take back all credit that was granted, exclusive or not?"""

    skip: int = 0
    """So many barriers may an input leave out at once; if any, numbers are not modulo, but below ``epochs``."""

    ends: bool = False
    """May inputs end?"""

    losses: bool = False
    """May inputs be lost?"""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        for name, least in (("inputs", 1), ("exclusive", 0), ("floating", 0), ("backlog", 1), ("skip", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.epochs not in (0, 1) and self.epochs <= self.backlog + 1:
            raise ValueError(f"epochs must be 0, 1 or above backlog + 1 = {self.backlog + 1}, not {self.epochs}")
        if self.skip > 0 and self.epochs == 1:
            raise ValueError(f"skip must be 0 if epochs are not told apart, not {self.skip}")


class Item(NamedTuple):
    """A message that waits, travels or is stored.

    Data has the epoch behind the last barrier before it; a barrier has its own number, which may be larger.
    """

    kind: Literal["data", "barrier", "backlog"]
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


# What queues hold.


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


def _followed_by(ahead: Content, behind: Content) -> Content:
    late = behind.items if ahead.barriers > 0 else behind.behind
    return Content(
        ahead.items + behind.items, ahead.data + behind.data, ahead.barriers + behind.barriers, ahead.behind + late
    )


_EMPTY = Content(0, 0, 0, 0)


def content_in(items: Any) -> Content:
    """The content of a queue, or of what a proof knows of one."""
    content: Content = items.sum_of(content_of, _followed_by, _EMPTY)
    return content


class Effect(NamedTuple):
    """What some messages do to a number: keep it (1) or forget it (0), and add to it."""

    keeps: int
    adds: int
    words: int
    """How many of them are words and no grants."""


def effect_of(grant: int) -> Effect:
    """What a grant does to the credit at the sender."""
    if grant > 0:
        return Effect(1, grant, 0)
    return Effect(1, 0, 1) if grant == RESUME else Effect(0, 0, 1)


def _and_then(first: Effect, second: Effect) -> Effect:
    words = first.words + second.words
    if second.keeps == 0:
        return Effect(0, second.adds, words)
    return Effect(first.keeps, first.adds + second.adds, words)


def effect_in(grants: Any) -> Effect:
    """The effect of a queue of grants, or of what a proof knows of one."""
    effect: Effect = grants.sum_of(effect_of, _and_then, Effect(1, 0, 0))
    return effect


class Promise(NamedTuple):
    """How many messages are data, the most that one tells less the data behind it, and what the last one tells."""

    data: int
    most: int
    last: int
    """-1: there is no message."""


def promise_of(message: Item) -> Promise:
    """The promise of one message."""
    return Promise(1 if message.kind == "data" else 0, message.backlog, message.backlog)


def _outdone_by(earlier: Promise, later: Promise) -> Promise:
    return Promise(
        earlier.data + later.data,
        max(earlier.most - later.data, later.most),
        later.last if later.last >= 0 else earlier.last,
    )


def promise_in(messages: Any) -> Promise:
    """The promise of a queue, or of what a proof knows of one."""
    promise: Promise = messages.sum_of(promise_of, _outdone_by, Promise(0, 0, -1))
    return promise


class Span(NamedTuple):
    """The newest epoch of those messages that are no barriers, and what barriers begin, added up."""

    newest: int
    """-1: there is none."""
    begun: int


def span_of(message: Item) -> Span:
    """The span of one message."""
    return Span(-1, message.epoch + 1) if message.kind == "barrier" else Span(message.epoch, 0)


def _spanned_with(earlier: Span, later: Span) -> Span:
    return Span(max(earlier.newest, later.newest), earlier.begun + later.begun)


def span_in(messages: Any) -> Span:
    """The span of a queue, or of what a proof knows of one."""
    span: Span = messages.sum_of(span_of, _spanned_with, Span(-1, 0))
    return span


def _epoch_after(epoch: int, parameters: Parameters) -> int:
    """The epoch that a barrier of this one begins: it counts round, unless ``epochs`` is 0."""
    return 0 if epoch + 1 == parameters.epochs else epoch + 1


def _is_number(number: int, parameters: Parameters) -> bool:
    """May a barrier have this number?  Where barriers are compared, their numbers do not begin anew."""
    return parameters.skip == 0 or number + 1 != parameters.epochs


def _is_epoch(epoch: int, parameters: Parameters) -> bool:
    return epoch >= 0 and (parameters.epochs == 0 or epoch < parameters.epochs)


def takes_back(parameters: Parameters) -> bool:
    """Does a barrier take back what its channel has: without exclusive buffers the floating ones?"""
    return parameters.revoke or parameters.exclusive == 0


def _starts(queue: Queue[Item], kind: str) -> bool:
    return not queue.is_empty() and queue.head().kind == kind


# Actions.


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


def _with(state: State, name: int, **changes: Any) -> State:
    return state._replace(channels=state.channels.put(name, state.channels.get(name)._replace(**changes)))


def _has_room(channel: Channel, parameters: Parameters) -> bool:
    contents = [content_in(queue) for queue in (channel.inbox, channel.wire, channel.waiting)]
    room = parameters.backlog - sum(content.data + content.barriers for content in contents)
    return not channel.closed and room > 0


def offer_data(state: State, parameters: Parameters, name: int) -> State:
    """The application of an input wants to send data."""
    channel = state.channels.get(name)
    require(_has_room(channel, parameters))
    return _with(state, name, waiting=channel.waiting.push(Item("data", channel.epoch, 0)))


def offer_barrier(state: State, parameters: Parameters, name: int) -> State:
    """A barrier ends the epoch of an input."""
    return _numbered(state, parameters, name, state.channels.get(name).epoch)


def offer_newer_barrier(state: State, parameters: Parameters, name: int, skipped: int) -> State:
    """A barrier ends the epoch of an input, which leaves some barriers out."""
    require(1 <= skipped <= parameters.skip)
    return _numbered(state, parameters, name, state.channels.get(name).epoch + skipped)


def _numbered(state: State, parameters: Parameters, name: int, number: int) -> State:
    channel = state.channels.get(name)
    require(_has_room(channel, parameters))
    require(parameters.epochs == 0 or parameters.skip == 0 or number + 1 < parameters.epochs)
    epoch = _epoch_after(number, parameters)
    return _with(state, name, waiting=channel.waiting.push(Item("barrier", number, 0)), epoch=epoch)


def offer_end(state: State, parameters: Parameters, name: int) -> State:
    """The application of an input sends nothing more.

    The end is in band, behind all that was offered, free of charge: it is consumed when nothing is in front of it.
    """
    require(parameters.ends)
    require(not state.channels.get(name).closed)
    return _with(state, name, closed=True)


def send_data(state: State, _parameters: Parameters, name: int) -> State:
    """Data costs a credit, and tells how much waits behind it."""
    channel = state.channels.get(name)
    require(_starts(channel.waiting, "data"))
    require(not channel.stopped)
    require(channel.credit > 0)
    left = content_in(channel.waiting).data - 1
    wire = channel.wire.push(Item("data", channel.waiting.head().epoch, left))
    return _with(
        state, name, waiting=channel.waiting.without_head(), credit=channel.credit - 1, announced=left, wire=wire
    )


def send_barrier(state: State, parameters: Parameters, name: int) -> State:
    """A barrier costs no credit; behind it the sender stops, and asks for nothing."""
    channel = state.channels.get(name)
    require(_starts(channel.waiting, "barrier"))
    require(not channel.stopped)
    return _with(
        state,
        name,
        waiting=channel.waiting.without_head(),
        stopped=True,
        announced=0,
        sent=_epoch_after(channel.waiting.head().epoch, parameters),
        wire=channel.wire.push(Item("barrier", channel.waiting.head().epoch, 0)),
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
    return _with(state, name, announced=backlog, wire=wire)


def add_credit(state: State, _parameters: Parameters, name: int) -> State:
    """Credit arrives at the sender."""
    channel = state.channels.get(name)
    require(not channel.grants.is_empty())
    grant, grants = channel.grants.head(), channel.grants.without_head()
    require(grant > 0)
    return _with(state, name, grants=grants, credit=channel.credit + grant)


def resume_consumption(state: State, _parameters: Parameters, name: int) -> State:
    """The sender is told to go on; all credit that it has may be void."""
    channel = state.channels.get(name)
    require(not channel.grants.is_empty())
    word, grants = channel.grants.head(), channel.grants.without_head()
    require(word <= RESUME)
    return _with(state, name, grants=grants, stopped=False, credit=0 if word == REVOKE else channel.credit)


def deliver(state: State, parameters: Parameters, name: int) -> State:
    """A message arrives at the gate.  A barrier may take back all buffers of the channel that hold no data."""
    channel = state.channels.get(name)
    require(not channel.wire.is_empty())
    message, wire = channel.wire.head(), channel.wire.without_head()
    if message.kind == "backlog":
        return _with(state, name, wire=wire, required=message.backlog)
    inbox = channel.inbox.push(message)
    if message.kind == "barrier" and takes_back(parameters):
        data = content_in(channel.inbox).data
        kept = min(channel.borrowed, data)
        free = parameters.exclusive + kept - data
        changed = _with(
            state, name, wire=wire, required=message.backlog, inbox=inbox, released=True, free=free, borrowed=kept
        )
        return changed._replace(pool=state.pool + channel.borrowed - kept)
    return _with(state, name, wire=wire, required=message.backlog, inbox=inbox)


def consume_data(state: State, _parameters: Parameters, name: int) -> State:
    """The buffer is free again: a floating one goes home, an exclusive one is granted again."""
    channel = state.channels.get(name)
    require(not state.failed)
    require(not channel.blocked)
    require(_starts(channel.inbox, "data"))
    inbox = channel.inbox.without_head()
    if channel.borrowed > 0:
        return _with(state, name, inbox=inbox, borrowed=channel.borrowed - 1)._replace(pool=state.pool + 1)
    return _with(state, name, inbox=inbox, free=channel.free + 1)


def consume_barrier(state: State, parameters: Parameters, name: int) -> State:
    """The channel is blocked until the barriers of all others have been consumed."""
    number = _barrier_here(state, name)
    blocked = _with(state, name, **_behind(state, name))
    if parameters.skip == 0:
        return blocked
    pending = is_pending(state)
    require(number == state.epoch or (number > state.epoch and not pending))
    return blocked._replace(epoch=number)


def consume_newer_barrier(state: State, parameters: Parameters, name: int) -> State:
    """A newer barrier subsumes the pending one, whose alignment is aborted: the channels that it blocks go on."""
    require(parameters.skip > 0)
    require(is_pending(state))
    number = _barrier_here(state, name)
    require(number > state.epoch)
    others_freed = state._replace(channels=state.channels.map(freed), epoch=number)
    return _with(others_freed, name, **_behind(state, name))


def consume_older_barrier(state: State, parameters: Parameters, name: int) -> State:
    """An older barrier was given up: the channel goes on at once."""
    require(parameters.skip > 0)
    require(_barrier_here(state, name) < state.epoch)
    passed = state.channels.get(name)._replace(**_behind(state, name))
    return state._replace(channels=state.channels.put(name, resumed(passed)))


def _barrier_here(state: State, name: int) -> int:
    """The number of the barrier that the gate can consume."""
    channel = state.channels.get(name)
    require(not state.failed)
    require(not channel.blocked)
    require(_starts(channel.inbox, "barrier"))
    return channel.inbox.head().epoch


def _behind(state: State, name: int) -> dict[str, Any]:
    return {"inbox": state.channels.get(name).inbox.without_head(), "blocked": True}


def consume_end(state: State, _parameters: Parameters, name: int) -> State:
    """An input ends: nobody waits for it, and its buffers go home."""
    channel = state.channels.get(name)
    require(not state.failed)
    require(channel.closed and not channel.over)
    require(not channel.stopped and not channel.blocked)
    require(channel.waiting.is_empty() and channel.wire.is_empty() and channel.inbox.is_empty())
    over = _with(state, name, over=True, borrowed=0, free=0)
    return over._replace(pool=state.pool + channel.borrowed)


def lose_input(state: State, parameters: Parameters, name: int) -> State:
    """An input is lost with all that it has; the gate fails, consumes nothing more, and gives up what is pending."""
    require(parameters.losses)
    channel = state.channels.get(name)
    require(not channel.over)
    epoch = _epoch_after(state.epoch, parameters) if is_pending(state) else state.epoch
    lost = opened(0)._replace(closed=True, over=True)
    channels = state.channels.map(freed).put(name, lost)
    return State(channels=channels, pool=state.pool + channel.borrowed, epoch=epoch, failed=True)


def borrow(state: State, _parameters: Parameters, name: int) -> State:
    """The backlog needs one more buffer than the channel has, and the pool has one."""
    channel = state.channels.get(name)
    require(state.pool > 0)
    require(not channel.released)
    require(not channel.over)
    require(channel.borrowed - content_in(channel.inbox).data < channel.required)
    return _with(state, name, borrowed=channel.borrowed + 1, free=channel.free + 1)._replace(pool=state.pool - 1)


def grant(state: State, _parameters: Parameters, name: int) -> State:
    """All free buffers of a channel are granted together."""
    channel = state.channels.get(name)
    require(channel.free > 0)
    require(not channel.released)
    return _with(state, name, free=0, grants=channel.grants.push(channel.free))


def is_blocked(channel: Channel) -> bool:
    """Was its barrier consumed?"""
    return channel.blocked


def is_open(channel: Channel) -> bool:
    """Is it not behind a barrier that others have not reached?"""
    return not channel.blocked


def is_awaited_no_more(channel: Channel) -> bool:
    """Does no alignment wait for it?"""
    return channel.blocked or channel.over


def is_joined(state: State) -> bool:
    """Have all inputs reached the pending barrier, or ended?"""
    joined = state.channels.every(is_awaited_no_more)
    return is_pending(state) and joined


def is_pending(state: State) -> bool:
    """Does an input wait behind a barrier that others have not reached?"""
    return not state.channels.every(is_open)


def resumed(channel: Channel) -> Channel:
    """The channel when it goes on: its sender is told."""
    # A product does not fork a proof, and RESUME is 0.
    return channel._replace(blocked=False, released=False, grants=channel.grants.push(REVOKE * channel.released))


def freed(channel: Channel) -> Channel:
    """The channel when what has blocked it is no longer pending."""
    return resumed(channel) if channel.blocked else channel


def align(state: State, parameters: Parameters) -> State:
    """All barriers have arrived, but for inputs that have ended: the next epoch begins, and each sender is told."""
    require(is_joined(state))
    return state._replace(channels=state.channels.map(freed), epoch=_epoch_after(state.epoch, parameters))


def is_over(channel: Channel) -> bool:
    """Has it ended, or was it lost?"""
    return channel.over


def done(state: State, _parameters: Parameters) -> State:
    """The gate has failed, or all inputs have ended."""
    require(state.failed or state.channels.every(is_over))
    return state


# Counts.


def valid_credit(channel: Channel) -> int:
    """Credit at the sender and on its way that may still be used."""
    effect = effect_in(channel.grants)
    if channel.released or channel.over:
        return 0
    return effect.adds if effect.keeps == 0 else channel.credit + effect.adds


def data_here(channel: Channel) -> int:
    """Data in flight or stored."""
    return content_in(channel.wire).data + content_in(channel.inbox).data


def barriers_here(channel: Channel) -> int:
    """Barriers in flight or stored."""
    return content_in(channel.wire).barriers + content_in(channel.inbox).barriers


def _one(condition: bool) -> int:
    return 1 * condition


def is_item(item: Item, parameters: Parameters) -> bool:
    """May it be on the wire?"""
    return _is_epoch(item.epoch, parameters) and item.backlog >= 0


def is_content(item: Item, parameters: Parameters) -> bool:
    """May it wait or be stored?  Data or a barrier; announcements are neither."""
    return is_item(item, parameters) and item.kind != "backlog"


def is_grant(grant: int, _parameters: Parameters) -> bool:
    """Credit, or a word?"""
    return grant >= REVOKE


# Clauses: each is about one channel, the epoch that may be consumed, and whether the gate has failed.  Each computes
# its counts before it decides anything: in each case, a proof knows only the counts that were computed.


def _channel_type_ok(channel: Channel, parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Every part of a channel is in its range."""
    contents = (channel.waiting.every(is_content, parameters), channel.inbox.every(is_content, parameters))
    messages = (channel.wire.every(is_item, parameters), channel.grants.every(is_grant, parameters))
    return (
        all(contents)
        and all(messages)
        and _is_epoch(channel.epoch, parameters)
        and _is_epoch(channel.sent, parameters)
        and channel.announced >= 0
        and channel.credit >= 0
        and channel.required >= 0
        and channel.free >= 0
        and channel.borrowed >= 0
    )


def _channel_conserves(channel: Channel, parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Each buffer of a channel is granted, holds data, or is free."""
    held = data_here(channel) + channel.free
    own = 0 if channel.over else parameters.exclusive
    return valid_credit(channel) + held == own + channel.borrowed


def _channel_stopped_by_barrier(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """One barrier stops its sender, from the time it is sent until the sender is told to resume."""
    words, barriers = effect_in(channel.grants).words, barriers_here(channel)
    return _one(channel.stopped) == barriers + _one(channel.blocked) + words


def _channel_has_nothing_behind(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """A barrier is the last of all that it has sent."""
    inbox, wire = content_in(channel.inbox), content_in(channel.wire)
    if channel.blocked:
        return inbox.items + wire.items == 0
    return inbox.behind + wire.behind == 0 and (inbox.barriers == 0 or wire.items == 0)


def _channel_has_nothing_after_end(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """An input that has ended has nothing, and nobody waits behind its end."""
    items = sum(content_in(queue).items for queue in (channel.waiting, channel.wire, channel.inbox))
    if not channel.over:
        return True
    return channel.closed and not channel.blocked and items + channel.borrowed + channel.free == 0


OUT_OF_ORDER = -1
"""No epoch: behind an item that is out of order, none is due."""


def due_after(due: int, item: Item, parameters: Parameters) -> int:
    """The epoch that is due behind an item, or ``OUT_OF_ORDER`` if the item's is not the one that was due."""
    is_newer = parameters.skip > 0 and item.kind == "barrier" and item.epoch > due > OUT_OF_ORDER
    if item.epoch != due and not is_newer:
        return OUT_OF_ORDER
    if item.kind != "barrier":
        return due
    return _epoch_after(item.epoch, parameters) if _is_number(item.epoch, parameters) else OUT_OF_ORDER


def _is_of(item: Item, epoch: int) -> bool:
    return item.epoch == epoch


def _channel_in_epoch(channel: Channel, parameters: Parameters, epoch: int, failed: bool) -> bool:
    """All that was sent is of this epoch, or of one that was given up, and all that waits is in order behind it."""
    in_order = channel.waiting.fold(due_after, channel.sent, parameters) == channel.epoch
    wire, inbox = channel.wire.every(_is_of, epoch), channel.inbox.every(_is_of, epoch)
    barriers = barriers_here(channel)
    if parameters.skip > 0:
        in_time = _in_time(channel, epoch, barriers)
    else:
        has_begun = barriers > 0 or channel.blocked
        in_time = wire and inbox and channel.sent == (_epoch_after(epoch, parameters) if has_begun else epoch)
    return failed or channel.over or (in_order and in_time)


def _in_time(channel: Channel, epoch: int, barriers: int) -> bool:
    """Where barriers may be left out: of those that were sent, there is one at most."""
    wire, inbox = span_in(channel.wire), span_in(channel.inbox)
    begun = wire.begun + inbox.begun
    if channel.blocked:
        follows = begun == 0 and channel.sent == epoch + 1
    elif barriers > 0:
        follows = begun == channel.sent
    else:
        follows = begun == 0 and channel.sent <= epoch
    return follows and wire.newest <= epoch and inbox.newest <= epoch


def _channel_released_by_barrier(channel: Channel, parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Its credit is taken back from the arrival of a barrier to its alignment."""
    barriers = content_in(channel.inbox).barriers
    due = takes_back(parameters) and (channel.blocked or barriers > 0)
    if channel.released:
        return due and (channel.free == 0 or parameters.exclusive > 0)
    return not due


def _channel_backlog_known(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """The gate will know what its sender has told, and no more than waits or travels."""
    waiting, promise = content_in(channel.waiting).data, promise_in(channel.wire)
    return (
        channel.announced <= waiting
        and channel.announced == (promise.last if promise.last >= 0 else channel.required)
        and channel.required <= waiting + promise.data
        and promise.most <= waiting
    )


def _channel_hoards_nothing(channel: Channel, parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """There is data for each of its buffers that may hold more."""
    needed = parameters.exclusive + content_in(channel.waiting).data
    return valid_credit(channel) + channel.free <= needed


def _channel_is_freed_by_loss(channel: Channel, _parameters: Parameters, _epoch: int, failed: bool) -> bool:
    """An alignment is aborted where an input is lost: nobody stays behind a barrier."""
    return not (failed and channel.blocked)


ChannelClause = Callable[[Channel, Parameters, int, bool], bool]

CHANNEL_CLAUSES: Mapping[str, ChannelClause] = {
    "TypeOK": _channel_type_ok,
    "Conservation": _channel_conserves,
    "StoppedByBarrier": _channel_stopped_by_barrier,
    "NothingBehind": _channel_has_nothing_behind,
    "NothingAfterEnd": _channel_has_nothing_after_end,
    "InEpoch": _channel_in_epoch,
    "ReleasedByBarrier": _channel_released_by_barrier,
    "BacklogKnown": _channel_backlog_known,
    "NothingHoarded": _channel_hoards_nothing,
    "LossFrees": _channel_is_freed_by_loss,
}
"""What the invariants of these names say of each channel."""


def borrowed_by(channel: Channel) -> int:
    """Floating buffers that a channel has."""
    return channel.borrowed


def _gate_type_ok(state: State, parameters: Parameters) -> bool:
    return state.channels.size() == parameters.inputs and state.pool >= 0 and _is_epoch(state.epoch, parameters)


def _gate_conserves(state: State, parameters: Parameters) -> bool:
    return state.pool + state.channels.sum_of(borrowed_by) == parameters.floating


GATE_CLAUSES: Mapping[str, Callable[[State, Parameters], bool]] = {
    "TypeOK": _gate_type_ok,
    "Conservation": _gate_conserves,
}
"""What the invariants of these names say of the gate besides."""


def _everywhere(name: str) -> Callable[[State, Parameters], bool]:
    of_channel, of_gate = CHANNEL_CLAUSES[name], GATE_CLAUSES.get(name)

    def holds(state: State, parameters: Parameters) -> bool:
        # The gate first: a fact about all channels must not depend on one of them.
        if of_gate is not None and not of_gate(state, parameters):
            return False
        return state.channels.every(of_channel, parameters, state.epoch, state.failed)

    return holds


def floating_here(channel: Channel, parameters: Parameters) -> int:
    """Data in flight or stored for which the channel's own buffers are not enough."""
    return max(0, data_here(channel) - parameters.exclusive)


def bounded(state: State, parameters: Parameters) -> bool:
    """The gate never stores more than it has buffers for."""
    return state.channels.sum_of(floating_here, parameters) <= parameters.floating


def is_waiting(channel: Channel) -> bool:
    """Does something wait, an end included, that need not wait for an alignment?"""
    if channel.blocked:
        return False
    return not channel.waiting.is_empty() or (channel.closed and not channel.over)


def needs_to_move(state: State) -> bool:
    """Does something wait and is not blocked, or is nothing waited for, in a gate that has not failed?"""
    joined = is_joined(state)
    if state.failed:
        return False
    return joined or any(is_waiting(state.channels.get(name)) for name in state.channels.names())


def _starts_cold(channel: Channel) -> bool:
    starts = channel.stopped and not channel.grants.is_empty() and channel.grants.head() == RESUME
    return not starts or channel.credit == 0


def _names(parameters: Parameters) -> list[tuple[int, ...]]:
    return [(name,) for name in range(parameters.inputs)]


def _names_and_skipped(parameters: Parameters) -> list[tuple[int, ...]]:
    return [(*name, skipped) for name in _names(parameters) for skipped in range(1, parameters.skip + 1)]


def _channels(state: State) -> Family[Channel]:
    return state.channels


def _of_channel(
    name: str,
    perform: Callable[..., State],
    end: str,
    arguments: Callable[[Parameters], list[tuple[int, ...]]] = _names,
    **more: bool,
) -> Action[State, Parameters]:
    return Action(name, perform, arguments, end=end, members=_channels, **more)


SYSTEM: System[State, Parameters] = System(
    module="InputGate",
    initial=initial,
    actions=(
        _of_channel("OfferData", offer_data, "sender", is_environment=True),
        _of_channel("OfferBarrier", offer_barrier, "sender", is_environment=True),
        _of_channel("OfferNewerBarrier", offer_newer_barrier, "sender", _names_and_skipped, is_environment=True),
        _of_channel("OfferEnd", offer_end, "sender", is_environment=True),
        _of_channel("LoseInput", lose_input, "receiver", is_environment=True),
        Action("Done", done, is_environment=True),
        _of_channel("SendData", send_data, "sender"),
        _of_channel("SendBarrier", send_barrier, "sender"),
        _of_channel("AnnounceBacklog", announce_backlog, "sender"),
        _of_channel("AddCredit", add_credit, "sender", is_arrival=True),
        _of_channel("ResumeConsumption", resume_consumption, "sender", is_arrival=True),
        _of_channel("Deliver", deliver, "receiver", is_arrival=True),
        _of_channel("ConsumeData", consume_data, "receiver"),
        _of_channel("ConsumeBarrier", consume_barrier, "receiver"),
        _of_channel("ConsumeNewerBarrier", consume_newer_barrier, "receiver"),
        _of_channel("ConsumeOlderBarrier", consume_older_barrier, "receiver"),
        _of_channel("ConsumeEnd", consume_end, "receiver"),
        _of_channel("Borrow", borrow, "receiver"),
        _of_channel("Grant", grant, "receiver"),
        Action("Align", align, end="receiver"),
    ),
    invariants={
        **{name: _everywhere(name) for name in ("TypeOK", "Conservation")},
        "Bounded": bounded,
        **{name: _everywhere(name) for name in CHANNEL_CLAUSES if name not in GATE_CLAUSES},
    },
    must_move=lambda state, _: needs_to_move(state),
    probes={
        "NeverBlockedProbe": lambda state, _: state.channels.every(is_open),
        "PoolNeverEmptyProbe": lambda state, _: state.pool > 0,
        "StartsColdProbe": lambda state, _: state.channels.every(_starts_cold),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.input_gate:theorems",
    flow="gate",
)
