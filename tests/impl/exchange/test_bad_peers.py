"""Peers that break the rules get a status and a typed error that names the value; other streams go on."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import Kind, Message, Permits
from permitflow.carriers.connection import GET_STREAM, PUT_STREAM
from permitflow.client import Staging, describe
from permitflow.errors import (
    ByteOverrunError,
    ByteOverspendError,
    InvalidParametersError,
    LedgerError,
    OversizeChunkError,
    OverspendError,
    ParameterMismatchError,
    PeerGoneError,
    PermitflowError,
    PermitOverrunError,
    SameHostError,
    SchemaMismatchError,
    UndecodableDataError,
    UnexpectedFrameError,
    UnknownChannelError,
    VersionMismatchError,
)
from permitflow.exchange import Retention
from permitflow.flows.permits.agreement import PERMITS
from permitflow.flows.permits.parameters import StatedParameters
from permitflow.stream.compression import Codec, CompressionOffer
from permitflow.stream.frames import (
    Abort,
    Data,
    DownstreamFrame,
    End,
    Failure,
    Feedback,
    Get,
    Put,
    ReturnedBytes,
    SameHostOffer,
)
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.codec import EncodedChunks, WireFrame, encode_upstream
from permitflow.wire.v1 import exchange_pb2 as pb
from permitflow.wire.wire_errors import decode_error, status_of
from tests.hostile.byte_grammar import CONTINUATION, HEADERS, PREFACE, SETTINGS, call_of, frame
from tests.support.number_streams import CHANNEL, SMALL
from tests.support.peers_by_hand import (
    AGREED,
    BATCH,
    CODEC,
    ENCODED,
    CallByHand,
    answered,
    call,
    data,
    dialling,
    encoded,
    get_frame,
    put_frame,
    serving,
)
from tests.support.served import served
from tests.support.turns import until


class Misdeed(NamedTuple):
    """What a peer does, and what it hears."""

    method: str
    frames: Sequence[WireFrame | DownstreamFrame | bytes]
    error: type[PermitflowError]
    facts: dict[str, object]


def gets(*frames: DownstreamFrame | bytes, hears: type[PermitflowError], **facts: object) -> Misdeed:
    return Misdeed(GET_STREAM, frames, hears, facts)


def puts(*frames: WireFrame | bytes, hears: type[PermitflowError], **facts: object) -> Misdeed:
    return Misdeed(PUT_STREAM, frames, hears, facts)


OVERRUN = Feedback(Permits(rows=7))
TOO_EARLY = UnexpectedFrameError
FIVE_ROWS = b"".join(CODEC.encode([BATCH, BATCH.slice(1)]))
OF_120_COLUMNS = BatchCodec(
    pa.schema([(f"a_name_as_long_as_many_are_{n}", pa.string()) for n in range(120)])
).schema_bytes


def wishes(**stated: int | str) -> dict[str, Any]:
    return {"flow": PERMITS.name, "wanted": StatedParameters(**stated)}


def get_bytes(**stated: Any) -> bytes:
    """A Get as a peer may write it that has no types."""
    first = pb.Get(protocol_version=PROTOCOL_VERSION, channel=CHANNEL, **stated)
    return pb.FromDownstream(frames=[pb.DownstreamFrame(get=first)]).SerializeToString()


def put_bytes(**stated: Any) -> bytes:
    """A Put, likewise."""
    first = pb.Put(protocol_version=PROTOCOL_VERSION, channel=CHANNEL, schema=CODEC.schema_bytes, **stated)
    return pb.FromUpstream(frames=[pb.UpstreamFrame(put=first)]).SerializeToString()


GET, PUT = get_frame(), put_frame()
# Numbers of fields that version 3 does not have: flow 30, wanted 31, byte_window 16.
_GET_OF_VERSION_2 = b"\x08\x02\x12\x08orders/0\x80\x01\x40\xf2\x01\x07permits\xfa\x01\x02\x08\x40"
VERSION_2 = b"\x0a%c\x0a%c" % (len(_GET_OF_VERSION_2) + 2, len(_GET_OF_VERSION_2)) + _GET_OF_VERSION_2
DAMAGED_FEEDBACK = pb.FromDownstream(frames=[pb.DownstreamFrame(feedback=b"\x08")]).SerializeToString()
A_COLUMN_MORE = BATCH.append_column("m", BATCH["n"]).serialize()
(TWO_CHUNKS,) = (b"".join(message) for message in encode_upstream([data(), data()]))
OF_TEXTS = BatchCodec(pa.schema([("m", pa.string())])).schema_bytes
WRONG_NUMBER, UNREADABLE = InvalidParametersError, UndecodableDataError
MISDEEDS: dict[str, Misdeed] = {
    "more permits than held": gets(GET, OVERRUN, hears=PermitOverrunError, returned=7, outstanding=0),
    "more bytes than held": gets(GET, ReturnedBytes(7), hears=ByteOverrunError, returned=7, outstanding=0),
    "a return of no bytes": gets(GET, ReturnedBytes(0), hears=ByteOverrunError, returned=0, outstanding=0),
    "bytes of less than none": gets(GET, ReturnedBytes(-1), hears=ByteOverrunError, returned=-1),
    "a byte window of less than none": puts(put_frame(byte_window=-1), hears=WRONG_NUMBER, name="byte_window"),
    "more bytes than the window has": puts(
        put_frame(byte_window=1), TWO_CHUNKS, hears=ByteOverspendError, window_bytes=1
    ),
    "permits before Get": gets(OVERRUN, hears=TOO_EARLY, frame="Feedback", expected="Get"),
    "Get of an unknown channel": gets(get_frame(channel="lines"), hears=UnknownChannelError, channel="lines"),
    "no channel at all": gets(get_frame(channel=""), hears=UnknownChannelError, channel=""),
    "another version": gets(get_frame(protocol_version=9), hears=VersionMismatchError, ours=PROTOCOL_VERSION, theirs=9),
    "version 2": gets(VERSION_2, hears=VersionMismatchError, ours=PROTOCOL_VERSION, theirs=2),
    "a batch as large as the window": puts(
        put_frame(**wishes(row_permits=8, permit_batch=8)), hears=WRONG_NUMBER, name="permit_batch", value=8
    ),
    "whole chunks on a channel that splits": puts(
        put_frame(**wishes(oversize="whole")), hears=ParameterMismatchError, ours="split", theirs="whole"
    ),
    "a producer without schema": puts(put_frame(schema=None), hears=WRONG_NUMBER, name="schema", value=None),
    "a schema that is none": puts(put_frame(schema=b"?"), hears=UNREADABLE, what="the schema"),
    "another schema": puts(put_frame(schema=OF_TEXTS), hears=SchemaMismatchError, ours="n: int64", theirs="m: string"),
    "undecodable Arrow data": puts(PUT, data(arrow=b"no arrow"), hears=UNREADABLE, what="a chunk of 3 rows"),
    "a column that was not agreed": puts(PUT, data(arrow=A_COLUMN_MORE), hears=UNREADABLE, what="a chunk of 3 rows"),
    "other rows than stated": puts(PUT, data(rows=2), hears=UNREADABLE, reason="it holds 3 rows"),
    "a chunk that should have been split": puts(PUT, data(5, FIVE_ROWS), hears=OversizeChunkError, rows=5, most=4),
    "totals that do not add up": puts(PUT, data(), End(1, 4, 0), hears=LedgerError, what="rows", here=3, peer=4),
    "more rows than the window has": puts(PUT, *[data()] * 7, hears=OverspendError),
    "a Put that ends nothing": puts(PUT, hears=PeerGoneError),
    "a call without a word": gets(hears=PeerGoneError),
    "another flow": puts(put_bytes(flow="demand"), hears=ParameterMismatchError, ours="permits", theirs="demand"),
    "parameters of no flow": gets(
        get_bytes(wanted=b"\x08\x08"), hears=UNREADABLE, reason="they do not say of which flow"
    ),
    "damaged parameters": puts(
        put_bytes(flow="permits", wanted=b"\x08"), hears=UNREADABLE, what="parameters of flow 'permits'"
    ),
    "damaged feedback": gets(GET, DAMAGED_FEEDBACK, hears=UNREADABLE),
    "bytes that are no frames": gets(b"\xff\xff\xff", hears=UNREADABLE),
    "a frame of the future": puts(b"\x0a\x02\x78\x01", hears=UNREADABLE),
}


def is_polite(misdeed: Misdeed) -> bool:
    """What comes too early comes at once."""
    return len(misdeed.frames) > 1 and misdeed.error is not TOO_EARLY


@pytest.mark.parametrize("deed", MISDEEDS)
async def test_a_peer_that_breaks_the_rules_hears_which(deed: str) -> None:
    misdeed = MISDEEDS[deed]
    async with serving() as (_, address):
        messages = [encoded(misdeed.method, frame) for frame in misdeed.frames]
        leaves = misdeed.error is PeerGoneError
        outcome = await call(address, misdeed.method, messages, polite=is_polite(misdeed), leaves=leaves)
    assert type(outcome.error) is misdeed.error, outcome.error
    assert outcome.code.name == status_of(outcome.error)[0]
    for name, value in misdeed.facts.items():
        assert getattr(outcome.error, name) == value


@pytest.mark.parametrize("deed", ["more permits than held", "totals that do not add up"])
async def test_an_agreed_stream_is_broken_off_in_band_before_its_status(deed: str) -> None:
    """A status could cross what the peer is writing, and be lost."""
    method, frames, kind, _ = MISDEEDS[deed]

    async with serving() as (_, address), dialling(address, method) as carrier:
        await carrier.write([encoded(method, frames[0])])
        await carrier.read()
        for frame in frames[1:]:
            await carrier.write([encoded(method, frame)])
        frames_read: list[Any] = []
        while not any(isinstance(frame, Failure) for frame in frames_read):
            frames_read += answered(method, await carrier.read() or b"")
        assert type(decode_error(frames_read[-1].error, who="")) is kind
        assert carrier.code is None
        carrier.half_close()
        with pytest.raises(kind):
            await carrier.read()
        assert carrier.code is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize("refused", [put_frame(schema=OF_120_COLUMNS), put_frame(channel="ö" * 30_000)])
async def test_an_error_fits_a_client_that_accepts_8_kib_of_metadata(refused: Put) -> None:
    """Other streams of the client share that connection."""
    options = [("grpc.max_metadata_size", 8 << 10), ("grpc.absolute_max_metadata_size", 8 << 10)]

    async with serving() as (_, address), grpc.aio.insecure_channel(address, options=options) as channel:
        honest, other = (CallByHand(channel.stream_stream(PUT_STREAM)(), "the exchange") for _ in range(2))
        await honest.write([encoded(PUT_STREAM, put_frame())])
        assert await honest.read()
        await other.write([encoded(PUT_STREAM, refused)])
        with pytest.raises((SchemaMismatchError, InvalidParametersError)):
            await other.read()
        await honest.write([encoded(PUT_STREAM, End(0, 0, 0))])
        honest.half_close()
        while await honest.read() is not None:
            pass
        assert honest.code is grpc.StatusCode.OK


async def test_who_acknowledges_no_settings_has_no_longer_metadata() -> None:
    """Until then gRPC itself takes headers of 16 MiB."""
    block = call_of(GET_STREAM, **{f"x-{number}": b"x" * 4_000 for number in range(5)})
    first, rest = block[:16_000], block[16_000:]
    async with serving() as (_, address):
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(PREFACE + frame(SETTINGS, b"") + frame(HEADERS, first, 0, 1) + frame(CONTINUATION, rest, 4, 1))
        await reader.readuntil(b"the metadata of a call cannot be decoded")
        writer.write(frame(HEADERS, first, 0, 3) + frame(CONTINUATION, rest, 4, 3))  # it has been told
        async with asyncio.timeout(60.0):
            await reader.read()
        writer.close()


async def test_a_peer_that_does_not_heed_the_end_is_not_waited_for() -> None:
    misdeed = MISDEEDS["totals that do not add up"]
    async with serving() as (_, address):
        messages = [encoded(misdeed.method, frame) for frame in misdeed.frames]
        outcome = await call(address, misdeed.method, messages, polite=True, leaves=False, heeds=False)
        assert type(outcome.error) is misdeed.error


HASTY: dict[str, tuple[Get, type[PermitflowError]]] = {
    "no row permits": (get_frame(**wishes(row_permits=0)), InvalidParametersError),
    "whole chunks": (get_frame(**wishes(oversize="whole")), ParameterMismatchError),
    "another version": (get_frame(protocol_version=9), VersionMismatchError),
    "a schema that is none": (get_frame(schema=b"?"), UndecodableDataError),
    "memory that cannot be shared": (get_frame(same_host=SameHostOffer("nowhere", True)), SameHostError),
}


@pytest.mark.parametrize("retention", Retention)
@pytest.mark.parametrize("deed", HASTY)
async def test_a_consumer_hears_what_is_wrong_before_any_producer_has_come(deed: str, retention: Retention) -> None:
    """And while it waited, it would have been the channel's only consumer."""
    frame, kind = HASTY[deed]
    async with served("orders/0", parameters=SMALL, retention=retention) as (_, address), asyncio.timeout(5):
        outcome = await call(address, GET_STREAM, [encoded(GET_STREAM, frame)], leaves=False)
    assert type(outcome.error) is kind


