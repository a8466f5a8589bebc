"""Hash dispatch, for any number of channels and virtual nodes, any mapping, any rows and barriers, and any room.

One channel is in focus and stands for any; of the mapping is known only that each node belongs to a channel that is
there.  Channels have numbers, by which the mapping knows them; what is shown of a channel with any number holds for
all.  The clauses are shown in states that satisfy all of them, so they are inductive together.

How the mapping grows is shown apart: of shares of nodes, whatever their number; and node by node, of the mapping that
is used, with its 256 nodes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from operator import add
from typing import NamedTuple, cast

from permitflow_model.hash_dispatch import (
    NOTHING,
    OUT_OF_ORDER,
    SYSTEM,
    Channel,
    Message,
    Owners,
    Parameters,
    State,
    before,
    follow,
    has_all,
    is_full_if_waiting,
    is_mark,
    is_row,
    number_of,
    tail_of,
    tails,
    taken,
)
from permitflow_model.kernel.family import Alike
from permitflow_model.kernel.queue import larger
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.indexed import own
from permitflow_proofs.kernel.induction import ExhaustiveObligation, Subject
from permitflow_proofs.kernel.queue import Law, Sums, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import assume, equal, function, limit, natural
from permitflow_proofs.kernel.theorem import Theorem


class AnyMapping:
    """Any mapping: each node belongs to a channel that is there."""

    def __init__(self, channels: int, name: str = "owner") -> None:
        """A mapping to this many channels."""
        self._channels = channels
        self._name = name
        self._owner = function(own(name))

    def get(self, node: int) -> int:
        """The channel that has a node."""
        owner = self._owner(node)
        limit(owner >= 0)
        limit(owner < self._channels)
        return owner

    def channels(self) -> int:
        """How many there are."""
        return self._channels

    def grown(self, channels: int) -> "AnyMapping":
        """Any other one, of this many."""
        return AnyMapping(channels, f"{self._name}.grown")


def _any_channel(name: str) -> Channel:
    queues = {
        part: SymbolicQueue.any_queue(
            f"{name}.{part}", lambda its: arbitrary(Message, f"{its}."), tuple(LAWS.values()), {follow: OUT_OF_ORDER}
        )
        for part in ("pending", "queue")
    }
    return arbitrary(Channel, f"{name}.", special=queues)


def _rows_in(messages: Sums) -> int:
    return messages.sum_of(is_row, add, 0)


def _marks_in(messages: Sums) -> int:
    return messages.sum_of(is_mark, add, 0)


def _order_in(messages: Sums) -> tuple[int, ...]:
    """Each message is counted once."""
    tail, size = messages.sum_of(tail_of, tails, NOTHING), messages.size()
    return tail.messages - size, size - tail.messages, tail.messages, tail.ends, tail.behind


LAWS: Mapping[str, Law] = {"rows": _rows_in, "marks": _marks_in, "order": _order_in}
"""The sums over the messages in a queue."""

INVARIANT = {
    name: SYSTEM.invariants[name]
    for name in (
        *("InOrder", "Numbered", "EndLast", "RowsConserved", "MarksConserved", "Bounded", "CutBeforeEnd"),
        *("Closed", "EndBehindAll", "NothingForwarded"),
    )
}
"""What every reachable state satisfies; proved by induction."""


def _any_state_of(clauses: tuple[str, ...], parameters: Parameters) -> State:
    channels = SymbolicFamily.any_family("channels", _any_channel)
    opened = natural("opened", 1)
    state = arbitrary(State, special={"channels": channels, "owners": AnyMapping(opened)})
    limit(state.rows >= 0)
    limit(state.marks >= 0)
    # The largest number of what follows the oldest message is asked here, because clauses do not ask for it.
    channel = channels.get(0)
    for messages in (channel.pending, channel.queue):
        messages.sum_of(number_of, larger, 0)
        messages.without_head().sum_of(number_of, larger, 0)
    return assume_all([INVARIANT[name] for name in clauses], state, parameters)


def _initial(parameters: Parameters) -> State:
    """At first all channels are equal but for their numbers: one with any number stands for all."""
    if isinstance(parameters.most_channels, int):
        return SYSTEM.initial(parameters)
    channels = Alike(before(natural("number")), parameters.most_channels)
    empty = SYSTEM.initial(Parameters(nodes=1, channels=1, most_channels=1, rows=0, marks=0, room=1))
    return empty._replace(channels=channels, owners=AnyMapping(parameters.channels))


_ANY_SYSTEM = replace(SYSTEM, initial=_initial)

_ARGUMENTS = {"AddRow": lambda _: (natural("node"),), "TakeBarrier": lambda _: (natural("to", 1),)}

_any_parameters = partial(any_parameters_of, Parameters)

SUBJECT = Subject(_ANY_SYSTEM, _any_parameters, partial(_any_state_of, tuple(INVARIANT)), _ARGUMENTS)
"""A dispatch with any parameters."""

ANY = Subject(_ANY_SYSTEM, _any_parameters, partial(_any_state_of, ()), _ARGUMENTS)
"""A dispatch in any state at all."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "hash-dispatch-",
    promises=frozenset(
        {"in-order", "rows-conserved", "marks-conserved", "end-behind-all", "ended", "lost", "live", "rank", "shares"}
    ),
)


