"""Checks of Arrow's metadata before Arrow reads them: a short message must not become gigabytes, or hours of work.

The metadata are a flatbuffer, whose parts may share what they refer to: ten thousand fields one name of half a
megabyte, each column the same buffer.  Arrow copies shared parts for each that refers to them, and a process that runs
out of memory then is aborted.  So messages are read here first: metadata that Arrow accepts read the same, and for
metadata that it refuses the result does not matter.  Source: Arrow's format/Message.fbs, format/Schema.fbs, and
FlatBuffers' internals.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

import pyarrow as pa

from permitflow.wire.buffers import Buffer

MAX_SCHEMA_BYTES = 1 << 20
"""The longest serialised schema: a hundred bytes for each of the most fields."""
MAX_SCHEMA_FIELDS = 10_000
"""The most fields of a schema, nested ones included: preparing each takes an end some 5 microseconds."""
MAX_DICTIONARIES = 1_000
"""The most dictionaries of a schema: decoding or copying each takes an end some 10 microseconds, in every chunk."""
# What a message carries besides its batch.  Nobody reads it.
MOST_CUSTOM_BYTES = 64 << 10
# A pair of an offset, a table of two strings, and these.
_PAIR_BYTES = 32
_OFFSET, _BACK, _SLOT, _SHORT, _LONG = Struct("<I"), Struct("<i"), Struct("<H"), Struct("<h"), Struct("<q")
_CONTINUATION = 0xFFFFFFFF
_SHORT_BYTES = 2048  # metadata up to this size are cached
# Numbers of the fields in their tables, of the kinds of messages, of types, and of versions.
_MESSAGE_VERSION, _MESSAGE_KIND, _MESSAGE_HEADER, _MESSAGE_BODY_BYTES, _MESSAGE_CUSTOM = range(5)
_DICTIONARY_DATA = 1
_BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION = 1, 2, 3
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
_SCHEMA_FIELDS, _SCHEMA_CUSTOM = 1, 2
_FIELD_NAME, _FIELD_KIND, _FIELD_TYPE, _FIELD_CHILDREN, _FIELD_CUSTOM = 0, 2, 3, 5, 6
# The types that refer to something: a time zone, the numbers of a union.
_TIMESTAMP, _UNION, _TYPE_REFERENCE = 10, 14, 1
_V5 = 4


class Stated(NamedTuple):
    """What the metadata of a message state."""

    kind: int
    """``SCHEMA``, ``DICTIONARY``, ``BATCH`` or another number."""
    body_bytes: int
    columns: int = 0
    """The columns of a batch or dictionary, nested ones included."""
    buffer_bytes: int = 0
    """The bytes of all its buffers together."""


def front(message: "Buffer | pa.Buffer") -> tuple[Buffer, int]:
    """Cut the metadata out of a message; return them, and where its body begins.

    Raises:
        ValueError: it is not a message.
    """
    try:
        start = 8 if _OFFSET.unpack_from(message)[0] == _CONTINUATION else 4
        # Releases before Arrow 0.15 omit the first word.
        size = int(_BACK.unpack_from(message, start - 4)[0])
    except struct.error:
        raise ValueError("it is not a message") from None
    if not 0 < size <= len(message) - start:
        raise ValueError(f"its metadata would take {size} of {len(message)} bytes")
    return memoryview(message).cast("B")[start : start + size], start + size


def check_message(message: "Buffer | pa.Buffer") -> Stated:
    """Check a message that ``read_message`` shall read.

    Raises:
        ValueError: it is malformed, Arrow has compressed its buffers, or these share the bytes of its body.
    """
    metadata, body = front(message)
    stated = _stated(metadata)
    _require_own_bytes(stated, len(message) - body)
    return stated


def stream_messages(stream: "Buffer | pa.Buffer") -> Iterator[tuple[Buffer, Stated]]:
    """Check the messages of a stream; yields the metadata of each, and what they state.

    Raises:
        ValueError: as ``check_message``.
    """
    at, view = 0, memoryview(stream).cast("B")
    while len(view) >= at + 8 and _OFFSET.unpack_from(view, at + 4)[0]:
        if _OFFSET.unpack_from(view, at)[0] != _CONTINUATION:
            raise ValueError("a message does not begin as it should")
        metadata, body = front(view[at:])
        stated = _stated(metadata)
        if not 0 <= stated.body_bytes <= len(view) - at - body:
            raise ValueError(f"the body of a message would take {stated.body_bytes} bytes")
        _require_own_bytes(stated, stated.body_bytes)
        yield metadata, stated
        at += body + stated.body_bytes


def _require_own_bytes(stated: Stated, body_bytes: int) -> None:
    if stated.buffer_bytes > body_bytes:
        raise ValueError(f"its buffers would take {stated.buffer_bytes} bytes, and its body has {body_bytes}")


def _stated(metadata: Buffer) -> Stated:
    return _stated_briefly(bytes(metadata)) if len(metadata) <= _SHORT_BYTES else _read(metadata)


def _read(metadata: Buffer) -> Stated:
    try:
        root, kind, table = _message(metadata)
        custom = _followed(metadata, root, _MESSAGE_CUSTOM)
        if custom is not None and any(size > MOST_CUSTOM_BYTES for size in _pairs(metadata, custom)):
            raise ValueError(f"it carries more than {MOST_CUSTOM_BYTES} bytes of metadata besides its batch")
        body_at = _field(metadata, root, _MESSAGE_BODY_BYTES)
        body_bytes = 0 if body_at is None else int(_LONG.unpack_from(metadata, body_at)[0])
        batch = _followed(metadata, table, _DICTIONARY_DATA) if kind == DICTIONARY else table
        if kind not in (DICTIONARY, BATCH) or batch is None:
            return Stated(kind, body_bytes)
        # Arrow 0.17 named its codec in the custom metadata; Arrow's reader still obeys it in messages that old.
        version_at = _field(metadata, root, _MESSAGE_VERSION)
        is_old = version_at is None or _SHORT.unpack_from(metadata, version_at)[0] < _V5
        if (is_old and custom is not None) or _field(metadata, batch, _BATCH_COMPRESSION) is not None:
            raise ValueError("Arrow has compressed its buffers: a message is compressed as a whole, or not at all")
        nodes = _followed(metadata, batch, _BATCH_NODES)
        columns = 0 if nodes is None else int(_OFFSET.unpack_from(metadata, nodes)[0])
        return Stated(kind, body_bytes, columns, _buffer_bytes(metadata, _followed(metadata, batch, _BATCH_BUFFERS)))
    except (struct.error, IndexError, TypeError):
        raise ValueError("its metadata cannot be read") from None


# With columns of fixed width, batches of equally many rows have the same metadata.
_stated_briefly = lru_cache(maxsize=64)(_read)


def _buffer_bytes(metadata: Buffer, vector: int | None) -> int:
    """The lengths of all buffers: each is an offset and a length."""
    if vector is None:
        return 0
    count = int(_OFFSET.unpack_from(metadata, vector)[0])
    lengths: list[int] = memoryview(metadata)[vector + 4 : vector + 4 + 16 * count].cast("q")[1::2].tolist()
    if len(lengths) < count or min(lengths, default=0) < 0:
        raise ValueError("its buffers have no length")
    return sum(lengths)


def check_schema(metadata: Buffer) -> None:
    """Check the metadata of a schema's message, before Arrow decodes them.

    Fields can share their children, names and metadata, so that a short message can hold any number.

    Raises:
        ValueError: they hold more than ``MAX_SCHEMA_FIELDS``, nested ones included, or ``MAX_SCHEMA_BYTES``.
    """
    try:
        _check_schema(metadata)
    except (struct.error, IndexError):
        raise ValueError("its metadata cannot be read") from None


def _check_schema(data: Buffer) -> None:
    root, kind, table = _message(data)
    if kind != SCHEMA:
        raise ValueError("it is another message")
    count = size = 0
    for owner, number in ((root, _MESSAGE_CUSTOM), (table, _SCHEMA_CUSTOM)):
        size = _add_pairs(data, _followed(data, owner, number), size)
    vectors = [_followed(data, table, _SCHEMA_FIELDS)]
    while vectors:
        if (vector := vectors.pop()) is None:
            continue
        here = int(_OFFSET.unpack_from(data, vector)[0])
        if (count := count + here) > MAX_SCHEMA_FIELDS:
            most = f"{MAX_SCHEMA_FIELDS:,} are the most"
            raise ValueError(f"it has {count:,} fields or more, with those inside of others, and {most}")
        for place in range(vector + 4, vector + 4 + 4 * here, 4):
            field = place + int(_OFFSET.unpack_from(data, place)[0])
            vectors.append(_followed(data, field, _FIELD_CHILDREN))
            size += _length(data, _followed(data, field, _FIELD_NAME)) + _type_bytes(data, field)
            if (pairs := _followed(data, field, _FIELD_CUSTOM)) is not None:
                size = _add_pairs(data, pairs, size)
            _require_within(size)


def _type_bytes(data: Buffer, field: int) -> int:
    """The bytes to which a field's type refers."""
    at, table = _field(data, field, _FIELD_KIND), _followed(data, field, _FIELD_TYPE)
    if at is None or table is None or data[at] not in (_TIMESTAMP, _UNION):
        return 0
    return _length(data, _followed(data, table, _TYPE_REFERENCE)) * (1 if data[at] == _TIMESTAMP else 4)


