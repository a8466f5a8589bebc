"""Compressed record batches: which codecs there are, and what may be decompressed; what a schema may hold.

A few bytes can become gigabytes.  So before Arrow decompresses anything, the lengths that a message states for its
buffers are added up; Arrow takes as much memory as was stated, and refuses a buffer that turns out to be otherwise.
Source: Arrow's columnar format, "Compression": each buffer begins with its length, 8 bytes, little-endian; -1 says that
it is not compressed.

Each row may be a large text, so permits alone would not bound what little becomes: a message states at most
``MOST_EXPANSION`` times what it takes itself.  Where a codec achieves more, zeros follow the message.

pyarrow does not tell what the metadata of a message say, and would decompress it: so they are read here.  They are a
flatbuffer, which pyarrow verifies when it reads the message; what it accepts reads the same here, and in what it
refuses it does not matter what is found.  Source: Arrow's format/Message.fbs, and the internals of FlatBuffers.
"""

import logging
import struct
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

import pyarrow as pa

from permitflow.protocol.compression import UNCOMPRESSED, Codec, CompressionAnswer

__all__ = [
    "MAX_SCHEMA_BYTES",
    "MAX_SCHEMA_FIELDS",
    "MOST_EXPANSION",
    "UNREADABLE",
    "Compressed",
    "Decompression",
    "Described",
    "available_codecs",
    "described",
    "has_few_fields",
    "log_answer",
    "metadata_place",
    "padded",
    "write_options",
]

MAX_SCHEMA_BYTES = 1 << 20
"""Of a schema, serialised: a hundred bytes for each of the most fields."""
MAX_SCHEMA_FIELDS = 10_000
"""Of a schema, with those inside of others: for each of them an end prepares itself for some 10 microseconds."""
# What LZ4 can achieve at all.
MOST_EXPANSION = 256
_LZ4_FRAME, _ZSTD = 0, 1  # numbers of the codecs in BodyCompression
_OFFSET, _BACK, _SLOT, _BYTE, _SHORT = Struct("<I"), Struct("<i"), Struct("<H"), Struct("<B"), Struct("<h")
_BEGINNING = Struct("<II")
_BUFFER = Struct("<qq")
_CONTINUATION = 0xFFFFFFFF
_SHORT_BYTES = 2048  # what was said in so many bytes is worth remembering
# Numbers of the fields in their tables, of the kinds of messages, and of versions.
_MESSAGE_VERSION, _MESSAGE_KIND, _MESSAGE_HEADER, _MESSAGE_CUSTOM = 0, 1, 2, 4
_DICTIONARY_DATA = 1
_BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION = 1, 2, 3
_COMPRESSION_CODEC, _COMPRESSION_METHOD = 0, 1
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_SCHEMA_FIELDS, _FIELD_CHILDREN = 1, 5
_V5 = 4
_log = logging.getLogger(__name__)
_NUMBERS = {Codec.LZ4: _LZ4_FRAME, Codec.ZSTD: _ZSTD}
_LENGTH = Struct("<q")
_NOT_COMPRESSED = -1
# Arrow's writers may round buffers up to that.  A column of fixed width has two.
_PADDING_BYTES = 64
_BUFFERS_PER_COLUMN = 2
_NOBODY_AGREED = "it is compressed, which nobody has agreed to"


@lru_cache(maxsize=1)
def available_codecs() -> tuple[Codec, ...]:
    """What the pyarrow that is installed can read and write."""
    return tuple(codec for codec in Codec if pa.Codec.is_available(codec.value))


def log_answer(answer: CompressionAnswer, *, who: str) -> None:
    """Say what was decided about a stream, if anybody has asked for compression; ``who`` is the peer."""
    if answer != UNCOMPRESSED:
        _log.info("compression with %s: %s", who, answer.words)


def write_options(codec: Codec | None) -> pa.ipc.IpcWriteOptions:
    """How Arrow's writer is told."""
    # Handing each buffer to another thread costs more than it gives, and other streams want the processors as well.
    return pa.ipc.IpcWriteOptions(compression=None if codec is None else codec.value, use_threads=False)


def padded(message: bytes, size_bytes: float) -> bytes:
    """A message that is long enough for what it states; its reader heeds nothing behind its body.

    Args:
        message: compressed.
        size_bytes: about what it takes, decompressed.
    """
    # What a row takes is about right only; this much covers what buffers are rounded up by.
    least = int(size_bytes) // MOST_EXPANSION + _PADDING_BYTES
    return message if len(message) >= least else message + bytes(least - len(message))


