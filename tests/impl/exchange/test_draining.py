"""How an exchange is emptied before it stops: who is sent away, who may go on, and for how long."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import PeerGoneError
from permitflow.exchange.draining import Remainder, drain, remainder
from permitflow.exchange.registry import Exchange
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.statistics import BridgeStatistics
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports.grpc_aio import EndOutcome, control, get, put

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

CHUNK = pa.record_batch({"n": pa.array(range(4), pa.int64())})
KEPT, ONCE = "kept/0", "once/0"
# Nobody waits that long: it guards against a hang.
LONG_SECONDS = 20.0


@asynccontextmanager
async def serving(listen: str, store: SqliteStore | None = None) -> AsyncIterator[tuple[Exchange, str]]:
    """Room for two chunks in each of two channels, one of which keeps its rows."""
    exchange = Exchange(parameters=ChannelParameters(row_permits=8, permit_batch=1), store=store)
    exchange.add_channel(KEPT, retention=Retention.REPLAY)
    exchange.add_channel(ONCE)
    async with ExchangeServer(exchange, listen) as server:
        yield exchange, server.address


async def until_kept(exchange: Exchange, rows: int) -> None:
    """Wait until so many rows were taken over."""
    while exchange.replay_channel(KEPT).books.next_row < rows:  # noqa: ASYNC110  # it has no event for that
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_producer_with_a_name_is_sent_away_at_once_also_while_it_waits_for_room(
    complete: Complete, listen: str, tmp_path: Path, is_durable: bool
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
            await until_kept(exchange, 8)
            await drain(exchange, 0.0)
            return await producing, exchange.replay_channel(KEPT).rows_of("p")

    with SqliteStore(tmp_path) as store:
        reason, rows = complete(test(store if is_durable else None))
    assert reason == "it is being stopped" + ("; what it has taken over is on disk" if is_durable else "")
    assert rows == 8


def test_new_producers_are_refused_and_consumers_are_not(complete: Complete, listen: str) -> None:
    async def test() -> int:
        async with serving(listen) as (exchange, address):
            await exchange.replay_channel(KEPT).append(CHUNK)
            await drain(exchange, 0.0)
            for channel, name in ((KEPT, ""), (KEPT, "p"), (ONCE, "")):
                with pytest.raises(PeerGoneError, match="it is being stopped"):
                    async with put(address, channel, CHUNK.schema, producer=name):
                        pass
            async with get(address, KEPT, to_row=4) as receiver:
                return sum([message.rows async for message in receiver])

    assert complete(test()) == 4


def test_rows_in_memory_are_waited_for_until_they_are_acknowledged(complete: Complete, listen: str) -> None:
    async def test() -> Remainder:
        async with serving(listen) as (exchange, address):
            await exchange.replay_channel(KEPT).append(CHUNK)
            async with asyncio.TaskGroup() as group:
                draining = group.create_task(drain(exchange, LONG_SECONDS))
                async with control(address) as orders:
                    await orders.acknowledge({KEPT: 3})
                    assert not draining.done()
                    await orders.acknowledge({KEPT: 4})
                await draining
            return remainder(exchange)

    began = monotonic()
    assert complete(test()) == Remainder({}, {})
    assert monotonic() - began < LONG_SECONDS


def test_rows_that_are_read_once_are_waited_for_as_well(complete: Complete, listen: str) -> None:
    async def test() -> Remainder:
        async with serving(listen) as (exchange, address):
            await exchange.channel(ONCE).sender.send(CHUNK)
            exchange.channel(ONCE).announce(CHUNK.schema)
            exchange.channel(ONCE).end()
            async with asyncio.TaskGroup() as group:
                draining = group.create_task(drain(exchange, LONG_SECONDS))
                await asyncio.sleep(0)
                assert not draining.done()
                async with get(address, ONCE) as receiver:
                    assert sum([message.rows async for message in receiver]) == 4
                await draining
            return remainder(exchange)

    began = monotonic()
    assert complete(test()) == Remainder({}, {})
    assert monotonic() - began < LONG_SECONDS


def test_rows_in_memory_that_nobody_takes_are_counted(complete: Complete, listen: str) -> None:
    async def test() -> Remainder:
        async with serving(listen) as (exchange, address):
            await exchange.replay_channel(KEPT).append(CHUNK)
            async with put(address, ONCE, CHUNK.schema) as sender:
                await sender.send(CHUNK)
                await sender.send(CHUNK)
                await exchange.channel(ONCE).receiver.take()
                await drain(exchange, 0.01)
                await sender.end()
            return remainder(exchange)

    left = complete(test())
    assert left.stored == {}
    assert left.lost[KEPT] == 4
    assert left.lost[ONCE] in (4, 8)


def test_rows_on_disk_are_not_waited_for(complete: Complete, listen: str, tmp_path: Path) -> None:
    async def test() -> Remainder:
        with SqliteStore(tmp_path) as store:
            async with serving(listen, store) as (exchange, _):
                await exchange.replay_channel(KEPT).append(CHUNK)
                await drain(exchange, LONG_SECONDS)
                return remainder(exchange)

    began = monotonic()
    assert complete(test()) == Remainder({KEPT: 4}, {})
    assert monotonic() - began < LONG_SECONDS


@pytest.mark.parametrize("channel", [KEPT, ONCE])
def test_a_producer_without_a_name_may_come_to_its_end(complete: Complete, listen: str, channel: str) -> None:
    async def test() -> Exchange:
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
            return exchange

    assert remainder(complete(test())) == Remainder({}, {})


def test_what_is_left_is_summed_up_without_comparing_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand channels, compared with each other, took a minute to stop."""

    def compared(one: BridgeStatistics, other: object) -> bool:
        raise AssertionError(f"{one.name} is compared with {other}")

    monkeypatch.setattr(BridgeStatistics, "__eq__", compared)
    exchange = Exchange()
    for name, retention in (("a", Retention.ONCE), ("b", Retention.REPLAY), ("c", Retention.REPLAY)):
        exchange.add_channel(name, retention=retention)
    assert remainder(exchange) == Remainder({}, {})


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The channels whose statistics were asked for."""
    names: list[str] = []
    statistics = ReplayChannel.statistics

    def look(channel: ReplayChannel) -> BridgeStatistics:
        names.append(channel.name)
        return statistics(channel)

    monkeypatch.setattr(ReplayChannel, "statistics", look)
    return names


def test_while_one_channel_is_waited_for_no_other_is_looked_at(
    complete: Complete, looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("permitflow.exchange.draining._LOOK_EVERY_SECONDS", 0.001)
    names = [f"kept/{number}" for number in range(100)]

    async def test() -> None:
        exchange = Exchange()
        exchange.add_channels(names, retention=Retention.REPLAY)
        await exchange.replay_channel(names[-1]).append(CHUNK)
        async with asyncio.TaskGroup() as group:
            group.create_task(drain(exchange, LONG_SECONDS))
            while looked_at.count(names[-1]) < 3:  # noqa: ASYNC110  # it has no event for that
                await asyncio.sleep(0.001)
            await exchange.replay_channel(names[-1]).acknowledge(CHUNK.num_rows)

    complete(test())
    others = names[:-1]
    assert looked_at[: len(names)] == names
    assert {*looked_at[len(names) : -len(others)]} == {names[-1]}
    assert looked_at[-len(others) :] == others


def test_looking_takes_a_tenth_of_the_time_at_most(
    complete: Complete, looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    # A look at one channel takes a second.
    monkeypatch.setattr("permitflow.exchange.draining.monotonic", lambda: len(looked_at) + sum(pauses))

    async def test() -> None:
        exchange = Exchange()
        await exchange.add_channel(KEPT, retention=Retention.REPLAY).append(CHUNK)
        with monkeypatch.context() as patch:
            patch.setattr("permitflow.exchange.draining.asyncio.sleep", pause)
            await drain(exchange, 25.0)

    complete(test())
    assert (len(looked_at), pauses) == (3, [9.0, 9.0, 4.0])
