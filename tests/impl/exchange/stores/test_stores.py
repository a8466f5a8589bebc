"""What an exchange may expect of every store.

A store on disk, closed and opened again at any moment, is the store in memory.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import Retention, StagedPart, Staging
from permitflow.errors import PreparedRowsError
from permitflow.exchange import ChannelStore, Exchange, ReplayChannel, SqliteStore, Store
from permitflow.exchange.stores.store import Expiry, PublishedPart
from permitflow.stream.control import KeptBarrier
from tests.support.stored_rows import OpenStore, channel, numbers, rows

PARAMETERS = ChannelParameters(row_permits=1024)
CONSUMERS = ("default", "audit")


async def opened(store: Store, schema: pa.Schema, name: str = "orders/0") -> ChannelStore:
    place = store.open_channels([name], parameters=PARAMETERS, consumers=CONSUMERS)[0]
    place.load()
    await place.declare(schema)
    return place


def attempt(batch: int, partition: int = 0, name: str = "a", query: str = "q") -> Staging:
    return Staging(query, batch, partition, name)


async def test_named_attempts_are_published_in_order_and_others_forgotten(store: Store) -> None:
    place = await opened(store, rows(0, 0).schema)
    for staging, first in ((attempt(1, 1), 30), (attempt(1, 0), 20), (attempt(1, 0, "b"), 90), (attempt(0), 80)):
        await place.stage(staging, [rows(first, 2)])
    parts = [PublishedPart("orders/0", attempt(1, 0), 0), PublishedPart("orders/0", attempt(1, 1), 2)]
    await store.publish("q", 1, parts)
    # The same name again is another attempt; and a later batch stands behind.
    await place.stage(attempt(2), [rows(40, 2)])
    without_rows = PublishedPart("orders/0", attempt(2, 1, "without rows"), 6)
    await store.publish("q", 2, [PublishedPart("orders/0", attempt(2), 4), without_rows])
    assert numbers(await place.read(0, 6)) == [20, 21, 30, 31, 40, 41]
    assert store.published_batches() == {"q": 2}


async def test_a_name_is_free_again_once_its_channel_is_removed(store: Store) -> None:
    place = await opened(store, rows(0, 0).schema)
    await place.append(0, [rows(90, 10)], "p", 10)
    await place.stage(attempt(0), [rows(90, 2)])
    await store.remove(["orders/0"])
    place = await opened(store, rows(0, 0).schema)
    await place.append(0, [rows(0, 3)])
    assert numbers(await place.read(0, 3)) == [0, 1, 2]


LARGE_ROWS = 20_000


def batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(rows), pa.int64())})


def address_of(chunk: pa.RecordBatch) -> int:
    return int(chunk.column(0).buffers()[1].address)


def nulls(values: int) -> pa.RecordBatch:
    """One row, a list of nulls: as many as one likes take no memory."""
    return pa.record_batch({"n": pa.ListArray.from_arrays(pa.array([0, values], pa.int32()), pa.nulls(values))})


async def kept(place: ChannelStore, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """What a reader gets of batches that have come together."""
    await place.declare(batches[0].schema)
    await place.append(0, batches)
    return await place.read(0, sum(each.num_rows for each in batches))


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ([LARGE_ROWS, 10, LARGE_ROWS], [LARGE_ROWS, 10, LARGE_ROWS]),
        ([10, LARGE_ROWS, LARGE_ROWS], [10, LARGE_ROWS, LARGE_ROWS]),
        ([LARGE_ROWS, 10, 10, 10, LARGE_ROWS], [LARGE_ROWS, 30, LARGE_ROWS]),
    ],
    ids=str,
)
async def test_large_batches_are_not_copied_wherever_small_ones_stand(sizes: list[int], found: list[int]) -> None:
    given = [batch(size) for size in sizes]
    read = await kept(ChannelStore(), given)
    assert [each.num_rows for each in read] == found
    assert pa.Table.from_batches(read).equals(pa.Table.from_batches(given))
    large = [[address_of(each) for each in batches if each.num_rows == LARGE_ROWS] for batches in (given, read)]
    assert large[0] == large[1]


async def test_rows_beyond_one_batch_are_kept_in_memory_and_on_disk(tmp_path: Path) -> None:
    sizes = [1, 1_500_000_000, 1_500_000_000]

    async def lengths(place: ChannelStore) -> list[int]:
        return [len(row) for each in await kept(place, [nulls(size) for size in sizes]) for row in each.column(0)]

    assert await lengths(ChannelStore()) == sizes
    with SqliteStore(tmp_path) as store:
        assert await lengths(channel(store)) == sizes
    with SqliteStore(tmp_path) as store:
        found = await channel(store).read(0, 3)
    assert [len(row) for each in found for row in each.column(0)] == sizes


STEPS = 120
CHANNELS = ("a/0", "a/1")
LARGE = ChannelParameters(row_permits=10_000)


class Run:
    """Does the same to both stores, and knows what an exchange would know."""

    def __init__(self, open_store: OpenStore, seed: int) -> None:
        self.open_store = open_store
        self.chance = random.Random(seed)
        self.memory, self.disk = Store(), open_store()
        self.expected = self.places_in(self.memory)
        self.found = self.places_in(self.disk)
        self.next_row = dict.fromkeys(CHANNELS, 0)
        self.acknowledged = {name: dict.fromkeys(CONSUMERS, 0) for name in CHANNELS}
        self.expired = dict.fromkeys(CHANNELS, 0)
        self.barriers: dict[str, list[KeptBarrier]] = {name: [] for name in CHANNELS}
        self.staged: dict[str, dict[Staging, list[int]]] = {name: {} for name in CHANNELS}
        self.batch = 0

    @staticmethod
    def places_in(store: Store) -> dict[str, ChannelStore]:
        return {name: store.open_channels([name], parameters=LARGE, consumers=CONSUMERS)[0] for name in CHANNELS}

    def both(self, name: str) -> tuple[ChannelStore, ChannelStore]:
        return self.expected[name], self.found[name]

    async def declare(self) -> None:
        for name in CHANNELS:
            for place in self.both(name):
                await place.declare(rows(0, 0).schema)

    async def step(self) -> None:
        name = self.chance.choice(CHANNELS)
        steps = (self.append, self.append, self.keep_barrier, self.acknowledge, self.stage, self.stage, self.forget)
        await self.chance.choice((*steps, self.expire, self.publish, self.restart))(name)
        await self.compare(name)

    async def append(self, name: str) -> None:
        start = self.next_row[name]
        batches = [rows(self.chance.randrange(1000), self.chance.randrange(1, 9)) for _ in range(3)]
        for place in self.both(name):
            await place.append(start, batches, "p", start + 1)
        self.next_row[name] += sum(batch.num_rows for batch in batches)

    async def keep_barrier(self, name: str) -> None:
        kept = self.barriers[name]
        barrier = KeptBarrier(kept[-1].number + self.chance.randint(1, 3) if kept else 1, self.next_row[name])
        for place in self.both(name):
            await place.keep_barrier(barrier)
        kept.append(barrier)

    async def acknowledge(self, name: str) -> None:
        consumer, acknowledged = self.chance.choice(CONSUMERS), self.acknowledged[name]
        acknowledged[consumer] = self.chance.randint(acknowledged[consumer], self.next_row[name])
        needed = self.chance.choice([barrier.number for barrier in self.barriers[name]] or [0])
        for place in self.both(name):
            first_row = max(self.expired[name], min(acknowledged.values()))
            await place.acknowledge(consumer, acknowledged[consumer], first_row, needed)
        self.barriers[name] = [barrier for barrier in self.barriers[name] if barrier.number >= needed]

    async def expire(self, name: str) -> None:
        first_row = max(self.expired[name], min(self.acknowledged[name].values()))
        if first_row < self.next_row[name]:
            self.expired[name] = self.chance.randint(first_row + 1, self.next_row[name])
            for place in self.both(name):
                await place.expire(self.expired[name])

    async def stage(self, name: str) -> None:
        staging = Staging("q", self.batch + self.chance.randrange(2), 0, self.chance.choice("xy"))
        batches = [rows(self.chance.randrange(1000), count) for count in (2, 5)]
        for place in self.both(name):
            await place.stage(staging, batches)
        self.staged[name].setdefault(staging, []).extend([2, 5])

    async def forget(self, name: str) -> None:
        forgotten = [staging for staging in self.staged[name] if self.chance.random() < 0.3]
        for place in self.both(name):
            await place.forget(forgotten)
        for staging in forgotten:
            del self.staged[name][staging]

    async def publish(self, _: str) -> None:
        parts = [
            PublishedPart(name, self.chance.choice(own), self.next_row[name])
            for name in CHANNELS
            if (own := [staging for staging in self.staged[name] if staging.batch == self.batch])
        ]
        others = [*self.memory.published_batches()][:-2]
        for store in (self.memory, self.disk):
            await store.publish("q", self.batch, parts, others)
            await store.publish(f"job {self.batch}", 0, [])
        for part in parts:
            self.next_row[part.channel] += sum(self.staged[part.channel].pop(part.staging))
        for staged in self.staged.values():
            for staging in [staging for staging in staged if staging.batch <= self.batch]:
                del staged[staging]
        self.batch += 1

    async def restart(self, _: str) -> None:
        self.disk = self.open_store()
        self.found = self.places_in(self.disk)
        for name, place in self.found.items():
            kept = place.load()
            assert (kept.next_row, dict(kept.acknowledged or {})) == (self.next_row[name], self.acknowledged[name])
            assert kept.expired_row == self.expired[name]
            assert [*kept.barriers] == self.barriers[name]
            assert [*kept.staged.items()] == [*self.staged[name].items()]
        assert [*self.disk.published_batches().items()] == [*self.memory.published_batches().items()]

    async def compare(self, name: str) -> None:
        start, stop = max(self.expired[name], min(self.acknowledged[name].values())), self.next_row[name]
        start = self.chance.randint(start, stop)
        expected, found = [numbers(await place.read(start, stop)) for place in self.both(name)]
        assert found == expected
        assert len(found) == stop - start


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
async def test_a_disk_that_is_opened_again_and_again_is_memory(open_store: OpenStore, seed: int) -> None:
    both = Run(open_store, seed)
    await both.declare()
    for _ in range(STEPS):
        await both.step()


async def test_publishing_touches_one_query_and_the_named_channels(store: Store) -> None:
    first, second = await opened(store, rows(0, 0).schema, "a/0"), await opened(store, rows(0, 0).schema, "a/1")
    other = attempt(0, query="other")
    await first.stage(attempt(5), [rows(0, 1)])
    await second.stage(attempt(5, 1), [rows(10, 1)])
    await first.stage(other, [rows(20, 1)])
    await store.publish("q", 5, [PublishedPart("a/0", attempt(5), 0), PublishedPart("a/1", attempt(5, 1), 0)])
    await store.publish("other", 0, [PublishedPart("a/0", other, 1)])
    assert [numbers(batches) for batches in [await first.read(0, 2), await second.read(0, 1)]] == [[0, 20], [10]]
    assert store.published_batches() == {"q": 5, "other": 0}


async def test_the_next_exchange_of_a_store_keeps_what_is_prepared(open_store: OpenStore) -> None:
    def following() -> tuple[Exchange, ReplayChannel]:
        exchange = Exchange(store=open_store())
        return exchange, exchange.add_channel("orders/0", retention=Retention.REPLAY)

    part = StagedPart("orders/0", 0, "a", 2)
    before, channel = following()
    await channel.declare(rows(0, 0).schema)
    staged = before.staging.open("orders/0", attempt(0))
    await before.staging.stage(staged, [rows(0, 2)])
    before.staging.end(staged)
    await before.staging.prepare("q", 0, [part])
    before.staging.stop()
    after, channel = following()
    with pytest.raises(PreparedRowsError, match="2 rows are prepared"):
        await channel.end()
    assert not await after.staging.publish("q", 0, [part])
    assert numbers(await channel.store.read(0, 2)) == [0, 1]
    after.staging.stop()


async def test_forgotten_attempts_can_be_staged_anew(store: Store) -> None:
    place = await opened(store, rows(0, 0).schema)
    await place.stage(attempt(0), [rows(90, 2)])
    await place.forget([attempt(0), attempt(7, name="never here")])
    await place.stage(attempt(0), [rows(0, 2)])
    await store.publish("q", 0, [PublishedPart("orders/0", attempt(0), 0)])
    assert numbers(await place.read(0, 2)) == [0, 1]


async def test_whole_batches_expire_by_time_and_bytes(store: Store) -> None:
    now = 1000.0
    store.clock = lambda: now
    place = await opened(store, rows(0, 0).schema)
    for first_row in (0, 10, 20):
        await place.append(first_row, [rows(first_row, 10)])
        now += 60
    size_bytes = rows(10, 10).nbytes
    by_time = [place.expirable_row(Expiry(seconds=seconds)) for seconds in (181, 180, 120.5, 60, 0.1)]
    assert by_time == [0, 10, 10, 30, 30]
    by_bytes = [place.expirable_row(Expiry(most_bytes=size)) for size in (4 * size_bytes, 2 * size_bytes, 1)]
    assert by_bytes == [0, 10, 20]
    assert place.expirable_row(Expiry(seconds=170, most_bytes=size_bytes)) == 20
    await place.expire(20)
    assert place.expirable_row(Expiry(most_bytes=2 * size_bytes)) == 0
    await place.expire(30)
    assert place.expirable_row(Expiry(seconds=0.1, most_bytes=1)) == 0


async def test_rows_keep_the_time_at_which_they_came_also_staged_ones(open_store: OpenStore) -> None:
    store = open_store()
    now = 1000.0
    store.clock = lambda: now
    place = await opened(store, rows(0, 0).schema)
    await place.append(0, [rows(0, 5)])
    await place.stage(attempt(1), [rows(5, 5)])
    now = 2000.0
    await store.publish("q", 1, [PublishedPart("orders/0", attempt(1), 5)])
    for each in (store, open_store()):
        if each is not store:
            (place,) = each.open_channels(["orders/0"], parameters=PARAMETERS, consumers=CONSUMERS)
            each.clock = lambda: now
        assert [place.expirable_row(Expiry(seconds=seconds)) for seconds in (1000.5, 1000, 0.5)] == [0, 5, 5]
