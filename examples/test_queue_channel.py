"""Is asyncio.Queue a channel with permits?  The adapter says how to use it; the kit asks."""

import asyncio

from permitflow import ChannelParameters, Kind, RecorderFactory
from permitflow_testing import ChannelAdapter, ChannelKit, ReceivedMessage


class QueueChannel(ChannelAdapter):
    """A queue with as many places as there are permits."""

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        """Make a queue."""
        self.queue: asyncio.Queue[tuple[int, int]] = asyncio.Queue(parameters.row_permits)

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Send."""
        await self.queue.put((serial, rows))

    async def take(self) -> ReceivedMessage:
        """Receive."""
        serial, rows = await self.queue.get()
        return ReceivedMessage(Kind.CHUNK, serial, rows)


class TestQueue(ChannelKit):
    """A test for every rule."""

    adapter = QueueChannel
    random_runs = 20
