"""Rows are staged over both carriers, seen by nobody, and published once; a slow consumer stops the writers."""

import asyncio

import pytest

from permitflow.errors import (
    StagedPartError,
)
from permitflow.protocol.control import ChannelState, StagedPart
from tests.support.kept_rows import settle
from tests.support.staging_world import STAGING_ROWS, chunk, world


@pytest.fixture(params=["127.0.0.1:0", "tcp://127.0.0.1:0"], ids=["gRPC", "TCP"])
def address(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_nobody_sees_rows_before_all_of_their_batch_are_published_in_the_order_of_the_partitions(
    address: str,
) -> None:
    async with world(address) as here:
        last = await here.stage([5, 6], 2)
        other = await here.stage([7], 1, channel="b")
        first = await here.stage([1, 2, 3], 0)
        assert (here.next_row("a"), here.next_row("b"), here.staging().staged_rows) == (0, 0, 5)
        assert not await here.publish(last, other, first)
        assert await here.read(5) == [1, 2, 3, 5, 6]
        assert await here.read(1, "b") == [7]


async def test_published_rows_are_in_the_channel_at_once_and_can_be_read_however_small_the_window_is(
    address: str,
) -> None:
    async with world(address) as here:
        assert not await here.publish(await here.stage([*range(16)]))
        channel = here.exchange.replay_channel("a")
        await channel.end()
        for _ in range(2):
            assert [n async for batch in channel.read() for n in batch["n"].to_pylist()] == [*range(16)]


async def test_producers_without_staging_wait_until_the_rows_beyond_the_window_are_acknowledged(address: str) -> None:
    async with world(address) as here, asyncio.TaskGroup() as group:
        assert not await here.publish(await here.stage([*range(12)]))
        channel = here.exchange.replay_channel("a")
        appending = group.create_task(channel.append(chunk([12])))
        await channel.acknowledge(4)
        await settle()
        assert (appending.done(), here.next_row()) == (False, 12), "8 rows hold all 8 permits"
        await channel.acknowledge(5)
        await appending
        assert here.next_row() == 13


async def test_a_batch_that_is_repeated_is_not_published_again(address: str) -> None:
    async with world(address) as here:
        assert not await here.publish(await here.stage([1, 2]))
        again = await here.stage(list(range(100)), attempt="a hundred rows, and room for sixteen")
        assert await here.publish(again)
        assert not await here.publish(await here.stage([3], batch=1), batch=1)
        assert await here.read(3) == [1, 2, 3]


async def test_of_several_attempts_one_is_published_and_who_comes_late_is_not_troubled(address: str) -> None:
    async with world(address) as here, here.attempt(attempt="slow") as slow:
        await slow.send(chunk([-1, -2]))
        twin = await here.stage([-3], attempt="twin")
        assert not await here.publish(await here.stage([1, 2], attempt="fast"))
        await slow.send(chunk([-4] * 50))
        await slow.end()
        assert await here.publish(twin), "as the driver before this one wants"
        assert await here.read(2) == [1, 2]
        assert (await here.until(lambda staged: not staged.attempts)).staged_rows == 0
        assert here.next_row() == 2


async def test_an_attempt_that_breaks_off_is_forgotten_at_once_and_breaks_nothing(address: str) -> None:
    async with world(address) as here:
        await here.fail(0, "first")
        await here.until(lambda staged: not staged.attempts)
        with pytest.raises(StagedPartError, match="is not staged"):
            await here.publish(StagedPart("a", 0, "first", 1))
        assert not await here.publish(await here.stage([1], attempt="second"))
        assert await here.read(1) == [1]
        assert here.exchange.replay_channel("a").position().state is ChannelState.OPEN


async def test_a_slow_consumer_stops_the_writers_of_the_next_batch(address: str) -> None:
    async with world(address) as here, asyncio.TaskGroup() as group:
        assert not await here.publish(await here.stage([*range(16)]))
        assert here.next_row() == 16
        assert here.staging().published_rows == 8, "the others have permits"
        writing = group.create_task(here.stage([*range(16, 32)], batch=1))
        waiting = await here.until(lambda staged: staged.waiting_attempts == 1)
        assert waiting.staged_rows + waiting.published_rows <= STAGING_ROWS
        assert not writing.done()
        assert await here.read(16) == [*range(16)]
        assert not await here.publish(await writing, batch=1)
        assert await here.read(16) == [*range(16, 32)]
        assert here.staging().waiting_seconds > 0
