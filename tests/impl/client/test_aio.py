"""The asyncio client against a real exchange: chunks of all kinds, order, bounds, permits, cancellation."""

import asyncio
from collections import deque

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import describe, get, put
from permitflow.errors import (
    ChunkTooLargeError,
    InvalidParametersError,
    SchemaMismatchError,
    WouldBlock,
)
from permitflow.exchange import BridgeState
from permitflow.wire import arrow
from tests.support.number_streams import SCHEMA, SMALL, batch, everything, numbers, read, serving
from tests.support.turns import until

pytestmark = pytest.mark.usefixtures("path")


async def test_a_slow_consumer_stops_the_producer_at_the_bound() -> None:
    """Nothing is consumed: both windows fill, and not a row more leaves the producer."""

    async with (
        serving() as (exchange, server),
        get(server.address, "orders/0") as receiver,
        put(server.address, "orders/0", SCHEMA) as sender,
    ):
        sent: list[int] = []

        async def send_all() -> None:
            while True:
                await sender.send(batch(len(sent), len(sent)))
                sent.append(len(sent))

        sending = asyncio.create_task(send_all())
        # The consumer's window, the channel's and the producer's; then it waits, for as long as anybody looks.
        await until(lambda: len(sent) >= 3 * 8 // 2)
        await until(lambda: sender.statistics().blocked_share > 0.5)
        sending.cancel()
        await asyncio.wait({sending})
        # One chunk may wait between each two windows.
        assert len(sent) <= 3 * 8 // 2 + 2
        with pytest.raises(WouldBlock):
            sender.send_nowait(batch(1))
        assert sender.statistics().peak_rows_held == 8
        (channel,) = exchange.statistics()
        assert channel.peak_rows_held == 8
        assert all(end.peak_rows_held <= 8 for _, end in exchange.channel(channel.channel).streams.statistics())
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(sender.end())
            received = await everything(receiver)
        assert ending.done()
        assert numbers(received) == [n for n in sent for _ in range(2)]


@pytest.mark.parametrize("times", [28, pytest.param(100, marks=pytest.mark.long)])
async def test_the_end_of_a_stream_loses_nothing_and_raises_nothing(times: int) -> None:
    """Permits are on their way back while the sender ends, with every way to be late."""

    names = tuple(f"orders/{n}" for n in range(times))
    async with serving(ChannelParameters(row_permits=64), names=names) as (exchange, server):
        for turn, name in enumerate(names):
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(read(server.address, name))
                async with put(server.address, name, SCHEMA) as sender:
                    for n in range(turn % 7 * 10):
                        await sender.send(batch(n))
                    await sender.end()
            assert numbers(reading.result()) == list(range(turn % 7 * 10))
        assert {channel.state for channel in exchange.statistics()} == {BridgeState.SPENT}
        streams = [stream for name in names for stream, _ in exchange.channel(name).streams.statistics()]
        assert {stream.state for stream in streams} == {"closed"}
        assert len(streams) == 2 * times


async def test_a_channel_takes_many_producers_until_one_closes_it() -> None:
    async with serving() as (_, server), asyncio.TaskGroup() as group:
        reading = group.create_task(read(server.address))

        async def produce(first: int, *, closes_channel: bool = False) -> None:
            async with put(server.address, "orders/0", SCHEMA) as sender:
                for n in range(first, first + 20):
                    await sender.send(batch(n))
                await sender.end(closes_channel=closes_channel)

        async with asyncio.TaskGroup() as producers:
            for first in (0, 100, 200):
                producers.create_task(produce(first))
        assert not reading.done()
        await produce(300, closes_channel=True)
    received = numbers(reading.result())

    assert sorted(received) == [n for first in (0, 100, 200, 300) for n in range(first, first + 20)]
    for first in (0, 100, 200, 300):
        own = [n for n in received if first <= n < first + 20]
        assert own == sorted(own)


async def test_a_chunk_of_many_megabytes_arrives() -> None:
    """Above gRPC's default limit of 4 MiB for a message."""
    text = pa.record_batch({"t": ["x" * 1024] * 12_000})
    async with serving(ChannelParameters(), schema=None) as (_, server), asyncio.TaskGroup() as group:
        reading = group.create_task(read(server.address))
        async with put(server.address, "orders/0", text.schema) as sender:
            await sender.send(text)
            await sender.end()
    (message,) = reading.result()
    assert message.payload.equals(text)


async def test_a_message_that_does_not_fit_is_refused_and_sending_goes_on() -> None:
    async with serving() as (_, server), asyncio.TaskGroup() as group:
        reading = group.create_task(read(server.address))
        async with put(server.address, "orders/0", SCHEMA) as sender:
            with pytest.raises(SchemaMismatchError):
                await sender.send(pa.record_batch({"n": ["text"]}))
            with pytest.raises(TypeError):
                await sender.send([1, 2])
            with pytest.raises(InvalidParametersError, match="rows must be the batch's own 1"):
                await sender.send(batch(1), rows=7)
            with pytest.raises(InvalidParametersError, match="barrier"):
                await sender.send_barrier(object())
            with pytest.raises(InvalidParametersError, match="watermark"):
                sender.send_watermark(2**63)
            await sender.send(batch(1))
            await sender.end()
    assert numbers(reading.result()) == [1]


async def test_describe_tells_schema_and_parameters_and_takes_nothing() -> None:
    async with serving() as (exchange, server):
        await exchange.channel("orders/0").sender.send(batch(1))
        for _ in range(3):
            description = await describe(server.address, "orders/0")
            assert description.schema == SCHEMA
            assert description.parameters == SMALL
        await exchange.channel("orders/0").sender.end()
        assert numbers(await read(server.address)) == [1]


async def test_a_row_too_large_for_a_message_is_refused_and_sending_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 1_000)
    lists = [pa.record_batch({"n": [[*range(length)]]}) for length in (1, 500)]
    async with serving() as (exchange, server), asyncio.TaskGroup() as group:
        exchange.add_channel("lists")
        reading = group.create_task(read(server.address, "lists"))
        async with put(server.address, "lists", lists[0].schema) as sender:
            with pytest.raises(ChunkTooLargeError, match="send large values in several rows"):
                await sender.send(lists[1])
            await sender.send(lists[0])
            await sender.end()
    assert [message.payload for message in reading.result()] == lists[:1]


@pytest.mark.parametrize("way", ["send", "send_many"])
async def test_a_chunk_that_no_message_can_carry_leaves_in_slices(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 3 << 20)
    chunk = pa.record_batch({"n": pa.array(range(1_000_000), pa.int64())})
    async with serving(ChannelParameters(row_permits=10_000_000)) as (_, server), asyncio.TaskGroup() as group:
        reading = group.create_task(read(server.address))
        async with put(server.address, "orders/0", SCHEMA) as sender:
            await (sender.send(chunk) if way == "send" else sender.send_many(deque([chunk])))
            await sender.end()
    received = [message.payload for message in reading.result()]
    assert len(received) == 3
    assert pa.Table.from_batches(received) == pa.Table.from_batches([chunk])
