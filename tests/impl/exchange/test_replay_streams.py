"""Channels that keep their rows, read and written over every path.

Readers take ranges, several at once, and are told what cannot be read.  Producers wait for room, come again, give up.
"""

import asyncio
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Oversize
from permitflow.client import ChannelState, describe, get, put
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    InvalidParametersError,
    LogReplacedError,
    ProducerReplacedError,
    RetentionError,
    RowsForgottenError,
    RowsNotThereError,
    SchemaMismatchError,
    UnknownConsumerError,
)
from permitflow.exchange import Exchange, ExchangeServer, Retention, Store
from permitflow.stream.session import State
from tests.support.kept_rows import LARGE, SCHEMA, fill, has_rows, read, refused, rows, send_for_ever, serving
from tests.support.number_streams import CHANNEL, SMALL
from tests.support.turns import until

pytestmark = pytest.mark.usefixtures("path")


async def test_ranges_are_read_again_and_again_by_several_readers_at_a_time() -> None:
    async with serving() as (_, address):
        await fill(address, 0, 8)
        ranges = [(0, 8), (3, 5), (0, 8), (7, 8), (4, 4)]
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(read(address, *one)) for one in ranges]
        assert [task.result() for task in reading] == [list(range(*one)) for one in ranges]


async def test_the_agreement_says_which_row_comes_first() -> None:
    async with serving("etl", "audit") as (channel, address):
        await fill(address, 0, 6)
        await channel.acknowledge(4, "audit")
        for consumer, from_row, first_row in (("etl", None, 0), ("audit", None, 4), ("etl", 3, 3), ("audit", 6, 6)):
            async with get(address, CHANNEL, consumer=consumer, from_row=from_row) as receiver:
                assert receiver.first_row == first_row
        async with get(address, CHANNEL, consumer="etl") as receiver:
            assert receiver.stream.startswith("orders/0#get")
        assert await describe(address, CHANNEL) == (SCHEMA, SMALL), "which takes no row"


async def test_a_slow_reader_holds_its_own_window_and_nobody_else() -> None:
    async with serving(schema=SCHEMA, parameters=LARGE) as (channel, address):
        wanted = ChannelParameters(row_permits=4, permit_batch=2)
        async with get(address, CHANNEL, wanted=wanted) as slow, asyncio.TaskGroup() as group:
            group.create_task(fill(address, 0, 64))
            await until(lambda: channel.position().next_row == 64)
            assert await read(address, 0, 64) == list(range(64))
            (end,) = [end for of, end in channel.streams.statistics() if of.stream == slow.stream]
            assert end.sent_rows <= 4
            assert slow.statistics().peak_inbox_rows <= 4


async def test_ranges_that_cannot_be_read_are_refused_with_the_reason() -> None:
    async with serving("etl", parameters=SMALL) as (channel, address):
        await fill(address, 0, 6)
        await channel.acknowledge(2, "etl")
        for kind, deed in (
            (UnknownConsumerError, read(address)),
            (RowsForgottenError, read(address, 1, 4, consumer="etl")),
            (RowsNotThereError, read(address, 2, 7, consumer="etl")),
            (RowsNotThereError, read(address, 7, consumer="etl")),
            (InvalidParametersError, read(address, 4, 3, consumer="etl")),
            (InvalidParametersError, read(address, -4, 3, consumer="etl")),
            (LogReplacedError, read(address, 3, 4, consumer="etl", log_id="another")),
        ):
            await refused(deed, kind)
        forgotten = await refused(read(address, 1, 4, consumer="etl"), RowsForgottenError)
        assert forgotten.facts == {"channel": CHANNEL, "wanted_row": 1, "first_kept_row": 2}
        log_id = channel.position("etl").log_id
        assert await read(address, 3, 4, consumer="etl", log_id=log_id) == [3]


