"""What a hostile process does to an exchange over real sockets, again and again, and what it hears.

Most of it is not our protocol; ``greedy`` is what a peer does that speaks it.
"""

import asyncio
import gzip
import secrets
import socket
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

import grpc
import pyarrow as pa

from permitflow.carriers.addresses import parsed
from permitflow.carriers.byte_stream import KIND_OF_METHOD, StreamMessageKind, read_header
from permitflow.carriers.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.carriers.datagrams.link import LinkFeedback
from permitflow.carriers.datagrams.packets import COOKIE_BYTES, Challenge, Data, Hello, Open, decode, encode
from permitflow.carriers.framing import HEADER_BYTES, header
from permitflow.client import get, put
from permitflow.errors import PermitflowError
from permitflow.exchange import Limits
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.stream.resuming import TOKEN_BYTES
from permitflow.wire.arrow import MAX_MESSAGE_BYTES
from permitflow.wire.checksum import Checksums
from permitflow.wire.control_codec import MOST_REQUEST_BYTES
from permitflow.wire.v1 import exchange_pb2 as pb
from permitflow.wire.wire_errors import decode_status
from tests.hostile.byte_grammar import (
    CONTINUATION,
    DATA,
    HEADERS,
    PING,
    PREFACE,
    RESET,
    SETTINGS,
    call_of,
    frame,
    message,
    whole,
)
from tests.hostile.grammar import BATCH, COMPRESSED, ENCODED, FEEDBACK, LATER, WANTED, downstream, upstream

ATTACKED, NEIGHBOUR = "attacked/0", "neighbour"
"""A channel, and a stream of which each measurement has a channel of its own."""
SCHEMA = BATCH.schema
SOURCE: Final = "127.0.0.66"
"""The address of the attackers: the neighbour has another one, as on a network."""
_RST: Final = struct.pack("ii", 1, 0)
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Target:
    """Where the exchange listens."""

    grpc: str
    tcp: str
    udp: str
    seconds: float
    """For which an attack goes on."""


Attack = Callable[[Target, Counter[str]], Awaitable[None]]
"""Counts what it hears, by the name of the error, or in words."""


class _Connection:
    """A connection over TCP, on which anything may be written."""

    def __init__(self, address: str) -> None:
        _, host, port = parsed(address)
        self._name, self._loop = (host, port), asyncio.get_running_loop()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.bind((SOURCE, 0))
        self._checksums = Checksums(wanted=True)

    async def made(self) -> "_Connection":
        await self._loop.sock_connect(self.socket, self._name)
        return self

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def call(self, method: str, *contents: bytes) -> None:
        await self.send(header(KIND_OF_METHOD[method]) + b"".join(map(self.framed, contents)))

    def framed(self, content: bytes) -> bytes:
        """A message with its checksum."""
        message = b"".join(self._checksums.add([content]))
        return header(StreamMessageKind.MESSAGE, len(message)) + message

    async def agreement(self) -> str:
        """Wait for the first message; the exchange's error, if one comes instead."""
        heard = bytearray()
        while not heard or _kinds(heard)[-1:] == [StreamMessageKind.PING] or not _kinds(heard):
            if not (some := await self._loop.sock_recv(self.socket, _READ_BYTES)):
                return "hung up"
            heard += some
        return "" if StreamMessageKind.STATUS not in _kinds(heard) else _last_word(heard)

    async def answer(self) -> str:
        """The name of the error with which the exchange ends the stream, or how else it ends."""
        heard = bytearray()
        try:
            while some := await self._loop.sock_recv(self.socket, _READ_BYTES):
                heard += some
        except OSError:
            return "reset"
        return _last_word(heard)

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
        self.socket.close()


def _kinds(heard: bytearray) -> list[StreamMessageKind]:
    """Of the messages that have begun."""
    view, found = memoryview(heard), list[StreamMessageKind]()
    while len(view) >= HEADER_BYTES:
        kind, size = read_header(view, "the exchange", 1 << 26)
        found.append(kind)
        view = view[HEADER_BYTES + size :]
    return found


def _last_word(heard: bytearray) -> str:
    view = memoryview(heard)
    with suppress(PermitflowError, struct.error):
        while len(view) >= HEADER_BYTES:
            kind, size = read_header(view, "the exchange")
            if kind is StreamMessageKind.STATUS:
                return type(decode_status(bytes(view[HEADER_BYTES : HEADER_BYTES + size]), who="it")).__name__
            view = view[HEADER_BYTES + size :]
    return "hung up"


