"""What is moved: chunks of several sizes, and the window that each of them gets."""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["PAYLOADS", "Payload"]

ROW_COUNT = 32_768
# A window of a few chunks runs in lock-step: what is measured would be the round trip.
CHUNKS_IN_WINDOW = 8
# Different chunks one after the other, so that no cache holds just the one; few, so that they are made in no time.
DISTINCT_CHUNKS = 8
WIDE_ROW_BYTES = 500
# Small enough for the first cache; the permits of what is held have returned.
MOST_AT_ONCE = 64
BYTES_AT_ONCE = 96 << 10
_INT64_BYTES = 8


@dataclass(frozen=True)
class Payload:
    """Chunks of one shape."""

    name: str
    rows: int
    """Rows of a chunk."""
    is_wide: bool = False
    """Rows of 500 bytes in place of three int64 columns."""

    @property
    def schema(self) -> pa.Schema:
        """Of each chunk; the first column is an int64."""
        if self.is_wide:
            return pa.schema([("serial", pa.int64()), ("content", pa.binary())])
        return pa.schema([("serial", pa.int64()), ("double", pa.int64()), ("square", pa.int64())])

    @property
    def row_permits(self) -> int:
        """The window: ROW_COUNT, and at least eight chunks."""
        return max(ROW_COUNT, CHUNKS_IN_WINDOW * self.rows)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of data in a chunk."""
        return self.rows * (WIDE_ROW_BYTES if self.is_wide else 3 * _INT64_BYTES)

    @property
    def chunks_at_once(self) -> int:
        """How many a consumer reads together, as engines do with small ones."""
        return max(1, min(MOST_AT_ONCE, BYTES_AT_ONCE // self.chunk_bytes))

    def distinct(self) -> tuple[pa.RecordBatch, ...]:
        """The chunks that are sent again and again; made once."""
        return _distinct(self)

    def chunks(self, count: int) -> Iterator[pa.RecordBatch]:
        """So many chunks."""
        return islice(cycle(self.distinct()), count)

    def chunk(self, first: int) -> pa.RecordBatch:
        """Its serials begin with ``first``."""
        numbers = range(first, first + self.rows)
        if self.is_wide:
            content = [bytes([number % 256]) * (WIDE_ROW_BYTES - _INT64_BYTES) for number in numbers]
            return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(content, pa.binary())], schema=self.schema)
        columns = (numbers, [2 * n for n in numbers], [n * n % 1_000_003 for n in numbers])
        return pa.record_batch([pa.array(column, pa.int64()) for column in columns], schema=self.schema)

    def stamped(self, burst: Sequence[pa.RecordBatch], clock_ns: Callable[[], int]) -> list[pa.RecordBatch]:
        """The chunks with the time in place of their first serials; read last, so that stamping takes no part of it."""
        contents = [bytearray(_INT64_BYTES * self.rows) for _ in burst]
        stamped = [self._with_serials(chunk, content) for chunk, content in zip(burst, contents, strict=True)]
        time_ns = clock_ns()
        for content in contents:
            struct.pack_into("q", content, 0, time_ns)
        return stamped

    def _with_serials(self, chunk: pa.RecordBatch, content: bytearray) -> pa.RecordBatch:
        serials = pa.Array.from_buffers(pa.int64(), self.rows, [None, pa.py_buffer(content)])
        return pa.RecordBatch.from_arrays([serials, *chunk.columns[1:]], schema=chunk.schema)


@cache
def _distinct(payload: Payload) -> tuple[pa.RecordBatch, ...]:
    return tuple(payload.chunk(number * payload.rows) for number in range(DISTINCT_CHUNKS))


def sum_of_column(chunks: Sequence[pa.RecordBatch]) -> int:
    """A consumer that reads one column of several chunks: the sum of all serials."""
    total: int = pc.sum(pa.Table.from_batches(chunks).column(0)).as_py()
    return total


def sum_of_columns(chunks: Sequence[pa.RecordBatch]) -> int:
    """A consumer that reads everything: the sum of all integers, and the length of all content."""
    total = 0
    for column in pa.Table.from_batches(chunks).columns:
        numbers = column if pa.types.is_integer(column.type) else pc.binary_length(column)
        total += pc.sum(numbers).as_py()
    return total


PAYLOADS = {
    payload.name: payload
    for payload in (
        Payload("1", 1),
        Payload("64", 64),
        Payload("1,024", 1_024),
        Payload("4,096", 4_096),
        Payload("65,536", 65_536),
        Payload("wide", 1_024, is_wide=True),
    )
}
