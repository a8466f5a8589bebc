"""``HashDispatch.tla``, action for action: rows go to the channel of their key, and barriers to every channel.

docs/protocols/hash-dispatch.md explains it.  Channels and virtual nodes are numbered from 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import add
from typing import Literal, NamedTuple, Protocol, cast

from permitflow_model.kernel.family import Family, family_by_name
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.queue import Fifo, Queue, larger
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Kind = Literal["row", "barrier", "watermark", "end"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    nodes: int
    """Virtual nodes."""

    channels: Positive
    """Channels at first."""

    most_channels: int
    """Channels at last."""

    rows: Natural
    """Rows that are taken at most."""

    marks: Natural
    """The most barriers and watermarks that are taken."""

    room: Positive
    """Messages that a channel has places for."""

    losses: bool = False
    """May consumers go away?"""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if self.most_channels < self.channels:
            raise ValueError(f"most_channels must be at least channels = {self.channels}, not {self.most_channels}")
        if self.nodes < self.most_channels:
            raise ValueError(f"nodes must be at least most_channels = {self.most_channels}, not {self.nodes}")


class Mapping(Protocol):
    """Which channel has which virtual node."""

    def get(self, node: int) -> int:
        """The channel that has a node."""
        ...

    def channels(self) -> int:
        """How many channels there are."""
        ...

    def grown(self, channels: int) -> "Mapping":
        """The same mapping once there are this many channels."""
        ...


class Owners(tuple[int, ...]):
    """The mapping as a tuple: the owner of each node."""

    __slots__ = ()

    def get(self, node: int) -> int:
        """The channel that has a node."""
        return self[node]

    def channels(self) -> int:
        """How many channels there are; each has a node."""
        return max(self) + 1

    def grown(self, channels: int) -> "Owners":
        """Each new channel, one after the other, gets its share of the nodes of the others."""
        owners = list(self)
        for new in range(self.channels(), channels):
            for _ in range(len(owners) // (new + 1)):
                owners[self._given(owners, new)] = new
        return Owners(owners)

    @staticmethod
    def _given(owners: list[int], new: int) -> int:
        """The node that goes to a new channel: the highest of the one that has the most, of several the lowest one."""
        giver = max(range(new), key=lambda channel: (owners.count(channel), -channel))
        return max(node for node, owner in enumerate(owners) if owner == giver)


class Message(NamedTuple):
    """A row, or a mark that every channel gets."""

    kind: Kind
    number: int
    """In the order in which the upstream is taken, from 1."""
    node: int
    """The virtual node of a row's key."""


class Channel(NamedTuple):
    """A channel, and what it still lacks."""

    number: int
    """By which the mapping knows it."""
    pending: Queue[Message]
    """Its part of the taken element, as far as it has not gone into it."""
    queue: Queue[Message]
    """Messages in it."""
    read: int
    """The number of the newest message that was consumed; at first, of what was before it."""
    marks: int
    """Barriers, watermarks and ends that were consumed, or were before it."""
    ends: int
    """... of these, ends."""
    is_gone: bool
    """Is its consumer gone?"""


class State(NamedTuple):
    """The variables of the specification."""

    owners: Mapping
    rows: int
    marks: int
    consumed: int
    is_splitting: bool
    is_over: bool
    is_lost: bool
    channels: Family[Channel]


def is_end(message: Message) -> int:
    """1 for the end."""
    return 1 if message.kind == "end" else 0


def before(number: int) -> Channel:
    """A channel that nothing has come to."""
    nothing: Queue[Message] = Fifo()
    return Channel(number, pending=nothing, queue=nothing, read=0, marks=0, ends=0, is_gone=False)


def initial(parameters: Parameters) -> State:
    """Nothing is taken."""
    return State(
        owners=Owners([0] * parameters.nodes).grown(parameters.channels),
        rows=0,
        marks=0,
        consumed=0,
        is_splitting=False,
        is_over=False,
        is_lost=False,
        channels=family_by_name(before, parameters.most_channels),
    )


