"""What every channel promises, inside a process or across machines.  The guarantees are written here once.

``*_nowait`` decides at once or raises ``WouldBlock``; the asynchronous form waits.  Messages arrive in the order in
which they were sent, each once.  Cancelling an asynchronous call leaves nothing half done: a cancelled ``send`` has
sent nothing (one exception: a chunk that is being split and whose first slice has left, see there), a cancelled
``receive`` has received nothing.  The forms for many are worth their name where chunks are small: they do the same as
so many calls, for less.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from permitflow.channels.statistics import ChannelStatistics
from permitflow.errors import InvalidParametersError
from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import EndOutcome
from permitflow.protocol.messages import Message

__all__ = ["ReceiveEnd", "SendEnd", "require_count", "stream_channels"]


T = TypeVar("T")


class SendEnd(Protocol[T]):
    """The end into which messages go."""

    @property
    def name(self) -> str:
        """The channel's name, as error messages give it."""
        ...

    @property
    def parameters(self) -> Parameters:
        """What both ends agreed on."""
        ...

    def send_nowait(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk now, all of it or nothing.

        Args:
            chunk: anything; Arrow batches and sequences can be split when they are too large.
            rows: what it counts for; by default its ``num_rows``, else its length, else 1.

        Raises:
            WouldBlock: its permits are not here, or other chunks wait before it.
            ChannelClosedError: this end was closed, or the stream was ended; ``undelivered`` is the chunk.
            PeerGoneError: the receiver is gone; ``undelivered`` is the chunk.
            InvalidParametersError: ``rows`` is not a whole number of at least 0, or it contradicts the chunk.

        Spec: OfferChunk, SendChunk.
        """
        ...

    async def send(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk; wait until its permits are here.  Waiting chunks leave in the order of their calls.

        A chunk above ``max_chunk_cost`` leaves in slices.  Cancelled before the first slice has left, nothing was
        sent; cancelled later, the rest follows by itself.

        Raises:
            ChannelClosedError: this end was closed, or the stream was ended; ``undelivered`` is what did not leave.
            PeerGoneError: the receiver is gone, also while waiting; ``undelivered`` is what did not leave.
            InvalidParametersError: ``rows`` is not a whole number of at least 0, or it contradicts the chunk.

        Spec: OfferChunk, SendChunk, WithdrawChunk.
        """
        ...

    async def send_many(self, chunks: deque[T]) -> None:
        """Send all chunks of a queue, from the left, each as ``send`` would, until the queue is empty.

        Each is taken out of the queue when it leaves.  So however the call ends, what is in the queue has not been
        sent, and all that is no longer in it has: cancelled or refused, it can be called again with the same queue.
        Of a chunk that leaves in slices, once the first has left: cancelled, the rest follows by itself, and the
        chunk is no longer in the queue; refused, its rest is in the queue in its place.

        Chunks of other tasks that wait may come in between.  While the call lasts the queue may be appended to;
        nothing else may be done to it.

        Raises:
            ChannelClosedError: this end was closed, or the stream was ended; ``undelivered`` is the queue.
            PeerGoneError: the receiver is gone, also while waiting; ``undelivered`` is the queue.
            InvalidParametersError: the leftmost chunk does not know its rows.
            UnsplittableChunkError: the leftmost chunk is too large and cannot be sliced.

        Spec: OfferChunk, SendChunk, WithdrawChunk.
        """
        ...

    def send_barrier_nowait(self, payload: object = None) -> None:
        """Send a barrier now.  It keeps its place among the chunks: it overtakes none that wait in other tasks.

        Raises:
            WouldBlock: no barrier permit is here, or other sends wait before it.
            ChannelClosedError: as for ``send_nowait``.
            PeerGoneError: as for ``send_nowait``.

        Spec: OfferBarrier, SendBarrier.
        """
        ...

    async def send_barrier(self, payload: object = None) -> None:
        """Send a barrier; wait until all that was offered before it has left, and a barrier permit is here.

        Raises:
            ChannelClosedError: as for ``send``.
            PeerGoneError: as for ``send``.

        Spec: OfferBarrier, SendBarrier, WithdrawBarrier.
        """
        ...

    def send_watermark(self, value: object) -> None:
        """Announce a watermark; never waits.

        It leaves after the chunks that wait now, and once the receiver has consumed the one before; until then a
        newer one replaces it.

        Raises:
            ChannelClosedError: as for ``send_nowait``.
            PeerGoneError: as for ``send_nowait``.

        Spec: OfferWatermark, SendWatermark.
        """
        ...

    async def end(self) -> EndOutcome | None:
        """Say, in band, that nothing follows.  Whatever waits is delivered first.  Saying it twice is harmless.

        A remote end waits for the peer's answer, and returns it: what has become of everything that was sent.  A local
        one does not wait, and returns None.

        Raises:
            ChannelClosedError: this end was closed or aborted before.
            PeerGoneError: the receiver is gone.
        """
        ...

    def abort(self, reason: str) -> None:
        """Give the stream up: what was not consumed is dropped and the receiver raises ``ChannelAbortedError``.

        Sends that wait fail with ``ChannelClosedError``.  Harmless where the receiver has seen the end, or is gone.
        """
        ...

    def close(self) -> None:
        """Release this end.  Without ``end`` before, the receiver gets what was sent and then ``PeerGoneError``.

        Sends that wait fail with ``ChannelClosedError``.  Closing twice is harmless.
        """
        ...

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        ...


class ReceiveEnd(Protocol[T]):
    """The end from which messages come; iterating over it ends with the stream.

    Two ways to receive, not to be mixed while a message is held.  ``receive``: a message counts as consumed when it
    is handed over.  ``take`` ... ``consume``: it holds its permits until the application says that it is done with
    it; messages are consumed in the order in which they were taken.
    """

    @property
    def name(self) -> str:
        """The channel's name, as error messages give it."""
        ...

    @property
    def parameters(self) -> Parameters:
        """What both ends agreed on."""
        ...

    def receive_nowait(self) -> Message[T]:
        """Receive the oldest message; its permits return.

        Raises:
            WouldBlock: no message is here, or those that are here belong to tasks that have waited for them.
            EndOfStream: the sender has ended the stream, and all of it was received.
            ChannelAbortedError: the sender gave the stream up.
            ChannelClosedError: this end was closed.
            PeerGoneError: the sender is gone without having ended the stream.
            LocalProtocolError: a message was taken and has not been consumed.

        Spec: Consume.
        """
        ...

    async def receive(self) -> Message[T]:
        """Receive the oldest message; wait until there is one.  Tasks that wait are served in turn.

        Raises:
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError, LocalProtocolError:
                as for ``receive_nowait``.

        Spec: Consume.
        """
        ...

    async def receive_many(self, max_messages: int | None = None) -> list[Message[T]]:
        """Receive what is here, at least one message and at most ``max_messages``; wait only for the first.

        What belongs to tasks that have waited for it stays theirs.  Cancelled, it has received nothing.

        Args:
            max_messages: None for all that are here; the permits bound them.

        Raises:
            InvalidParametersError: ``max_messages`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError, LocalProtocolError:
                as for ``receive_nowait``.

        Spec: Consume.
        """
        ...

    def take_nowait(self) -> Message[T]:
        """Hand the oldest message over that was not taken yet; it keeps its permits until ``consume``.

        Raises:
            WouldBlock, EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        ...

    async def take(self) -> Message[T]:
        """Hand the oldest message over that was not taken yet; wait until there is one.

        Raises:
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        ...

    async def take_many(self, max_messages: int | None = None) -> list[Message[T]]:
        """Hand over what is here and was not taken yet, at least one message; wait only for the first.

        Args:
            max_messages: None for all that are here; the permits bound them.

        Raises:
            InvalidParametersError: ``max_messages`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        ...

    def consume(self, messages: int = 1) -> None:
        """Say that the application is done with the oldest messages it took: their permits return.

        Args:
            messages: how many; all of them or, where it raises, none.

        Raises:
            InvalidParametersError: ``messages`` is not a whole number of at least 1.
            LocalProtocolError: so many messages are not held.
            ChannelClosedError: this end was closed.
            ChannelAbortedError: the sender gave the stream up meanwhile.

        Spec: Consume.
        """
        ...

    def __aiter__(self) -> AsyncIterator[Message[T]]:
        """Receive until the end of the stream."""
        ...

    def close(self) -> None:
        """Release this end.  What was not consumed is dropped; waiting and later sends fail with ``PeerGoneError``.

        Closing twice is harmless.
        """
        ...

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        ...


def require_count(value: object, *, name: str) -> None:
    """Insist on a whole number of at least 1.

    Raises:
        InvalidParametersError: it is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidParametersError(name=name, value=value, rule="must be at least 1, and a whole number")


def stream_channels(name: str, count: int) -> tuple[str, ...]:
    """Names of the channels of a stream that is cut into ``count`` partitions: name/0, name/1, …

    Raises:
        InvalidParametersError: there must be at least one channel.
    """
    if count < 1:
        raise InvalidParametersError(name="channels", value=count, rule="must be at least 1")
    return tuple(f"{name}/{position}" for position in range(count))
