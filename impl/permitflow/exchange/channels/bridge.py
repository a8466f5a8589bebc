"""The bridge from a producer's stream to a channel, and from a channel to its consumer's stream.

A bridge chains two control loops: it takes a message from the source, waits for the target's permits, and consumes the
message only after it has left for the target.  So a slow consumer holds the channel's permits, a full channel holds its
producers' permits, and no backlog grows beyond the sum of the two windows.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import pyarrow as pa

from permitflow.change import Change
from permitflow.channels.interface import BulkReceive, BulkSend
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    EndOfStream,
    PeerGoneError,
    PermitflowError,
    ResumeTimeoutError,
)
from permitflow.exchange.turns import Stint
from permitflow.flows.messages import Kind
from permitflow.wire.coalescing import collected_rows

# Chunks per step: enough to make each one cheap, few enough to let other tasks run.
_AT_ONCE = 4096
_WHO = "the exchange"


class Bridge:
    """Moves messages from one channel to the next, in order."""

    def __init__(self, source: BulkReceive[pa.RecordBatch], target: BulkSend[pa.RecordBatch]) -> None:
        """Nothing moves before ``run``."""
        self._source = source
        self._target = target
        # With a whole window at once, the two ends would take turns instead of working side by side.
        self._most_rows = collected_rows(source.parameters)
        self.taken = 0
        """Messages taken from the source."""
        self.passed_on = 0
        """Messages among them that have left for the target."""
        self._is_stopped = False
        self._let_go = Change()
        self._holds_message = False

    async def empty_handed(self) -> None:
        """Wait until every message that was taken is passed on; no other task runs before the caller."""
        await self._let_go.until(lambda: not self._holds_message)

    def stop(self) -> None:
        """Take nothing more: from now on, the source has another reader."""
        self._is_stopped = True

    async def run(self) -> ChannelAbortedError | None:
        """Move messages until the source ends; return the error if its sender gave up.

        Raises:
            PermitflowError: the source or the target failed.
        """
        # A wake-up then runs this task only, not the tasks that await it.
        return await asyncio.create_task(self._move_all())

    async def _move_all(self) -> ChannelAbortedError | None:
        source, target, stint = self._source, self._target, Stint()
        try:
            while True:
                await stint.pause()
                if await self._until_takeable():
                    stint.begin()
                chunks, rows, sums = source.chunks_at_hand(_AT_ONCE, min(target.sendable_rows, self._most_rows))
                if moved := target.send_at_once(chunks, rows, sums):
                    self.taken += moved
                    source.consume_oldest(moved)
                    self.passed_on += moved
                elif rows and await target.until_room(chunks, rows, self._rows_at_hand):
                    stint.begin()
                else:
                    await self._move_one()
        except EndOfStream:
            return None
        except ChannelAbortedError as error:
            return error

    async def _until_takeable(self) -> bool:
        has_waited = await self._source.until_takeable()
        if self._is_stopped:
            raise ChannelClosedError(end=f"bridge from channel {self._source.name!r}")
        return has_waited

    def _rows_at_hand(self) -> Sequence[int]:
        """The rows of the chunks that can be moved next."""
        return self._source.rows_at_hand(_AT_ONCE, self._most_rows)

    async def _move_one(self) -> None:
        """Move one message that needs more: a barrier, a watermark, or a chunk that must be split or must wait."""
        await self._until_takeable()
        message = self._source.take_nowait()
        self.taken += 1
        self._holds_message = True
        if message.kind is Kind.CHUNK:
            await self._target.send(message.payload)
        elif message.kind is Kind.BARRIER:
            await self._target.send_barrier(message.payload)
        else:
            self._target.send_watermark(message.payload)
        self._source.consume()
        self.passed_on += 1
        self._holds_message = False
        self._let_go.note()


@asynccontextmanager
async def carrying(
    end: RemoteReceiver | RemoteSender, stopping: asyncio.Event, *beside: Coroutine[object, object, None]
) -> AsyncIterator[None]:
    """Run an end while the block runs, then wait for its last frames; the first error ends both.

    Args:
        end: the exchange's end of the stream.
        stopping: set when the exchange stops; this is an error, too.
        beside: further coroutines to run while the stream lasts.
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
    error = PeerGoneError(who=_WHO, reason="it is being stopped")
    if not end.break_off(error):
        raise error


class _Failing(Protocol):
    def fail(self, reason: str) -> None: ...


@contextmanager
def breaking_first(stream: _Failing, end: RemoteReceiver | RemoteSender) -> Iterator[None]:
    """If the block fails, break the channel before the error is sent to the peer, which may read it late.

    So no other producer can end the channel meanwhile as if it were complete.  It breaks even if ``_words`` fails.
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
    """The reason why a stream failed, for the other peers of its channel."""
    if isinstance(error, asyncio.CancelledError):
        # gRPC cancels if the peer is lost; the peer may have left because of an error that it received.
        if end.failure is None or isinstance(end.failure, ChannelClosedError):
            return "its connection was closed or lost"
        error = end.failure
    if isinstance(error, ResumeTimeoutError):
        return f"{error.reason}; it did not come back within {error.seconds:g} s"
    if isinstance(error, PeerGoneError):  # "it" is the peer, or this exchange
        reason = str(error.reason)
        return reason if error.who != _WHO else reason.replace("it ", f"{_WHO} ", 1)
    return str(error) or type(error).__name__
