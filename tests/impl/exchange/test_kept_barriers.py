"""A channel that keeps its rows keeps barriers in their places, and a store on disk keeps them across restarts."""

import pytest

from permitflow import ChannelParameters, Demand, GateParameters, Parameters
from permitflow.client import Staging, control, put
from permitflow.errors import RetentionError
from permitflow.exchange import Exchange, ExchangeServer, ReplayChannel, Retention
from permitflow.exchange.books.kept_barriers import MOST_BARRIERS
from permitflow.stream.control import ChannelRow, KeptBarrier
from tests.support.kept_rows import SCHEMA, read, refused, rows, serving
from tests.support.number_streams import CHANNEL, SMALL
from tests.support.turns import until

FLOWS = [SMALL, ChannelParameters(row_permits=64), Demand(size=1, batch=1), GateParameters(inputs=1)]


def places(channel: ReplayChannel, consumer: str = "") -> list[tuple[int, int]]:
    """The barriers that the consumer has not passed: number and row of each."""
    return [(barrier.number, barrier.row) for barrier in channel.position(consumer).barriers]


@pytest.mark.parametrize("parameters", FLOWS, ids=["small", "large", "demand", "gate"])
async def test_barriers_stand_where_they_were_sent_with_every_flow(listen: str, parameters: Parameters) -> None:
    exchange = Exchange()
    exchange.add_channel(CHANNEL, parameters, SCHEMA, retention=Retention.REPLAY, kept_rows=64)
    async with ExchangeServer(exchange, listen) as server, put(server.address, CHANNEL, SCHEMA) as sender:
        for row in range(4):
            await sender.send(rows(row, row + 1))
            await sender.send_barrier(10 * row + 1)
        await sender.send_barrier()
        await sender.end(closes_channel=True)
        async with control(server.address) as orders:
            (position,) = await orders.positions([CHANNEL])
        assert [*map(tuple, position.barriers)] == [(1, 1), (11, 2), (21, 3), (31, 4), (32, 4)]
        assert all(isinstance(barrier, KeptBarrier) for barrier in position.barriers)
        assert await read(server.address) == [0, 1, 2, 3]


async def test_a_consumer_acknowledges_barriers_and_may_name_the_next() -> None:
    async with serving("etl", "audit") as (channel, address), control(address) as orders:
        for number in (1, 2):
            await channel.append(rows(2 * number - 2, 2 * number))
            await channel.keep_barrier(number)
        await channel.keep_barrier(3)
        (position,) = await orders.acknowledge([ChannelRow(CHANNEL, 4, next_barrier=3)], consumer="etl")
        assert position.barriers == (KeptBarrier(3, 4),)
        assert places(channel, "audit") == [(1, 2), (2, 4), (3, 4)]
        await orders.acknowledge({CHANNEL: 4}, consumer="etl")
        await orders.acknowledge({CHANNEL: 2}, consumer="audit")
        assert (places(channel, "etl"), places(channel, "audit")) == ([], [(2, 4), (3, 4)])


async def test_a_producer_waits_until_there_is_room_for_its_barrier() -> None:
    async with serving() as (channel, address), put(address, CHANNEL, SCHEMA) as sender:
        for number in range(1, MOST_BARRIERS + 1):
            await channel.keep_barrier(number)
        await sender.send_barrier(1_000)
        await sender.send(rows(0, 1))
        await until(lambda: channel.waiting.running == 1)
        assert channel.position().next_row == 0
        await channel.acknowledge(0)
        await sender.end()
        assert places(channel) == [(1_000, 0)]


async def test_a_position_tells_the_rows_that_wait_for_room() -> None:
    async with serving() as (channel, address), put(address, CHANNEL, SCHEMA) as sender:
        limit = channel.books.limit_rows
        await channel.append(rows(0, limit - 1))
        assert channel.position().waiting_rows == 0
        await sender.send(rows(limit - 1, limit + 1))
        await until(lambda: channel.waiting.running == 1)
        assert channel.position().waiting_rows == 2
        assert 0 < channel.position().waiting_seconds <= channel.waiting.seconds
        await channel.acknowledge(1)
        # Also before the producer has heard of it.
        assert channel.position().waiting_rows == 0
        await sender.end()


async def test_an_invalid_barrier_number_ends_the_stream_and_rows_stay() -> None:
    async with serving() as (channel, address):
        async with put(address, CHANNEL, SCHEMA, producer="p") as sender:
            await sender.send(rows(0, 2))
            await sender.send_barrier("epoch 1")
            with pytest.raises(RetentionError, match="keeps of a barrier its number only, and 'epoch 1' is none"):
                await sender.end()
        assert (channel.rows_of("p"), places(channel)) == (2, [])


async def test_staged_rows_have_no_barriers() -> None:
    async def stage(address: str) -> None:
        async with put(address, CHANNEL, SCHEMA, staging=Staging("q", 0, 0, "a")) as sender:
            await sender.send_barrier(1)
            await sender.end()

    async with serving() as (_, address):
        error = await refused(stage(address), RetentionError)
        assert "keeps staged rows of this producer, and no barrier" in str(error)
