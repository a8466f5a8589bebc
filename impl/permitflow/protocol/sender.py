"""The sender's end of a channel: what may leave, and when.

The core decides, the shell waits: an application offers a message, and gets it back from ``take_sendable`` as soon
as its permits are there.  Chunks and barriers leave in the order in which they were offered: a large chunk at the head
is overtaken neither by a small one nor by a barrier.

Nobody else writes down when a message may leave, or changes what is counted here.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    PermitOverrunError,
    RemoteProtocolError,
    UnexpectedFrameError,
    WouldBlock,
)
from permitflow.protocol.messages import Kind, Message, Offered, Permits
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.recording import Recorder

__all__ = ["Offered", "PermitSender"]

T = TypeVar("T")

_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision


class PermitSender(Generic[T]):
    """Spends permits on messages and takes returned ones in.

    Not thread-safe; does no I/O.

    Spec: PermitChannel, the variables waiting, watermarkPending and permits.
    """

    __slots__ = (
        "_barrier_permits",
        "_clamp",
        "_least_row_permits",
        "_record",
        "_returned_barriers",
        "_returned_rows",
        "_row_permits",
        "_sent_chunks",
        "_sent_rows",
        "_splits",
        "_waiting",
        "_watermark",
        "_watermark_after",
        "_watermark_permits",
        "parameters",
        "total",
    )

    def __init__(self, parameters: ChannelParameters, *, record: Recorder | None = None) -> None:
        """Start with all permits of the channel."""
        self.parameters = parameters
        self.total = Permits(parameters.row_permits, parameters.barrier_permits, 1)
        self._sent_chunks = self._sent_rows = 0
        self._least_row_permits = parameters.row_permits
        self._returned_rows = self._returned_barriers = 0
        self._row_permits, self._barrier_permits, self._watermark_permits = self.total
        self._clamp = parameters.max_chunk_cost
        self._splits = parameters.oversize is Oversize.SPLIT
        self._waiting: deque[Offered[T]] = deque()
        self._watermark: Message[T] | None = None
        self._watermark_after = 0
        self._record = record

    # What there is.

    @property
    def row_permits(self) -> int:
        """Row permits that are here, unspent."""
        return self._row_permits

    @property
    def rows_held(self) -> int:
        """Row permits that are away from here: with messages, with the receiver or on their way back."""
        return self.total.rows - self._row_permits

    @property
    def peak_rows_held(self) -> int:
        """The most row permits that were ever away from here at once."""
        return self.total.rows - self._least_row_permits

    def gauges(self) -> dict[str, int]:
        """What only permits count, by name: ``GAUGE_HELP`` has the words."""
        return {"row_permits_here": self._row_permits}

    @property
    def sent_chunks(self) -> int:
        """Chunks that have left."""
        return self._sent_chunks

    @property
    def sent_rows(self) -> int:
        """Rows of the chunks that have left."""
        return self._sent_rows

    @property
    def permits(self) -> Permits:
        """Permits that are here, unspent."""
        return Permits(self._row_permits, self._barrier_permits, self._watermark_permits)

    @property
    def outstanding(self) -> Permits:
        """Permits that are with messages, with the receiver or on their way back."""
        return Permits(*(total - here for total, here in zip(self.total, self.permits, strict=True)))

    @property
    def returned(self) -> tuple[int, int]:
        """Permits of rows and of barriers that have ever come back."""
        return self._returned_rows, self._returned_barriers

    @property
    def spent(self) -> tuple[int, int]:
        """Permits of rows and of barriers that were ever spent; once so many have returned, all of it was consumed."""
        rows, barriers, _ = self.outstanding
        return self._returned_rows + rows, self._returned_barriers + barriers

    @property
    def has_waiting(self) -> bool:
        """Has something been offered that has not left yet?"""
        return bool(self._waiting or self._watermark is not None)

    @property
    def waiting(self) -> tuple[Message[T], ...]:
        """Chunks and barriers that wait for permits, oldest first."""
        return tuple(offered.message for offered in self._waiting)

    @property
    def messages_before_watermark(self) -> int | None:
        """Chunks and barriers that leave before the pending watermark may; None if none is pending."""
        return None if self._watermark is None else self._watermark_after

    # What may leave.

    def _affordable(self, costs: Iterable[int]) -> int:
        """How many of the first chunks of these costs have their permits here: the guard of SendChunk."""
        left, count = self._row_permits, 0
        for cost in costs:
            if cost > left:
                break
            left -= cost
            count += 1
        return count

    def sendable(self) -> int:
        """How many of the chunks and barriers that wait may leave now, one after the other."""
        rows, barriers = self._row_permits, self._barrier_permits
        for count, offered in enumerate(self._waiting):
            if offered.message.kind is _CHUNK:
                rows -= offered.message.cost
            else:
                barriers -= 1
            if rows < 0 or barriers < 0:
                return count
        return len(self._waiting)

    def can_send_watermark(self) -> bool:
        """May the pending watermark leave now?"""
        return self._watermark is not None and self._watermark_after == 0 and self._watermark_permits > 0

    # Offering.

    def offer_chunk(self, payload: T, rows: int) -> Offered[T]:
        """Put a chunk at the end of what waits.

        Raises:
            InvalidParametersError: ``rows`` is negative.
            LocalProtocolError: the chunk exceeds the clamp on a channel that splits; split it first.

        Spec: OfferChunk.
        """
        if rows < 0:
            raise InvalidParametersError(name="rows", value=rows, rule="must not be negative")
        if rows > self._clamp and self._splits:
            rule = f"exceeds max_chunk_cost = {self._clamp} on a channel that splits: offer it in slices"
            raise LocalProtocolError(f"a chunk of {rows} rows {rule}")
        offered = Offered(Message(_CHUNK, payload, rows, self.parameters.cost_of(rows)))
        self._waiting.append(offered)
        if self._record is not None:
            self._record("OfferChunk", (offered.message.rows, *offered.message.held()), self.permits)
        return offered

    def offer_barrier(self, payload: T) -> Offered[T]:
        """Put a barrier at the end of what waits: it leaves after the chunks that were offered before it.

        Spec: OfferBarrier.
        """
        offered = Offered(Message(Kind.BARRIER, payload, 0, 1))
        self._waiting.append(offered)
        if self._record is not None:
            self._record("OfferBarrier", (offered.message.rows, *offered.message.held()), self.permits)
        return offered

    def offer_watermark(self, payload: T) -> None:
        """Announce a watermark.  It never waits for the caller, and replaces one that has not left yet.

        It will leave after the chunks and barriers that wait now, never before them.

        Spec: OfferWatermark.
        """
        self._watermark = Message(Kind.WATERMARK, payload, 0, 1)
        self._watermark_after = len(self._waiting)
        if self._record is not None:
            self._record("OfferWatermark", (self._watermark.rows, *self._watermark.held()), self.permits)

    def withdraw(self, offered: Offered[T]) -> bool:
        """Take back a message that still waits; say whether it was still here.  Nothing is lost.

        Spec: WithdrawChunk, WithdrawBarrier.
        """
        try:
            position = self._waiting.index(offered)
        except ValueError:
            return False
        del self._waiting[position]
        if position < self._watermark_after:
            self._watermark_after -= 1
        self._record_withdrawn(offered.message)
        return True

    def withdraw_all(self) -> None:
        """Take back everything that waits, the newest first, and forget a pending watermark: the stream is over.

        Spec: WithdrawChunk, WithdrawBarrier.
        """
        self._watermark = None
        while self._waiting:
            self._record_withdrawn(self._waiting.pop().message)

    def _record_withdrawn(self, message: Message[T]) -> None:
        if self._record is not None:
            action = "WithdrawChunk" if message.kind is _CHUNK else "WithdrawBarrier"
            self._record(action, (message.rows, *message.held()), self.permits)

    # Leaving.

    def send_now(self, rows: Sequence[int]) -> int:
        """Offer chunks, and let as many of the first ones leave as may now; the others were not offered.

        Args:
            rows: of each chunk.

        Returns:
            How many have left.  Each of them travels for as many permits as it has rows: a chunk that is empty or
            above the clamp, or that stands behind others that wait, does not leave this way.

        Spec: OfferChunk, SendChunk.
        """
        if self._waiting or not rows:
            return 0
        total, count, clamp = sum(rows), len(rows), self._clamp
        if min(rows) < 1 or (total > clamp and max(rows) > clamp):
            count = next(position for position, cost in enumerate(rows) if not 0 < cost <= clamp)
            rows = rows[:count]
            total = sum(rows)
        if total > self._row_permits:
            rows = rows[: self._affordable(rows)]
            total, count = sum(rows), len(rows)
        self._leave(total, total, count)
        if self._record is not None:
            self._record_sent(self._record, rows)
        return count

    def send_oldest(self) -> Message[T]:
        """Let the oldest message that waits leave, a chunk or a barrier, with its permits.

        Raises:
            WouldBlock: nothing waits, or its permits are not there.

        Spec: SendChunk, SendBarrier.
        """
        if self._waiting and self._waiting[0].message.kind is not _CHUNK:
            return self.send_barrier()
        return self.send_chunk()

    def send_chunk(self) -> Message[T]:
        """Let the chunk leave that is the oldest message, with its permits.

        Raises:
            WouldBlock: the oldest message is no chunk, or its permits are not there.

        Spec: SendChunk.
        """
        if not self._waiting or (message := self._waiting[0].message).kind is not _CHUNK:
            raise WouldBlock("no chunk waits, or a barrier waits before it")
        if not self._affordable((message.cost,)):
            raise WouldBlock(f"the oldest chunk needs {message.cost} row permits, {self._row_permits} are here")
        self._leave_line()
        self._leave(message.rows, message.cost, 1)
        if self._record is not None:
            self._record("SendChunk", (message.rows, *message.held()), self.permits)
        return message

    def _leave_line(self) -> None:
        """The oldest message waits no longer."""
        self._waiting.popleft()
        if self._watermark_after > 0:
            self._watermark_after -= 1

    def _leave(self, rows: int, permits: int, chunks: int) -> None:
        """So many chunks leave with these permits, which are here: the update of SendChunk."""
        self._row_permits -= permits
        if self._row_permits < self._least_row_permits:
            self._least_row_permits = self._row_permits
        self._sent_chunks += chunks
        self._sent_rows += rows

    def _record_sent(self, record: Recorder, rows: Iterable[int]) -> None:
        """Tell the recorder of chunks that have left at once as if they had left one by one."""
        left, barriers, watermarks = self.permits
        left += sum(rows)
        for cost in rows:
            record("OfferChunk", (cost, cost, 0, 0), (left, barriers, watermarks))
            left -= cost
            record("SendChunk", (cost, cost, 0, 0), (left, barriers, watermarks))

    def send_barrier(self) -> Message[T]:
        """Let the barrier leave that is the oldest message.

        Raises:
            WouldBlock: the oldest message is no barrier, or no barrier permit is there.

        Spec: SendBarrier.
        """
        if not self._waiting or (message := self._waiting[0].message).kind is _CHUNK or self._barrier_permits < 1:
            raise WouldBlock("no barrier waits, a chunk waits before it, or no barrier permit is here")
        self._leave_line()
        self._barrier_permits -= 1
        if self._record is not None:
            self._record("SendBarrier", (message.rows, *message.held()), self.permits)
        return message

    def send_watermark(self) -> Message[T]:
        """Let the newest watermark leave.

        Raises:
            WouldBlock: none is pending, messages offered before it still wait, or the last one is not consumed yet.

        Spec: SendWatermark.
        """
        if not self.can_send_watermark() or (message := self._watermark) is None:
            raise WouldBlock("no watermark may leave now")
        self._watermark = None
        self._watermark_permits -= 1
        if self._record is not None:
            self._record("SendWatermark", (message.rows, *message.held()), self.permits)
        return message

    def take_sendable(self) -> list[Message[T]]:
        """Everything that may leave now, in the order in which it leaves.

        A watermark goes as soon as it may, so that a steady stream of messages cannot hold it up.
        """
        ready: list[Message[T]] = []
        for _ in range(self.sendable()):
            if self.can_send_watermark():
                ready.append(self.send_watermark())
            ready.append(self.send_oldest())
        if self.can_send_watermark():
            ready.append(self.send_watermark())
        return ready

    # Permits that come back.

    def add_permits(self, returned: Permits) -> None:
        """Take returned permits in.

        Raises:
            PermitOverrunError: the peer returned more than it holds; nothing was changed.
            UnexpectedFrameError: it returned nothing; no return is empty.

        Spec: AddPermits.
        """
        (rows, barriers, watermarks), total = returned, self.total
        if not (
            0 <= rows <= total.rows - self._row_permits
            and 0 <= barriers <= total.barriers - self._barrier_permits
            and 0 <= watermarks <= total.watermarks - self._watermark_permits
            and (rows or barriers or watermarks)
        ):
            raise self._overrun(returned)
        self._returned_rows += rows
        self._returned_barriers += barriers
        self._row_permits += rows
        self._barrier_permits += barriers
        self._watermark_permits += watermarks
        if self._record is not None:
            self._record("AddPermits", (0, *returned), self.permits)

    def _overrun(self, returned: Permits) -> RemoteProtocolError:
        for permit_class, count, outstanding in zip(Permits._fields, returned, self.outstanding, strict=True):
            if not 0 <= count <= outstanding:
                return PermitOverrunError(permit_class=permit_class, returned=count, outstanding=outstanding)
        return UnexpectedFrameError(frame="AddPermits of no permits", expected="one of at least one permit")
