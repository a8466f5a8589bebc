"""A checksum behind each message on a network: made just before it is sent, checked before anything of it is read.

TCP's own check is a sum of 16 bits, and proxies take messages apart and make that sum again.  XXH3 of 64 bits notices
what it misses, at the speed of memory.  Memory that two processes share is no network: no message there has a checksum.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import TypeVar

from xxhash import xxh3_64, xxh3_64_intdigest

from permitflow.errors import AlteredMessageError, UndecodableDataError
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.shared_memory.ring import SizedParts, size_of
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = ["CHECKSUM_BYTES", "checked", "followed_by_checksum", "with_checksum"]

T = TypeVar("T", bound=Buffer)

# As protobuf writes the field `fixed64 checksum`: its number and type in one byte, then eight bytes.
_FIELD = Struct("<BQ")
_FIXED64 = 1
_KEY = pb.FromUpstream.DESCRIPTOR.fields_by_name["checksum"].number << 3 | _FIXED64
CHECKSUM_BYTES = _FIELD.size
"""By which it makes a message longer."""


def with_checksum(message: Sequence[Buffer]) -> SizedParts[Buffer]:
    """A message in pieces, with one piece more: its checksum stands last, so that the others stay where they are."""
    return SizedParts(followed_by_checksum(message), size_of(message) + CHECKSUM_BYTES)


def followed_by_checksum(message: Iterable[T]) -> Iterator[T | bytes]:
    """The pieces of a message, and then its checksum."""
    summed = xxh3_64()
    for piece in message:
        summed.update(piece)
        yield piece
    yield _FIELD.pack(_KEY, summed.intdigest())


def checked(message: Received) -> memoryview:
    """The message without its checksum, which fits.

    Raises:
        UndecodableDataError: it carries none.
        AlteredMessageError: it is not the message that was sent.
    """
    view = memoryview(message)
    end = len(view) - CHECKSUM_BYTES
    key, stated = _FIELD.unpack_from(view, end) if end >= 0 else (0, 0)
    if key != _KEY:
        reason = "it carries no checksum; it was altered on the way, or a release before protocol version 2 has sent it"
        raise UndecodableDataError(what=f"a message of {len(view)} bytes", reason=reason)
    view = view[:end]
    if (computed := xxh3_64_intdigest(view)) != stated:
        raise AlteredMessageError(size_bytes=end, stated=f"{stated:016x}", computed=f"{computed:016x}")
    return view
