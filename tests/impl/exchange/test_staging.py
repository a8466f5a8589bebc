"""Staged rows: invisible until published, once, or refused; a slow consumer stops the writers.

Writers as Spark has them: attempts fail, run on late, and are repeated; batches are run again.  An exchange with a
store on disk starts again: what is staged and published is neither lost nor repeated.
"""

import asyncio
import contextlib
import errno
import os
import random
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import ChannelState, RemoteSender, StagedPart, Staging, control, get, put
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    ChannelInUseError,
    ChannelRemovedError,
    InvalidParametersError,
    PreparedRowsError,
    RetentionError,
    StagedPartError,
    StoreWriteError,
    UnknownChannelError,
)
from permitflow.exchange import Exchange, ExchangeServer, ReplayChannel, Retention, SqliteStore
from permitflow.exchange.serving import carry_out
from permitflow.stream.control import Close, RemoveChannels
from permitflow.stream.traffic import KeptRows
from tests.support.kept_rows import refused
from tests.support.turns import turns, until

STAGING_ROWS = 16
CHANNELS = ("a", "b")

_WINDOW = ChannelParameters(row_permits=8, permit_batch=2)
_SCHEMA = pa.schema([("n", pa.int64())])


class World:
    """A served exchange with two channels, and a query that writes into them."""

    def __init__(self, exchange: Exchange, address: str) -> None:
        self.exchange = exchange
        self.address = address

    def attempt(
        self, partition: int = 0, attempt: str = "x", *, batch: int = 0, channel: str = "a"
    ) -> AbstractAsyncContextManager[RemoteSender]:
        return put(self.address, channel, _SCHEMA, staging=Staging("q", batch, partition, attempt))

    async def stage(
        self, numbers: list[int], partition: int = 0, attempt: str = "x", *, batch: int = 0, channel: str = "a"
    ) -> StagedPart:
        async with self.attempt(partition, attempt, batch=batch, channel=channel) as sender:
            await sender.send(chunk(numbers))
            await sender.end()
        return StagedPart(channel, partition, attempt, len(numbers))

    async def fail(self, partition: int, attempt: str, *, batch: int = 0, channel: str = "a") -> None:
        with contextlib.suppress(RuntimeError):
            async with self.attempt(partition, attempt, batch=batch, channel=channel) as sender:
                await sender.send(chunk([-1, -2]))
                raise RuntimeError("the disk is on fire")

    async def publish(self, *parts: StagedPart, batch: int = 0) -> bool:
        """Publish a batch; had it been published before?"""
        async with control(self.address) as orders:
            return (await orders.publish("q", batch, parts)).was_published

    async def read(self, rows: int, channel: str = "a") -> list[int]:
        return await read(self.exchange.replay_channel(channel), rows)

    def kept(self) -> KeptRows:
        """Of channel ``a``."""
        (told,) = self.exchange.statistics(["a"])
        assert told.kept is not None
        return told.kept

    def next_row(self, channel: str = "a") -> int:
        return self.exchange.replay_channel(channel).position().next_row


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    exchange = Exchange(parameters=_WINDOW)
    for name in CHANNELS:
        exchange.add_channel(name, retention=Retention.REPLAY, staging_rows=STAGING_ROWS)
    async with ExchangeServer(exchange, "tcp://127.0.0.1:0") as server:
        yield World(exchange, server.address)
    for name in CHANNELS:
        await exchange.remove_channel(name)


def chunk(numbers: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], _SCHEMA)


async def test_rows_are_seen_when_their_batch_is_published_in_order() -> None:
    async with world() as here:
        last = await here.stage([5, 6], 2)
        other = await here.stage([7], 1, channel="b")
        first = await here.stage([1, 2, 3], 0)
        assert (here.next_row("a"), here.next_row("b"), here.kept().staged_rows) == (0, 0, 5)
        assert not await here.publish(last, other, first)
        assert await here.read(5) == [1, 2, 3, 5, 6]
        assert await here.read(1, "b") == [7]


