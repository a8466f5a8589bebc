"""Permits: the protocol of RisingWave's exchange, proved in spec/permit_channel/PermitChannel.tla.

A permit is the right to send one row.
Permits circulate: none is created, none is lost.  The sender spends them on messages, a message holds them while it is
in the channel, and the receiver returns them once the application has consumed it: row permits in batches, and less
than a batch once every message here is consumed.  Barriers and watermarks have permits of their own.  With
``initial_permits`` the receiver withholds row permits at the start (pull): it grants them when its application first
asks for a message that is not here, or consumes one.  A receiver may change its window while it runs (``resize``): it
withholds permits of consumed messages until its target is reached.

Only this file decides when a message may leave, when it is accepted and when a permit returns, and nothing else changes
the counts; those of the receiver are each a ``Credit``.
"""

from collections.abc import Sequence
from typing import TypeVar

from permitflow.errors import (
    InvalidParametersError,
    OversizeChunkError,
    PermitOverrunError,
    RemoteProtocolError,
    UnexpectedFrameError,
)
from permitflow.flows.adaptive_window import AdaptiveWindow
from permitflow.flows.credit import Credit
from permitflow.flows.messages import Kind, Message
from permitflow.flows.permits.parameters import BATCH_SHARE, ChannelParameters, Oversize, Permits, held
from permitflow.flows.permits.recorded import steps_of_consumption, steps_of_delivery, steps_of_sending
from permitflow.flows.recording import Recorder, record_run
from permitflow.flows.seam import Entries, Inbound, Outbound, Urgency

T = TypeVar("T")
_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision
_WATERMARK_PERMITS = 1

