"""What hostile peers send as bytes: framed for TCP, frames of HTTP/2, or packets over UDP; and mistakes in these."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Final

from hypothesis import strategies as st

from permitflow.carriers.byte_stream import KIND_OF_METHOD, StreamMessageKind, read_header
from permitflow.carriers.connection import HEALTH_CHECK
from permitflow.carriers.datagrams.link import LinkFeedback
from permitflow.carriers.datagrams.packets import (
    COOKIE_BYTES,
    MOST_WINDOW,
    Accept,
    Challenge,
    Data,
    Gone,
    Hello,
    Open,
    Packet,
    encode,
    encode_data,
)
from permitflow.carriers.framing import HEADER_BYTES, header
from permitflow.wire.control_codec import MOST_REQUEST_BYTES
from tests.hostile.grammar import Checked, Does, Says, Session, Waits, mutated, sessions

_SELDOM: Final = 10


class End(Enum):
    """How a peer leaves."""

    CLOSES = "it closes its connection"
    RESETS = "it resets its connection"
    HALF_CLOSES = "it says that nothing follows, and reads to the end"


@dataclass(frozen=True)
class Hears:
    """The peer writes no more before this stream of its connection is answered: who goes on before that is refused."""

    stream: int
    """Below 0: before it has ended."""


@dataclass(frozen=True)
class Bytes:
    """What a peer of a connection writes, write by write, and how it leaves."""

    writes: Sequence[bytes | Hears]
    end: End


@st.composite
def _written(draw: st.DrawFn, parts: st.SearchStrategy[list[bytes | Hears]]) -> Bytes:
    """As they are, or with mistakes, in few writes or in many."""
    writes = list[bytes | Hears]()
    for kind, some in groupby(draw(parts), type):
        if kind is Hears:
            writes += some
            continue
        data = b"".join(part for part in some if isinstance(part, bytes))
        if draw(st.integers(0, _SELDOM)) == 0:
            data = draw(mutated(st.just(data)))
        cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
        writes += [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return Bytes(tuple(writes), draw(st.sampled_from(End)))


# TCP.

STRANGERS: Final = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    b"SSH-2.0-x\r\n",
    bytes(64),
    b"",
)
"""Who has taken the exchange for something else."""
_SIZES: Final = (0, 1, 7, 1 << 16, 1 << 20, (1 << 20) + (128 << 10) + 1, MOST_REQUEST_BYTES + 1_025, 1 << 24, 2**32 - 1)


@st.composite
def _framed(draw: st.DrawFn) -> list[bytes | Hears]:
    if draw(st.integers(0, _SELDOM)) == 0:
        return [draw(st.sampled_from(STRANGERS))]
    session = draw(sessions())
    checked, parts = Checked(session.method), list[bytes | Hears]()
    if draw(st.integers(0, _SELDOM)):
        parts.append(header(KIND_OF_METHOD[session.method]))
    for step in session.steps:
        match step, draw(st.integers(0, 2 * _SELDOM)):
            case _, 0:
                parts.append(header(draw(st.integers(0, 255)), draw(st.sampled_from(_SIZES))))
            case _, 1:
                parts.append(
                    header(
                        draw(
                            st.sampled_from(
                                [
                                    StreamMessageKind.PING,
                                    StreamMessageKind.END,
                                    StreamMessageKind.STATUS,
                                    StreamMessageKind.GET,
                                ]
                            )
                        )
                    )
                )
            case Says(), kind:
                message = checked.message(step)
                wrong_bytes = draw(st.sampled_from([-1, 1, 100])) if kind == 2 else 0
                parts.append(header(StreamMessageKind.MESSAGE, max(0, len(message) + wrong_bytes)) + message)
            case Waits(), _:
                parts.append(Hears(0))
            case Does.HALF_CLOSES, _:
                parts.append(header(StreamMessageKind.END))
    return parts


def said_over_tcp(session: Session) -> Bytes:
    """What a peer says, without a mistake of its bytes; it reads to the end."""
    checked, writes = Checked(session.method), list[bytes | Hears]([header(KIND_OF_METHOD[session.method])])
    for step in session.steps:
        if isinstance(step, Says):
            message = checked.message(step)
            writes.append(header(StreamMessageKind.MESSAGE, len(message)) + message)
        elif isinstance(step, Waits):
            writes.append(Hears(0))
    return Bytes(tuple(writes), End.HALF_CLOSES)


def answered_over_tcp(heard: bytes | bytearray) -> set[int]:
    """The streams of a connection that have been answered, by what was heard: 0 is the only one."""
    while len(heard) >= HEADER_BYTES:
        kind, size_bytes = read_header(memoryview(heard), "the exchange")
        if kind is not StreamMessageKind.PING:
            return {0}
        heard = heard[HEADER_BYTES + size_bytes :]
    return set()


over_tcp = _written(_framed())
"""What comes over TCP."""


# HTTP/2.

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
_END_STREAM, _END_HEADERS = 1, 4
_FRAME_BYTES: Final = 9


def frame(kind: int, payload: bytes, flags: int = 0, stream: int = 0) -> bytes:
    """A frame of HTTP/2 (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def call_of(path: str, **more: bytes) -> bytes:
    """The headers of a gRPC call, none of them compressed."""
    headers: dict[bytes, bytes] = {b":method": b"POST", b":scheme": b"http", b":path": path.encode("latin-1")}
    headers |= {b":authority": b"it", b"content-type": b"application/grpc", b"te": b"trailers"}
    headers |= {name.encode(): value for name, value in more.items()}
    return b"".join(b"\x00%b%b%b%b" % (_length(name), name, _length(value), value) for name, value in headers.items())


def _length(text: bytes) -> bytes:
    """Of a string in a header (RFC 7541, 5.1)."""
    if len(text) < 127:
        return bytes((len(text),))
    rest, made = len(text) - 127, bytearray((127,))
    while rest >= 128:
        made.append(rest % 128 + 128)
        rest //= 128
    return bytes((*made, rest))


def message(content: bytes, size: int | None = None) -> bytes:
    """A message as gRPC writes it; perhaps with another size than it has."""
    return b"\0" + struct.pack(">I", len(content) if size is None else size) + content


@st.composite
def _frames(draw: st.DrawFn) -> list[bytes | Hears]:
    parts: list[bytes | Hears] = [PREFACE] if draw(st.integers(0, _SELDOM)) else []
    parts.append(frame(SETTINGS, b""))
    for stream in range(1, 2 * draw(st.integers(1, 3)), 2):
        session = draw(sessions())
        checked, method = Checked(session.method), session.method
        others = st.sampled_from(["/", "", method + "x", HEALTH_CHECK])
        path = method if draw(st.integers(0, _SELDOM)) else draw(others)
        parts.append(frame(HEADERS, call_of(path), _END_HEADERS, stream))
        for step in session.steps:
            match step, draw(st.integers(0, 3 * _SELDOM)):
                case _, 0:
                    payload, flags = draw(st.binary(max_size=40)), draw(st.integers(0, 255))
                    parts.append(frame(draw(st.integers(0, 255)), payload, flags, draw(_ids(stream))))
                case _, 1:
                    parts.append(frame(RESET, draw(st.integers(0, 2**32 - 1)).to_bytes(4, "big"), 0, stream))
                case _, 2:
                    parts.append(frame(WINDOW, draw(st.integers(0, 2**31)).to_bytes(4, "big"), 0, draw(_ids(stream))))
                case _, 3:
                    parts.append(frame(PING, bytes(8)) * draw(st.integers(1, 50)))
                case Says(), kind:
                    content, size_bytes = checked.message(step), None
                    if kind == 4:
                        size_bytes = draw(st.sampled_from([0, 1, len(content) + 1, 16 << 20, 2**32 - 1]))
                    flags = draw(st.sampled_from([0] * _SELDOM + [_END_STREAM]))
                    parts.append(frame(DATA, message(content, size_bytes), flags, stream))
                case Waits(), _:
                    parts.append(Hears(stream))
                case Does.HALF_CLOSES, _:
                    parts.append(frame(DATA, b"", _END_STREAM, stream))
                case Does.CUTS, _:
                    parts.append(frame(RESET, bytes(4), 0, stream))
    return parts


def said_over_http2(session: Session) -> Bytes:
    """Likewise, over one stream; it hears the stream's end."""
    checked, writes = Checked(session.method), list[bytes | Hears]([PREFACE + frame(SETTINGS, b"")])
    writes.append(frame(HEADERS, call_of(session.method), _END_HEADERS, 1))
    for step in session.steps:
        if isinstance(step, Says):
            writes.append(frame(DATA, message(checked.message(step)), 0, 1))
        elif isinstance(step, Waits):
            writes.append(Hears(1))
    writes += [frame(DATA, b"", _END_STREAM, 1), Hears(-1)]
    return Bytes(tuple(writes), End.CLOSES)


def answered_over_http2(heard: bytes | bytearray) -> set[int]:
    """Likewise: by a message, or by an end; those that have ended, below 0 as well."""
    found = set[int]()
    while len(heard) >= _FRAME_BYTES:
        size_bytes, (kind, flags, stream) = int.from_bytes(heard[:3]), struct.unpack(">BBI", heard[3:_FRAME_BYTES])
        if kind in (DATA, RESET) or (kind == HEADERS and flags & _END_STREAM):
            found.add(stream)
        if kind == RESET or (kind == HEADERS and flags & _END_STREAM):
            found.add(-stream)
        heard = heard[_FRAME_BYTES + size_bytes :]
    return found


def _ids(stream: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, stream, stream + 1, stream + 100, 2**31 - 1, 2**32 - 1])


