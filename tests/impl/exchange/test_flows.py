"""A stream has one flow: a peer that names another one, or none, or damages what it says of it is told so."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from permitflow.errors import ParameterMismatchError, PermitflowError, UndecodableDataError, UnexpectedFrameError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.frames import Failure
from permitflow.protocol.handshake import PROTOCOL_VERSION
from permitflow.protocol.stop_and_wait import StopAndWait
from permitflow.transports import grpc_calls, tcp
from permitflow.transports.addresses import is_tcp
from permitflow.transports.carrier import Conversation
from permitflow.transports.connection import GET_STREAM, PUT_STREAM
from permitflow.transports.grpc_aio import describe, get, put
from permitflow.transports.wire_errors import decode_error
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.support.number_streams import CHANNEL, SCHEMA, SMALL, batch, everything, numbers
from tests.support.peers_by_hand import ByHand, answered

STATED: dict[str, Any] = {"protocol_version": PROTOCOL_VERSION, "channel": CHANNEL}
FIRST: dict[str, Callable[..., bytes]] = {
    GET_STREAM: lambda **stated: pb.FromDownstream(
        frames=[pb.DownstreamFrame(get=pb.Get(**STATED, **stated))]
    ).SerializeToString(),
    PUT_STREAM: lambda **stated: pb.FromUpstream(
        frames=[pb.UpstreamFrame(put=pb.Put(**STATED, schema=SCHEMA.serialize().to_pybytes(), **stated))]
    ).SerializeToString(),
}
WISHES: dict[str, tuple[dict[str, Any], type[PermitflowError], dict[str, object]]] = {
    "of a flow that nobody knows": (
        {"flow": "carrier-pigeons"},
        ParameterMismatchError,
        {"name": "flow", "theirs": "carrier-pigeons", "rule": "must be one that both ends know"},
    ),
    "of another flow": (
        {"flow": "stop-and-wait"},
        ParameterMismatchError,
        {"name": "flow", "ours": "permits", "theirs": "stop-and-wait", "rule": "must be that of the channel"},
    ),
    "of no flow": ({"wanted": b"\x08\x08"}, UndecodableDataError, {"reason": "they do not say of which flow"}),
    "that are damaged": (
        {"flow": "permits", "wanted": b"\x08"},
        UndecodableDataError,
        {"what": "parameters of flow 'permits'"},
    ),
}
FEEDBACK: dict[str, tuple[bytes, type[PermitflowError]]] = {
    "damaged": (b"\x08", UndecodableDataError),
    "of another flow": (b"", UnexpectedFrameError),
}


async def refused(stream: Conversation, method: str, told: list[PermitflowError | None]) -> None:
    """Read to the end, which is an error; note one that comes in band, and close this half then."""
    while (message := await stream.read()) is not None:
        for frame in answered(method, message):
            if isinstance(frame, Failure):
                told.append(decode_error(frame.error, who="the exchange"))
                stream.half_close()


@asynccontextmanager
async def calling(address: str, method: str) -> AsyncIterator[Conversation]:
    """A stream on which a test may write anything."""
    carriers = tcp if is_tcp(address) else grpc_calls
    async with carriers.calling(address, method, "the exchange", 10.0) as call:
        yield ByHand(call)


async def works(exchange: Exchange, address: str) -> None:
    """Others are served as if nothing had been said."""
    assert (await describe(address, CHANNEL)).parameters == SMALL
    async with get(address, CHANNEL) as receiver:
        await exchange.channel(CHANNEL).sender.send(batch(1, 2))
        await exchange.channel(CHANNEL).sender.end()
        assert numbers(await everything(receiver)) == [1, 2]


@pytest.mark.parametrize("method", FIRST)
@pytest.mark.parametrize("wishes", WISHES)
async def test_wishes_that_cannot_be_met_are_refused(listen: str, wishes: str, method: str) -> None:
    stated, kind, facts = WISHES[wishes]
    exchange = Exchange(parameters=SMALL)
    exchange.add_channel(CHANNEL, schema=SCHEMA)
    async with ExchangeServer(exchange, listen) as server:
        async with calling(server.address, method) as stream:
            await stream.write([FIRST[method](**stated)])
            with pytest.raises(kind) as caught:
                await refused(stream, method, [])
        assert facts.items() <= caught.value.facts.items()
        await works(exchange, server.address)


@pytest.mark.parametrize("feedback", FEEDBACK)
async def test_feedback_that_cannot_be_of_the_channels_flow_ends_the_stream(listen: str, feedback: str) -> None:
    said, kind = FEEDBACK[feedback]
    exchange = Exchange(parameters=SMALL)
    exchange.add_channel(CHANNEL, schema=SCHEMA)
    told: list[PermitflowError | None] = []
    async with ExchangeServer(exchange, listen) as server, calling(server.address, GET_STREAM) as stream:
        await stream.write([FIRST[GET_STREAM]()])
        assert answered(GET_STREAM, await stream.read() or b"")[0].flow == "permits"
        frames = pb.FromDownstream(frames=[pb.DownstreamFrame(feedback=said)])
        await stream.write([frames.SerializeToString()])
        with pytest.raises(kind):
            await refused(stream, GET_STREAM, told)
    assert [type(error) for error in told] == [kind]


async def test_an_end_without_wishes_takes_the_flow_that_the_channel_has(listen: str) -> None:
    exchange = Exchange()
    exchange.add_channel(CHANNEL, StopAndWait())
    async with (
        ExchangeServer(exchange, listen) as server,
        put(server.address, CHANNEL, SCHEMA) as sender,
        get(server.address, CHANNEL) as receiver,
    ):
        assert sender.parameters == receiver.parameters == StopAndWait()
        await sender.send(batch(1, 2))
        assert numbers([await receiver.receive()]) == [1, 2]
        await sender.end()
        assert await everything(receiver) == []
