"""The packets of the lossy protocol as bytes: one in each datagram.

A packet begins with two letters that identify permitflow, the version, its kind, and a checksum (XXH3, 64 bits) of
all the rest: UDP's own check is a sum of 16 bits, and a packet that was altered has to count as lost.  All numbers are
big-endian.

    HELLO      dialler    its token, and zeros up to the size that every network carries
    CHALLENGE  acceptor   the dialler's token, a cookie
    OPEN       dialler    its token, the cookie, its window
    ACCEPT     acceptor   the dialler's token, the number of the connection, the acceptor's window
    DATA       either     connection, number, feedback, payload; an empty payload: nothing follows
    FEEDBACK   either     connection, feedback
    GONE       either     connection: this end has left it, or does not know it

An acceptor keeps nothing about a dialler that has not sent its cookie back, and answers a HELLO with less than it got:
nobody can make it keep something, or flood somebody else, by packets with a false sender.

Numbers have 64 bits and never wrap, so any copy may be of any age (``lossy-space``).
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple, TypeAlias, TypeVar

from xxhash import xxh3_64_intdigest

from permitflow.carriers.datagrams.link import MOST_RANGES, LinkFeedback
from permitflow.wire.buffers import Buffer

VERSION = 1
"""The version of the packets; a packet of another version is dropped."""

COOKIE_BYTES = 16

HELLO_BYTES = 1_200
"""The size of a HELLO: what every network carries in one piece (RFC 9000, 14.1)."""

MOST_WINDOW = 4_096
"""Data that an end has places for at most: as many may the other one keep, to send them again."""

_MARK = b"pd"
_HEAD = Struct(">2sBBQ")
_TOKEN = Struct(">Q")
_CHALLENGE = Struct(f">Q{COOKIE_BYTES}s")
_OPEN = Struct(f">Q{COOKIE_BYTES}sI")
_ACCEPT = Struct(">QQI")
_DATA = Struct(">QQQQB")
_FEEDBACK = Struct(">QQQB")
_RANGE = Struct(">II")
_RANGES = tuple(Struct(">" + "II" * count) for count in range(MOST_RANGES + 1))

DATA_BYTES = _HEAD.size + _DATA.size
"""What a packet has beside its payload, and beside ranges."""
RANGE_BYTES = _RANGE.size


class PacketKind(IntEnum):
    """The kind of a packet."""

    HELLO = 0
    CHALLENGE = 1
    OPEN = 2
    ACCEPT = 3
    DATA = 4
    FEEDBACK = 5
    GONE = 6


class Hello(NamedTuple):
    """A dialler asks for a cookie."""

    token: int


class Challenge(NamedTuple):
    """The acceptor gives it one."""

    token: int
    cookie: bytes


class Open(NamedTuple):
    """A dialler asks for a connection."""

    token: int
    cookie: bytes
    window: int
    """Data that the dialler has places for."""


class Accept(NamedTuple):
    """The acceptor has made one."""

    token: int
    connection: int
    window: int
    """Data that the acceptor has places for."""


class Data(NamedTuple):
    """Data, and what their sender has received."""

    number: int
    feedback: LinkFeedback
    payload: bytes


class Gone(NamedTuple):
    """The sender has left this connection, or does not know it."""

    connection: int


W = TypeVar("W", Open, Accept)

Packet: TypeAlias = Hello | Challenge | Open | Accept | Data | LinkFeedback | Gone
"""A packet.  The epoch of a feedback is the number of the connection."""


def _whole(kind: PacketKind, body: bytes) -> bytes:
    return _HEAD.pack(_MARK, VERSION, kind, xxh3_64_intdigest(body, seed=kind)) + body


def encode(packet: Hello | Challenge | Open | Accept | LinkFeedback | Gone) -> bytes:
    """A packet without a payload, as bytes."""
    match packet:
        case LinkFeedback(connection, acknowledged, limit, beyond):
            body = _FEEDBACK.pack(connection, acknowledged, limit, len(beyond))
            return _whole(PacketKind.FEEDBACK, body + _encoded(beyond, acknowledged) if beyond else body)
        case Hello(token):
            return _whole(PacketKind.HELLO, _TOKEN.pack(token) + bytes(HELLO_BYTES - _HEAD.size - _TOKEN.size))
        case Challenge():
            return _whole(PacketKind.CHALLENGE, _CHALLENGE.pack(*packet))
        case Open():
            return _whole(PacketKind.OPEN, _OPEN.pack(*packet))
        case Accept():
            return _whole(PacketKind.ACCEPT, _ACCEPT.pack(*packet))
        case Gone(connection):
            return _whole(PacketKind.GONE, _TOKEN.pack(connection))


def encode_data(number: int, feedback: LinkFeedback, payload: bytes) -> tuple[bytes, bytes]:
    """A packet with a payload, in two pieces."""
    connection, acknowledged, limit, beyond = feedback
    front = _DATA.pack(connection, number, acknowledged, limit, len(beyond))
    if beyond:
        front += _encoded(beyond, acknowledged)
    check = xxh3_64_intdigest(payload, seed=xxh3_64_intdigest(front, seed=_DATA_KIND))
    return _HEAD.pack(_MARK, VERSION, _DATA_KIND, check) + front, payload


def _encoded(beyond: Sequence[tuple[int, int]], acknowledged: int) -> bytes:
    return _RANGES[len(beyond)].pack(*(edge - acknowledged for each in beyond for edge in each))


def decode(datagram: Buffer) -> Packet | None:
    """The packet in a datagram; None: it is none of permitflow's, of another version, or was altered."""
    view = memoryview(datagram)
    size = len(view) - _HEAD.size
    if size < _TOKEN.size:
        return None
    mark, version, kind, stated = _HEAD.unpack_from(view)
    if mark != _MARK or version != VERSION:
        return None
    body = view[_HEAD.size :]
    if kind == _DATA_KIND:
        return _decoded_data(body, stated)
    if stated != xxh3_64_intdigest(body, seed=kind):
        return None
    match kind:
        case PacketKind.FEEDBACK if size >= _FEEDBACK.size:
            connection, acknowledged, limit, count = _FEEDBACK.unpack_from(body)
            if count <= MOST_RANGES and size == _FEEDBACK.size + count * RANGE_BYTES:
                return LinkFeedback(connection, acknowledged, limit, _ranges(body, _FEEDBACK.size, count, acknowledged))
        case PacketKind.HELLO if len(view) == HELLO_BYTES:
            return Hello(*_TOKEN.unpack_from(body))
        case PacketKind.CHALLENGE if size == _CHALLENGE.size:
            return Challenge(*_CHALLENGE.unpack(body))
        case PacketKind.OPEN if size == _OPEN.size:
            return _with_window(Open(*_OPEN.unpack(body)))
        case PacketKind.ACCEPT if size == _ACCEPT.size:
            return _with_window(Accept(*_ACCEPT.unpack(body)))
        case PacketKind.GONE if size == _TOKEN.size:
            return Gone(*_TOKEN.unpack(body))
    return None


def _with_window(packet: W) -> W | None:
    return packet if 1 <= packet.window <= MOST_WINDOW else None


def _decoded_data(body: memoryview, stated: int) -> Data | None:
    if len(body) < _DATA.size:
        return None
    connection, number, acknowledged, limit, count = _DATA.unpack_from(body)
    start = _DATA.size + count * RANGE_BYTES
    if count > MOST_RANGES or len(body) < start:
        return None
    payload = bytes(body[start:])
    if stated != xxh3_64_intdigest(payload, seed=xxh3_64_intdigest(body[:start], seed=_DATA_KIND)):
        return None
    beyond = _ranges(body, _DATA.size, count, acknowledged) if count else ()
    return Data(number, LinkFeedback(connection, acknowledged, limit, beyond), payload)


def _ranges(body: memoryview, start: int, count: int, acknowledged: int) -> tuple[tuple[int, int], ...]:
    edges = [acknowledged + edge for edge in _RANGES[count].unpack_from(body, start)]
    return tuple(zip(edges[::2], edges[1::2], strict=True))


_DATA_KIND = int(PacketKind.DATA)  # reading an enumeration's attribute costs more than a number