STAGING = Staging(query="q", batch=0, partition=0, attempt="a")
REFUSED_PUTS: dict[str, tuple[Put, type[PermitflowError]]] = {
    "a window that cannot be": (put_frame(**wishes(row_permits=0)), InvalidParametersError),
    "whole chunks": (put_frame(**wishes(oversize="whole")), ParameterMismatchError),
    "a long name": (put_frame(producer="p" * 201), InvalidParametersError),
    "a staged window": (put_frame(staging=STAGING, **wishes(row_permits=0)), InvalidParametersError),
    "a name beside staging": (put_frame(staging=STAGING, producer="p"), InvalidParametersError),
    "staging for no query": (put_frame(staging=STAGING._replace(query="")), InvalidParametersError),
}


@pytest.mark.parametrize("deed", REFUSED_PUTS)
async def test_a_refused_producer_leaves_its_schema_to_no_channel(deed: str) -> None:
    frame, kind = REFUSED_PUTS[deed]
    async with served("orders/0", parameters=SMALL, retention=Retention.REPLAY) as (exchange, address):
        outcome = await call(address, PUT_STREAM, [encoded(PUT_STREAM, frame)], leaves=False)
    assert type(outcome.error) is kind
    assert exchange.replay_channel("orders/0").schema is None


COMPRESSED = pa.compress(ENCODED, codec="zstd", asbytes=True)
COMPRESSING = put_frame(compression=CompressionOffer((Codec.ZSTD,), Codec.ZSTD))

