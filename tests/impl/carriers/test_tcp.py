"""Streams over TCP: each address of a name is tried, messages arrive whole and in order, strangers are refused."""

import asyncio
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from permitflow.carriers import dialling
from permitflow.carriers.byte_stream import StreamMessageKind
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import GET_STREAM, PUT_STREAM
from permitflow.carriers.framing import HEADER_BYTES, header
from permitflow.carriers.reaching import Destination
from permitflow.carriers.tcp import TcpStream, calling
from permitflow.errors import (
    AlteredMessageError,
    PeerGoneError,
    PermitflowError,
    UndecodableDataError,
    UnknownChannelError,
)
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.wire.wire_errors import encode_status
from tests.support.carriers import connected, dialled_by_a_stranger
from tests.support.turns import turns

# No system has it: as IPv6 where that is switched off.
UNKNOWN_FAMILY = 12_345


@pytest.mark.parametrize("family", [socket.AF_INET, UNKNOWN_FAMILY], ids=["refused", "no such family"])
async def test_the_next_address_is_dialled_when_the_first_refuses(
    resolve_to: Callable[..., None], deaf_port: int, family: int
) -> None:
    async def test(listener: socket.socket) -> None:
        resolve_to((family, deaf_port), (socket.AF_INET, listener.getsockname()[1]))
        async with calling(Destination("tcp://twofold:1", GET_STREAM, "the exchange", timeout_seconds=100)):
            peer, _ = listener.accept()
            with peer:
                assert peer.recv(HEADER_BYTES) == header(StreamMessageKind.GET)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        await test(listener)