async def again(target: Target, number: int, once: Callable[[], Awaitable[str]], answers: Counter[str]) -> None:
    """So many at a time, again and again."""
    until = time.monotonic() + target.seconds

    async def on_and_on() -> None:
        while time.monotonic() < until:
            try:
                answers[await once()] += 1
            except OSError as error:
                answers[type(error).__name__] += 1
            await asyncio.sleep(0)

    with suppress(TimeoutError):
        async with asyncio.timeout(target.seconds + 1.0), asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(on_and_on())


def _get(**stated: object) -> bytes:
    asked = pb.Get(protocol_version=PROTOCOL_VERSION, channel=ATTACKED, **stated)  # type: ignore[arg-type]
    return downstream(pb.DownstreamFrame(get=asked))


def _put(**stated: object) -> bytes:
    schema = SCHEMA.serialize().to_pybytes()
    asked = pb.Put(protocol_version=PROTOCOL_VERSION, channel=ATTACKED, schema=schema, **stated)  # type: ignore[arg-type]
    return upstream(pb.UpstreamFrame(put=asked))


def _conversation(method: str, *contents: bytes, number: int = 8) -> Attack:
    """A call that says all this, waits for the agreement in between, and hears what comes of it."""

    async def attack(target: Target, answers: Counter[str]) -> None:
        async def once() -> str:
            connection = await _Connection(target.tcp).made()
            with closing(connection.socket):
                await connection.call(method, contents[0])
                if refused := await connection.agreement():
                    return refused
                try:
                    for content in contents[1:]:
                        await connection.send(connection.framed(content))
                except ConnectionError:
                    pass
                return await connection.answer()

        await again(target, number, once, answers)

    return attack


def _bytes(data: bytes) -> Attack:
    async def attack(target: Target, answers: Counter[str]) -> None:
        async def once() -> str:
            connection = await _Connection(target.tcp).made()
            with closing(connection.socket):
                await connection.send(data)
                return await connection.answer()

        await again(target, 8, once, answers)

    return attack


async def _slow_loris(target: Target, answers: Counter[str]) -> None:
    """A byte in a while, so that each connection seems to be alive."""

    async def once() -> str:
        connection = await _Connection(target.tcp).made()
        with closing(connection.socket):
            answer = asyncio.create_task(connection.answer())
            for byte in header(StreamMessageKind.GET) + connection.framed(_get()):
                if answer.done():
                    break
                with suppress(ConnectionError):
                    await connection.send(bytes((byte,)))
                await asyncio.wait({answer}, timeout=0.3)
            return await answer

    await again(target, 300, once, answers)


async def _many_connections(target: Target, answers: Counter[str]) -> None:
    """As many as it gets, each with a control stream, which may be idle."""
    until, kept = time.monotonic() + target.seconds, list[_Connection]()
    try:
        while time.monotonic() < until:
            connection = await _Connection(target.tcp).made()
            kept.append(connection)
            await connection.call(CONTROL)
            answers["served"] += 1
            if len(kept) % 50 == 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        answers[await connection.answer()] += 1
                        answers["served"] -= 1
            if len(kept) > 6_000:
                kept.pop().socket.close()
                await asyncio.sleep(0.001)
    finally:
        for connection in kept:
            connection.socket.close()


async def _connect_and_reset(target: Target, answers: Counter[str]) -> None:
    async def once() -> str:
        (await _Connection(target.tcp).made()).reset()
        return "reset by the attacker"

    await again(target, 4, once, answers)


async def _call_and_reset(target: Target, answers: Counter[str]) -> None:
    async def once() -> str:
        connection = await _Connection(target.tcp).made()
        await connection.call(GET_STREAM, _get(probe=True))
        connection.reset()
        return "reset by the attacker"

    await again(target, 4, once, answers)


async def _suspended(target: Target, answers: Counter[str]) -> None:
    """Streams that offer to resume, and lose their connections."""

    async def once() -> str:
        connection = await _Connection(target.tcp).made()
        offer = pb.ResumeOffer(token=secrets.token_bytes(TOKEN_BYTES), seconds=60.0)
        await connection.call(PUT_STREAM, _put(resume=offer, producer=secrets.token_hex(4)))
        heard = await connection.agreement()
        connection.reset()
        return heard or "agreed, then reset by the attacker"

    await again(target, 8, once, answers)


