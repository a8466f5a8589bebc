"""Compressed record batches: which codecs there are, and what may be decompressed.

A few bytes can become gigabytes.  So before Arrow decompresses anything, the lengths that a message states for its
buffers are added up; Arrow takes as much memory as was stated, and refuses a buffer that turns out to be otherwise.
Source: Arrow's columnar format, "Compression": each buffer begins with its length, 8 bytes, little-endian; -1 says that
it is not compressed.

Each row may be a large text, so permits alone would not bound what little becomes: a message states at most
``MOST_EXPANSION`` times what it takes itself.  Where a codec achieves more, zeros follow the message.
"""

import logging
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

import pyarrow as pa

from permitflow.protocol.compression import UNCOMPRESSED, Codec, CompressionAnswer
from permitflow.transports.arrow_metadata import (
    LZ4_FRAME,
    ZSTD,
    Compressed,
    compressed,
    field_nodes,
    is_compressed,
    metadata_place,
)
from permitflow.transports.carrier import Buffer

__all__ = ["MOST_EXPANSION", "Decompression", "available_codecs", "log_answer", "padded", "write_options"]

_log = logging.getLogger(__name__)

_NUMBERS = {Codec.LZ4: LZ4_FRAME, Codec.ZSTD: ZSTD}
_LENGTH = Struct("<q")
_NOT_COMPRESSED = -1
# What LZ4 can achieve at all.
MOST_EXPANSION = 256
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
    """A message that is long enough for what it states; whoever reads it heeds nothing behind its body.

    Args:
        message: compressed.
        size_bytes: about what it takes, decompressed.
    """
    # What a row takes is about right only; this much covers what buffers are rounded up by.
    least = int(size_bytes) // MOST_EXPANSION + _PADDING_BYTES
    return message if len(message) >= least else message + bytes(least - len(message))


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

    def require_message(self, message: Buffer, rows: Sequence[int]) -> None:
        """Refuse what must not be decompressed, and columns that nobody has agreed to.

        Args:
            message: one batch.
            rows: of each of its chunks, as they were paid for.

        Raises:
            ValueError: with the reason.
        """
        start, end = metadata_place(message)
        view = memoryview(message)
        self._require_columns(view[start:end])
        if self._codec is None:
            if is_compressed(message):
                raise ValueError(_NOBODY_AGREED)
            return
        found = compressed(view[start:end])
        if found is None:
            return
        size = self._stated_bytes(found, view[end:])
        self._require_moderate(size, len(view))
        if self._row_bytes is not None:
            paid = int(min(sum(rows) * self._row_bytes, self._most_bytes)) + self._slack_bytes
            _require_within(size, paid, f"its {sum(rows)} rows take")

    def _require_columns(self, metadata: bytes | memoryview) -> None:
        if (nodes := field_nodes(metadata)) > self._nodes:
            raise ValueError(f"it has {nodes} columns, with those inside of others, and the schema has {self._nodes}")

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
            if message.type == "record batch":
                self._require_columns(memoryview(message.metadata))
            found = compressed(memoryview(message.metadata))
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
