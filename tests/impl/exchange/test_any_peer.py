"""Whatever peers say, in whatever order: the exchange goes on."""

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from permitflow.protocol.compression import Codec, CompressionOffer
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    Data,
    End,
    Get,
    Put,
    StatedParameters,
)
from permitflow.protocol.messages import Kind, Message, Permits
from permitflow.transports.arrow import PieceWriter
from permitflow.transports.arrow_compression import write_options
from permitflow.transports.connection import GET_STREAM, PUT_STREAM
from permitflow.transports.frame_codec import EncodedChunks
from permitflow.transports.grpc_aio import describe
from tests.support.peers_by_hand import (
    AGREED,
    BATCH,
    CHANNEL,
    CODEC,
    ENCODED,
    SMALL,
    call,
    encoded,
    get_frame,
    put_frame,
    serving,
)

COMPRESSED = b"".join(PieceWriter(BATCH.schema, write_options(Codec.ZSTD)).pieces(BATCH))
PUT = put_frame(compression=CompressionOffer((Codec.ZSTD,), Codec.ZSTD))

small = st.integers(-2, 9)
markers = st.none() | small | st.text("ab", max_size=2)
chunks = st.builds(
    EncodedChunks,
    st.tuples(small) | st.tuples(small, small),
    small,
    st.sampled_from([(ENCODED,), (b"?",), (COMPRESSED,), (COMPRESSED[:-9],)]),
)
offers = st.none() | st.builds(
    CompressionOffer, st.lists(st.sampled_from(Codec), max_size=2).map(tuple), st.none() | st.sampled_from(Codec)
)
others = st.builds(Message, st.sampled_from([Kind.BARRIER, Kind.WATERMARK]), markers, st.just(0), small)
statements = st.builds(StatedParameters, *[st.none() | small] * 4, st.sampled_from([None, None, "split", "whole"]))
channels = st.sampled_from([CHANNEL, CHANNEL, ""])
versions = st.sampled_from([1, 1, 1, 0])
upstream_frames = st.one_of(
    st.builds(
        Put,
        versions,
        channels,
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
    st.builds(Get, versions, channels, statements, st.none(), st.booleans(), compression=offers),
    st.builds(AddPermits, st.builds(Permits, small, small, small)),
    st.just(AGREED),
)
sessions = st.one_of(
    st.tuples(st.just(PUT_STREAM), st.lists(upstream_frames | st.binary(max_size=12), max_size=8)),
    st.tuples(st.just(GET_STREAM), st.lists(downstream_frames | st.binary(max_size=12), max_size=8)),
    st.tuples(st.just(PUT_STREAM), st.lists(upstream_frames, max_size=8).map(lambda frames: [PUT, *frames])),
    st.tuples(st.just(GET_STREAM), st.lists(downstream_frames, max_size=8).map(lambda frames: [get_frame(), *frames])),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(sessions, min_size=1, max_size=4))
async def test_no_peer_can_bring_the_exchange_down(several: list[tuple[str, list[Any]]]) -> None:
    """Several at once, on one channel; the other channel works to the end, and no stream is left."""
    async with serving() as (exchange, address):
        async with asyncio.TaskGroup() as group:
            for method, frames in several:
                group.create_task(call(address, method, [encoded(method, frame) for frame in frames]))
        assert (await describe(address, "orders/0")).parameters == SMALL
        # A stream is over a moment after its peer was told so, and nobody announces it.
        channel = exchange.channel("orders/0")
        while any(stream.state == "open" for stream in channel.statistics().streams):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
