"""An end that finds what it has received wrong tells its peer why, before it hangs up; and keeps nothing of it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.carriers.byte_stream import StreamMessageKind
from permitflow.carriers.carrier import Carrier, Conversation, Ear
from permitflow.carriers.connection import GET_STREAM, PUT_STREAM
from permitflow.carriers.framing import header
from permitflow.carriers.grpc_calls import ServerCall
from permitflow.carriers.same_host import SHARED_MEMORY, HostCarrier, Meeting, meet
from permitflow.carriers.shared_memory.link import AsyncioLink
from permitflow.carriers.tcp import TcpStream
from permitflow.client import SameHost, get, put
from permitflow.errors import AlteredMessageError, PeerGoneError, PermitflowError, UndecodableDataError
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.frames import Agreement, Failure
from permitflow.wire.buffers import Received
from permitflow.wire.signs import ASK
from permitflow.wire.wire_errors import decode_error
from tests.support.carriers import PlayedCarrier, answering_grpc, memory_ends, message_of
from tests.support.peers_by_hand import AGREED, BATCH, answered, encoded

SOON_SECONDS = 20.0
PATHS = ["gRPC", "TCP", "shared memory"]
METHODS = [GET_STREAM, PUT_STREAM]
AGREEMENT: Agreement = replace(AGREED, parameters=PERMITS.state(ChannelParameters()))


@dataclass
class Call:
    method: str
    network: Carrier
    connection: socket.socket | None = None
    """Of TCP."""

    @property
    def reply_method(self) -> str:
        """Whose dialler says what this exchange says."""
        return PUT_STREAM if self.method == GET_STREAM else GET_STREAM


Wrong = Callable[[Call, HostCarrier], None]


class LyingExchange:
    """Agrees with any client, says something wrong, and notes the client's frames."""

    def __init__(self, wrong: Wrong, same_host: SameHost) -> None:
        self._wrong, self._same_host = wrong, same_host
        self.came = list[Any]()
        """The frames that were said to it."""
        self.is_over = asyncio.Event()

    async def serve(self, call: Call) -> None:
        carrier = HostCarrier(call.network, who="the client", checksums=True)
        talk = Conversation(carrier)

        async def read() -> bool:
            message = await talk.read()
            if message is not None:
                self.came.extend(answered(call.reply_method, carrier.checked(message)))
            return message is not None

        try:
            assert await read()
            writes = call.method == GET_STREAM
            met = await meet(self.came[0].same_host, self._same_host, writes=writes, who="the client")
            carrier.prepare(met)
            await talk.write([encoded(call.reply_method, replace(AGREEMENT, same_host=met.answer))])
            carrier.change_over()
            self._wrong(call, carrier)
            while await read():
                pass
        except PeerGoneError as error:
            self.came.append(error)
        finally:
            self.is_over.set()
            await carrier.stop()


def over_grpc(exchange: LyingExchange) -> AbstractAsyncContextManager[str]:
    return answering_grpc(lambda method, context: exchange.serve(Call(method, ServerCall(context, "the client"))))


@asynccontextmanager
async def over_tcp(exchange: LyingExchange) -> AsyncIterator[str]:
    """The address; for one client."""
    loop = asyncio.get_running_loop()

    async def serve(listener: socket.socket) -> None:
        connection, _ = await loop.sock_accept(listener)
        stream = TcpStream(connection, who="the client", is_acceptor=True)
        await exchange.serve(Call(await stream.method(), stream, connection))
        await stream.finish(None)
        stream.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        serving = asyncio.create_task(serve(listener))
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        await serving


def served(path: str, exchange: LyingExchange) -> AbstractAsyncContextManager[str]:
    return over_tcp(exchange) if path == "TCP" else over_grpc(exchange)


def altered(call: Call, _: HostCarrier) -> None:
    """A message of which one bit was flipped on the way."""
    message = bytearray(message_of([b"x" * 100]))
    message[50] ^= 1
    call.network.write([bytes(message)])


def undecodable(_: Call, carrier: HostCarrier) -> None:
    carrier.write([b"\xff" * 20])


def misframed(call: Call, _: HostCarrier) -> None:
    """What no message begins with."""
    assert call.connection is not None
    call.connection.send(b"\0pf?wrong")


WRONG: dict[str, tuple[Wrong, type[PermitflowError], Sequence[str]]] = {
    "checksum": (altered, AlteredMessageError, ["gRPC", "TCP"]),
    "message": (undecodable, UndecodableDataError, PATHS),
    "framing": (misframed, AlteredMessageError, ["TCP"]),
}