def taken(state: State) -> int:
    """How many rows and marks were taken."""
    return state.rows + state.marks


def is_open(channel: Channel, channels: int) -> bool:
    """Is it there, among this many?"""
    return channel.number < channels


def has_all(channel: Channel) -> bool:
    """Has it its part of the element before?"""
    return channel.pending.is_empty()


def can_take(state: State) -> bool:
    """May another element be taken?"""
    all_have = state.channels.every(has_all)
    return all_have and not state.is_splitting and not state.is_over and not state.is_lost


def marked(channel: Channel, message: Message, opened: int, to: int, marks: int) -> Channel:
    """A channel with a mark that is on its way into all of that many, of which some were open before."""
    if channel.number >= to:
        return channel
    coming = channel._replace(pending=channel.pending.push(message))
    return coming if channel.number < opened else coming._replace(read=message.number - 1, marks=marks)


def _take_mark(state: State, kind: Kind, to: int) -> State:
    require(can_take(state))
    message = Message(kind, taken(state) + 1, 0)
    channels = state.channels.map(marked, message, state.owners.channels(), to, state.marks)
    return state._replace(marks=state.marks + 1, channels=channels)


def add_row(state: State, parameters: Parameters, name: int, node: int) -> State:
    """One more row of a chunk is cut: it is for the owner of its key's node."""
    can = can_take(state)
    require(state.is_splitting or can)
    require(state.rows < parameters.rows)
    channel = state.channels.get(name)
    require(state.owners.get(node) == channel.number)
    row = Message("row", taken(state) + 1, node)
    return state._replace(
        channels=state.channels.put(name, channel._replace(pending=channel.pending.push(row))),
        rows=state.rows + 1,
        is_splitting=True,
    )


def take_chunk(state: State, _parameters: Parameters) -> State:
    """The chunk is cut: its parts may leave."""
    require(state.is_splitting)
    return state._replace(is_splitting=False)


def take_barrier(state: State, parameters: Parameters, to: int) -> State:
    """A barrier is taken, for every channel; behind it there are this many."""
    require(state.marks < parameters.marks)
    require(state.owners.channels() <= to)
    require(to <= parameters.most_channels)
    return _take_mark(state, "barrier", to)._replace(owners=state.owners.grown(to))


def take_watermark(state: State, parameters: Parameters) -> State:
    """A watermark is taken, for every channel."""
    require(state.marks < parameters.marks)
    return _take_mark(state, "watermark", state.owners.channels())


def take_end(state: State, _parameters: Parameters) -> State:
    """The end is taken, for every channel."""
    return _take_mark(state, "end", state.owners.channels())._replace(is_over=True)


def forward(state: State, parameters: Parameters, name: int) -> State:
    """A channel has room for the oldest message of its part, whatever the others have."""
    channel = state.channels.get(name)
    require(not state.is_splitting)
    require(not state.is_lost)
    require(not channel.pending.is_empty())
    require(channel.queue.size() < parameters.room)
    channel = channel._replace(queue=channel.queue.push(channel.pending.head()), pending=channel.pending.without_head())
    return state._replace(channels=state.channels.put(name, channel))


def consume(state: State, _parameters: Parameters, name: int) -> State:
    """A channel's consumer consumes the oldest message."""
    channel = state.channels.get(name)
    require(not channel.queue.is_empty())
    require(not channel.is_gone)
    message = channel.queue.head()
    is_row = message.kind == "row"
    channel = channel._replace(
        queue=channel.queue.without_head(),
        read=message.number,
        marks=channel.marks if is_row else channel.marks + 1,
        ends=channel.ends + is_end(message),
    )
    return state._replace(
        channels=state.channels.put(name, channel),
        consumed=state.consumed + 1 if is_row else state.consumed,
    )


def without_part(channel: Channel) -> Channel:
    """A channel to which nothing is forwarded any more."""
    nothing: Queue[Message] = Fifo()
    return channel._replace(pending=nothing)


