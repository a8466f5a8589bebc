"""An exchange with a store on disk starts again: what is staged and published is neither lost nor repeated."""

import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import StagedPartError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.protocol.control import ChannelState, StagedPart
from permitflow.protocol.frames import Staging
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

WINDOW = ChannelParameters(row_permits=4, permit_batch=1)
STAGING_ROWS = 12


@contextmanager
def exchange_in(folder: Path) -> Iterator[tuple[Exchange, ReplayChannel]]:
    """An exchange with one channel; at the end of the block its process is gone."""
    with SqliteStore(folder) as store:
        exchange = Exchange(parameters=WINDOW, store=store)
        channel = exchange.add_channel("a", retention=Retention.REPLAY, staging_rows=STAGING_ROWS)
        try:
            yield exchange, channel
        finally:
            exchange.staging.stop()


def chunks(numbers: list[int]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"n": pa.array([number], pa.int64())}) for number in numbers]


async def stage(exchange: Exchange, numbers: list[int], batch: int, *, ends: bool = True) -> StagedPart:
    name = f"attempt at {numbers} {random.random()}"
    pieces = chunks(numbers)
    await exchange.replay_channel("a").log.declare(pieces[0].schema)
    part = exchange.staging.open("a", Staging("q", batch, 0, name))
    done = 0
    while done < len(pieces):
        done += await exchange.staging.stage(part, pieces[done:])
    if ends:
        exchange.staging.end(part)
    return StagedPart("a", 0, name, len(numbers))


async def read(channel: ReplayChannel, rows: int) -> list[int]:
    """The next rows, acknowledged."""
    numbers: list[int] = []
    start = channel.position().acknowledged_row
    async for batch in channel.read(from_row=start):
        numbers += batch.column(0).to_pylist()
        await channel.acknowledge(start + len(numbers))
        if len(numbers) >= rows:
            break
    return numbers


async def test_published_rows_beyond_the_window_are_there_after_a_restart(tmp_path: Path) -> None:
    with exchange_in(tmp_path) as (exchange, channel):
        await exchange.staging.publish("q", 0, [await stage(exchange, [*range(10)], 0)])
        found = await read(channel, 3)
        await channel.end()
    with exchange_in(tmp_path) as (exchange, channel):
        assert (channel.position().next_row, channel.position().state) == (10, ChannelState.ENDED)
        assert await exchange.staging.publish("q", 0, []), "it was published before the restart"
        found += await read(channel, 10 - len(found))
        assert found == [*range(10)]


async def test_what_had_ended_can_be_published_after_a_restart_and_what_had_not_cannot(tmp_path: Path) -> None:
    with exchange_in(tmp_path) as (exchange, _):
        whole = await stage(exchange, [1, 2, 3], 0)
        torn = await stage(exchange, [1, 2], 0, ends=False)
    with exchange_in(tmp_path) as (exchange, channel):
        assert exchange.staging.statistics("a").staged_rows == 5
        with pytest.raises(StagedPartError, match="has staged 2 rows here, and should have 3"):
            await exchange.staging.publish("q", 0, [torn._replace(rows=3)])
        await exchange.staging.publish("q", 0, [whole])
        assert await read(channel, 3) == [1, 2, 3]
        assert exchange.staging.statistics("a").staged_rows == 0


async def test_late_rows_that_were_not_forgotten_before_a_crash_are_forgotten_after_it(tmp_path: Path) -> None:
    late = Staging("q", 0, 0, "late")
    with exchange_in(tmp_path) as (exchange, channel):
        await exchange.staging.publish("q", 0, [await stage(exchange, [1], 0)])
        # They came while the batch was published; the process is killed before it forgets them.
        await channel.log.store.stage(late, chunks([2, 3]))
    with exchange_in(tmp_path) as (exchange, channel):
        assert [part.staging for part in channel.log.found.staged] == [late]
        # Of another query, and written after all that was handed to the store before.
        await exchange.staging.publish("other", 0, [])
    with exchange_in(tmp_path) as (_, channel):
        assert channel.log.found.staged == ()
        assert await read(channel, 1) == [1]


@pytest.mark.parametrize("seed", range(3))
def test_however_often_the_exchange_starts_again_each_row_comes_once_in_order(
    complete: Complete, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    batches = [[*range(first, first + 6)] for first in range(0, 36, 6)]

    async def story() -> list[int]:
        found: list[int] = []
        done = -1
        while done < len(batches) - 1 or len(found) < 36:
            with exchange_in(tmp_path) as (exchange, channel):
                for batch in range(max(done, 0), min(done + 1 + chance.randint(0, 2), len(batches))):
                    # So that there is room: 4 rows have permits, and 12 others have room.
                    while len(found) < 6 * (done + 1) - 4 - 6:
                        found += await read(channel, 1)
                    part = await stage(exchange, batches[batch], batch)
                    was_published = await exchange.staging.publish("q", batch, [part])
                    assert was_published == (batch <= done)
                    done = max(done, batch)
                if len(found) < 6 * (done + 1) and chance.random() < 0.7:
                    found += await read(channel, 1)
        return found

    assert complete(story()) == [*range(36)]
