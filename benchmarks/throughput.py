"""Chunks per second of every way at every size, the latency of a lone chunk, and a thousand ends of streams.

A batch of one permit makes the consumer return permits for each chunk, so that the last returns cross the end of the
stream: does any stream lose a chunk, or fail?
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from rich.progress import track

from benchmarks.field import Field, Sample
from benchmarks.jobs import PAYLOADS, Job
from benchmarks.peers.way import Group, Way
from benchmarks.results import COMPACT, MEBIBYTES, Row, Series

# For ways without targets, which stand beside the others.
ROUNDS_BESIDE = 3


class Entry(NamedTuple):
    way: Way
    job: Job


def measure_throughput(field: Field) -> list[Row]:
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


def _cell(entry: Entry, samples: list[Sample], *, is_tuned: bool) -> Row:
    job = entry.job
    return {
        "_way": entry.way.name,
        "_payload": job.payload,
        "_is_tuned": is_tuned,  # by trying windows and batches; if not, they are the defaults
        "settings": f"{job.row_permits // 1024}k / {job.permit_batch / 1024:g}k",
        "chunks/s": Series.of(sample.chunks_per_second for sample in samples),
        "CPU s/GB": Series.of((sample.cpu_seconds_per_gigabyte for sample in samples), COMPACT),
        "MiB": Series.of((sample.peak_memory_bytes / 2**20 for sample in samples), MEBIBYTES),
    }


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


def judged_ways(field: Field) -> list[Way]:
    """Our ways for which targets exist."""
    return [way for way in field.ways if way.group is Group.OURS and way.target]


def measure_stream_ends(field: Field) -> list[Row]:
    """Our ways for which targets exist."""
    found = []
    for way in judged_ways(field):
        job = Job(payload=ENDS_PAYLOAD.name, chunks=ENDS_CHUNKS, row_permits=ENDS_PAYLOAD.row_permits, permit_batch=1)
        streams = range(field.settings.stream_ends)
        samples = [field.run(way, job) for _ in track(streams, f"ends, {way.name}", console=field.console)]
        # Those that ended with an error, or without all of their chunks, have failed.
        found.append({"way": way.name, "streams": len(samples), "failed": sum(sample is None for sample in samples)})
    return found


LATENCY_BATCH_SHARE = 8
PAUSE_SECONDS = 0.002
# With which ours are compared, by the part that ours play.
LATENCY_PEERS = {"remote": "grpc.aio, permits by hand", "same host": "Flight DoExchange, permits by hand"}


def measure_latency(field: Field) -> list[Row]:
    """Chunks of 64 rows that are alone, from the producer to the consumer: one every 2 ms."""
    payload = PAYLOADS["64"]
    job = Job(
        payload=payload.name,
        chunks=int(field.settings.latency_seconds / PAUSE_SECONDS),
        row_permits=payload.row_permits,
        permit_batch=payload.row_permits // LATENCY_BATCH_SHARE,
        burst_chunks=1,
        pause_seconds=PAUSE_SECONDS,
    )
    peers = LATENCY_PEERS.values()

    def is_judged(entry: Entry) -> bool:
        return entry.way.target in LATENCY_PEERS or entry.way.name in peers

    entries = [Entry(way, job) for way in field.ways]
    found = in_rounds(field, entries, "latency of chunks that are alone", is_judged=is_judged)
    rows: dict[str, Row] = {
        entry.way.name: {
            "µs, alone, every 2 ms": entry.way.name,
            "p50": Series.of(sample.latencies_ns[0] / 1e3 for sample in samples),
            "p99": Series.of((sample.latencies_ns[1] / 1e3 for sample in samples), COMPACT),
        }
        for entry, samples in found
    }
    for row in rows.values():
        for peer in (name for name in peers if name in rows):
            # Ratios of medians: ways that are not judged have fewer rounds.
            row[f"p50 ÷ {peer.split(',')[0]}"] = row["p50"].median / rows[peer]["p50"].median
    return [*rows.values()]
