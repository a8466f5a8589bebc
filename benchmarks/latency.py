"""How long a chunk of 64 rows is on its way, from the producer's hand to the consumer's: alone, and in bursts."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from benchmarks.field import Field
from benchmarks.jobs import Job
from benchmarks.pairs import Sample
from benchmarks.payloads import PAYLOADS
from benchmarks.records import Record
from benchmarks.series import Series
from benchmarks.throughput import Entry, in_rounds

__all__ = ["LOADS", "Latency", "Load", "measure_latency"]

PAYLOAD = PAYLOADS["64"]
BATCH_SHARE = 8


class Load(NamedTuple):
    """What a producer offers."""

    name: str
    burst_chunks: int
    pause_seconds: float


LOADS = (
    Load("alone, every 2 ms", 1, 0.002),
    Load("8 at once, every 2 ms", 8, 0.002),
)


@dataclass(frozen=True)
class Latency(Record):
    """Of one way under one load."""

    way: str
    load: str
    median_microseconds: Series
    percentile_99_microseconds: Series

    @classmethod
    def of(cls, entry: Entry, load: Load, samples: list[Sample]) -> "Latency":
        """From all rounds."""
        return cls(
            way=entry.way.name,
            load=load.name,
            median_microseconds=Series.of(sample.latencies_ns[0] / 1e3 for sample in samples),
            percentile_99_microseconds=Series.of(sample.latencies_ns[1] / 1e3 for sample in samples),
        )


async def measure_latency(field: Field) -> list[Latency]:
    """All ways under all loads."""
    found: list[Latency] = []
    for load in LOADS:
        entries = [Entry(way, _job(load, field.settings.latency_seconds)) for way in field.ways]
        measured = await in_rounds(field, entries, f"latency of chunks {load.name}")
        found += [Latency.of(entry, load, samples) for entry, samples in measured]
    return found


def _job(load: Load, seconds: float) -> Job:
    full = Job(
        payload=PAYLOAD.name,
        chunks=int(seconds / load.pause_seconds) * load.burst_chunks,
        row_permits=PAYLOAD.row_permits,
        permit_batch=PAYLOAD.row_permits // BATCH_SHARE,
    )
    return replace(full, burst_chunks=load.burst_chunks, pause_seconds=load.pause_seconds)
