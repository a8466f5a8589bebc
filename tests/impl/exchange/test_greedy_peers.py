"""Peers that take, spend, ask for or keep more than they may, and one that never reads: they are stopped and told why.

Nobody else waits for them.
"""

import asyncio
import gc
import struct
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Permits
from permitflow.carriers import tcp
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import CLIENT_OPTIONS, CONTROL, GET_STREAM, MOST_UNREAD_BYTES, PUT_STREAM
from permitflow.carriers.reaching import Destination
from permitflow.client import ChannelPosition, ChannelState, SameHost, StagedPart, Staging, control, get, put
from permitflow.errors import (
    AlteredMessageError,
    InvalidParametersError,
    OverspendError,
    PeerGoneError,
    PermitflowError,
    RetentionError,
    TooManyAttemptsError,
    TooManyProducersError,
    UndecodableDataError,
    UnexpectedFrameError,
)
from permitflow.exchange import Exchange, Retention
from permitflow.exchange.books.replay import MOST_PRODUCERS
from permitflow.exchange.books.staging import MOST_ATTEMPTS
from permitflow.flows.permits.parameters import KEPT_PARAMETERS
from permitflow.names import MOST_NAME_CHARACTERS
from permitflow.stream.control import (
    MOST_PUBLISHED,
    Acknowledge,
    AskPositions,
    AskStatistics,
    ChannelRow,
    Close,
    ControlRequest,
    Positions,
    Publish,
)
from permitflow.stream.frames import Agreement, Feedback
from permitflow.wire.arrow import MAX_CHUNK_BYTES, BatchCodec
from permitflow.wire.arrow_metadata import MAX_DICTIONARIES, MAX_SCHEMA_BYTES, MAX_SCHEMA_FIELDS
from permitflow.wire.checksum import Checksums, checked
from permitflow.wire.codec import front_of
from permitflow.wire.control_codec import MOST_REQUEST_BYTES, encode_request
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.hostile.byte_grammar import PREFACE, SETTINGS, frame
from tests.support.carriers import encode_reply, message_of
from tests.support.kept_rows import Refusal, refused
from tests.support.number_streams import SMALL
from tests.support.peers_by_hand import (
    BATCH,
    CODEC,
    Outcome,
    answered,
    call,
    dialling,
    encoded,
    get_frame,
    put_frame,
    send_for_ever,
    serving,
)
from tests.support.served import served

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


async def test_a_peer_that_never_reads_does_not_hold_up_others() -> None:
    """The window of HTTP/2 is full, so that not even the status can be sent."""
    wide = pa.record_batch({"t": ["x" * 1024] * 1024})

    async with serving() as (exchange, address):
        channel = exchange.add_channel("wide", ChannelParameters(), schema=wide.schema, byte_window=1 << 30)
        async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as grpc_channel:
            stream: Any = grpc_channel.stream_stream(GET_STREAM)()
            checksums = Checksums(wanted=True)
            await stream.write(b"".join(checksums.add([encoded(GET_STREAM, get_frame(channel="wide"))])))
            for _ in range(40):  # more than the channel holds: the peer has been sent some
                await channel.sender.send(wide)
            await stream.write(b"".join(checksums.add([encoded(GET_STREAM, Feedback(Permits(rows=10**9)))])))
            with pytest.raises(PeerGoneError, match="the receiver of channel 'wide' is gone"):
                await send_for_ever(channel.sender, wide)
            assert "the peer returned 1000000000 row permits but holds only" in channel.statistics().reason


def field(key: int, payload: bytes) -> bytes:
    """Of protobuf, by hand: its library takes seconds for millions of numbers."""
    return bytes((key,)) + pb.Failure(error=payload).SerializeToString()[1:]


