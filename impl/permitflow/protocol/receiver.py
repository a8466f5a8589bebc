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


class PermitReceiver(Generic[T]):
    """Keeps what has arrived, and collects the permits of what was consumed.

    Not thread-safe; does no I/O.

    Spec: PermitChannel, the variables inbox and unreturned.
    """

    __slots__ = (
        "_granted",
        "_inbox",
        "_record",
        "_taken",
        "_unreturned",
        "consumed_chunks",
        "consumed_rows",
        "inbox_rows",
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
        self._granted = Permits(parameters.row_permits, parameters.barrier_permits, 1)
        self._inbox: deque[Message[T]] = deque()
        self._taken = 0
        self._unreturned = 0
        self._record = record

    @property
    def granted(self) -> Permits:
        """Permits that the peer may still spend, as far as this end knows."""
        return self._granted

    @property
    def unreturned(self) -> int:
        """Row permits of consumed chunks that have not been returned yet."""
        return self._unreturned

    @property
    def is_empty(self) -> bool:
        """Has everything that arrived been consumed?"""
        return not self._inbox

    @property
    def is_idle(self) -> bool:
        """Has the consumer caught up while a residue is left to return?"""
        return not self._inbox and self._unreturned > 0

    @property
    def has_untaken(self) -> bool:
        """Is there a message that the application has not taken yet?"""
        return self._taken < len(self._inbox)

    def deliver(self, message: Message[T]) -> None:
        """Accept a message from the wire.

        Raises:
            OverspendError: the peer had no permits for it; nothing was changed.

        Spec: Deliver.
        """
        for permit_class, cost, available in zip(Permits._fields, message.held(), self._granted, strict=True):
            if not 0 <= cost <= available:
                raise OverspendError(permit_class=permit_class, cost=cost, available=available)
        if message.cost < 1:
            raise OverspendError(permit_class=message.kind.value, cost=message.cost, available=0)
        self._granted = Permits(*(left - c for left, c in zip(self._granted, message.held(), strict=True)))
        self._inbox.append(message)
        self.inbox_rows += message.rows
        self.peak_inbox_rows = max(self.peak_inbox_rows, self.inbox_rows)
        if self._record is not None:
            self._record("Deliver", message.rows, message.held())

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
        message = self._inbox.popleft()
        self._taken -= 1
        self.inbox_rows -= message.rows
        if self._record is not None:
            self._record("Consume", message.rows, message.held())
        if message.kind is not Kind.CHUNK:
            return self._give_back(message.held())
        self.consumed_chunks += 1
        self.consumed_rows += message.rows
        self._unreturned += message.cost
        if self._unreturned < self.parameters.permit_batch:
            return None
        return self._return_rows()

    def flush(self) -> Permits | None:
        """Return the residue if the consumer is idle; otherwise do nothing.

        Spec: Flush.
        """
        if not self.is_idle:
            return None
        if self._record is not None:
            self._record("Flush", 0, Permits(rows=self._unreturned))
        return self._return_rows()

    def _return_rows(self) -> Permits:
        rows, self._unreturned = self._unreturned, 0
        return self._give_back(Permits(rows=rows))

    def _give_back(self, permits: Permits) -> Permits:
        self._granted = Permits(*(left + count for left, count in zip(self._granted, permits, strict=True)))
        return permits