async def test_a_slow_consumer_stops_the_writers_of_the_next_batch() -> None:
    async with world() as here, asyncio.TaskGroup() as group:
        assert not await here.publish(await here.stage([*range(16)]))
        assert here.next_row() == 16
        assert here.kept().published_rows == 8, "the others have permits"
        writing = group.create_task(here.stage([*range(16, 32)], batch=1))
        await until(lambda: len(here.exchange.staging.area("a").line) == 1)
        assert here.kept().staged_rows + here.kept().published_rows <= STAGING_ROWS
        assert not writing.done()
        assert await here.read(16) == [*range(16)]
        assert not await here.publish(await writing, batch=1)
        assert await here.read(16) == [*range(16, 32)]
        assert here.exchange.statistics(["a"])[0].waiting_seconds > 0


async def test_a_channel_that_is_closed_ends_behind_all_that_was_published() -> None:
    async with world() as here, control(here.address) as orders:
        assert not await here.publish(await here.stage([*range(16)]))
        (position,) = await orders.close_channels(["a"])
        assert (position.state, position.next_row) == (ChannelState.ENDED, 16)
        late = StagedPart("b", 0, "x", 0)
        with pytest.raises(ChannelClosedError):
            await here.stage([1], batch=1)
        numbers: list[int] = []
        async for batch in here.exchange.replay_channel("a").read():
            numbers += batch.column(0).to_pylist()
            await here.exchange.replay_channel("a").acknowledge(len(numbers))
        assert numbers == [*range(16)]
        assert await here.publish(late), "it was, and the channel was open then"
        again = await here.stage([*range(16)], attempt="again")
        assert await here.publish(again), "a driver that runs the last batch again need not know that it was"


async def test_refusals_of_staging_are_typed_errors() -> None:
    async with world() as here:
        here.exchange.add_channel("once")
        with pytest.raises(RetentionError):
            await here.stage([1], channel="once")
        with pytest.raises(UnknownChannelError):
            await here.publish(StagedPart("nowhere", 0, "x", 1))
        with pytest.raises(InvalidParametersError, match="attempt"):
            await here.stage([1], attempt="")
        async with here.attempt(attempt="y"):
            with pytest.raises(StagedPartError, match="has begun before"):
                await here.stage([1], attempt="y")
        await here.exchange.remove_channel("once")


WINDOW = ChannelParameters(row_permits=4, permit_batch=1)
FEW_ROWS = 12


@contextmanager
def exchange_in(folder: Path, **options: Any) -> Iterator[tuple[Exchange, ReplayChannel]]:
    """An exchange with one channel; at the end of the block its process is gone."""
    with SqliteStore(folder) as store:
        exchange = Exchange(parameters=WINDOW, store=store, **options)
        channel = exchange.add_channel("a", retention=Retention.REPLAY, staging_rows=FEW_ROWS)
        try:
            yield exchange, channel
        finally:
            exchange.staging.stop()


def chunks(numbers: list[int]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"n": pa.array([number], pa.int64())}) for number in numbers]


async def stage(
    exchange: Exchange, numbers: list[int], batch: int, *, ends: bool = True, channel: str = "a"
) -> StagedPart:
    name = f"attempt at {numbers} {random.random()}"
    pieces = chunks(numbers)
    await exchange.replay_channel(channel).declare(pieces[0].schema)
    part = exchange.staging.open(channel, Staging("q", batch, 0, name))
    done = 0
    while done < len(pieces):
        done += await exchange.staging.stage(part, pieces[done:])
    if ends:
        exchange.staging.end(part)
    return StagedPart(channel, 0, name, len(numbers))


async def read(channel: ReplayChannel, rows: int) -> list[int]:
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


