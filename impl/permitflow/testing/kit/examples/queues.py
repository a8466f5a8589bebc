"""``asyncio.Queue`` as a channel."""

import asyncio

from permitflow.protocol.messages import Kind
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.kit.adapter import ChannelAdapter, Received, Refused
from permitflow.testing.kit.features import Feature

__all__ = ["CountedQueue", "QueueChannel"]


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
