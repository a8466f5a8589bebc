"""What every channel promises, inside a process or across machines.  The guarantees are written here once.

``*_nowait`` decides at once or raises ``WouldBlock``; the asynchronous form waits.  Messages arrive in the order in
which they were sent, each once.  Cancelling an asynchronous call leaves nothing half done: a cancelled ``send`` has
sent nothing (one exception: a chunk that is being split and whose first slice has left, see there), a cancelled
``receive`` has received nothing.  The forms for many are worth their name where chunks are small: they do the same as
as many single calls, for less.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeVar

from permitflow.channels.statistics import ChannelStatistics
from permitflow.errors import InvalidParametersError, PermitflowError
from permitflow.flows.byte_window import Sums
from permitflow.flows.messages import Message
from permitflow.flows.seam import Parameters
from permitflow.stream.frames import EndOutcome

T = TypeVar("T")


class SendEnd(Protocol[T]):
    """The end into which messages go."""

    @property
    def name(self) -> str:
        """The channel's name, as in error messages."""
        ...

    @property
    def parameters(self) -> Parameters:
        """The parameters that both ends agreed on."""
        ...

    def send_nowait(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk now, whole or not at all.

        Args:
            chunk: any object; Arrow batches and sequences can be split if they are too large.
            rows: the rows to count; by default its ``num_rows``, else its length, else 1.  Text, mappings, sets, named
                tuples and iterators must come with it.

        Raises:
            WouldBlock: permits are missing, or other chunks wait before this one.
            ChannelClosedError: this end was closed, or the stream was ended; ``undelivered`` is the chunk.
            PeerGoneError: the receiver is gone; ``undelivered`` is the chunk.
            InvalidParametersError: ``rows`` is not a whole number of at least 0, or it contradicts the chunk.

        Spec: OfferChunk, SendChunk.
        """
        ...

    async def send(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk; wait until there are permits for it.  Waiting chunks leave in the order of their calls.

        A chunk above ``max_chunk_cost`` leaves in slices.  A call cancelled before the first slice has left has sent
        nothing; if it is cancelled later, the rest of the chunk is still sent.

        Raises:
            ChannelClosedError: this end was closed, or the stream was ended; ``undelivered`` is the unsent rest.
            PeerGoneError: the receiver is gone, or went while this call waited; ``undelivered`` is the unsent rest.
            ChannelCancelledError: the receiver needs no more; ``undelivered`` likewise.
            InvalidParametersError: ``rows`` is not a whole number of at least 0, or it contradicts the chunk.

        Spec: OfferChunk, SendChunk, WithdrawChunk.
        """
        ...

    async def send_many(self, chunks: deque[T]) -> None:
        """Send all chunks of a queue, from the left, each as ``send`` would, until the queue is empty.

        The call removes each chunk from the queue as it leaves.  So after a cancellation or an error, the queue holds
        exactly the unsent chunks, and the call can be repeated with it.  For a split chunk whose first slice has left:
        after a cancellation, the rest is still sent, and the chunk is not in the queue; after an error, its rest takes
        its place in the queue.

        Waiting chunks of other tasks may leave in between.  During the call, the queue may only be appended to.

        Raises:
            ChannelClosedError: this end was closed, or the stream was ended; ``undelivered`` is the queue.
            PeerGoneError: the receiver is gone, or went while this call waited; ``undelivered`` is the queue.
            InvalidParametersError: the leftmost chunk does not know its rows.
            UnsplittableChunkError: the leftmost chunk is too large and cannot be sliced.

        Spec: OfferChunk, SendChunk, WithdrawChunk.
        """
        ...

    def send_barrier_nowait(self, payload: object = None) -> None:
        """Send a barrier now.  It never overtakes waiting chunks of other tasks.

        Raises:
            WouldBlock: there is no barrier permit, or other sends wait before this one.
            ChannelClosedError: as for ``send_nowait``.
            PeerGoneError: as for ``send_nowait``.

        Spec: OfferBarrier, SendBarrier.
        """
        ...

    async def send_barrier(self, payload: object = None) -> None:
        """Send a barrier; wait until every message offered before it has left, and there is a barrier permit.

        Raises:
            ChannelClosedError: as for ``send``.
            PeerGoneError: as for ``send``.

        Spec: OfferBarrier, SendBarrier, WithdrawBarrier.
        """
        ...

    def send_watermark(self, value: object) -> None:
        """Announce a watermark; never waits.

        It leaves after the chunks that wait now, and after the receiver has consumed the watermark before it; until
        then a newer watermark replaces it.

        Raises:
            ChannelClosedError: as for ``send_nowait``.
            PeerGoneError: as for ``send_nowait``.

        Spec: OfferWatermark, SendWatermark.
        """
        ...

    async def until_refused(self) -> PermitflowError:
        """Wait until no message may be sent any more, and return the error that ``send`` would raise.

        A task that waits for something to send needs it: it would not hear that the receiver is gone.
        """
        ...

    async def end(self) -> EndOutcome | None:
        """End the stream, after all waiting messages.  Ending twice is harmless.

        A remote end waits for the peer's answer and returns it: the fate of the messages sent.  A local end does not
        wait, and returns None.

        Raises:
            ChannelClosedError: this end was closed or aborted before.
            PeerGoneError: the receiver is gone.
        """
        ...

    def abort(self, reason: str) -> None:
        """Give the stream up: unconsumed messages are dropped, and the receiver raises ``ChannelAbortedError``.

        Waiting sends fail with ``ChannelClosedError``.  Has no effect if the receiver has seen the end, or is gone.
        """
        ...

    def close(self) -> None:
        """Release this end.  Unless ``end`` came before, the receiver gets the sent messages, then ``PeerGoneError``.

        Waiting sends fail with ``ChannelClosedError``.  Closing twice is harmless.
        """
        ...

    def statistics(self) -> ChannelStatistics:
        """A snapshot of this end's counts."""
        ...


class ReceiveEnd(Protocol[T]):
    """The receiving end of a channel; iterating over it stops at the end of the stream.

    There are two ways to receive; do not mix them while a message is held.  ``receive``: a message counts as consumed
    when the call returns it.  ``take``, then ``consume``: a message holds its permits until the application calls
    ``consume``; messages are consumed in the order in which they were taken.
    """

    @property
    def name(self) -> str:
        """The channel's name, as in error messages."""
        ...

    @property
    def parameters(self) -> Parameters:
        """The parameters that both ends agreed on."""
        ...

    def receive_nowait(self) -> Message[T]:
        """Receive the oldest message; its permits return.

        Raises:
            WouldBlock: no message is here, or the messages here belong to tasks that wait for them.
            EndOfStream: the sender has ended the stream, and every message was received.
            ChannelAbortedError: the sender gave the stream up.
            ChannelClosedError: this end was closed.
            PeerGoneError: the sender is gone without having ended the stream.
            LocalProtocolError: a message was taken and has not been consumed.

        Spec: Consume.
        """
        ...

    async def receive(self) -> Message[T]:
        """Receive the oldest message; wait until there is one.  Waiting tasks are served in turn.

        Raises:
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError, LocalProtocolError:
                as for ``receive_nowait``.

        Spec: Consume.
        """
        ...

    async def receive_many(self, max_messages: int | None = None) -> list[Message[T]]:
        """Receive the messages that are here, at least one and at most ``max_messages``; wait only for the first.

        Messages for other waiting tasks stay theirs.  A cancelled call has received nothing.

        Args:
            max_messages: None for all messages that are here; the permits bound them.

        Raises:
            InvalidParametersError: ``max_messages`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError, LocalProtocolError:
                as for ``receive_nowait``.

        Spec: Consume.
        """
        ...

    def take_nowait(self) -> Message[T]:
        """Take the oldest untaken message; it keeps its permits until ``consume``.

        Raises:
            WouldBlock, EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        ...

    async def take(self) -> Message[T]:
        """Take the oldest untaken message; wait until there is one.

        Raises:
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        ...

    async def take_many(self, max_messages: int | None = None) -> list[Message[T]]:
        """Take the untaken messages that are here, at least one; wait only for the first.

        Args:
            max_messages: None for all messages that are here; the permits bound them.

        Raises:
            InvalidParametersError: ``max_messages`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        ...

    def consume(self, messages: int = 1) -> None:
        """Mark the oldest taken messages as consumed: their permits return.

        Args:
            messages: how many; if the call raises, none are consumed.

        Raises:
            InvalidParametersError: ``messages`` is not a whole number of at least 1.
            LocalProtocolError: fewer messages were taken.
            ChannelClosedError: this end was closed.
            ChannelAbortedError: the sender gave the stream up meanwhile.

        Spec: Consume.
        """
        ...

    def __aiter__(self) -> AsyncIterator[Message[T]]:
        """Receive until the end of the stream."""
        ...

    async def cancel(self, reason: str = "it needs no more") -> None:
        """End the stream from this end: no more messages are needed.

        Unconsumed messages are dropped.  Waiting and later sends raise ``ChannelCancelledError`` with the reason, and a
        remote sender's ``end`` returns ``EndOutcome.CANCELLED``.  A remote end waits until the sender has ended the
        stream.  Later calls at this end raise ``ChannelClosedError``.  Has no effect if the stream is over.

        If an exchange's channel is read once, all its producers hear of it, and the channel is spent.  A channel that
        keeps its rows only stops sending.

        Raises:
            LocalProtocolError: this is an input of a gate, which is closed as a whole.
        """
        ...

    def close(self) -> None:
        """Release this end.  Unconsumed messages are dropped; waiting and later sends fail with ``PeerGoneError``.

        Closing twice is harmless.
        """
        ...

    def statistics(self) -> ChannelStatistics:
        """A snapshot of this end's counts."""
        ...


class BulkSend(SendEnd[T], Protocol[T]):
    """A sending end for those that pass on what is at hand elsewhere, such as the exchange's bridge."""

    @property
    def sendable_rows(self) -> int:
        """About how many rows may leave now and are worth passing to ``send_at_once``."""
        ...

    def send_at_once(self, chunks: Sequence[T], rows: Sequence[int], sums: Sums | None = None) -> int:
        """Send the first chunks that may leave now; return how many.

        None leave if the end is closed, while others wait, or while much is still to be written.  ``send`` waits with a
        chunk that does not leave, cuts it, or raises the reason.

        Args:
            chunks: from the oldest on.
            rows: of each chunk.
            sums: of their bytes where they are now; an end over a network counts those of its own messages instead.

        Spec: OfferChunk, SendChunk.
        """
        ...

    async def until_room(self, chunks: Sequence[T], rows: Sequence[int], at_hand: Callable[[], Sequence[int]]) -> bool:
        """Wait while the first chunk lacks only room, and return True; False at once if ``send`` has to handle it.

        This wait has no place in the line of sends: an end that several tasks may share returns False.
        ``statistics`` counts the wait.

        Args:
            chunks: as for ``send_at_once``, which has sent none of them.
            rows: of each chunk.
            at_hand: the rows of this chunk and of those behind it, which will be sent next.
        """
        ...


class BulkReceive(ReceiveEnd[T], Protocol[T]):
    """A receiving end for those that look at the chunks here, and consume them once they have left elsewhere."""

    async def until_takeable(self) -> bool:
        """Wait until this task may take the oldest message; it takes none, and no other task runs before it can.

        True: other tasks have run meanwhile; False: it could at once.

        Raises:
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        ...

    def chunks_at_hand(self, most: int, most_rows: int) -> tuple[Sequence[T], Sequence[int], Sums]:
        """The oldest chunks before the first other message, the rows of each, and sums of bytes; they stay here.

        Many chunks that came as one batch are returned without others, so that they leave as they came.  Empty while
        the application holds a message.  Messages that belong to waiting tasks are not among them.

        Args:
            most: chunks.
            most_rows: about the most rows: the number of chunks is at most this, divided by the rows of the first
                chunk, plus one.
        """
        ...

    def rows_at_hand(self, most: int, most_rows: int) -> Sequence[int]:
        """The rows of the oldest chunks, also of those that ``chunks_at_hand`` returns later, with the same limits."""
        ...

    def consume_oldest(self, count: int) -> None:
        """Take and consume the ``count`` oldest messages, which ``chunks_at_hand`` has returned.

        Raises:
            LocalProtocolError: the application holds a message.
            ChannelClosedError, ChannelAbortedError: as for ``consume``.

        Spec: Consume.
        """
        ...


def require_count(value: object, *, name: str) -> None:
    """Require a whole number of at least 1.

    Raises:
        InvalidParametersError: the value is not such a number.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidParametersError(name=name, value=value, rule="must be at least 1, and a whole number")
