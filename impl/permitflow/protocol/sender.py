"""The sender's end of a channel: what may leave, and when.

The core decides, the shell waits: an application offers a message, and gets it back from ``take_sendable`` as soon
as its permits are there.  Chunks leave in the order in which they were offered; a large one at the head is never
overtaken by a small one.
"""

from collections import deque
from typing import Generic, TypeVar

from permitflow.errors import InvalidParametersError, LocalProtocolError, PermitOverrunError, WouldBlock
from permitflow.protocol.messages import Kind, Message, Permits
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.recording import Recorder

__all__ = ["Offered", "PermitSender"]

T = TypeVar("T")


class Offered(Generic[T]):
    """A message that was offered and has not left yet; identity matters, equality does not."""

    __slots__ = ("message",)

    def __init__(self, message: Message[T]) -> None:
        """Hold the message until it leaves or is withdrawn."""
        self.message = message


class PermitSender(Generic[T]):
    """Spends permits on messages and takes returned ones in.

    Not thread-safe; does no I/O.

    Spec: PermitChannel, the variables waiting, barrierWaiting, watermarkPending and permits.
    """

    __slots__ = (
        "_barriers",
        "_chunks",
        "_permits",
        "_record",
        "_watermark",
        "_watermark_after",
        "least_row_permits",
        "parameters",
        "sent_chunks",
        "sent_rows",
        "total",
    )

    def __init__(self, parameters: ChannelParameters, *, record: Recorder | None = None) -> None:
        """Start with all permits of the channel."""
        self.parameters = parameters
        self.total = Permits(parameters.row_permits, parameters.barrier_permits, 1)
        self.sent_chunks = 0
        self.sent_rows = 0
        self.least_row_permits = parameters.row_permits
        """The fewest row permits that were ever left: ``row_permits`` less this is the peak in the channel."""
        self._permits = self.total
        self._chunks: deque[Offered[T]] = deque()
        self._barriers: deque[Offered[T]] = deque()
        self._watermark: Message[T] | None = None
        self._watermark_after = 0
        self._record = record

    @property
    def permits(self) -> Permits:
        """Permits that are here, unspent."""
        return self._permits

    @property
    def outstanding(self) -> Permits:
        """Permits that are with messages, with the receiver or on their way back."""
        return Permits(*(total - here for total, here in zip(self.total, self._permits, strict=True)))

    @property
    def has_waiting(self) -> bool:
        """Has something been offered that has not left yet?"""
        return bool(self._chunks or self._barriers or self._watermark is not None)

    def offer_chunk(self, payload: T, rows: int) -> Offered[T]:
        """Put a chunk at the end of those that wait.

        Raises:
            InvalidParametersError: ``rows`` is negative.
            LocalProtocolError: the chunk exceeds the clamp on a channel that splits; split it first.

        Spec: OfferChunk.
        """
        if rows < 0:
            raise InvalidParametersError(name="rows", value=rows, rule="must not be negative")
        if rows > self.parameters.max_chunk_cost and self.parameters.oversize is Oversize.SPLIT:
            raise LocalProtocolError(
                f"a chunk of {rows} rows exceeds max_chunk_cost = {self.parameters.max_chunk_cost} "
                "on a channel that splits: offer it in slices"
            )
        offered = Offered(Message(Kind.CHUNK, payload, rows, self.parameters.cost_of(rows)))
        self._chunks.append(offered)
        if self._record is not None:
            self._record("OfferChunk", rows, offered.message.held())
        return offered

    def offer_barrier(self, payload: T) -> Offered[T]:
        """Let a barrier wait for a barrier permit; chunks do not hold it up.

        Spec: OfferBarrier.
        """
        offered = Offered(Message(Kind.BARRIER, payload, 0, 1))
        self._barriers.append(offered)
        if self._record is not None:
            self._record("OfferBarrier", 0, offered.message.held())
        return offered

    def offer_watermark(self, payload: T) -> None:
        """Announce a watermark.  It never waits for the caller, and replaces one that has not left yet.

        It will leave after the chunks that wait now, never before them.

        Spec: OfferWatermark.
        """
        self._watermark = Message(Kind.WATERMARK, payload, 0, 1)
        self._watermark_after = len(self._chunks)
        if self._record is not None:
            self._record("OfferWatermark", 0, self._watermark.held())

    def withdraw(self, offered: Offered[T]) -> bool:
        """Take back a message that still waits; say whether it was still here.  Nothing is lost.

        Spec: WithdrawChunk, WithdrawBarrier.
        """
        if offered in self._barriers:
            self._barriers.remove(offered)
            if self._record is not None:
                self._record("WithdrawBarrier", 0, offered.message.held())
            return True
        if offered not in self._chunks:
            return False
        position = self._chunks.index(offered)
        del self._chunks[position]
        if self._watermark is not None and position < self._watermark_after:
            self._watermark_after -= 1
        if self._record is not None:
            self._record("WithdrawChunk", offered.message.rows, offered.message.held())
        return True

    def send_chunk(self) -> Message[T]:
        """Let the oldest waiting chunk leave, with its permits.

        Raises:
            WouldBlock: no chunk waits, or its permits are not there.

        Spec: SendChunk.
        """
        if not self._chunks:
            raise WouldBlock("no chunk waits")
        message = self._chunks[0].message
        if message.cost > self._permits.rows:
            raise WouldBlock(f"the oldest chunk needs {message.cost} row permits, {self._permits.rows} are here")
        self._chunks.popleft()
        self._spend(Permits(rows=message.cost))
        if self._watermark_after > 0:
            self._watermark_after -= 1
        self.sent_chunks += 1
        self.sent_rows += message.rows
        self.least_row_permits = min(self.least_row_permits, self._permits.rows)
        if self._record is not None:
            self._record("SendChunk", message.rows, message.held())
        return message

    def send_barrier(self) -> Message[T]:
        """Let the oldest waiting barrier leave.

        Raises:
            WouldBlock: no barrier waits, or no barrier permit is there.

        Spec: SendBarrier.
        """
        if not self._barriers or self._permits.barriers < 1:
            raise WouldBlock("no barrier waits, or no barrier permit is here")
        message = self._barriers.popleft().message
        self._spend(Permits(barriers=1))
        if self._record is not None:
            self._record("SendBarrier", 0, message.held())
        return message

    def send_watermark(self) -> Message[T]:
        """Let the newest watermark leave.

        Raises:
            WouldBlock: none is pending, chunks offered before it still wait, or the last one is not consumed yet.

        Spec: SendWatermark.
        """
        message = self._watermark
        if message is None or self._watermark_after > 0 or self._permits.watermarks < 1:
            raise WouldBlock("no watermark may leave now")
        self._watermark = None
        self._spend(Permits(watermarks=1))
        if self._record is not None:
            self._record("SendWatermark", 0, message.held())
        return message

    def take_sendable(self) -> list[Message[T]]:
        """Everything that may leave now, in the order in which it leaves.

        A watermark goes as soon as it may, so that a steady stream of chunks cannot hold it up.
        """
        ready: list[Message[T]] = []
        while True:
            if self._watermark is not None and self._watermark_after == 0 and self._permits.watermarks:
                ready.append(self.send_watermark())
            elif self._chunks and self._chunks[0].message.cost <= self._permits.rows:
                ready.append(self.send_chunk())
            elif self._barriers and self._permits.barriers:
                ready.append(self.send_barrier())
            else:
                return ready

    def add_permits(self, returned: Permits) -> None:
        """Take returned permits in.

        Raises:
            PermitOverrunError: the peer returned more than it holds; nothing was changed.

        Spec: AddPermits.
        """
        for permit_class, count, outstanding in zip(Permits._fields, returned, self.outstanding, strict=True):
            if not 0 <= count <= outstanding:
                raise PermitOverrunError(permit_class=permit_class, returned=count, outstanding=outstanding)
        self._permits = Permits(*(here + count for here, count in zip(self._permits, returned, strict=True)))
        if self._record is not None:
            self._record("AddPermits", 0, returned)

    def _spend(self, cost: Permits) -> None:
        self._permits = Permits(*(here - spent for here, spent in zip(self._permits, cost, strict=True)))