async def test_only_ended_attempts_can_be_published_after_a_restart(tmp_path: Path) -> None:
    with exchange_in(tmp_path) as (exchange, _):
        whole = await stage(exchange, [1, 2, 3], 0)
        torn = await stage(exchange, [1, 2], 0, ends=False)
    with exchange_in(tmp_path) as (exchange, channel):
        assert exchange.staging.area("a").staged_rows == 5
        with pytest.raises(StagedPartError, match="has staged 2 rows here, and should have 3"):
            await exchange.staging.publish("q", 0, [torn._replace(rows=3)])
        await exchange.staging.publish("q", 0, [whole])
        assert await read(channel, 3) == [1, 2, 3]
        assert exchange.staging.area("a").staged_rows == 0


async def test_what_is_prepared_is_so_after_a_restart_until_rolled_back(tmp_path: Path) -> None:
    with exchange_in(tmp_path) as (exchange, _):
        prepared, _other = await stage(exchange, [1, 2, 3], 0), await stage(exchange, [4], 0)
        assert not await exchange.staging.prepare("q", 0, [prepared])
    with exchange_in(tmp_path) as (exchange, _):
        exchange.staging.books.expire(now=inf)
        assert exchange.staging.area("a").staged_rows == 3
        assert await exchange.staging.rollback(["a"]) == [0], "the query may come yet"
    with exchange_in(tmp_path, staging_timeout_seconds=-1) as (exchange, _):
        assert exchange.staging.in_doubt_rows("a") == 3
        assert await exchange.staging.rollback(["a"]) == [3]
    with exchange_in(tmp_path) as (exchange, channel):
        assert [*channel.found.staged.values()] == [[1]], "the other one, which nobody has forgotten"
        with pytest.raises(StagedPartError, match="is not staged"):
            await exchange.staging.publish("q", 0, [prepared])


@pytest.mark.parametrize("order", ["rollback", "discard"])
async def test_what_cannot_be_forgotten_on_disk_stays_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.EIO, "the disk fails")

    with exchange_in(tmp_path) as (exchange, _):
        part = await stage(exchange, [1, 2, 3], 0)
        await exchange.staging.prepare("q", 0, [part])
    with exchange_in(tmp_path, staging_timeout_seconds=-1) as (exchange, _):
        async with ExchangeServer(exchange) as server, control(server.address) as orders:
            with monkeypatch.context() as disk:
                disk.setattr(os, "write", fails)
                with pytest.raises(StoreWriteError, match="the disk fails"):
                    await (orders.rollback(["a"]) if order == "rollback" else orders.discard("q", 0, [part]))
        assert exchange.staging.in_doubt_rows("a") == 3


async def test_a_channel_that_cannot_be_deleted_on_disk_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.EIO, "the disk fails")

    with exchange_in(tmp_path) as (exchange, channel):
        await channel.declare(_SCHEMA)
        async with ExchangeServer(exchange) as server, control(server.address) as orders, get(server.address, "a"):
            with monkeypatch.context() as disk:
                disk.setattr(os, "write", fails)
                with pytest.raises(StoreWriteError, match="the disk fails"):
                    await orders.remove(["a"], force=True)
            assert [stream.is_live for stream in channel.users] == [True], "its streams go on"
        assert exchange.replay_channel("a") is channel


async def test_a_row_kept_meanwhile_keeps_its_channel_from_being_removed(tmp_path: Path) -> None:
    may_go_on = threading.Event()
    with SqliteStore(tmp_path) as store:
        exchange = Exchange(store=store)
        channel = exchange.add_channel("a", retention=Retention.REPLAY)
        await channel.declare(_SCHEMA)
        store.database.submit(lambda _: may_go_on.wait(60))  # as a disk that is busy
        async with asyncio.TaskGroup() as group:
            group.create_task(channel.append(chunk([1])))
            await until(channel.writing.locked)
            group.create_task(refused(carry_out(exchange, RemoveChannels(("a",))), ChannelInUseError))
            await turns()
            may_go_on.set()
        assert exchange.replay_channel("a") is channel


