"""Permits: the protocol of RisingWave's exchange, proved in spec/permit_channel/PermitChannel.tla.

A permit is the right to send one row.
Permits circulate: none is created, none is lost.  The sender spends them on messages, a message holds them while it is
in the channel, and the receiver returns them once the application has consumed it: row permits in batches, and less
than a batch once every message here is consumed.  Barriers and watermarks have permits of their own.  With
``initial_permits`` the receiver withholds row permits at the start (pull): it grants them when its application first
asks for a message that is not here, or consumes one.

Only this file decides when a message may leave, when it is accepted and when a permit returns, and only this file
changes the counts.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, TypeVar

from permitflow.chunks import DEFAULT_KEPT_ROWS, KEPT_CHUNK_ROWS
from permitflow.errors import (
    InvalidParametersError,
    OversizeChunkError,
    OverspendError,
    ParameterMismatchError,
    PermitOverrunError,
    RemoteProtocolError,
    UnexpectedFrameError,
)
from permitflow.flows import seam
from permitflow.flows.messages import Kind, Message
from permitflow.flows.recording import ActionTable, Recorder, Step, record_run
from permitflow.flows.seam import Entries, Flow, Haste, Inbound, Outbound, messages_of, require_whole

T = TypeVar("T")
_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision

# Four Arrow batches of 8,192 rows in flight; RisingWave began with the same pair (PR 6170).  A larger window is faster
# for large chunks, but each chunk of a full channel waits longer: docs/concepts/performance.md, "The defaults".
DEFAULT_ROW_PERMITS = 32_768
DEFAULT_BARRIER_PERMITS = 1
AS_MANY_AS_POSSIBLE = -1
# Returning an eighth of the window at a time keeps the number of feedback messages small; with half of it, the sender
# would stop until its consumer is halfway through: docs/concepts/performance.md, "The batch".
BATCH_SHARE = 8


class Oversize(StrEnum):
    """How to send a chunk of more rows than ``max_chunk_cost``."""

    SPLIT = "split"
    """Send it in slices, so that never more than ``row_permits`` rows are in the channel."""

    WHOLE = "whole"
    """Send it whole for ``max_chunk_cost`` permits, as RisingWave does; rows may exceed permits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelParameters(seam.Parameters):
    """Parameters of one channel; a permit is the right to send one row.

    Live for every sequence of chunks because ``max_chunk_cost <= row_permits - permit_batch + 1``.

    Spec: RowPermits, InitialPermits, PermitBatch, MaxChunkCost, BarrierPermits.

    Raises:
        InvalidParametersError: a number is out of its range.
    """

    row_permits: int = DEFAULT_ROW_PERMITS
    """Rows that may be in the channel at once."""

    permit_batch: int = 0
    """The receiver returns row permits once it holds this many; 0: an eighth of ``row_permits``."""

    max_chunk_cost: int = 0
    """The most permits that a chunk takes; 0: ``row_permits - permit_batch``."""

    barrier_permits: int = DEFAULT_BARRIER_PERMITS
    """Barriers that may be in the channel at once."""

    oversize: Oversize = Oversize.SPLIT
    """How to send a chunk of more rows than ``max_chunk_cost``."""

    initial_permits: int = AS_MANY_AS_POSSIBLE
    """Row permits that the sender has from the start; it gets the others when the receiver's application first asks for
    a message that is not here, or consumes one.  0: nothing is sent until then.  -1: ``row_permits``."""

    def __post_init__(self) -> None:
        """Fill in the defaults, then refuse numbers that cannot work."""
        require_whole(self, _LEAST)
        self._fill_in()
        if not 1 <= self.permit_batch < self.row_permits:
            raise InvalidParametersError(
                name="permit_batch",
                value=self.permit_batch,
                rule=f"must be at least 1 and below row_permits = {self.row_permits}",
            )
        limit = self.row_permits - self.permit_batch + 1
        if not 1 <= self.max_chunk_cost <= limit:
            raise InvalidParametersError(
                name="max_chunk_cost",
                value=self.max_chunk_cost,
                rule=f"must be in 1 .. row_permits - permit_batch + 1 = {limit}, else a chunk may wait for ever",
            )
        self._check_initial_permits()
        object.__setattr__(self, "oversize", _oversize(self.oversize))

    def _fill_in(self) -> None:
        """Derive the missing numbers from ``row_permits``."""
        if self.permit_batch == 0:
            object.__setattr__(self, "permit_batch", max(1, self.row_permits // BATCH_SHARE))
        if self.max_chunk_cost == 0:
            object.__setattr__(self, "max_chunk_cost", self.row_permits - self.permit_batch)
        if self.initial_permits == AS_MANY_AS_POSSIBLE:
            object.__setattr__(self, "initial_permits", self.row_permits)

    def _check_initial_permits(self) -> None:
        if not 0 <= self.initial_permits <= self.row_permits:
            rule = f"must be in 0 .. row_permits = {self.row_permits}"
            raise InvalidParametersError(name="initial_permits", value=self.initial_permits, rule=rule)

    @property
    def window_rows(self) -> int:
        """The most rows that may be in the channel at once."""
        return self.row_permits

    @property
    def most_rows(self) -> int | None:
        """The most rows of a chunk, if larger chunks are split."""
        return self.max_chunk_cost if self.oversize is Oversize.SPLIT else None

    def cost_of(self, rows: int) -> int:
        """Permits that a chunk of this many rows takes: an empty chunk takes 1, an oversize one ``max_chunk_cost``.

        Spec: Cost.
        """
        return rows if 0 < rows <= self.max_chunk_cost else min(max(rows, 1), self.max_chunk_cost)


_LEAST = {
    "row_permits": 2,
    "permit_batch": 0,
    "max_chunk_cost": 0,
    "barrier_permits": 1,
    "initial_permits": AS_MANY_AS_POSSIBLE,
}


def kept_parameters(*, row_permits: int | None = None, **others: Any) -> ChannelParameters:
    """Parameters of a channel that keeps its rows: as ``ChannelParameters``, with a larger default window.

    Raises:
        InvalidParametersError: a number is out of its range.
    """
    if row_permits is not None:
        return ChannelParameters(row_permits=row_permits, **others)
    return ChannelParameters(row_permits=DEFAULT_KEPT_ROWS, **{"max_chunk_cost": KEPT_CHUNK_ROWS, **others})


def _oversize(value: object) -> Oversize:
    try:
        return Oversize(value)  # type: ignore[arg-type]  # options and files bring text
    except ValueError:
        names = " or ".join(repr(member.value) for member in Oversize)
        raise InvalidParametersError(name="oversize", value=value, rule=f"must be {names}") from None


class StatedParameters(NamedTuple):
    """Parameters as one end states them: unchecked; None: the end states nothing."""

    row_permits: int | None = None
    permit_batch: int | None = None
    max_chunk_cost: int | None = None
    barrier_permits: int | None = None
    oversize: str | None = None
    initial_permits: int | None = None


NOTHING_STATED = StatedParameters()

# Below these shares of the window, due permits, and the residue of an idle receiver, may wait for more permits: each
# feedback message wakes the other end.
_OWED_SHARE = 4
_RESIDUE_SHARE = 16


class Permits(NamedTuple):
    """Permits by class."""

    rows: int = 0
    barriers: int = 0
    watermarks: int = 0


NO_PERMITS = Permits()
_WATERMARK_PERMITS = 1


class PermitSender(Outbound[T]):
    """Spends permits on messages and takes in returned permits.

    Spec: PermitChannel, the variables waiting, watermarkPending and permits.
    """

    __slots__ = (
        "_barrier_permits",
        "_max_chunk_cost",
        "_most_rows_held",
        "_returned_barriers",
        "_returned_rows",
        "_row_permits",
        "_splits",
        "_watermark_permits",
        "total",
    )

    parameters: ChannelParameters

    def __init__(self, parameters: ChannelParameters, *, record: Recorder | None = None) -> None:
        """Start with the permits of the channel that the receiver does not withhold."""
        super().__init__(parameters, record=record)
        self.total = Permits(parameters.row_permits, parameters.barrier_permits, _WATERMARK_PERMITS)
        _, self._barrier_permits, self._watermark_permits = self.total
        self._row_permits = parameters.initial_permits
        # What was withheld comes before all else, and no message has held it: the count begins behind it.
        self._returned_rows = parameters.initial_permits - parameters.row_permits
        self._returned_barriers = 0
        self._most_rows_held = 0  # before the last return
        self._max_chunk_cost = parameters.max_chunk_cost
        self._splits = parameters.oversize is Oversize.SPLIT

    # State.

    @property
    def row_permits(self) -> int:
        """Unspent row permits, at the sender."""
        return self._row_permits

    @property
    def room_rows(self) -> int:
        """Unspent row permits, at the sender."""
        return self._row_permits

    @property
    def rows_held(self) -> int:
        """Row permits that have left the sender: with messages, with the receiver or on their way back."""
        return self.total.rows - self._row_permits - self.withheld

    @property
    def peak_rows_held(self) -> int:
        """The most row permits that had ever left the sender."""
        return max(self._most_rows_held, self.rows_held)

    @property
    def withheld(self) -> int:
        """Row permits that the sender has never had, because the receiver's application has not asked yet."""
        return max(0, -self._returned_rows)

    @property
    def permits(self) -> Permits:
        """Unspent permits, at the sender."""
        return Permits(self._row_permits, self._barrier_permits, self._watermark_permits)

    @property
    def outstanding(self) -> Permits:
        """Permits that are not here: with messages, with the receiver or on their way back."""
        return Permits(*(total - here for total, here in zip(self.total, self.permits, strict=True)))

    @property
    def sent_mark(self) -> tuple[int, int]:
        """All row and barrier permits spent so far; once as many have returned, every message sent is consumed."""
        rows, barriers, _ = self.outstanding
        return self._returned_rows + rows, self._returned_barriers + barriers

    @property
    def heard_mark(self) -> tuple[int, int]:
        """All row and barrier permits returned so far."""
        return max(0, self._returned_rows), self._returned_barriers

    def unsettled(self) -> tuple[str, int] | None:
        """Permits that have left and not returned."""
        owed = self.outstanding._replace(rows=self.rows_held)
        name, count = max(zip(Permits._fields, owed, strict=True), key=lambda pair: pair[1])
        return (f"unreturned {name} permits", count) if count else None

    def gauges(self) -> dict[str, int]:
        """The permit counters, by name: ``GAUGE_HELP`` describes them."""
        return {"row_permits_here": self._row_permits}

    # What may leave.

    def _held(self, message: Message[T]) -> Permits:
        """The permits that a message takes."""
        return held(message, self.parameters)

    def admits(self, rows: Sequence[int]) -> int:
        """How many of the first of these chunks have their permits here: the guard of SendChunk."""
        left, max_chunk_cost, count = self._row_permits, self._max_chunk_cost, 0
        for size in rows:
            left -= min(max(size, 1), max_chunk_cost)
            if left < 0 or (size > max_chunk_cost and self._splits):
                break
            count += 1
        return count

    def lack(self, kind: Kind, rows: Sequence[int] = ()) -> str:
        """Which permits are missing."""
        if kind is _CHUNK:
            cost = sum(map(self.parameters.cost_of, rows))
            lack = f"the chunk needs {cost} row permits; {self._row_permits} of {self.total.rows} are unspent"
            asking = f", and {self.withheld} are withheld until the receiver's application asks for a message"
            return lack + asking if self.withheld else lack
        if kind is Kind.BARRIER:
            return f"all {self.total.barriers} barrier permits are out"
        return "the last watermark is not consumed yet"

    def _may_leave(self, message: Message[T]) -> bool:
        if message.kind is _CHUNK:
            return self.parameters.cost_of(message.rows) <= self._row_permits
        return (self._barrier_permits if message.kind is Kind.BARRIER else self._watermark_permits) > 0

    def sendable(self) -> int:
        """How many waiting chunks and barriers may leave now, one after the other."""
        rows, barriers = self._row_permits, self._barrier_permits
        for count, offered in enumerate(self._waiting):
            if offered.message.kind is _CHUNK:
                rows -= self.parameters.cost_of(offered.message.rows)
            else:
                barriers -= 1
            if rows < 0 or barriers < 0:
                return count
        return len(self._waiting)

    # Leaving.

    def _leave(self, message: Message[T]) -> None:
        """The update of the message's own action.

        Spec: SendChunk, SendBarrier, SendWatermark.
        """
        if message.kind is _CHUNK:
            self._row_permits -= self.parameters.cost_of(message.rows)
        elif message.kind is Kind.BARRIER:
            self._barrier_permits -= 1
        else:
            self._watermark_permits -= 1
        if self._record is not None:
            self._tell("Send", message)

    def _leave_at_once(self, rows: Sequence[int], total: int, least: int) -> int:
        if (
            total > self._row_permits
            or least < 1
            or (total > self._max_chunk_cost and max(rows) > self._max_chunk_cost)
        ):
            rows = rows[: self.admits(rows)]
            total = sum(map(self.parameters.cost_of, rows))
        if self._record is not None:
            record_run(self._record, _steps_of_sending(rows, self.parameters, self.permits))
        self._row_permits -= total
        return len(rows)

    def _tell(self, verb: str, message: Message[T]) -> None:
        """Offering and withdrawing change no count.

        Spec: OfferChunk, OfferBarrier, OfferWatermark, WithdrawChunk, WithdrawBarrier.
        """
        if self._record is not None:
            self._record(f"{verb}{message.kind.capitalize()}", (message.rows, *self._held(message)), self.permits)

    # Returned permits.

    def on_feedback(self, feedback: Permits) -> None:
        """Take in returned permits.

        Raises:
            PermitOverrunError: the peer returned more than it holds; nothing was changed.
            UnexpectedFrameError: the peer returned no permits.

        Spec: AddPermits.
        """
        (rows, barriers, watermarks), total = feedback, self.total
        if not (
            0 <= rows <= total.rows - self._row_permits
            and 0 <= barriers <= total.barriers - self._barrier_permits
            and 0 <= watermarks <= total.watermarks - self._watermark_permits
            and (rows or barriers or watermarks)
        ):
            raise self._overrun(feedback)
        self._most_rows_held = self.peak_rows_held
        self._returned_rows += rows
        self._returned_barriers += barriers
        self._row_permits += rows
        self._barrier_permits += barriers
        self._watermark_permits += watermarks
        if self._record is not None:
            self._record("AddPermits", (0, *feedback), self.permits)

    def _overrun(self, returned: Permits) -> RemoteProtocolError:
        for permit_class, count, outstanding in zip(Permits._fields, returned, self.outstanding, strict=True):
            if not 0 <= count <= outstanding:
                return PermitOverrunError(permit_class=permit_class, returned=count, outstanding=outstanding)
        return UnexpectedFrameError(frame="a return of no permits", expected="at least one permit")


class PermitReceiver(Inbound[T]):
    """Keeps arrived messages, and collects the permits of consumed ones.

    Spec: PermitChannel, the variables inbox and unreturned.
    """

    __slots__ = (
        "_barrier_permits",
        "_due_barriers",
        "_due_rows",
        "_due_watermarks",
        "_max_chunk_cost",
        "_permit_batch",
        "_row_permits",
        "_splits",
        "_unreturned",
        "_watermark_permits",
        "_withheld",
        "is_due",
    )

    parameters: ChannelParameters

    def __init__(self, parameters: ChannelParameters, *, record: Recorder | None = None) -> None:
        """Start empty."""
        super().__init__(parameters, record=record)
        self._permit_batch = parameters.permit_batch
        self._max_chunk_cost = parameters.max_chunk_cost
        self._splits = parameters.oversize is Oversize.SPLIT
        self._row_permits, self._barrier_permits = parameters.initial_permits, parameters.barrier_permits
        self._watermark_permits = _WATERMARK_PERMITS
        self._withheld = parameters.row_permits - parameters.initial_permits
        self._unreturned = 0
        self._due_rows = self._due_barriers = self._due_watermarks = 0
        self.is_due = False
        """Permits to return now, even if more messages are here to consume."""

    # State.

    @property
    def granted(self) -> Permits:
        """Permits that the peer may still spend, as far as this end knows."""
        return Permits(self._row_permits, self._barrier_permits, self._watermark_permits)

    @property
    def unreturned(self) -> int:
        """Row permits of consumed chunks that have not been returned yet."""
        return self._unreturned

    @property
    def withheld(self) -> int:
        """Row permits that are granted when the application first asks for a message, or consumes one."""
        return self._withheld

    def ask(self) -> bool:
        """Grant what was withheld.

        In the specification they are in flight from the start.

        Spec: Init, Withheld.
        """
        if not self._withheld:
            return False
        self._due_rows += self._withheld
        self._withheld = 0
        self.is_due = True
        return True

    @property
    def haste(self) -> int:
        """How soon permits return: due permits, or the residue once every message here is consumed."""
        if self.is_due:
            is_little = 0 < self._due_rows < self.parameters.row_permits // _OWED_SHARE
            return Haste.SOON if is_little and self.untaken else Haste.NOW
        if not self._unreturned or self._here:
            return Haste.NONE
        # No chunk needs the residue: it is less than a batch, and no chunk costs more than the window minus that.
        return Haste.LATER if self._unreturned < self.parameters.row_permits // _RESIDUE_SHARE else Haste.SOON

    def unsettled(self) -> bool:
        """Are there permits of consumed messages that were not returned?"""
        return self.is_due or self._unreturned > 0

    def gauges(self) -> dict[str, int]:
        """The permit counters, by name: ``GAUGE_HELP`` describes them."""
        return {"unreturned_permits": self._unreturned, "withheld_permits": self._withheld}

    # Arriving.

    def _accept_chunks(self, rows: Sequence[int], total: int, least: int) -> None:
        """The guard and the update for chunks: together they hold no more permits than the peer may spend.

        Spec: Deliver.
        """
        permits, max_chunk_cost = total, self._max_chunk_cost
        if least < 1 or total > max_chunk_cost:
            if (most := max(rows)) > max_chunk_cost and self._splits:
                raise OversizeChunkError(rows=most, most=max_chunk_cost)
            if least < 1 or most > max_chunk_cost:
                permits = sum(map(self.parameters.cost_of, rows))
        if permits > self._row_permits:
            raise OverspendError(permit_class="rows", cost=permits, available=self._row_permits)
        self._row_permits -= permits

    def _accept_marker(self, message: Message[T]) -> None:
        """The guard and the update for barriers and watermarks.

        Spec: Deliver.
        """
        is_barrier = message.kind is Kind.BARRIER
        if (self._barrier_permits if is_barrier else self._watermark_permits) < 1:
            raise OverspendError(permit_class="barriers" if is_barrier else "watermarks", cost=1, available=0)
        if is_barrier:
            self._barrier_permits -= 1
        else:
            self._watermark_permits -= 1

    def _note_delivered(self, rows: Sequence[int]) -> None:
        if self._record is not None:
            before = (self._here - len(rows), self.inbox_rows - sum(rows), self._unreturned)
            record_run(self._record, _steps_of_delivery(rows, self.parameters, before))

    def _note_marker(self, message: Message[T]) -> None:
        if self._record is not None:
            self._record("Deliver", (0, *held(message, self.parameters)), self._counters())

    # Consuming.

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        """The update: row permits are collected, and due in batches; the others are due at once.

        Spec: Consume.
        """
        if self._record is not None:
            before = (self._here + len(rows) + len(markers), self.inbox_rows + total, self._unreturned)
            record_run(self._record, _steps_of_consumption(taken, self.parameters, before))
        if self._withheld:
            self.ask()  # they return before those of any message
        for message in markers:
            if message.kind is Kind.BARRIER:
                self._due_barriers += 1
            else:
                self._due_watermarks += 1
        costs, unreturned, batch = rows, self._unreturned, self._permit_batch
        if 0 in rows or (total > self._max_chunk_cost and max(rows) > self._max_chunk_cost):
            costs = list(map(self.parameters.cost_of, rows))
            total = sum(costs)
        due = _due(unreturned, costs, batch) if unreturned + total >= batch else 0
        # Increments: a finalizer may have consumed something meanwhile.
        self._unreturned += total - due
        self._due_rows += due
        if markers or due:
            self.is_due = True

    # Permits to return.

    def take_feedback(self, *, residue: bool = True) -> Permits | None:
        """The permits to return now, and the residue if the consumer is idle; the sender has them from here on.

        Spec: Flush.
        """
        if residue and self._unreturned and not self._here:
            flushed, self._unreturned = self._unreturned, 0
            self._due_rows += flushed
            self.is_due = True
            if self._record is not None:
                self._record("Flush", (0, flushed, 0, 0), self._counters())
        if not self.is_due:
            return None
        self.is_due = False
        due = Permits(self._due_rows, self._due_barriers, self._due_watermarks)
        self._row_permits += self._due_rows
        self._barrier_permits += self._due_barriers
        self._watermark_permits += self._due_watermarks
        self._due_rows = self._due_barriers = self._due_watermarks = 0
        return due

    def _counters(self) -> tuple[int, int, int]:
        return self._here, self.inbox_rows, self._unreturned


def held(message: Message[Any], parameters: ChannelParameters) -> Permits:
    """The permits that a message holds while it is in the channel."""
    if message.kind is _CHUNK:
        return Permits(rows=parameters.cost_of(message.rows))
    return Permits(barriers=1) if message.kind is Kind.BARRIER else Permits(watermarks=1)


def _due(unreturned: int, costs: Sequence[int], permit_batch: int) -> int:
    """The permits that become due while chunks of these costs are consumed, one after the other; at least one batch.

    Permits are collected until there are at least ``permit_batch``; then all of them are due.
    """
    if len(costs) == 1:
        return unreturned + costs[0]
    sums = list(accumulate(costs, initial=unreturned))
    due = 0
    while sums[-1] - due >= permit_batch:
        due = sums[bisect_left(sums, due + permit_batch)]
    return due


# What a recorder gets for messages that moved together.


def _steps_of_sending(rows: Iterable[int], parameters: ChannelParameters, before: Permits) -> Iterator[Step]:
    left = before.rows
    for size in rows:
        chunk = (size, cost := parameters.cost_of(size), 0, 0)
        yield "OfferChunk", chunk, before._replace(rows=left)
        left -= cost
        yield "SendChunk", chunk, before._replace(rows=left)


def _steps_of_delivery(rows: Iterable[int], parameters: ChannelParameters, before: tuple[int, ...]) -> Iterator[Step]:
    messages, here, unreturned = before
    for size in rows:
        messages += 1
        here += size
        yield "Deliver", (size, parameters.cost_of(size), 0, 0), (messages, here, unreturned)


def _steps_of_consumption(
    taken: Entries[Any], parameters: ChannelParameters, before: tuple[int, ...]
) -> Iterator[Step]:
    messages, here, unreturned = before
    for message in messages_of(taken):
        permits = held(message, parameters)
        messages -= 1
        here -= message.rows
        unreturned += permits.rows
        if unreturned >= parameters.permit_batch:
            unreturned = 0
        yield "Consume", (message.rows, *permits), (messages, here, unreturned)


_MESSAGE = ("rows", "permits.rows", "permits.barriers", "permits.watermarks")

PERMIT_ACTIONS = ActionTable(
    flow="permits",
    actions={
        "sender": dict.fromkeys(
            (
                *("OfferChunk", "OfferBarrier", "OfferWatermark", "WithdrawChunk", "WithdrawBarrier"),
                *("SendChunk", "SendBarrier", "SendWatermark", "AddPermits"),
            ),
            _MESSAGE,
        ),
        "receiver": dict.fromkeys(("Deliver", "Consume", "Flush"), _MESSAGE),
    },
    counters={
        "sender": ("row_permits", "barrier_permits", "watermark_permits"),
        "receiver": ("inbox_messages", "inbox_rows", "unreturned_permits"),
    },
)
"""Each action reports the rows of its chunk, or 0, and the permits that the message holds or, for Flush and AddPermits,
the returned permits.

The sender counts its unspent permits; the receiver counts unconsumed messages, and the row permits of consumed chunks
that it has not returned yet."""

GAUGE_HELP: Mapping[str, str] = {
    "row_permits_here": "Row permits at the sender, unspent; while the channel is idle, all that are not withheld.",
    "unreturned_permits": "Row permits of consumed chunks that the receiver has not returned yet.",
    "withheld_permits": "Row permits that the receiver grants when its application first asks.",
}


class PermitFlow(Flow):
    """The server decides and the client verifies: each number becomes the smaller of the two wishes.

    If both wishes are live (``max_chunk_cost <= row_permits - permit_batch + 1``), so is the result: its
    ``max_chunk_cost`` and ``permit_batch`` are at most those of the end with the smaller window.  Both ends count with
    the agreed numbers; an upstream with one configuration and a downstream with another could deadlock.
    """

    wishes: ClassVar[type[tuple[Any, ...]]] = StatedParameters
    feedback: ClassVar[type[tuple[Any, ...]]] = Permits
    table: ClassVar[ActionTable] = PERMIT_ACTIONS
    gauge_help: ClassVar[Mapping[str, str]] = GAUGE_HELP
    as_wished: ClassVar[Collection[str]] = ("oversize",)
    least_stated: ClassVar[Mapping[str, int]] = {"permit_batch": 1, "max_chunk_cost": 1, "initial_permits": 0}
    leading: ClassVar[Collection[str]] = ("row_permits", "permit_batch", "max_chunk_cost")
    following: ClassVar[Collection[str]] = ("permit_batch", "max_chunk_cost", "initial_permits")
    outbound: ClassVar[type[Outbound[Any]]] = PermitSender
    inbound: ClassVar[type[Inbound[Any]]] = PermitReceiver

    @property
    def wire(self) -> Any:
        """Its messages in protobuf."""
        from permitflow.wire.v1 import permits_pb2

        return permits_pb2

    def agree(self, own: ChannelParameters, wanted: StatedParameters) -> ChannelParameters:
        """Reconcile the peer's wishes with the parameters of this end: the smaller number wins.

        Raises:
            InvalidParametersError: the peer's wishes cannot work at all.
            ParameterMismatchError: one end splits oversize chunks, the other insists on whole ones.
        """
        agreed: ChannelParameters = super().agree(own, wanted)
        if wanted.oversize not in (None, own.oversize):
            rule = "must be the same at both ends"
            raise ParameterMismatchError(
                name="oversize", ours=own.oversize.value, theirs=str(wanted.oversize), rule=rule
            )
        return agreed

    def verify(self, agreed: StatedParameters, wanted: StatedParameters | None) -> ChannelParameters:
        """As for every flow; an agreement that says nothing of ``initial_permits`` withholds none."""
        if agreed.initial_permits is None:
            agreed = agreed._replace(initial_permits=agreed.row_permits)
        parameters: ChannelParameters = super().verify(agreed, wanted)
        return parameters


PERMITS = PermitFlow()
seam.register(PERMITS, ChannelParameters)
