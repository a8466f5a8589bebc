"""Rows in memory: small batches are kept together, large ones are where they were."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.exchange.stores.memory import MemoryChannelStore
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.store import ChannelStore
from tests.support.kept_rows import channel

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
def test_large_batches_are_not_copied_wherever_small_ones_stand(
    run: asyncio.Runner, sizes: list[int], found: list[int]
) -> None:
    given = [batch(size) for size in sizes]
    read = run.run(kept(MemoryChannelStore(), given))
    assert [each.num_rows for each in read] == found
    assert pa.Table.from_batches(read).equals(pa.Table.from_batches(given))
    large = [[address_of(each) for each in batches if each.num_rows == LARGE_ROWS] for batches in (given, read)]
    assert large[0] == large[1]


def test_rows_that_no_single_batch_could_hold_are_kept_in_memory_and_on_disk(
    run: asyncio.Runner, tmp_path: Path
) -> None:
    sizes = [1, 1_500_000_000, 1_500_000_000]

    async def lengths(place: ChannelStore) -> list[int]:
        return [len(row) for each in await kept(place, [nulls(size) for size in sizes]) for row in each.column(0)]

    assert run.run(lengths(MemoryChannelStore())) == sizes
    with SqliteStore(tmp_path) as store:
        assert run.run(lengths(channel(store))) == sizes
    with SqliteStore(tmp_path) as store:
        found = run.run(channel(store).read(0, 3))
    assert [len(row) for each in found for row in each.column(0)] == sizes
