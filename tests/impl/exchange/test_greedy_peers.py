"""Peers that take, spend or keep more than they may, and one that never reads: they are stopped, and told why."""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import pyarrow as pa
import pytest

from permitflow.errors import (
    LedgerError,
    OverspendError,
    PeerGoneError,
    PermitflowError,
    PermitOverrunError,
    UndecodableDataError,
    UnexpectedFrameError,
)
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.frames import (
    AddPermits,
    End,
)
from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports import tcp
from permitflow.transports.codec import decode_upstream, front_of
from permitflow.transports.connection import CLIENT_OPTIONS, CONTROL, GET_STREAM, PUT_STREAM
from permitflow.transports.grpc_aio import get, put
from permitflow.transports.tcp import TcpStream
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.support.peers_by_hand import (
    BATCH,
    CODEC,
    ENCODED,
    SMALL,
    call,
    data,
    dialling,
    encoded,
    get_frame,
    put_frame,
    send_for_ever,
    serving,
)

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


async def test_a_peer_that_never_reads_holds_up_nobody_else() -> None:
    """The window of HTTP/2 is full, so that not even the status can be sent."""
    wide = pa.record_batch({"t": ["x" * 1024] * 1024})

    async with serving() as (exchange, address):
        channel = exchange.add_channel("wide", ChannelParameters(), schema=wide.schema)
        async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as grpc_channel:
            stream: Any = grpc_channel.stream_stream(GET_STREAM)()
            await stream.write(encoded(GET_STREAM, get_frame(channel="wide")))
            for _ in range(20):
                await channel.sender.send(wide)
            await stream.write(encoded(GET_STREAM, AddPermits(Permits(rows=10**9))))
            with pytest.raises(PeerGoneError, match="the receiver of channel 'wide' is gone"):
                await send_for_ever(channel.sender, wide)
            assert "the peer returned 1000000000 rows permits but holds only" in channel.statistics().reason


async def test_a_producer_that_overspends_is_stopped_while_the_channel_is_full() -> None:
    """Nobody reads: the channel takes two chunks, two more are on their way, and the next one is too much."""
    async with serving() as (_, address):
        messages = [encoded(PUT_STREAM, frame) for frame in [put_frame(), *[data()] * 7]]
        outcome = await call(address, PUT_STREAM, messages, polite=True)
        assert type(outcome.error) is OverspendError
        assert outcome.code is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_consumer_that_returns_permits_twice_is_stopped() -> None:
    async with serving() as (exchange, address):
        await exchange.channel("orders/0").sender.send(BATCH)
        twice = [encoded(GET_STREAM, frame) for frame in [get_frame(), *[AddPermits(Permits(rows=3))] * 2]]
        outcome = await call(address, GET_STREAM, twice, polite=True)
        assert type(outcome.error) is PermitOverrunError
        assert outcome.error.facts == {"permit_class": "rows", "returned": 3, "outstanding": 0}


async def test_a_consumer_that_keeps_permits_at_the_end_is_told() -> None:
    async with serving() as (exchange, address):
        await exchange.channel("orders/0").sender.send(BATCH)
        await exchange.channel("orders/0").sender.end()
        async with dialling(address, GET_STREAM) as carrier:
            await carrier.write([encoded(GET_STREAM, get_frame())])
            frames: list[object] = []
            while not any(isinstance(frame, End) for frame in frames):
                frames += decode_upstream(await carrier.read() or b"")
            await carrier.half_close()
            with pytest.raises(LedgerError, match="unreturned rows permits: 3 here, 0 at the peer"):
                await carrier.read()


def field(key: int, payload: bytes) -> bytes:
    """Of protobuf, by hand: its library takes seconds for millions of numbers."""
    return bytes((key,)) + pb.Failure(error=payload).SerializeToString()[1:]


def of_empty_chunks(chunks: int, arrow: bytes) -> bytes:
    said = field(0x0A, bytes(chunks)) + pb.Chunks(permits=chunks, size_bytes=len(arrow)).SerializeToString()
    return front_of(field(0x0A, field(0x3A, said)), len(arrow)) + arrow


def serialised(schema: pa.Schema) -> bytes:
    encoded: bytes = schema.serialize().to_pybytes()
    return encoded


def of_fields(fields: int) -> bytes:
    return serialised(pa.schema([(str(n), pa.int8()) for n in range(fields)]))


def nested(depth: int, fields: int) -> bytes:
    kind: pa.DataType = pa.int8()
    for _ in range(depth):
        kind = pa.struct([(str(n), kind) for n in range(fields)])
    return serialised(pa.schema([("nested", kind)]))


