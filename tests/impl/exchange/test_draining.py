"""How an exchange is emptied before it stops: who is sent away, who may go on, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import EndOutcome, control, get, put
from permitflow.errors import PeerGoneError
from permitflow.exchange import Exchange, ExchangeServer, Retention, SqliteStore, drain
from permitflow.exchange.draining import Remainder, remainder
from tests.support.kept_rows import has_rows
from tests.support.served import served
from tests.support.turns import until

CHUNK = pa.record_batch({"n": pa.array(range(4), pa.int64())})
KEPT, ONCE = "kept/0", "once/0"
# Longer than a test may take: a drain that waits for its end hangs.
LONG_SECONDS = 3_600.0


@asynccontextmanager
async def serving(listen: str, store: SqliteStore | None = None) -> AsyncIterator[tuple[Exchange, str]]:
    """Room for two chunks in each of two channels, one of which keeps its rows."""
    window = ChannelParameters(row_permits=8, permit_batch=1)
    async with served(KEPT, parameters=window, retention=Retention.REPLAY, listen=listen, store=store) as found:
        found[0].add_channel(ONCE)
        yield found


@pytest.mark.parametrize("is_durable", [False, True])
async def test_a_named_producer_that_waits_for_room_is_sent_away_at_once(
    listen: str, tmp_path: Path, is_durable: bool
) -> None:
    async def produce(address: str) -> str:
        try:
            async with put(address, KEPT, CHUNK.schema, producer="p") as sender:
                while True:
                    await sender.send(CHUNK)
        except PeerGoneError as error:
            return error.reason

    async def test(store: SqliteStore | None) -> tuple[str, int]:
        async with serving(listen, store) as (exchange, address), asyncio.TaskGroup() as group:
            producing = group.create_task(produce(address))
            await until(lambda: has_rows(exchange.replay_channel(KEPT), 8))
            await drain(exchange, 0.0)
            return await producing, exchange.replay_channel(KEPT).rows_of("p")

    with SqliteStore(tmp_path) as store:
        reason, rows = await test(store if is_durable else None)
    assert reason == "it is being stopped" + ("; what it has taken over is on disk" if is_durable else "")
    assert rows == 8


async def test_new_producers_are_refused_and_consumers_are_not(listen: str) -> None:
    async with serving(listen) as (exchange, address):
        await exchange.replay_channel(KEPT).append(CHUNK)
        await drain(exchange, 0.0)
        for channel, name in ((KEPT, ""), (KEPT, "p"), (ONCE, "")):
            with pytest.raises(PeerGoneError, match="it is being stopped"):
                async with put(address, channel, CHUNK.schema, producer=name):
                    pass
        async with get(address, KEPT, to_row=4) as receiver:
            assert sum([message.rows async for message in receiver]) == 4


async def test_rows_in_memory_are_waited_for_until_they_are_acknowledged(listen: str) -> None:
    async with serving(listen) as (exchange, address):
        await exchange.replay_channel(KEPT).append(CHUNK)
        async with asyncio.TaskGroup() as group:
            draining = group.create_task(drain(exchange, LONG_SECONDS))
            async with control(address) as orders:
                await orders.acknowledge({KEPT: 3})
                assert not draining.done()
                await orders.acknowledge({KEPT: 4})
            await draining
        assert remainder(exchange) == Remainder({}, {})


async def test_a_channel_that_breaks_by_a_stop_names_the_exchange(listen: str) -> None:
    exchange = Exchange()
    channel = exchange.add_channel(ONCE)
    async with ExchangeServer(exchange, listen) as server, put(server.address, ONCE, CHUNK.schema):
        await server.stop()
    assert channel.statistics().reason.endswith(" is gone: the exchange is being stopped")


async def test_rows_left_in_memory_are_counted(listen: str) -> None:
    async with serving(listen) as (exchange, address):
        await exchange.replay_channel(KEPT).append(CHUNK)
        async with put(address, ONCE, CHUNK.schema) as sender:
            await sender.send(CHUNK)
            await sender.send(CHUNK)
            await exchange.channel(ONCE).receiver.take()
            await drain(exchange, 0.01)
            await sender.end()
        left = remainder(exchange)

    assert left.stored == {}
    assert left.lost[KEPT] == 4
    assert left.lost[ONCE] in (4, 8)


async def test_rows_on_disk_are_not_waited_for(listen: str, tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        async with serving(listen, store) as (exchange, _):
            await exchange.replay_channel(KEPT).append(CHUNK)
            await drain(exchange, LONG_SECONDS)
            assert remainder(exchange) == Remainder({KEPT: 4}, {})


@pytest.mark.parametrize("channel", [KEPT, ONCE])
async def test_a_producer_without_a_name_may_come_to_its_end(listen: str, channel: str) -> None:
    async with serving(listen) as (exchange, address), asyncio.TaskGroup() as group:
        async with put(address, channel, CHUNK.schema) as sender:
            await sender.send(CHUNK)
            draining = group.create_task(drain(exchange, LONG_SECONDS))
            async with get(address, channel) as receiver:
                await sender.send(CHUNK)
                assert not draining.done()
                await sender.end(until=EndOutcome.ACCEPTED)
                assert sum([message.rows async for message in receiver]) == 8
        if channel == KEPT:
            await exchange.replay_channel(KEPT).acknowledge(8)
        await draining
        assert remainder(exchange) == Remainder({}, {})