@pytest.mark.parametrize("order", ["rollback", "discard"])
async def test_what_is_given_up_in_several_channels_is_one_write(tmp_path: Path, order: str) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def be_busy(_: object) -> None:
        begun.set()
        may_go_on.wait(60)

    with SqliteStore(tmp_path) as store:
        exchange = Exchange(store=store, staging_timeout_seconds=-1)
        exchange.add_channels(CHANNELS, retention=Retention.REPLAY)
        parts = [await stage(exchange, [1, 2], 0, channel=channel) for channel in CHANNELS]
        if order == "rollback":
            await exchange.staging.prepare("q", 0, parts)
        commits = store.commits
        store.database.submit(be_busy)
        await until(begun.is_set)
        async with asyncio.TaskGroup() as group:
            staging = exchange.staging
            giving_up = staging.rollback(CHANNELS) if order == "rollback" else staging.discard("q", 0, parts)
            done = group.create_task(giving_up)
            await turns()
            may_go_on.set()
        assert (done.result(), store.commits - commits) == ([2, 2] if order == "rollback" else 4, 2)
        exchange.staging.stop()


async def test_a_channel_may_be_removed_while_its_rollback_is_written(tmp_path: Path) -> None:
    may_go_on = threading.Event()
    with SqliteStore(tmp_path) as store:
        exchange = Exchange(store=store, staging_timeout_seconds=-1)
        exchange.add_channel("a", retention=Retention.REPLAY)
        await exchange.staging.prepare("q", 0, [await stage(exchange, [1, 2], 0)])
        store.database.submit(lambda _: may_go_on.wait(60))  # as a disk that is busy
        async with asyncio.TaskGroup() as group:
            rolling = group.create_task(exchange.staging.rollback(["a"]))
            await turns()
            group.create_task(exchange.remove_channel("a"))
            await turns()
            may_go_on.set()
        assert rolling.result() == [2]
        exchange.staging.stop()


async def test_a_channel_may_be_removed_while_an_attempt_begins(tmp_path: Path) -> None:
    may_go_on = threading.Event()
    with SqliteStore(tmp_path) as store:
        exchange = Exchange(store=store)
        channel = exchange.add_channel("a", retention=Retention.REPLAY)
        async with ExchangeServer(exchange) as server, asyncio.TaskGroup() as group:
            store.database.submit(lambda _: may_go_on.wait(60))  # as a disk that is busy
            group.create_task(refused(World(exchange, server.address).stage([1]), ChannelRemovedError))
            await until(channel.writing.locked)
            group.create_task(exchange.remove_channel("a"))
            await turns()
            may_go_on.set()
        assert not exchange.staging.books.has_staged


async def test_an_attempt_of_a_channel_that_is_over_is_not_prepared(tmp_path: Path) -> None:
    with exchange_in(tmp_path) as (exchange, channel):
        staged = await stage(exchange, [1], 0)
        await channel.end()
        with pytest.raises(ChannelClosedError):
            await exchange.staging.prepare("q", 0, [staged])


async def test_a_channel_with_prepared_rows_is_not_ended_or_removed() -> None:
    async with world() as here:
        prepared, other = await here.stage([1, 2]), await here.stage([3], 1, channel="b")
        await here.exchange.replay_channel("a").append(chunk([0]))
        async with control(here.address) as orders:
            await orders.prepare("q", 0, [prepared])
        for deed in ("ended", "removed"):
            async with control(here.address) as orders:
                order = orders.remove if deed == "removed" else orders.close_channels
                with pytest.raises(PreparedRowsError, match=f"'a' cannot be {deed}: 2 rows .* rollback") as caught:
                    await order(["b", "a"])
            assert (caught.value.rows, caught.value.query, caught.value.batch) == (2, "q", 0)
        async with control(here.address) as orders:
            assert await orders.reset(["a"], force=True) == (("a", 0, 0, 0),)
            assert not await here.publish(prepared, other), "nothing was lost, and no channel was ended"
            assert [at.state for at in await orders.close_channels(CHANNELS)] == [ChannelState.ENDED] * 2


