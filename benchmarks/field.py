"""All ways with their processes, which stay alive between jobs; and how many chunks each needs for a job."""

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from rich.console import Console

from benchmarks.jobs import Job
from benchmarks.pairs import Pair, PairFailedError, Sample
from benchmarks.payloads import Payload
from benchmarks.peers.registry import find_ways
from benchmarks.peers.way import Way
from benchmarks.settings import Settings
from benchmarks.tuning import candidates, fastest
from permitflow.protocol.parameters import ChannelParameters

__all__ = ["Field", "open_field"]

FIRST_CHUNKS = 64
GROWTH = 8
LEAST_CHUNKS = 32
MOST_CHUNKS = 2_000_000
WINDOWS_IN_A_JOB = 2

T = TypeVar("T")


class Field:
    """Those who compete."""

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
