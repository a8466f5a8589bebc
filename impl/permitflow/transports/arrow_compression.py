"""Compressed record batches: the codecs, the limits of decompression, and the checks of Arrow's metadata.

Arrow's message is compressed as one block, and travels with its size before compression.  A few bytes can
become gigabytes: so the stated size is checked against the agreement and the permits before decompression, and exactly
that much memory is allocated.  Permits alone do not bound it, because each row may be a large text: a block becomes at
most ``MOST_EXPANSION`` times its own size.

Arrow could compress the buffers inside of its message as well, and its reader would decompress them without a bound: a
message whose metadata say so is refused.  pyarrow does not tell what they say, so they are read here.  They are a
flatbuffer, which pyarrow verifies when it reads the message; metadata that it accepts read the same here, and for
metadata that it refuses the result does not matter.  Source: Arrow's format/Message.fbs, and FlatBuffers' internals.
"""

import logging
import struct
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

import pyarrow as pa
from xxhash import xxh32_intdigest

from permitflow.protocol.compression import UNCOMPRESSED, Codec, CompressionAnswer
from permitflow.transports.carrier import Buffer

MAX_SCHEMA_BYTES = 1 << 20
"""The longest serialised schema: a hundred bytes for each of the most fields."""
MAX_SCHEMA_FIELDS = 10_000
"""The most fields of a schema, nested ones included: preparing each takes an end some 10 microseconds."""
# LZ4's largest possible ratio.
MOST_EXPANSION = 256
# A shorter message gains little: even at 100 Mbit/s compressing takes as long as sending the saved bytes.
_COMPRESSED_FROM_BYTES = 4 << 10
# A frame that readers of LZ4 and Zstandard skip begins with this and its length.
_SKIPPED_MAGIC = b"\x50\x2a\x4d\x18"
# A frame of LZ4: this, flags, block size, the size of all if a flag says so, and a byte of a checksum of these.
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_STATES_SIZE = 0x08
_OFFSET, _BACK, _SLOT, _SHORT = Struct("<I"), Struct("<i"), Struct("<H"), Struct("<h")
_CONTINUATION = 0xFFFFFFFF
_SHORT_BYTES = 2048  # metadata up to this size are cached
# Numbers of the fields in their tables, of the kinds of messages, and of versions.
_MESSAGE_VERSION, _MESSAGE_KIND, _MESSAGE_HEADER, _MESSAGE_CUSTOM = 0, 1, 2, 4
_DICTIONARY_DATA = 1
_BATCH_NODES, _BATCH_COMPRESSION = 1, 3
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_SCHEMA_FIELDS, _FIELD_CHILDREN = 1, 5
_V5 = 4
_log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def available_codecs() -> tuple[Codec, ...]:
    """The codecs of the installed pyarrow."""
    return tuple(codec for codec in Codec if pa.Codec.is_available(codec.value))


def log_answer(answer: CompressionAnswer, *, who: str) -> None:
    """Log the decision about a stream if one end has asked for compression; ``who`` is the peer."""
    if answer != UNCOMPRESSED:
        _log.info("compression with %s: %s", who, answer.words)


