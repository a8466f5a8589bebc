"""What an application does with the end of a channel: all ways to send and to receive, patient or not.

A row is a number, counted on; a barrier is the negative of its place, minus 1.  So each message is unique, and a list
of numbers tells all that was sent or received.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from permitflow import Kind, Message, ReceiveEnd, SendEnd
from permitflow.client import RemoteReceiver
from permitflow.errors import EndOfStream, PermitflowError, WouldBlock
from permitflow.wire.joined import JoinedChunks

SCHEMA = pa.schema([("n", pa.int64())])
BARRIER, WATERMARK = 0, -1
"""Instead of the number of a chunk's rows."""


class Sending(StrEnum):
    """How messages are sent."""

    ONE_BY_ONE = "one by one"
    TOGETHER = "together"
    """By tasks of their own, which wait in line."""
    MANY = "many"
    """Chunks by ``send_many``."""
    IMPATIENT = "impatient"
    """Gives up after a while, and sends the same again."""
    AT_ONCE = "at once"
    """By ``send_nowait``; waits only if that is refused."""


class Receiving(StrEnum):
    """How messages are received."""

    ONE_BY_ONE = "one by one"
    JOINED = "joined"
    MANY = "many"
    TAKE = "take"
    """Holds each for a while before it consumes it."""
    IMPATIENT = "impatient"
    """Gives up after a while, and asks again."""
    LEAVES = "leaves"
    """Cancels the stream halfway."""


@dataclass
class Log:
    """What an application has sent or received."""

    messages: list[int] = field(default_factory=list)
    """Rows and barriers in order; of a sender: also those for which it waits."""
    watermarks: list[int] = field(default_factory=list)


class Sender:
    """Sends chunks, barriers and watermarks, and keeps a log."""

    def __init__(self, end: SendEnd[pa.RecordBatch], log: Log, first: int, pause_seconds: float) -> None:
        """With ``first`` as the number of its first row and place."""
        self._end, self._log, self._pause_seconds = end, log, pause_seconds
        self._row = self._place = first

    async def send_all(self, sizes: Sequence[int], how: Sending) -> None:
        """Send chunks of so many rows, or ``BARRIER``, ``WATERMARK``."""
        match how:
            case Sending.TOGETHER:
                try:
                    async with asyncio.TaskGroup() as group:
                        for rows in sizes:
                            group.create_task(self._send(rows))
                            await self._rest()
                except* PermitflowError as several:
                    raise several.exceptions[0] from None
            case Sending.MANY:
                if any(rows > 0 for rows in sizes):
                    await self._end.send_many(deque(self._chunk(rows) for rows in sizes if rows > 0))
            case Sending.IMPATIENT:
                for rows in sizes:
                    await self._send_impatiently(rows)
                    await self._rest()
            case Sending.AT_ONCE:
                for rows in sizes:
                    await self._send_at_once(rows)
                    await self._rest()
            case Sending.ONE_BY_ONE:
                for rows in sizes:
                    await self._rest()
                    await self._send(rows)

    async def _rest(self) -> None:
        if self._pause_seconds:
            await asyncio.sleep(self._pause_seconds)

    def _chunk(self, rows: int) -> pa.RecordBatch:
        numbers = range(self._row, self._row + rows)
        self._row += rows
        self._log.messages += numbers
        return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)

    def _marker(self) -> int:
        self._place += 1
        return self._place

    async def _send(self, rows: int) -> None:
        if rows == WATERMARK:
            self._log.watermarks.append(self._marker())
            self._end.send_watermark(self._place)
        elif rows == BARRIER:
            place = self._marker()
            self._log.messages.append(-place - 1)
            await self._end.send_barrier(place)
        else:
            await self._end.send(self._chunk(rows))

    async def _send_impatiently(self, rows: int) -> None:
        """A call that was cancelled has sent nothing, if it is no chunk whose first slice may have left."""
        seconds = 1e-3
        while True:
            before = (len(self._log.messages), self._row, self._place)
            try:
                async with asyncio.timeout(seconds if rows <= 1 else None):
                    await self._send(rows)
            except PermitflowError:  # some of them are TimeoutErrors
                raise
            except TimeoutError:
                del self._log.messages[before[0] :]
                _, self._row, self._place = before
                seconds *= 8
            else:
                return

    async def _send_at_once(self, rows: int) -> None:
        if rows == WATERMARK:
            await self._send(rows)
            return
        before = (len(self._log.messages), self._row, self._place)
        try:
            if rows == BARRIER:
                place = self._marker()
                self._log.messages.append(-place - 1)
                self._end.send_barrier_nowait(place)
            else:
                self._end.send_nowait(self._chunk(rows))
        except WouldBlock:
            del self._log.messages[before[0] :]
            _, self._row, self._place = before
            await self._send(rows)


async def receive_all(end: RemoteReceiver, log: Log, how: Receiving, pause_seconds: float) -> None:
    """Receive until the stream's end, or leave halfway."""
    try:
        while not (how is Receiving.LEAVES and len(log.messages) >= _ENOUGH):
            await _receive(end, log, how, pause_seconds)
            if pause_seconds:
                await asyncio.sleep(pause_seconds)
        await end.cancel()
    except EndOfStream:
        pass


_ENOUGH = 3


async def _receive(end: RemoteReceiver, log: Log, how: Receiving, pause_seconds: float) -> None:
    match how:
        case Receiving.JOINED:
            _note(log, await end.receive_joined())
        case Receiving.MANY:
            for message in await end.receive_many():
                _note(log, message)
        case Receiving.TAKE:
            message = await end.take()
            await asyncio.sleep(pause_seconds)
            end.consume()
            _note(log, message)
        case Receiving.IMPATIENT:
            await _receive_impatiently(end, log)
        case _:
            _note(log, await end.receive())


async def _receive_impatiently(end: ReceiveEnd[pa.RecordBatch], log: Log) -> None:
    seconds = 1e-3
    while True:
        try:
            async with asyncio.timeout(seconds):
                message = await end.receive()
        except PermitflowError:
            raise
        except TimeoutError:
            seconds *= 8
        else:
            _note(log, message)
            return


def _note(log: Log, message: Message[pa.RecordBatch] | JoinedChunks) -> None:
    if isinstance(message, JoinedChunks):
        log.messages += message.batch.column(0).to_pylist()
    elif message.kind is Kind.CHUNK:
        log.messages += message.payload.column(0).to_pylist()
    elif message.kind is Kind.BARRIER:
        log.messages.append(-message.payload - 1)
    else:
        log.watermarks.append(message.payload)
