"""How long a chunk of 64 rows is on its way, from the producer's hand to the consumer's: alone, and in bursts.

Promises are about chunks that are alone; the others are a part of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchmarks.field import Field
from benchmarks.jobs import PAYLOADS, Job
from benchmarks.pairs import Sample
from benchmarks.peers.way import Way
from benchmarks.results import Record, Series
from benchmarks.throughput import Entry, in_rounds

__all__ = ["ALONE", "BURSTS", "LATENCY_PEERS", "Latency", "Load", "measure_bursts", "measure_latency"]

PAYLOAD = PAYLOADS["64"]
BATCH_SHARE = 8


class Load(NamedTuple):
    """What a producer offers."""

    name: str
    burst_chunks: int
    pause_seconds: float


ALONE = Load("alone, every 2 ms", 1, 0.002)
BURSTS = Load("8 at once, every 2 ms", 8, 0.002)
# With which ours are compared, by the part that ours play.
LATENCY_PEERS = {"remote": "grpc.aio, permits by hand", "same host": "Flight DoExchange, permits by hand"}


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
    """All ways, with chunks that are alone."""
    return await _measured(field, ALONE, lambda entry: _is_judged(entry.way))


async def measure_bursts(field: Field) -> list[Latency]:
    """All ways, with several chunks at once."""
    return await _measured(field, BURSTS, lambda _: True)


async def _measured(field: Field, load: Load, is_judged: Callable[[Entry], bool]) -> list[Latency]:
    entries = [Entry(way, _job(load, field.settings.latency_seconds)) for way in field.ways]
    measured = await in_rounds(field, entries, f"latency of chunks {load.name}", is_judged=is_judged)
    return [Latency.of(entry, load, samples) for entry, samples in measured]


def _is_judged(way: Way) -> bool:
    return way.target in LATENCY_PEERS or way.name in LATENCY_PEERS.values()


def _job(load: Load, seconds: float) -> Job:
    full = Job(
        payload=PAYLOAD.name,
        chunks=int(seconds / load.pause_seconds) * load.burst_chunks,
        row_permits=PAYLOAD.row_permits,
        permit_batch=PAYLOAD.row_permits // BATCH_SHARE,
    )
    return replace(full, burst_chunks=load.burst_chunks, pause_seconds=load.pause_seconds)