async def test_a_silent_address_does_not_delay_the_next_one(
    resolve_to: Callable[..., None], silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(listener: socket.socket) -> None:
        resolve_to((socket.AF_INET, silent_port), (socket.AF_INET, listener.getsockname()[1]))
        async with calling(Destination("tcp://twofold:1", GET_STREAM, "the exchange", timeout_seconds=100)):
            peer, _ = listener.accept()
            with peer:
                assert peer.recv(HEADER_BYTES) == header(StreamMessageKind.GET)

    monkeypatch.setattr(dialling, "NEXT_ADDRESS_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await test(listener)


DIAL_WITHOUT_GRPC = """
import asyncio, sys
sys.modules["grpc"] = None  # from here on, "import grpc" raises ImportError
from permitflow.errors import UnknownChannelError
from permitflow.client import describe
from permitflow.client.blocking import open_source
for dial in (lambda at: asyncio.run(describe(at, "none")), lambda at: open_source(at, "none")):
    try:
        dial(sys.argv[1])
    except UnknownChannelError as error:
        print(error.channel)
"""


async def test_an_exchange_is_dialled_over_tcp_without_grpc() -> None:
    async with ExchangeServer(Exchange(), "tcp://127.0.0.1:0") as server:
        command = (sys.executable, "-c", DIAL_WITHOUT_GRPC, server.address)
        dialler = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        said, _ = await dialler.communicate()
    assert said.split() == [b"none", b"none"]


async def test_a_message_that_arrives_byte_by_byte_is_put_together() -> None:
    async with dialled_by_a_stranger() as (stranger, acceptor):
        for byte in (
            header(StreamMessageKind.PUT)
            + header(StreamMessageKind.MESSAGE, 3)
            + b"abc"
            + header(StreamMessageKind.PING)
            + header(StreamMessageKind.END)
        ):
            stranger.send(bytes([byte]))
            await asyncio.sleep(0)
        assert await acceptor.method() == PUT_STREAM
        conversation = Conversation(acceptor)
        assert await conversation.read() == b"abc"
        assert await conversation.read() is None


@pytest.mark.parametrize("bit", range(8 * HEADER_BYTES))
async def test_a_header_with_one_flipped_bit_was_altered(bit: int) -> None:
    altered = bytearray(header(StreamMessageKind.PUT) + header(StreamMessageKind.MESSAGE, 3) + b"abc")
    altered[HEADER_BYTES + bit // 8] ^= 1 << bit % 8
    async with dialled_by_a_stranger() as (stranger, acceptor):
        stranger.send(altered)
        await acceptor.method()
        with pytest.raises(AlteredMessageError, match="of a header") as caught:
            await Conversation(acceptor).read()
    assert caught.value.stated != caught.value.computed


@pytest.mark.parametrize("bit", range(8 * HEADER_BYTES))
async def test_a_first_header_with_permitflows_mark_was_altered(bit: int) -> None:
    altered = bytearray(header(StreamMessageKind.PUT))
    altered[bit // 8] ^= 1 << bit % 8
    async with dialled_by_a_stranger() as (stranger, acceptor):
        stranger.send(altered)
        with pytest.raises(UndecodableDataError if bit // 8 in (1, 2) else AlteredMessageError):
            await acceptor.method()


@pytest.mark.parametrize("kind", [StreamMessageKind.GET, StreamMessageKind.STATUS])
async def test_a_dialler_says_only_what_it_may(kind: StreamMessageKind) -> None:
    async with connected() as (dialler, acceptor):
        dialler.call(kind)
        with pytest.raises(UndecodableDataError, match="may not come here"):
            await Conversation(acceptor).read()


async def test_a_connection_that_breaks_off_is_no_end() -> None:
    async with connected() as (dialler, acceptor):
        far, near = Conversation(acceptor), Conversation(dialler)
        assert await near.read() == b"agreed"
        dialler.write([b"the last word"])
        dialler.close()
        assert await far.read() == b"the last word"
        with pytest.raises(PeerGoneError, match="the dialler is gone: its connection was closed before the end"):
            await far.read()
        with pytest.raises(PeerGoneError):
            await far.write([b"?"])


async def test_a_status_that_comes_in_parts_outlives_the_hang_up_behind_it() -> None:
    status = encode_status(UnknownChannelError(channel="x", known=("y",)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    dialler = TcpStream(near, who="the acceptor", is_acceptor=False)
    reading = asyncio.create_task(Conversation(dialler).read())
    with far:
        far.sendall(header(StreamMessageKind.STATUS, len(status)) + status[:10])
        await turns()
        far.sendall(status[10:])
        far.shutdown(socket.SHUT_WR)
        with pytest.raises(UnknownChannelError):
            await reading
    dialler.close()


async def write_for_ever(conversation: Conversation) -> None:
    while True:
        await conversation.write([bytes(100_000)])


async def test_an_acceptor_ends_with_a_status_however_much_is_on_its_way() -> None:
    async with connected() as (dialler, acceptor):
        near = Conversation(dialler)
        assert await near.read() == b"agreed"
        writing = asyncio.create_task(write_for_ever(near))
        finishing = asyncio.create_task(acceptor.finish(UnknownChannelError(channel="x", known=("y",))))
        with pytest.raises(UnknownChannelError) as caught:
            await near.read()
        assert caught.value.known == ("y",)
        await asyncio.wait({writing})
        assert isinstance(writing.exception(), UnknownChannelError)
        dialler.close()
        await finishing


async def everything(stranger: socket.socket) -> bytes:
    received = bytearray()
    with suppress(ConnectionResetError):
        while some := await asyncio.get_running_loop().sock_recv(stranger, 1 << 20):
            received += some
    return bytes(received)


@pytest.mark.parametrize("error", [None, UnknownChannelError(channel="x", known=())], ids=["well", "with an error"])
async def test_an_acceptor_that_gives_up_hangs_up_and_adds_nothing(
    error: PermitflowError | None,
) -> None:
    async with dialled_by_a_stranger() as (stranger, acceptor):
        content = bytes(5_000_000)
        assert not acceptor.write([content])
        finishing = asyncio.create_task(acceptor.finish(error))
        received = await everything(stranger)
        await finishing
        whole = header(StreamMessageKind.MESSAGE, len(content)) + content
        assert len(received) < len(whole)
        assert received == whole[: len(received)]


async def test_a_writer_that_waits_for_a_peer_that_hangs_up_hears_of_it() -> None:
    async with connected() as (dialler, acceptor):
        near = Conversation(dialler)
        assert await near.read() == b"agreed"
        while dialler.write([bytes(100_000)]):
            pass
        acceptor.close()
        with pytest.raises(PeerGoneError, match="the acceptor is gone"):
            await near.read()
