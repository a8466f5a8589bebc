"""One measured run: the producer's chunks, and the consumer's work on them."""

import asyncio
import statistics
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, cycle, islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from permitflow.client import RemoteReceiver, RemoteSender
from permitflow.errors import EndOfStream

ROW_PERMITS = 32_768
# A window of a few chunks runs in lock-step: the benchmark would measure the round trip.
CHUNKS_IN_WINDOW = 8
# Different chunks one after the other, so that no cache holds just the one; few, so that they are made in no time.
DISTINCT_CHUNKS = 8
WIDE_ROW_BYTES = 500
# Small enough for the first cache; the permits of the held chunks have returned.
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
        """The schema of each chunk; the first column is an int64."""
        if self.is_wide:
            return pa.schema([("serial", pa.int64()), ("content", pa.binary())])
        return pa.schema([("serial", pa.int64()), ("double", pa.int64()), ("square", pa.int64())])

    @property
    def row_permits(self) -> int:
        """The window: row_permits, and at least eight chunks."""
        return max(ROW_PERMITS, CHUNKS_IN_WINDOW * self.rows)

    @property
    def chunk_bytes(self) -> int:
        return self.rows * (WIDE_ROW_BYTES if self.is_wide else 3 * _INT64_BYTES)

    @property
    def chunks_at_once(self) -> int:
        """How many a consumer reads together, as engines do with small ones."""
        return max(1, min(MOST_AT_ONCE, BYTES_AT_ONCE // self.chunk_bytes))

    def distinct(self) -> tuple[pa.RecordBatch, ...]:
        """The chunks that are sent again and again; made once."""
        return _distinct(self)

    def chunks(self, count: int) -> Iterator[pa.RecordBatch]:
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


def sum_of_serials(chunks: Sequence[pa.RecordBatch]) -> int:
    """The part of several chunks that a consumer reads: one column, summed up."""
    total: int = pc.sum(pa.Table.from_batches(chunks).column(0)).as_py()
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


# A producer that has more to send hands over this many chunks at once, if it can hand over several.
BURST_CHUNKS = 64


async def feed(sender: RemoteSender, payload: Payload, seconds: float) -> int:
    """Send bursts for so long; returns how many chunks these were."""
    # A burst of large ones would take longer than the clock looks at.
    burst = list(payload.chunks(min(BURST_CHUNKS, max(1, payload.row_permits // payload.rows // 2))))
    until, sent = time.perf_counter() + seconds, 0
    while not sent or time.perf_counter() <= until:
        await sender.send_many(deque(burst))
        sent += len(burst)
    return sent


async def drain(receiver: RemoteReceiver) -> None:
    """Read to the end of the stream, and throw away."""
    with suppress(EndOfStream):
        while True:
            await receiver.receive_joined()


# The clock starts after this share of the chunks: connecting and filling the window are not measured.
WARM_UP_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Job:
    """The settings of a run for both processes."""

    payload: str
    """One of ``PAYLOADS``."""
    chunks: int
    row_permits: int
    permit_batch: int
    """Permits return in batches of this many rows."""
    pause_seconds: float = 0.0
    """The pause between bursts; 0: none."""
    burst_chunks: int = BURST_CHUNKS
    stall_seconds: float = 0.0
    """Seconds for which the consumer does not read, after it has dialled."""
    stamps: bool = False
    """Measures the time on the way; a job that pauses always does."""
    number: int = 0
    """Makes names unique."""

    @property
    def shape(self) -> Payload:
        return PAYLOADS[self.payload]

    @property
    def is_paced(self) -> bool:
        """Does the producer pause, so that throughput means nothing?"""
        return self.pause_seconds > 0

    @property
    def is_stamped(self) -> bool:
        """Do chunks carry the time at which the producer sent them?"""
        return self.stamps or self.is_paced

    @property
    def max_rows_at_once(self) -> int:
        """The most rows of a train: a quarter of the window."""
        return max(self.shape.rows, self.row_permits // 4)

    def bursts(self) -> Iterator[list[pa.RecordBatch]]:
        for burst in self._bursts():
            yield burst
            if self.is_paced:
                time.sleep(self.pause_seconds)

    async def bursts_async(self) -> AsyncIterator[list[pa.RecordBatch]]:
        for burst in self._bursts():
            yield burst
            if self.is_paced:
                await asyncio.sleep(self.pause_seconds)

    def feed(self) -> Iterator[pa.RecordBatch]:
        for burst in self.bursts():
            yield from burst

    def _bursts(self) -> Iterator[list[pa.RecordBatch]]:
        chunks = self.shape.chunks(self.chunks)
        while burst := list(islice(chunks, self.burst_chunks)):
            yield self.shape.stamped(burst, time.monotonic_ns) if self.is_stamped else burst

    def checksum(self) -> int:
        sums = [sum_of_serials([chunk]) for chunk in self.shape.distinct()]
        rounds, rest = divmod(self.chunks, len(sums))
        return rounds * sum(sums) + sum(sums[:rest])


class Outcome(NamedTuple):
    chunks: int
    """After warming up, while the clock ran."""
    seconds: float
    latencies_ns: tuple[int, int]
    """Median and 99th percentile; zeros if chunks carried no time."""


class Tally:
    """Counts and reads chunks as they come; the same for all."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._warm_up_chunks = max(1, int(job.chunks * WARM_UP_SHARE))
        self._pending: list[pa.RecordBatch] = []
        self._joined_chunks = 0  # more than one for each batch that is pending
        self._read_chunks = 0
        self._due = self._next_due()
        self._sum = 0
        self._latencies_ns: list[int] = []
        self._began = self._ended = 0.0
        self._chunks_before = 0
        self.take: Callable[[pa.RecordBatch], None] = self._take_stamped if job.is_stamped else self._take
        """Process one chunk."""
        self.take_joined = self._take_joined_stamped if job.is_stamped else self._take_joined
        """Process chunks that arrived joined in one batch; count them by their rows."""

    def _take(self, chunk: pa.RecordBatch) -> None:
        self._pending.append(chunk)
        if len(self._pending) == self._due:
            self._read()

    def _take_stamped(self, chunk: pa.RecordBatch) -> None:
        self._latencies_ns.append(time.monotonic_ns() - chunk.column(0)[0].as_py())
        self._take(chunk)

    def _take_joined_stamped(self, batch: pa.RecordBatch, rows: Sequence[int]) -> None:
        now_ns, stamps = time.monotonic_ns(), batch.column(0)
        self._latencies_ns += (now_ns - stamps[start].as_py() for start in accumulate(rows[:-1], initial=0))
        self._take_joined(batch, rows)

    def _take_joined(self, batch: pa.RecordBatch, rows: Sequence[int]) -> None:
        assert sum(rows) == batch.num_rows, "the rows of the chunks are not those of their batch"
        self._pending.append(batch)
        self._joined_chunks += len(rows) - 1
        if len(self._pending) + self._joined_chunks >= self._due:
            self._read()

    def _read(self) -> None:
        """Read what was taken; the clock stands where warming up ends, and at the last chunk."""
        self._sum += sum_of_serials(self._pending)
        self._read_chunks += len(self._pending) + self._joined_chunks
        self._joined_chunks = 0
        self._pending.clear()
        self._ended = time.perf_counter()
        if not self._began and self._read_chunks >= self._warm_up_chunks:
            self._began, self._chunks_before = self._ended, self._read_chunks
        self._due = self._next_due()

    def _next_due(self) -> int:
        """The number of chunks after which to read; when the clock starts or stops, none may be left over."""
        until_mark = self._warm_up_chunks - self._read_chunks
        if until_mark <= 0:
            until_mark = self._job.chunks - self._read_chunks
        return min(self._job.shape.chunks_at_once, until_mark)

    def outcome(self) -> Outcome:
        """Check the received chunks.

        Raises:
            AssertionError: chunks are missing, or their content differs from the sent one.
        """
        came = self._read_chunks + len(self._pending) + self._joined_chunks
        assert came == self._job.chunks, f"{came} of {self._job.chunks} chunks came"
        counted, seconds = self._read_chunks - self._chunks_before, self._ended - self._began
        if self._job.is_stamped:
            percentiles = statistics.quantiles(self._latencies_ns[self._warm_up_chunks :], n=100)
            return Outcome(counted, seconds, (int(percentiles[49]), int(percentiles[98])))
        assert self._sum == self._job.checksum(), "the content of the chunks differs from the sent one"
        return Outcome(counted, seconds, (0, 0))
