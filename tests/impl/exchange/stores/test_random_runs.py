"""A store on disk that is closed and opened at any moment is the store in memory."""

import asyncio
import random
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from permitflow.exchange.stores.memory import MemoryStore
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.store import ChannelStore, KeptPart, PublishedPart, Store
from permitflow.protocol.frames import Staging
from permitflow.protocol.parameters import ChannelParameters

Open = Callable[[], SqliteStore]
Rows = Callable[[int, int], pa.RecordBatch]
Numbers = Callable[[Sequence[pa.RecordBatch]], list[int]]

STEPS = 120
CHANNELS = ("a/0", "a/1")
CONSUMERS = ("default", "audit")
PARAMETERS = ChannelParameters(row_permits=10_000)


class Run:
    """Does the same to both stores, and knows what an exchange would know."""

    def __init__(self, open_store: Open, rows: Rows, numbers: Numbers, seed: int) -> None:
        self.open_store, self.rows, self.numbers = open_store, rows, numbers
        self.chance = random.Random(seed)
        self.memory, self.disk = MemoryStore(), open_store()
        self.expected = self.places_in(self.memory)
        self.found = self.places_in(self.disk)
        self.next_row = dict.fromkeys(CHANNELS, 0)
        self.acknowledged = {name: dict.fromkeys(CONSUMERS, 0) for name in CHANNELS}
        self.staged: dict[str, dict[Staging, list[int]]] = {name: {} for name in CHANNELS}
        self.batch = 0

    @staticmethod
    def places_in(store: Store) -> dict[str, ChannelStore]:
        return {name: store.open_channel(name, parameters=PARAMETERS, consumers=CONSUMERS) for name in CHANNELS}

    def both(self, name: str) -> tuple[ChannelStore, ChannelStore]:
        return self.expected[name], self.found[name]

    async def declare(self) -> None:
        for name in CHANNELS:
            for place in self.both(name):
                await place.declare(self.rows(0, 0).schema)

    async def step(self) -> None:
        """Whatever comes next."""
        name = self.chance.choice(CHANNELS)
        steps = (self.append, self.append, self.acknowledge, self.stage, self.stage, self.forget)
        await self.chance.choice((*steps, self.publish, self.restart))(name)
        await self.compare(name)

    async def append(self, name: str) -> None:
        start = self.next_row[name]
        batches = [self.rows(self.chance.randrange(1000), self.chance.randrange(1, 9)) for _ in range(3)]
        for place in self.both(name):
            await place.append(start, batches, "p", start + 1)
        self.next_row[name] += sum(batch.num_rows for batch in batches)

    async def acknowledge(self, name: str) -> None:
        consumer, acknowledged = self.chance.choice(CONSUMERS), self.acknowledged[name]
        acknowledged[consumer] = self.chance.randint(acknowledged[consumer], self.next_row[name])
        for place in self.both(name):
            await place.acknowledge(consumer, acknowledged[consumer], min(acknowledged.values()))

    async def stage(self, name: str) -> None:
        staging = Staging("q", self.batch + self.chance.randrange(2), 0, self.chance.choice("xy"))
        batches = [self.rows(self.chance.randrange(1000), rows) for rows in (2, 5)]
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
            staged = tuple(KeptPart(staging=key, chunk_rows=tuple(rows)) for key, rows in self.staged[name].items())
            assert kept.staged == staged
        assert [*self.disk.published_batches().items()] == [*self.memory.published_batches().items()]

    async def compare(self, name: str) -> None:
        start, stop = min(self.acknowledged[name].values()), self.next_row[name]
        start = self.chance.randint(start, stop)
        expected, found = [self.numbers(await place.read(start, stop)) for place in self.both(name)]
        assert found == expected
        assert len(found) == stop - start


@pytest.mark.parametrize("seed", range(4))
def test_a_disk_that_is_opened_again_and_again_is_memory(
    run: asyncio.Runner, open_store: Open, rows: Rows, numbers: Numbers, seed: int
) -> None:
    async def play() -> None:
        both = Run(open_store, rows, numbers, seed)
        await both.declare()
        for _ in range(STEPS):
            await both.step()

    run.run(play())
