"""A consumer stands still behind a chain, a fan-out or gRPC calls: does the producer stop, does memory stay flat?

Each element is a chunk of Arrow of its own, made when it is asked for.  The consumer takes a few, then none for
``--seconds``; then it goes on, and everything must arrive once and in order.  Exit code 1 if a promise was broken.

    python -m benchmarks.stalled_stages --seconds 600
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
import psutil
import pyarrow as pa

from benchmarks.standstill import Report, main, watch
from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.stages import Elements, Source, calls, open_run

CHUNK_ROWS = 131_072
CHUNK_BYTES = CHUNK_ROWS * 8
TAKEN_BEFORE = 3
TAKEN_AFTER = 50
BUFFER, PREFETCH, WINDOW = 8, 16, 4

ServicerContext: TypeAlias = "grpc.aio.ServicerContext[pa.RecordBatch, pa.RecordBatch]"


@dataclass
class Producer:
    """Makes chunks when it is asked, and counts them."""

    given: int = 0

    async def chunks(self) -> AsyncIterator[pa.RecordBatch]:
        while True:
            self.given += 1
            # The loop has a turn, as with a source that reads from elsewhere.
            await asyncio.sleep(0)
            yield pa.record_batch({"n": pa.repeat(pa.scalar(self.given, pa.int64()), CHUNK_ROWS)})


def number_of(chunk: pa.RecordBatch) -> int:
    number: int = chunk.column(0)[0].as_py()
    return number


async def stalled(
    shape: str, most_ahead: int, producer: Producer, take: Callable[[], Awaitable[int]], seconds: float
) -> Report:
    """Take a few, stand still and watch; ``take`` gives the number of the next chunk."""
    expected = 0

    async def take_some(count: int) -> None:
        nonlocal expected
        for _ in range(count):
            expected += 1
            found = await take()
            assert found == expected, f"{shape}: chunk {found} came in place of {expected}"

    await take_some(TAKEN_BEFORE)
    watched = await watch([psutil.Process()], lambda: producer.given, seconds)
    ahead = producer.given - TAKEN_BEFORE
    await take_some(TAKEN_AFTER)
    return Report(
        shape=shape,
        unit="chunks",
        most_ahead=most_ahead,
        ahead=ahead,
        watched=watched,
        most_growth_bytes=CHUNK_BYTES,
    )


def chain(producer: Producer) -> Source[pa.RecordBatch]:
    """A chain of stages that hold elements."""
    chunks: Source[pa.RecordBatch] = Source(producer.chunks()).map(lambda chunk: chunk)
    return chunks.buffer(BUFFER).async_boundary(PREFETCH)


async def at_the_end_of_a_chain(seconds: float) -> Report:
    producer = Producer()
    async with chain(producer).open() as elements:

        async def take() -> int:
            return number_of(await anext(elements))

        return await stalled("chain", BUFFER + PREFETCH + 1, producer, take, seconds)


async def at_the_end_of_channels(seconds: float) -> Report:
    """A stream into a permit channel, and out of it."""
    producer = Producer()
    ends: tuple[LocalSender[pa.RecordBatch], LocalReceiver[pa.RecordBatch]] = open_channel(
        ChannelParameters(row_permits=WINDOW * CHUNK_ROWS, max_chunk_cost=CHUNK_ROWS)
    )
    sending = asyncio.create_task(chain(producer).run_to(ends[0]))
    async with Source.receive(ends[1]).buffer(BUFFER).open() as elements:

        async def take() -> int:
            return number_of((await anext(elements)).payload)

        most = BUFFER + PREFETCH + 1 + WINDOW + 1 + BUFFER
        report = await stalled("chain through a permit channel", most, producer, take, seconds)
    sending.cancel()
    await asyncio.wait([sending])
    ends[1].close()
    return report


async def at_one_end_of_a_fan_out(seconds: float) -> Report:
    """The other branch takes all that it is given."""
    producer = Producer()
    fast, slow = chain(producer).broadcast(2)
    async with open_run(fast, slow.buffer(BUFFER)) as (fasts, slows):

        async def drain(elements: Elements[pa.RecordBatch]) -> None:
            async for _ in elements:
                pass

        async def take() -> int:
            return number_of(await anext(slows))

        draining = asyncio.create_task(drain(fasts))
        report = await stalled("fan-out", BUFFER + PREFETCH + BUFFER + 1, producer, take, seconds)
        draining.cancel()
        await asyncio.wait([draining])
        return report


async def at_the_end_of_calls(seconds: float) -> Report:
    """A stream through three gRPC calls: the response of one, a flow, and requests, whose server is the consumer."""
    producer = Producer()
    schema = (await anext(Producer().chunks())).schema
    coders: dict[str, Any] = {
        "request_serializer": lambda chunk: chunk.serialize().to_pybytes(),
        "response_deserializer": lambda message: pa.ipc.read_record_batch(pa.py_buffer(message), schema),
    }
    decoders = {
        "request_deserializer": coders["response_deserializer"],
        "response_serializer": coders["request_serializer"],
    }
    arrived: asyncio.Future[Elements[pa.RecordBatch]] = asyncio.get_running_loop().create_future()
    is_over = asyncio.Event()

    async def give(request: pa.RecordBatch, context: ServicerContext) -> None:
        await calls.respond(context, chain(producer))

    async def hand_on(iterator: AsyncIterator[pa.RecordBatch], context: ServicerContext) -> None:
        await calls.respond(context, calls.requests(iterator, context))

    async def take_all(iterator: AsyncIterator[pa.RecordBatch], context: ServicerContext) -> pa.RecordBatch:
        async with calls.requests(iterator, context).open() as elements:
            arrived.set_result(elements)
            await is_over.wait()
        return pa.record_batch({"n": [0]})

    handlers: dict[str, Any] = {
        "Give": grpc.unary_stream_rpc_method_handler(give, **decoders),
        "HandOn": grpc.stream_stream_rpc_method_handler(hand_on, **decoders),
        "TakeAll": grpc.stream_unary_rpc_method_handler(take_all, **decoders),
    }
    window = calls.Window(CHUNK_BYTES)
    server = grpc.aio.server(options=window.options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Chunks", handlers),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    async with grpc.aio.insecure_channel(address, options=window.options) as channel:
        chunks = calls.source(channel.unary_stream("/Chunks/Give", **coders), pa.record_batch({"n": [0]}))
        handed_on = chunks.through(calls.flow(channel.stream_stream("/Chunks/HandOn", **coders)))
        sink: Any = calls.sink(channel.stream_unary("/Chunks/TakeAll", **coders))
        sending = asyncio.ensure_future(handed_on.through(sink))
        elements = await arrived

        async def take() -> int:
            return number_of(await anext(elements))

        most = BUFFER + PREFETCH + 1 + 4 * window.most_ahead(CHUNK_BYTES)
        report = await stalled("chain through three gRPC calls", most, producer, take, seconds)
        is_over.set()
        await sending
    await server.stop(None)
    return report


SHAPES = (at_the_end_of_a_chain, at_the_end_of_channels, at_one_end_of_a_fan_out, at_the_end_of_calls)


async def run(seconds: float) -> list[Report]:
    """All shapes at once, in one process."""
    return [*await asyncio.gather(*(shape(seconds) for shape in SHAPES))]


if __name__ == "__main__":
    sys.exit(main(__doc__, run))
