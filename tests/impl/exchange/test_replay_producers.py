"""Producers of channels that keep their rows, over every path: they wait for room, come again, give up."""

import asyncio
from functools import partial

import pyarrow as pa
import pytest

from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    InvalidParametersError,
    ProducerReplacedError,
    RetentionError,
    SchemaMismatchError,
)
from permitflow.protocol.control import ChannelState
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.transports.grpc_aio import put
from tests.support.kept_rows import CHANNEL, SCHEMA, fill, has_rows, read, refused, rows, send_for_ever, serving
from tests.support.number_streams import until

pytestmark = pytest.mark.usefixtures("path")


async def test_a_producer_waits_until_rows_are_acknowledged() -> None:
    async with serving() as (channel, address), asyncio.TaskGroup() as group:
        putting = group.create_task(fill(address, 0, 40, closes=True))
        for row in range(0, 40, 8):
            await until(partial(has_rows, channel, row + 8))
            assert await read(address, row, row + 8) == list(range(row, row + 8))
            if row == 32:
                # All is kept: whoever has put it need not wait for anybody.
                await putting
            assert putting.done() == (row == 32), "it waits for room"
            await channel.acknowledge(row + 8)
    assert channel.log.books.peak_kept_rows == 8


async def test_a_chunk_above_the_largest_is_kept_in_slices_even_if_it_may_travel_whole() -> None:
    whole = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4, oversize=Oversize.WHOLE)
    async with serving(parameters=whole) as (channel, address), asyncio.TaskGroup() as group:
        async with put(address, CHANNEL, SCHEMA) as sender:
            await sender.send(rows(0, 30))
            group.create_task(sender.end(closes_channel=True))
            found: list[int] = []
            while len(found) < 30:
                await until(partial(has_rows, channel, len(found) + 1))
                found += await read(address, len(found), channel.position().next_row)
                await channel.acknowledge(len(found))
            await until(lambda: channel.log.state is ChannelState.ENDED)
        assert found == list(range(30))
        assert channel.log.books.peak_kept_rows <= 8


async def test_a_producer_that_comes_again_goes_on_where_it_was() -> None:
    async with serving(parameters=ChannelParameters(row_permits=100, permit_batch=10)) as (channel, address):
        next_row = 0
        while next_row < 20:
            async with put(address, CHANNEL, SCHEMA, producer="p") as sender:
                assert sender.first_row == next_row
                for row in range(next_row, next_row + 5):
                    await sender.send(rows(row, row + 1))
                await until(partial(has_rows, channel, next_row + 3))
            await until(lambda: not channel.statistics().producers)
            assert channel.log.state is ChannelState.OPEN, "it has only left"
            next_row = channel.log.rows_of("p")
        await fill(address, next_row, next_row + 1, producer="p", closes=True)
        assert await read(address) == list(range(next_row + 1)), "each row once"


async def test_producers_without_a_name_have_no_first_row() -> None:
    async with serving() as (_, address):
        async with put(address, CHANNEL, SCHEMA, producer="p") as named:
            assert named.first_row == 0
            await named.end(closes_channel=False)
        async with put(address, CHANNEL, SCHEMA) as sender:
            assert sender.first_row is None
            await sender.end(closes_channel=False)


async def test_of_two_producers_of_one_name_the_newer_one_goes_on() -> None:
    async with serving(parameters=ChannelParameters(row_permits=20, permit_batch=1)) as (channel, address):
        async with put(address, CHANNEL, SCHEMA, producer="p") as older:
            await older.send(rows(0, 1))
            await until(lambda: channel.log.rows_of("p") == 1)
            async with put(address, CHANNEL, SCHEMA, producer="p") as newer:
                assert newer.first_row == 1
                with pytest.raises(ProducerReplacedError, match="producer 'p' of channel 'orders/0' was replaced"):
                    await send_for_ever(older)
                await newer.send(rows(1, 2))
                await newer.end(closes_channel=True)
        assert await read(address) == [0, 1]