def lose(state: State, parameters: Parameters, name: int) -> State:
    """A channel's consumer is gone: nothing is taken or forwarded any more, to any channel."""
    require(parameters.losses)
    require(not state.is_lost)
    require(not state.is_splitting)
    require(is_open(state.channels.get(name), state.owners.channels()))
    channels = state.channels.map(without_part)
    gone = channels.get(name)._replace(is_gone=True)
    return state._replace(is_lost=True, channels=channels.put(name, gone))


def is_done(channel: Channel) -> bool:
    """Is nothing on its way into it, and all that can be consumed?"""
    return channel.pending.is_empty() and (channel.queue.is_empty() or channel.is_gone)


def done(state: State, _parameters: Parameters) -> State:
    """The stream has ended or failed, and all that can be is consumed."""
    all_done = state.channels.every(is_done)
    require(all_done)
    require(state.is_over or state.is_lost)
    return state


# Invariants.


OUT_OF_ORDER = -1


def follow(number: int, message: Message, _parameters: object) -> int:
    """The number of a message, if it is larger than the one before."""
    return OUT_OF_ORDER if number < 0 or message.number <= number else message.number


def number_of(message: Message) -> int:
    """Its place in the upstream."""
    return message.number


class Tail(NamedTuple):
    """What messages amount to, one after the other."""

    messages: int
    ends: int
    behind: int
    """Messages behind an end."""


NOTHING = Tail(0, 0, 0)


def tail_of(message: Message) -> Tail:
    """One message."""
    return Tail(1, is_end(message), 0)


def tails(left: Tail, right: Tail) -> Tail:
    """Messages behind others."""
    behind = right.messages if left.ends > 0 else right.behind
    return Tail(left.messages + right.messages, left.ends + right.ends, left.behind + behind)


def is_row(message: Message) -> int:
    """1 for a row."""
    return 1 if message.kind == "row" else 0


def is_mark(message: Message) -> int:
    """1 for a barrier, a watermark or the end."""
    return 0 if message.kind == "row" else 1


def rows_coming(channel: Channel) -> int:
    """Rows on their way to a consumer."""
    return channel.queue.sum_of(is_row, add, 0) + channel.pending.sum_of(is_row, add, 0)


def marks_coming(channel: Channel) -> int:
    """Barriers, watermarks and the end on their way to a consumer."""
    return channel.queue.sum_of(is_mark, add, 0) + channel.pending.sum_of(is_mark, add, 0)


def is_message(message: Message, state: State, parameters: Parameters) -> bool:
    """May a message be like this?"""
    return 1 <= message.number <= taken(state) and 0 <= message.node < parameters.nodes


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    channels = cast("tuple[Channel, ...]", state.channels)
    return (
        all(0 <= owner < parameters.most_channels for owner in cast("Owners", state.owners))
        and len(channels) == parameters.most_channels
        and state.rows >= 0
        and state.marks >= 0
        and state.consumed >= 0
        and all(
            all(is_message(message, state, parameters) for message in (*channel.pending, *channel.queue))
            and 0 <= channel.read <= taken(state)
            and 0 <= channel.ends <= 1
            and 0 <= channel.marks <= state.marks
            for channel in channels
        )
    )


def channel_in_order(channel: Channel, number: int) -> bool:
    """In one channel: does everything come in order, up to this number?"""
    entered = channel.queue.fold(follow, channel.read, None)
    last = channel.pending.fold(follow, entered, None)
    return channel.read >= 0 and 0 <= entered <= number and 0 <= last <= number


def in_order(state: State, _parameters: Parameters) -> bool:
    """A consumer gets everything in the order in which it was taken, and nothing twice."""
    return state.channels.every(channel_in_order, taken(state))


def channel_numbered(channel: Channel, number: int) -> bool:
    """In one channel: has nothing a larger number?"""
    queue, pending = (each.sum_of(number_of, larger, 0) for each in (channel.queue, channel.pending))
    return queue <= number and pending <= number


def numbered(state: State, _parameters: Parameters) -> bool:
    """A consumer gets what was taken, and nothing that was not."""
    return state.channels.every(channel_numbered, taken(state))


