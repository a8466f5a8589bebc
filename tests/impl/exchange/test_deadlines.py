"""A peer that connects and says nothing is told so and closed; others go on."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

import grpc
import psutil
import pytest

from permitflow.carriers.byte_stream import StreamMessageKind, read_header
from permitflow.carriers.connection import GET_STREAM, PUT_STREAM
from permitflow.carriers.framing import HEADER_BYTES, header
from permitflow.client import control, get, put
from permitflow.errors import InvalidParametersError, PeerTimeoutError, UndecodableDataError
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.wire.codec import encode_downstream
from permitflow.wire.control_codec import MOST_REQUEST_BYTES
from permitflow.wire.wire_errors import decode_status
from tests.support.carriers import message_of
from tests.support.number_streams import SCHEMA, SMALL
from tests.support.peers_by_hand import call, get_frame
from tests.support.served_exchange import served_exchange

SOON_SECONDS = 0.3
GUARD_SECONDS = 60.0
LATE = "has not said within 0.3 s what it wants"


@asynccontextmanager
async def hasty(scheme: str) -> AsyncIterator[str]:
    """The address of an exchange that does not wait long; at the end it must still serve others."""
    exchange = Exchange(parameters=SMALL)
    exchange.add_channel("numbers", schema=SCHEMA)
    async with ExchangeServer(exchange, f"{scheme}127.0.0.1:0", handshake_seconds=SOON_SECONDS) as server:
        yield server.address
        async with control(server.address) as orders:
            assert [traffic.channel for traffic in (await orders.statistics()).channels] == ["numbers"]


@asynccontextmanager
async def connected_to(address: str) -> AsyncIterator[socket.socket]:
    """A connection on which a test may send anything."""
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    with closing(socket.create_connection((host, int(port)))) as connection:
        connection.setblocking(False)
        yield connection


async def hears(connection: socket.socket) -> bytes:
    """What comes until the other end hangs up."""
    heard = bytearray()
    async with asyncio.timeout(GUARD_SECONDS):
        with suppress(ConnectionResetError):
            while some := await asyncio.get_running_loop().sock_recv(connection, 1 << 16):
                heard += some
    return bytes(heard)


def status_in(heard: bytes) -> Exception:
    """The error with which an exchange at TCP ends a stream; signs of life may come before it."""
    while True:
        kind, size = read_header(memoryview(heard), "the exchange")
        if kind is StreamMessageKind.STATUS:
            return decode_status(heard[HEADER_BYTES : HEADER_BYTES + size], who="the exchange")
        heard = heard[HEADER_BYTES + size :]


(GET_MESSAGE,) = map(message_of, encode_downstream([get_frame(channel="numbers")], None))
FRAMED = header(StreamMessageKind.MESSAGE, len(GET_MESSAGE)) + GET_MESSAGE

SILENCES = {
    "nothing": b"",
    "a sign of life": header(StreamMessageKind.PING),
    "half a header": header(StreamMessageKind.GET)[:4],
    "a method that gets": header(StreamMessageKind.GET),
    "a method that puts": header(StreamMessageKind.PUT) + header(StreamMessageKind.PING),
    "half a frame": header(StreamMessageKind.GET) + FRAMED[:-1],
}


@pytest.mark.parametrize("silence", SILENCES)
async def test_a_silent_peer_over_tcp_is_told_and_closed(silence: str) -> None:
    async with hasty("tcp://") as address, connected_to(address) as connection:
        connection.send(SILENCES[silence])
        error = status_in(await hears(connection))
        assert isinstance(error, PeerTimeoutError)
        assert LATE in str(error)


@pytest.mark.parametrize("method", [GET_STREAM, PUT_STREAM])
async def test_a_silent_peer_over_grpc_is_told_and_closed(method: str) -> None:
    async with hasty("") as address:
        outcome = await call(address, method, [], leaves=False)
        assert outcome.code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert isinstance(outcome.error, PeerTimeoutError)
        assert LATE in str(outcome.error)


@pytest.mark.parametrize("scheme", ["tcp://", ""], ids=["TCP", "gRPC"])
async def test_after_its_first_message_a_peer_may_be_silent_for_longer(scheme: str) -> None:
    async with hasty(scheme) as address, control(address) as orders, get(address, "numbers") as receiver:
        async with connected_to(address) as connection:
            await hears(connection)  # it was silent for too long
        assert (await orders.statistics()).channels
        async with put(address, "numbers", SCHEMA) as sender:
            sending = asyncio.create_task(sender.end())
            assert [message async for message in receiver] == []
            await sending


async def test_a_connection_of_grpc_that_never_becomes_one_is_closed() -> None:
    async with hasty("") as address, connected_to(address) as connection:
        await hears(connection)


TOO_LONG = {
    "no method": (b"GET / HTTP/1.1\r\n", "it is none of permitflow's"),
    "a message before the method": (header(StreamMessageKind.MESSAGE, 1), "0 are the most"),
    "a Get of 2 MiB": (
        header(StreamMessageKind.GET) + header(StreamMessageKind.MESSAGE, 2 << 20),
        "1179648 are the most",
    ),
    "a Put of 2 MiB": (
        header(StreamMessageKind.PUT) + header(StreamMessageKind.MESSAGE, 2 << 20),
        "1179648 are the most",
    ),
    "2 MiB behind a Get": (
        header(StreamMessageKind.GET) + FRAMED + header(StreamMessageKind.MESSAGE, 2 << 20),
        "1179648 are the most",
    ),
    "a request of 8 MiB": (
        header(StreamMessageKind.CONTROL) + header(StreamMessageKind.MESSAGE, 8 << 20),
        f"{MOST_REQUEST_BYTES + 1024} are",
    ),
    "an unknown kind": (header(StreamMessageKind.GET) + header(8), "7 is the last kind"),
    "a status": (header(StreamMessageKind.GET) + header(StreamMessageKind.STATUS), "may not come here"),
}


@pytest.mark.parametrize("what", TOO_LONG)
async def test_a_peer_that_breaks_the_framing_of_tcp_is_told_at_once(what: str) -> None:
    data, words = TOO_LONG[what]
    async with hasty("tcp://") as address, connected_to(address) as connection:
        connection.send(data)
        error = status_in(await hears(connection))
        assert isinstance(error, UndecodableDataError)
        assert words in str(error)


@pytest.mark.parametrize("name", ["handshake_seconds", "silence_seconds"])
@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_times_that_cannot_work_are_refused(name: str, seconds: float) -> None:
    with pytest.raises(InvalidParametersError, match=f"{name} must be"):
        ExchangeServer(Exchange(), **{name: seconds})  # type: ignore[arg-type]  # one of two


@pytest.mark.parametrize("name", ["handshake_seconds", "silence_seconds", "resume_seconds"])
@pytest.mark.parametrize("value", ["5", "", True, asyncio.sleep], ids=["text", "empty", "truth", "function"])
def test_a_time_that_is_no_number_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidParametersError, match=f"{name} must be a number of seconds"):
        ExchangeServer(Exchange(), **{name: value})  # type: ignore[arg-type]  # that is the rule


# A full table of descriptors.

ROOM = 20


@pytest.mark.parametrize("address", ["127.0.0.1:0", "tcp://127.0.0.1:0"], ids=["gRPC", "TCP"])
async def test_an_exchange_whose_table_of_descriptors_is_full_listens_on(address: str) -> None:
    with served_exchange(address=address) as exchange:

        async def statistics() -> int:
            async with control(exchange.address) as orders:
                return len((await orders.statistics()).channels)

        channels = await statistics()
        most = exchange.limit_descriptors(ROOM)
        host, port = exchange.address.removeprefix("tcp://").rsplit(":", 1)
        crowd = [socket.create_connection((host, int(port))) for _ in range(2 * ROOM)]
        while psutil.Process(exchange.pid).num_fds() < most:
            pass
        for connection in crowd:
            connection.close()
        assert await statistics() == channels