async def test_an_older_producer_that_waits_for_room_makes_way_at_once() -> None:
    async with serving() as (channel, address), asyncio.TaskGroup() as group:
        async with put(address, CHANNEL, SCHEMA, producer="p") as older:
            blocked = group.create_task(refused(send_for_ever(older)))
            await until(lambda: channel.log.waiting.running == 1)
            async with put(address, CHANNEL, SCHEMA, producer="p") as newer:
                assert newer.first_row == 8
                assert isinstance(await blocked, ProducerReplacedError)
                await channel.acknowledge(8)
                await newer.send(rows(8, 9))
                await newer.end(closes_channel=True)
        assert await read(address) == [8]


async def test_a_producer_that_gives_up_breaks_the_channel_and_what_it_has_put_can_be_read() -> None:
    async with serving() as (channel, address):
        async with put(address, CHANNEL, SCHEMA) as sender:
            await sender.send(rows(0, 3))
            await until(lambda: channel.position().next_row == 3)
            sender.abort("no more paper")
        await until(lambda: channel.log.state is ChannelState.BROKEN)
        assert "no more paper" in channel.position().reason
        assert await read(address, 0, 3) == [0, 1, 2]
        error = await refused(read(address))
        assert isinstance(error, ChannelAbortedError)
        assert "no more paper" in str(error)
        assert isinstance(await refused(fill(address, 3, 4)), ChannelAbortedError)


async def test_a_producer_that_gives_up_while_its_rows_wait_for_room_breaks_the_channel_at_once() -> None:
    async with serving() as (channel, address), asyncio.TaskGroup() as group:
        async with put(address, CHANNEL, SCHEMA) as sender:
            blocked = group.create_task(refused(send_for_ever(sender)))
            await until(lambda: channel.log.waiting.running == 1)
            sender.abort("no more paper")
            assert isinstance(await blocked, ChannelClosedError)
        await until(lambda: channel.log.state is ChannelState.BROKEN)
        assert channel.position().next_row == 8
        assert channel.log.waiting.running == 0


async def test_a_name_that_is_a_book_is_refused() -> None:
    async with serving() as (_, address):
        error = await refused(fill(address, 0, 1, producer="p" * 201))
        assert isinstance(error, InvalidParametersError)
        assert "producer must have at most 200 characters" in str(error)
        await fill(address, 0, 1, producer="p" * 200)


async def test_an_error_in_the_block_of_a_named_producer_leaves_the_channel_open() -> None:
    async def stumble(address: str, producer: str) -> None:
        async with put(address, CHANNEL, SCHEMA, producer=producer) as sender:
            await sender.send(rows(0, 1))
            raise ZeroDivisionError

    async with serving() as (channel, address):
        with pytest.raises(ZeroDivisionError):
            await stumble(address, "p")
        await until(lambda: not channel.statistics().producers)
        assert channel.log.state is ChannelState.OPEN
        with pytest.raises(ZeroDivisionError):
            await stumble(address, "")
        await until(lambda: channel.log.state is ChannelState.BROKEN)


async def test_what_is_no_chunk_is_refused_and_what_came_before_is_kept() -> None:
    async with serving() as (channel, address):
        async with put(address, CHANNEL, SCHEMA, producer="p") as sender:
            await sender.send(rows(0, 2))
            await sender.send_barrier("epoch 1")
            with pytest.raises(RetentionError, match="keeps chunks, and knows no barrier"):
                await sender.end()
        assert channel.log.rows_of("p") == 2
        assert await read(address, 0, 2) == [0, 1]


async def test_producers_of_another_schema_or_of_an_ended_channel_are_refused() -> None:
    async with serving() as (channel, address):
        await fill(address, 0, 1)
        with pytest.raises(SchemaMismatchError):
            async with put(address, CHANNEL, pa.schema([("other", pa.string())])):
                pass
        await channel.end()
        assert isinstance(await refused(fill(address, 1, 2)), ChannelClosedError)
        assert await read(address) == [0]