class Compressed(NamedTuple):
    """A body that is compressed, as its metadata describe it."""

    codec: int
    """0 for frames of LZ4, 1 for Zstandard, or something else that nobody here can read."""
    buffers: Sequence[tuple[int, int]]
    """Where each buffer is: offset from the beginning of the body, and length; as stated, so they may lie anywhere."""


UNREADABLE = Compressed(-1, ())
"""It is compressed, and says nothing else that can be understood."""


class Described(NamedTuple):
    """What metadata say about the body behind them."""

    columns: int
    """Of a batch or a dictionary, with those inside of others."""
    compressed: Compressed | None
    """How the body is compressed, if it is."""


class Decompression:
    """What may come in a stream of one schema, and what of it compressed."""

    def __init__(
        self, codec: Codec | None, *, row_bytes: float | None, columns: int, most_bytes: int, nodes: int
    ) -> None:
        """As was agreed.

        Args:
            codec: the only one that may come; None: nothing is compressed.
            row_bytes: what a row takes, where all columns have a fixed width.
            columns: how many there are.
            most_bytes: that a chunk may take, decompressed.
            nodes: how many columns there are with those inside of others: Arrow heeds no further ones.
        """
        self._nodes = nodes
        self._codec = codec
        self._row_bytes = row_bytes
        self._slack_bytes = _PADDING_BYTES * _BUFFERS_PER_COLUMN * columns
        self._most_bytes = most_bytes

    def require_message(self, message: pa.Message, size_bytes: int, rows: Sequence[int]) -> None:
        """Refuse what must not be decompressed, and columns that nobody has agreed to.

        Args:
            message: one batch.
            size_bytes: of the message, with all that is behind it.
            rows: of each of its chunks, as they were paid for.

        Raises:
            ValueError: with the reason.
        """
        columns, found = described(memoryview(message.metadata))
        self._require_columns(columns)
        if found is None:
            return
        size = self._stated_bytes(found, memoryview(message.body or b""))
        self._require_moderate(size, size_bytes)
        if self._row_bytes is not None:
            paid = int(min(sum(rows) * self._row_bytes, self._most_bytes)) + self._slack_bytes
            _require_within(size, paid, f"its {sum(rows)} rows take")

    def _require_columns(self, columns: int) -> None:
        if columns > self._nodes:
            raise ValueError(f"it has {columns} columns, with those inside of others, and the schema has {self._nodes}")

    def require_stream(self, stream: pa.Buffer) -> None:
        """The same of a stream with dictionaries.

        Raises:
            ValueError: with the reason.
        """
        self._require_moderate(self.stream_bytes(stream), len(stream))

    def stream_bytes(self, stream: pa.Buffer) -> int:
        """What the batches and dictionaries of a stream take once they are decompressed, as they say.

        Raises:
            ValueError: they are not compressed as was agreed.
        """
        size = 0
        for message in pa.ipc.MessageReader.open_stream(stream):
            columns, found = described(memoryview(message.metadata))
            if message.type == "record batch":
                self._require_columns(columns)
            body = memoryview(message.body or b"")
            size += len(body) if found is None else self._stated_bytes(found, body)
        return size

    def _require_moderate(self, size_bytes: int, message_bytes: int) -> None:
        _require_within(size_bytes, self._most_bytes, "a chunk may take")
        _require_within(size_bytes, MOST_EXPANSION * message_bytes, f"a message of {message_bytes} bytes may become")

    def _stated_bytes(self, found: Compressed, body: memoryview) -> int:
        if self._codec is None:
            raise ValueError(_NOBODY_AGREED)
        if found.codec != _NUMBERS[self._codec]:
            raise ValueError(f"it is not compressed as was agreed, by {self._codec}")
        return sum(_stated_bytes(body, offset, length) for offset, length in found.buffers if length)


def _stated_bytes(body: memoryview, offset: int, length: int) -> int:
    if offset < 0 or length < _LENGTH.size or offset + length > len(body):
        raise ValueError(f"a compressed buffer of {length} bytes at {offset} is not in its body of {len(body)} bytes")
    stated: int = _LENGTH.unpack_from(body, offset)[0]
    if stated == _NOT_COMPRESSED:
        return length - _LENGTH.size
    if stated < 0:
        raise ValueError(f"a compressed buffer states a length of {stated} bytes")
    return stated


def _require_within(size_bytes: int, limit_bytes: int, whose: str) -> None:
    if size_bytes > limit_bytes:
        raise ValueError(f"it would take {size_bytes} bytes, decompressed; {whose} at most {limit_bytes}")


