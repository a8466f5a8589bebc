"""Staged rows that no query will publish are forgotten in time, and who waits for room too long is refused."""

import asyncio

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import StagedPart, Staging
from permitflow.errors import ChannelAbortedError, StagingFullError, StoreWriteError
from permitflow.exchange import ReplayChannel, Store
from permitflow.exchange.books.attempts import AttemptBooks
from permitflow.exchange.books.staging import ROOM_SECONDS
from permitflow.exchange.channels.staging import StagingAreas
from tests.support.simulated_time import Clock
from tests.support.slow_store import SlowStore
from tests.support.turns import turns, until

WINDOW = ChannelParameters(row_permits=8)
TIMEOUT_SECONDS = 60.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr("permitflow.exchange.channels.staging._TIDY_SECONDS", 0.001)
    return Clock()


def areas_of(clock: Clock, store: Store | None = None) -> StagingAreas:
    """With room for 16 rows of the channel ``a``."""
    store = store or Store()
    areas = StagingAreas(store, TIMEOUT_SECONDS, clock=clock)
    add_channel(areas, store, "a")
    return areas


def add_channel(areas: StagingAreas, store: Store, name: str) -> ReplayChannel:
    place = store.open_channels([name], parameters=WINDOW, consumers=("default",))[0]
    channel = ReplayChannel(name, WINDOW, None, place, ("default",), WINDOW.row_permits, AttemptBooks())
    areas.add_channel(channel, 16)
    return channel


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(count), pa.int64())})


async def stage(areas: StagingAreas, *counts: int) -> None:
    """The only attempt of batch 0, to its end."""
    part = areas.open("a", Staging("q", 0, 0, "x"))
    assert await areas.stage(part, [*map(rows, counts)]) == len(counts)
    areas.end(part)


async def test_a_producer_is_told_when_others_keep_the_room_for_too_long(clock: Clock) -> None:
    areas = areas_of(clock)
    full, part = (areas.open("a", Staging(query, 0, 0, "x")) for query in ("p", "q"))
    assert await areas.stage(full, [rows(6), rows(6)]) == 2
    waiting = asyncio.create_task(areas.stage(part, [rows(6)]))
    await turns()
    assert len(areas.area("a").line) == 1
    clock.seconds += ROOM_SECONDS
    with pytest.raises(StagingFullError, match="12 of other batches and attempts are there"):
        await waiting
    assert not areas.area("a").line
    areas.stop()


async def test_an_attempt_that_waits_for_room_hears_the_channel_end(clock: Clock) -> None:
    store = Store()
    areas = StagingAreas(store, TIMEOUT_SECONDS, clock=clock)
    channel = add_channel(areas, store, "a")
    full, part = (areas.open("a", Staging(query, 0, 0, "x")) for query in ("p", "q"))
    assert await areas.stage(full, [rows(8), rows(8)]) == 2
    waiting = asyncio.create_task(areas.stage(part, [rows(1)]))
    await asyncio.sleep(0)
    await channel.break_("its disk burnt")
    with pytest.raises(ChannelAbortedError, match="its disk burnt"):
        await waiting
    areas.stop()


async def test_an_attempt_forgotten_while_written_leaves_nothing(clock: Clock) -> None:
    store = SlowStore()
    areas = areas_of(clock, store)
    part = areas.open("a", Staging("q", 0, 0, "x"))
    staging = asyncio.create_task(areas.stage(part, [rows(6)]))
    await turns()
    areas.break_off(part)
    await turns()
    store.is_open.set()
    await staging
    assert store.place.stagings == set()
    assert areas.area("a").staged_rows == 0
    areas.stop()


async def test_a_batch_is_not_forgotten_while_a_slow_disk_publishes_it(clock: Clock) -> None:
    store = SlowStore()
    areas = StagingAreas(store, TIMEOUT_SECONDS, clock=clock)
    channel = add_channel(areas, store, "a")
    store.is_open.set()
    await stage(areas, 6)
    store.is_open.clear()
    publishing = asyncio.create_task(areas.publish("q", 0, [StagedPart("a", 0, "x", 6)]))
    await turns()
    clock.seconds += TIMEOUT_SECONDS + 1
    due = areas._tidying
    await until(lambda: areas._tidying is not due)
    assert areas.area("a").staged_rows == 6
    store.is_open.set()
    assert not await publishing, "it was not published before"
    assert areas.books.was_published("q", 0)
    assert (channel.books.next_row, areas.area("a").staged_rows) == (6, 0)
    areas.stop()


async def test_a_publication_on_a_full_disk_changes_nothing_and_repeats(clock: Clock) -> None:
    store = SlowStore()
    store.is_open.set()
    areas = StagingAreas(store, TIMEOUT_SECONDS, clock=clock)
    channel = add_channel(areas, store, "a")
    await stage(areas, 6, 6)
    store.error = StoreWriteError(path="/dev/full", reason="database or disk is full")
    with pytest.raises(StoreWriteError):
        await areas.publish("q", 0, [StagedPart("a", 0, "x", 12)])
    assert (channel.books.next_row, areas.area("a").staged_rows) == (0, 12)
    store.error = None
    assert not await areas.publish("q", 0, [StagedPart("a", 0, "x", 12)])
    assert (channel.books.next_row, channel.books.excess_rows) == (12, 4)
    areas.stop()


async def test_a_publication_and_a_producer_together_get_separate_rows(clock: Clock) -> None:
    store = SlowStore()
    areas = StagingAreas(store, TIMEOUT_SECONDS, clock=clock)
    channel = add_channel(areas, store, "a")
    await channel.declare(rows(1).schema)
    store.is_open.set()
    await stage(areas, 6)
    store.is_open.clear()
    publishing = asyncio.create_task(areas.publish("q", 0, [StagedPart("a", 0, "x", 6)]))
    await turns()
    appending = asyncio.create_task(channel.keep([rows(3)]))
    await turns()
    store.is_open.set()
    await publishing
    await turns()
    assert (channel.books.next_row, appending.done()) == (6, False), "it has looked for room after the publication"
    await channel.acknowledge(1)
    assert await appending == 1
    kept = [n for batch in await channel.store.read(1, 9) for n in batch["n"].to_pylist()]
    assert kept == [1, 2, 3, 4, 5, 0, 1, 2]
    areas.stop()
