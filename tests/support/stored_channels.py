"""Channels of a store, for tests."""

from collections.abc import Callable

import pyarrow as pa

from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.store import ChannelStore
from permitflow.protocol.parameters import ChannelParameters

__all__ = ["CONSUMERS", "PARAMETERS", "channel", "filled"]

PARAMETERS = ChannelParameters(row_permits=100_000)
CONSUMERS = ("default", "audit")


def channel(store: SqliteStore, name: str = "orders/0") -> ChannelStore:
    """A channel, new or as it was left."""
    return store.open_channel(name, parameters=PARAMETERS, consumers=CONSUMERS)


async def filled(store: SqliteStore, rows: Callable[[int, int], pa.RecordBatch]) -> ChannelStore:
    """A channel with 30 rows; ``rows`` makes those of a first number and a count."""
    place = channel(store)
    await place.declare(rows(0, 0).schema)
    for first_row in (0, 10, 20):
        await place.append(first_row, [rows(first_row, 10)], "p", first_row + 10)
    return place