def of_empty_chunks(chunks: int, arrow: bytes) -> bytes:
    said = field(0x0A, bytes(chunks)) + pb.Chunks(size_bytes=len(arrow)).SerializeToString()
    return front_of(field(0x0A, field(0x22, said)), len(arrow)) + arrow


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
NO_PERMITS = b"\x0a\x02\x52\x00"  # feedback that says nothing
A_WATERMARK = pb.FromUpstream(frames=[pb.UpstreamFrame(watermark=pb.Marker())]).SerializeToString()
GET, PUT = encoded(GET_STREAM, get_frame()), encoded(PUT_STREAM, put_frame())
# Made only when they are wanted, for some are large.
MANY: dict[str, tuple[str, type[PermitflowError], Callable[[], list[bytes]]]] = {
    "1 MB of feedback": (GET_STREAM, UndecodableDataError, lambda: [GET, NO_PERMITS * 250_000]),
    "feedback of no permits": (GET_STREAM, UnexpectedFrameError, lambda: [GET, NO_PERMITS * 8_000]),
    "1 MB of watermarks": (PUT_STREAM, UndecodableDataError, lambda: [PUT, A_WATERMARK * 100_000]),
    "1 MB of empty chunks": (PUT_STREAM, UndecodableDataError, lambda: [PUT, of_empty_chunks(1_000_000, EMPTY)]),
    "more chunks than permits": (PUT_STREAM, OverspendError, lambda: [PUT, of_empty_chunks(9, EMPTY)]),
    "Put with 20,000 fields": (
        PUT_STREAM,
        UndecodableDataError,
        lambda: [encoded(PUT_STREAM, put_frame(schema=of_fields(20_000)))],
    ),
    "Get with 20,000 fields": (
        GET_STREAM,
        UndecodableDataError,
        lambda: [encoded(GET_STREAM, get_frame(schema=of_fields(20_000)))],
    ),
    "Put with 11,111 fields inside of each other": (
        PUT_STREAM,
        UndecodableDataError,
        lambda: [encoded(PUT_STREAM, put_frame(schema=nested(4, 10)))],
    ),
}


async def beside(address: str, hostile: Coroutine[Any, Any, Outcome]) -> tuple[type[PermitflowError | None], float]:
    """What it is told, and the slowest turn of a neighbour: in seconds of this process, which is also the exchange."""
    slowest = 0.0
    async with get(address, "orders/1") as receiver, put(address, "orders/1", BATCH.schema) as sender:
        peer = asyncio.create_task(hostile)
        while not peer.done():
            before = time.process_time()
            await sender.send(BATCH)
            await receiver.receive()
            slowest = max(slowest, time.process_time() - before)
    return type(peer.result().error), slowest


@pytest.mark.parametrize("what", MANY)
async def test_a_peer_that_says_too_much_is_refused_beside_others(what: str) -> None:
    method, kind, made = MANY[what]
    messages = made()
    is_dialled = len(messages) > 1
    async with served("orders/1", parameters=SMALL, schema=BATCH.schema) as (exchange, address):
        exchange.add_channel("orders/0", schema=BATCH.schema, retention=Retention.REPLAY)
        hostile = call(address, method, messages, polite=is_dialled, leaves=is_dialled)
        told, slowest = await beside(address, hostile)
    assert told is kind
    assert slowest < 1.0


def of_bytes(size: int) -> bytes:
    """A schema that takes so many bytes, of which its metadata are nearly all."""
    short = len(serialised(pa.schema([("n", pa.int64())], metadata={"k": ""})))
    return serialised(pa.schema([("n", pa.int64())], metadata={"k": "x" * (size - short)}))


def of_barrier(size: int) -> bytes:
    marker = pb.Marker(data=bytes(size))
    return pb.FromUpstream(frames=[pb.UpstreamFrame(barrier=marker)]).SerializeToString()


LEFT = PeerGoneError  # in the middle of its stream
AT_THE_LIMIT: dict[str, tuple[str, type[PermitflowError], Callable[[], list[bytes]]]] = {
    "8,192 frames": (GET_STREAM, UnexpectedFrameError, lambda: [GET, NO_PERMITS * 8_192]),
    "8,192 empty chunks": (PUT_STREAM, LEFT, lambda: [PUT, of_empty_chunks(8_192, EMPTY)]),
    "a schema of 10,000 fields": (
        PUT_STREAM,
        LEFT,
        lambda: [encoded(PUT_STREAM, put_frame(channel="wide", schema=of_fields(MAX_SCHEMA_FIELDS)))],
    ),
    "a schema of 1 MiB": (
        PUT_STREAM,
        LEFT,
        lambda: [encoded(PUT_STREAM, put_frame(channel="wide", schema=of_bytes(MAX_SCHEMA_BYTES - 8)))],
    ),
    "a barrier of 1 MiB": (PUT_STREAM, RetentionError, lambda: [PUT, of_barrier(1 << 20)]),
}


@pytest.mark.parametrize("what", AT_THE_LIMIT)
async def test_a_peer_at_a_limit_holds_up_nobody(what: str) -> None:
    """Bounded generously: each takes some 50 ms of this process, which is also the peer."""
    method, kind, made = AT_THE_LIMIT[what]
    messages = made()
    async with served("orders/1", parameters=SMALL, schema=BATCH.schema) as (exchange, address):
        exchange.add_channel("orders/0", KEPT_PARAMETERS, BATCH.schema, retention=Retention.REPLAY)
        exchange.add_channel("wide", retention=Retention.REPLAY)
        told, slowest = await beside(address, call(address, method, messages, polite=True))
    # It is not told that it says too much.
    assert told is kind
    assert slowest < 1.0


