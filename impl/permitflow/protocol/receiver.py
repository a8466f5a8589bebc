"""The receiver's end of a channel: what has arrived, what has been consumed, which permits go back and when.

The inbox has no limit of its own; the permits bound it.  Taking a message out (``take``) and having consumed it
(``consume``) are two steps: permits return only for what was consumed, so a consumer that holds a message holds
its permits.
"""

from typing import TypeVar

from permitflow.errors import LocalProtocolError, OverspendError, WouldBlock
from permitflow.protocol.messages import Kind, Message, Permits, PlainChunk, message_of
from permitflow.protocol.receiver_books import ReceiverBooks
from permitflow.protocol.recording import Counters

__all__ = ["PermitReceiver"]

T = TypeVar("T")

_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision


class PermitReceiver(ReceiverBooks[T]):
    """Keeps what has arrived, and collects the permits of what was consumed.

    Not thread-safe; does no I/O.

    Spec: PermitChannel, the variables inbox and unreturned.
    """

    __slots__ = ()

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
            if self._peer is None:
                if not 1 <= cost <= self._row_permits:
                    raise OverspendError(permit_class="rows", cost=cost, available=self._row_permits)
                self._row_permits -= cost
            if cost == message.rows:
                self._payloads.append(message.payload)
                self._costs.append(cost)
            else:
                self._payloads.append(message)
                self._costs.append(0)
                self._surplus_here += message.rows - cost
        self._is_quiet = False
        if self._record is not None:
            self._record("Deliver", message.rows, message.held(), self._counters())

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
        self._payloads.append(message)
        self._costs.append(0)

    def take(self) -> Message[T]:
        """Hand the oldest message that was not taken yet to the application; its permits stay.

        Raises:
            WouldBlock: there is none.
        """
        if self._taken >= len(self._costs):
            raise WouldBlock("no message is here")
        message = message_of(self._payloads[self._taken], self._costs[self._taken])
        self._taken += 1
        self._is_quiet = False
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
        self._note_arrivals()
        self._consume(self._payloads.popleft(), self._costs.popleft())
        return self.take_due() if self.is_due else None

    def try_receive(self) -> Message[T] | None:
        """Take the oldest message and consume it at once; None if nothing is here.

        Permits that are to be given back now are left in ``take_due``.

        Raises:
            LocalProtocolError: the application holds a message, so that "the oldest it took" is another one.

        Spec: Consume.
        """
        if self._taken:
            raise self._none_taken()
        costs = self._costs
        if not costs:
            return None
        cost = costs.popleft()
        payload = self._payloads.popleft()
        if not (self._is_quiet or self._note_arrivals()) or not cost:
            return self._consume(payload, cost)
        unreturned = self._unreturned + cost
        if unreturned >= self._batch:
            self._due_rows += unreturned
            unreturned = 0
            self.has_returns = True
        elif not costs:
            self.has_returns = True
        self._unreturned = unreturned
        self._consumed_chunks += 1
        message: PlainChunk[T] = PlainChunk()  # ``plain_chunk`` without the call
        message.payload = payload  # type: ignore[assignment]  # a cost above 0 says that it is a T; a cast is a call
        message.rows = message.cost = cost
        return message

    def _none_taken(self) -> LocalProtocolError:
        return LocalProtocolError(f"{self._taken} messages were taken and not consumed: consume them first")

    def _note_arrivals(self) -> bool:
        # The inbox only shrinks until something arrives, so that its peak has to be looked at but once.
        peer = self._peer
        if peer is None:
            granted = self._row_permits
        else:
            granted = peer._row_permits
            if granted < peer._least_row_permits:
                peer._least_row_permits = granted
        here = self._total_rows - granted - self._unreturned - self._due_rows + self._surplus_here  # inbox_rows
        if here > self._peak_inbox_rows:
            self._peak_inbox_rows = here
        self._is_quiet = is_quiet = self._record is None and not self._taken
        return is_quiet

    def _consume(self, payload: T | Message[T], cost: int) -> Message[T]:
        """Consume any message that has just been taken out of the inbox, and tell the recorder."""
        message = message_of(payload, cost)
        if message.kind is _CHUNK:
            self._consume_chunk(message)
        elif message.kind is Kind.BARRIER:
            self._due_barriers += message.cost
        else:
            self._due_watermarks += message.cost
        self.has_returns = not self._costs or self.is_due
        if self._record is not None:
            self._record("Consume", message.rows, message.held(), self._counters())
        return message

    def _consume_chunk(self, message: Message[T]) -> None:
        self._surplus_here -= message.rows - message.cost
        self._surplus_consumed += message.rows - message.cost
        self._consumed_chunks += 1
        self._unreturned += message.cost
        if self._unreturned >= self._batch:
            self._due_rows += self._unreturned
            self._unreturned = 0

    def take_due(self) -> Permits:
        """The permits that are to be given back now, if any; they are the sender's from here on."""
        due = Permits(self._due_rows, self._due_barriers, self._due_watermarks)
        self._due_rows = self._due_barriers = self._due_watermarks = 0
        self.has_returns = not self._costs and self._unreturned > 0
        self._row_permits += due.rows
        self._returned_rows += due.rows
        self._barrier_permits += due.barriers
        self._watermark_permits += due.watermarks
        return due

    def flush(self) -> Permits | None:
        """Return the residue if the consumer is idle; otherwise do nothing.

        Spec: Flush.
        """
        return self.take_due() if self.release_residue() else None

    def release_residue(self) -> bool:
        """Let the residue be due if the consumer is idle, and say so; otherwise do nothing.  ``take_due`` has it.

        Spec: Flush.
        """
        if self._costs or not self._unreturned:
            return False
        residue, self._unreturned = self._unreturned, 0
        self._due_rows += residue
        if self._record is not None:
            self._record("Flush", 0, Permits(rows=residue), self._counters())
        return True

    def _counters(self) -> Counters:
        return len(self._costs), self.inbox_rows, self._unreturned

    def drop(self) -> None:
        """Forget what has arrived and was not consumed: the stream is over, its permits with it."""
        self._peak_inbox_rows = self.peak_inbox_rows
        self._surplus_here -= self.inbox_rows
        self._dropped_chunks += len(self._costs)
        self._taken = 0
        self._costs.clear()
        self._payloads.clear()  # last, because freeing payloads may run anybody's code
