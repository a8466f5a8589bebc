"""Is an Arrow IPC message compressed?  pyarrow does not say, and would decompress it: a few bytes become gigabytes.

The metadata of a message is a flatbuffer.  pyarrow verifies it when it reads the message; what it accepts reads the
same here, and in what it refuses it does not matter what is found.  Source: Arrow's format/Message.fbs, and the
internals of FlatBuffers.
"""

import struct
from functools import lru_cache
from struct import Struct

__all__ = ["is_compressed"]

_OFFSET, _BACK, _SLOT, _BYTE = Struct("<I"), Struct("<i"), Struct("<H"), Struct("<B")
_BEGINNING = Struct("<II")
_CONTINUATION = 0xFFFFFFFF
_SHORT_BYTES = 2048

# Numbers of the fields in their tables, and of the kinds of messages.
_MESSAGE_KIND, _MESSAGE_HEADER = 1, 2
_DICTIONARY_DATA = 1
_BATCH_COMPRESSION = 3
_DICTIONARY, _BATCH = 2, 3


def is_compressed(message: bytes | memoryview, *, is_encapsulated: bool = True) -> bool:
    """Is it a batch or a dictionary with a body that is compressed?

    Args:
        message: as it is in a stream, or only its metadata.
        is_encapsulated: is it the former?
    """
    if not is_encapsulated:
        return _says_compressed(message)
    try:
        continuation, size = _BEGINNING.unpack_from(message)
    except struct.error:
        return False  # no message at all
    start = _BEGINNING.size
    if continuation != _CONTINUATION:
        start, size = _OFFSET.size, continuation
    if size > _SHORT_BYTES:
        return _says_compressed(memoryview(message)[start:])
    return _says_compressed_briefly(bytes(message[start : start + size]))


def _says_compressed(data: bytes | memoryview) -> bool:
    try:
        root = _OFFSET.unpack_from(data)[0]
        kind_at, table = _field(data, root, _MESSAGE_KIND), _followed(data, root, _MESSAGE_HEADER)
        if kind_at is None or table is None:
            return False
        kind = _BYTE.unpack_from(data, kind_at)[0]
        if kind == _DICTIONARY:
            table = _followed(data, table, _DICTIONARY_DATA)
        elif kind != _BATCH:
            return False
        return table is not None and _field(data, table, _BATCH_COMPRESSION) is not None
    except struct.error:
        return False  # no message at all


# Of columns whose width is fixed, batches of as many rows have the same metadata.
_says_compressed_briefly = lru_cache(maxsize=64)(_says_compressed)


def _field(data: bytes | memoryview, table: int, field: int) -> int | None:
    """Where a field of a table is; None if it is absent."""
    slots = table - _BACK.unpack_from(data, table)[0]
    slot = 4 + 2 * field
    if slot >= _SLOT.unpack_from(data, slots)[0]:
        return None
    position: int = _SLOT.unpack_from(data, slots + slot)[0]
    return table + position if position else None


def _followed(data: bytes | memoryview, table: int, field: int) -> int | None:
    """Where the table is to which a field of a table refers."""
    position = _field(data, table, field)
    return None if position is None else position + int(_OFFSET.unpack_from(data, position)[0])