def _leads_nowhere(wrong: int) -> bool:
    message = arbitrary(Message, "message.")
    start = OUT_OF_ORDER + wrong
    return equal(follow(start, message, None), start)


def _with(state: State, **changed: object) -> State:
    """The channel in focus is another one."""
    channel = state.channels.get(0)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(channels=state.channels.put(0, channel))


def _read_twice(state: State, _parameters: Parameters) -> State:
    """A channel that has read what is taken gets one more message, with an old number."""
    channel = state.channels.get(0)
    old = Message("row", channel.read, 0)
    return _with(state, queue=channel.queue.push(old))


def _numbered_early(state: State, _parameters: Parameters) -> State:
    return _with(state, queue=state.channels.get(0).queue.push(Message("row", taken(state) + 1, 0)))


def _end_from_nowhere(state: State, _parameters: Parameters) -> State:
    queue = state.channels.get(0).queue.push(Message("end", taken(state), 0))
    return _with(state, queue=queue.push(Message("row", taken(state), 0)))


def _row_from_nowhere(state: State, _parameters: Parameters) -> State:
    row = Message("row", taken(state), 0)
    there = state._replace(is_lost=False)
    return _with(there, queue=there.channels.get(0).queue.push(row))


def _mark_from_nowhere(state: State, _parameters: Parameters) -> State:
    channel = state.channels.get(0)
    mark = Message("barrier", taken(state), 0)
    there = state._replace(is_lost=False, owners=AnyMapping(channel.number + 1))
    return _with(there, queue=channel.queue.push(mark))


def _comes_early(state: State, _parameters: Parameters) -> State:
    return _with(state._replace(owners=AnyMapping(0)), marks=1, number=0)


def _row_behind_end(state: State, _parameters: Parameters) -> State:
    pending = state.channels.get(0).pending.push(Message("row", taken(state), 0))
    return _with(state._replace(is_over=True), pending=pending)


def _one_more(state: State, _parameters: Parameters) -> State:
    return _with(state, queue=state.channels.get(0).queue.push(Message("row", 1, 0)))


def _waits_in_vain(state: State, _parameters: Parameters) -> State:
    pending = state.channels.get(0).pending.push(Message("row", taken(state), 0))
    return _with(state._replace(is_lost=True), pending=pending)


def _is_complete(state: State, _parameters: Parameters, *, only_if: bool) -> bool:
    """A consumer that was told the end has consumed all that was for it, and every row was in its channel before."""
    channel = state.channels.get(0)
    if only_if and channel.ends == 0:
        return True
    return state.is_over and channel.queue.is_empty() and channel.pending.is_empty()


