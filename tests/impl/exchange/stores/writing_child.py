"""Writes into a store for as long as it lives, and says what was confirmed: for tests that kill it.

    python writing_child.py FOLDER SEED

Each line of the output is a JSON object of facts that the store has confirmed.
"""

import asyncio
import json
import random
import sys
from pathlib import Path

import pyarrow as pa

from permitflow import ChannelParameters
from permitflow.client import Staging
from permitflow.exchange import ChannelStore, SqliteStore
from permitflow.exchange.stores.store import PublishedPart

PARAMETERS = ChannelParameters(row_permits=1_000_000)
CHANNELS = ("direct/0", "direct/1")
STAGED = "staged/0"
BATCH_ROWS = 5_000
SCHEMA = pa.schema([("number", pa.int64())])


def numbered(first_row: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(first_row, first_row + rows), pa.int64())], schema=SCHEMA)


def say(**facts: int) -> None:
    print(json.dumps(facts), flush=True)


async def opened(store: SqliteStore, name: str) -> ChannelStore:
    place = store.open_channels([name], parameters=PARAMETERS, consumers=("default",))[0]
    if place.load().schema is None:
        await place.declare(SCHEMA)
    return place


async def append_for_ever(place: ChannelStore, name: str, chance: random.Random) -> None:
    """Rows of a named producer; most of them are acknowledged soon."""
    kept = place.load()
    next_row, acknowledged_row = kept.next_row, (kept.acknowledged or {}).get("default", 0)
    while True:
        rows = chance.randrange(1, 20_000)
        await place.append(next_row, [numbered(next_row, rows)], "p", next_row + rows)
        next_row += rows
        say(**{name: next_row})
        if chance.random() < 0.5:
            acknowledged_row = max(acknowledged_row, next_row - chance.randrange(50_000))
            await place.acknowledge("default", acknowledged_row, acknowledged_row)
            say(**{f"acknowledged {name}": acknowledged_row})


async def publish_for_ever(store: SqliteStore, place: ChannelStore) -> None:
    """Batches of rows, each staged by two attempts, of which one is published."""
    kept = place.load()
    batch = store.published_batches().get("q", -1) + 1
    await place.forget([*kept.staged])
    while True:
        first_row = batch * BATCH_ROWS
        good, bad = Staging("q", batch, 0, "good"), Staging("q", batch, 0, "bad")
        await asyncio.gather(place.stage(good, halves(first_row)), place.stage(bad, [numbered(-9, 9)]))
        await store.publish("q", batch, [PublishedPart(STAGED, good, first_row)])
        say(**{"published": batch, STAGED: first_row + BATCH_ROWS})
        batch += 1


def halves(first_row: int) -> list[pa.RecordBatch]:
    return [numbered(first_row, 1_000), numbered(first_row + 1_000, BATCH_ROWS - 1_000)]


async def main(folder: str, seed: str) -> None:
    with SqliteStore(Path(folder)) as store:
        async with asyncio.TaskGroup() as group:
            for name in CHANNELS:
                chance = random.Random(f"{seed} {name}")
                group.create_task(append_for_ever(await opened(store, name), name, chance))
            group.create_task(publish_for_ever(store, await opened(store, STAGED)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
