"""Messages over a socket: a header with the kind and the length of each, and how bytes become messages again.

The header has eight bytes: the kind, two letters that identify permitflow, a check of the others, and the length.
Without the check both ends could wait for ever after an altered length, for bytes that never come.  All numbers are
big-endian.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Generic, TypeVar

from permitflow.errors import AlteredMessageError

K = TypeVar("K")

_HEADER = Struct(">B2sBI")
_MARK = b"pf"
HEADER_BYTES = _HEADER.size


def header(kind: int, size_bytes: int = 0) -> bytes:
    """The header of a message of ``size_bytes`` bytes."""
    return _HEADER.pack(kind, _MARK, _check(kind, size_bytes), size_bytes)


def _check(kind: int, size_bytes: int) -> int:
    """The exclusive or of the five bytes: any altered bit changes it."""
    folded = size_bytes ^ size_bytes >> 16
    return (kind ^ folded ^ folded >> 8) & 0xFF


def parse_header(data: memoryview) -> tuple[int, int] | None:
    """The kind and the length in bytes that a header tells; None: this is not a header of permitflow."""
    kind, mark, check, size = _HEADER.unpack_from(data)
    return None if mark != _MARK or check != _check(kind, size) else (kind, size)


def altered_header(data: memoryview, *, is_known: bool) -> AlteredMessageError | None:
    """What is wrong with bytes that are no header; None: they may be another program's.

    ``is_known``: they are permitflow's.
    """
    kind, mark, check, size = _HEADER.unpack_from(data)
    if not (is_known or mark == _MARK):
        return None
    computed = _check(kind, size) ^ mark[0] ^ _MARK[0] ^ mark[1] ^ _MARK[1]
    return AlteredMessageError(
        size_bytes=HEADER_BYTES, stated=f"{check:02x} (of a header)", computed=f"{computed:02x} (of a header)"
    )


def _plain_body(size_bytes: int) -> memoryview:
    return memoryview(bytearray(size_bytes))


class MessageReader(Generic[K]):
    """Splits the bytes of a socket into messages.  Does no I/O.

    Headers and short messages share a buffer; a message that has come in part is received where it stays.
    """

    def __init__(
        self,
        read_header: Callable[[memoryview], tuple[K, int]],
        *,
        new_body: Callable[[int], memoryview] = _plain_body,
        buffer_bytes: int = 16 << 10,
    ) -> None:
        """Nothing has come yet.

        Args:
            read_header: the kind and the length of the message whose header begins these bytes; raises for a wrong one.
            new_body: writable memory of this many bytes.
            buffer_bytes: of headers and short messages.
        """
        self._read_header, self._new_body = read_header, new_body
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._kind: K
        self._body: memoryview | None = None
        self._filled = self._body_filled = 0

    def room(self) -> memoryview:
        """Where the next bytes belong."""
        return self._buffer[self._filled :] if self._body is None else self._body[self._body_filled :]

    def forget(self) -> None:
        """The rest of the message that has begun will not come."""
        self._body = None

    def take(self, count: int) -> Iterator[tuple[K, bytes | memoryview]]:
        """Note that ``room`` has received ``count`` bytes; the kind and the body of each message that is complete.

        A header is read when the messages before it have been taken: they may say which others are right.
        """
        if (body := self._body) is not None:
            self._body_filled += count
            if self._body_filled == len(body):
                self._body = None
                yield self._kind, body.toreadonly()
            return
        start, end = 0, self._filled + count
        while end - start >= HEADER_BYTES:
            kind, size = self._read_header(self._buffer[start:])
            start += HEADER_BYTES
            here = self._buffer[start : min(end, start + size)]
            start += len(here)
            if len(here) == size:
                yield kind, bytes(here)
                continue
            body = self._new_body(size)
            body[: len(here)] = here
            self._kind, self._body, self._body_filled = kind, body, len(here)
        self._filled = end - start
        if end > start:
            self._buffer[: end - start] = bytes(self._buffer[start:end])
