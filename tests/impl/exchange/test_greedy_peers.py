"""Peers that take, spend or keep more than they may, and one that never reads: they are stopped, and told why."""

from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import pyarrow as pa
import pytest

from permitflow.errors import (
    LedgerError,
    OverspendError,
    PeerGoneError,
    PermitOverrunError,
)
from permitflow.protocol.frames import (
    AddPermits,
    Address,
    End,
)
from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.testing.peers_by_hand import (
    BATCH,
    call,
    data,
    dialling,
    encoded,
    get_frame,
    put_frame,
    send_for_ever,
    serving,
)
from permitflow.transports.codec import decode_upstream
from permitflow.transports.connection import CLIENT_OPTIONS, GET_STREAM, PUT_STREAM

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


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
            assert outcome.code is grpc.StatusCode.FAILED_PRECONDITION

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
