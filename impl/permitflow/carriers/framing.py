"""The header of every message over TCP: whose protocol it is, the kind and the length, and a check of all of them.

Eight bytes: the kind, two letters that identify permitflow, a check of the others, and the length.  Without the check
both ends could wait for ever after an altered length, for bytes that never come.  All numbers are big-endian.
"""

from struct import Struct

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
    """The kind and the length in bytes that a header tells; None: this is no header of permitflow."""
    kind, mark, check, size = _HEADER.unpack_from(data)
    return None if mark != _MARK or check != _check(kind, size) else (kind, size)
