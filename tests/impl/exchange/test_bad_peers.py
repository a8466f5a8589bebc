"""Peers that break the rules get a status and a typed error that names the value; everybody else goes on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import grpc
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from permitflow.channels.interface import SendEnd
from permitflow.errors import (
    EndOfStream,
    InvalidParametersError,
    LedgerError,
    MispricedError,
    OverspendError,
    ParameterMismatchError,
    PeerGoneError,
    PermitflowError,
    PermitOverrunError,
    SchemaMismatchError,
    TransportError,
    UndecodableDataError,
    UnexpectedFrameError,
    UnknownChannelError,
    VersionMismatchError,
)
from permitflow.exchange.grpc_listener import ServerCall
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    Address,
    Agreement,
    Data,
    DownstreamFrame,
    End,
    Failure,
    Get,
    Put,
    StatedParameters,
)
from permitflow.protocol.messages import Kind, Message, Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.carrier import Buffer
from permitflow.transports.client_call import ClientCall
from permitflow.transports.codec import decode_downstream, decode_upstream, encode_downstream, encode_upstream
from permitflow.transports.connection import CLIENT_OPTIONS, GET_STREAM, PUT_STREAM, SERVER_OPTIONS, SERVICE, Options
from permitflow.transports.grpc_aio import describe, get, put
from permitflow.transports.payloads import EncodedChunks, WireFrame
from permitflow.transports.status import heard

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
BATCH = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})
CODEC = BatchCodec(BATCH.schema)
ENCODED = b"".join(CODEC.encode([BATCH]))
ADDRESS = Address("orders/0")


PUT = Put(1, ADDRESS, schema=CODEC.schema_bytes)
GET = Get(1, ADDRESS)


def put_frame(**changes: Any) -> Put:
    return replace(PUT, **changes)


def get_frame(**changes: Any) -> Get:
    return replace(GET, **changes)


def data(rows: int = 3, permits: int | None = None, arrow: Buffer = ENCODED) -> EncodedChunks:
    return EncodedChunks((rows,), rows if permits is None else permits, (arrow,))


class Outcome(NamedTuple):
    """How a call has ended for the client."""

    code: grpc.StatusCode
    error: PermitflowError


@asynccontextmanager
async def dialling(address: str, method: str) -> AsyncIterator[ClientCall]:
    """A call by somebody who may write what he likes."""
    async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as channel:
        carrier = ClientCall(channel.stream_stream(method)(), f"the exchange at {address}")
        yield carrier
        await carrier.settle()


def is_failure(method: str, answer: Buffer) -> bool:
    """Does the exchange break the stream off?"""
    decode: Callable[[Buffer], Sequence[object]] = decode_upstream if method == GET_STREAM else decode_downstream
    return any(isinstance(frame, Failure) for frame in decode(answer))


async def call(
    address: str,
    method: str,
    messages: Sequence[bytes],
    *,
    polite: bool = False,
    leaves: bool = True,
    heeds: bool = True,
) -> Outcome:
    """Write these messages, whatever the exchange thinks of them, and read to the end.

    A polite peer waits for the agreement before it goes on after its first message; one that leaves closes its half
    as soon as it has written the last, one that heeds when it is told that the exchange breaks the stream off.
    """
    async with dialling(address, method) as carrier:
        try:
            for number, message in enumerate(messages):
                await carrier.write([message])
                if polite and number == 0:
                    await carrier.read()
            if leaves:
                await carrier.half_close()
            while (answer := await carrier.read()) is not None:
                if heeds and is_failure(method, answer):
                    await carrier.half_close()
        except PermitflowError as error:
            # A peer that writes on and on without reading may never see the status.
            return Outcome(carrier._status.code if carrier._status else grpc.StatusCode.UNKNOWN, error)
    return Outcome(grpc.StatusCode.OK, EndOfStream())


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Exchange, str]]:
    """An exchange with two channels; whatever happens on one, the other one works to the end."""
    exchange = Exchange(parameters=SMALL)
    for name in ("orders/0", "orders/1"):
        exchange.add_channel(name, schema=BATCH.schema)
    async with (
        ExchangeServer(exchange) as server,
        get(server.address, "orders/1") as receiver,
        put(server.address, "orders/1", BATCH.schema) as sender,
    ):
        await sender.send(BATCH)
        assert (await receiver.receive()).payload.equals(BATCH)
        yield exchange, server.address
        async with asyncio.TaskGroup() as group:
            group.create_task(sender.send(BATCH))
            assert (await receiver.receive()).payload.equals(BATCH)
            group.create_task(sender.end())
            assert [message async for message in receiver] == []


class Misdeed(NamedTuple):
    """What a peer does, and what it hears."""

    method: str
    frames: Sequence[WireFrame | DownstreamFrame | bytes]
    code: grpc.StatusCode
    error: type[PermitflowError]
    facts: dict[str, object]


FAILED, INVALID = grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND, UNAVAILABLE = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE
OVERRUN = AddPermits(Permits(rows=7))
TOO_EARLY = UnexpectedFrameError
SCHEMALESS = put_frame(schema=None)


def wishes(**numbers: int) -> StatedParameters:
    return StatedParameters(**numbers)  # type: ignore[arg-type]  # numbers only


MISDEEDS: dict[str, Misdeed] = {
    "more permits than held": Misdeed(
        GET_STREAM, [get_frame(), OVERRUN], FAILED, PermitOverrunError, {"returned": 7, "outstanding": 0}
    ),
    "negative permits": Misdeed(
        GET_STREAM, [get_frame(), AddPermits(Permits(-1))], FAILED, PermitOverrunError, {"returned": -1}
    ),
    "a barrier permit out of thin air": Misdeed(
        GET_STREAM, [get_frame(), AddPermits(Permits(0, 1))], FAILED, PermitOverrunError, {"permit_class": "barriers"}
    ),
    "permits before Get": Misdeed(GET_STREAM, [OVERRUN], FAILED, TOO_EARLY, {"frame": "AddPermits", "expected": "Get"}),
    "a second Get": Misdeed(GET_STREAM, [get_frame(), get_frame()], FAILED, TOO_EARLY, {"frame": "Get"}),
    "data before Put": Misdeed(PUT_STREAM, [data()], FAILED, TOO_EARLY, {"frame": "Chunks", "expected": "Put"}),
    "a second Put": Misdeed(PUT_STREAM, [put_frame(), put_frame()], FAILED, TOO_EARLY, {"frame": "Put"}),
    "End before Put": Misdeed(PUT_STREAM, [End(0, 0, 0)], FAILED, TOO_EARLY, {"frame": "End"}),
    "Get of an unknown channel": Misdeed(
        GET_STREAM, [get_frame(address=Address("lines"))], NOT_FOUND, UnknownChannelError, {"channel": "lines"}
    ),
    "Put into an unknown channel": Misdeed(
        PUT_STREAM, [put_frame(address=Address("", 1, 2, 3, 4))], NOT_FOUND, UnknownChannelError, {}
    ),
    "no channel at all": Misdeed(
        GET_STREAM, [get_frame(address=Address())], NOT_FOUND, UnknownChannelError, {"channel": ""}
    ),
    "another version": Misdeed(
        GET_STREAM, [get_frame(protocol_version=9)], FAILED, VersionMismatchError, {"ours": 1, "theirs": 9}
    ),
    "another version of Put": Misdeed(
        PUT_STREAM, [put_frame(protocol_version=0)], FAILED, VersionMismatchError, {"theirs": 0}
    ),
    "no row permits": Misdeed(
        GET_STREAM,
        [get_frame(wanted=wishes(row_permits=0))],
        INVALID,
        InvalidParametersError,
        {"name": "row_permits", "value": 0},
    ),
    "negative row permits": Misdeed(
        PUT_STREAM,
        [put_frame(wanted=wishes(row_permits=-8))],
        INVALID,
        InvalidParametersError,
        {"name": "row_permits", "value": -8},
    ),
    "a batch as large as the window": Misdeed(
        PUT_STREAM,
        [put_frame(wanted=wishes(row_permits=8, permit_batch=8))],
        INVALID,
        InvalidParametersError,
        {"name": "permit_batch", "value": 8},
    ),
    "no barrier permits": Misdeed(
        GET_STREAM,
        [get_frame(wanted=wishes(barrier_permits=0))],
        INVALID,
        InvalidParametersError,
        {"name": "barrier_permits", "value": 0},
    ),
    "whole chunks on a channel that splits": Misdeed(
        PUT_STREAM,
        [put_frame(wanted=StatedParameters(oversize="whole"))],
        FAILED,
        ParameterMismatchError,
        {"name": "oversize", "ours": "split", "theirs": "whole"},
    ),
    "a producer without schema": Misdeed(
        PUT_STREAM, [SCHEMALESS], INVALID, InvalidParametersError, {"name": "schema", "value": None}
    ),
    "a schema that is none": Misdeed(
        PUT_STREAM, [put_frame(schema=b"?")], INVALID, UndecodableDataError, {"what": "the schema"}
    ),
    "an expected schema that is none": Misdeed(
        GET_STREAM, [get_frame(schema=b"?")], INVALID, UndecodableDataError, {"what": "the schema"}
    ),
    "another schema": Misdeed(
        PUT_STREAM,
        [put_frame(schema=BatchCodec(pa.schema([("m", pa.string())])).schema_bytes)],
        FAILED,
        SchemaMismatchError,
        {"ours": "n: int64", "theirs": "m: string"},
    ),
    "undecodable Arrow data": Misdeed(
        PUT_STREAM, [put_frame(), data(arrow=b"no arrow")], INVALID, UndecodableDataError, {"what": "a chunk of 3 rows"}
    ),
    "other rows than stated": Misdeed(
        PUT_STREAM, [put_frame(), data(rows=2)], INVALID, UndecodableDataError, {"reason": "it holds 3 rows"}
    ),
    "a chunk below its price": Misdeed(
        PUT_STREAM, [put_frame(), data(permits=1)], FAILED, MispricedError, {"rows": 3, "permits": 1, "cost": 3}
    ),
    "a chunk for nothing": Misdeed(PUT_STREAM, [put_frame(), data(permits=0)], FAILED, MispricedError, {"permits": 0}),
    "totals that do not add up": Misdeed(
        PUT_STREAM, [put_frame(), data(), End(1, 4, 0)], FAILED, LedgerError, {"what": "rows", "here": 3, "peer": 4}
    ),
    "data after the end": Misdeed(
        PUT_STREAM, [put_frame(), End(0, 0, 0), data()], FAILED, TOO_EARLY, {"frame": "Chunks", "expected": "Failure"}
    ),
    "a Put that ends nothing": Misdeed(PUT_STREAM, [put_frame()], UNAVAILABLE, PeerGoneError, {}),
    "a Get that takes nothing": Misdeed(GET_STREAM, [get_frame()], UNAVAILABLE, PeerGoneError, {}),
    "a call without a word": Misdeed(GET_STREAM, [], UNAVAILABLE, PeerGoneError, {}),
    "bytes that are no frames": Misdeed(GET_STREAM, [b"\xff\xff\xff"], INVALID, UndecodableDataError, {}),
    "a frame of the future": Misdeed(PUT_STREAM, [b"\x0a\x02\x78\x01"], INVALID, UndecodableDataError, {}),
}


def encoded(method: str, frame: Any) -> bytes:
    if isinstance(frame, bytes):
        return frame
    (message,) = encode_downstream([frame]) if method == GET_STREAM else encode_upstream([frame])
    return b"".join(message)


def is_polite(misdeed: Misdeed) -> bool:
    """What comes too early comes at once."""
    return len(misdeed.frames) > 1 and misdeed.error is not TOO_EARLY


@pytest.mark.parametrize("deed", MISDEEDS)
def test_a_peer_that_breaks_the_rules_hears_which(complete: Complete, deed: str) -> None:
    misdeed = MISDEEDS[deed]

    async def test() -> None:
        async with serving() as (_, address):
            messages = [encoded(misdeed.method, frame) for frame in misdeed.frames]
            leaves = misdeed.error is PeerGoneError
            outcome = await call(address, misdeed.method, messages, polite=is_polite(misdeed), leaves=leaves)
        assert type(outcome.error) is misdeed.error, outcome.error
        assert outcome.code is misdeed.code
        for name, value in misdeed.facts.items():
            assert getattr(outcome.error, name) == value

    complete(test())


async def send_for_ever(sender: SendEnd[pa.RecordBatch], batch: pa.RecordBatch) -> None:
    while True:
        await sender.send(batch)


@pytest.mark.parametrize("deed", ["more permits than held", "totals that do not add up"])
def test_an_agreed_stream_is_broken_off_in_band_before_its_status(complete: Complete, deed: str) -> None:
    """A status could cross what the peer is writing, and be lost."""
    method, frames, code, kind, _ = MISDEEDS[deed]

    async def test() -> None:
        async with serving() as (_, address), dialling(address, method) as carrier:
            await carrier.write([encoded(method, frames[0])])
            await carrier.read()
            for frame in frames[1:]:
                await carrier.write([encoded(method, frame)])
            decode: Callable[[Buffer], Sequence[Any]] = decode_upstream if method == GET_STREAM else decode_downstream
            frames_read: list[Any] = []
            while not any(isinstance(frame, Failure) for frame in frames_read):
                frames_read += decode(await carrier.read() or b"")
            assert type(heard(frames_read[-1].error, who="")) is kind
            assert carrier._status is None
            await carrier.half_close()
            with pytest.raises(kind):
                await carrier.read()
            assert carrier._status is not None
            assert carrier._status.code is code

    complete(test())


def test_a_peer_that_does_not_heed_the_end_is_not_waited_for(complete: Complete) -> None:
    misdeed = MISDEEDS["totals that do not add up"]

    async def test() -> None:
        async with serving() as (_, address):
            messages = [encoded(misdeed.method, frame) for frame in misdeed.frames]
            outcome = await call(address, misdeed.method, messages, polite=True, leaves=False, heeds=False)
            assert (type(outcome.error), outcome.code) == (misdeed.error, misdeed.code)

    complete(test())


def test_a_peer_that_never_reads_holds_up_nobody_else(complete: Complete) -> None:
    """The window of HTTP/2 is full, so that not even the status can be sent."""
    wide = pa.record_batch({"t": ["x" * 1024] * 1024})

    async def test() -> None:
        async with serving() as (exchange, address):
            channel = exchange.add_channel("wide", ChannelParameters(), schema=wide.schema)
            async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as grpc_channel:
                stream: Any = grpc_channel.stream_stream(GET_STREAM)()
                await stream.write(encoded(GET_STREAM, get_frame(address=Address("wide"))))
                for _ in range(20):
                    await channel.sender.send(wide)
                await stream.write(encoded(GET_STREAM, AddPermits(Permits(rows=10**9))))
                with pytest.raises(PeerGoneError, match="the receiver of channel 'wide' is gone"):
                    await send_for_ever(channel.sender, wide)
                assert "the peer returned 1000000000 rows permits but holds only" in channel.statistics().reason

    complete(test())


def test_a_producer_that_overspends_is_stopped_while_the_channel_is_full(complete: Complete) -> None:
    """Nobody reads: the channel takes two chunks, two more are on their way, and the next one is too much."""

    async def test() -> None:
        async with serving() as (_, address):
            messages = [encoded(PUT_STREAM, frame) for frame in [put_frame(), *[data()] * 7]]
            outcome = await call(address, PUT_STREAM, messages, polite=True)
            assert type(outcome.error) is OverspendError
            assert outcome.code is FAILED

    complete(test())


def test_a_consumer_that_returns_permits_twice_is_stopped(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, address):
            await exchange.channel("orders/0").sender.send(BATCH)
            twice = [encoded(GET_STREAM, frame) for frame in [get_frame(), *[AddPermits(Permits(rows=3))] * 2]]
            outcome = await call(address, GET_STREAM, twice, polite=True)
            assert type(outcome.error) is PermitOverrunError
            assert outcome.error.facts == {"permit_class": "rows", "returned": 3, "outstanding": 0}

    complete(test())


def test_a_consumer_that_keeps_permits_at_the_end_is_told(complete: Complete) -> None:
    async def test() -> None:
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

    complete(test())


# Acceptors that lie.

Script = Callable[[ServerCall], Coroutine[Any, Any, None]]


@asynccontextmanager
async def lying(script: Script, options: Options = SERVER_OPTIONS) -> AsyncIterator[str]:
    """A server that follows a script of its own."""

    async def act(_: object, context: Any) -> None:
        await script(ServerCall(context, "the client"))

    server = grpc.aio.server(options=options)
    handlers: dict[str, Any] = {name: grpc.stream_stream_rpc_method_handler(act) for name in ("GetStream", "PutStream")}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


AGREED = Agreement(1, StatedParameters.of(SMALL), CODEC.schema_bytes, "lies")


def agreed(**changes: Any) -> Agreement:
    return Agreement(1, StatedParameters.of(SMALL)._replace(**changes), CODEC.schema_bytes, "lies")


LIES_TO_CONSUMERS: dict[str, tuple[Sequence[WireFrame], type[PermitflowError]]] = {
    "a larger window": ([agreed(row_permits=9)], ParameterMismatchError),
    "a window of nothing": ([agreed(row_permits=0)], ParameterMismatchError),
    "a batch that sticks": ([agreed(permit_batch=8)], ParameterMismatchError),
    "a number left out": ([agreed(max_chunk_cost=None)], ParameterMismatchError),
    "another version": ([Agreement(2, StatedParameters.of(SMALL), b"")], VersionMismatchError),
    "a schema that is none": ([Agreement(1, StatedParameters.of(SMALL), b"?")], UndecodableDataError),
    "data first": ([data()], UnexpectedFrameError),
    "the agreement twice": ([AGREED, AGREED], UnexpectedFrameError),
    "undecodable data": ([AGREED, data(arrow=b"?")], UndecodableDataError),
    "more than it has permits for": ([AGREED, data(), data(), data()], OverspendError),
    "a chunk below its price": ([AGREED, data(permits=2)], MispricedError),
    "totals that do not add up": ([AGREED, data(), End(2, 6, 0)], LedgerError),
    "data after the end": ([AGREED, End(0, 0, 0), data()], UnexpectedFrameError),
    "no end": ([AGREED, data()], PeerGoneError),
    "no word": ([], PeerGoneError),
}


@pytest.mark.parametrize("lie", LIES_TO_CONSUMERS)
def test_a_consumer_does_not_believe_a_lying_exchange(complete: Complete, lie: str) -> None:
    frames, error = LIES_TO_CONSUMERS[lie]

    async def script(carrier: ServerCall) -> None:
        await carrier.read()
        for frame in frames:
            await carrier.write([encoded(PUT_STREAM, frame)])
        if error is not PeerGoneError:
            while await carrier.read() is not None:
                pass

    async def read(address: str) -> None:
        async with get(address, "orders/0", wanted=SMALL, schema=BATCH.schema) as receiver:
            with contextlib.suppress(EndOfStream):
                while True:
                    await receiver.take()

    async def test() -> None:
        async with lying(script) as address:
            with pytest.raises(error) as caught:
                await read(address)
            assert type(caught.value) is error

    complete(test())


LIES_TO_PRODUCERS: dict[str, tuple[Sequence[DownstreamFrame], type[PermitflowError]]] = {
    "a larger clamp": ([agreed(max_chunk_cost=5)], ParameterMismatchError),
    "another schema": (
        [Agreement(1, StatedParameters.of(SMALL), BatchCodec(pa.schema([])).schema_bytes)],
        SchemaMismatchError,
    ),
    "permits first": ([AddPermits(Permits(1))], UnexpectedFrameError),
    "permits out of thin air": ([AGREED, AddPermits(Permits(barriers=1))], PermitOverrunError),
    "a Get": ([AGREED, get_frame()], UnexpectedFrameError),
    "a good end that comes too early": ([AGREED], PeerGoneError),
}


@pytest.mark.parametrize("lie", LIES_TO_PRODUCERS)
def test_a_producer_does_not_believe_a_lying_exchange(complete: Complete, lie: str) -> None:
    frames, error = LIES_TO_PRODUCERS[lie]

    async def script(carrier: ServerCall) -> None:
        await carrier.read()
        for frame in frames:
            await carrier.write([encoded(GET_STREAM, frame)])
        if error is not PeerGoneError:
            while await carrier.read() is not None:
                pass

    async def write(address: str) -> None:
        async with put(address, "orders/0", BATCH.schema, wanted=SMALL) as sender:
            await send_for_ever(sender, BATCH)

    async def test() -> None:
        async with lying(script) as address:
            with pytest.raises(error) as caught:
                await write(address)
            assert type(caught.value) is error

    complete(test())


def test_a_producer_notices_that_its_permits_never_came_back(complete: Complete) -> None:
    async def script(carrier: ServerCall) -> None:
        await carrier.read()
        await carrier.write([encoded(GET_STREAM, AGREED)])
        while await carrier.read() is not None:
            pass

    async def test() -> None:
        async with lying(script) as address, put(address, "orders/0", BATCH.schema, wanted=SMALL) as sender:
            await sender.send(BATCH)
            with pytest.raises(LedgerError, match="unreturned rows permits: 3 here, 0 at the peer"):
                await sender.end()

    complete(test())


def test_a_carrier_that_takes_less_than_a_chunk_says_so(complete: Complete) -> None:
    """An exchange behind gRPC's default limit of 4 MiB for a message: an error, not a wait."""
    wide = pa.record_batch({"t": ["x" * 1024] * 5_000})
    unlimited = Agreement(1, StatedParameters.of(ChannelParameters()), BatchCodec(wide.schema).schema_bytes)

    async def script(carrier: ServerCall) -> None:
        await carrier.read()
        await carrier.write([encoded(GET_STREAM, unlimited)])
        while await carrier.read() is not None:
            pass

    async def write(address: str) -> None:
        async with put(address, "orders/0", wide.schema) as sender:
            await send_for_ever(sender, wide)

    async def test() -> None:
        async with lying(script, options=()) as address:
            with pytest.raises(TransportError, match=r"message larger than max .* RESOURCE_EXHAUSTED"):
                await write(address)

    complete(test())


