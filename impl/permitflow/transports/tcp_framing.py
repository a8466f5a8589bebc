"""How messages lie in a TCP connection.

Each message stands behind eight bytes: what follows, two letters by which a stranger is recognised, a check of the
others, and how many bytes follow.  Without the check both ends could wait for ever after an altered length, for bytes
that nobody sends.  The dialler's first message says which method it calls.  All numbers are big-endian.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct

from permitflow.errors import UndecodableDataError
from permitflow.transports.arrow import MAX_MESSAGE_BYTES
from permitflow.transports.carrier import Buffer
from permitflow.transports.connection import CONTROL, GET_STREAM, HEALTH_CHECK, PUT_STREAM
from permitflow.transports.strangers import whose

__all__ = [
    "HEADER_BYTES",
    "KIND_OF_METHOD",
    "METHODS",
    "PIECES_AT_ONCE",
    "Kind",
    "header",
    "read_header",
    "without",
]


_HEADER = Struct(">B2sBI")
_MARK = b"pf"
HEADER_BYTES = _HEADER.size
PIECES_AT_ONCE = 256
"""Of a message, in one call of the kernel; it takes up to 1,024."""


class Kind(IntEnum):
    """What follows."""

    MESSAGE = 0
    END = 1
    """Nothing: this half is closed, in good order."""
    STATUS = 2
    """Why the acceptor ends the stream, as JSON: what gRPC says with a status."""
    PING = 3
    """Nothing: a sign of life."""
    GET = 4
    """Nothing: the dialler calls GetStream."""
    PUT = 5
    """Nothing: the dialler calls PutStream."""
    CONTROL = 6
    """Nothing: the dialler calls Control."""
    HEALTH = 7
    """Nothing: the dialler asks whether the exchange is ready; see ``permitflow.transports.health``."""


# Indexing costs a tenth of a call.
_KINDS = tuple(Kind)
METHODS = {Kind.GET: GET_STREAM, Kind.PUT: PUT_STREAM, Kind.CONTROL: CONTROL, Kind.HEALTH: HEALTH_CHECK}
KIND_OF_METHOD = {method: kind for kind, method in METHODS.items()}


def header(kind: Kind, size_bytes: int = 0) -> bytes:
    """What stands before so many bytes."""
    return _HEADER.pack(kind, _MARK, _check(kind, size_bytes), size_bytes)


def _check(kind: int, size_bytes: int) -> int:
    """The exclusive or of the five bytes: another one if any bit of them is altered."""
    folded = size_bytes ^ size_bytes >> 16
    return (kind ^ folded ^ folded >> 8) & 0xFF


def read_header(data: memoryview, who: str) -> tuple[Kind, int]:
    """What follows, and how many bytes, of what ``who`` has sent.

    Raises:
        UndecodableDataError: this is no message of ours, or it is too long.
    """
    kind, mark, check, size = _HEADER.unpack_from(data)
    if mark != _MARK or check != _check(kind, size) or kind > Kind.HEALTH:
        first = bytes(data[:HEADER_BYTES])
        raise UndecodableDataError(
            what=f"what {who} says, {first!r},", reason=f"it is none of permitflow's, {whose(first)}"
        )
    if size > (MAX_MESSAGE_BYTES if kind in (Kind.MESSAGE, Kind.STATUS) else 0):
        raise UndecodableDataError(what=f"a message of {size} bytes", reason=f"{MAX_MESSAGE_BYTES} are the most")
    return _KINDS[kind], size


def without(pieces: Sequence[Buffer], count: int) -> Sequence[Buffer]:
    """What is left of a message in pieces after so many bytes."""
    for position, piece in enumerate(pieces):
        if count < len(piece):
            return [memoryview(piece)[count:], *pieces[position + 1 :]]
        count -= len(piece)
    return ()
