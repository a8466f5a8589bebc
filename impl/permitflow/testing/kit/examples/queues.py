"""Channels that many have written: ``asyncio.Queue``, and a semaphore with three mistakes that many have made."""

import asyncio
from collections import deque

from permitflow.protocol.messages import Kind
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.kit.adapter import ChannelAdapter, Feature, Received, Refused

__all__ = ["CountedQueue", "QueueChannel", "SemaphoreChannel"]


class QueueChannel(ChannelAdapter):
    """A queue with as many places as there are row permits; ``task_done`` says that a message was consumed."""

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        """Make a queue."""
        self.queue: asyncio.Queue[tuple[int, int]] = asyncio.Queue(parameters.row_permits)

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk; cancelled, WithdrawChunk."""
        await self.queue.put((serial, rows))

    def send_chunk_now(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk."""
        try:
            self.queue.put_nowait((serial, rows))
        except asyncio.QueueFull as full:
            raise Refused from full

    async def take(self) -> Received:
        """Take the oldest message."""
        return Received(Kind.CHUNK, *await self.queue.get())

    def consume(self) -> None:
        """Spec: Consume."""
        self.queue.task_done()


class CountedQueue(QueueChannel):
    """The same queue, with what it lacks declared: a bound on the number of messages that nobody has taken."""

    lacks = frozenset({Feature.WEIGHTS, Feature.BATCHING, Feature.OVERSIZE, Feature.ACKNOWLEDGEMENT})

    # Without an acknowledgement, to take a message is to consume it.
    async def take(self) -> Received:
        """Spec: Consume."""
        received = await super().take()
        self.queue.task_done()
        return received

    consume = ChannelAdapter.consume


class SemaphoreChannel(ChannelAdapter):
    """Takes a permit for each row, one after the other.

    It looks right, and with a quiet application it is.  But permits go back when a message is handed over, not when
    it was consumed; a send that is cancelled keeps the permits that it has got so far; and the permits of a message
    are taken one by one, so that two senders may each have half of what they need.
    """

    lacks = frozenset({Feature.BATCHING, Feature.OVERSIZE})

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        """All permits are here."""
        self.permits = asyncio.Semaphore(parameters.row_permits)
        self.messages: deque[tuple[int, int]] = deque()
        self.arrived = asyncio.Semaphore(0)

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk; cancelled, WithdrawChunk."""
        for _ in range(rows):
            await self.permits.acquire()
        self.messages.append((serial, rows))
        self.arrived.release()

    async def take(self) -> Received:
        """Take the oldest message."""
        await self.arrived.acquire()
        serial, rows = self.messages.popleft()
        for _ in range(rows):
            self.permits.release()
        return Received(Kind.CHUNK, serial, rows)

    def consume(self) -> None:
        """Spec: Consume."""