def _lacks(channel: Channel) -> bool:
    return not channel.pending.is_empty()


def _live(state: State, parameters: Parameters, *, more: int) -> bool:
    """The waiting channel is in focus; the twin: a channel that is full has at least one message more."""
    channels = cast("SymbolicFamily[Channel]", state.channels).with_some(_lacks)
    state = state._replace(channels=channels)
    if more and channels.get(0).pending.size() > 0 and not state.is_splitting:
        return SYSTEM.is_enabled("Forward", state, parameters, 0)
    return SYSTEM.invariants["NeverStuck"](state, parameters)


def _waits_for_full(state: State, parameters: Parameters, *, fewer: int) -> bool:
    """A channel that lacks a part which cannot go into it is full."""
    channel = state.channels.get(0)
    can = state.is_splitting or SYSTEM.is_enabled("Forward", state, parameters, 0)
    return can or is_full_if_waiting(channel, parameters.room - fewer)


def _steps(channel: Channel) -> int:
    return 2 * channel.pending.size() + channel.queue.size()


def rank(state: State, _parameters: Parameters) -> int:
    """This many steps until all that was taken is consumed."""
    return state.channels.sum_of(_steps)


_TAKEN = ("AddRow", "TakeBarrier", "TakeWatermark", "TakeEnd")


def _rests_empty(state: State, parameters: Parameters, *, gone: bool) -> bool:
    """Any channel: where it can go no further, nothing is left in it, unless its consumer is gone; the twin: also then.

    A chunk that is being split is not taken yet.
    """
    channel = state.channels.get(0)
    if state.is_splitting or any(SYSTEM.is_enabled(action, state, parameters, 0) for action in ("Forward", "Consume")):
        return True
    return (channel.is_gone and not gone) or (channel.pending.is_empty() and channel.queue.is_empty())


# Shares of nodes.


class _Share(NamedTuple):
    """A channel's share of the nodes."""

    nodes: int


def _nodes(share: _Share) -> int:
    return share.nodes


def _so_many(_share: _Share, nodes: int) -> int:
    return nodes


def _is_near(share: _Share, most: int) -> bool:
    return most - 1 <= share.nodes <= most


def _stays_near(wrong: int) -> bool:
    """One that has the most gives a node: all that differ by one at most still do."""
    shares = SymbolicFamily.any_family("shares", lambda name: arbitrary(_Share, f"{name}."), focus=2)
    giver, other = shares.get(0), shares.get(1)
    assume(_is_near(other, giver.nodes))
    left = giver.nodes - 1 - wrong
    return other.nodes - left <= 1 and left - other.nodes <= 1


def _ends_near(wrong: int) -> bool:
    """Shares that differ by one at most, from which ``nodes // (channels + 1)`` went to a new channel, are near it."""
    shares = SymbolicFamily.any_family("shares", lambda name: arbitrary(_Share, f"{name}."))
    one, new = shares.get(0), natural("new")
    total = shares.sum_of(_nodes)
    # new * (channels + 1) <= total + new < (new + 1) * (channels + 1), written as sums over the channels before.
    assume(shares.sum_of(_so_many, new) <= total)
    assume(total <= shares.sum_of(_so_many, new + 1))
    assume(shares.every(_is_close, one.nodes))
    return one.nodes - new <= 1 - wrong and new <= one.nodes


def _is_close(share: _Share, nodes: int) -> bool:
    return nodes - 1 <= share.nodes <= nodes + 1


_VNODES = 256
"""The virtual nodes of the mapping that is used."""


class _Growth(NamedTuple):
    """A channel is added."""

    nodes: int
    channels: int
    owners: Owners
    grown: Owners


