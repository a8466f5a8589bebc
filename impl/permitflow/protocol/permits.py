"""Permits: the protocol of RisingWave's exchange, proved in spec/permit_channel/PermitChannel.tla.

A permit is the right to send one row.
Permits circulate: none is created, none is lost.  The sender spends them on messages, a message holds them while it is
in the channel, and the receiver returns them once the application has consumed it: rows in batches, and what is less
than a batch once all that is here was consumed.  Barriers and watermarks have permits of their own.

Nobody else writes down when a message may leave, when it is accepted or when a permit returns, and nobody else changes
what is counted here.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, TypeVar

from permitflow.errors import (
    InvalidParametersError,
    OversizeChunkError,
    OverspendError,
    ParameterMismatchError,
    PermitOverrunError,
    RemoteProtocolError,
    UnexpectedFrameError,
)
from permitflow.protocol import flow
from permitflow.protocol.flow import Entries, Flow, Haste, Inbound, Outbound, messages_of
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.recording import ActionTable, Recorder
from permitflow.protocol.replay import DEFAULT_KEPT_ROWS, KEPT_CHUNK_ROWS

__all__ = [
    "NOTHING_STATED",
    "NO_PERMITS",
    "PERMITS",
    "PERMIT_ACTIONS",
    "ChannelParameters",
    "Oversize",
    "PermitFlow",
    "PermitReceiver",
    "PermitSender",
    "Permits",
    "StatedParameters",
    "held",
    "kept_parameters",
]

T = TypeVar("T")
_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision

# Four Arrow batches of 8,192 rows in flight; RisingWave began with the same pair (PR 6170).  A larger window is faster
# for large chunks, and each chunk of a full channel waits longer: docs/concepts/performance.md, "The defaults".
DEFAULT_ROW_PERMITS = 32_768
DEFAULT_BARRIER_PERMITS = 1
# Returning an eighth of the window at a time keeps the number of grant messages small; with half of it, the sender
# would stand still until its consumer is halfway through: docs/concepts/performance.md, "The batch".
BATCH_SHARE = 8


class Oversize(StrEnum):
    """What becomes of a chunk that costs more than ``max_chunk_cost``."""

    SPLIT = "split"
    """It is sent as several slices, so that never more than ``row_permits`` rows are in the channel."""

    WHOLE = "whole"
    """It is admitted whole for ``max_chunk_cost``, as RisingWave does; rows may exceed permits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelParameters(flow.Parameters):
    """Parameters of one channel; a permit is the right to send one row.

    Live for every sequence of chunks because ``max_chunk_cost <= row_permits - permit_batch + 1``.

    Spec: RowPermits, PermitBatch, MaxChunkCost, BarrierPermits.

    Raises:
        InvalidParametersError: a number is out of its range.
    """

    row_permits: int = DEFAULT_ROW_PERMITS
    """Rows that may be in the channel at once."""

    permit_batch: int = 0
    """The receiver returns row permits once it holds this many; 0 chooses an eighth of ``row_permits``."""

    max_chunk_cost: int = 0
    """The most permits a chunk takes; 0 chooses ``row_permits - permit_batch``."""

    barrier_permits: int = DEFAULT_BARRIER_PERMITS
    """Barriers that may be in the channel at once."""

    oversize: Oversize = Oversize.SPLIT
    """What becomes of a chunk above ``max_chunk_cost``."""

    def __post_init__(self) -> None:
        """Fill in what was left open, then refuse what cannot work."""
        for name in ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidParametersError(name=name, value=value, rule="must be a whole number")
        if self.row_permits < 2:
            raise InvalidParametersError(name="row_permits", value=self.row_permits, rule="must be at least 2")
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
        if self.barrier_permits < 1:
            raise InvalidParametersError(name="barrier_permits", value=self.barrier_permits, rule="must be at least 1")
        object.__setattr__(self, "oversize", _oversize(self.oversize))

    def _fill_in(self) -> None:
        """What follows from ``row_permits`` where nothing else was chosen."""
        if self.permit_batch == 0:
            object.__setattr__(self, "permit_batch", max(1, self.row_permits // BATCH_SHARE))
        if self.max_chunk_cost == 0:
            object.__setattr__(self, "max_chunk_cost", self.row_permits - self.permit_batch)

    @property
    def window_rows(self) -> int:
        """The most rows that may be in the channel at once."""
        return self.row_permits

    @property
    def most_rows(self) -> int | None:
        """The most rows of a chunk, if larger ones are split."""
        return self.max_chunk_cost if self.oversize is Oversize.SPLIT else None

    def cost_of(self, rows: int) -> int:
        """Permits that a chunk of so many rows takes: an empty one takes 1, an oversize one ``max_chunk_cost``.

        Spec: Cost.
        """
        return rows if 0 < rows <= self.max_chunk_cost else min(max(rows, 1), self.max_chunk_cost)


def kept_parameters(*, row_permits: int | None = None, **others: Any) -> ChannelParameters:
    """Parameters of a channel that keeps its rows: as ``ChannelParameters``, with a larger window if none is chosen.

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
    """Parameters as one end states them: unchecked, None where it says nothing."""

    row_permits: int | None = None
    permit_batch: int | None = None
    max_chunk_cost: int | None = None
    barrier_permits: int | None = None
    oversize: str | None = None


NOTHING_STATED = StatedParameters()

# Below these shares of the window, permits that are due, and what an idle receiver has not returned, may wait for more:
# the other end wakes up for each message that has some.
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
    """Spends permits on messages and takes returned ones in.

    Spec: PermitChannel, the variables waiting, watermarkPending and permits.
    """

    __slots__ = (
        "_barrier_permits",
        "_least_row_permits",
        "_max_chunk_cost",
        "_returned_barriers",
        "_returned_rows",
        "_row_permits",
        "_splits",
        "_watermark_permits",
        "total",
    )

    parameters: ChannelParameters

    def __init__(self, parameters: ChannelParameters, *, record: Recorder | None = None) -> None:
        """Start with all permits of the channel."""
        super().__init__(parameters, record=record)
        self.total = Permits(parameters.row_permits, parameters.barrier_permits, _WATERMARK_PERMITS)
        self._least_row_permits = parameters.row_permits  # before any of them came back
        self._returned_rows = self._returned_barriers = 0
        self._row_permits, self._barrier_permits, self._watermark_permits = self.total
        self._max_chunk_cost = parameters.max_chunk_cost
        self._splits = parameters.oversize is Oversize.SPLIT

    # What there is.

    @property
    def row_permits(self) -> int:
        """Row permits that are here, unspent."""
        return self._row_permits

    @property
    def room_rows(self) -> int:
        """Row permits that are here, unspent."""
        return self._row_permits

    @property
    def rows_held(self) -> int:
        """Row permits that are away from here: with messages, with the receiver or on their way back."""
        return self.total.rows - self._row_permits

    @property
    def peak_rows_held(self) -> int:
        """The most row permits that were ever away from here at once."""
        return self.total.rows - min(self._least_row_permits, self._row_permits)

    @property
    def permits(self) -> Permits:
        """Permits that are here, unspent."""
        return Permits(self._row_permits, self._barrier_permits, self._watermark_permits)

    @property
    def outstanding(self) -> Permits:
        """Permits that are with messages, with the receiver or on their way back."""
        return Permits(*(total - here for total, here in zip(self.total, self.permits, strict=True)))

    @property
    def sent_mark(self) -> tuple[int, int]:
        """Permits of rows and of barriers that were ever spent; once so many have returned, all of it was consumed."""
        rows, barriers, _ = self.outstanding
        return self._returned_rows + rows, self._returned_barriers + barriers

    @property
    def heard_mark(self) -> tuple[int, int]:
        """Permits of rows and of barriers that have ever come back."""
        return self._returned_rows, self._returned_barriers

    def unsettled(self) -> tuple[str, int] | None:
        """Permits that have not come back."""
        name, count = max(zip(Permits._fields, self.outstanding, strict=True), key=lambda pair: pair[1])
        return (f"unreturned {name} permits", count) if count else None

    def gauges(self) -> dict[str, int]:
        """What only permits count, by name: ``GAUGE_HELP`` has the words."""
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
        """Which permits are not here."""
        if kind is _CHUNK:
            cost = sum(map(self.parameters.cost_of, rows))
            return f"the chunk needs {cost} row permits, {self._row_permits} of {self.total.rows} are here"
        if kind is Kind.BARRIER:
            return f"all {self.total.barriers} barrier permits are out"
        return "the last watermark is not consumed yet"

    def _may_leave(self, message: Message[T]) -> bool:
        if message.kind is _CHUNK:
            return self.parameters.cost_of(message.rows) <= self._row_permits
        return (self._barrier_permits if message.kind is Kind.BARRIER else self._watermark_permits) > 0

    def sendable(self) -> int:
        """How many of the chunks and barriers that wait may leave now, one after the other."""
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
        """The update of each class's own action.

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
        self._row_permits -= total
        if self._record is not None:
            self._record_sent(self._record, rows)
        return len(rows)

    def _tell(self, verb: str, message: Message[T]) -> None:
        """Of a message that was offered or withdrawn, nothing is counted.

        Spec: OfferChunk, OfferBarrier, OfferWatermark, WithdrawChunk, WithdrawBarrier.
        """
        if self._record is not None:
            self._record(f"{verb}{message.kind.capitalize()}", (message.rows, *self._held(message)), self.permits)

    def _record_sent(self, record: Recorder, rows: Iterable[int]) -> None:
        """Tell the recorder of chunks that have left at once as if they had left one by one."""
        here = self.permits
        costs = list(map(self.parameters.cost_of, rows))
        left = here.rows + sum(costs)
        for size, cost in zip(rows, costs, strict=True):
            record("OfferChunk", (size, cost, 0, 0), here._replace(rows=left))
            left -= cost
            record("SendChunk", (size, cost, 0, 0), here._replace(rows=left))

    # Permits that come back.

    def on_feedback(self, feedback: Permits) -> None:
        """Take returned permits in.

        Raises:
            PermitOverrunError: the peer returned more than it holds; nothing was changed.
            UnexpectedFrameError: it returned nothing; no return is empty.

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
        self._least_row_permits = min(self._least_row_permits, self._row_permits)
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
        return UnexpectedFrameError(frame="AddPermits of no permits", expected="one of at least one permit")


class PermitReceiver(Inbound[T]):
    """Keeps what has arrived, and collects the permits of what was consumed.

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
        "is_due",
    )

    parameters: ChannelParameters

    def __init__(self, parameters: ChannelParameters, *, record: Recorder | None = None) -> None:
        """Start empty."""
        super().__init__(parameters, record=record)
        self._permit_batch = parameters.permit_batch
        self._max_chunk_cost = parameters.max_chunk_cost
        self._splits = parameters.oversize is Oversize.SPLIT
        self._row_permits, self._barrier_permits = parameters.row_permits, parameters.barrier_permits
        self._watermark_permits = _WATERMARK_PERMITS
        self._unreturned = 0
        self._due_rows = self._due_barriers = self._due_watermarks = 0
        self.is_due = False
        """Are there permits to give back now, also if there is more to consume?"""

    # What there is.

    @property
    def granted(self) -> Permits:
        """Permits that the peer may still spend, as far as this end knows."""
        return Permits(self._row_permits, self._barrier_permits, self._watermark_permits)

    @property
    def unreturned(self) -> int:
        """Row permits of consumed chunks that have not been returned yet."""
        return self._unreturned

    @property
    def haste(self) -> int:
        """How soon permits go back: because they are due, or a residue because all that came was consumed."""
        if self.is_due:
            is_little = 0 < self._due_rows < self.parameters.row_permits // _OWED_SHARE
            return Haste.SOON if is_little and self.untaken else Haste.NOW
        if not self._unreturned or self._here:
            return Haste.NONE
        # No chunk can need it: it is less than a batch, and none costs more than what the window leaves beside that.
        return Haste.LATER if self._unreturned < self.parameters.row_permits // _RESIDUE_SHARE else Haste.SOON

    def unsettled(self) -> bool:
        """Are there permits of consumed messages that were not given back?"""
        return self.is_due or self._unreturned > 0

    def gauges(self) -> dict[str, int]:
        """What only permits count, by name: ``GAUGE_HELP`` has the words."""
        return {"unreturned_permits": self._unreturned}

    # Arriving.

    def _accept_chunks(self, rows: Sequence[int], total: int, least: int) -> None:
        """The guard and the update for chunks: all hold no more permits than there are.

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
        if self._record is None:
            return
        messages, here = self._here - len(rows), self._inbox_rows - sum(rows)
        for count, (size, sum_rows) in enumerate(zip(rows, accumulate(rows), strict=True), start=1):
            counters = (messages + count, here + sum_rows, self._unreturned)
            self._record("Deliver", (size, self.parameters.cost_of(size), 0, 0), counters)

    def _note_marker(self, message: Message[T]) -> None:
        if self._record is not None:
            self._record("Deliver", (0, *held(message, self.parameters)), self._counters())

    # Consuming.

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        """The update: permits of rows are collected, and due in batches; the others are due at once.

        Spec: Consume.
        """
        for message in markers:
            if message.kind is Kind.BARRIER:
                self._due_barriers += 1
            else:
                self._due_watermarks += 1
        costs, before = rows, self._unreturned
        if 0 in rows or (total > self._max_chunk_cost and max(rows) > self._max_chunk_cost):
            costs = list(map(self.parameters.cost_of, rows))
            total = sum(costs)
        batches = _batches(before, costs, self._permit_batch) if before + total >= self._permit_batch else _NO_BATCH
        # Increments: a finalizer may have consumed something meanwhile.
        self._unreturned += total - batches[-1]
        self._due_rows += batches[-1]
        if markers or batches[-1]:
            self.is_due = True
        if self._record is not None:
            self._record_consumed(self._record, taken, before, batches)

    def _record_consumed(self, record: Recorder, taken: Entries[T], unreturned: int, batches: Sequence[int]) -> None:
        """Tell the recorder of messages that were consumed at once as if that had been one by one."""
        messages = messages_of(taken)
        count, rows = self._here + len(messages), self._inbox_rows + sum(message.rows for message in messages)
        for message in messages:
            permits = held(message, self.parameters)
            count -= 1
            rows -= message.rows
            unreturned += permits.rows
            last_batch = batches[bisect_right(batches, unreturned) - 1]
            record("Consume", (message.rows, *permits), (count, rows, unreturned - last_batch))

    # Permits that go back.

    def take_feedback(self, *, residue: bool = True) -> Permits | None:
        """The permits that are to be given back now, and a residue if the consumer is idle; the sender has them then.

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
        return self._here, self._inbox_rows, self._unreturned


_NO_BATCH = (0,)


def held(message: Message[Any], parameters: ChannelParameters) -> Permits:
    """The permits that a message holds while it is in the channel."""
    if message.kind is _CHUNK:
        return Permits(rows=parameters.cost_of(message.rows))
    return Permits(barriers=1) if message.kind is Kind.BARRIER else Permits(watermarks=1)


def _batches(unreturned: int, costs: Sequence[int], permit_batch: int) -> Sequence[int]:
    """At which sums of permits a batch of them is together, while chunks of these costs are consumed, if there is one.

    Permits are collected until there are at least ``permit_batch`` of them; then all of them are due.  The first of the
    sums is 0, and the last one is what is due once all are consumed.
    """
    if len(costs) == 1:
        return 0, unreturned + costs[0]
    sums = list(accumulate(costs, initial=unreturned))
    batches = [0]
    while sums[-1] - batches[-1] >= permit_batch:
        batches.append(sums[bisect_left(sums, batches[-1] + permit_batch)])
    return batches


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
"""Each action tells the rows of its chunk, or 0, and the permits that the message holds or, for Flush and AddPermits,
those that are returned.

The sender counts its unspent permits; the receiver what has arrived and was not consumed, and the row permits of
consumed chunks that it has not returned yet."""

GAUGE_HELP: Mapping[str, str] = {
    "row_permits_here": "Row permits at the sender, unspent; all of them while the channel is idle.",
    "unreturned_permits": "Row permits of consumed chunks that the receiver has not returned yet.",
}


_WINDOW = ("row_permits", "permit_batch", "max_chunk_cost")
_NUMBERS = (*_WINDOW, "barrier_permits")


class PermitFlow(Flow):
    """The acceptor decides and the dialer verifies: each number becomes the smaller of the two wishes.

    If both wishes are live (``max_chunk_cost <= row_permits - permit_batch + 1``), so is the result: it has at
    most the ``max_chunk_cost`` and the ``permit_batch`` of the end with the smaller window.  No end counts with numbers
    of its own afterwards; an upstream that computes costs by one configuration and a downstream that batches by another
    would stick for ever.
    """

    wire: ClassVar[str] = "permitflow.wire.v1.permits_pb2"
    wishes: ClassVar[type[tuple[Any, ...]]] = StatedParameters
    feedback: ClassVar[type[tuple[Any, ...]]] = Permits
    table: ClassVar[ActionTable] = PERMIT_ACTIONS
    gauge_help: ClassVar[Mapping[str, str]] = GAUGE_HELP
    outbound: ClassVar[type[Outbound[Any]]] = PermitSender
    inbound: ClassVar[type[Inbound[Any]]] = PermitReceiver

    def complete(self, wishes: StatedParameters) -> ChannelParameters:
        """Parameters from what was stated; a stated 0 is out of range."""
        stated = {name: value for name, value in wishes._asdict().items() if value is not None}
        for name, value in stated.items():
            if value == 0:
                raise InvalidParametersError(name=name, value=value, rule="must be at least 1")
        return ChannelParameters(**stated)

    def agree(self, own: ChannelParameters, wanted: StatedParameters) -> ChannelParameters:
        """Reconcile the peer's wishes with the parameters of this end: the smaller number wins.

        Raises:
            InvalidParametersError: the peer's wishes cannot work at all.
            ParameterMismatchError: one end splits oversize chunks, the other insists on whole ones.
        """
        if wanted == NOTHING_STATED:
            return own
        theirs = self.complete(self._filled_in(wanted, own))
        if theirs.oversize is not own.oversize:
            raise ParameterMismatchError(
                name="oversize",
                ours=own.oversize.value,
                theirs=theirs.oversize.value,
                rule="must be the same at both ends",
            )
        smaller = {name: min(getattr(own, name), getattr(theirs, name)) for name in _NUMBERS}
        return ChannelParameters(**smaller, oversize=own.oversize)

    def _filled_in(self, wanted: StatedParameters, own: ChannelParameters) -> StatedParameters:
        """What the peer left open is as here; but a window of its own brings a batch and a largest cost of its own."""
        ours = StatedParameters(*self.state(own))
        if any(getattr(wanted, name) is not None for name in _WINDOW):
            ours = ours._replace(permit_batch=None, max_chunk_cost=None)
        return ours._replace(**{name: value for name, value in wanted._asdict().items() if value is not None})

    def verify(self, agreed: StatedParameters, wanted: StatedParameters | None) -> ChannelParameters:
        """Check what the acceptor decided.

        Raises:
            ParameterMismatchError: a number is missing, cannot work, or exceeds what was asked for.
        """
        wanted = NOTHING_STATED if wanted is None else wanted
        for name, theirs in agreed._asdict().items():
            if theirs is None:
                raise ParameterMismatchError(
                    name=name, ours=getattr(wanted, name), theirs=None, rule="must be stated in the agreement"
                )
        try:
            parameters = self.complete(agreed)
        except InvalidParametersError as error:
            raise ParameterMismatchError(
                name=error.name, ours=getattr(wanted, error.name), theirs=error.value, rule=error.rule
            ) from error
        _require_within(parameters, wanted)
        return parameters


def _require_within(agreed: ChannelParameters, wanted: StatedParameters) -> None:
    for name in _NUMBERS:
        ours, theirs = getattr(wanted, name), getattr(agreed, name)
        if ours is not None and theirs > ours:
            raise ParameterMismatchError(name=name, ours=ours, theirs=theirs, rule="must not exceed what was asked for")
    if wanted.oversize not in (None, agreed.oversize):
        raise ParameterMismatchError(
            name="oversize", ours=str(wanted.oversize), theirs=agreed.oversize.value, rule="must be what was asked for"
        )


PERMITS = PermitFlow()
flow.register(PERMITS, ChannelParameters)
