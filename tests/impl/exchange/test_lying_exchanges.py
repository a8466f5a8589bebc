"""Exchanges that lie are not believed: clients name what cannot be."""

import contextlib
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Demand, Permits
from permitflow.carriers.connection import GET_STREAM, PUT_STREAM, SERVER_OPTIONS, Options
from permitflow.carriers.grpc_calls import Context, ServerCall
from permitflow.client import Compression, get, put
from permitflow.errors import (
    EndOfStream,
    LedgerError,
    OversizeChunkError,
    OverspendError,
    ParameterMismatchError,
    PeerGoneError,
    PermitflowError,
    PermitOverrunError,
    SchemaMismatchError,
    TransportError,
    UndecodableDataError,
    UnexpectedFrameError,
    VersionMismatchError,
)
from permitflow.flows.demand.core import DEMAND
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.compression import Codec, CompressionAnswer
from permitflow.stream.frames import Agreement, DownstreamFrame, End, Failure, Feedback
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.codec import EncodedChunks, WireFrame, decode_downstream, decode_upstream
from permitflow.wire.v1 import exchange_pb2 as pb
from permitflow.wire.wire_errors import decode_error
from tests.support.carriers import answering_grpc
from tests.support.number_streams import SMALL
from tests.support.peers_by_hand import (
    AGREED,
    BATCH,
    CODEC,
    ENCODED,
    ByHand,
    agreed,
    data,
    encoded,
    send_for_ever,
)

Script = Callable[[ByHand], Coroutine[Any, Any, None]]


def lying(script: Script, options: Options = SERVER_OPTIONS) -> AbstractAsyncContextManager[str]:
    """The address of a server that follows a script of its own."""

    async def act(_: str, context: Context) -> None:
        conversation = ByHand(ServerCall(context, "the client"))
        try:
            await script(conversation)
        finally:
            await conversation.stop()

    return answering_grpc(act, options)


COMPRESSED = replace(AGREED, compression=CompressionAnswer(Codec.ZSTD))
LARGE = pa.record_batch({"n": pa.array(range(4_000))})
FIVE_ROWS = b"".join(CODEC.encode([BATCH, BATCH.slice(1)]))
ZSTD_ENCODED = EncodedChunks((3,), (pa.compress(ENCODED, codec="zstd", asbytes=True),), len(ENCODED))


ANOTHER_FLOW = replace(AGREED, flow=DEMAND.name, parameters=DEMAND.state(Demand()))


def agreed_on(flow: str, parameters: bytes) -> bytes:
    """What goes over the wire for an agreement on this, to a consumer."""
    agreement = pb.Agreement(protocol_version=PROTOCOL_VERSION, flow=flow, parameters=parameters)
    return pb.FromUpstream(frames=[pb.UpstreamFrame(agreement=agreement)]).SerializeToString()


def agreeing(agreement: Agreement = AGREED, came: list[WireFrame] | None = None) -> Script:
    """To a producer: agrees, answers nothing more, and notes what comes."""

    async def script(carrier: ByHand) -> None:
        await carrier.read()
        await carrier.write([encoded(GET_STREAM, agreement)])
        while (message := await carrier.read()) is not None:
            if came is not None:
                came.extend(decode_upstream(message))

    return script


async def hear_why(carrier: ByHand, method: str, error: type[PermitflowError]) -> None:
    """The client of this method says what is wrong, and closes its half."""
    last: Any = None
    while (message := await carrier.read()) is not None:
        *_, last = decode_upstream(message) if method == PUT_STREAM else decode_downstream(message, PERMITS)
    assert isinstance(last, Failure)
    assert type(decode_error(last.error, who="the client")) is error


LIES_TO_CONSUMERS: dict[str, tuple[Sequence[WireFrame | bytes], type[PermitflowError]]] = {
    "another flow": ([ANOTHER_FLOW], ParameterMismatchError),
    "a flow that nobody knows": ([agreed_on("carrier-pigeons", b"")], ParameterMismatchError),
    "damaged parameters": ([agreed_on("permits", b"?")], UndecodableDataError),
    "a larger window": ([agreed(row_permits=9)], ParameterMismatchError),
    "another version": ([replace(AGREED, protocol_version=1)], VersionMismatchError),
    "a schema that is none": ([replace(AGREED, schema=b"?")], UndecodableDataError),
    "undecodable data": ([AGREED, data(arrow=b"?")], UndecodableDataError),
    "more than it has permits for": ([AGREED, data(), data(), data()], OverspendError),
    "a chunk that should have been split": ([AGREED, data(rows=5, arrow=FIVE_ROWS)], OversizeChunkError),
    "totals that do not add up": ([AGREED, data(), End(2, 6, 0)], LedgerError),
    "a codec that was not offered": ([COMPRESSED], ParameterMismatchError),
    "a compressed chunk that nobody agreed to": ([AGREED, ZSTD_ENCODED], UndecodableDataError),
    "no end": ([AGREED, data()], PeerGoneError),
}


