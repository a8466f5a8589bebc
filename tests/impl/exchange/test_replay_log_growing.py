"""How a channel that keeps its rows takes them over and stores them: in order, when there is room, all or none."""

import asyncio
from collections.abc import Sequence

import pyarrow as pa
import pytest

from permitflow.errors import (
    ChannelClosedError,
    SchemaMismatchError,
    StoreWriteError,
)
from permitflow.exchange.stores.memory import MemoryChannelStore, MemoryStore
from permitflow.protocol.control import ChannelState
from permitflow.protocol.parameters import ChannelParameters
from tests.support.kept_rows import keeping, numbers, rows, settle

LONGEST_SECONDS = 20.0


async def test_no_more_rows_are_kept_than_there_are_permits() -> None:
    channel = keeping()
    await channel.append(rows(0, 8))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(channel.append(rows(8, 11)))
        await settle()
        assert channel.position().next_row == 8
        assert channel.statistics().numbers.waiting_sends == 1
        await channel.acknowledge(2)
        await settle()
        assert not waiting.done(), "3 rows need room for 3"
        await channel.acknowledge(3)
    assert channel.position().next_row == 11
    assert channel.statistics().numbers.waiting_seconds > 0
    assert channel.statistics().numbers.peak_permits_outstanding == 8


async def test_producers_that_wait_are_served_in_the_order_in_which_they_came() -> None:
    channel = keeping()
    await channel.append(rows(0, 8))
    async with asyncio.TaskGroup() as group:
        for number in (100, 200, 300):
            group.create_task(channel.append(rows(number, number + 4)))
            await settle()
        for row in (1, 4, 8, 12):
            await channel.acknowledge(row)
            await settle()
    kept = [number for number in await numbers(channel.read(to_row=20)) if number % 100 == 0]
    assert kept == [200, 300]
    assert channel.position().next_row == 20


async def test_a_chunk_above_the_largest_is_kept_in_slices() -> None:
    channel = keeping()
    async with asyncio.TaskGroup() as group:
        putting = group.create_task(channel.append(rows(0, 30)))
        read: list[int] = []
        while len(read) < 30:
            next_row = channel.position().next_row
            read += await numbers(channel.read(to_row=next_row))
            await channel.acknowledge(next_row)
            await settle()
    assert putting.done()
    assert read == list(range(30))


async def test_a_cancelled_producer_has_kept_a_chunk_or_has_not() -> None:
    channel = keeping()
    await channel.append(rows(0, 8))
    waiting = asyncio.create_task(channel.append(rows(8, 10), "p"))
    await settle()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    await channel.acknowledge(8)
    assert channel.position().next_row == 8, "it will not come any more"
    await channel.append(rows(8, 10), "p")
    assert await numbers(channel.read(to_row=10)) == [8, 9]


async def test_who_has_read_everything_is_told_of_the_next_rows() -> None:
    channel = keeping()
    await channel.append(rows(0, 3))
    seen: list[int] = []
    all_came = asyncio.Event()

    async def follow() -> None:
        async for batch in channel.read():
            seen.extend(batch.column(0).to_pylist())
            if len(seen) == 5:
                all_came.set()

    following = asyncio.create_task(follow())
    await settle()
    assert seen == [0, 1, 2]
    await channel.append(rows(3, 5))
    await asyncio.wait_for(all_came.wait(), LONGEST_SECONDS)
    await channel.end()
    await following
    assert seen == [0, 1, 2, 3, 4]