def _add_pairs(data: Buffer, vector: int | None, size: int) -> int:
    """Add the bytes of custom metadata to those before."""
    before = size
    for of_pairs in _pairs(data, vector):
        _require_within(size := before + of_pairs)
    return size


def _pairs(data: Buffer, vector: int | None) -> Iterator[int]:
    """The bytes of custom metadata up to each of their pairs."""
    size = 0
    for number in range(0 if vector is None else _length(data, vector)):
        place = (vector or 0) + 4 + 4 * number
        pair = place + int(_OFFSET.unpack_from(data, place)[0])
        size += _PAIR_BYTES + sum(_length(data, _followed(data, pair, part)) for part in (0, 1))
        yield size


def _require_within(size_bytes: int) -> None:
    if size_bytes > MAX_SCHEMA_BYTES:
        raise ValueError(f"{MAX_SCHEMA_BYTES} bytes are the most, with names and metadata that its fields share")


def _length(data: Buffer, vector: int | None) -> int:
    """The length of a vector or string."""
    return 0 if vector is None else int(_OFFSET.unpack_from(data, vector)[0])


def _message(data: Buffer) -> tuple[int, int, int]:
    """Find a message's table, its kind (0: none), and the table of its content."""
    root = int(_OFFSET.unpack_from(data)[0])
    kind_at, table = _field(data, root, _MESSAGE_KIND), _followed(data, root, _MESSAGE_HEADER)
    return root, 0 if kind_at is None or table is None else int(data[kind_at]), table or 0


def _field(data: Buffer, table: int, field: int) -> int | None:
    """The position of a table's field; None if it is absent."""
    slots = table - _BACK.unpack_from(data, table)[0]
    slot = 4 + 2 * field
    if slot >= _SLOT.unpack_from(data, slots)[0]:
        return None
    position: int = _SLOT.unpack_from(data, slots + slot)[0]
    return table + position if position else None


def _followed(data: Buffer, table: int, field: int) -> int | None:
    """The position of the table to which a table's field refers."""
    position = _field(data, table, field)
    return None if position is None else position + int(_OFFSET.unpack_from(data, position)[0])
