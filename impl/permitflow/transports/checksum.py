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

__all__ = ["CHECKSUM_BYTES", "Checksums", "checked", "followed_by_checksum", "with_checksum"]

T = TypeVar("T", bound=Buffer)

# As protobuf writes the field `fixed64 checksum`: its number and type in one byte, then eight bytes.
_FIELD = Struct("<BQ")
_FIXED64 = 1
_KEY, _KEY_OF_NONE = (
    pb.FromUpstream.DESCRIPTOR.fields_by_name[name].number << 3 | _FIXED64 for name in ("checksum", "no_checksum")
)
_NONE = _FIELD.pack(_KEY_OF_NONE, 0)
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
    view, has_checksum = _opened(message)
    if not has_checksum:
        raise _missing(message, "the end that has sent it makes none, and this end wants one")
    return view


def _opened(message: Received) -> tuple[memoryview, bool]:
    """The message without its last field; did that hold a checksum, which fits?"""
    view = memoryview(message)
    end = len(view) - CHECKSUM_BYTES
    key, stated = _FIELD.unpack_from(view, end) if end >= 0 else (0, 0)
    view = view[:end]
    if key == _KEY:
        if (computed := xxh3_64_intdigest(view)) != stated:
            raise AlteredMessageError(size_bytes=end, stated=f"{stated:016x}", computed=f"{computed:016x}")
        return view, True
    if key == _KEY_OF_NONE and not stated:
        return view, False
    raise _missing(message, "it was altered on the way, or a release before protocol version 2 has sent it")


def _missing(message: Received, why: str) -> UndecodableDataError:
    return UndecodableDataError(what=f"a message of {len(message)} bytes", reason=f"it carries no checksum: {why}")


class Checksums:
    """Of the messages of one stream: the end that was dialled decides whether they are made, the other one follows."""

    def __init__(self, wanted: bool | None) -> None:
        """``wanted``: by an end that is dialled; None: of an end that dials."""
        self._wanted = wanted
        self._are_made = wanted is not False

    def add(self, message: Sequence[Buffer]) -> SizedParts[Buffer]:
        """``with_checksum``, or with the word that there is none."""
        if self._are_made:
            return with_checksum(message)
        return SizedParts((*message, _NONE), size_of(message) + CHECKSUM_BYTES)

    def check(self, message: Received) -> memoryview:
        """``checked``, where this end wants checksums; an end that dials does as the other one, from now on.

        Raises:
            UndecodableDataError: it carries none, and not because the end that was dialled makes none.
            AlteredMessageError: it is not the message that was sent.
        """
        if self._wanted:
            return checked(message)
        view, has_checksum = _opened(message)
        if self._wanted is None:
            self._are_made = has_checksum
        return view
