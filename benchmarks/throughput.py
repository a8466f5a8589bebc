"""Chunks per second of every way at every size, in shuffled rounds; and a thousand ends of streams.

A batch of one permit makes the consumer return permits for each chunk, so that the last returns cross the end of the
stream: does any stream lose a chunk, or fail?
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rich.progress import track

from benchmarks.field import Field
from benchmarks.jobs import PAYLOADS, Job
from benchmarks.pairs import Sample
from benchmarks.peers.way import Group, Way
from benchmarks.results import Record, Series

__all__ = ["Cell", "Entry", "StreamEnds", "in_rounds", "measure_stream_ends", "measure_throughput"]

# Of ways that no promise is about: they stand beside the others.
ROUNDS_BESIDE = 3


class Entry(NamedTuple):
    """A way and its job."""

    way: Way
    job: Job


@dataclass(frozen=True)
class Cell(Record):
    """A way at a size."""

    way: str
    payload: str
    touch: str
    is_tuned: bool
    """Were window and batch chosen by trying?  If not, they are the defaults."""
    row_permits: int
    permit_batch: int
    chunks: int
    """Of each round."""
    chunks_per_second: Series
    cpu_seconds_per_gigabyte: Series
    peak_memory_bytes: Series
    """Of both processes together."""

    @classmethod
    def of(cls, entry: Entry, samples: list[Sample], *, is_tuned: bool) -> "Cell":
        """From all rounds."""
        job = entry.job
        return cls(
            way=entry.way.name,
            payload=job.payload,
            touch=job.touch,
            is_tuned=is_tuned,
            row_permits=job.row_permits,
            permit_batch=job.permit_batch,
            chunks=job.chunks,
            chunks_per_second=Series.of(sample.chunks_per_second for sample in samples),
            cpu_seconds_per_gigabyte=Series.of(sample.cpu_seconds_per_gigabyte for sample in samples),
            peak_memory_bytes=Series.of(float(sample.peak_memory_bytes) for sample in samples),
        )


class Competitor(NamedTuple):
    """A way, its job, and how its window and batch were chosen."""

    entry: Entry
    is_tuned: bool


async def measure_throughput(field: Field) -> list[Cell]:
    """All ways at all sizes.

    Those that targets are about also with a consumer that reads every column; and ours also with the default numbers,
    where the others are compared at their best.
    """
    competitors: list[Competitor] = []
    for name in track(field.settings.payloads, "batch, window and length of each job", console=field.console):
        for way in (way for way in field.ways if not way.is_for_latency):
            job = await field.calibrated(way, PAYLOADS[name])
            if job is not None:
                competitors += await _competitors(field, way, job)
    # Where the best numbers are the defaults, they run but once.
    entries = dict.fromkeys(entry for entry, _ in competitors)
    judged = {entry for entry, is_tuned in competitors if is_tuned and entry.way.target and entry.job.touch == "column"}
    found = dict(await in_rounds(field, entries, "throughput", is_judged=judged.__contains__))
    return [Cell.of(entry, found[entry], is_tuned=is_tuned) for entry, is_tuned in competitors if entry in found]


async def _competitors(field: Field, way: Way, job: Job) -> list[Competitor]:
    if not way.is_tuned:
        return [Competitor(Entry(way, job), is_tuned=False)]
    best = await field.tuned(way, job)
    found = [Competitor(Entry(way, best), is_tuned=True)]
    if way.target:
        found.append(Competitor(Entry(way, best.with_touch("columns")), is_tuned=True))
    if way.group is Group.OURS:
        found.append(Competitor(Entry(way, job), is_tuned=False))
    return found


async def in_rounds(
    field: Field,
    entries: Iterable[Entry],
    what: str,
    *,
    in_order: bool = False,
    is_judged: Callable[[Entry], bool] = lambda _: True,
) -> list[tuple[Entry, list[Sample]]]:
    """Every entry once in each round; a round goes through the sizes, and at each size through all ways.

    So those that are compared run right after each other, in an order that differs from round to round, unless they
    must be ``in_order``.  Those that no promise is about run in the first three rounds only.
    """
    samples: dict[Entry, list[Sample]] = {entry: [] for entry in entries}
    beside = {entry for entry in samples if not is_judged(entry)}
    broken: set[Entry] = set()
    for number in track(range(field.settings.rounds), what, console=field.console):
        left_out = broken if number < ROUNDS_BESIDE else broken | beside
        for payload in field.shuffled(PAYLOADS):
            of_this_size = [entry for entry in samples if entry.job.payload == payload and entry not in left_out]
            for entry in of_this_size if in_order else field.shuffled(of_this_size):
                sample = await field.run(*entry)
                if sample is None:
                    broken.add(entry)
                else:
                    samples[entry].append(sample)
    return [(entry, found) for entry, found in samples.items() if entry not in broken]


ENDS_PAYLOAD = PAYLOADS["64"]
ENDS_CHUNKS = 40


@dataclass(frozen=True)
class StreamEnds(Record):
    """Of one way."""

    way: str
    streams: int
    failed: int
    """Streams that ended with an error, or without all of their chunks."""


async def measure_stream_ends(field: Field) -> list[StreamEnds]:
    """Ways of ours that targets are about."""
    found = []
    for way in [way for way in field.ways if way.group is Group.OURS and way.target]:
        job = Job(payload=ENDS_PAYLOAD.name, chunks=ENDS_CHUNKS, row_permits=ENDS_PAYLOAD.row_permits, permit_batch=1)
        streams = range(field.settings.stream_ends)
        samples = [await field.run(way, job) for _ in track(streams, f"ends, {way.name}", console=field.console)]
        found.append(StreamEnds(way.name, len(samples), sum(sample is None for sample in samples)))
    return found
