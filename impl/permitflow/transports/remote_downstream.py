"""What the receiving end of a remote stream does beneath its methods: frames, who may take a message, the end."""

import asyncio
from collections.abc import Iterable, Sequence

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
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.carrier import Buffer, Carrier, Received
from permitflow.transports.codec import decode_upstream, encode_downstream
from permitflow.transports.joined import perhaps_folded, unfold
from permitflow.transports.remote_end import RemoteEnd
from permitflow.transports.same_host import Offer
from permitflow.transports.trains import owed_rows_at_once, with_batches

__all__ = ["RemoteDownstream"]


class RemoteDownstream(RemoteEnd[DownstreamSession[object]]):
    """Carries what comes, and lets those take it who wait; ``RemoteReceiver`` is what applications see."""

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
        self._owed_rows_at_once = 0
        # Of the messages that are here, so many of the newest may lie joined in one batch.
        self._newest_folded = 0

    def _opened(self) -> None:
        self._core = self._session.receiver
        self._owed_rows_at_once = owed_rows_at_once(self.parameters)

    # Frames.

    def _take_in(self, message: Received) -> None:
        for frame in decode_upstream(message):
            self._newest_folded = perhaps_folded(self._newest_folded, frame)
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

    # Who may take a message.

    def _require_none_held(self) -> None:
        if self._held:
            raise LocalProtocolError(f"{self._held} messages were taken and not consumed: consume them first")

    async def _until_some(self, max_messages: int | None) -> int:
        """Wait for the first message that may be taken; how many may be, each by itself, then."""
        if max_messages is not None:
            require_count(max_messages, name="max_messages")
        if not self._is_at_hand:
            await self._until_takeable()
        if self._newest_folded:
            self._unfold()
        here = self._core.untaken
        return here if max_messages is None else min(here, max_messages)

    def _unfold(self) -> None:
        unfold(self._core, self._newest_folded)
        self._newest_folded = 0

    def _after_consuming(self) -> None:
        if self._session.owes and not self._can_owe:
            self._writing.now()
        elif self._session.owes or self._core.is_empty:
            self._writing.soon()

    @property
    def _can_owe(self) -> bool:
        """May permits wait for more of them?  Only until the loop's next turn: before it, this task may come again."""
        return self._core.has_untaken and 0 < self._session.owed_rows < self._owed_rows_at_once

    @property
    def _is_at_hand(self) -> bool:
        """May a message be taken at once, with nobody before this caller and no permits that the writer waits for?"""
        is_free = not self._is_cut_off and not self._turn.locked()
        return is_free and self._core.has_untaken and (not self._session.owes or self._can_owe)

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
