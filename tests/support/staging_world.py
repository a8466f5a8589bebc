"""A served exchange into whose channels a query writes staged rows, for tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pyarrow as pa

from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.statistics import StagingStatistics
from permitflow.protocol.control import StagedPart
from permitflow.protocol.frames import Staging
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports.grpc_aio import control, put
from permitflow.transports.remote_sender import RemoteSender

STAGING_ROWS = 16
CHANNELS = ("a", "b")

_WINDOW = ChannelParameters(row_permits=8, permit_batch=2)
_SCHEMA = pa.schema([("n", pa.int64())])


class World:
    """A served exchange with two channels, and a query that writes into them."""

    def __init__(self, exchange: Exchange, address: str) -> None:
        """Both are looked at, and spoken to, by tests."""
        self.exchange = exchange
        self.address = address

    def attempt(
        self, partition: int = 0, attempt: str = "x", *, batch: int = 0, channel: str = "a"
    ) -> AbstractAsyncContextManager[RemoteSender]:
        """An attempt at a partition of a batch of the query."""
        return put(self.address, channel, _SCHEMA, staging=Staging("q", batch, partition, attempt))

    async def stage(
        self, numbers: list[int], partition: int = 0, attempt: str = "x", *, batch: int = 0, channel: str = "a"
    ) -> StagedPart:
        """An attempt that writes these numbers and ends."""
        async with self.attempt(partition, attempt, batch=batch, channel=channel) as sender:
            await sender.send(chunk(numbers))
            await sender.end()
        return StagedPart(channel, partition, attempt, len(numbers))

    async def fail(self, partition: int, attempt: str, *, batch: int = 0, channel: str = "a") -> None:
        """An attempt that fails halfway."""
        with contextlib.suppress(RuntimeError):
            async with self.attempt(partition, attempt, batch=batch, channel=channel) as sender:
                await sender.send(chunk([-1, -2]))
                raise RuntimeError("the disk is on fire")

    async def publish(self, *parts: StagedPart, batch: int = 0) -> bool:
        """Publish a batch; had it been published before?"""
        async with control(self.address) as orders:
            return (await orders.publish("q", batch, parts)).was_published

    async def read(self, rows: int, channel: str = "a", *, acknowledges: bool = True) -> list[int]:
        """The next rows of a channel."""
        log, numbers = self.exchange.replay_channel(channel), list[int]()
        start = log.position().acknowledged_row
        while len(numbers) < rows:
            async for batch in log.read(from_row=start + len(numbers)):
                numbers += batch.column(0).to_pylist()
                if acknowledges:
                    await log.acknowledge(start + len(numbers))
                if len(numbers) >= rows:
                    break
        return numbers

    def staging(self, channel: str = "a") -> StagingStatistics:
        """What is staged for a channel."""
        found = next(each for each in self.exchange.statistics() if each.name == channel).staging
        assert found is not None
        return found

    async def until(self, holds: Callable[[StagingStatistics], bool], channel: str = "a") -> StagingStatistics:
        """What is staged, once it is so."""
        while not holds(found := self.staging(channel)):  # noqa: ASYNC110 - they tell nobody when they change
            await asyncio.sleep(0.001)
        return found

    def next_row(self, channel: str = "a") -> int:
        """How many rows a channel has ever had."""
        return self.exchange.replay_channel(channel).position().next_row


@asynccontextmanager
async def world(address: str) -> AsyncIterator[World]:
    """Serve it there, for the block."""
    exchange = Exchange(parameters=_WINDOW)
    for name in CHANNELS:
        exchange.add_channel(name, retention=Retention.REPLAY, staging_rows=STAGING_ROWS)
    async with ExchangeServer(exchange, address) as server:
        yield World(exchange, server.address)
    for name in CHANNELS:
        exchange.remove_channel(name)


def chunk(numbers: list[int]) -> pa.RecordBatch:
    """Rows that are numbers."""
    return pa.record_batch([pa.array(numbers, pa.int64())], _SCHEMA)
