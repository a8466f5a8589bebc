"""A checksum behind each message on a network: made just before it is sent, checked before anything of it is read.

Its seed is the message's number in its direction of the stream, from 0.  So a message that is lost or repeated
is noticed at the next one: one flipped bit in a header of HTTP/2 makes a frame of an unknown kind, which a receiver
has to ignore, and the messages in it are gone without a word.

TCP's own check is a sum of 16 bits, and proxies take messages apart and make that sum again.  XXH3 of 64 bits notices
what it misses, at the speed of memory.  Memory that two processes share is no network: no message there has a checksum.
"""

from collections.abc import Sequence
from struct import Struct

from xxhash import xxh3_64, xxh3_64_intdigest

from permitflow.errors import AlteredMessageError, UndecodableDataError
from permitflow.transports.carrier import Buffer, Received
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = ["CHECKSUM_BYTES", "Checksums", "checked", "with_checksum"]

# As protobuf writes the field `fixed64 checksum`: its number and type in one byte, then eight bytes.
_FIELD = Struct("<BQ")
_FIXED64 = 1
_KEY, _KEY_OF_NONE = (
    pb.FromUpstream.DESCRIPTOR.fields_by_name[name].number << 3 | _FIXED64 for name in ("checksum", "no_checksum")
)
_NONE = _FIELD.pack(_KEY_OF_NONE, 0)
CHECKSUM_BYTES = _FIELD.size
"""By which it makes a message longer."""


def with_checksum(message: Sequence[Buffer]) -> list[Buffer]:
    """The first message of a stream in pieces, with one piece more: its checksum, the last, so that no other moves."""
    return Checksums(wanted=True).add(message)


def checked(message: Received) -> memoryview:
    """The first message of a stream without its checksum, which fits.

    Raises:
        UndecodableDataError: it carries none.
        AlteredMessageError: it is not the message that was sent.
    """
    return Checksums(wanted=True).check(message)


class Checksums:
    """Of the messages of one stream: the end that was dialled decides whether they are made, the other one follows."""

    def __init__(self, wanted: bool | None) -> None:
        """``wanted``: by an end that is dialled; None: of an end that dials."""
        self._wanted = wanted
        self._are_made = wanted is not False
        self._sent = self._received = 0

    def add(self, message: Sequence[Buffer]) -> list[Buffer]:
        """``with_checksum``, or with the word that there is none."""
        if not self._are_made:
            return [*message, _NONE]
        summed = xxh3_64(seed=self._sent)
        self._sent += 1
        for piece in message:
            summed.update(piece)
        return [*message, _FIELD.pack(_KEY, summed.intdigest())]

    def check(self, message: Received) -> memoryview:
        """The message without its checksum, which fits, if this end wants one; one that dials does as its peer does.

        Raises:
            UndecodableDataError: it carries none, and not because the end that was dialled makes none.
            AlteredMessageError: it is not the message that was sent.
        """
        view = memoryview(message)
        end = len(view) - CHECKSUM_BYTES
        key, stated = _FIELD.unpack_from(view, end) if end >= 0 else (0, 0)
        view = view[:end]
        if key == _KEY:
            if (computed := xxh3_64_intdigest(view, seed=self._received)) != stated:
                raise AlteredMessageError(size_bytes=end, stated=f"{stated:016x}", computed=f"{computed:016x}")
            self._received += 1
        elif key != _KEY_OF_NONE or stated:
            raise _missing(message, "it was altered on the way, or a release before protocol version 2 has sent it")
        elif self._wanted:
            raise _missing(message, "the end that has sent it makes none, and this end wants one")
        if self._wanted is None:
            self._are_made = key == _KEY
        return view


def _missing(message: Received, why: str) -> UndecodableDataError:
    return UndecodableDataError(what=f"a message of {len(message)} bytes", reason=f"it carries no checksum: {why}")
