"""Chunks per second of every way at every size, in shuffled rounds; and a thousand ends of streams.

A batch of one permit makes the consumer return permits for each chunk, so that the last returns cross the end of the
stream: does any stream lose a chunk, or fail?
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rich.progress import track

from benchmarks.field import Field, Sample
from benchmarks.jobs import PAYLOADS, Job
from benchmarks.peers.way import Group, Way
from benchmarks.results import Record, Series

# For ways without targets, which stand beside the others.
ROUNDS_BESIDE = 3


class Entry(NamedTuple):
    way: Way
    job: Job


@dataclass(frozen=True)
class Cell(Record):
    way: str
    payload: str
    is_tuned: bool
    """Were window and batch chosen by trying?  If not, they are the defaults."""
    row_permits: int
    permit_batch: int
    chunks: int
    """Of each round."""
    chunks_per_second: Series
    cpu_seconds_per_gigabyte: Series
    peak_memory_bytes: Series
    """The sum over both processes."""


def measure_throughput(field: Field) -> list[Cell]:
    """All ways at all sizes; ours also with the default numbers, where the others are compared at their best."""
    competing: list[tuple[Entry, bool]] = []
    for name in track(field.settings.payloads, "batch, window and length of each job", console=field.console):
        for way in field.ways:
            job = field.calibrated(way, PAYLOADS[name])
            if job is not None and way.is_tuned:
                competing.append((Entry(way, field.tuned(way, job)), True))
            if job is not None and (way.group is Group.OURS or not way.is_tuned):
                competing.append((Entry(way, job), False))
    # Where the best numbers are the defaults, they run but once.
    entries = dict.fromkeys(entry for entry, _ in competing)
    judged = {entry for entry, is_tuned in competing if is_tuned and entry.way.target}
    found = dict(in_rounds(field, entries, "throughput", is_judged=judged.__contains__))
    return [_cell(entry, found[entry], is_tuned=is_tuned) for entry, is_tuned in competing if entry in found]


def _cell(entry: Entry, samples: list[Sample], *, is_tuned: bool) -> Cell:
    job = entry.job
    return Cell(
        way=entry.way.name,
        payload=job.payload,
        is_tuned=is_tuned,
        row_permits=job.row_permits,
        permit_batch=job.permit_batch,
        chunks=job.chunks,
        chunks_per_second=Series.of(sample.chunks_per_second for sample in samples),
        cpu_seconds_per_gigabyte=Series.of(sample.cpu_seconds_per_gigabyte for sample in samples),
        peak_memory_bytes=Series.of(sample.peak_memory_bytes for sample in samples),
    )


def in_rounds(
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
                sample = field.run(*entry)
                if sample is None:
                    broken.add(entry)
                else:
                    samples[entry].append(sample)
    return [(entry, found) for entry, found in samples.items() if entry not in broken]


ENDS_PAYLOAD = PAYLOADS["64"]
ENDS_CHUNKS = 40


@dataclass(frozen=True)
class StreamEnds(Record):
    way: str
    streams: int
    failed: int
    """Streams that ended with an error, or without all of their chunks."""


def judged_ways(field: Field) -> list[Way]:
    """Our ways for which targets exist."""
    return [way for way in field.ways if way.group is Group.OURS and way.target]


def measure_stream_ends(field: Field) -> list[StreamEnds]:
    """Our ways for which targets exist."""
    found = []
    for way in judged_ways(field):
        job = Job(payload=ENDS_PAYLOAD.name, chunks=ENDS_CHUNKS, row_permits=ENDS_PAYLOAD.row_permits, permit_batch=1)
        streams = range(field.settings.stream_ends)
        samples = [field.run(way, job) for _ in track(streams, f"ends, {way.name}", console=field.console)]
        found.append(StreamEnds(way.name, len(samples), sum(sample is None for sample in samples)))
    return found
