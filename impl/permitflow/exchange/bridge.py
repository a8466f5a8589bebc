"""How a producer's stream is bridged into a channel, and a channel into its consumer's stream.

Two control loops are chained: a message is taken from one side, waits for the permits of the other, and counts as
consumed only when it has left there.  So a slow consumer holds the permits of the channel, the full channel those of
its producers, and nobody's backlog grows beyond the sum of the two windows.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import pyarrow as pa

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.errors import ChannelAbortedError, ChannelClosedError, EndOfStream, PeerGoneError, PermitflowError
from permitflow.protocol.messages import Kind
from permitflow.transports.coalescing import collected_rows
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender

__all__ = ["Bridge", "breaking_first", "carrying"]

# Chunks at once: enough to make the way of each of them short, few enough for others to have their turn.
_AT_ONCE = 4096


class Source(ReceiveEnd[pa.RecordBatch], Protocol):
    """An end from which chunks can be moved without having been taken."""

    async def until_takeable(self) -> None:
        """Wait until there is a message that may be taken now; raises as ``ReceiveEnd.receive_nowait``."""
        ...

    def chunks_at_hand(self, most: int, most_rows: int) -> tuple[Sequence[pa.RecordBatch], Sequence[int]]:
        """The oldest chunks and their rows, as ``Inbound.chunks_at_hand``; they stay where they are."""
        ...

    def pass_by(self, count: int) -> None:
        """Consume so many of the oldest messages, which ``chunks_at_hand`` has shown."""
        ...


class Target(SendEnd[pa.RecordBatch], Protocol):
    """An end into which chunks can be moved without being offered one by one."""

    @property
    def sendable_rows(self) -> int:
        """How many rows may leave now, about."""
        ...

    def send_at_once(self, chunks: Sequence[pa.RecordBatch], rows: Sequence[int]) -> int:
        """Send the first of these chunks, which have so many rows each, as many as may leave now; say how many."""
        ...


class Bridge:
    """Moves messages from one channel to the next, in order."""

    def __init__(
        self, source: Source, target: Target, until_room: Callable[[int], Awaitable[bool]] | None = None
    ) -> None:
        """Nothing moves before ``run``.

        Args:
            source: where messages come from.
            target: where they go.
            until_room: of a target into which nobody else sends: waits as long as a chunk lacks nothing but room.
        """
        self._source = source
        self._target = target
        self._until_room = until_room
        # Not a whole window at once: the two ends would take turns instead of working side by side.
        self._most_rows = collected_rows(source.parameters)
        self.taken = 0
        """Messages that were taken from the source."""
        self.passed_on = 0
        """Those of them that have left for the target."""

    async def run(self) -> ChannelAbortedError | None:
        """Move until the source ends; say whether its sender gave up.

        Raises:
            PermitflowError: one of the two is over otherwise.
        """
        # As a task it is woken alone, without all those that wait for it.
        return await asyncio.create_task(self._move_all())

    async def _move_all(self) -> ChannelAbortedError | None:
        source, target = self._source, self._target
        try:
            while True:
                await source.until_takeable()
                chunks, rows = source.chunks_at_hand(_AT_ONCE, min(target.sendable_rows, self._most_rows))
                if moved := target.send_at_once(chunks, rows):
                    self.taken += moved
                    source.pass_by(moved)
                    self.passed_on += moved
                elif not rows or self._until_room is None or not await self._until_room(rows[0]):
                    await self._move_one()
        except EndOfStream:
            return None
        except ChannelAbortedError as error:
            return error

    async def _move_one(self) -> None:
        """Move what is unusual, such as a barrier or a chunk that has to be split, or has to wait."""
        message = await self._source.take()
        self.taken += 1
        if message.kind is Kind.CHUNK:
            await self._target.send(message.payload)
        elif message.kind is Kind.BARRIER:
            await self._target.send_barrier(message.payload)
        else:
            self._target.send_watermark(message.payload)
        self._source.consume()
        self.passed_on += 1


@asynccontextmanager
async def carrying(
    end: RemoteReceiver | RemoteSender, stopping: asyncio.Event, *beside: Coroutine[object, object, None]
) -> AsyncIterator[None]:
    """Let an end carry frames beside the block, and wait for its last ones; the first error ends both.

    Args:
        end: of the stream.
        stopping: set when the exchange is to be stopped: an error as well.
        beside: what else is to be done while the stream lasts.
    """
    try:
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(watch) for watch in (_until_stopped(end, stopping), *beside)]
            run = group.create_task(end.run())
            try:
                yield
            except PermitflowError as error:
                if not end.break_off(error):
                    raise
            await run
            for watch in watches:
                watch.cancel()
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several.exceptions[0].__cause__


async def _until_stopped(end: RemoteReceiver | RemoteSender, stopping: asyncio.Event) -> None:
    await stopping.wait()
    error = PeerGoneError(who="the exchange", reason="it is being stopped")
    if not end.break_off(error):
        raise error


class _Failing(Protocol):
    def fail(self, reason: str) -> None: ...


@contextmanager
def breaking_first(stream: _Failing, end: RemoteReceiver | RemoteSender) -> Iterator[None]:
    """If the block fails, break the channel before the peer is told, who may take its time to hear it.

    Meanwhile nobody else can end the channel as if it were whole.  It is broken also if no words are found for why.
    """
    try:
        yield
    except BaseException as error:
        reason = type(error).__name__
        try:
            reason = _words(error, end)
        finally:
            stream.fail(reason)
        raise


def _words(error: BaseException, end: RemoteReceiver | RemoteSender) -> str:
    """Why a stream has failed, for the others on its channel."""
    if isinstance(error, asyncio.CancelledError):
        # gRPC cancels when the peer is lost; that may be the answer to an error that it was told.
        if end.failure is None or isinstance(end.failure, ChannelClosedError):
            return "its connection was closed or lost"
        error = end.failure
    if isinstance(error, PeerGoneError):
        return str(error.reason)
    return str(error) or type(error).__name__
