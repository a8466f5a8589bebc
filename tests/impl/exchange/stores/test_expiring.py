"""Kept rows expire by time and by bytes: who needed them is told, and all others go on."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from permitflow.client import StagedPart, Staging, control, get, put
from permitflow.errors import InvalidParametersError, RowsExpiredError, StoreWriteError
from permitflow.exchange import Exchange, ExchangeServer, ReplayChannel, Retention, Store
from permitflow.exchange.channels import expiring
from tests.support.kept_rows import SCHEMA, fill, numbers, read, refused, rows
from tests.support.number_streams import CHANNEL, SMALL
from tests.support.simulated_time import Clock
from tests.support.stored_rows import OpenStore
from tests.support.turns import turns, until

HOUR_SECONDS = 3600.0


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiring, "LOOK_SECONDS", 0.001)


@asynccontextmanager
async def serving(
    *consumers: str,
    store: Store | None = None,
    kept_rows: int = 8,
    expire_seconds: float | None = HOUR_SECONDS,
    expire_bytes: int | None = None,
    listen: str = "127.0.0.1:0",
    is_late: bool = False,
) -> AsyncIterator[tuple[ReplayChannel, str, Clock]]:
    store, clock = store or Store(), Clock(1e9)
    store.clock = clock
    exchange = Exchange(store=store)

    def add() -> ReplayChannel:
        return exchange.add_channel(
            CHANNEL,
            SMALL,
            retention=Retention.REPLAY,
            consumers=consumers or ("default",),
            kept_rows=kept_rows,
            expire_seconds=expire_seconds,
            expire_bytes=expire_bytes,
        )

    before = None if is_late else add()
    async with ExchangeServer(exchange, listen) as server:
        channel = before or add()
        yield channel, server.address, clock


async def has_expired(channel: ReplayChannel, row: int) -> None:
    await until(lambda: channel.books.expired_row == row)


async def test_what_is_prepared_outlives_rows_that_expire() -> None:
    async with serving() as (channel, address, clock), control(address) as orders:
        await fill(address, 0, 4)
        async with put(address, CHANNEL, SCHEMA, staging=Staging("q", 0, 0, "x")) as sender:
            await sender.send(rows(4, 6))
            await sender.end(closes_channel=False)
        part = StagedPart(CHANNEL, 0, "x", 2)
        await orders.prepare("q", 0, [part])
        clock.seconds += HOUR_SECONDS
        await has_expired(channel, 4)
        assert not (await orders.publish("q", 0, [part])).was_published
        assert await read(address, 4, 6) == [4, 5]


async def test_a_consumer_of_expired_rows_is_told_and_may_go_on() -> None:
    async with serving("etl", "audit") as (channel, address, clock), control(address) as orders:
        await fill(address, 0, 4)
        await orders.acknowledge({CHANNEL: 3}, consumer="etl")
        clock.seconds += HOUR_SECONDS
        await has_expired(channel, 4)
        await fill(address, 4, 6, closes=True)
        error = await refused(read(address, consumer="audit"), RowsExpiredError)
        assert (error.wanted_row, error.first_kept_row) == (0, 4)
        (position,) = await orders.positions([CHANNEL], consumer="audit")
        assert (position.acknowledged_row, position.expired_row, position.first_row) == (0, 4, 4)
        assert await read(address, 4, consumer="audit") == [4, 5]
        await orders.acknowledge({CHANNEL: 4}, consumer="audit")
        assert await read(address, consumer="audit") == [4, 5]
        assert (await refused(read(address, consumer="etl"), RowsExpiredError)).wanted_row == 3


async def test_a_producer_that_waits_goes_on_when_rows_expire() -> None:
    async with serving(kept_rows=2) as (channel, address, clock), put(address, CHANNEL, SCHEMA) as sender:
        await sender.send(rows(0, 2))
        await sender.send(rows(2, 3))
        await until(lambda: channel.waiting.running == 1)
        clock.seconds += HOUR_SECONDS
        await sender.end()
        assert channel.books.next_row == 3


async def test_a_reader_in_the_middle_of_rows_that_expire_is_told() -> None:
    async with serving(kept_rows=64) as (channel, address, _):
        await fill(address, 0, 20)
        async with get(address, CHANNEL) as receiver:
            await receiver.receive()
            await channel.expire(20)
            error = await refused(numbers(receiver), RowsExpiredError)
        assert 1 <= error.wanted_row < 20


async def test_the_oldest_rows_expire_above_the_bytes() -> None:
    size_bytes = rows(0, 4).nbytes
    async with serving(kept_rows=64, expire_seconds=None, expire_bytes=2 * size_bytes) as (channel, address, _):
        for row in range(0, 20, 4):
            await channel.append(rows(row, row + 4))
        await has_expired(channel, 12)
        assert await read(address, 12, 20) == [*range(12, 20)]
        async with control(address) as orders:
            (traffic,) = (await orders.statistics([CHANNEL])).channels
        assert (traffic.expired_rows, traffic.rows_out) == (12, 12)
        assert traffic.kept is not None
        assert (traffic.kept.expired_row, traffic.kept.kept_rows, traffic.kept.lag_rows) == (12, 8, {"default": 20})
        assert traffic.kept.kept_bytes == 2 * size_bytes


async def test_rows_that_all_have_acknowledged_do_not_count_as_expired() -> None:
    async with serving() as (channel, address, clock), control(address) as orders:
        await fill(address, 0, 4)
        await orders.acknowledge({CHANNEL: 4})
        clock.seconds += HOUR_SECONDS
        await fill(address, 4, 5)
        clock.seconds += HOUR_SECONDS
        await has_expired(channel, 5)
        assert channel.statistics().expired_rows == 1


async def test_what_has_expired_stays_so_when_the_exchange_starts_again(open_store: OpenStore) -> None:
    async with serving(store=open_store()) as (channel, address, clock):
        await fill(address, 0, 4)
        await channel.keep_barrier(7)
        await fill(address, 4, 6)
        clock.seconds += HOUR_SECONDS
        await has_expired(channel, 6)
    async with serving(store=open_store()) as (channel, address, _):
        assert (channel.books.expired_row, channel.position().barriers) == (6, ())
        await fill(address, 6, 8)
        await refused(read(address), RowsExpiredError)
        assert await read(address, 6, 8) == [6, 7]
        assert channel.statistics().expired_rows == 0


async def test_rows_of_a_store_expire_though_none_come(open_store: OpenStore) -> None:
    async with serving(store=open_store()) as (_, address, _):
        await fill(address, 0, 4)
    async with serving(store=open_store()) as (channel, address, clock):
        clock.seconds += HOUR_SECONDS
        await has_expired(channel, 4)
        await fill(address, 4, 6)
    async with serving(store=open_store(), is_late=True) as (channel, _, clock):
        clock.seconds += 2 * HOUR_SECONDS
        await has_expired(channel, 6)


async def test_nothing_holds_an_exchange_whose_last_server_is_closed() -> None:
    async with serving() as (channel, address, _):
        await fill(address, 0, 4)
        async with put(address, CHANNEL, SCHEMA, staging=Staging("q", 0, 0, "x")) as sender:
            await sender.send(rows(4, 6))
            await sender.end(closes_channel=False)
    left = weakref.ref(channel)
    del channel
    gc.collect()
    assert left() is None


async def test_a_server_stops_after_the_expiry_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(listen="tcp://127.0.0.1:0") as (channel, _, clock):
        await channel.append(rows(0, 4))
        begun, right = asyncio.Event(), channel.store.expire

        async def expire(row: int, next_barrier: int = 0) -> None:
            begun.set()
            await turns()
            await right(row, next_barrier)

        monkeypatch.setattr(channel.store, "expire", expire)
        clock.seconds += HOUR_SECONDS
        await begun.wait()
    assert channel.books.expired_row == 4


async def test_a_store_that_fails_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as (channel, address, clock):
        await fill(address, 0, 4)
        failures = 0
        right = channel.store.expire

        async def expire(row: int, next_barrier: int = 0) -> None:
            nonlocal failures
            failures += 1
            if failures < 3:
                raise StoreWriteError(path="store", reason="no space")
            await right(row, next_barrier)

        monkeypatch.setattr(channel.store, "expire", expire)
        clock.seconds += HOUR_SECONDS
        await has_expired(channel, 4)
        assert failures == 3


@pytest.mark.parametrize("wrong", [{"expire_seconds": 0.0}, {"expire_seconds": float("nan")}, {"expire_bytes": 0}])
def test_limits_that_are_none_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidParametersError, match="expire_"):
        Exchange().add_channel("c", retention=Retention.REPLAY, **wrong)  # type: ignore[call-overload]


async def test_an_administrator_adds_a_stream_whose_rows_expire() -> None:
    exchange = Exchange()
    async with ExchangeServer(exchange) as server:
        with pytest.raises(InvalidParametersError, match="retention 'replay' only"):
            async with control(server.address) as orders:
                await orders.add_stream("once", expire_seconds=1.0)
        async with control(server.address) as orders:
            await orders.add_stream("log", retention=Retention.REPLAY, expire_bytes=1)
        channel = exchange.replay_channel("log/0")
        for row in (0, 1):
            await channel.append(rows(row, row + 1))
        await has_expired(channel, 1)