NAME = "n" * MOST_NAME_CHARACTERS
NUMBERS = pa.schema([("n", pa.int64())])
A_ROW = pa.record_batch({"n": pa.array([1], pa.int64())})


async def largest_message(_: Exchange, address: str) -> None:
    row = pa.record_batch({"t": ["x" * (MAX_CHUNK_BYTES - 4_096)]})
    never = SameHost.NEVER
    async with put(address, "texts", row.schema, same_host=never) as sender:
        await sender.send(row)
        await sender.end(closes_channel=False)
    async with get(address, "texts", same_host=never) as receiver:
        assert (await receiver.receive()).payload.equals(row)


async def largest_request(exchange: Exchange, address: str) -> None:
    """As many attempts as a publication may have, and as many bytes."""
    digits = 190
    parts = tuple(StagedPart("kept", number, f"{number:0{digits}}", 0) for number in range(MOST_PUBLISHED))
    size_bytes = len(encode_request(Publish("q", 0, parts)))
    assert 0.95 * MOST_REQUEST_BYTES < size_bytes <= MOST_REQUEST_BYTES
    for number in range(MOST_PUBLISHED):
        part = exchange.staging.open("kept", Staging("q", 0, number, f"{number:0{digits}}"))
        exchange.staging.end(part)
    async with control(address, reply_timeout_seconds=60) as orders:
        assert not (await orders.publish("q", 0, parts)).was_published