def end_is_last(channel: Channel, is_over: bool) -> bool:
    """In one channel: is nothing behind the end, and has it come to its end only if there is one?"""
    queue, pending = (each.sum_of(tail_of, tails, NOTHING) for each in (channel.queue, channel.pending))
    if channel.ends < 0 or queue.behind != 0 or pending.behind != 0:
        return False
    if channel.ends + queue.ends > 0 and pending.messages > 0:
        return False
    return (channel.ends == 0 or queue.messages == 0) and (is_over or channel.ends + queue.ends + pending.ends == 0)


def end_last(state: State, _parameters: Parameters) -> bool:
    """A consumer gets nothing behind the end."""
    return state.channels.every(end_is_last, state.is_over)


def rows_conserved(state: State, _parameters: Parameters) -> bool:
    """Each row is on its way to one consumer, or was consumed: also where one is gone, once the end was taken."""
    coming = state.channels.sum_of(rows_coming)
    return (state.is_lost and not state.is_over) or state.rows == state.consumed + coming


def has_marks(channel: Channel, channels: int, marks: int) -> bool:
    """Has a channel, if it is open, got all marks, or are they on their way?"""
    return channel.number >= channels or channel.marks + marks_coming(channel) == marks


def marks_conserved(state: State, _parameters: Parameters) -> bool:
    """Each barrier, watermark and the end comes to each channel once: to a new one from the barrier on that adds it."""
    all_have = state.channels.every(has_marks, state.owners.channels(), state.marks)
    return state.is_lost or all_have


def has_places(channel: Channel, room: int) -> bool:
    """Is it not fuller than full?"""
    return channel.queue.size() <= room


def bounded(state: State, parameters: Parameters) -> bool:
    """What a channel holds is bounded by its places; nothing else is held but one element."""
    return state.channels.every(has_places, parameters.room)


def cut_before_end(state: State, _parameters: Parameters) -> bool:
    """A chunk is cut before anything ends."""
    return not state.is_splitting or not (state.is_over or state.is_lost)


def is_before(channel: Channel, channels: int) -> bool:
    """Has nothing come to a channel that is not there yet?"""
    if channel.number < channels:
        return True
    is_empty = channel.pending.is_empty() and channel.queue.is_empty()
    is_new = channel.read == 0 and channel.ends == 0 and channel.marks == 0
    return is_empty and is_new and not channel.is_gone


def closed(state: State, _parameters: Parameters) -> bool:
    """A channel that is not there yet has nothing."""
    return state.channels.every(is_before, state.owners.channels())


def lacks_no_row(channel: Channel) -> bool:
    """Is every row in it that it should have?"""
    return channel.pending.sum_of(is_row, add, 0) == 0


def end_behind_all(state: State, _parameters: Parameters) -> bool:
    """Behind the end nothing waits but the end itself: each row is in its channel, or was consumed."""
    none_lack = state.channels.every(lacks_no_row)
    return not state.is_over or none_lack


def is_there(channel: Channel) -> bool:
    """Is its consumer not gone?"""
    return not channel.is_gone


def nothing_forwarded(state: State, _parameters: Parameters) -> bool:
    """Once a consumer is gone, nothing waits to be forwarded, and nothing is."""
    all_have, all_there = state.channels.every(has_all), state.channels.every(is_there)
    return all_have if state.is_lost else all_there


def balanced(state: State, _parameters: Parameters) -> bool:
    """Shares of nodes differ by one at most."""
    owners = cast("Owners", state.owners)
    shares = [owners.count(channel) for channel in range(owners.channels())]
    return max(shares) <= min(shares) + 1


def in_place(state: State, _parameters: Parameters) -> bool:
    """A row that waits is for the owner of its node."""
    return all(
        message.kind != "row" or state.owners.get(message.node) == channel.number
        for channel in cast("tuple[Channel, ...]", state.channels)
        for message in channel.pending
    )


