"""The latency of a lone chunk of 64 rows, from the producer to the consumer."""

from dataclasses import dataclass

from benchmarks.field import Field
from benchmarks.jobs import PAYLOADS, Job
from benchmarks.results import Record, Series
from benchmarks.throughput import Entry, in_rounds

PAYLOAD = PAYLOADS["64"]
BATCH_SHARE = 8
PAUSE_SECONDS = 0.002
# With which ours are compared, by the part that ours play.
LATENCY_PEERS = {"remote": "grpc.aio, permits by hand", "same host": "Flight DoExchange, permits by hand"}


@dataclass(frozen=True)
class Latency(Record):
    way: str
    median_microseconds: Series
    percentile_99_microseconds: Series


def measure_latency(field: Field) -> list[Latency]:
    """All ways, with a chunk every 2 ms."""
    job = Job(
        payload=PAYLOAD.name,
        chunks=int(field.settings.latency_seconds / PAUSE_SECONDS),
        row_permits=PAYLOAD.row_permits,
        permit_batch=PAYLOAD.row_permits // BATCH_SHARE,
        burst_chunks=1,
        pause_seconds=PAUSE_SECONDS,
    )
    entries = [Entry(way, job) for way in field.ways]
    measured = in_rounds(field, entries, "latency of chunks that are alone", is_judged=_is_judged)
    return [
        Latency(
            way=entry.way.name,
            median_microseconds=Series.of(sample.latencies_ns[0] / 1e3 for sample in samples),
            percentile_99_microseconds=Series.of(sample.latencies_ns[1] / 1e3 for sample in samples),
        )
        for entry, samples in measured
    ]


def _is_judged(entry: Entry) -> bool:
    return entry.way.target in LATENCY_PEERS or entry.way.name in LATENCY_PEERS.values()
