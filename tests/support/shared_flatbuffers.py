"""Arrow messages whose parts refer to the same bytes, as no writer makes them: short, and long once they are read."""

import struct
from collections.abc import Callable

import pyarrow as pa

_OFFSET = struct.Struct("<I")
_PREFIX = 8  # of a message, before its flatbuffer
_MESSAGE_HEADER, _MESSAGE_CUSTOM = 2, 4
_SCHEMA_FIELDS, _FIELD_NAME, _FIELD_CUSTOM, _BATCH_BUFFERS = 1, 0, 6, 2


def _place(data: bytes | bytearray, table: int, field: int) -> int:
    """Where a table's field is."""
    slots = table - int(struct.unpack_from("<i", data, table)[0])
    return table + int(struct.unpack_from("<H", data, slots + 4 + 2 * field)[0])


def _target(data: bytes | bytearray, place: int) -> int:
    return place + int(_OFFSET.unpack_from(data, place)[0])


def _followed(data: bytes | bytearray, table: int, field: int) -> int:
    return _target(data, _place(data, table, field))


def _fields(message: bytearray) -> list[int]:
    vector = _followed(message, _followed(message, _target(message, _PREFIX), _MESSAGE_HEADER), _SCHEMA_FIELDS)
    places = range(vector + 4, vector + 4 + 4 * int(_OFFSET.unpack_from(message, vector)[0]), 4)
    return [_target(message, place) for place in places]


def _append(metadata: bytearray, part: bytes) -> int:
    at = len(metadata)
    metadata += part + bytes(-len(part) % 8)
    _OFFSET.pack_into(metadata, 4, len(metadata) - _PREFIX)
    return at


def _text(size: int) -> bytes:
    return _OFFSET.pack(size) + b"x" * size + b"\0"


def _pairs(metadata: bytearray, count: int, size: int) -> int:
    """A vector of the same pair of texts, so many times; the second text is of this size."""
    vector = _append(metadata, _OFFSET.pack(count) + bytes(4 * count))
    slots = _append(metadata, struct.pack("<HHHH", 8, 12, 4, 8))
    pair = _append(
        metadata, struct.pack("<iII", len(metadata) - slots, 8, 12) + _OFFSET.pack(1) + b"k\0\0\0" + _text(size)
    )
    for place in range(vector + 4, vector + 4 + 4 * count, 4):
        _OFFSET.pack_into(metadata, place, pair - place)
    return vector


def _fields_share(field: int, append: Callable[[bytearray], int]) -> bytes:
    fields = [pa.field("c", pa.int8(), metadata={"k": "v"})] * 1_000
    message = bytearray(pa.schema(fields).serialize().to_pybytes())
    # The last field is behind all that a table refers to forwards.
    at, tables = append(message), _fields(message)
    for table in tables:
        place = _place(message, table, field)
        _OFFSET.pack_into(message, place, at - place)
    return bytes(message)


def of_one_name() -> bytes:
    """A schema whose fields share a name of 100 kB."""
    return _fields_share(_FIELD_NAME, lambda message: _append(message, _text(100_000)))


def of_one_metadata() -> bytes:
    """A schema whose fields share their metadata."""
    return _fields_share(_FIELD_CUSTOM, lambda message: _pairs(message, 200, 10))


def of_one_time_zone() -> bytes:
    """A schema whose fields share a time zone of 100 kB."""
    fields = [pa.field("c", pa.timestamp("us", "UTC"))] * 1_000
    message = bytearray(pa.schema(fields).serialize().to_pybytes())
    at = _append(message, _text(100_000))
    for table in _fields(message):
        place = _place(message, _followed(message, table, 3), 1)
        _OFFSET.pack_into(message, place, at - place)
    return bytes(message)


def with_custom_metadata(batch: pa.RecordBatch, count: int, size: int) -> bytes:
    """The batch's message, which carries a pair of texts so many times."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch, custom_metadata={"k": "v"})
    _, message = pa.ipc.MessageReader.open_stream(sink.getvalue())
    whole: bytes = message.serialize().to_pybytes()
    metadata, body = bytearray(whole[: _PREFIX + len(message.metadata)]), whole[_PREFIX + len(message.metadata) :]
    vector, place = _pairs(metadata, count, size), _place(metadata, _target(metadata, _PREFIX), _MESSAGE_CUSTOM)
    _OFFSET.pack_into(metadata, place, vector - place)
    return bytes(metadata) + body


def of_one_column(batch: pa.RecordBatch) -> bytes:
    """The batch's message; each column has the three buffers of the first one, which is a text."""
    message = bytearray(batch.serialize().to_pybytes())
    vector = _followed(message, _followed(message, _target(message, _PREFIX), _MESSAGE_HEADER), _BATCH_BUFFERS)
    first = bytes(message[vector + 4 : vector + 4 + 3 * 16])
    for column in range(batch.num_columns):
        message[vector + 4 + 48 * column : vector + 4 + 48 * (column + 1)] = first
    return bytes(message)
