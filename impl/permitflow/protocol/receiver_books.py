"""What a receiver has counted, and what follows from it."""

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from permitflow.protocol.messages import Message, Permits, message_of
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Recorder
from permitflow.protocol.sender import PermitSender

__all__ = ["ReceiverBooks"]

T = TypeVar("T")


class ReceiverBooks(Generic[T]):
    """The inbox and the permits of a receiver; ``PermitReceiver`` changes them."""

    __slots__ = (
        "_barrier_permits",
        "_batch",
        "_consumed_chunks",
        "_costs",
        "_dropped_chunks",
        "_due_barriers",
        "_due_rows",
        "_due_watermarks",
        "_is_quiet",
        "_payloads",
        "_peak_inbox_rows",
        "_peer",
        "_record",
        "_returned_rows",
        "_row_permits",
        "_surplus_consumed",
        "_surplus_here",
        "_taken",
        "_total_rows",
        "_unreturned",
        "_watermark_permits",
        "has_returns",
        "largest_at_once",
        "parameters",
    )

    def __init__(
        self, parameters: ChannelParameters, *, record: Recorder | None = None, peer: PermitSender[T] | None = None
    ) -> None:
        """Start empty.  ``peer``: the sender, where no wire is between the two; it counts row permits for both."""
        self.parameters = parameters
        self._consumed_chunks = self._dropped_chunks = 0
        self.has_returns = False
        """May permits go back now: because they are due, or a residue because all that came was consumed?

        Whoever has seen to it that they do may say so here.
        """
        self._total_rows = parameters.row_permits
        self._batch = parameters.permit_batch
        self._row_permits, self._barrier_permits = parameters.row_permits, parameters.barrier_permits
        self._watermark_permits = 1
        # The inbox.  A cost of 0 marks a payload that is a whole message: all but chunks that cost their rows.
        # Garbage collection would look at every message again and again, at numbers and payloads it does not.
        self._payloads: deque[T | Message[T]] = deque()
        self._costs: deque[int] = deque()
        self._taken = self._peak_inbox_rows = self._unreturned = self._returned_rows = 0
        self._due_rows = self._due_barriers = self._due_watermarks = 0
        # Rows less the permits they hold, here and consumed: only empty and oversize chunks differ.
        self._surplus_here = self._surplus_consumed = 0
        # Has nothing arrived since the last message was consumed, and is there no recorder to be told?
        self._is_quiet = False
        self._record = record
        self._peer = peer
        self.largest_at_once = parameters.max_chunk_cost if record is None and peer is None else 0
        """A chunk of so many rows, which it costs, may be delivered without a call; 0: somebody else is to be told."""

    @property
    def queues(self) -> tuple[deque[T | Message[T]], deque[int]]:
        """The two halves of the inbox, for those who take the short ways of ``direct``."""
        return self._payloads, self._costs

    @property
    def granted(self) -> Permits:
        """Permits that the peer may still spend, as far as this end knows."""
        return Permits(self._granted_rows, self._barrier_permits, self._watermark_permits)

    @property
    def _granted_rows(self) -> int:
        return self._row_permits if self._peer is None else self._peer._row_permits

    @property
    def unreturned(self) -> int:
        """Row permits of consumed chunks that have not been returned yet."""
        return self._unreturned

    @property
    def inbox(self) -> tuple[Message[T], ...]:
        """What has arrived and was not consumed, oldest first; what the application has taken is at the front."""
        return tuple(map(message_of, self._payloads, self._costs))

    @property
    def inbox_rows(self) -> int:
        """Rows that have arrived and are not consumed yet."""
        granted = self._row_permits if self._peer is None else self._peer._row_permits
        return self.parameters.row_permits - granted - self._unreturned - self._due_rows + self._surplus_here

    @property
    def peak_inbox_rows(self) -> int:
        """The most rows that were ever here and not consumed."""
        return max(self._peak_inbox_rows, self.inbox_rows)

    @property
    def consumed_rows(self) -> int:
        """Rows of the chunks that were consumed."""
        returned = self._returned_rows if self._peer is None else self._peer._returned_rows
        return returned + self._due_rows + self._unreturned + self._surplus_consumed

    @property
    def consumed_chunks(self) -> int:
        """Chunks that were consumed."""
        if self._peer is None:
            return self._consumed_chunks
        return self._peer.sent_chunks - self._chunks_here - self._dropped_chunks

    @property
    def _chunks_here(self) -> int:
        # What is here and is no chunk holds a permit of its class.
        barriers = self.parameters.barrier_permits - self._barrier_permits - self._due_barriers
        return len(self._costs) - barriers - (1 - self._watermark_permits - self._due_watermarks)

    @property
    def is_empty(self) -> bool:
        """Has everything that arrived been consumed?"""
        return not self._costs

    def is_just(self, payloads: Sequence[T | Message[T]], costs: Sequence[int]) -> bool:
        """Are these copies still the whole inbox, and nothing but chunks that cost their rows?

        Making a copy may run finalizers, which may do anything; what they send makes the inbox unquiet.
        """
        return 0 not in costs and len(self._costs) == len(costs) == len(payloads) and self._is_quiet

    @property
    def is_due(self) -> bool:
        """Are there permits to give back now?  ``take_due`` has them."""
        return bool(self._due_rows or self._due_barriers or self._due_watermarks)

    @property
    def due_rows(self) -> int:
        """Row permits to give back now."""
        return self._due_rows

    @property
    def is_idle(self) -> bool:
        """Has the consumer caught up while a residue is left to return?"""
        return not self._costs and self._unreturned > 0

    @property
    def has_untaken(self) -> bool:
        """Is there a message that the application has not taken yet?"""
        return self._taken < len(self._costs)

    @property
    def untaken(self) -> int:
        """Messages that the application has not taken yet."""
        return len(self._costs) - self._taken
