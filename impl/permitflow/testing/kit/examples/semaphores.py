"""A channel that many have written, with a semaphore, and three mistakes that many have made."""

import asyncio
from collections import deque

from permitflow.protocol.messages import Kind
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.kit.adapter import ChannelAdapter, Received
from permitflow.testing.kit.features import Feature

__all__ = ["SemaphoreChannel"]


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