def _growths() -> Iterator[_Growth]:
    for nodes in (*range(2, 17), _VNODES):
        owners = Owners([0] * nodes)
        for channels in range(1, nodes):
            grown = owners.grown(channels + 1)
            yield _Growth(nodes, channels, owners, grown)
            owners = grown


def _moves_to_the_new(growth: _Growth, *, more: int = 0) -> bool:
    moved = [new for old, new in zip(growth.owners, growth.grown, strict=True) if old != new]
    shares = [growth.grown.count(channel) for channel in range(growth.channels + 1)]
    is_least = len(moved) == growth.nodes // (growth.channels + 1) + more
    return is_least and set(moved) == {growth.channels} and max(shares) - min(shares) <= 1


def _described(growth: _Growth) -> dict[str, int | bool | str]:
    return {"nodes": growth.nodes, "channels": growth.channels}


# Frames.


def _is_taken_next(channel: Channel, kind: str, number: int, node: int) -> bool:
    message = channel.pending.last()
    return message.kind == kind and message.number == number and message.node == node


def _may_take(state: State) -> bool:
    all_have = state.channels.every(has_all)
    return all_have and not (state.is_splitting or state.is_over or state.is_lost)


def _may_add(state: State, parameters: Parameters, name: int, node: int) -> bool:
    may_take = _may_take(state)
    is_owner = state.owners.get(node) == state.channels.get(name).number
    return is_owner and state.rows < parameters.rows and (state.is_splitting or may_take)


def _is_added(before: State, after: State, _parameters: Parameters) -> bool:
    channel = after.channels.get(0)
    message = channel.pending.last()
    is_owner = before.owners.get(message.node) == channel.number
    return message.kind == "row" and message.number == taken(before) + 1 and is_owner


def _has_mark(before: State, after: State, kind: str) -> bool:
    """An open channel gets it behind all before it; a new one as its first message."""
    old, new = before.channels.get(0), after.channels.get(0)
    if new.number >= after.owners.channels():
        return new.pending.size() == old.pending.size() and new.read == old.read and new.marks == old.marks
    is_next = new.pending.size() == old.pending.size() + 1 and _is_taken_next(new, kind, taken(before) + 1, 0)
    if new.number < before.owners.channels():
        return is_next and new.read == old.read and new.marks == old.marks
    return is_next and new.read == taken(before) and new.marks == before.marks


def _moves_on(before: State, after: State, _parameters: Parameters) -> bool:
    one, other = before.channels.get(0).pending.head(), after.channels.get(0).queue.last()
    return one.number == other.number and one.kind == other.kind and one.node == other.node


def _is_consumed(before: State, after: State, _parameters: Parameters) -> bool:
    message, old, new = before.channels.get(0).queue.head(), before.channels.get(0), after.channels.get(0)
    rows = 1 if message.kind == "row" else 0
    ends = 1 if message.kind == "end" else 0
    counted = after.consumed == before.consumed + rows and new.marks == old.marks + 1 - rows
    return counted and new.read == message.number and new.ends == old.ends + ends