async def _guessing(target: Target, answers: Counter[str]) -> None:
    """Resume of streams that are another's, by tokens at random."""

    async def once() -> str:
        connection = await _Connection(target.tcp).made()
        with closing(connection.socket):
            frame = pb.ConnectionFrame(resume=pb.Resume(token=secrets.token_bytes(TOKEN_BYTES), attempt=1, received=1))
            await connection.call(PUT_STREAM, pb.FromUpstream(connection=frame).SerializeToString())
            return await connection.answer()

    await again(target, 8, once, answers)


async def _never_reading(target: Target, answers: Counter[str]) -> None:
    """Asks for statistics on and on, and reads no reply."""

    async def once() -> str:
        connection = await _Connection(target.tcp).made()
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with closing(connection.socket):
            await connection.call(CONTROL)
            asked = pb.ControlRequest(statistics=pb.StatisticsRequest()).SerializeToString()
            request = b"".join(Checksums(wanted=True).add([asked]))
            request = header(StreamMessageKind.MESSAGE, len(request)) + request
            with suppress(TimeoutError):
                async with asyncio.timeout(target.seconds):
                    while True:
                        await connection.send(request)
                        answers["asked"] += 1
        return "never read"

    await again(target, 16, once, answers)


async def _half_open(target: Target, answers: Counter[str]) -> None:
    """Says what it wants, closes its half, and stays."""

    async def once() -> str:
        connection = await _Connection(target.tcp).made()
        with closing(connection.socket):
            await connection.call(PUT_STREAM, _put())
            connection.socket.shutdown(socket.SHUT_WR)
            return await connection.answer()

    await again(target, 8, once, answers)


# At gRPC's port.


async def _http2(target: Target, answers: Counter[str], parts: Callable[[int], bytes], number: int = 4) -> None:
    """Write what comes of the number of each turn, on and on, and read what comes."""

    async def once() -> str:
        connection = await _Connection(target.grpc).made()
        heard = asyncio.create_task(connection.answer())
        with closing(connection.socket):
            try:
                await connection.send(PREFACE + frame(SETTINGS, b""))
                until, turn = time.monotonic() + target.seconds, 0
                while time.monotonic() < until and not heard.done() and turn < 50_000:
                    await connection.send(parts(turn))
                    turn += 1
                    answers["written"] += 1
                    await asyncio.sleep(0)
            except ConnectionError:
                pass
            finally:
                heard.cancel()
                await asyncio.wait({heard})
        return "hung up" if heard.done() and not heard.cancelled() else "went on"

    await again(target, number, once, answers)


async def _rapid_reset(target: Target, answers: Counter[str]) -> None:
    """Calls that are reset at once."""

    def parts(turn: int) -> bytes:
        stream = 2 * turn + 1
        return frame(HEADERS, call_of(GET_STREAM), 4, stream) + frame(RESET, (8).to_bytes(4, "big"), 0, stream)

    await _http2(target, answers, parts)


def _frames(one: bytes) -> Attack:
    """Frames that gRPC answers, 40 at a time."""

    async def attack(target: Target, answers: Counter[str]) -> None:
        await _http2(target, answers, lambda _: one * 40)

    return attack


async def _metadata(target: Target, answers: Counter[str]) -> None:
    """Headers of 200 kB."""
    more = {f"x-{number}": b"x" * 4_000 for number in range(50)}

    def parts(turn: int) -> bytes:
        block, stream = call_of(GET_STREAM, **more), 2 * turn + 1
        first, *others = [block[start : start + 16_000] for start in range(0, len(block), 16_000)]
        rest = b"".join(frame(CONTINUATION, each, 0, stream) for each in others[:-1])
        return frame(HEADERS, first, 0, stream) + rest + frame(CONTINUATION, others[-1], 4, stream)

    await _http2(target, answers, parts)


async def _continuations(target: Target, answers: Counter[str]) -> None:
    """Headers that never end."""

    def parts(turn: int) -> bytes:
        return frame(
            CONTINUATION if turn else HEADERS, call_of(GET_STREAM) if not turn else b"\x00\x01a\x01b" * 99, 0, 1
        )

    await _http2(target, answers, parts)


