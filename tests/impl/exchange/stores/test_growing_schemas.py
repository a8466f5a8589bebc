"""Producers may bring more columns: old rows have nulls in them, and readers who know fewer columns get those."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pyarrow as pa
import pytest

from permitflow.client import StagedPart, Staging, control, get, put
from permitflow.errors import SchemaMismatchError
from permitflow.exchange import Exchange, ExchangeServer, ReplayChannel, Retention, Store
from permitflow.wire.schemas import extends, resized
from tests.support.kept_rows import refused
from tests.support.number_streams import CHANNEL
from tests.support.stored_rows import OpenStore

OLD = pa.schema([("n", pa.int64())])
NEW = pa.schema([("n", pa.int64()), ("word", pa.dictionary(pa.int32(), pa.string())), ("list", pa.list_(pa.int8()))])


def old(n: int) -> pa.RecordBatch:
    return pa.record_batch([[n]], schema=OLD)


def new(n: int) -> pa.RecordBatch:
    return pa.record_batch([[n], pa.array(["a"]).dictionary_encode(), [[n]]], schema=NEW)


@asynccontextmanager
async def serving(store: Store | None = None) -> AsyncIterator[tuple[ReplayChannel, str]]:
    exchange = Exchange(store=store)
    channel = exchange.add_channel(CHANNEL, retention=Retention.REPLAY)
    async with ExchangeServer(exchange) as server:
        yield channel, server.address


async def send(address: str, *batches: pa.RecordBatch, staging: Staging | None = None) -> None:
    async with put(address, CHANNEL, batches[0].schema, staging=staging) as sender:
        for batch in batches:
            await sender.send(batch)
        await sender.end(closes_channel=False)


async def read(address: str, to_row: int, schema: pa.Schema | None = None) -> list[tuple[object, ...]]:
    async with get(address, CHANNEL, schema=schema, from_row=0, to_row=to_row) as receiver:
        batches = [message.payload async for message in receiver]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


ROWS = [(0, None, None), (1, "a", [1]), (2, None, None), (3, None, None), (4, "a", [4])]


async def test_readers_get_the_columns_that_they_know_from_any_store(open_store: OpenStore) -> None:
    staging = Staging("q", 0, 0, "a")
    async with serving(open_store()) as (channel, address):
        await send(address, old(0))
        await send(address, old(3), staging=staging)
        await send(address, new(1))
        await send(address, old(2))
        async with control(address) as orders:
            await orders.publish("q", 0, [StagedPart(CHANNEL, 0, "a", 1)])
        assert await read(address, 4) == ROWS[:4]
        assert channel.schema == NEW
    async with serving(open_store()) as (channel, address):
        await send(address, new(4))
        assert await read(address, 5) == await read(address, 5, NEW) == ROWS
        assert await read(address, 5, OLD) == [(n,) for n in range(5)]
        async with control(address) as orders:
            assert [tuple(row.values()) for row in (await orders.peek(CHANNEL, 5)).to_pylist()] == ROWS


async def test_a_reader_keeps_its_columns_when_more_come() -> None:
    async with serving() as (_, address):
        await send(address, old(0))
        async with get(address, CHANNEL) as receiver:
            assert (await receiver.receive()).payload == old(0)
            await send(address, new(1))
            assert (await receiver.receive()).payload.to_pylist() == [{"n": 1}]


async def test_added_columns_allow_nulls_whatever_their_producer_states() -> None:
    stated = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("word", pa.string(), nullable=False)])
    async with serving() as (channel, address):
        first = pa.record_batch([[1], ["a"]], schema=stated)
        await asyncio.gather(channel.append(old(0)), channel.append(first))  # both find a channel without a schema
        await send(address, pa.record_batch([[2], ["b"]], schema=stated))
        assert channel.schema == OLD.append(pa.field("word", pa.string()))
        assert await read(address, 3) == [(0, None), (1, "a"), (2, "b")]


WRONG = {
    "of another type": pa.schema([("n", pa.int32()), ("word", pa.string())]),
    "before the others": pa.schema([("word", pa.string()), ("n", pa.int64())]),
    "with a known name": OLD.append(pa.field("n", pa.string())),
    "without columns": pa.schema([]),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_other_columns_are_refused_with_the_difference(wrong: str) -> None:
    async with serving() as (_, address):
        await send(address, old(0))

        async def come() -> None:
            async with put(address, CHANNEL, WRONG[wrong]):
                pass

        error = await refused(come(), SchemaMismatchError)
        assert "more columns only at the end, and with new names" in str(error)
        said = {"with a known name": "n: string", "without columns": "this producer has nothing more"}
        assert said.get(wrong, "word") in str(error)


async def test_a_reader_that_wants_columns_that_nobody_has_is_refused() -> None:
    async with serving() as (_, address):
        await send(address, old(0))
        await refused(read(address, 1, NEW), SchemaMismatchError)


def test_a_schema_extends_another_one_at_its_end_only() -> None:
    assert extends(NEW, OLD)
    assert not extends(OLD, OLD)
    assert not extends(OLD, NEW)
    assert resized(resized(new(1), OLD), NEW).to_pylist() == [{"n": 1, "word": None, "list": None}]