class SlowStore(MemoryChannelStore):
    """Writes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = asyncio.Event()
        self.error: Exception | None = None

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        await self.is_open.wait()
        if self.error is not None:
            raise self.error
        await super().append(first_row, batches, producer, producer_rows)

    async def finish(self, state: ChannelState, reason: str) -> None:
        await self.is_open.wait()
        await super().finish(state, reason)


class SlowStores(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.channel = SlowStore()

    def open_channel(self, name: str, *, parameters: ChannelParameters, consumers: Sequence[str]) -> SlowStore:
        return self.channel


async def test_nothing_follows_an_end_that_was_being_written_when_it_came() -> None:
    stores = SlowStores()
    channel = keeping(store=stores)
    stores.channel.is_open.set()
    await channel.append(rows(0, 3))
    stores.channel.is_open.clear()
    ending = asyncio.create_task(channel.end())
    await settle()
    late = asyncio.create_task(channel.append(rows(3, 6)))
    await settle()
    stores.channel.is_open.set()
    await ending
    with pytest.raises(ChannelClosedError):
        await late
    assert await numbers(channel.read()) == [0, 1, 2]


async def test_what_is_being_written_is_counted_though_its_producer_is_cancelled() -> None:
    stores = SlowStores()
    channel = keeping(store=stores)
    writing = asyncio.create_task(channel.append(rows(0, 3), "p"))
    await settle()
    assert channel.position().next_row == 0, "what is not written is not there"
    for _ in range(3):
        writing.cancel()
        await settle()
    assert not writing.done(), "it knows what has become of its rows before it goes"
    stores.channel.is_open.set()
    await asyncio.wait({writing})
    assert writing.cancelled()
    assert channel.position().next_row == 3
    assert channel.log.rows_of("p") == 3
    assert await numbers(channel.read(to_row=3)) == [0, 1, 2]


async def test_what_could_not_be_written_is_not_counted_and_can_be_sent_again() -> None:
    stores = SlowStores()
    channel = keeping(store=stores)
    stores.channel.is_open.set()
    stores.channel.error = StoreWriteError(path="/dev/full", reason="the disk is full")
    with pytest.raises(StoreWriteError):
        await channel.append(rows(0, 3), "p")
    assert channel.position().next_row == channel.log.rows_of("p") == 0
    stores.channel.error = None
    await channel.append(rows(0, 3), "p")
    assert await numbers(channel.read(to_row=3)) == [0, 1, 2]


async def test_chunks_without_rows_and_of_another_schema() -> None:
    channel = keeping()
    await channel.append(rows(0, 0))
    assert channel.position().next_row == 0
    with pytest.raises(SchemaMismatchError):
        await channel.append(pa.record_batch({"other": [1]}))


async def test_small_chunks_that_come_together_are_kept_together_and_cut_where_they_are_wanted() -> None:
    store = MemoryChannelStore()
    await store.append(0, [rows(row, row + 1) for row in range(100)])
    assert len(await store.read(0, 100)) == 1
    assert [batch.num_rows for batch in await store.read(17, 19)] == [2]
    await store.append(100, [rows(100, 5000), rows(5000, 9000)])
    assert [batch.num_rows for batch in await store.read(99, 6000)] == [1, 4900, 1000]
    await store.acknowledge("default", 99, 99)
    assert [batch.num_rows for batch in await store.read(99, 101)] == [1, 1]


async def test_chunks_whose_dictionaries_differ_are_kept_as_they_are() -> None:
    words = [pa.record_batch({"w": pa.array([word]).dictionary_encode()}) for word in ("a", "b", "c")]
    store = MemoryChannelStore()
    await store.append(0, words)
    assert await store.read(0, 3) == words


async def test_a_long_log_is_forgotten_from_its_beginning() -> None:
    store = MemoryChannelStore()
    for row in range(0, 4000, 2):
        await store.append(row, [rows(row, row + 2)])
        kept_from = max(0, row - 5)
        await store.acknowledge("default", kept_from, kept_from)
        found = [n for batch in await store.read(kept_from, row + 2) for n in batch.column(0).to_pylist()]
        assert found == list(range(kept_from, row + 2))
    await store.acknowledge("default", 4000, 4000)
    assert await store.read(3998, 4000) == [], "acknowledged while somebody was about to read it"
    assert len(store._batches) < 600
    assert not any(store._batches)
