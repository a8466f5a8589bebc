"""Both ends of a carrier within one process: over TCP, in shared memory, or with one end played by the test."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

import grpc
import pyarrow as pa

from permitflow import ChannelParameters
from permitflow.carriers.byte_stream import StreamMessageKind
from permitflow.carriers.carrier import Carrier, Listener
from permitflow.carriers.connection import GET_STREAM, PUT_STREAM, SERVER_OPTIONS, SERVICE, Options
from permitflow.carriers.grpc_calls import Context
from permitflow.carriers.shared_memory.region import create_region, open_region
from permitflow.carriers.shared_memory.ring import RingReader, RingWriter
from permitflow.carriers.tcp import TcpStream
from permitflow.client import RemoteReceiver
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.control import ControlReply
from permitflow.stream.frames import End, Feedback, Put
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.stream.session import DownstreamSession
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.buffers import Buffer
from permitflow.wire.checksum import Checksums, with_checksum
from permitflow.wire.codec import EncodedChunks, decode_downstream, encode_upstream
from permitflow.wire.control_codec import reply_pieces
from tests.support.number_streams import SCHEMA
from tests.support.turns import turns


def message_of(pieces: Sequence[Buffer]) -> bytes:
    return b"".join(with_checksum(pieces))


def encode_reply(reply: ControlReply[pa.Schema]) -> bytes:
    return message_of([*reply_pieces(reply)])


class PlayedCarrier(Carrier):
    """Lets its listener hear what the test brings, at once; what is written goes nowhere, if not for ``write``."""

    def __init__(self, dialled: Iterable[Sequence[Buffer]]) -> None:
        """With the messages by which the other end has dialled."""
        self._first = list(dialled)
        self.checksums = Checksums(wanted=True)
        self._listener: Listener | None = None

    def listen(self, listener: Listener) -> None:
        self._listener = listener
        first, self._first = self._first, []
        asyncio.get_running_loop().call_soon(self.bring, *first)

    def bring(self, *messages: Sequence[Buffer]) -> None:
        assert self._listener is not None, "nobody listens yet"
        for behind, message in zip(reversed(range(len(messages))), messages, strict=True):
            self._listener.on_message(b"".join(self.checksums.add(message)), behind > 0)

    def take_more(self) -> None:
        assert self._listener is not None, "nobody listens yet"
        self._listener.on_writable()

    def write(self, message: Sequence[Buffer]) -> bool:
        return True

    def pause(self) -> None:
        """See ``Carrier``; nothing comes by itself."""

    def resume(self) -> None:
        """See ``Carrier``."""

    def half_close(self) -> None:
        """See ``Carrier``."""

    async def stop(self) -> None:
        """See ``Carrier``."""


class PlayedProducer(PlayedCarrier):
    """Sends when the test calls it, and notes what returns."""

    def __init__(self) -> None:
        super().__init__(encode_upstream([Put(PROTOCOL_VERSION, "numbers")]))
        self._codec = BatchCodec(SCHEMA)
        self._sent_chunks = self._sent_rows = 0
        self.returned_rows: list[int] = []
        """Row permits, a number for each message that returns some."""

    def send(self, *rows: int) -> None:
        """Chunks in one batch, numbered on from what was sent before."""
        first, self._sent_rows = self._sent_rows, self._sent_rows + sum(rows)
        self._sent_chunks += len(rows)
        batch = pa.record_batch([pa.array(range(first, self._sent_rows), pa.int64())], schema=SCHEMA)
        self.bring(*encode_upstream([EncodedChunks(rows, [b"".join(self._codec.encode([batch]))])]))

    def end(self) -> None:
        self.bring(*encode_upstream([End(self._sent_chunks, self._sent_rows, 0)]))

    def write(self, message: Sequence[Buffer]) -> bool:
        frames = decode_downstream(self.checksums.check(b"".join(message)), PERMITS)
        self.returned_rows += [frame.content.rows for frame in frames if isinstance(frame, Feedback)]
        return True


@asynccontextmanager
async def played_stream(parameters: ChannelParameters) -> AsyncIterator[tuple[PlayedProducer, RemoteReceiver]]:
    """Both ends of a stream that has been agreed on."""
    producer = PlayedProducer()
    receiver = RemoteReceiver(DownstreamSession(), producer)
    running = asyncio.create_task(receiver.run())
    await receiver.dialled()
    receiver.accept(parameters, schema=SCHEMA, stream="s")
    await turns()
    try:
        yield producer, receiver
    finally:
        running.cancel()
        await asyncio.wait({running})


Act = Callable[[str, Context], Awaitable[None]]
"""Answers a call: the method, and what gRPC knows of the call."""


@asynccontextmanager
async def answering_grpc(act: Act, options: Options = SERVER_OPTIONS) -> AsyncIterator[str]:
    """The address of a server whose streams a test answers."""

    def handler(method: str) -> "grpc.RpcMethodHandler[bytes, bytes]":
        async def answer(_: object, context: Context) -> None:
            await act(method, context)

        return grpc.stream_stream_rpc_method_handler(answer)

    server = grpc.aio.server(options=options)
    handlers = {method.rpartition("/")[2]: handler(method) for method in (GET_STREAM, PUT_STREAM)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[TcpStream, TcpStream]]:
    """A dialler and an acceptor; the call has been made, and the acceptor has agreed to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    dialler = TcpStream(near, who="the acceptor", is_acceptor=False)
    acceptor = TcpStream(far, who="the dialler", is_acceptor=True)
    dialler.call(StreamMessageKind.PUT)
    assert await acceptor.method() == PUT_STREAM
    acceptor.write([b"agreed"])
    yield dialler, acceptor
    dialler.close()
    acceptor.close()


@asynccontextmanager
async def dialled_by_a_stranger() -> AsyncIterator[tuple[socket.socket, TcpStream]]:
    """Bytes as they come, and an acceptor."""
    near, far = socket.socketpair(socket.AF_UNIX)
    near.setblocking(False)
    far_inet = _Inet(far)
    acceptor = TcpStream(far_inet, who="the client", is_acceptor=True)
    yield near, acceptor
    acceptor.close()
    near.close()


class _Inet(socket.socket):
    """A socket pair knows no options of TCP."""

    def __init__(self, other: socket.socket) -> None:
        super().__init__(other.family, other.type, other.proto, other.detach())

    def setsockopt(self, *_: object) -> None:
        """Nothing to set."""


SMALL_RING_BYTES = 256 << 10


class MemoryEnds(NamedTuple):
    """What both ends have after the handover."""

    writer_socket: socket.socket
    writer: RingWriter
    reader_socket: socket.socket
    reader: RingReader


@contextmanager
def memory_ends() -> Iterator[MemoryEnds]:
    """Both ends of a small ring; at the end of the block everything is closed."""
    region, memory = create_region(SMALL_RING_BYTES, writable=True)
    counter = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    near, far = socket.socketpair(socket.AF_UNIX)
    for end in (near, far):
        end.setblocking(False)
    reader = RingReader(open_region(memory, writable=False), os.dup(counter))
    os.close(memory)
    ends = MemoryEnds(near, RingWriter(region, counter), far, reader)
    try:
        yield ends
    finally:
        for each in ends:
            each.close()
