"""The receiving end of a remote stream, for asyncio."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Self

import pyarrow as pa

from permitflow.channels.counts import require_count
from permitflow.channels.statistics import ChannelStatistics
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    EndOfStream,
    LocalProtocolError,
    PermitflowError,
    WouldBlock,
)
from permitflow.protocol.compression import Compression
from permitflow.protocol.frames import Abort, Agreement, End, Failure
from permitflow.protocol.messages import Message
from permitflow.protocol.session import DownstreamSession
from permitflow.protocol.trains import receive_many, take_many
from permitflow.transports.carrier import Buffer, Carrier, Received
from permitflow.transports.codec import decode_upstream, encode_downstream
from permitflow.transports.garbage import collecting_later
from permitflow.transports.remote_end import RemoteEnd
from permitflow.transports.same_host import Offer
from permitflow.transports.trains import with_batches

__all__ = ["RemoteReceiver"]


class RemoteReceiver(RemoteEnd[DownstreamSession[object]]):
    """The end from which record batches come; see ``ReceiveEnd`` for what each method promises."""

    END = "receiver"
    WRITES = False

    def __init__(
        self,
        session: DownstreamSession[object],
        carrier: Carrier,
        *,
        schema: pa.Schema | None = None,
        offer: Offer | None = None,
        compression: Compression = Compression.AUTO,
    ) -> None:
        """Use ``get``, or the exchange."""
        super().__init__(session, carrier, schema=schema, offer=offer, compression=compression)
        # Held while a task waits for a message: those behind it wait in the order in which they came.
        self._turn = asyncio.Lock()
        self._held = 0

    def _opened(self) -> None:
        self._core = self._session.receiver

    # Frames.

    def _take_in(self, message: Received) -> None:
        for frame in decode_upstream(message):
            self._session.receive(with_batches(frame, self._batches))
            if isinstance(frame, Agreement):
                self._note_agreement(frame)
            elif isinstance(frame, Failure):
                self._hear(frame)
        if self._session.end is not None:
            self._stop_clock()

    def _trains(self) -> Iterable[Sequence[Buffer]]:
        # Whether the consumer is idle shows when the writer has its turn: not after each chunk of a train.
        if self._batches is not None:
            self._session.flush()
        return encode_downstream(self._session.take_frames())

    def _has_written_all(self) -> bool:
        return self._session.is_finished

    # Receiving.

    def receive_nowait(self) -> Message[pa.RecordBatch]:
        """Receive the oldest message; its permits return."""
        self._require_none_held()
        self._require_takeable()
        return self._receive_now()

    async def receive(self) -> Message[pa.RecordBatch]:
        """Receive the oldest message; wait until there is one."""
        self._require_none_held()
        if not self._is_at_hand:
            await self._until_takeable()
        return self._receive_now()

    async def receive_many(self, max_messages: int | None = None) -> list[Message[pa.RecordBatch]]:
        """Receive what is here, at least one message and at most ``max_messages``."""
        self._require_none_held()
        most = await self._until_some(max_messages)
        if most == 1:
            return [self._receive_now()]
        with collecting_later(most):
            messages = receive_many(self._core, most)
        self._after_receiving()
        return messages

    async def _until_some(self, max_messages: int | None) -> int:
        """Wait for the first message that may be taken; how many may be, then."""
        if max_messages is not None:
            require_count(max_messages, name="max_messages")
        if not self._is_at_hand:
            await self._until_takeable()
        here = self._core.untaken
        return here if max_messages is None else min(here, max_messages)

    def _receive_now(self) -> Message[pa.RecordBatch]:
        message = self._core.try_receive()
        assert message is not None, "the caller has seen that a message is here"
        if self._core.has_returns:
            self._after_receiving()
        return message

    def _after_receiving(self) -> None:
        self._session.collect()
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
        message = self._session.take()
        self._held += 1
        return message

    def _require_none_held(self) -> None:
        if self._held:
            raise LocalProtocolError(f"{self._held} messages were taken and not consumed: consume them first")

    async def take_many(self, max_messages: int | None = None) -> list[Message[pa.RecordBatch]]:
        """Hand over what is here and was not taken yet, at least one message."""
        messages = take_many(self._core, await self._until_some(max_messages))
        self._held += len(messages)
        return messages

    def consume(self, messages: int = 1) -> None:
        """Say that the application is done with the oldest messages it took: their permits return."""
        require_count(messages, name="messages")
        if self._is_cut_off:
            ending = self._ending()
            assert ending is not None, "an aborted or closed stream has ended"
            raise ending
        self._session.consume(messages)
        self._held -= messages
        self._after_consuming()

    def _after_consuming(self) -> None:
        if self._session.owes:
            self._writing.now()
        elif self._core.is_empty:
            self._writing.soon()

    @property
    def _is_at_hand(self) -> bool:
        """May a message be taken at once, with nobody before this caller and no permits for the writer?"""
        is_free = not self._is_cut_off and not self._turn.locked()
        return is_free and self._core.has_untaken and not self._session.owes

    async def _until_takeable(self) -> None:
        # A consumer that never waits would keep the writer from returning permits until the inbox is empty.
        if self._session.owes and self._core.has_untaken:
            await asyncio.sleep(0)
        await self._turn.acquire()
        try:
            while not self._core.has_untaken or self._is_cut_off:
                if (ending := self._ending()) is not None:
                    raise ending
                await self._changes.next()
        finally:
            self._turn.release()
        # The caller takes the message before anybody else runs.

    def _require_takeable(self) -> None:
        if self._core.has_untaken and not self._is_cut_off and not self._turn.locked():
            return
        if (ending := self._ending()) is not None:
            raise ending
        raise WouldBlock("no message is here, or those that are belong to tasks that have waited for them")

    @property
    def _is_cut_off(self) -> bool:
        """Must nothing be taken though it is here?"""
        return self._is_closed or isinstance(self._session.end, Abort)

    def _ending(self) -> PermitflowError | None:
        """Why no message will ever be here to take; None while one is here or may come."""
        if self._is_closed:
            return ChannelClosedError(end=self.END)
        if isinstance(self._session.end, Abort):
            return ChannelAbortedError(channel=self.name, reason=self._session.end.reason)
        if self._core.has_untaken:
            return None
        if self._session.end is not None:
            return EndOfStream()
        return self._failure_again()

    def __aiter__(self) -> Self:
        """Receive until the end of the stream."""
        return self

    async def __anext__(self) -> Message[pa.RecordBatch]:
        """The next message.

        Raises:
            StopAsyncIteration: the stream has ended.
        """
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    # The end.

    @property
    def ended_with(self) -> End | Abort | None:
        """What the sender has said about the end of the stream, if it has."""
        return self._session.end

    async def aborted(self) -> Abort:
        """Wait until the sender gives the stream up, whoever may be holding messages of it."""
        while not isinstance(self._session.end, Abort):
            await self._changes.next()
        return self._session.end

    @property
    def is_finished(self) -> bool:
        """Has the stream ended, and was everything consumed?"""
        return self._session.end is not None and (isinstance(self._session.end, Abort) or self._core.is_empty)

    def close(self) -> None:
        """Release this end: what was not consumed is dropped, and the sender learns that its receiver is gone."""
        super().close()
        if self._batches is not None:
            self._core.drop()
            self._held = 0

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        return ChannelStatistics(
            name=self.name,
            path=self._carrier.meeting.path,
            compression=self._session.compression.words,
            parameters=self.parameters,
            consumed_chunks=self._core.consumed_chunks,
            consumed_rows=self._core.consumed_rows,
            peak_inbox_rows=self._core.peak_inbox_rows,
            inbox_rows=self._core.inbox_rows,
            unreturned_permits=self._core.unreturned,
            open_seconds=self._open_seconds,
        )