async def test_a_reader_gets_the_columns_that_are_enough_for_it() -> None:
    wide = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    batch = pa.record_batch({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [0.5, 1.5, 2.5]}, schema=wide)
    async with serving() as (channel, address):
        async with put(address, CHANNEL, wide) as sender:
            await sender.send(batch)
            await sender.end()
        for columns, found in ((("c", "a"), ["c", "a"]), (("c", "d"), ["a", "b", "c"]), ((), ["a", "b", "c"])):
            async with get(address, CHANNEL, columns=columns, from_row=1, to_row=3) as receiver:
                assert receiver.schema.names == found
                got = [message.payload async for message in receiver]
            assert pa.Table.from_batches(got) == pa.Table.from_batches([batch.slice(1).select(found)])
        assert channel.position().acknowledged_row == 0


async def test_a_read_once_channel_has_no_ranges_consumers_or_producers() -> None:
    async def enter(dialling: Any) -> None:
        async with dialling:
            pass

    async with serving() as (_, address), put(address, "once", SCHEMA) as sender:
        for named in ({"from_row": 0}, {"to_row": 5}, {"consumer": "etl"}, {"log_id": "x"}):
            await refused(enter(get(address, "once", **named)), RetentionError)
        await refused(enter(put(address, "once", SCHEMA, producer="p")), RetentionError)
        async with get(address, "once", consumer="default") as receiver:
            await sender.send(rows(0, 1))
            assert (await receiver.receive()).rows == 1
            sender.abort("enough")
            with pytest.raises(ChannelAbortedError):
                await receiver.receive()


async def test_acknowledging_rows_before_reading_them_breaks_the_reader_off() -> None:
    async def take_all(receiver: Any) -> None:
        while True:
            receiver.consume()
            await receiver.take()

    async with serving() as (channel, address):
        await fill(address, 0, 8)
        async with get(address, CHANNEL, wanted=ChannelParameters(row_permits=2, permit_batch=1)) as receiver:
            await receiver.take()
            await channel.acknowledge(8)
            with pytest.raises(RowsForgottenError, match="the first row that can still be read is 8"):
                await take_all(receiver)


async def test_a_chunk_above_the_largest_is_kept_in_slices() -> None:
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
            await until(lambda: channel.state is ChannelState.ENDED)
        assert found == list(range(30))
        assert channel.books.peak_kept_rows <= 8


async def test_an_older_producer_that_waits_for_room_makes_way_at_once() -> None:
    async with serving() as (channel, address), asyncio.TaskGroup() as group:
        async with put(address, CHANNEL, SCHEMA, producer="p") as older:
            blocked = group.create_task(refused(send_for_ever(older), ProducerReplacedError))
            await until(lambda: channel.waiting.running == 1)
            async with put(address, CHANNEL, SCHEMA, producer="p") as newer:
                assert newer.first_row == 8
                await blocked
                await channel.acknowledge(8)
                await newer.send(rows(8, 9))
                await newer.end(closes_channel=True)
        assert await read(address) == [8]


async def test_a_producer_that_gives_up_breaks_the_channel_behind_its_rows() -> None:
    async with serving() as (channel, address):
        async with put(address, CHANNEL, SCHEMA) as sender:
            await sender.send(rows(0, 3))
            await until(lambda: channel.position().next_row == 3)
            sender.abort("no more paper")
        await until(lambda: channel.state is ChannelState.BROKEN)
        assert "no more paper" in channel.position().reason
        assert await read(address, 0, 3) == [0, 1, 2]
        error = await refused(read(address), ChannelAbortedError)
        assert "no more paper" in str(error)
        await refused(fill(address, 3, 4), ChannelAbortedError)


async def test_a_slow_reader_gets_all_rows_before_a_broken_channels_error() -> None:
    """They have come, and the error has come, before it takes the first one."""
    async with serving() as (channel, address):
        async with put(address, CHANNEL, SCHEMA) as sender:
            await sender.send(rows(0, 3))
            await until(lambda: channel.position().next_row == 3)
            sender.abort("no more paper")
        await until(lambda: channel.state is ChannelState.BROKEN)
        async with get(address, CHANNEL) as receiver:
            await until(lambda: receiver.state is not State.OPEN)
            assert (await receiver.receive()).payload == rows(0, 3)
            with pytest.raises(ChannelAbortedError, match="no more paper"):
                await receiver.receive()


