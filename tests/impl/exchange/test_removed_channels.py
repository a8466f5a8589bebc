"""Channels that are removed: nothing remembers them, and what is being published goes on without them."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import StagedPartError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.stores.memory import MemoryChannelStore, MemoryStore
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.store import Store
from permitflow.protocol.control import StagedPart
from permitflow.protocol.frames import Staging
from permitflow.protocol.replay import Retention

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

CHUNK = pa.record_batch({"n": pa.array(range(8), pa.int64())})


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path)
    yield opened
    opened.close()


async def staged(exchange: Exchange, channel: str, partition: int) -> StagedPart:
    """One chunk of batch 0 of the query ``q``."""
    await exchange.replay_channel(channel).log.declare(CHUNK.schema)
    part = exchange.staging.open(channel, Staging("q", 0, partition, "a"))
    await exchange.staging.stage(part, [CHUNK])
    exchange.staging.end(part)
    return StagedPart(channel, partition, "a", CHUNK.num_rows)


@pytest.mark.parametrize("steps", [1, 10], ids=["before the store has heard of it", "while the store writes"])
async def test_a_batch_that_is_being_published_when_a_channel_is_removed_is_published_without_it(
    store: Store, steps: int
) -> None:
    exchange = Exchange(store=store)
    exchange.add_channels(["kept", "removed"], retention=Retention.REPLAY)
    parts = [await staged(exchange, name, number) for number, name in enumerate(("removed", "kept"))]
    may_go_on = threading.Event()
    if isinstance(store, SqliteStore):
        store._database.post(lambda _: may_go_on.wait(60))  # as a disk that is busy
    publishing = asyncio.create_task(exchange.staging.publish("q", 0, parts))
    for _ in range(steps):
        await asyncio.sleep(0)
    exchange.remove_channel("removed")
    may_go_on.set()
    assert not await publishing, "it was not published before"
    assert store.published_batches() == exchange.staging.books.published_batches == {"q": 0}
    assert await exchange.staging.publish("q", 0, parts[1:]), "it was published, as its driver was told"
    kept = exchange.replay_channel("kept")
    await kept.end()
    assert [row async for batch in kept.read() for row in batch.column(0).to_pylist()] == CHUNK["n"].to_pylist()
    exchange.staging.stop()


def test_a_store_looks_no_more_at_channels_that_were_removed(
    complete: Complete, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[MemoryChannelStore] = []
    forget_older = MemoryChannelStore.forget_older

    def look(place: MemoryChannelStore, query: str, batch: int) -> None:
        looked_at.append(place)
        forget_older(place, query, batch)

    monkeypatch.setattr(MemoryChannelStore, "forget_older", look)

    async def test() -> None:
        exchange = Exchange(store=store)
        exchange.add_channel("kept", retention=Retention.REPLAY)
        for number in range(5):
            exchange.add_channel(f"removed/{number}", retention=Retention.REPLAY)
            exchange.remove_channel(f"removed/{number}")
        await exchange.staging.publish("q", 0, [])

    complete(test())
    assert len(looked_at) == 1


async def test_whoever_stages_for_a_channel_that_is_removed_is_told_so_when_he_goes_on(store: Store) -> None:
    exchange = Exchange(store=store)
    exchange.add_channels(["removed"], retention=Retention.REPLAY)
    await exchange.replay_channel("removed").log.declare(CHUNK.schema)
    part = exchange.staging.open("removed", Staging("q", 0, 0, "a"))
    staging = asyncio.create_task(exchange.staging.stage(part, [CHUNK]))
    await asyncio.sleep(0)  # it has room, and is about to be written
    exchange.remove_channel("removed")
    assert await staging == 1
    with pytest.raises(StagedPartError, match="removed"):
        await exchange.staging.stage(part, [CHUNK])
