"""The receiving end of a remote stream, for asyncio."""

from typing import Self

import pyarrow as pa

from permitflow.channels.counts import require_count
from permitflow.errors import EndOfStream
from permitflow.protocol.messages import Message
from permitflow.protocol.trains import hold, pass_by, receive_many, take_many
from permitflow.transports.joined import JoinedChunks, oldest_joined, whole_batch
from permitflow.transports.remote_downstream import RemoteDownstream

__all__ = ["RemoteReceiver"]

_BATCH = pa.RecordBatch


class RemoteReceiver(RemoteDownstream):
    """The end from which record batches come; see ``ReceiveEnd`` for what each method promises.

    Joined reads (``receive_joined``, ``take_joined``) are this end's own: only chunks that have travelled lie joined.
    """

    # Receiving.

    def receive_nowait(self) -> Message[pa.RecordBatch]:
        """Receive the oldest message; its permits return."""
        if self._held:
            raise self._none_held()
        self._require_takeable()
        return self._receive_now()

    async def receive(self) -> Message[pa.RecordBatch]:
        """Receive the oldest message; wait until there is one."""
        if self._held:
            raise self._none_held()
        if not self._here or not self._is_at_hand:
            await self._until_takeable()
        return self._receive_now()

    async def receive_many(self, max_messages: int | None = None) -> list[Message[pa.RecordBatch]]:
        """Receive what is here, at least one message and at most ``max_messages``."""
        if self._held:
            raise self._none_held()
        most = await self._until_some(max_messages)
        if most == 1:
            return [self._receive_now()]
        messages = receive_many(self._core, most)
        if self._core.has_returns:
            self._after_consuming()
        return messages

    async def receive_joined(self, max_rows: int | None = None) -> JoinedChunks | Message[pa.RecordBatch]:
        """Receive the oldest chunks as far as they came as rows of one batch, without cutting them apart.

        For consumers that read many chunks at once anyway; it is what so many calls of ``receive`` are, for far less.
        Waits only for the first message.  Of chunks that came one by one, small ones that are here are copied into one
        batch.  A barrier or watermark is received alone, in its place.  Cancelled, it has received nothing.

        Args:
            max_rows: of all these chunks together; a chunk that has more comes alone.

        Raises:
            InvalidParametersError: ``max_rows`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
            LocalProtocolError: a message was taken and has not been consumed, here or while this task waited.

        Spec: Consume.
        """
        if max_rows is not None:
            require_count(max_rows, name="max_rows")
        if self._held:
            raise self._none_held()
        if not self._here or not self._is_at_hand:
            await self._until_takeable()
            if self._held:  # another task has taken something since; single reads are refused by the books
                raise self._none_held()
        here = self._here
        if len(here) == 1 and type(here[0]) is _BATCH:
            message = self._receive_now()
            return JoinedChunks(message.payload, (message.rows,))
        joined = whole_batch(here, self._codec, max_rows)
        if joined is None and (joined := self._oldest_joined(max_rows)) is None:
            return self._receive_now()
        pass_by(self._core, len(joined.rows))
        if self._core.has_returns:
            self._after_consuming()
        return joined

    def _oldest_joined(self, max_rows: int | None) -> JoinedChunks | None:
        """The oldest chunks that were not taken, for a caller who takes them now."""
        oldest = oldest_joined(self._core, self._codec, max_rows)
        if oldest is None:
            return None
        oldest.note_handed_over()
        return oldest.joined

    def _receive_now(self) -> Message[pa.RecordBatch]:
        if self._newest_folded:
            self._unfold()
        core = self._core
        message = core.try_receive()
        assert message is not None, "the caller has seen that a message is here"
        if core.has_returns:
            # A residue can wait until those who have waited for this message have it.
            if self._is_telling and not core.is_due:
                self._has_rest = True
            else:
                self._after_consuming()
        return message

    def _see_to_rest(self) -> None:
        if self._core.has_returns and not self._is_closed:
            self._after_consuming()

    def take_nowait(self) -> Message[pa.RecordBatch]:
        """Hand the oldest message over that was not taken yet; it keeps its permits until ``consume``."""
        self._require_takeable()
        return self._take_now()

    async def take(self) -> Message[pa.RecordBatch]:
        """Hand the oldest message over that was not taken yet; wait until there is one."""
        await self._until_takeable()
        return self._take_now()

    def _take_now(self) -> Message[pa.RecordBatch]:
        if self._newest_folded:
            self._unfold()
        message = self._core.take()
        self._held += 1
        return message

    async def take_many(self, max_messages: int | None = None) -> list[Message[pa.RecordBatch]]:
        """Hand over what is here and was not taken yet, at least one message."""
        messages = take_many(self._core, await self._until_some(max_messages))
        self._held += len(messages)
        return messages

    async def take_joined(self, max_rows: int | None = None) -> JoinedChunks | Message[pa.RecordBatch]:
        """Hand over what ``receive_joined`` would; each chunk keeps its permits until ``consume``.

        Raises:
            InvalidParametersError: ``max_rows`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        if max_rows is not None:
            require_count(max_rows, name="max_rows")
        if not self._here or not self._is_at_hand:
            await self._until_takeable()
        joined = self._oldest_joined(max_rows)
        if joined is None:
            return self._take_now()
        hold(self._core, len(joined.rows))
        self._held += len(joined.rows)
        return joined

    def consume(self, messages: int = 1) -> None:
        """Say that the application is done with the oldest messages it took: their permits return."""
        require_count(messages, name="messages")
        if self._is_cut_off:
            ending = self._ending()
            assert ending is not None, "an aborted or closed stream has ended"
            raise ending
        self._session.consume(messages)
        self._held -= messages
        if self._core.has_returns:
            self._after_consuming()

    def __aiter__(self) -> Self:
        """Receive until the end of the stream."""
        return self

    async def __anext__(self) -> Message[pa.RecordBatch]:
        """The next message.

        Raises:
            StopAsyncIteration: the stream has ended.
            ChannelAbortedError, ChannelClosedError, PeerGoneError, LocalProtocolError: as for ``receive_nowait``.
        """
        if self._held:
            raise self._none_held()
        if not self._here or not self._is_at_hand:
            try:
                await self._until_takeable()
            except EndOfStream:
                raise StopAsyncIteration from None
        return self._receive_now()  # as ``receive``, without its call