over_http2 = _written(_frames())
"""What comes at a gRPC server, before gRPC and behind it."""


# UDP.


@dataclass(frozen=True)
class Packets:
    """What a peer sends over UDP, in a connection that it has made, with its true number or another one."""

    is_connected: bool
    packets: Sequence[Packet | bytes | Hears]
    """Those of its connection have ``CONNECTION`` for its number."""

    def datagrams(self, connection: int) -> list[bytes | Hears]:
        """The packets as bytes, with this number for the connection."""
        return [
            packet if isinstance(packet, bytes | Hears) else whole(_with_number(packet, connection))
            for packet in self.packets
        ]


CONNECTION: Final = 0x5A5A5A5A5A5A5A5A
PLACES: Final = 16
"""For data that comes: of a peer that has made a connection."""
_numbers = st.sampled_from([0, 1, 2, 3, 511, 512, 4_096, 2**32, 2**63, 2**64 - 1])
_windows = st.sampled_from([0, 1, MOST_WINDOW, MOST_WINDOW + 1, 2**32 - 1])
_tokens = _numbers | st.just(CONNECTION)


@st.composite
def _feedbacks(draw: st.DrawFn) -> LinkFeedback:
    if draw(st.booleans()):
        return LinkFeedback(CONNECTION, 0, PLACES)
    first = draw(_numbers)
    edges = draw(st.lists(st.integers(0, 10_000), max_size=8).map(sorted))
    ranges = tuple((first + one, first + other) for one, other in zip(edges[::2], edges[1::2], strict=False))
    return LinkFeedback(CONNECTION if draw(st.integers(0, 9)) else draw(_numbers), first, draw(_numbers), ranges)