# Below these shares of the window, due permits, and the residue of an idle receiver, may wait for more permits: each
# feedback message wakes the other end.
_OWED_SHARE = 4
_RESIDUE_SHARE = 16
# With less than two of the largest chunks, the sender would wait while one of them is consumed.
_CHUNKS_IN_TARGET = 2


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
        return self.total.rows - self._row_permits + min(0, self._returned_rows)  # without what is withheld

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
    def acknowledged_mark(self) -> tuple[int, int]:
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
            record_run(self._record, steps_of_sending(rows, self.parameters, self.permits))
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
        if (held_until_now := self.rows_held) > self._most_rows_held:
            self._most_rows_held = held_until_now
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
        "_adaptive",
        "_barriers",
        "_largest_cost",
        "_max_chunk_cost",
        "_rows",
        "_splits",
        "_watermarks",
        "is_due",
    )

    parameters: ChannelParameters

    def __init__(self, parameters: ChannelParameters, *, record: Recorder | None = None) -> None:
        """Start empty."""
        super().__init__(parameters, record=record)
        self._max_chunk_cost = parameters.max_chunk_cost
        self._splits = parameters.oversize is Oversize.SPLIT
        self._rows = Credit(
            "rows", parameters.row_permits, batch=parameters.permit_batch, initial=parameters.initial_permits
        )
        self._barriers = Credit("barriers", parameters.barrier_permits)
        self._watermarks = Credit("watermarks", _WATERMARK_PERMITS)
        self.is_due = False
        """Permits to return now, even if more messages are here to consume."""
        self._adaptive: AdaptiveWindow | None = None
        self._largest_cost = 0  # of the chunks that came, if the window adapts

    # State.

    @property
    def granted(self) -> Permits:
        """Permits that the peer may still spend, as far as this end knows."""
        return Permits(self._rows.granted, self._barriers.granted, self._watermarks.granted)

    @property
    def unreturned(self) -> int:
        """Row permits of consumed chunks that have not been returned yet."""
        return self._rows.collected

    @property
    def withheld(self) -> int:
        """Row permits that are granted when the application first asks, or consumes something, or the target grows."""
        return self._rows.withheld

    def resize(self, target: int, batch: int) -> bool:
        """Let ``target`` row permits circulate, returned in batches of ``batch``; return whether some are due for that.

        More than the target may be out: it is withheld once it is consumed, and returned when nothing is here any more,
        so that a chunk of any size passes.

        Raises:
            InvalidParametersError: the target is not within the batch and ``row_permits``, or the batch is not within 1
                and ``permit_batch``; nothing was changed.

        It is the action ``Resize`` of spec/adaptive_window/AdaptiveWindow.tla.
        """
        parameters = self.parameters
        if not 1 <= batch <= parameters.permit_batch:
            rule = f"must be within 1 and the agreed permit_batch, {parameters.permit_batch}"
            raise InvalidParametersError(name="batch", value=batch, rule=rule)
        if not batch <= target <= parameters.row_permits:
            rule = f"must be within its batch, {batch}, and the agreed row_permits, {parameters.row_permits}"
            raise InvalidParametersError(name="target", value=target, rule=rule)
        is_due = self._rows.resize(target, batch)
        self.is_due = is_due or self.is_due
        return is_due

    def aim_at(self, latency_seconds: float) -> None:
        """As ``Inbound.aim_at``.

        Raises:
            InvalidParametersError: the latency is out of its range, or this end is recorded.
        """
        if self._record is not None:
            # A recording is judged as a run of PermitChannel, in which permits return by one batch.
            rule = "must be None where the stream is recorded: a recording cannot tell of a window that changes"
            raise InvalidParametersError(name="target_latency_seconds", value=latency_seconds, rule=rule)
        self._adaptive = AdaptiveWindow(self.parameters.row_permits, latency_seconds)

    @property
    def aimed_rows(self) -> int:
        """Row permits that shall circulate: ``row_permits``, unless ``resize`` chose fewer."""
        return self._rows.target

    def observe(self, at_seconds: float) -> None:
        """As ``Inbound.observe``."""
        if self._adaptive is not None:
            least_rows = _CHUNKS_IN_TARGET * self._largest_cost
            target = self._adaptive.observe(
                at_seconds, self.consumed_rows, is_busy=self._here > 0, least_rows=least_rows
            )
            if target is not None:
                self.resize(target, min(self.parameters.permit_batch, max(1, target // BATCH_SHARE)))

    @property
    def least_latency_seconds(self) -> float | None:
        """As ``Inbound.least_latency_seconds``."""
        return None if self._adaptive is None else self._adaptive.least_latency_seconds

    def ask(self) -> bool:
        """Grant what was withheld.

        In the specification they are in flight from the start.

        Spec: Init, Withheld.
        """
        if not self._rows.withheld or not self._rows.release():
            return False
        self.is_due = True
        return True

    @property
    def urgency(self) -> int:
        """How soon permits return: due permits, or the residue once every message here is consumed."""
        rows = self._rows
        if self.is_due:
            is_little = 0 < rows.due < rows.target // _OWED_SHARE
            return Urgency.SOON if is_little and self.untaken else Urgency.NOW
        if self._here or not rows.kept:
            return Urgency.NONE
        # No chunk needs the residue: it is less than a batch, and no chunk costs more than the window minus that.
        return Urgency.LATER if rows.collected < rows.target // _RESIDUE_SHARE else Urgency.SOON

    def unsettled(self) -> bool:
        """Are there permits of consumed messages that were not returned?"""
        return self.is_due or self._rows.kept > 0

    def gauges(self) -> dict[str, int]:
        """The permit counters, by name: ``GAUGE_HELP`` describes them."""
        rows = self._rows
        return {
            "unreturned_permits": rows.collected,
            "withheld_permits": rows.withheld,
            "target_permits": rows.target,
        }

    # Arriving.

    def _accept_chunks(self, rows: Sequence[int], total: int, least: int) -> None:
        """The guard and the update for chunks: together they hold no more permits than the peer may spend.

        Spec: Deliver.
        """
        permits, max_chunk_cost = total, self._max_chunk_cost
        if self._adaptive is not None:
            self._largest_cost = max(self._largest_cost, self.parameters.cost_of(max(rows)))
        if least < 1 or total > max_chunk_cost:
            if (most := max(rows)) > max_chunk_cost and self._splits:
                raise OversizeChunkError(rows=most, most=max_chunk_cost)
            if least < 1 or most > max_chunk_cost:
                permits = sum(map(self.parameters.cost_of, rows))
        self._rows.accept(permits)

    def _accept_marker(self, message: Message[T]) -> None:
        """The guard and the update for barriers and watermarks.

        Spec: Deliver.
        """
        (self._barriers if message.kind is Kind.BARRIER else self._watermarks).accept(1)

    def _note_delivered(self, rows: Sequence[int]) -> None:
        if self._record is not None:
            before = (self._here - len(rows), self.inbox_rows - sum(rows), self._rows.collected)
            record_run(self._record, steps_of_delivery(rows, self.parameters, before))

    def _note_marker(self, message: Message[T]) -> None:
        if self._record is not None:
            self._record("Deliver", (0, *held(message, self.parameters)), self._counters())

    # Consuming.

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        """The update: row permits are collected, and due in batches; the others are due at once.

        Spec: Consume.
        """
        if self._record is not None:
            before = (self._here + len(rows) + len(markers), self.inbox_rows + total, self._rows.collected)
            record_run(self._record, steps_of_consumption(taken, self.parameters, before))
        if self._rows.withheld:
            self.ask()  # they return before those of any message
        for message in markers:
            (self._barriers if message.kind is Kind.BARRIER else self._watermarks).consume(1)
        costs = rows
        if 0 in rows or (total > self._max_chunk_cost and max(rows) > self._max_chunk_cost):
            costs = list(map(self.parameters.cost_of, rows))
            total = sum(costs)
        if self._rows.consume(total, costs) or markers:
            self.is_due = True

    # Permits to return.

    def take_feedback(self, *, residue: bool = True) -> Permits | None:
        """The permits to return now, and the residue if the consumer is idle; the sender has them from here on.

        Spec: Flush.
        """
        rows, barriers, watermarks = self._rows, self._barriers, self._watermarks
        if residue and not self._here and rows.kept:
            flushed = rows.flush()
            if self._record is not None:
                self._record("Flush", (0, flushed, 0, 0), self._counters())
        elif not self.is_due:
            return None
        self.is_due = False
        return Permits(rows.take_due(), barriers.due and barriers.take_due(), watermarks.due and watermarks.take_due())

    def _counters(self) -> tuple[int, int, int]:
        return self._here, self.inbox_rows, self._rows.collected
