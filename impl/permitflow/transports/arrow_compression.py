"""Is an Arrow IPC message compressed?  pyarrow does not say, and would decompress it: a few bytes become gigabytes.

The metadata of a message is a flatbuffer that pyarrow has verified when it read the message, so that the few offsets
that are followed here lead nowhere else.  Source: Arrow's format/Message.fbs, and the internals of FlatBuffers.
"""

from struct import Struct

import pyarrow as pa

__all__ = ["require_uncompressed"]

_OFFSET, _BACK, _SLOT = Struct("<I"), Struct("<i"), Struct("<H")

# Numbers of the fields in their tables.
_MESSAGE_HEADER = 2
_DICTIONARY_DATA = 1
_BATCH_COMPRESSION = 3


def require_uncompressed(message: pa.ipc.Message) -> None:
    """Refuse a compressed batch or dictionary: nobody has agreed to that.

    Raises:
        ValueError: it is compressed.
    """
    if message.type not in ("record batch", "dictionary"):
        return
    data = memoryview(message.metadata)
    table = _followed(data, _OFFSET.unpack_from(data)[0], _MESSAGE_HEADER)
    if table is not None and message.type == "dictionary":
        table = _followed(data, table, _DICTIONARY_DATA)
    if table is not None and _followed(data, table, _BATCH_COMPRESSION) is not None:
        raise ValueError("it is compressed, which nobody has agreed to")


def _followed(data: memoryview, table: int, field: int) -> int | None:
    """Where the table is to which a field of a table refers; None if the field is absent."""
    slots = table - _BACK.unpack_from(data, table)[0]
    slot = 4 + 2 * field
    if slot >= _SLOT.unpack_from(data, slots)[0]:
        return None
    position: int = _SLOT.unpack_from(data, slots + slot)[0]
    if not position:
        return None
    reference: int = _OFFSET.unpack_from(data, table + position)[0]
    return table + position + reference