@pytest.mark.parametrize("lie", LIES_TO_CONSUMERS)
async def test_a_consumer_does_not_believe_a_lying_exchange(lie: str) -> None:
    frames, error = LIES_TO_CONSUMERS[lie]

    async def script(carrier: ByHand) -> None:
        await carrier.read()
        for frame in frames:
            await carrier.write([encoded(PUT_STREAM, frame)])
        if error is not PeerGoneError:
            await hear_why(carrier, GET_STREAM, error)

    async def read(address: str) -> None:
        async with get(
            address, "orders/0", wanted=SMALL, schema=BATCH.schema, compression=Compression.NONE
        ) as receiver:
            with contextlib.suppress(EndOfStream):
                while True:
                    await receiver.take()

    async with lying(script) as address:
        with pytest.raises(error) as caught:
            await read(address)
        assert type(caught.value) is error


DAMAGED = pb.FromDownstream(frames=[pb.DownstreamFrame(feedback=b"?")]).SerializeToString()
LIES_TO_PRODUCERS: dict[str, tuple[Sequence[DownstreamFrame | bytes], type[PermitflowError]]] = {
    "another flow": ([ANOTHER_FLOW], ParameterMismatchError),
    "damaged feedback": ([AGREED, DAMAGED], UndecodableDataError),
    "another schema": ([replace(AGREED, schema=BatchCodec(pa.schema([])).schema_bytes)], SchemaMismatchError),
    "a codec that was not offered": ([COMPRESSED], ParameterMismatchError),
    "permits out of thin air": ([AGREED, Feedback(Permits(barriers=1))], PermitOverrunError),
    "a good end that comes too early": ([AGREED], PeerGoneError),
}


@pytest.mark.parametrize("lie", LIES_TO_PRODUCERS)
async def test_a_producer_does_not_believe_a_lying_exchange(lie: str) -> None:
    frames, error = LIES_TO_PRODUCERS[lie]

    async def script(carrier: ByHand) -> None:
        await carrier.read()
        for frame in frames:
            await carrier.write([encoded(GET_STREAM, frame)])
        if error is not PeerGoneError:
            await hear_why(carrier, PUT_STREAM, error)

    async def write(address: str) -> None:
        async with put(address, "orders/0", BATCH.schema, wanted=SMALL, compression=Compression.NONE) as sender:
            await send_for_ever(sender, BATCH)

    async with lying(script) as address:
        with pytest.raises(error) as caught:
            await write(address)
        assert type(caught.value) is error


async def test_an_exchange_that_knows_of_no_compression_gets_none() -> None:
    wide = ChannelParameters()
    schema = BatchCodec(LARGE.schema).schema_bytes
    came: list[WireFrame] = []

    async with lying(agreeing(replace(AGREED, parameters=PERMITS.state(wide), schema=schema), came)) as address:
        with contextlib.suppress(LedgerError):
            async with put(address, "orders/0", LARGE.schema, compression=Compression.ZSTD) as sender:
                await sender.send(LARGE)
                assert sender.statistics().compression == "none: the peer does not know how to compress"
                await sender.end()

    (chunk,) = (frame for frame in came if isinstance(frame, EncodedChunks))
    assert not chunk.uncompressed_bytes


async def test_an_exchange_silent_about_the_rows_is_not_believed() -> None:
    async with lying(agreeing()) as address, put(address, "orders/0", BATCH.schema, wanted=SMALL) as sender:
        with pytest.raises(UnexpectedFrameError, match="Ended"):
            await sender.end()


async def test_a_carrier_that_takes_less_than_a_chunk_says_so() -> None:
    """An exchange behind gRPC's default limit of 4 MiB for a message: an error, not a wait."""
    wide = pa.record_batch({"t": ["x" * 1024] * 5_000})
    schema = BatchCodec(wide.schema).schema_bytes
    unlimited = replace(AGREED, parameters=PERMITS.state(ChannelParameters()), schema=schema)

    async def write(address: str) -> None:
        async with put(address, "orders/0", wide.schema) as sender:
            await send_for_ever(sender, wide)

    async with lying(agreeing(unlimited), options=()) as address:
        with pytest.raises(TransportError, match=r"message larger than max .* RESOURCE_EXHAUSTED"):
            await write(address)