def compressed(message: Sequence[Buffer], codec: Codec | None) -> tuple[Sequence[Buffer], int]:
    """Compress a message; return its pieces and its size in bytes before compression, 0: not compressed."""
    size = 0 if codec is None else sum(map(len, message))
    if codec is None or size < _COMPRESSED_FROM_BYTES:
        return message, 0
    # Without the cast its length would be that of pyarrow's output buffer.
    block = memoryview(pa.compress(b"".join(message), codec=codec.value)).cast("B")
    pieces: list[Buffer] = _with_size(block, size) if codec is Codec.LZ4 else [block]
    # Zstandard can exceed the ratio that a receiver accepts.
    if (missing := -(-size // MOST_EXPANSION) - len(block)) > 0:
        pieces.append(_SKIPPED_MAGIC + missing.to_bytes(4, "little") + bytes(missing))
    return (pieces, size) if sum(map(len, pieces)) < size else (message, 0)


def decompressed(block: Buffer, size_bytes: int, codec: Codec | None, rows: int, most_bytes: int) -> pa.Buffer:
    """Decompress a message.

    Args:
        block: as received.
        size_bytes: of the message, as the peer states.
        codec: the agreed one; None: no compression.
        rows: of its chunks, as their permits count them.
        most_bytes: the limit of a message with these rows.

    Raises:
        ValueError: the block exceeds a limit, or contradicts the agreement or its stated size.
    """
    if codec is None:
        raise ValueError("it is compressed, which nobody has agreed to")
    _require_within(size_bytes, most_bytes, f"its {rows} rows may take")
    _require_within(size_bytes, MOST_EXPANSION * len(block), f"a block of {len(block)} bytes may become")
    wrong = f"it is not compressed as was agreed, by {codec}, or does not become {size_bytes} bytes as it states"
    if codec is Codec.LZ4 and not _states_size(block, size_bytes):
        raise ValueError(wrong)
    try:
        return pa.decompress(block, decompressed_size=size_bytes, codec=codec.value)
    except (OSError, ValueError) as error:
        raise ValueError(f"{wrong}: {error}") from error


def _require_within(size_bytes: int, limit_bytes: int, whose: str) -> None:
    if not 0 < size_bytes <= limit_bytes:
        raise ValueError(f"it would take {size_bytes} bytes, decompressed; {whose} at most {limit_bytes}")


def _with_size(frame: "memoryview[int]", size_bytes: int) -> list[Buffer]:
    """Add the content's size to a frame of LZ4 as pyarrow writes it; return pieces."""
    stated = bytes((frame[4] | _LZ4_STATES_SIZE, frame[5])) + size_bytes.to_bytes(8, "little")
    behind = 15 if frame[4] & _LZ4_STATES_SIZE else 7
    return [_LZ4_MAGIC + stated + bytes((xxh32_intdigest(stated) >> 8 & 0xFF,)), frame[behind:]]


def _states_size(frame: Buffer, size_bytes: int) -> bool:
    """Does this LZ4 frame's header state this size?  The decoder then rejects content of another size.

    pyarrow does not return the decompressed size: behind a shorter content old memory would be read.
    """
    header, size = bytes(frame[:14]), size_bytes.to_bytes(8, "little")
    return header[:4] == _LZ4_MAGIC and header[6:] == size and bool(header[4] & _LZ4_STATES_SIZE)


def has_few_fields(schema: bytes) -> bool:
    """Does a schema's message hold at most ``MAX_SCHEMA_FIELDS``, nested ones included?

    They are counted before Arrow decodes them: fields can share their children, so that a short message can hold any
    number.
    """
    try:
        # Releases before Arrow 0.15 omit the first word.
        start = 8 if _OFFSET.unpack_from(schema)[0] == _CONTINUATION else 4
        _, kind, table = _message(schema, start)
        if kind != _SCHEMA:
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
    except (struct.error, IndexError):
        pass  # not a message
    return True


def count_columns(metadata: Buffer) -> int:
    """Count the columns of a batch or a dictionary, nested ones included; 0 for other messages.

    Raises:
        ValueError: its buffers are compressed, or ``metadata`` is malformed.
    """
    return _count_briefly(bytes(metadata)) if len(metadata) <= _SHORT_BYTES else _count(metadata)


def _count(metadata: Buffer) -> int:
    try:
        root, kind, table = _message(metadata, 0)
        batch = _followed(metadata, table, _DICTIONARY_DATA) if kind == _DICTIONARY else table
        if kind not in (_DICTIONARY, _BATCH) or batch is None:
            return 0
        # Arrow 0.17 named its codec in the custom metadata; Arrow's reader still obeys it in messages that old.
        version_at = _field(metadata, root, _MESSAGE_VERSION)
        is_old = version_at is None or _SHORT.unpack_from(metadata, version_at)[0] < _V5
        names_codec = is_old and _field(metadata, root, _MESSAGE_CUSTOM) is not None
        if names_codec or _field(metadata, batch, _BATCH_COMPRESSION) is not None:
            raise ValueError("Arrow has compressed its buffers: a message is compressed as a whole, or not at all")
        nodes = _followed(metadata, batch, _BATCH_NODES)
        return 0 if nodes is None else int(_OFFSET.unpack_from(metadata, nodes)[0])
    except (struct.error, IndexError):
        raise ValueError("its metadata cannot be read") from None


# With columns of fixed width, batches of equally many rows have the same metadata.
_count_briefly = lru_cache(maxsize=64)(_count)


def _message(data: Buffer, start: int) -> tuple[int, int, int]:
    """Find a message's table, its kind (0: none), and the table of its content."""
    root = start + int(_OFFSET.unpack_from(data, start)[0])
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
