"""All ways with their processes, which stay alive between jobs; how long a job is, and which numbers suit a way best.

Windows and batches are tried out in short runs, by the same rule for all ways.
"""

import random
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from rich.console import Console

from benchmarks.jobs import CHUNKS_IN_WINDOW, PAYLOADS, Job, Payload
from benchmarks.pairs import Pair, PairFailedError, Sample
from benchmarks.peers.way import Way, find_ways
from permitflow.protocol.permits import ChannelParameters

__all__ = ["FULL", "SMOKE", "Field", "Settings", "candidates", "fastest", "open_field"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of one run."""

    rounds: int = 5
    job_seconds: float = 0.15
    """How long each job should take, roughly."""
    longest_job_seconds: float = 0.8
    """Where more is needed to fill the window twice."""
    latency_seconds: float = 0.4
    stream_ends: int = 1_000
    seed: int = 1
    payloads: tuple[str, ...] = tuple(PAYLOADS)
    ways: tuple[str, ...] = ("",)
    """Only ways with one of these in their name; all by default."""
    is_smoke: bool = False
    """Does it still run?  Nothing is judged."""


FULL = Settings()
SMOKE = replace(
    FULL,
    rounds=1,
    job_seconds=0.01,
    longest_job_seconds=0.01,
    latency_seconds=0.05,
    stream_ends=5,
    payloads=("64",),
    is_smoke=True,
)


# Windows as multiples of the default one; and batches as shares of the window.
WINDOW_MULTIPLES = (0.5, 1, 2, 8)
BATCH_SHARES = (2, 4, 8)
# 262,144 rows of three int64 columns: about what carriers hold without permits.
MOST_WINDOW_BYTES = 6 << 20
# A window that holds much of a job does not bind.  Those that are not larger than the default have jobs as all have.
WINDOWS_THAT_BIND = 8
PILOT_SHARE = 4
LEAST_CHUNKS_OF_A_PILOT = 32
# So many of the fastest are tried again, and so many of these once more: a short run is easily disturbed.
KEPT = (4, 2)


def candidates(job: Job, most_chunks: int) -> list[Job]:
    """The same job with other windows and batches, and long enough for each.

    Args:
        job: with the default numbers.
        most_chunks: that a job may have; windows that cannot be filled several times by so many are left out.
    """
    found: list[Job] = []
    for row_permits in _windows(job):
        chunks = WINDOWS_THAT_BIND * row_permits // job.shape.rows
        if row_permits > job.row_permits and chunks > most_chunks:
            continue
        long_enough = job if row_permits <= job.row_permits else replace(job, chunks=max(job.chunks, chunks))
        found += [
            replace(long_enough, row_permits=row_permits, permit_batch=row_permits // share) for share in BATCH_SHARES
        ]
    return found


def _windows(job: Job) -> Iterator[int]:
    """At least eight chunks; those beyond the default, no more bytes than carriers hold."""
    shape = job.shape
    largest = max(job.row_permits, MOST_WINDOW_BYTES * shape.rows // shape.chunk_bytes)
    for multiple in WINDOW_MULTIPLES:
        row_permits = int(multiple * job.row_permits)
        if CHUNKS_IN_WINDOW * shape.rows <= row_permits <= largest:
            yield row_permits


async def fastest(competing: list[Job], chunks_per_second: Callable[[Job], Awaitable[float]]) -> Job:
    """The one that is fastest by the mean of its pilots: all have one, the fastest of them another one, and so on.

    Args:
        competing: at least one.
        chunks_per_second: runs a job; 0 if that failed.
    """
    rates: dict[Job, list[float]] = {job: [] for job in competing}
    for kept in (*KEPT, 1):
        for job in competing:
            rates[job].append(await chunks_per_second(_pilot(job)))
        competing = sorted(competing, key=lambda job: statistics.fmean(rates[job]), reverse=True)[:kept]
    return competing[0]


def _pilot(job: Job) -> Job:
    return replace(job, chunks=max(LEAST_CHUNKS_OF_A_PILOT, job.chunks // PILOT_SHARE))


FIRST_CHUNKS = 64
GROWTH = 8
LEAST_CHUNKS = 32
MOST_CHUNKS = 2_000_000
WINDOWS_IN_A_JOB = 2

T = TypeVar("T")


class Field:
    """All ways that compete, and their processes."""

    def __init__(self, pairs: Sequence[Pair], settings: Settings, console: Console) -> None:
        """Use ``open_field``."""
        self.settings = settings
        self.console = console
        self.failures: list[str] = []
        self._pairs = {pair.way.name: pair for pair in pairs}
        self._random = random.Random(settings.seed)
        self._rates: dict[tuple[str, str], float] = {}

    @property
    def ways(self) -> list[Way]:
        """In the order of tables."""
        return [pair.way for pair in self._pairs.values()]

    def shuffled(self, items: Iterable[T]) -> list[T]:
        """In another order each time, the same in each run."""
        mixed = list(items)
        self._random.shuffle(mixed)
        return mixed

    async def run(self, way: Way, job: Job) -> Sample | None:
        """Let a way do a job; None if it cannot, which is noted."""
        return await self.run_pair(self._pairs[way.name], job)

    async def run_pair(self, pair: Pair, job: Job) -> Sample | None:
        """The same for a pair that is not among the competitors."""
        try:
            return await pair.run(job)
        except PairFailedError as failure:
            self.failures.append(str(failure))
            self.console.print(f"FAILED {failure}", style="red", markup=False)
            return None

    async def calibrated(self, way: Way, payload: Payload) -> Job | None:
        """A job for this way that takes about as long as the settings say, with the default batch."""
        first = Job(
            payload=payload.name,
            chunks=FIRST_CHUNKS,
            row_permits=payload.row_permits,
            permit_batch=ChannelParameters(row_permits=payload.row_permits).permit_batch,
        )
        rate = self._rates.get((way.name, payload.name)) or await self._rate(way, first)
        if rate is None:
            return None
        self._rates[way.name, payload.name] = rate
        return replace(first, chunks=self._chunks_for(payload, rate))

    async def tuned(self, way: Way, job: Job) -> Job:
        """The job with the window and the batch that were fastest in short ones; it was ``calibrated``."""
        if self.settings.is_smoke:
            return job
        most_chunks = int(self._rates[way.name, job.payload] * self.settings.longest_job_seconds)

        async def chunks_per_second(pilot: Job) -> float:
            sample = await self.run(way, pilot)
            return sample.chunks_per_second if sample is not None else 0.0

        return await fastest(candidates(job, most_chunks), chunks_per_second)

    def _chunks_for(self, payload: Payload, rate: float) -> int:
        fills_window = WINDOWS_IN_A_JOB * payload.row_permits // payload.rows
        affordable = min(fills_window, rate * self.settings.longest_job_seconds)
        return min(MOST_CHUNKS, max(LEAST_CHUNKS, int(max(rate * self.settings.job_seconds, affordable))))

    async def _rate(self, way: Way, job: Job) -> float | None:
        while True:
            sample = await self.run(way, job)
            if sample is None:
                return None
            rate = sample.chunks_per_second
            if job.chunks >= min(MOST_CHUNKS, rate * self.settings.job_seconds / 4):
                return rate
            job = replace(job, chunks=job.chunks * GROWTH)


@asynccontextmanager
async def open_field(settings: Settings, console: Console) -> AsyncIterator[Field]:
    """All ways whose libraries are here."""
    found, skipped = find_ways()
    for module, reason in skipped.items():
        console.print(f"skipped {module}: {reason}", markup=False)
    async with AsyncExitStack() as stack:
        pairs = [
            await stack.enter_async_context(Pair(module, way))
            for module, way in found.values()
            if any(part in way.name for part in settings.ways)
        ]
        yield Field(pairs, settings, console)