small = st.integers(-2, 9)
markers = st.none() | small | st.text("ab", max_size=2)
chunks = st.builds(
    EncodedChunks,
    st.tuples(small) | st.tuples(small, small),
    st.sampled_from([(ENCODED,), (b"?",), (COMPRESSED,), (COMPRESSED[:-9],)]),
    st.sampled_from([0, 0, len(ENCODED), len(ENCODED) + 1, 2**40]),
)
offers = st.none() | st.builds(
    CompressionOffer, st.lists(st.sampled_from(Codec), max_size=2).map(tuple), st.none() | st.sampled_from(Codec)
)
others = st.builds(Message, st.sampled_from([Kind.BARRIER, Kind.WATERMARK]), markers)
statements = st.builds(StatedParameters, *[st.none() | small] * 4, st.sampled_from([None, None, "split", "whole"]))
channels = st.sampled_from([CHANNEL, CHANNEL, ""])
versions = st.sampled_from([PROTOCOL_VERSION] * 3 + [1])
flows = st.just(PERMITS.name)
upstream_frames = st.one_of(
    st.builds(
        Put,
        versions,
        channels,
        flows,
        statements,
        st.sampled_from([CODEC.schema_bytes, CODEC.schema_bytes, None, b""]),
        compression=offers,
    ),
    chunks,
    st.builds(Data, others),
    st.builds(End, small, small, small, st.booleans()),
    st.builds(Abort, st.text("ab", max_size=2)),
    st.just(AGREED),
)
downstream_frames = st.one_of(
    st.builds(Get, versions, channels, flows, statements, probe=st.booleans(), compression=offers),
    st.builds(Feedback, st.builds(Permits, small, small, small)),
    st.just(AGREED),
)
sessions = st.one_of(
    st.tuples(st.just(PUT_STREAM), st.lists(upstream_frames | st.binary(max_size=12), max_size=8)),
    st.tuples(st.just(GET_STREAM), st.lists(downstream_frames | st.binary(max_size=12), max_size=8)),
    st.tuples(st.just(PUT_STREAM), st.lists(upstream_frames, max_size=8).map(lambda frames: [COMPRESSING, *frames])),
    st.tuples(st.just(GET_STREAM), st.lists(downstream_frames, max_size=8).map(lambda frames: [GET, *frames])),
)


@given(st.lists(sessions, min_size=1, max_size=4))
def test_no_peer_can_bring_the_exchange_down(run: asyncio.Runner, several: list[tuple[str, list[Any]]]) -> None:
    """Several at once, on one channel; the other channel works to the end, and no stream is left."""

    async def test() -> None:
        async with serving() as (exchange, address):
            async with asyncio.TaskGroup() as group:
                for method, frames in several:
                    group.create_task(call(address, method, [encoded(method, frame) for frame in frames]))
            assert (await describe(address, "orders/0")).parameters == SMALL
            # A stream is over a moment after its peer was told so, and nobody announces it.
            channel = exchange.channel("orders/0")
            await until(lambda: all(stream.state != "open" for stream, _ in channel.streams.statistics()))

    run.run(test())
