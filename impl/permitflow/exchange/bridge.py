"""How a producer's stream is bridged into a channel, and a channel into its consumer's stream.

Two control loops are chained: a message is taken from one side, waits for the permits of the other, and counts as
consumed only when it has left there.  So a slow consumer holds the permits of the channel, the full channel those of
its producers, and nobody's backlog grows beyond the sum of the two windows.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import pyarrow as pa

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.errors import ChannelAbortedError, ChannelClosedError, EndOfStream, PeerGoneError, PermitflowError
from permitflow.protocol.messages import Kind, Message
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.trains import collected_rows

__all__ = ["AT_ONCE", "Forwarding", "breaking_first", "carrying"]

AT_ONCE = 512
"""Messages: enough to make the way of each of them short, few enough for others to have their turn."""


class Forwarding:
    """Moves messages from one channel to the next, in order."""

    def __init__(self, source: ReceiveEnd[pa.RecordBatch], target: SendEnd[pa.RecordBatch]) -> None:
        """Nothing moves before ``run``."""
        self._source = source
        self._target = target
        self.taken = 0
        """Messages that were taken from the source."""
        self.passed_on = 0
        """Those of them that have left for the target."""

    async def run(self) -> ChannelAbortedError | None:
        """Move until the source ends; say whether its sender gave up.

        Raises:
            PermitflowError: one of the two is over otherwise.
        """
        try:
            while True:
                await self._move_some()
        except EndOfStream:
            return None
        except ChannelAbortedError as error:
            return error

    async def _move_some(self) -> None:
        messages = await self._source.take_many(AT_ONCE)
        self.taken += len(messages)
        for run in self._runs(messages):
            await self._pass_on(run)

    def _runs(self, messages: Sequence[Message[pa.RecordBatch]]) -> Iterator[Sequence[Message[pa.RecordBatch]]]:
        """Chunks that follow each other, as many as are worth a train; all others singly."""
        most_rows = collected_rows(self._source.parameters)
        start = rows = 0
        for position, message in enumerate(messages):
            rows += message.rows
            if position > start and (message.kind is not Kind.CHUNK or rows > most_rows):
                yield messages[start:position]
                start, rows = position, message.rows
            if message.kind is not Kind.CHUNK:
                yield messages[position : position + 1]
                start, rows = position + 1, 0
        if start < len(messages):
            yield messages[start:]

    async def _pass_on(self, run: Sequence[Message[pa.RecordBatch]]) -> None:
        first = run[0]
        if first.kind is Kind.CHUNK:
            await self._target.send_many(deque([message.payload for message in run]))
        elif first.kind is Kind.BARRIER:
            await self._target.send_barrier(first.payload)
        else:
            self._target.send_watermark(first.payload)
        self._source.consume(len(run))
        self.passed_on += len(run)


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
