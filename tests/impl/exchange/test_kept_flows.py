"""A channel keeps its rows whatever its flow: each once, in order, across a restart, and no more than it may keep."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from examples.own_flow.xon_xoff import XonXoff
from permitflow import ChannelParameters, Demand, Parameters
from permitflow.chunks import DEFAULT_CHUNK_ROWS, DEFAULT_KEPT_ROWS
from permitflow.client import control, get, put
from permitflow.errors import InvalidParametersError
from permitflow.exchange import Exchange, ExchangeServer, ReplayChannel, Retention, SqliteStore
from tests.support.kept_rows import SCHEMA, numbers, read, rows
from tests.support.number_streams import CHANNEL
from tests.support.turns import until

KEPT_ROWS = 39
CHUNK_ROWS = 3
FLOWS: dict[str, Parameters] = {
    "permits": ChannelParameters(row_permits=32, permit_batch=4),
    "permits, pulled": ChannelParameters(row_permits=32, permit_batch=4, initial_permits=0),
    "demand, one by one": Demand(size=1, batch=1),
    "demand": Demand(size=4, initial=0),
    "xon-xoff": XonXoff(16),
}

Life = AbstractAsyncContextManager[tuple[ReplayChannel, str]]


@pytest.fixture(params=FLOWS)
def parameters(request: pytest.FixtureRequest) -> Parameters:
    return FLOWS[request.param]


@pytest.fixture(params=["memory", "sqlite"])
def live(request: pytest.FixtureRequest, parameters: Parameters, tmp_path: Path) -> Callable[[], Life]:
    """Serve a channel: in memory by the same exchange each time, on disk by the next one."""

    def exchange_on(store: SqliteStore | None) -> Exchange:
        exchange = Exchange(parameters=parameters, store=store)
        exchange.add_channel(CHANNEL, retention=Retention.REPLAY, kept_rows=KEPT_ROWS)
        return exchange

    in_memory = exchange_on(None)

    @asynccontextmanager
    async def live() -> AsyncIterator[tuple[ReplayChannel, str]]:
        store = SqliteStore(tmp_path) if request.param == "sqlite" else None
        exchange = in_memory if store is None else exchange_on(store)
        try:
            async with ExchangeServer(exchange, "tcp://127.0.0.1:0") as server:
                yield exchange.replay_channel(CHANNEL), server.address
        finally:
            if store is not None:
                store.close()

    return live


async def produce(address: str, stop: int) -> int:
    """Put rows up to this one, by a producer that comes again; how many of them were kept before."""
    async with put(address, CHANNEL, SCHEMA, producer="p") as sender:
        assert sender.first_row is not None
        for row in range(sender.first_row, stop, CHUNK_ROWS):
            await sender.send(rows(row, min(row + CHUNK_ROWS, stop)))
        await sender.end(closes_channel=False)
        return sender.first_row


async def test_rows_are_kept_once_and_in_order_across_a_restart(live: Callable[[], Life]) -> None:
    async with live() as (channel, address):
        producing = asyncio.create_task(produce(address, 1_000_000))
        await until(lambda: channel.waiting.running == 1)
        producing.cancel()
        await until(lambda: not channel.statistics().producers)
        assert await read(address, 0, KEPT_ROWS) == list(range(KEPT_ROWS))
    async with live() as (channel, address), control(address) as orders:
        (at,) = await orders.acknowledge({CHANNEL: 30})
        assert (at.next_row, at.acknowledged_row, at.limit_rows) == (KEPT_ROWS, 30, KEPT_ROWS)
        assert at.parameters == channel.parameters
        assert await produce(address, 60) == KEPT_ROWS
        assert await read(address, 30, 60) == list(range(30, 60))
    async with live() as (channel, address), get(address, CHANNEL) as receiver:
        assert channel.position().acknowledged_row == 30
        assert await produce(address, 65) == 60
        await channel.end()
        assert await numbers(receiver) == list(range(30, 65)), "who follows gets all that is not acknowledged"


async def test_producers_wait_for_acknowledgements(live: Callable[[], Life]) -> None:
    async with live() as (channel, address), control(address) as orders:
        producing = asyncio.create_task(produce(address, 3 * KEPT_ROWS))
        for acknowledged in range(0, 3 * KEPT_ROWS, 5):
            await orders.acknowledge({CHANNEL: acknowledged})
            await until(lambda: channel.waiting.running == 1 or producing.done())
        await producing
        books = channel.books
        assert books.next_row == 3 * KEPT_ROWS
        assert books.peak_kept_rows <= KEPT_ROWS
        assert channel.statistics().window_rows == KEPT_ROWS


async def test_the_next_exchange_may_keep_fewer_rows(tmp_path: Path) -> None:
    def channel_on(store: SqliteStore, kept_rows: int) -> ReplayChannel:
        return Exchange(store=store).add_channel(
            CHANNEL, Demand(size=1, batch=1), retention=Retention.REPLAY, kept_rows=kept_rows
        )

    with SqliteStore(tmp_path) as store:
        await channel_on(store, 8).append(rows(0, 8))
    with SqliteStore(tmp_path) as store:
        channel = channel_on(store, 4)
        appending = asyncio.create_task(channel.append(rows(8, 12)))
        await until(lambda: channel.waiting.running == 1)
        await channel.acknowledge(7)
        assert channel.waiting.running == 1
        await channel.acknowledge(8)
        await appending
        assert await numbers(channel.read(to_row=12)) == [8, 9, 10, 11]


async def test_the_default_number_of_kept_rows() -> None:
    exchange = Exchange()
    limits = {
        name: exchange.add_channel(name, parameters, retention=Retention.REPLAY).position().limit_rows
        for name, parameters in FLOWS.items()
    }
    windows = dict.fromkeys(("permits", "permits, pulled"), 32)
    assert limits == {**windows, **dict.fromkeys(("demand, one by one", "demand", "xon-xoff"), DEFAULT_KEPT_ROWS)}
    assert exchange.replay_channel("xon-xoff").most_rows == DEFAULT_CHUNK_ROWS
    with pytest.raises(InvalidParametersError, match="kept_rows must be at least 1, not 0"):
        exchange.add_channel("none", retention=Retention.REPLAY, kept_rows=0)
