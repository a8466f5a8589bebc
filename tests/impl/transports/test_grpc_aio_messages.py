"""What the asyncio client sends through a real exchange: chunks of all kinds, barriers, watermarks, and the end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import (
    ChannelClosedError,
    ChunkTooLargeError,
    InvalidParametersError,
    SchemaMismatchError,
)
from permitflow.exchange.statistics import BridgeState
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports import arrow
from permitflow.transports.grpc_aio import describe, get, put
from tests.support.number_streams import SCHEMA, SMALL, batch, everything, numbers, read, serving

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

pytestmark = pytest.mark.usefixtures("path")


def test_barriers_have_permits_of_their_own(complete: Complete) -> None:
    async def test() -> None:
        async with (
            serving() as (_, server),
            get(server.address, "orders/0") as receiver,
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            async with asyncio.TaskGroup() as group:
                for n in range(8):
                    await sender.send(batch(n, n, n, n)) if n < 2 else None
                group.create_task(sender.send_barrier("a"))
                group.create_task(sender.send_barrier("b"))
                group.create_task(sender.send_barrier("c"))
                group.create_task(sender.send_barrier("d"))
                kinds = [(await receiver.receive()).kind for _ in range(6)]
            assert kinds == [Kind.CHUNK] * 2 + [Kind.BARRIER] * 4
            await sender.end()
            assert await everything(receiver) == []

    complete(test())


def test_watermarks_are_conflated_and_never_wait(complete: Complete) -> None:
    async def test() -> list[Message[pa.RecordBatch]]:
        async with (
            serving() as (_, server),
            get(server.address, "orders/0") as receiver,
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            for n in range(10_000):
                sender.send_watermark(n)
            async with asyncio.TaskGroup() as group:
                group.create_task(sender.end())
                return await everything(receiver)

    messages = complete(test())
    assert [m.kind for m in messages] == [Kind.WATERMARK] * len(messages)
    assert messages[-1].payload == 9_999
    assert len(messages) <= 4


def test_the_end_of_a_stream_loses_nothing_and_raises_nothing(complete: Complete) -> None:
    """Permits are on their way back while the sender ends: a hundred times, with every way to be late."""

    async def test() -> None:
        names = tuple(f"orders/{n}" for n in range(100))
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
            streams = [stream for channel in exchange.statistics() for stream in channel.streams]
            assert {stream.state for stream in streams} == {"closed"}
            assert len(streams) == 200

    complete(test())


def test_a_channel_takes_many_producers_until_one_closes_it(complete: Complete) -> None:
    async def test() -> list[Message[pa.RecordBatch]]:
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
        return reading.result()

    received = numbers(complete(test()))
    assert sorted(received) == [n for first in (0, 100, 200, 300) for n in range(first, first + 20)]
    for first in (0, 100, 200, 300):
        own = [n for n in received if first <= n < first + 20]
        assert own == sorted(own)


def test_end_may_be_said_twice_but_nothing_after_it(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (_, server), asyncio.TaskGroup() as group:
            group.create_task(read(server.address))
            async with put(server.address, "orders/0", SCHEMA) as sender:
                await sender.end()
                await sender.end()
                with pytest.raises(ChannelClosedError) as caught:
                    await sender.send(batch(1))
                assert caught.value.undelivered == batch(1)

    complete(test())


def test_dictionaries_arrive_as_they_were_sent(complete: Complete) -> None:
    chunks = [pa.record_batch({"d": pa.array(texts).dictionary_encode()}) for texts in (["a", "b"], ["c"], ["a", "a"])]

    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving(schema=None) as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))
            async with put(server.address, "orders/0", chunks[0].schema) as sender:
                for chunk in chunks:
                    await sender.send(chunk)
                await sender.end()
        return reading.result()

    assert [m.payload.to_pydict() for m in complete(test())] == [chunk.to_pydict() for chunk in chunks]


def test_a_chunk_of_many_megabytes_arrives(complete: Complete) -> None:
    """Above gRPC's default limit of 4 MiB for a message."""
    text = pa.record_batch({"t": ["x" * 1024] * 20_000})

    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving(ChannelParameters(), schema=None) as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))
            async with put(server.address, "orders/0", text.schema) as sender:
                await sender.send(text)
                await sender.end()
        return reading.result()

    (message,) = complete(test())
    assert message.payload.equals(text)


def test_a_chunk_that_no_message_can_carry_is_refused_and_the_stream_goes_on(
    complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 1_000)

    async def test() -> list[Message[pa.RecordBatch]]:
        parameters = ChannelParameters(row_permits=10_000)
        async with serving(parameters) as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))
            async with put(server.address, "orders/0", SCHEMA) as sender:
                with pytest.raises(ChunkTooLargeError, match="send chunks of fewer rows"):
                    await sender.send(batch(*range(5_000)))
                await sender.send(batch(1))
                await sender.end()
        return reading.result()

    assert numbers(complete(test())) == [1]


def test_what_does_not_fit_the_stream_is_refused_and_the_stream_goes_on(complete: Complete) -> None:
    async def test() -> list[Message[pa.RecordBatch]]:
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
        return reading.result()

    assert numbers(complete(test())) == [1]


def test_describe_tells_schema_and_parameters_and_takes_nothing(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server):
            await exchange.channel("orders/0").sender.send(batch(1))
            for _ in range(3):
                description = await describe(server.address, "orders/0")
                assert description.schema == SCHEMA
                assert description.parameters == SMALL
            await exchange.channel("orders/0").sender.end()
            assert numbers(await read(server.address)) == [1]

    complete(test())