async def largest_reply(exchange: Exchange, address: str) -> None:
    """Positions with schemas of 1 MiB."""
    names = [f"long/{number}" for number in range(31)]
    for number, name in enumerate(names):
        metadata = {"k": f"{number:02}" * (MAX_SCHEMA_BYTES // 2 - 200)}
        exchange.add_channel(name, schema=NUMBERS.with_metadata(metadata), retention=Retention.REPLAY)
    async with control(address, reply_timeout_seconds=60) as orders:
        assert [at.channel for at in await orders.positions(names)] == names


async def longest_names(_: Exchange, address: str) -> None:
    async with put(address, "kept", NUMBERS, producer=NAME) as sender:
        await sender.send(A_ROW)
        await sender.end(closes_channel=False)
    key = Staging(NAME, 0, 0, NAME)
    async with put(address, "kept", NUMBERS, staging=key) as sender:
        await sender.send(A_ROW)
        await sender.end(closes_channel=False)
    async with control(address) as orders:
        assert (await orders.publish(NAME, 0, [StagedPart("kept", 0, NAME, 1)])).was_published is False
        assert [at.next_row for at in await orders.positions(["kept"])] == [2]


async def most_attempts(exchange: Exchange, address: str) -> None:
    """The next one is told so, and a query's end finds its own among them."""
    for number in range(MOST_ATTEMPTS - 1):
        exchange.staging.open("kept", Staging("q", 0, number, "x"))
    async with put(address, "kept", NUMBERS, staging=Staging("last", 0, 0, "x")) as sender:
        await sender.send(A_ROW)
        await sender.end(closes_channel=False)
        await refused(dialled_with(address, staging=Staging("more", 0, 0, "x")), TooManyAttemptsError)
        async with control(address) as orders:
            await orders.publish("last", 0, [StagedPart("kept", 0, "x", 1)])


async def most_producers(exchange: Exchange, address: str) -> None:
    channel = exchange.replay_channel("kept")
    await channel.declare(NUMBERS)
    for number in range(MOST_PRODUCERS - 1):
        await channel.keep((A_ROW,), f"{number:0{MOST_NAME_CHARACTERS}}")
    await dialled_with(address, producer="last")
    await refused(dialled_with(address, producer="more"), TooManyProducersError)


async def dialled_with(address: str, **names: Any) -> None:
    async with put(address, "kept", NUMBERS, **names) as sender:
        await sender.send(A_ROW)
        await sender.end(closes_channel=False)


MOST: dict[str, tuple[float, Callable[[Exchange, str], Coroutine[Any, Any, None]]]] = {
    "the largest message": (2.0, largest_message),
    "the largest request": (4.0, largest_request),
    "the largest reply": (4.0, largest_reply),
    "names of 200 characters": (1.0, longest_names),
    "as many attempts as are kept": (8.0, most_attempts),
    "as many producers as are kept": (12.0, most_producers),
}


@pytest.mark.parametrize("what", MOST)
async def test_what_meets_a_limit_is_served_in_bounded_time(what: str) -> None:
    """Bounded generously: in processor seconds of this process, which is also the peer."""
    most_seconds, meet = MOST[what]
    async with served("kept", parameters=KEPT_PARAMETERS, retention=Retention.REPLAY) as (exchange, address):
        exchange.add_channel("texts", retention=Retention.REPLAY)
        before = time.process_time()
        await meet(exchange, address)
        assert time.process_time() - before < most_seconds


async def test_a_schema_of_more_dictionaries_than_a_limit_is_refused() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([(str(number), kind) for number in range(MAX_DICTIONARIES + 1)])
    async with served("kept", retention=Retention.REPLAY) as (_, address):
        error = await refused(dialled_with_schema(address, schema), UndecodableDataError)
        assert f"it has {MAX_DICTIONARIES + 1} dictionaries; {MAX_DICTIONARIES} are the most" in str(error)
        await dialled_with_schema(address, pa.schema(list(schema)[1:]))


async def dialled_with_schema(address: str, schema: pa.Schema) -> None:
    async with put(address, "kept", schema):
        pass


async def test_dialling_with_the_widest_schema_costs_once() -> None:
    """Bounded generously: 40 peers take 0.2 s, and took 8."""
    frame = encoded(PUT_STREAM, put_frame(schema=of_fields(MAX_SCHEMA_FIELDS)))
    async with served("orders/0", retention=Retention.REPLAY) as (_, address):
        before = time.process_time()
        for _ in range(40):
            async with dialling(address, PUT_STREAM) as peer:
                await peer.write([frame])
                assert isinstance(answered(PUT_STREAM, await peer.read() or b"")[0], Agreement)
        assert time.process_time() - before < 1.2


WIDEST = {
    "columns": (MAX_SCHEMA_FIELDS, pa.int64()),
    "texts": (MAX_SCHEMA_FIELDS, pa.string()),
    "dictionaries": (MAX_DICTIONARIES, pa.dictionary(pa.int32(), pa.string())),
}


@pytest.mark.parametrize("kind", WIDEST)
def test_a_chunk_of_the_most_columns_takes_bounded_time(kind: str) -> None:
    """Bounded generously: 5 ms, and 15 with dictionaries."""
    fields, of_kind = WIDEST[kind]
    schema = pa.schema([(str(number), of_kind) for number in range(fields)])
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    codec = BatchCodec(schema)
    message = b"".join(codec.encode([batch]))
    before = time.process_time()
    assert codec.decode(message, [1]).num_rows == 1
    assert time.process_time() - before < 1.0


REFUSED = {
    "before the agreement": (PUT_STREAM, [NO_PERMITS * 1_000_000]),
    "after the agreement": (PUT_STREAM, [PUT, A_WATERMARK * 400_000]),
    "as a request": (CONTROL, [NO_PERMITS * 2_000_000]),
    "altered on the way": (PUT_STREAM, [PUT, A_WATERMARK * 400_000]),
}


@pytest.mark.parametrize("when", REFUSED)
def test_a_message_that_was_refused_leaves_memory_at_once(complete: Complete, when: str) -> None:
    """And not only when the garbage is collected, which does not depend on how many bytes there are."""
    method, (*before, refused) = REFUSED[when]
    checksums = Checksums(wanted=True)

    async def until_over(stream: Conversation) -> None:
        message = bytearray(b"".join(checksums.add([refused])))
        message[0] ^= when == "altered on the way"
        await stream.write([bytes(message)])
        while await stream.read() is not None:
            stream.half_close()

    async def test() -> None:
        kept = served(
            "orders/0", parameters=SMALL, schema=BATCH.schema, retention=Retention.REPLAY, listen="tcp://127.0.0.1:0"
        )
        async with kept as (_, address), tcp.calling(Destination(address, method, "the exchange", 10.0)) as call:
            stream = Conversation(call)
            for message in before:
                await stream.write(checksums.add([message]))
                assert await stream.read() is not None
            with pytest.raises(AlteredMessageError if when == "altered on the way" else UndecodableDataError):
                await until_over(stream)

    gc.disable()
    try:
        allocated_bytes = pa.total_allocated_bytes()
        complete(test())
        assert pa.total_allocated_bytes() - allocated_bytes < len(refused)
    finally:
        gc.enable()


SCHEMA = pa.schema([("n", pa.int64())])
ITEMS = 1_200_000
"""So many empty names or parts are 2.4 MB."""


@asynccontextmanager
async def both_kinds() -> AsyncIterator[tuple[Exchange, str]]:
    """An exchange with a channel of each kind; at the end it must still answer another client."""
    async with served("once", schema=SCHEMA) as (exchange, address):
        exchange.add_channel("kept", schema=SCHEMA, retention=Retention.REPLAY)
        yield exchange, address
        async with control(address) as orders:
            assert [stands.channel for stands in await orders.positions(["kept"])] == ["kept"]


async def answer(address: str, message: bytes, kind: type[Refusal]) -> Refusal:
    """How the exchange refuses a message of the Control method."""
    async with dialling(address, CONTROL) as call:
        await call.write([checked(message)])
        return await refused(call.read(), kind)


@pytest.mark.parametrize(
    "request_",
    [
        AskPositions(("kept",) * 2),
        Acknowledge((ChannelRow("kept", 0),) * 2),
        Close(("kept",) * 2),
        AskStatistics(("once", "kept", "once")),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_a_request_that_names_a_channel_twice_changes_nothing(request_: ControlRequest) -> None:
    async with both_kinds() as (exchange, address):
        error = await answer(address, encode_request(request_), InvalidParametersError)
        assert "channels must not name one twice" in str(error)
        assert exchange.replay_channel("kept").state is ChannelState.OPEN


@pytest.mark.parametrize(
    ("method", "field"),
    [("positions", 2), ("acknowledge", 2), ("publish", 3), ("discard", 3), ("close", 2), ("statistics", 1)],
)
async def test_a_request_of_a_million_items_is_refused_unread(method: str, field: int) -> None:
    request = pb.ControlRequest()
    getattr(request, method).ParseFromString(bytes((field << 3 | 2, 0)) * ITEMS)
    message = request.SerializeToString()
    async with both_kinds() as (_, address):
        before = time.process_time()
        error = await answer(address, message_of([message]), InvalidParametersError)
        assert f"must be at most {'20' if method == 'publish' else '1'},000 in a request" in str(error)
        assert (time.process_time() - before) < 0.5


async def test_a_request_of_megabytes_is_refused_unread() -> None:
    async with both_kinds() as (_, address):
        error = await answer(address, encode_request(AskStatistics(("once" * (5 << 18),))), UndecodableDataError)
        assert "4194304 bytes are the most" in str(error)


async def test_grpc_does_not_decompress_what_strangers_send() -> None:
    async with serving() as (_, address), grpc.aio.insecure_channel(address) as channel:
        method: Any = channel.stream_stream(PUT_STREAM)
        put = method(iter([bytes(8 << 20)]), compression=grpc.Compression.Gzip)
        assert await put.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL)


async def test_grpc_keeps_little_of_what_an_exchange_does_not_read() -> None:
    async with serving() as (_, address):
        reader, writer = await asyncio.open_connection(*address.rsplit(":", 1))
        writer.write(PREFACE + frame(SETTINGS, b""))
        size, kind = struct.unpack(">IB", b"\0" + (await reader.readexactly(9))[:4])
        told = dict(struct.iter_unpack(">HI", await reader.readexactly(size)))
        writer.close()
    assert (kind, told[4]) == (SETTINGS, MOST_UNREAD_BYTES)


async def test_a_channel_remembers_a_bounded_number_of_named_producers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("permitflow.exchange.channels.replay_channel.MOST_PRODUCERS", 2)
    async with served("kept", schema=SCHEMA, retention=Retention.REPLAY) as (_, address):

        async def dial(producer: str) -> None:
            async with put(address, "kept", SCHEMA, producer=producer) as sender:
                await sender.send(pa.record_batch({"n": pa.array([1], pa.int64())}))
                await sender.end(closes_channel=False)

        await dial("old")
        await dial("new")
        error = await refused(dial("newer"), TooManyProducersError)
        assert error.facts == {"channel": "kept", "producer": "newer", "limit": 2}
        for known in ("new", "old", ""):
            await dial(known)


def test_a_reply_above_the_limit_is_refused_in_words() -> None:
    wide = SCHEMA.with_metadata({"comment": "x" * (1 << 20)})

    def stands(number: int) -> ChannelPosition[pa.Schema]:
        return ChannelPosition(f"wide/{number}", 0, 0, ChannelState.OPEN, "", ChannelParameters(), wide)

    assert len(encode_reply(Positions(tuple(map(stands, range(30)))))) > 30 << 20
    with pytest.raises(
        InvalidParametersError, match="channels must be fewer at a time: the reply takes more than 32 MiB"
    ):
        encode_reply(Positions(tuple(map(stands, range(40)))))
