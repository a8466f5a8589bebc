"""Common hand-made channels: ``asyncio.Queue``, and a semaphore with three frequent mistakes."""

import asyncio
from collections import deque

from permitflow.flows.messages import Kind
from permitflow.flows.permits.parameters import ChannelParameters
from permitflow.flows.recording import RecorderFactory
from permitflow_testing.adapter import ChannelAdapter, Feature, ReceivedMessage, Refused


class QueueChannel(ChannelAdapter):
    """A queue with one place per row permit; ``task_done`` reports that a message was consumed."""

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

    async def take(self) -> ReceivedMessage:
        """Take the oldest message."""
        return ReceivedMessage(Kind.CHUNK, *await self.queue.get())

    def consume(self) -> None:
        """Spec: Consume."""
        self.queue.task_done()


class CountedQueue(QueueChannel):
    """The same queue, with its missing features declared: it bounds only the number of messages not yet taken."""

    lacks = frozenset({Feature.WEIGHTS, Feature.BATCHING, Feature.OVERSIZE, Feature.ACKNOWLEDGEMENT})

    # Without an acknowledgement, to take a message is to consume it.
    async def take(self) -> ReceivedMessage:
        """Spec: Consume."""
        received = await super().take()
        self.queue.task_done()
        return received

    consume = ChannelAdapter.consume


class SemaphoreChannel(ChannelAdapter):
    """Takes a permit for each row, one after the other.

    It works as long as sends neither overlap nor are cancelled.  But permits return when a message is handed over, not
    when it was consumed; a cancelled send keeps the permits that it has taken so far; and the permits of a message are
    taken one by one, so two senders may each hold half of the permits that they need.
    """

    lacks = frozenset({Feature.BATCHING, Feature.OVERSIZE})

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        """Begin with all permits at the sender."""
        self.permits = asyncio.Semaphore(parameters.row_permits)
        self.messages: deque[tuple[int, int]] = deque()
        self.arrived = asyncio.Semaphore(0)

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk; cancelled, WithdrawChunk."""
        for _ in range(rows):
            await self.permits.acquire()
        self.messages.append((serial, rows))
        self.arrived.release()

    async def take(self) -> ReceivedMessage:
        """Take the oldest message."""
        await self.arrived.acquire()
        serial, rows = self.messages.popleft()
        for _ in range(rows):
            self.permits.release()
        return ReceivedMessage(Kind.CHUNK, serial, rows)

    def consume(self) -> None:
        """Spec: Consume."""
