"""Channels of a store on disk, and rows that hold their own numbers."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from permitflow import ChannelParameters
from permitflow.exchange import ChannelStore, SqliteStore
from permitflow.exchange.stores.durable import DurableStore

PARAMETERS = ChannelParameters(row_permits=100_000)
CONSUMERS = ("default", "audit")
SCHEMA = pa.schema([("number", pa.int64()), ("name", pa.string())])

OpenStore: TypeAlias = Callable[[], DurableStore]
"""Opens the store of a test; the fixture ``open_store``."""

OpenSqlite: TypeAlias = Callable[[], SqliteStore]
"""The same for one on disk; the fixture ``open_sqlite``."""


def rows(first_row: int, count: int) -> pa.RecordBatch:
    numbers = range(first_row, first_row + count)
    return pa.record_batch([[*numbers], [f"row {number}" for number in numbers]], schema=SCHEMA)


def numbers(batches: Sequence[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch["number"].to_pylist()]


def channel(store: DurableStore, name: str = "orders/0") -> ChannelStore:
    """A channel, new or as it was left."""
    return store.open_channels([name], parameters=PARAMETERS, consumers=CONSUMERS)[0]


async def filled(store: DurableStore) -> ChannelStore:
    place = channel(store)
    await place.declare(SCHEMA)
    for first_row in (0, 10, 20):
        await place.append(first_row, [rows(first_row, 10)], "p", first_row + 10)
    return place
