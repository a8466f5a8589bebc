"""Both ends of a carrier within one process: over TCP, through shared memory, or with one end played by the test."""

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

import pyarrow as pa

from permitflow.protocol.frames import End, Feedback, Put
from permitflow.protocol.handshake import PROTOCOL_VERSION
from permitflow.protocol.permits import PERMITS, ChannelParameters
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.carrier import Buffer, PromptCarrier, Received, Take
from permitflow.transports.checksum import checked, with_checksum
from permitflow.transports.codec import EncodedChunks, decode_downstream, encode_upstream
from permitflow.transports.connection import PUT_STREAM
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.shared_memory.handover import Listener, connect, receive
from permitflow.transports.shared_memory.ring import RingReader, RingWriter
from permitflow.transports.tcp import Kind, TcpStream
from tests.support.number_streams import SCHEMA, turns


def message_of(pieces: Sequence[Buffer]) -> bytes:
    """As it goes over a network."""
    return b"".join(with_checksum(pieces))


class PlayedCarrier(PromptCarrier):
    """Hands over at once what the test brings; what is written goes nowhere, unless ``write_now`` is overridden."""

    def __init__(self, dialled: Iterable[Sequence[Buffer]]) -> None:
        """With the messages by which the other end has dialled."""
        self._first: deque[Received] = deque(map(message_of, dialled))
        self._take: Take | None = None
        self._behind = 0

    async def read(self) -> Received | None:
        """What the other end has dialled with; then nothing, ever."""
        if self._first:
            return self._first.popleft()
        for_ever: asyncio.Future[Received | None] = asyncio.get_running_loop().create_future()
        return await for_ever

    def hand_to(self, take: Take) -> None:
        """Call this with what comes."""
        self._take = take

    @property
    def has_more(self) -> bool:
        """Are messages that come together not handed over yet?"""
        return self._behind > 0

    def bring(self, *messages: Sequence[Buffer]) -> None:
        """Let messages come together."""
        assert self._take is not None, "the end was not told to read yet"
        self._behind = len(messages)
        for message in messages:
            self._behind -= 1
            self._take(message_of(message))

    def write_now(self, message: Sequence[Buffer]) -> None:
        """Nothing is left to be done."""

    async def write(self, message: Sequence[Buffer]) -> None:
        """As ``write_now``."""
        self.write_now(message)

    async def half_close(self) -> None:
        """Nothing to do."""


class PlayedProducer(PlayedCarrier):
    """Sends when the test calls it, and notes what returns."""

    def __init__(self) -> None:
        """It has dialled."""
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
        """Nothing more will be sent."""
        self.bring(*encode_upstream([End(self._sent_chunks, self._sent_rows, 0)]))

    def write_now(self, message: Sequence[Buffer]) -> None:
        """The receiving end says something."""
        frames = decode_downstream(checked(b"".join(message)), PERMITS)
        self.returned_rows += [frame.said.rows for frame in frames if isinstance(frame, Feedback)]


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


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[TcpStream, TcpStream]]:
    """A dialler and an acceptor; the call has been made."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    dialler = TcpStream(near, who="the acceptor", is_acceptor=False)
    acceptor = TcpStream(far, who="the dialler", is_acceptor=True)
    await dialler.call(Kind.PUT)
    assert await acceptor.method() == PUT_STREAM
    await acceptor.write([b"agreed"])
    assert await dialler.read() == b"agreed"
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

    def close(self) -> None:
        """Give everything back."""
        for end in self:
            end.close()


@contextmanager
def memory_ends(capacity_bytes: int = SMALL_RING_BYTES, *, offerer_writes: bool = True) -> Iterator[MemoryEnds]:
    """Offer, and accept; at the end of the block everything is closed.

    Args:
        capacity_bytes: of the ring.
        offerer_writes: does the end that offers write (Put), or read (Get)?
    """
    ends = _handed_over(capacity_bytes, offerer_writes)
    try:
        yield ends
    finally:
        ends.close()


def _handed_over(capacity_bytes: int, offerer_writes: bool) -> MemoryEnds:
    listener = Listener(capacity_bytes, writes=offerer_writes)
    try:
        connection = connect(listener.name)
        offerer, acceptor = listener.accept(), receive(connection, writes=not offerer_writes)
        assert offerer is not None
        assert acceptor is not None
        counter = listener.take_counter()
    finally:
        listener.close()
    if offerer_writes:
        writer, reader = RingWriter(listener.region, counter), RingReader(acceptor.region, acceptor.counter)
        return MemoryEnds(offerer, writer, acceptor.socket, reader)
    writer, reader = RingWriter(acceptor.region, acceptor.counter), RingReader(listener.region, counter)
    return MemoryEnds(acceptor.socket, writer, offerer, reader)
