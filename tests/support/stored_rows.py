"""Channels of a store on disk, and rows that hold their own numbers."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from permitflow import ChannelParameters
from permitflow.client import Staging
from permitflow.exchange import ChannelStore, SqliteStore
from permitflow.exchange.stores.durable import DurableStore
from permitflow.exchange.stores.store import Expiry, PublishedPart

PARAMETERS = ChannelParameters(row_permits=100_000)
CONSUMERS = ("default", "audit")
SCHEMA = pa.schema([("number", pa.int64()), ("name", pa.string())])

OpenStore: TypeAlias = Callable[[], DurableStore]
"""Opens the store of a test; the fixture ``open_store``."""

OpenSqlite: TypeAlias = Callable[[], SqliteStore]
"""The same for one on disk; the fixture ``open_sqlite``."""


_NOTHING_PREPARED = "ALTER TABLE parts DROP COLUMN is_prepared"
OLDER_TABLES = {
    4: (
        _NOTHING_PREPARED,
        "ALTER TABLE channels ADD COLUMN schema {bytes}",
        "UPDATE channels SET schema = (SELECT arrow FROM schemas WHERE channel = channels.id)",
        "DROP TABLE schemas",
        "ALTER TABLE channels DROP COLUMN expired_row",
        "ALTER TABLE batches DROP COLUMN schema",
        "ALTER TABLE kept DROP COLUMN taken_at",
    ),
    5: (_NOTHING_PREPARED,),
}
"""Makes the tables of a store those of an older version."""


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


async def require_updated(open_store: OpenStore, staging: Staging) -> None:
    """The rows of ``filled`` and five staged ones are there, and all that is new can be done."""
    for expired_row in (0, 20):
        store = open_store()
        place = channel(store)
        kept = place.load()
        assert (kept.schema, kept.expired_row, kept.producers) == (SCHEMA, expired_row, {"p": 30})
        assert numbers(await place.read(20, 30)) == [*range(20, 30)]
        assert place.expirable_row(Expiry(seconds=3600)) == 0, "nobody knows when its rows came"
        assert (staging in kept.staged, [*kept.prepared]) == (True, [staging] if expired_row else [])
        await place.expire(20)
        await store.prepare([("orders/0", staging)])
    await store.publish("q", 1, [PublishedPart("orders/0", staging, 30)])
    assert numbers(await channel(open_store()).read(20, 35)) == [*range(20, 35)]
