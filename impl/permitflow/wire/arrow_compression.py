"""Compressed record batches: the codecs, and the limits of decompression.

Arrow's message is compressed as one block, and travels with its size before compression.  A few bytes can
become gigabytes: so the stated size is checked against the agreement and the permits before decompression, and exactly
that much memory is allocated.  Permits alone do not bound it, because each row may be a large text: a block becomes at
most ``MOST_EXPANSION`` times its own size.

Arrow could compress the buffers inside of its message as well, and its reader would decompress them without a bound: a
message whose metadata say so is refused (``arrow_metadata``).
"""

import logging
from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
from xxhash import xxh32_intdigest

from permitflow.stream.compression import UNCOMPRESSED, Codec, CompressionAnswer
from permitflow.wire.buffers import Buffer

# LZ4's largest possible ratio.
MOST_EXPANSION = 256
# A shorter message gains little: even at 100 Mbit/s compressing takes as long as sending the saved bytes.
_COMPRESSED_FROM_BYTES = 4 << 10
# A frame that readers of LZ4 and Zstandard skip begins with this and its length.
_SKIPPED_MAGIC = b"\x50\x2a\x4d\x18"
# A frame of LZ4: this, flags, block size, the size of all if a flag says so, and a byte of a checksum of these.
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_STATES_SIZE = 0x08
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