async def test_a_producer_cannot_end_a_channel_with_prepared_rows() -> None:
    async with world() as here:
        prepared = await here.stage([1, 2])
        async with control(here.address) as orders:
            await orders.prepare("q", 0, [prepared])
        async with put(here.address, "a", _SCHEMA) as sender:
            await sender.send(chunk([3]))
            with pytest.raises(PreparedRowsError):
                await sender.end()
        assert not await here.publish(prepared)
        assert await here.read(3) == [3, 1, 2]


async def test_prepared_rows_outlive_a_purge_and_a_broken_channel() -> None:
    async with world() as here, control(here.address) as orders:
        prepared = await here.stage([1, 2])
        await orders.prepare("q", 0, [prepared])
        await orders.purge(["a"])
        await here.exchange.replay_channel("a").break_("a producer gave up")
        with pytest.raises(ChannelAbortedError):
            await here.publish(prepared)
        await orders.reset(["a"])
        assert not await here.publish(prepared)
        assert await here.read(2) == [1, 2]


BOTH = ("b", "a")
ORDERS: dict[str, Callable[[Exchange], Coroutine[Any, Any, object]]] = {
    "close": lambda exchange: carry_out(exchange, Close(BOTH)),
    "remove": lambda exchange: carry_out(exchange, RemoveChannels(BOTH)),
    "a producer's end": lambda exchange: exchange.replay_channel("a").end(),
}


@pytest.mark.parametrize("order", ORDERS)
async def test_no_channel_is_ended_or_removed_while_rows_are_prepared(tmp_path: Path, order: str) -> None:
    may_go_on = threading.Event()
    with SqliteStore(tmp_path) as store:
        exchange = Exchange(store=store)
        exchange.add_channels(CHANNELS, retention=Retention.REPLAY)
        prepared = await stage(exchange, [1, 2], 0)
        store.database.submit(lambda _: may_go_on.wait(60))  # as a disk that is busy
        async with asyncio.TaskGroup() as group:
            preparing = group.create_task(exchange.staging.prepare("q", 0, [prepared]))
            await turns()
            ordered = group.create_task(refused(ORDERS[order](exchange), PreparedRowsError))
            await turns()
            may_go_on.set()
        assert (preparing.result(), ordered.result().rows) == (False, 2)
        assert exchange.replay_channel("b").state is ChannelState.OPEN
        exchange.staging.stop()


async def test_force_drops_prepared_rows_with_their_channel() -> None:
    async with world() as here:
        prepared = await here.stage([1, 2])
        async with control(here.address) as orders:
            await orders.prepare("q", 0, [prepared])
            assert await orders.remove(["a"], force=True) == (("a", 2, 0, 0),)
        here.exchange.add_channel("a", retention=Retention.REPLAY)
        with pytest.raises(StagedPartError, match="is not staged"):
            await here.publish(prepared)


async def test_late_rows_left_by_a_crash_are_forgotten_after_it(tmp_path: Path) -> None:
    late = Staging("q", 0, 0, "late")
    with exchange_in(tmp_path) as (exchange, channel):
        await exchange.staging.publish("q", 0, [await stage(exchange, [1], 0)])
        # They came while the batch was published; the process is killed before it forgets them.
        await channel.store.stage(late, chunks([2, 3]))
    with exchange_in(tmp_path) as (exchange, channel):
        assert [*channel.found.staged] == [late]
        # Of another query, and written after all that was handed to the store before.
        await exchange.staging.publish("other", 0, [])
    with exchange_in(tmp_path) as (_, channel):
        assert channel.found.staged == {}
        assert await read(channel, 1) == [1]


async def test_a_batch_is_not_published_into_a_channel_that_has_ended() -> None:
    async with world() as here, control(here.address) as orders:
        parts = [await here.stage([1], 0, channel="a"), await here.stage([2], 1, channel="b")]
        await orders.close_channels(["b"])
        with pytest.raises(ChannelClosedError):
            await here.publish(*parts)
        assert here.next_row("a") == 0