async def test_a_producer_that_gives_up_waiting_breaks_the_channel_at_once() -> None:
    async with serving() as (channel, address), asyncio.TaskGroup() as group:
        async with put(address, CHANNEL, SCHEMA) as sender:
            blocked = group.create_task(refused(send_for_ever(sender), ChannelClosedError))
            await until(lambda: channel.waiting.running == 1)
            sender.abort("no more paper")
            await blocked
        await until(lambda: channel.state is ChannelState.BROKEN)
        assert channel.position().next_row == 8
        assert channel.waiting.running == 0


async def test_an_error_in_a_named_producers_block_leaves_the_channel_open() -> None:
    async def stumble(address: str, producer: str) -> None:
        async with put(address, CHANNEL, SCHEMA, producer=producer) as sender:
            await sender.send(rows(0, 1))
            raise ZeroDivisionError

    async with serving() as (channel, address):
        with pytest.raises(ZeroDivisionError):
            await stumble(address, "p")
        await until(lambda: not channel.statistics().producers)
        assert channel.state is ChannelState.OPEN
        with pytest.raises(ZeroDivisionError):
            await stumble(address, "")
        await until(lambda: channel.state is ChannelState.BROKEN)


async def test_watermarks_are_refused_and_rows_before_them_are_kept() -> None:
    async with serving() as (channel, address):
        async with put(address, CHANNEL, SCHEMA, producer="p") as sender:
            await sender.send(rows(0, 2))
            sender.send_watermark("epoch 1")
            with pytest.raises(RetentionError, match="keeps rows and barriers of this producer, and no watermark"):
                await sender.end()
        assert channel.rows_of("p") == 2
        assert await read(address, 0, 2) == [0, 1]


async def test_producers_with_another_schema_or_after_the_end_are_refused() -> None:
    async with serving() as (channel, address):
        await fill(address, 0, 1)
        with pytest.raises(SchemaMismatchError):
            async with put(address, CHANNEL, pa.schema([("other", pa.string())])):
                pass
        await channel.end()
        await refused(fill(address, 1, 2), ChannelClosedError)
        assert await read(address) == [0]


async def test_a_reader_that_asks_for_it_gets_the_time_of_each_row() -> None:
    store = Store()
    exchange = Exchange(store=store)
    channel = exchange.add_channel(CHANNEL, retention=Retention.REPLAY)
    for seconds, start in ((1000.0, 0), (2000.5, 3)):
        store.clock = partial(float, seconds)
        await channel.append(rows(start, start + 3))
    async with ExchangeServer(exchange) as server:
        for columns, names in (((), ["n", "_time"]), (("n",), ["n", "_time"])):
            async with get(server.address, CHANNEL, columns=columns, with_time=True, from_row=2, to_row=5) as receiver:
                batches = [message.payload async for message in receiver]
            assert {*map(tuple, (batch.schema.names for batch in batches))} == {tuple(names)}
            times = [time.timestamp() for batch in batches for time in batch["_time"].to_pylist()]
            assert times == [1000.0, 2000.5, 2000.5]


async def test_a_channel_without_times_says_so() -> None:
    exchange = Exchange()
    exchange.add_channel("once")
    exchange.add_channel("own", schema=pa.schema([("_time", pa.int64())]), retention=Retention.REPLAY)
    async with ExchangeServer(exchange) as server:

        async def ask(channel: str) -> None:
            async with get(server.address, channel, with_time=True):
                pass

        error = await refused(ask("once"), RetentionError)
        assert "notes no times; let it keep rows" in str(error)
        assert "a column '_time' of its own" in str(await refused(ask("own"), InvalidParametersError))
