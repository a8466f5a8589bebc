"""What an exchange may expect of every store."""

import asyncio
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from permitflow.exchange.stores.store import ChannelStore, PublishedPart, Store
from permitflow.protocol.control import ChannelState
from permitflow.protocol.frames import Staging
from permitflow.protocol.parameters import ChannelParameters

Rows = Callable[[int, int], pa.RecordBatch]
Numbers = Callable[[Sequence[pa.RecordBatch]], list[int]]

PARAMETERS = ChannelParameters(row_permits=1024)
CONSUMERS = ("default", "audit")


async def opened(store: Store, schema: pa.Schema, name: str = "orders/0") -> ChannelStore:
    """A new channel whose schema is known."""
    place = store.open_channel(name, parameters=PARAMETERS, consumers=CONSUMERS)
    place.load()
    await place.declare(schema)
    return place


def attempt(batch: int, partition: int = 0, name: str = "a", query: str = "q") -> Staging:
    """The name of what one task stages."""
    return Staging(query, batch, partition, name)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.list_view(pa.int64())], ids=str)
def test_rows_of_views_are_kept_whatever_arrow_can_tell_of_their_size(
    run: asyncio.Runner, store: Store, kind: pa.DataType
) -> None:
    value: object = [7] if pa.types.is_list_view(kind) else "a text that is too long to be kept within a view"
    batch = pa.record_batch([pa.array([value], kind)], ["content"])

    async def read() -> list[pa.RecordBatch]:
        place = await opened(store, batch.schema)
        await place.append(0, [batch, batch])
        return await place.read(0, 2)

    kept = pa.Table.from_batches(run.run(read()))
    assert kept["content"].combine_chunks().to_pylist() == 2 * batch["content"].to_pylist()


def test_a_new_channel_is_empty_and_open(store: Store) -> None:
    kept = store.open_channel("orders/0", parameters=PARAMETERS, consumers=CONSUMERS).load()
    assert (kept.next_row, kept.acknowledged, kept.producers, kept.schema) == (0, None, {}, None)
    assert (kept.state, kept.staged) == (ChannelState.OPEN, ())
    assert kept.log_id


def test_every_channel_has_a_log_of_its_own(store: Store) -> None:
    logs = {
        store.open_channel(name, parameters=PARAMETERS, consumers=CONSUMERS).load().log_id for name in ("a/0", "a/1")
    }
    assert len(logs) == 2


@pytest.mark.parametrize("wanted", [(0, 9), (0, 0), (0, 1), (2, 4), (3, 7), (8, 9), (9, 9)])
def test_any_range_of_what_was_appended_can_be_read(
    run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers, wanted: tuple[int, int]
) -> None:
    async def read() -> list[pa.RecordBatch]:
        place = await opened(store, rows(0, 0).schema)
        await place.append(0, [rows(0, 3), rows(3, 1)])
        await place.append(4, [rows(4, 5)])
        return await place.read(*wanted)

    assert numbers(run.run(read())) == list(range(*wanted))


def test_what_some_consumer_needs_can_be_read_after_others_have_acknowledged_it(
    run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers
) -> None:
    async def read() -> list[pa.RecordBatch]:
        place = await opened(store, rows(0, 0).schema)
        for first_row in range(0, 100, 10):
            await place.append(first_row, [rows(first_row, 10)])
        await place.acknowledge("default", 100, 0)
        await place.acknowledge("audit", 35, 35)
        await place.append(100, [rows(100, 10)])
        return await place.read(35, 110)

    assert numbers(run.run(read())) == list(range(35, 110))


def test_acknowledging_all_there_is_again_and_again_changes_nothing(
    run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers
) -> None:
    async def read() -> list[pa.RecordBatch]:
        place = await opened(store, rows(0, 0).schema)
        for consumer in (*CONSUMERS, *CONSUMERS):
            await place.acknowledge(consumer, 0, 0)
        for next_row in (10, 20):
            await place.append(next_row - 10, [rows(next_row - 10, 10)])
            for consumer in (*CONSUMERS, *CONSUMERS):
                await place.acknowledge(consumer, next_row, next_row)
        await place.append(20, [rows(20, 10)])
        return await place.read(20, 30)

    assert numbers(run.run(read())) == list(range(20, 30))


def test_batches_of_a_reader_outlive_their_place_in_the_store(
    run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers
) -> None:
    async def read() -> list[pa.RecordBatch]:
        place = await opened(store, rows(0, 0).schema)
        await place.append(0, [rows(0, 10)])
        batches = await place.read(0, 10)
        await place.acknowledge("default", 10, 10)
        return batches

    assert numbers(run.run(read())) == list(range(10))


