"""All ways with their processes, which stay alive between jobs; how long a job is, and which numbers suit a way best.

Windows and batches are tried out in short runs, by the same rule for all ways.
"""

import math
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from rich.console import Console

from benchmarks import delay_proxy, worker
from benchmarks.harness import SEED, Partner, PartnerFailedError, Role
from benchmarks.jobs import CHUNKS_IN_WINDOW, PAYLOADS, Job, Outcome, Payload
from benchmarks.peers.way import Way, find_ways
from benchmarks.worker import Effort
from permitflow import ChannelParameters


@dataclass(frozen=True, kw_only=True)
class Settings:
    rounds: int = 5
    job_seconds: float = 0.15
    """How long each job should take, roughly."""
    longest_job_seconds: float = 0.8
    """Where more is needed to fill the window twice."""
    latency_seconds: float = 0.4
    stream_ends: int = 1_000
    payloads: tuple[str, ...] = tuple(PAYLOADS)
    ways: tuple[str, ...] = ("",)
    """Only ways with one of these in their name; all by default."""
    is_smoke: bool = False
    """Check only that it still runs; judge nothing."""


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
# The numbers of the fastest that are tried a second and a third time: a short run is easily disturbed.
KEPT = (4, 2)


def candidates(job: Job, most_chunks: int) -> Iterator[Job]:
    """The job, which has the default numbers, with other windows and batches, and long enough for each.

    A window has at least eight chunks; beyond the default, no more bytes than carriers hold, and ``most_chunks`` chunks
    must fill it several times.
    """
    shape = job.shape
    largest = max(job.row_permits, MOST_WINDOW_BYTES * shape.rows // shape.chunk_bytes)
    for row_permits in (int(multiple * job.row_permits) for multiple in WINDOW_MULTIPLES):
        is_larger = row_permits > job.row_permits
        chunks = WINDOWS_THAT_BIND * row_permits // shape.rows if is_larger else job.chunks
        if CHUNKS_IN_WINDOW * shape.rows <= row_permits <= largest and not (is_larger and chunks > most_chunks):
            for share in BATCH_SHARES:
                yield replace(
                    job, chunks=max(chunks, job.chunks), row_permits=row_permits, permit_batch=row_permits // share
                )


FIRST_CHUNKS = 64
GROWTH = 8
LEAST_CHUNKS = 32
MOST_CHUNKS = 2_000_000
WINDOWS_IN_A_JOB = 2

T = TypeVar("T")


# A guard against hangs, which measures nothing.
ANSWER_SECONDS = 120.0


@dataclass(frozen=True)
class Sample:
    chunks_per_second: float
    """After warming up, by the consumer's clock; infinite if all came at once.  It means nothing if the producer
    paused."""
    cpu_seconds_per_gigabyte: float
    """The sum over both processes and all chunks."""
    peak_memory_bytes: int
    """Resident memory, of both processes together."""
    latencies_ns: tuple[int, int]
    """Median and 99th percentile; zeros if chunks carried no time."""


class Pair:
    """Two processes that serve one way, until closed; started when they are first needed.  Use it in a block."""

    def __init__(self, module: str, way: Way, delay_seconds: float = 0.0) -> None:
        """Starts nothing yet.

        Args:
            module: where the way is.
            way: what the processes do.
            delay_seconds: of a proxy between them, each way; 0: none.
        """
        self.way = way
        self._module = module
        self._delay_seconds = delay_seconds
        self._partners: list[Partner] = []
        self._jobs = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, job: Job) -> Sample:
        """Let both do a job; they are started when they are first needed.

        Raises:
            PartnerFailedError: they cannot; both have been ended, and the next job starts new ones.
        """
        self._jobs += 1
        try:
            outcome, *efforts = self._outcome(replace(job, number=self._jobs))
        except PartnerFailedError as error:
            self.close()
            raise PartnerFailedError(f"{self.way.name}: {error} ({job})") from error
        gigabytes = job.chunks * job.shape.chunk_bytes / 1e9
        return Sample(
            # Few small chunks may come as one batch: then no time has passed between two reads.
            chunks_per_second=outcome.chunks / outcome.seconds if outcome.seconds else math.inf,
            cpu_seconds_per_gigabyte=sum(effort.cpu_seconds for effort in efforts) / gigabytes,
            peak_memory_bytes=sum(effort.peak_memory_bytes for effort in efforts),
            latencies_ns=outcome.latencies_ns,
        )

    def _outcome(self, job: Job) -> tuple[Outcome, Effort, Effort]:
        if not self._partners:
            self._start()
        producer, *_, consumer = self._partners
        for end in (producer, consumer):
            end.tell(job)
        for end in (producer, consumer):
            end.hears(seconds=ANSWER_SECONDS)
        # The consumer dials while the producer begins to send.
        for end in (producer, consumer):
            end.tell()
        outcome, of_consumer = consumer.hears(beside=producer, seconds=ANSWER_SECONDS)
        producer.tell()
        return outcome, of_consumer, producer.hears(seconds=ANSWER_SECONDS)

    def _start(self) -> None:
        address = self._started(worker.produce, self._module, self.way.name).hears()
        if self._delay_seconds:
            address = self._started(delay_proxy.serve, address, self._delay_seconds).hears()
        self._started(worker.consume, self._module, self.way.name, address)

    def _started(self, function: Role, *arguments: object) -> Partner:
        self._partners.append(Partner(function, *arguments))
        return self._partners[-1]

    def close(self) -> None:
        partners, self._partners = self._partners, []
        for partner in partners:
            partner.close()


