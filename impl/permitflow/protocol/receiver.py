"""The receiver's end of a channel: what has arrived, what has been consumed, which permits go back and when.

The inbox has no limit of its own; the permits bound it.  Taking a message out (``take``) and having consumed it
(``consume``) are two steps: permits return only for what was consumed, so a consumer that holds a message holds
its permits.
"""

from collections import deque
from typing import Generic, TypeVar

from permitflow.errors import LocalProtocolError, OverspendError, WouldBlock
from permitflow.protocol.messages import Kind, Message, Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Recorder

__all__ = ["PermitReceiver"]

T = TypeVar("T")

# Attribute access on an enumeration costs more than the whole decision.
_CHUNK = Kind.CHUNK


class PermitReceiver(Generic[T]):
    """Keeps what has arrived, and collects the permits of what was consumed.

    Not thread-safe; does no I/O.

    Spec: PermitChannel, the variables inbox and unreturned.
    """

    __slots__ = (
        "_barrier_permits",
        "_batch",
        "_due_barriers",
        "_due_rows",
        "_due_watermarks",
        "_inbox",
        "_record",
        "_row_permits",
        "_taken",
        "_unreturned",
        "_watermark_permits",
        "consumed_chunks",
        "consumed_rows",
        "inbox_rows",
        "is_due",
        "parameters",
        "peak_inbox_rows",
    )

    def __init__(self, parameters: ChannelParameters, *, record: Recorder | None = None) -> None:
        """Start empty; the sender holds all permits."""
        self.parameters = parameters
        self.consumed_chunks = 0
        self.consumed_rows = 0
        self.inbox_rows = 0
        """Rows that have arrived and are not consumed yet."""
        self.peak_inbox_rows = 0
        self.is_due = False
        """Are there permits to give back now?  ``take_due`` has them."""
        self._due_rows = self._due_barriers = self._due_watermarks = 0
        self._row_permits = parameters.row_permits
        self._barrier_permits = parameters.barrier_permits
        self._watermark_permits = 1
        self._batch = parameters.permit_batch
        self._inbox: deque[Message[T]] = deque()
        self._taken = 0
        self._unreturned = 0
        self._record = record

    @property
    def granted(self) -> Permits:
        """Permits that the peer may still spend, as far as this end knows."""
        return Permits(self._row_permits, self._barrier_permits, self._watermark_permits)

    @property
    def unreturned(self) -> int:
        """Row permits of consumed chunks that have not been returned yet."""
        return self._unreturned

    @property
    def is_empty(self) -> bool:
        """Has everything that arrived been consumed?"""
        return not self._inbox

    @property
    def inbox(self) -> tuple[Message[T], ...]:
        """What has arrived and was not consumed, oldest first; what the application has taken is at the front."""
        return tuple(self._inbox)

    @property
    def is_idle(self) -> bool:
        """Has the consumer caught up while a residue is left to return?"""
        return not self._inbox and self._unreturned > 0

    @property
    def has_untaken(self) -> bool:
        """Is there a message that the application has not taken yet?"""
        return self._taken < len(self._inbox)

    @property
    def untaken(self) -> int:
        """Messages that the application has not taken yet."""
        return len(self._inbox) - self._taken

    def deliver(self, message: Message[T]) -> None:
        """Accept a message from the wire.

        Raises:
            OverspendError: the peer had no permits for it; nothing was changed.

        Spec: Deliver.
        """
        if message.kind is not _CHUNK:
            self._admit_control(message)
        else:
            cost = message.cost
            left = self._row_permits - cost
            if left < 0 or cost < 1:
                raise OverspendError(permit_class="rows", cost=cost, available=self._row_permits)
            self._row_permits = left
        self._inbox.append(message)
        inbox_rows = self.inbox_rows = self.inbox_rows + message.rows
        if inbox_rows > self.peak_inbox_rows:
            self.peak_inbox_rows = inbox_rows
        if self._record is not None:
            self._record("Deliver", message.rows, message.held())

    def _admit_control(self, message: Message[T]) -> None:
        is_barrier = message.kind is Kind.BARRIER
        available = self._barrier_permits if is_barrier else self._watermark_permits
        if not 1 <= message.cost <= available:
            permit_class = "barriers" if is_barrier else "watermarks"
            raise OverspendError(permit_class=permit_class, cost=message.cost, available=available)
        if is_barrier:
            self._barrier_permits -= message.cost
        else:
            self._watermark_permits -= message.cost

    def take(self) -> Message[T]:
        """Hand the oldest message that was not taken yet to the application; its permits stay.

        Raises:
            WouldBlock: there is none.
        """
        if self._taken >= len(self._inbox):
            raise WouldBlock("no message is here")
        message = self._inbox[self._taken]
        self._taken += 1
        return message

    def consume(self) -> Permits | None:
        """Note that the application has consumed the oldest message it took.

        Returns the permits to give back now, if any: rows in batches, barriers and watermarks at once.

        Raises:
            LocalProtocolError: the application holds no message.

        Spec: Consume.
        """
        if self._taken == 0:
            raise LocalProtocolError("nothing was taken that could have been consumed")
        self._taken -= 1
        self._consume_oldest()
        return self.take_due() if self.is_due else None

    def try_receive(self) -> Message[T] | None:
        """Take the oldest message and consume it at once; None if nothing is here.

        Permits that are to be given back now are left in ``take_due``.

        Raises:
            LocalProtocolError: the application holds a message, so that "the oldest it took" is another one.

        Spec: Consume.
        """
        if self._taken:
            raise LocalProtocolError(f"{self._taken} messages were taken and not consumed: consume them first")
        return self._consume_oldest() if self._inbox else None

    def _consume_oldest(self) -> Message[T]:
        message = self._inbox.popleft()
        if message.kind is not _CHUNK:
            self._note_control(message)
        else:
            rows = message.rows
            self.inbox_rows -= rows
            self.consumed_chunks += 1
            self.consumed_rows += rows
            unreturned = self._unreturned + message.cost
            if unreturned < self._batch:
                self._unreturned = unreturned
            else:
                self._due_rows += unreturned
                self._unreturned = 0
                self.is_due = True
        if self._record is not None:
            self._record("Consume", message.rows, message.held())
        return message

    def _note_control(self, message: Message[T]) -> None:
        if message.kind is Kind.BARRIER:
            self._due_barriers += message.cost
        else:
            self._due_watermarks += message.cost
        self.is_due = True

    def take_due(self) -> Permits:
        """The permits that are to be given back now; they are the sender's from here on."""
        due = Permits(self._due_rows, self._due_barriers, self._due_watermarks)
        self._row_permits += due.rows
        self._barrier_permits += due.barriers
        self._watermark_permits += due.watermarks
        self._due_rows = self._due_barriers = self._due_watermarks = 0
        self.is_due = False
        return due

    def flush(self) -> Permits | None:
        """Return the residue if the consumer is idle; otherwise do nothing.

        Spec: Flush.
        """
        if not self.is_idle:
            return None
        if self._record is not None:
            self._record("Flush", 0, Permits(rows=self._unreturned))
        self._due_rows += self._unreturned
        self._unreturned = 0
        return self.take_due()

    def drop(self) -> None:
        """Forget what has arrived and was not consumed: the stream is over, its permits with it."""
        self._inbox.clear()
        self._taken = self.inbox_rows = 0