async def use(method: str, address: str, same_host: SameHost) -> None:
    """Read or write for as long as it goes well."""
    if method == GET_STREAM:
        async with get(address, "orders/0", same_host=same_host) as receiver:
            async for _ in receiver:
                pass
        return
    async with put(address, "orders/0", BATCH.schema, same_host=same_host) as sender:
        while True:
            await sender.send(BATCH)


@pytest.mark.parametrize("method", METHODS, ids=["consumer", "producer"])
@pytest.mark.parametrize(("path", "wrong"), [(path, name) for name, (_, _, paths) in WRONG.items() for path in paths])
async def test_the_peer_is_told_what_is_wrong_before_hanging_up(path: str, wrong: str, method: str) -> None:
    lie, error, _ = WRONG[wrong]
    same_host = SameHost.REQUIRE if path == "shared memory" else SameHost.NEVER
    exchange = LyingExchange(lie, same_host)
    async with asyncio.timeout(SOON_SECONDS), served(path, exchange) as address:
        with pytest.raises(error) as caught:
            await use(method, address, same_host)
        await exchange.is_over.wait()
    last = exchange.came[-1]
    assert isinstance(last, Failure)
    told = decode_error(last.error, who="the client")
    assert type(told) is error
    assert told.message == caught.value.message


async def test_a_link_whose_messages_are_wrong_still_carries_the_last_one() -> None:
    carrier, heard = HostCarrier(PlayedCarrier([]), who="the peer"), asyncio.get_running_loop().create_future()
    carrier.listen(Ear(lambda *_: None, lambda: None, lambda: None, heard.set_result))
    with memory_ends() as ends:
        link = AsyncioLink(ends.reader_socket, ends.reader, most_bytes=1_000)
        carrier.prepare(Meeting(None, link, SHARED_MEMORY))
        carrier.write([b"first"])
        carrier.change_over()
        ends.writer_socket.send(b"this is no header")
        assert isinstance(await heard, UndecodableDataError)
        assert carrier.takes_last_words
        assert carrier.write([b"why"])
        assert ends.writer_socket.recv(100).endswith(b"why")
        await carrier.stop()


async def test_a_sign_that_crosses_the_agreement_ends_no_link() -> None:
    network, heard = PlayedCarrier([[b"first"]]), asyncio.get_running_loop().create_future()
    carrier = HostCarrier(network, who="the peer", checksums=True)

    def hear(message: Received, _: bool) -> None:
        carrier.checked(message)

    carrier.listen(Ear(hear, lambda: None, lambda: None, heard.set_result))
    await asyncio.sleep(0)
    with memory_ends() as ends:
        link = AsyncioLink(ends.reader_socket, ends.reader, most_bytes=1_000)
        carrier.prepare(Meeting(None, link, SHARED_MEMORY))
        carrier.write([b"agreed"])
        carrier.change_over()
        network.bring([ASK])
        assert not heard.done()
        network.bring([b"anything else"])
        assert isinstance(await heard, UndecodableDataError)
        await carrier.stop()


LARGE_BYTES = 32 << 20


def large_and_altered(call: Call, _: HostCarrier) -> None:
    """A large message, of which one bit was flipped on the way."""
    message = bytearray(message_of([bytes(LARGE_BYTES)]))
    message[50] ^= 1
    call.network.write([bytes(message)])


def cut_within_a_message(call: Call, _: HostCarrier) -> None:
    """The beginning of a large message, of which no more comes."""
    assert call.connection is not None
    call.connection.send(header(StreamMessageKind.MESSAGE, LARGE_BYTES) + bytes(100))
    call.connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    ("wrong", "error"), [(large_and_altered, AlteredMessageError), (cut_within_a_message, PeerGoneError)]
)
async def test_no_memory_is_held_for_a_message_that_was_refused_or_cut(
    wrong: Wrong, error: type[PermitflowError]
) -> None:
    exchange = LyingExchange(wrong, SameHost.NEVER)
    async with asyncio.timeout(SOON_SECONDS), served("TCP", exchange) as address:
        before_bytes = pa.total_allocated_bytes()
        async with get(address, "orders/0", same_host=SameHost.NEVER) as receiver:
            with pytest.raises(error) as caught:
                await receiver.receive()
            assert pa.total_allocated_bytes() - before_bytes < LARGE_BYTES / 10
            assert type(caught.value) is error  # it is kept, and keeps nothing
        await exchange.is_over.wait()
