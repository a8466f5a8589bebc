"""Feeds a consumer's stream from a channel of this process.

Two control loops are chained, as by ``Forwarding``, at the same price in permits and with the same books.  But nobody
has to wake up where permits come back and chunks are here: they move within the callback that brings the permits; and
where permits are here and a chunk comes, it moves within the call that brings the chunk.  What is rarer, such as
barriers and chunks that have to be split, goes the general way.
"""

import asyncio

import pyarrow as pa

from permitflow.channels.local import LocalReceiver
from permitflow.errors import ChannelAbortedError
from permitflow.exchange.bridge import Forwarding
from permitflow.transports.remote_sender import RemoteSender

__all__ = ["Feeding"]

# Chunks at once: enough to make the way of each of them short, few enough for others to have their turn.
_AT_ONCE = 4096


class Feeding(Forwarding):
    """Moves messages from a channel into a remote stream, in order; see ``Forwarding``."""

    def __init__(self, source: LocalReceiver[pa.RecordBatch], target: RemoteSender) -> None:
        """Nothing moves before ``run``."""
        super().__init__(source, target)
        self._channel_end = source
        self._stream_end = target
        self._has_moved: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._was_prompt = False

    async def run(self) -> ChannelAbortedError | None:
        """As ``Forwarding.run``."""
        self._channel_end.at_arrival(self._move_promptly)
        try:
            return await super().run()
        finally:
            self._channel_end.at_arrival(None)

    async def _move_some(self) -> None:
        await self._channel_end.until_takeable()
        if self._move():
            await super()._move_some()
            return
        if self._stream_end.lacks_permits:
            await self._until_moved()

    async def _until_moved(self) -> None:
        self._has_moved = self._loop.create_future()
        self._stream_end.on_change = self._go_on
        try:
            await self._has_moved
        finally:
            self._stream_end.on_change = None
            self._has_moved = None

    def _move_promptly(self) -> None:
        """A chunk has come where nobody was busy: it need not wait for a turn of the loop.

        Those that follow it in this turn do, and so become one message.
        """
        if self._was_prompt:
            return
        self._was_prompt = True
        try:
            chunk = self._channel_end.lone_chunk()
            if chunk is not None and self._stream_end.send_alone(chunk):
                self.taken += 1
                self._channel_end.pass_by(1)
                self.passed_on += 1
            else:
                self._move()
        finally:
            self._loop.call_soon(self._be_prompt_again)

    def _be_prompt_again(self) -> None:
        self._was_prompt = False

    def _go_on(self) -> None:
        """Permits have come, or the stream is over; called where that shows."""
        self._move()
        if not self._stream_end.lacks_permits and self._has_moved is not None and not self._has_moved.done():
            self._has_moved.set_result(None)

    def _move(self) -> bool:
        """Move chunks as long as that goes on without waiting; is something left that must go the general way?"""
        source, target = self._channel_end, self._stream_end
        # Also where nothing is at hand: a channel that was aborted has lost what permits were lacked for.
        while moved := target.send_at_once(source.chunks_at_hand(_AT_ONCE, target.sendable_rows)):
            self.taken += moved
            source.pass_by(moved)
            self.passed_on += moved
            if target.lacks_permits or not source.has_untaken:
                return False
        return source.has_untaken and not target.lacks_permits