async def _calls(target: Target, answers: Counter[str]) -> None:
    """Calls that say nothing, as many as one connection has."""
    await _http2(target, answers, lambda turn: frame(HEADERS, call_of(GET_STREAM), 4, 2 * turn + 1))


async def _untaken(target: Target, answers: Counter[str]) -> None:
    """Long requests, as many as the exchange takes, of a peer that gives no room for replies."""
    asked = pb.ControlRequest(statistics=pb.StatisticsRequest(channels=[ATTACKED])).SerializeToString()
    unknown = pb.Failure(error=bytes(MOST_REQUEST_BYTES - 1_024)).SerializeToString()[1:]
    request = b"".join(Checksums(wanted=True).add([asked, b"\xfa\x01", unknown]))
    no_room = [("grpc.http2.lookahead_bytes", 5), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]

    async def once() -> str:
        async with grpc.aio.insecure_channel(target.grpc, options=no_room) as channel:
            call: Any = channel.stream_stream(CONTROL)()
            try:
                async with asyncio.timeout(target.seconds):
                    while True:
                        await call.write(request)
                        answers["written"] += 1
            except TimeoutError:
                return "never read"
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return "hung up"

    await again(target, 8, once, answers)


async def _gzip(target: Target, answers: Counter[str]) -> None:
    """First messages of 16 kB that become 16 MiB."""
    content = b"\1" + message(gzip.compress(bytes(MAX_MESSAGE_BYTES)))[1:]
    headers = call_of(PUT_STREAM, **{"grpc-encoding": b"gzip"})

    def parts(turn: int) -> bytes:
        stream = 2 * turn + 1
        return frame(HEADERS, headers, 4, stream) + frame(DATA, content, 1, stream)

    await _http2(target, answers, parts, 16)