def has_few_fields(schema: bytes) -> bool:
    """Does a schema's message hold at most ``MAX_SCHEMA_FIELDS``, with those inside of others?

    They are counted before Arrow makes anything of them: fields can share their children, so that a short message can
    hold any number.
    """
    try:
        start, _ = metadata_place(schema)
        root = start + int(_OFFSET.unpack_from(schema, start)[0])
        kind_at, table = _field(schema, root, _MESSAGE_KIND), _followed(schema, root, _MESSAGE_HEADER)
        if kind_at is None or table is None or _BYTE.unpack_from(schema, kind_at)[0] != _SCHEMA:
            return True
        count, vectors = 0, [_followed(schema, table, _SCHEMA_FIELDS)]
        while vectors:
            if (vector := vectors.pop()) is None:
                continue
            here = int(_OFFSET.unpack_from(schema, vector)[0])
            if (count := count + here) > MAX_SCHEMA_FIELDS:
                return False
            for place in range(vector + 4, vector + 4 + 4 * here, 4):
                field = place + int(_OFFSET.unpack_from(schema, place)[0])
                vectors.append(_followed(schema, field, _FIELD_CHILDREN))
    except (ValueError, struct.error):
        pass  # no message at all
    return True


def metadata_place(message: bytes | memoryview) -> tuple[int, int]:
    """Where the metadata of a message begin and where they end, which is where its body begins.

    Raises:
        ValueError: there is no message.
    """
    try:
        continuation, size = _BEGINNING.unpack_from(message)
    except struct.error:
        raise ValueError("it is no message") from None
    start = _BEGINNING.size
    if continuation != _CONTINUATION:
        start, size = _OFFSET.size, continuation
    return start, start + size


def described(metadata: bytes | memoryview) -> Described:
    """What metadata say; that there are no columns, and no compression, if these are no metadata."""
    return _described_briefly(bytes(metadata)) if len(metadata) <= _SHORT_BYTES else _described(metadata)


def _described(metadata: bytes | memoryview) -> Described:
    try:
        root = _OFFSET.unpack_from(metadata)[0]
        batch = _batch(metadata, root)
    except struct.error:
        batch = None
    return (
        Described(0, None)
        if batch is None
        else Described(_columns(metadata, batch), _compressed(metadata, root, batch))
    )


# Of columns whose width is fixed, batches of as many rows have the same metadata.
_described_briefly = lru_cache(maxsize=64)(_described)


def _columns(metadata: bytes | memoryview, batch: int) -> int:
    try:
        nodes = _followed(metadata, batch, _BATCH_NODES)
        return 0 if nodes is None else int(_OFFSET.unpack_from(metadata, nodes)[0])
    except struct.error:
        return 0


def _compressed(metadata: bytes | memoryview, root: int, batch: int) -> Compressed | None:
    try:
        description = _followed(metadata, batch, _BATCH_COMPRESSION)
        if description is None:
            return UNREADABLE if _names_codec_as_of_old(metadata, root) else None
        # Numbers that are 0 may be left out.
        method_at, codec_at = (
            _field(metadata, description, name) for name in (_COMPRESSION_METHOD, _COMPRESSION_CODEC)
        )
        if method_at is not None and _BYTE.unpack_from(metadata, method_at)[0]:
            return UNREADABLE
        codec = _LZ4_FRAME if codec_at is None else int(_BYTE.unpack_from(metadata, codec_at)[0])
        return Compressed(codec, _buffers(metadata, batch))
    except struct.error:
        return UNREADABLE


def _batch(data: bytes | memoryview, root: int) -> int | None:
    """The table of the batch, or of that of a dictionary."""
    kind_at, table = _field(data, root, _MESSAGE_KIND), _followed(data, root, _MESSAGE_HEADER)
    if kind_at is None or table is None:
        return None
    kind = _BYTE.unpack_from(data, kind_at)[0]
    if kind == _DICTIONARY:
        return _followed(data, table, _DICTIONARY_DATA)
    return table if kind == _BATCH else None


def _names_codec_as_of_old(data: bytes | memoryview, root: int) -> bool:
    """Arrow 0.17 named its codec among the custom metadata, which Arrow's reader still heeds in messages that old."""
    version_at = _field(data, root, _MESSAGE_VERSION)
    is_old = version_at is None or _SHORT.unpack_from(data, version_at)[0] < _V5
    return is_old and _field(data, root, _MESSAGE_CUSTOM) is not None


def _buffers(data: bytes | memoryview, batch: int) -> list[tuple[int, int]]:
    vector = _followed(data, batch, _BATCH_BUFFERS)
    if vector is None:
        return []
    start = vector + _OFFSET.size
    end = start + _BUFFER.size * int(_OFFSET.unpack_from(data, vector)[0])
    return list(_BUFFER.iter_unpack(data[start:end]))


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