def test_whoever_is_no_exchange_is_told_apart(complete: Complete) -> None:
    async def test() -> None:
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        with pytest.raises(TransportError, match="UNIMPLEMENTED"):
            await describe(f"127.0.0.1:{port}", "orders/0")
        await server.stop(None)

    complete(test())


# Anything at all.

small = st.integers(-2, 9)
markers = st.none() | small | st.text("ab", max_size=2)
chunks = st.builds(
    EncodedChunks, st.tuples(small) | st.tuples(small, small), small, st.sampled_from([(ENCODED,), (b"?",)])
)
others = st.builds(Message, st.sampled_from([Kind.BARRIER, Kind.WATERMARK]), markers, st.just(0), small)
statements = st.builds(StatedParameters, *[st.none() | small] * 4, st.sampled_from([None, None, "split", "whole"]))
addresses = st.sampled_from([ADDRESS, ADDRESS, Address(), Address("", 1)])
versions = st.sampled_from([1, 1, 1, 0])
upstream_frames = st.one_of(
    st.builds(
        Put, versions, addresses, statements, st.sampled_from([CODEC.schema_bytes, CODEC.schema_bytes, None, b""])
    ),
    chunks,
    st.builds(Data, others),
    st.builds(End, small, small, small, st.booleans()),
    st.builds(Abort, st.text("ab", max_size=2)),
    st.just(AGREED),
)
downstream_frames = st.one_of(
    st.builds(Get, versions, addresses, statements, st.none(), st.booleans()),
    st.builds(AddPermits, st.builds(Permits, small, small, small)),
    st.just(AGREED),
)
sessions = st.one_of(
    st.tuples(st.just(PUT_STREAM), st.lists(upstream_frames | st.binary(max_size=12), max_size=8)),
    st.tuples(st.just(GET_STREAM), st.lists(downstream_frames | st.binary(max_size=12), max_size=8)),
    st.tuples(st.just(PUT_STREAM), st.lists(upstream_frames, max_size=8).map(lambda frames: [put_frame(), *frames])),
    st.tuples(st.just(GET_STREAM), st.lists(downstream_frames, max_size=8).map(lambda frames: [get_frame(), *frames])),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(sessions, min_size=1, max_size=4))
def test_no_peer_can_bring_the_exchange_down(complete: Complete, several: list[tuple[str, list[Any]]]) -> None:
    """Several at once, on one channel; the other channel works to the end, and no stream is left."""

    async def test() -> None:
        async with serving() as (exchange, address):
            async with asyncio.TaskGroup() as group:
                for method, frames in several:
                    group.create_task(call(address, method, [encoded(method, frame) for frame in frames]))
            assert (await describe(address, "orders/0")).parameters == SMALL
            # A stream is over a moment after its peer was told so, and nobody announces it.
            channel = exchange.channel("orders/0")
            while any(stream.state == "open" for stream in channel.statistics().streams):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    complete(test())
