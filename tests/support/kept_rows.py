"""Channels that keep their rows inside a process, without a server, for tests."""

import asyncio
from collections.abc import AsyncIterator

import pyarrow as pa

from permitflow.exchange.registry import Exchange
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.stores.memory import MemoryStore
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from tests.support.row_streams import SCHEMA, SMALL

__all__ = ["keeping", "numbers", "settle"]


def keeping(*consumers: str, parameters: ChannelParameters = SMALL, store: MemoryStore | None = None) -> ReplayChannel:
    """A channel that keeps its rows."""
    exchange = Exchange(parameters=parameters, store=store)
    return exchange.add_channel("c", schema=SCHEMA, retention=Retention.REPLAY, consumers=consumers or ("default",))


async def numbers(batches: AsyncIterator[pa.RecordBatch]) -> list[int]:
    """All numbers in these."""
    return [number async for batch in batches for number in batch.column(0).to_pylist()]


async def settle() -> None:
    """Let everybody who can run do so, a few times over."""
    for _ in range(20):
        await asyncio.sleep(0)
