"""One measured run: what the producer sends, and what the consumer makes of it."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, islice
from typing import Any

import pyarrow as pa

from benchmarks.payloads import PAYLOADS, Payload, sum_of_column, sum_of_columns

__all__ = ["Job", "Outcome", "Tally"]

# A producer that has more to send hands over so many chunks at once, if it can hand over several.
BURST_CHUNKS = 64
# The clock starts after this share of the chunks: connecting and filling the window are not what is measured.
WARM_UP_SHARE = 0.1
TOUCHES: dict[str, Callable[[Sequence[pa.RecordBatch]], int]] = {"column": sum_of_column, "columns": sum_of_columns}


@dataclass(frozen=True, kw_only=True)
class Job:
    """What both processes are told."""

    payload: str
    """One of ``PAYLOADS``."""
    chunks: int
    row_permits: int
    permit_batch: int
    """Permits return in batches of so many rows."""
    touch: str = "column"
    """What the consumer reads: one ``column``, or all ``columns``."""
    pause_seconds: float = 0.0
    """Between bursts; 0: as fast as it can."""
    burst_chunks: int = BURST_CHUNKS
    stall_seconds: float = 0.0
    """So long the consumer does not read, after it has dialled."""
    stamps: bool = False
    """Measures the time on the way; a job that pauses always does."""
    number: int = 0
    """Makes names unique."""

    @property
    def shape(self) -> Payload:
        """The payload itself."""
        return PAYLOADS[self.payload]

    @property
    def is_paced(self) -> bool:
        """Does the producer pause, so that throughput means nothing?"""
        return self.pause_seconds > 0

    @property
    def is_stamped(self) -> bool:
        """Do chunks carry the time at which they left the producer's hand?"""
        return self.stamps or self.is_paced

    @property
    def max_rows_at_once(self) -> int:
        """The most rows of a train: a quarter of the window."""
        return max(self.shape.rows, self.row_permits // 4)

    def with_touch(self, touch: str) -> "Job":
        """The same for a consumer that reads otherwise."""
        return replace(self, touch=touch)

    def bursts(self) -> Iterator[list[pa.RecordBatch]]:
        """All chunks in lists, with pauses if the job is paced."""
        for burst in self._bursts():
            yield self._stamped(burst)
            if self.is_paced:
                time.sleep(self.pause_seconds)

    async def bursts_async(self) -> AsyncIterator[list[pa.RecordBatch]]:
        """The same for an event loop."""
        for burst in self._bursts():
            yield self._stamped(burst)
            if self.is_paced:
                await asyncio.sleep(self.pause_seconds)

    def feed(self) -> Iterator[pa.RecordBatch]:
        """All chunks, one after the other, with pauses if the job is paced."""
        for burst in self.bursts():
            yield from burst

    def _bursts(self) -> Iterator[list[pa.RecordBatch]]:
        chunks = self.shape.chunks(self.chunks)
        while burst := list(islice(chunks, self.burst_chunks)):
            yield burst

    def _stamped(self, burst: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        if not self.is_stamped:
            return burst
        return self.shape.stamped(burst, time.monotonic_ns)

    def checksum(self) -> int:
        """What the consumer must come to, if every chunk arrives."""
        sums = [TOUCHES[self.touch]([chunk]) for chunk in self.shape.distinct()]
        rounds, rest = divmod(self.chunks, len(sums))
        return rounds * sum(sums) + sum(sums[:rest])

    def facts(self) -> dict[str, Any]:
        """For the other process."""
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """What a consumer has seen."""

    chunks: int
    """After warming up, while the clock ran."""
    seconds: float
    latencies_ns: tuple[int, int]
    """Median and 99th percentile; zeros if chunks carried no time."""


class Tally:
    """Counts and reads chunks as they come; the same for all."""

    def __init__(self, job: Job) -> None:
        """The clock starts by itself."""
        self._job = job
        self._touch = TOUCHES[job.touch]
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
        """What a consumer does with each chunk."""
        self.take_joined = self._take_joined_stamped if job.is_stamped else self._take_joined
        """What a consumer does with chunks that have come as the rows of one batch: they are counted by their rows."""

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
        self._sum += self._touch(self._pending)
        self._read_chunks += len(self._pending) + self._joined_chunks
        self._joined_chunks = 0
        self._pending.clear()
        self._ended = time.perf_counter()
        if not self._began and self._read_chunks >= self._warm_up_chunks:
            self._began, self._chunks_before = self._ended, self._read_chunks
        self._due = self._next_due()

    def _next_due(self) -> int:
        """After how many chunks to read; where the clock starts or stops, no chunk may be left over."""
        until_mark = self._warm_up_chunks - self._read_chunks
        if until_mark <= 0:
            until_mark = self._job.chunks - self._read_chunks
        return min(self._job.shape.chunks_at_once, until_mark)

    def outcome(self) -> Outcome:
        """Judge what has come.

        Raises:
            AssertionError: chunks are missing, or their content is not what was sent.
        """
        came = self._read_chunks + len(self._pending) + self._joined_chunks
        assert came == self._job.chunks, f"{came} of {self._job.chunks} chunks came"
        counted, seconds = self._read_chunks - self._chunks_before, self._ended - self._began
        if self._job.is_stamped:
            percentiles = statistics.quantiles(self._latencies_ns[self._warm_up_chunks :], n=100)
            return Outcome(counted, seconds, (int(percentiles[49]), int(percentiles[98])))
        assert self._sum == self._job.checksum(), "the content of the chunks is not what was sent"
        return Outcome(counted, seconds, (0, 0))
