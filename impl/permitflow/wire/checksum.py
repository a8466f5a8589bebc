"""A checksum behind each message on a network: made just before it is sent, checked before anything of it is read.

Its seed is the message's number in its direction of the stream, from 0.  So a message that is lost or repeated
is noticed at the next one: one flipped bit in a header of HTTP/2 makes a frame of an unknown kind, which a receiver
must ignore, and the messages in it are lost silently.  Where none is due, an empty message follows soon.

TCP's own check is a sum of 16 bits, and proxies compute it anew.  XXH3 of 64 bits finds the errors that it misses, at
the speed of memory.  Messages in shared memory have no checksum.
"""

from collections.abc import Sequence
from struct import Struct

from xxhash import xxh3_64, xxh3_64_intdigest

from permitflow.errors import AlteredMessageError, UndecodableDataError
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.v1 import exchange_pb2 as pb

# As protobuf writes the field `fixed64 checksum`: its number and type in one byte, then eight bytes.
_FIELD = Struct("<BQ")
_FIXED64 = 1
CHECKSUM_KEY, _KEY_OF_NONE = (
    pb.FromUpstream.DESCRIPTOR.fields_by_name[name].number << 3 | _FIXED64 for name in ("checksum", "no_checksum")
)
_NONE = _FIELD.pack(_KEY_OF_NONE, 0)
CHECKSUM_BYTES = _FIELD.size
"""The bytes that a checksum adds to a message."""


def with_checksum(message: Sequence[Buffer]) -> list[Buffer]:
    """Append its checksum to the first message of a stream, as the last piece."""
    return Checksums(wanted=True).add(message)


def checked(message: Received) -> memoryview:
    """Check a message that must have a checksum, with the seed 0; return it without.

    Raises:
        UndecodableDataError: it carries no checksum.
        AlteredMessageError: the message was altered on its path.
    """
    checksums = Checksums(wanted=True)
    view = checksums.check(message)
    if not checksums.are_made:
        raise _missing(message, "the end that has sent it makes none, and here one is always due")
    return view


class Checksums:
    """The checksums of one stream's messages: there are some if both ends make them.

    The dialler's first message says whether it does, and then the acceptor's says whether there are any.
    """

    def __init__(self, wanted: bool | None) -> None:
        """``wanted``: does this acceptor make them?  None: this end is the dialler, and does."""
        self._wanted = wanted
        self._are_made = wanted is not False
        self._has_heard = False
        self._sent = self._received = 0

    @property
    def are_made(self) -> bool:
        """Do the messages of this end have checksums?"""
        return self._are_made

    def add(self, message: Sequence[Buffer]) -> list[Buffer]:
        """As ``with_checksum``, or with the note that there is no checksum."""
        if not self._are_made:
            return [*message, _NONE]
        summed = xxh3_64(seed=self._sent)
        self._sent += 1
        for piece in message:
            summed.update(piece)
        return [*message, _FIELD.pack(CHECKSUM_KEY, summed.intdigest())]

    def check(self, message: Received) -> memoryview:
        """Check the next message by its checksum, if it carries one; return it without.

        Raises:
            UndecodableDataError: it carries no checksum, and the stream has some or the peer does not say so.
            AlteredMessageError: the message was altered on its path.
        """
        view = memoryview(message)
        end = len(view) - CHECKSUM_BYTES
        key, stated = _FIELD.unpack_from(view, end) if end >= 0 else (0, 0)
        view = view[:end]
        if key == CHECKSUM_KEY:
            if (computed := xxh3_64_intdigest(view, seed=self._received)) != stated:
                raise AlteredMessageError(size_bytes=end, stated=f"{stated:016x}", computed=f"{computed:016x}")
            self._received += 1
        elif key != _KEY_OF_NONE or stated:
            if end >= 0 and (computed := xxh3_64_intdigest(view, seed=self._received)) == stated:
                # It carries its checksum, and the key of that was altered.
                raise AlteredMessageError(
                    size_bytes=end,
                    stated=f"{stated:016x} (of kind {key})",
                    computed=f"{computed:016x} (of kind {CHECKSUM_KEY})",
                )
            raise _missing(message, "it was altered on the way, or lacks the nine bytes with which every message ends")
        elif self._has_heard and self._are_made:
            raise _missing(message, "the end that has sent it has made some before")
        if not self._has_heard:
            self._has_heard = True
            self._are_made = key == CHECKSUM_KEY and self._wanted is not False
        return view


def _missing(message: Received, why: str) -> UndecodableDataError:
    return UndecodableDataError(what=f"a message of {len(message)} bytes", reason=f"it carries no checksum: {why}")