def _drops_parts(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.channels.get(0).pending.is_empty()


_MARKED = dict.fromkeys(("channels.0.pending", "channels.0.read", "channels.0.marks", "channels.others"))

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Done",
        when=lambda state, parameters: _is_finished(state),
        possible="where the stream has ended or failed, and all that can be is consumed",
    ),
    Frame(
        "AddRow",
        {"channels.0.pending": +1, "rows": +1, "is_splitting": True},
        _is_added,
        "the row with the next number, to the owner of its node; no other channel",
        when=_may_add,
        possible="in a chunk that is being cut, or where one may be taken; for the owner of the node",
    ),
    Frame(
        "TakeChunk",
        {"is_splitting": False},
        when=lambda state, _: state.is_splitting,
        possible="when a chunk is cut",
    ),
    Frame(
        "TakeBarrier",
        {"marks": +1, "owners": None, **_MARKED},
        lambda before, after, _: _has_mark(before, after, "barrier"),
        "each channel that is there afterwards gets it, with the next number",
        when=lambda state, parameters, to: (
            _may_take(state)
            and state.marks < parameters.marks
            and state.owners.channels() <= to
            and to <= parameters.most_channels
        ),
        possible="where every channel has its part of the element before, nothing has ended, and none is lost",
    ),
    Frame(
        "TakeWatermark",
        {"marks": +1, **_MARKED},
        lambda before, after, _: _has_mark(before, after, "watermark"),
        "likewise",
        when=lambda state, parameters: _may_take(state) and state.marks < parameters.marks,
        possible="likewise",
    ),
    Frame(
        "TakeEnd",
        {"marks": +1, "is_over": True, **_MARKED},
        lambda before, after, _: _has_mark(before, after, "end"),
        "likewise",
        when=lambda state, _: _may_take(state),
        possible="likewise",
    ),
    Frame(
        "Lose",
        {"is_lost": True, "channels.0.is_gone": True, "channels.0.pending": None, "channels.others": None},
        _drops_parts,
        "no part waits any more, for any channel",
        when=lambda state, parameters, name: (
            parameters.losses
            and not state.is_lost
            and not state.is_splitting
            and state.channels.get(name).number < state.owners.channels()
        ),
        possible="for a channel that is there, while none is lost and no chunk is being cut",
    ),
    Frame(
        "Forward",
        {"channels.0.pending": -1, "channels.0.queue": +1},
        _moves_on,
        "the oldest message of its part; whatever other channels have",
        when=lambda state, parameters, name: (
            not state.is_splitting
            and not state.is_lost
            and state.channels.get(name).pending.size() > 0
            and state.channels.get(name).queue.size() < parameters.room
        ),
        possible="where a part waits and the channel has room, while none is lost and no chunk is being cut",
    ),
    Frame(
        "Consume",
        {
            "channels.0.queue": -1,
            **dict.fromkeys(("channels.0.read", "channels.0.marks", "channels.0.ends", "consumed")),
        },
        _is_consumed,
        "the oldest message",
        when=lambda state, _, name: state.channels.get(name).queue.size() > 0 and not state.channels.get(name).is_gone,
        possible="where there is one, and the consumer is not gone",
    ),
)
"""What each action changes."""


def _is_at_rest(channel: Channel) -> bool:
    return channel.pending.is_empty() and (channel.queue.is_empty() or channel.is_gone)