def moved_at_barrier(state: State, _parameters: Parameters) -> bool:
    """A row whose node has moved is ahead of a barrier: so no row of the same key overtakes it in the new channel."""
    if state.is_lost:
        return True
    for channel in cast("tuple[Channel, ...]", state.channels):
        coming = (*channel.queue, *channel.pending)
        for place, message in enumerate(coming):
            has_moved = message.kind == "row" and state.owners.get(message.node) != channel.number
            if has_moved and all(other.kind != "barrier" for other in coming[place + 1 :]):
                return False
    return True


def never_stuck(state: State, parameters: Parameters) -> bool:
    """Where something waits, it can go on, or a channel can be consumed."""
    all_have = state.channels.every(has_all)
    return all_have or state.is_splitting or SYSTEM.can_move(state, parameters)


def is_full_if_waiting(channel: Channel, room: int) -> bool:
    """Is a channel full, if something waits for it?"""
    return channel.pending.is_empty() or channel.queue.size() == room


def waits_for_full(state: State, parameters: Parameters) -> bool:
    """It waits only for channels that are full."""
    full = state.channels.every(is_full_if_waiting, parameters.room)
    if state.is_splitting:
        return True
    return full or state.channels.some_name(partial(SYSTEM.is_enabled, "Forward", state, parameters))


def _channels(state: State) -> Family[Channel]:
    return state.channels


def _names(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((name,) for name in range(parameters.most_channels))


def _rows(parameters: Parameters) -> Iterator[tuple[int, int]]:
    return product(range(parameters.most_channels), range(parameters.nodes))


def _growths(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((to,) for to in range(parameters.channels, parameters.most_channels + 1))


# Probes.


def _opened(state: State) -> list[Channel]:
    return list(cast("tuple[Channel, ...]", state.channels)[: state.owners.channels()])


def _never_waits(state: State, parameters: Parameters) -> bool:
    return all(channel.pending.is_empty() or channel.queue.size() < parameters.room for channel in _opened(state))


def _all_wait(state: State, parameters: Parameters) -> bool:
    waits = any(channel.pending.size() == 1 and channel.queue.size() == parameters.room for channel in _opened(state))
    return state.is_splitting or not waits or not any(channel.pending.is_empty() for channel in _opened(state))


def _together(state: State, _parameters: Parameters) -> bool:
    marks = [channel.marks for channel in _opened(state)]
    return max(marks) <= min(marks) + 1


def _never_moves(state: State, _parameters: Parameters) -> bool:
    return all(
        message.kind != "row" or state.owners.get(message.node) == channel.number
        for channel in _opened(state)
        for message in channel.queue
    )


SYSTEM: System[State, Parameters] = System(
    module="HashDispatch",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("AddRow", add_row, _rows, is_environment=True, members=_channels),
        Action("TakeChunk", take_chunk, is_environment=True),
        Action("TakeBarrier", take_barrier, _growths, is_environment=True),
        Action("TakeWatermark", take_watermark, is_environment=True),
        Action("TakeEnd", take_end, is_environment=True),
        Action("Lose", lose, _names, is_environment=True, members=_channels),
        Action("Forward", forward, _names, members=_channels),
        Action("Consume", consume, _names, members=_channels),
    ),
    invariants={
        "TypeOK": type_ok,
        "InOrder": in_order,
        "Numbered": numbered,
        "EndLast": end_last,
        "RowsConserved": rows_conserved,
        "MarksConserved": marks_conserved,
        "Bounded": bounded,
        "CutBeforeEnd": cut_before_end,
        "Closed": closed,
        "EndBehindAll": end_behind_all,
        "NothingForwarded": nothing_forwarded,
        "Balanced": balanced,
        "InPlace": in_place,
        "MovedAtBarrier": moved_at_barrier,
        "NeverStuck": never_stuck,
        "WaitsForFull": waits_for_full,
    },
    probes={
        "NeverWaitsProbe": _never_waits,
        "AllWaitProbe": _all_wait,
        "TogetherProbe": _together,
        "NeverMovesProbe": _never_moves,
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.hash_dispatch:theorems",
)