class Field:
    """All ways that compete, and their processes."""

    def __init__(self, pairs: Sequence[Pair], settings: Settings, console: Console) -> None:
        self.settings = settings
        self.console = console
        self.failures: list[str] = []
        self._pairs = {pair.way.name: pair for pair in pairs}
        self._random = random.Random(SEED)
        self._rates: dict[tuple[str, str], float] = {}

    @property
    def ways(self) -> list[Way]:
        return [pair.way for pair in self._pairs.values()]

    def shuffled(self, items: Iterable[T]) -> list[T]:
        """In another order each time, the same in each run."""
        mixed = list(items)
        self._random.shuffle(mixed)
        return mixed

    def run(self, way: Way, job: Job, pair: Pair | None = None) -> Sample | None:
        """Run a job on a way, with its own pair of processes or another; None and a note if it cannot."""
        try:
            return (pair or self._pairs[way.name]).run(job)
        except PartnerFailedError as failure:
            self.failures.append(str(failure))
            self.console.print(f"FAILED {failure}", style="red", markup=False)
            return None

    def calibrated(self, way: Way, payload: Payload) -> Job | None:
        """A job for this way that takes about as long as the settings say, with the default batch."""
        first = Job(
            payload=payload.name,
            chunks=FIRST_CHUNKS,
            row_permits=payload.row_permits,
            permit_batch=ChannelParameters(row_permits=payload.row_permits).permit_batch,
        )
        rate = self._rates.get((way.name, payload.name)) or self._rate(way, first)
        if rate is None:
            return None
        self._rates[way.name, payload.name] = rate
        return replace(first, chunks=self._chunks_for(payload, rate))

    def tuned(self, way: Way, job: Job) -> Job:
        """The job, which was ``calibrated``, with the window and the batch that were fastest in short ones.

        By their mean: all have one, the fastest of them another one, and so on.
        """
        if self.settings.is_smoke:
            return job
        most_chunks = int(self._rates[way.name, job.payload] * self.settings.longest_job_seconds)
        rates: dict[Job, list[float]] = {each: [] for each in candidates(job, most_chunks)}
        competing = list(rates)
        for kept in (*KEPT, 1):
            for each in competing:
                sample = self.run(way, replace(each, chunks=max(LEAST_CHUNKS_OF_A_PILOT, each.chunks // PILOT_SHARE)))
                rates[each].append(sample.chunks_per_second if sample is not None else 0.0)
            competing = sorted(competing, key=lambda each: statistics.fmean(rates[each]), reverse=True)[:kept]
        return competing[0]

    def _chunks_for(self, payload: Payload, rate: float) -> int:
        fills_window = WINDOWS_IN_A_JOB * payload.row_permits // payload.rows
        affordable = min(fills_window, rate * self.settings.longest_job_seconds)
        return min(MOST_CHUNKS, max(LEAST_CHUNKS, int(max(rate * self.settings.job_seconds, affordable))))

    def _rate(self, way: Way, job: Job) -> float | None:
        while True:
            sample = self.run(way, job)
            if sample is None:
                return None
            rate = sample.chunks_per_second
            if job.chunks >= min(MOST_CHUNKS, rate * self.settings.job_seconds / 4):
                return rate
            job = replace(job, chunks=job.chunks * GROWTH)


@contextmanager
def open_field(settings: Settings, console: Console) -> Iterator[Field]:
    found, skipped = find_ways()
    for module, reason in skipped.items():
        console.print(f"skipped {module}: {reason}", markup=False)
    with ExitStack() as stack:
        pairs = [
            stack.enter_context(Pair(module, way))
            for module, way in found.values()
            if any(part in way.name for part in settings.ways)
        ]
        yield Field(pairs, settings, console)