def _is_finished(state: State) -> bool:
    all_rest = state.channels.every(_is_at_rest)
    return all_rest and (state.is_over or state.is_lost)


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.theorem(
            "queue-laws",
            "CountOf",
            "Queues hold no negative number of rows or marks; behind a message that is out of order all are.",
            *law_obligations("rows", _rows_in, lambda: arbitrary(Message, "message.")),
            *law_obligations("order", _order_in, lambda: arbitrary(Message, "message.")),
            *law_obligations("marks", _marks_in, lambda: arbitrary(Message, "message.")),
            claim("out of order is a dead end", _leads_nowhere, "nothing has come"),
        ),
        _CHAPTER.kept(
            "in-order",
            "InOrder",
            "Whatever is on its way to a consumer, rows, barriers, watermarks and the end, comes in the order in which "
            "it was taken, and nothing twice: so the rows of a key are in order in their channel, and a barrier is "
            "behind all rows that were taken before it and before all that were taken behind it.",
            _read_twice,
            "after the step an old message is in the channel",
        ),
        _CHAPTER.kept(
            "numbered",
            "Numbered",
            "Nothing has a number that was not given yet.",
            _numbered_early,
            "after the step a message of the next number is in the channel",
        ),
        _CHAPTER.kept(
            "end-last",
            "EndLast",
            "A consumer gets nothing behind the end, and an end only if it was taken.",
            _end_from_nowhere,
            "after the step an end is in a channel, and a row behind it",
        ),
        _CHAPTER.kept(
            "rows-conserved",
            "RowsConserved",
            "Each row that was taken is on its way to one consumer, or was consumed; once the end was taken also where "
            "a consumer goes away.",
            _row_from_nowhere,
            "after the step a row more is in a channel",
        ),
        _CHAPTER.kept(
            "marks-conserved",
            "MarksConserved",
            "While no consumer is gone, each barrier, each watermark and the end comes to each channel once; to a "
            "channel that is added from the barrier on that adds it.",
            _mark_from_nowhere,
            "after the step a barrier more is in a channel",
        ),
        _CHAPTER.kept(
            "bounded",
            "Bounded",
            "A channel holds no more than it has places for; besides, one element at most is held.",
            _one_more,
            "after the step a message more is in a channel, which has a place less",
            breaks=lambda state, parameters: state.channels.get(0).queue.size() < parameters.room,
        ),
        _CHAPTER.kept(
            "cut-before-end",
            "CutBeforeEnd",
            "A chunk is cut before the end is taken or a consumer is lost.",
            lambda state, _: state._replace(is_splitting=True, is_over=True),
            "after the step one is being cut behind the end",
        ),
        _CHAPTER.kept(
            "closed",
            "Closed",
            "Nothing comes to a channel before the barrier that adds it.",
            _comes_early,
            "after the step a barrier was consumed there",
        ),
        _CHAPTER.kept(
            "end-behind-all",
            "EndBehindAll",
            "When the end is taken, each row is in its channel or was consumed.",
            _row_behind_end,
            "after the step a row waits behind the end",
        ),
        _CHAPTER.kept(
            "lost",
            "NothingForwarded",
            "Once a consumer is gone, nothing waits to be forwarded to any channel, and nothing is taken: so no end "
            "reaches a consumer that was not in its channel before.",
            _waits_in_vain,
            "after the step a row waits",
        ),
        _CHAPTER.theorem(
            "ended",
            "EndLast",
            "A consumer that was told the end has consumed everything that was for it.",
            follows(
                "any channel",
                partial(_is_complete, only_if=True),
                partial(_is_complete, only_if=False),
                "also one that was not told",
            ),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "While a part waits, some step of the protocol is possible, whatever the room: a part goes into a channel, "
            "or a consumer can consume.",
            follows(
                "any number of channels", partial(_live, more=0), partial(_live, more=1), "a part that waits can go on"
            ),
        ),
        _CHAPTER.theorem(
            "waits-for-full",
            "WaitsForFull",
            "A part that cannot go into its channel waits for that channel alone, which is full: the upstream is stuck "
            "if and only if such a channel is never consumed.",
            follows(
                "any channel",
                partial(_waits_for_full, fewer=0),
                partial(_waits_for_full, fewer=1),
                "it has a place free",
            ),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "2 for each message that waits and 1 for each in a channel: this falls by one with every step of the "
            "protocol, and only what is taken raises it. Where no step is possible, nothing is left in a channel whose "
            "consumer is there. So, if all consumers go on, everything that was taken is consumed.",
            *comes_to_rest(SUBJECT, rank, unless=_TAKEN, exactly=True),
            follows(
                "any channel at rest",
                partial(_rests_empty, gone=False),
                partial(_rests_empty, gone=True),
                "gone or not",
            ),
        ),
        _CHAPTER.theorem(
            "shares",
            "Grown",
            "When a channel is added, nodes move to it alone, and as few as it needs; then shares of nodes differ by "
            "one at most: for any numbers of nodes and channels; and node by node for up to 16 nodes, and for 256.",
            claim("a node is given", _stays_near, "two are given"),
            claim("at the end", _ends_near, "the shares are equal"),
            ExhaustiveObligation(
                "node by node",
                _growths,
                _moves_to_the_new,
                partial(_moves_to_the_new, more=1),
                "one node more moves",
                _described,
            ),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