def test_nobody_sees_what_is_staged_before_it_is_published(
    run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers
) -> None:
    async def read() -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        place = await opened(store, rows(0, 0).schema)
        await place.append(0, [rows(0, 2)])
        await place.stage(attempt(0), [rows(2, 3), rows(5, 1)])
        await place.stage(attempt(0), [rows(6, 4)])
        before = await place.read(0, 2)
        await store.publish("q", 0, [PublishedPart("orders/0", attempt(0), 2)])
        return before, await place.read(0, 10)

    before, after = run.run(read())
    assert (numbers(before), numbers(after)) == ([0, 1], list(range(10)))


def test_of_a_batch_the_named_attempts_are_published_in_order_and_the_others_are_gone(
    run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers
) -> None:
    async def read() -> list[pa.RecordBatch]:
        place = await opened(store, rows(0, 0).schema)
        for staging, first in ((attempt(1, 1), 30), (attempt(1, 0), 20), (attempt(1, 0, "b"), 90), (attempt(0), 80)):
            await place.stage(staging, [rows(first, 2)])
        parts = [PublishedPart("orders/0", attempt(1, 0), 0), PublishedPart("orders/0", attempt(1, 1), 2)]
        await store.publish("q", 1, parts)
        # The same name again is another attempt; and a later batch stands behind.
        await place.stage(attempt(2), [rows(40, 2)])
        without_rows = PublishedPart("orders/0", attempt(2, 1, "without rows"), 6)
        await store.publish("q", 2, [PublishedPart("orders/0", attempt(2), 4), without_rows])
        return await place.read(0, 6)

    assert numbers(run.run(read())) == [20, 21, 30, 31, 40, 41]
    assert store.published_batches() == {"q": 2}


def test_publishing_concerns_one_query_and_the_channels_that_are_named(
    run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers
) -> None:
    async def read() -> list[list[pa.RecordBatch]]:
        first, second = await opened(store, rows(0, 0).schema, "a/0"), await opened(store, rows(0, 0).schema, "a/1")
        other = attempt(0, query="other")
        await first.stage(attempt(5), [rows(0, 1)])
        await second.stage(attempt(5, 1), [rows(10, 1)])
        await first.stage(other, [rows(20, 1)])
        await store.publish("q", 5, [PublishedPart("a/0", attempt(5), 0), PublishedPart("a/1", attempt(5, 1), 0)])
        await store.publish("other", 0, [PublishedPart("a/0", other, 1)])
        return [await first.read(0, 2), await second.read(0, 1)]

    assert [numbers(batches) for batches in run.run(read())] == [[0, 20], [10]]
    assert store.published_batches() == {"q": 5, "other": 0}


def test_queries_are_remembered_in_the_order_in_which_they_published_or_not_at_all(
    run: asyncio.Runner, store: Store
) -> None:
    async def publish() -> None:
        for query, batch in (("a", 0), ("b", 0), ("c", 4), ("a", 1)):
            await store.publish(query, batch, [])
        await store.publish("d", 0, [], ["b", "never here"])

    run.run(publish())
    assert [*store.published_batches().items()] == [("c", 4), ("a", 1), ("d", 0)]


def test_what_is_forgotten_can_be_staged_anew(run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers) -> None:
    async def read() -> list[pa.RecordBatch]:
        place = await opened(store, rows(0, 0).schema)
        await place.stage(attempt(0), [rows(90, 2)])
        await place.forget([attempt(0), attempt(7, name="never here")])
        await place.stage(attempt(0), [rows(0, 2)])
        await store.publish("q", 0, [PublishedPart("orders/0", attempt(0), 0)])
        return await place.read(0, 2)

    assert numbers(run.run(read())) == [0, 1]


def test_a_name_is_free_again_once_its_channel_is_removed(
    run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers
) -> None:
    async def read() -> list[pa.RecordBatch]:
        place = await opened(store, rows(0, 0).schema)
        await place.append(0, [rows(90, 10)], "p", 10)
        await place.stage(attempt(0), [rows(90, 2)])
        place.remove()
        place = await opened(store, rows(0, 0).schema)
        await place.append(0, [rows(0, 3)])
        return await place.read(0, 3)

    assert numbers(run.run(read())) == [0, 1, 2]


def test_channels_and_acknowledgements_may_be_written_at_the_same_time(
    run: asyncio.Runner, store: Store, rows: Rows, numbers: Numbers
) -> None:
    async def feed(place: ChannelStore) -> list[pa.RecordBatch]:
        for first_row in range(0, 60, 3):
            async with asyncio.TaskGroup() as group:
                group.create_task(place.append(first_row, [rows(first_row, 3)]))
                group.create_task(place.acknowledge("default", max(0, first_row - 6), max(0, first_row - 6)))
                group.create_task(place.stage(attempt(0), [rows(first_row, 1)]))
        return await place.read(51, 60)

    async def feed_all() -> list[list[pa.RecordBatch]]:
        places = [await opened(store, rows(0, 0).schema, f"orders/{number}") for number in range(4)]
        return await asyncio.gather(*map(feed, places))

    assert [numbers(batches) for batches in run.run(feed_all())] == [list(range(51, 60))] * 4