@st.composite
def _data(draw: st.DrawFn) -> Data:
    framed = _framed().map(lambda parts: b"".join(part for part in parts if isinstance(part, bytes)))
    payload = draw(framed) if draw(st.booleans()) else draw(st.binary(max_size=50))
    number = draw(st.integers(0, 5)) if draw(st.integers(0, 3)) else draw(_numbers)
    return Data(number, draw(_feedbacks()), payload)


def whole(packet: Packet) -> bytes:
    """A packet as one datagram."""
    return b"".join(encode_data(*packet)) if isinstance(packet, Data) else encode(packet)


def _with_number(packet: Packet, connection: int) -> Packet:
    match packet:
        case Data(_, LinkFeedback(epoch)) if epoch == CONNECTION:
            return packet._replace(feedback=packet.feedback._replace(epoch=connection))
        case LinkFeedback(epoch) if epoch == CONNECTION:
            return packet._replace(epoch=connection)
        case Gone(number) if number == CONNECTION:
            return Gone(connection)
    return packet


def said_over_udp(session: Session) -> Packets:
    """What a peer says over TCP, each write in a packet of its own."""
    packets, number = list[Packet | bytes | Hears](), 0
    for write in said_over_tcp(session).writes:
        if isinstance(write, Hears):
            packets.append(write)
        else:
            packets.append(Data(number, LinkFeedback(CONNECTION, 0, PLACES), write))
            number += 1
    packets.append(Hears(0))  # a peer that is gone has said nothing
    return Packets(is_connected=True, packets=tuple(packets))


_cookies = st.just(bytes(COOKIE_BYTES)) | st.binary(min_size=COOKIE_BYTES, max_size=COOKIE_BYTES)
_packets = st.one_of(
    _data(),
    _data(),
    _feedbacks(),
    st.builds(Gone, _tokens),
    st.builds(Hello, _tokens),
    st.builds(Open, _tokens, _cookies, _windows),
    st.builds(Challenge, _tokens, _cookies),
    st.builds(Accept, _tokens, _tokens, _windows),
)
over_udp = st.builds(
    Packets, st.booleans(), st.lists(_packets | mutated(_packets.map(whole)) | st.binary(max_size=60), max_size=8)
) | sessions().map(said_over_udp)
"""What comes over UDP."""