async def _first_messages(target: Target, answers: Counter[str]) -> None:
    """First messages of 16 MiB without their last bytes, as many at a time as one peer may have handshakes."""
    begin = PREFACE + frame(SETTINGS, b"") + frame(SETTINGS, b"", 1) + frame(HEADERS, call_of(PUT_STREAM), 4, 1)
    parts = [frame(DATA, message(bytes(_READ_BYTES >> 2), MAX_MESSAGE_BYTES)[: _READ_BYTES >> 2], 0, 1)]
    parts += [frame(DATA, bytes(_READ_BYTES >> 2), 0, 1)] * (MAX_MESSAGE_BYTES // (_READ_BYTES >> 2) - 1)

    async def once() -> str:
        connection = await _Connection(target.grpc).made()
        with closing(connection.socket):
            await connection.send(begin)
            for part in parts:
                await connection.send(part)
            return await connection.answer()

    await again(target, Limits().max_handshakes_per_peer, once, answers)


async def _silent(target: Target, answers: Counter[str]) -> None:
    """Connections at which gRPC waits for a word."""

    async def once() -> str:
        connection = await _Connection(target.grpc).made()
        with closing(connection.socket):
            return await connection.answer()

    await again(target, 1_000, once, answers)


# Over UDP.


def _datagrams(target: Target) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.bind((SOURCE, 0))
    _, host, port = parsed(target.udp)
    made.connect((host, port))
    return made


async def _spoofed(target: Target, answers: Counter[str]) -> None:
    """Openings without the cookie, and data of connections that are another's."""
    loop, heard = asyncio.get_running_loop(), asyncio.get_running_loop().sock_recv

    async def once() -> str:
        with closing(_datagrams(target)) as made:
            for _ in range(50):
                number = secrets.randbits(64)
                await loop.sock_sendall(made, encode(Open(number, secrets.token_bytes(COOKIE_BYTES), 16)))
                await loop.sock_sendall(made, whole(Data(0, LinkFeedback(number, 0, 16), b"x" * 1_000)))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    while True:
                        answers[type(decode(await heard(made, _READ_BYTES))).__name__] += 1
        return "50 openings"

    await again(target, 4, once, answers)


async def _opened(target: Target, answers: Counter[str]) -> None:
    """Connections that are made as they should be, and left."""
    loop = asyncio.get_running_loop()

    async def once() -> str:
        with closing(_datagrams(target)) as made, suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await loop.sock_sendall(made, encode(Hello(1)))
                challenge = decode(await loop.sock_recv(made, _READ_BYTES))
                if isinstance(challenge, Challenge):
                    await loop.sock_sendall(made, encode(Open(1, challenge.cookie, 16)))
                    return type(decode(await loop.sock_recv(made, _READ_BYTES))).__name__
        return "no answer"

    await again(target, 8, once, answers)


async def _bomb(target: Target, answers: Counter[str]) -> None:
    """Batches that say they become gigabytes, and such as become more than they say."""
    codec = pb.CompressionOffer(codecs=[pb.CODEC_ZSTD], wanted=pb.CODEC_ZSTD)
    bomb = pa.compress(bytes(64 << 20), codec="zstd", asbytes=True)
    for size, content in ((4 << 30, bomb), (1 << 20, bomb), (len(ENCODED), COMPRESSED[:-5])):
        chunks = pb.Chunks(rows=[3], size_bytes=len(content), uncompressed_bytes=size)
        message = upstream(pb.UpstreamFrame(chunks=chunks), body=content)
        short = Target(target.grpc, target.tcp, target.udp, target.seconds / 3)
        await _conversation(PUT_STREAM, _put(compression=codec), message)(short, answers)


async def _overrun_by_our_client(target: Target, answers: Counter[str]) -> None:
    """A producer and a consumer that come and go, as quickly as they can."""

    async def once() -> str:
        try:
            async with put(target.tcp, ATTACKED, SCHEMA) as sender:
                await sender.send(BATCH)
                await sender.end(closes_channel=False)
            async with get(target.tcp, ATTACKED):
                pass
        except PermitflowError as error:
            return type(error).__name__
        return "served"

    await again(target, 4, once, answers)


_OVERRUN = downstream(pb.DownstreamFrame(feedback=FEEDBACK))
_FLOOD = downstream(*[pb.DownstreamFrame(feedback=b"")] * 8_192)
_NARROW = _put(flow=PERMITS.name, wanted=WANTED)
_CHUNK = LATER[PUT_STREAM][1]

OF_STRANGERS: Final[dict[str, tuple[str, Attack]]] = {
    "slow loris: a byte every 0.3 s": ("tcp", _slow_loris),
    "connections, as many as it gets": ("tcp", _many_connections),
    "connections that are reset at once": ("tcp", _connect_and_reset),
    "calls that are reset at once": ("tcp", _call_and_reset),
    "bytes of another protocol": ("tcp", _bytes(b"GET / HTTP/1.1\r\n\r\n")),
    "a first message of 4 GiB": (
        "tcp",
        _bytes(header(StreamMessageKind.GET) + header(StreamMessageKind.MESSAGE, 2**32 - 1)),
    ),
    "permits that were never had": ("tcp", _conversation(GET_STREAM, _get(), _OVERRUN)),
    "more rows than there are permits": (
        "tcp",
        _conversation(PUT_STREAM, _NARROW, *[_CHUNK] * 100),
    ),
    "a flood of feedback": ("tcp", _conversation(GET_STREAM, _get(), *[_FLOOD] * 50)),
    "batches that become gigabytes": ("tcp", _bomb),
    "a peer that never reads": ("tcp", _never_reading),
    "half-open connections": ("tcp", _half_open),
    "streams that lose their connections": ("tcp", _suspended),
    "guessed tokens of streams": ("tcp", _guessing),
    "streams that come and go": ("tcp", _overrun_by_our_client),
    "gRPC: calls that are reset at once": ("grpc", _rapid_reset),
    "gRPC: calls that say nothing": ("grpc", _calls),
    "gRPC: headers of 200 kB": ("grpc", _metadata),
    "gRPC: headers that never end": ("grpc", _continuations),
    "gRPC: pings": ("grpc", _frames(frame(PING, bytes(8)))),
    "gRPC: settings": ("grpc", _frames(frame(SETTINGS, b""))),
    "gRPC: connections that say nothing": ("grpc", _silent),
    "gRPC: requests without room for replies": ("grpc", _untaken),
    "gRPC: messages that become gigabytes": ("grpc", _gzip),
    "gRPC: first messages of 16 MiB": ("grpc", _first_messages),
    "UDP: openings without a cookie, foreign data": ("udp", _spoofed),
    "UDP: connections that are left": ("udp", _opened),
}
"""By its name: the scheme over which the neighbour sends, and what the attacker does."""