EMPTY = b"".join(CODEC.encode([BATCH.slice(0, 0)]))
NO_PERMITS = b"\x0a\x02\x1a\x00"  # an AddPermits of nothing
A_WATERMARK = pb.FromUpstream(
    frames=[pb.UpstreamFrame(data=pb.Data(permits=1, watermark=pb.Marker()))]
).SerializeToString()
GET, PUT = encoded(GET_STREAM, get_frame()), encoded(PUT_STREAM, put_frame())
# Made only when they are wanted, for some are large.
MANY: dict[str, tuple[str, type[PermitflowError], Callable[[], list[bytes]]]] = {
    "20 MB of AddPermits": (GET_STREAM, UndecodableDataError, lambda: [GET, NO_PERMITS * 5_000_000]),
    "1 MB of AddPermits": (GET_STREAM, UndecodableDataError, lambda: [GET, NO_PERMITS * 250_000]),
    "few AddPermits": (GET_STREAM, UnexpectedFrameError, lambda: [GET, NO_PERMITS * 8_000]),
    "1 MB of watermarks": (PUT_STREAM, UndecodableDataError, lambda: [PUT, A_WATERMARK * 100_000]),
    "32 MB of empty chunks": (PUT_STREAM, UndecodableDataError, lambda: [PUT, of_empty_chunks(32_000_000, EMPTY)]),
    "1 MB of empty chunks": (PUT_STREAM, UndecodableDataError, lambda: [PUT, of_empty_chunks(1_000_000, EMPTY)]),
    "more chunks than permits": (PUT_STREAM, OverspendError, lambda: [PUT, of_empty_chunks(9, ENCODED)]),
    "Put with 300,000 fields": (
        PUT_STREAM,
        UndecodableDataError,
        lambda: [encoded(PUT_STREAM, put_frame(schema=of_fields(300_000)))],
    ),
    "Get with 20,000 fields": (
        GET_STREAM,
        UndecodableDataError,
        lambda: [encoded(GET_STREAM, get_frame(schema=of_fields(20_000)))],
    ),
    "Put with 10,001 fields": (
        PUT_STREAM,
        UndecodableDataError,
        lambda: [encoded(PUT_STREAM, put_frame(schema=of_fields(10_001)))],
    ),
    "Put with 11,111 fields inside of each other": (
        PUT_STREAM,
        UndecodableDataError,
        lambda: [encoded(PUT_STREAM, put_frame(schema=nested(4, 10)))],
    ),
}


@pytest.mark.parametrize("what", MANY)
async def test_a_peer_that_says_too_much_at_once_is_refused_and_holds_up_nobody(what: str) -> None:
    method, kind, made = MANY[what]

    messages = made()

    async def slowest_turn(address: str) -> float:
        """In seconds of this process, which is also the exchange."""
        slowest = 0.0
        async with get(address, "orders/1") as receiver, put(address, "orders/1", BATCH.schema) as sender:
            hostile = asyncio.create_task(call(address, method, messages, polite=len(messages) > 1))
            while not hostile.done():
                before = time.process_time()
                await sender.send(BATCH)
                await receiver.receive()
                slowest = max(slowest, time.process_time() - before)
        assert type(hostile.result().error) is kind
        return slowest

    exchange = Exchange(parameters=SMALL)
    exchange.add_channel("orders/0", schema=BATCH.schema, retention=Retention.REPLAY)
    exchange.add_channel("orders/1", schema=BATCH.schema)
    async with ExchangeServer(exchange) as server:
        assert await slowest_turn(server.address) < 1.0


REFUSED = {
    "before the agreement": (PUT_STREAM, [NO_PERMITS * 1_000_000]),
    "after the agreement": (PUT_STREAM, [PUT, A_WATERMARK * 400_000]),
    "as a request": (CONTROL, [NO_PERMITS * 2_000_000]),
}


@pytest.mark.parametrize("when", REFUSED)
def test_a_message_that_was_refused_leaves_memory_at_once(complete: Complete, when: str) -> None:
    """And not only when the garbage is collected, which does not depend on how many bytes there are."""
    method, (*before, refused) = REFUSED[when]

    async def until_over(stream: TcpStream) -> None:
        while await stream.read() is not None:
            await stream.half_close()

    async def test() -> None:
        exchange = Exchange(parameters=SMALL)
        exchange.add_channel("orders/0", schema=BATCH.schema, retention=Retention.REPLAY)
        async with (
            ExchangeServer(exchange, "tcp://127.0.0.1:0") as server,
            tcp.calling(server.address, method, "the exchange", 10.0) as stream,
        ):
            for message in before:
                await stream.write([message])
                assert await stream.read() is not None
            await stream.write([refused])
            with pytest.raises(UndecodableDataError):
                await until_over(stream)

    gc.disable()
    try:
        allocated_bytes = pa.total_allocated_bytes()
        complete(test())
        assert pa.total_allocated_bytes() - allocated_bytes < len(refused)
    finally:
        gc.enable()
