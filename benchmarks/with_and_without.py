"""What permits cost: the same stream with windows so large that permits never bind, and with the usual ones."""

from dataclasses import dataclass, replace

from benchmarks.field import Field
from benchmarks.pairs import Sample
from benchmarks.payloads import PAYLOADS
from benchmarks.peers.way import Group
from benchmarks.records import Record
from benchmarks.series import Series
from benchmarks.throughput import Entry, in_rounds

__all__ = ["PermitCost", "measure_permit_cost"]

SIZES = ("64", "1,024", "4,096")
# Permits of more rows than any job has never bind; one return of half of them is never due.
UNBOUNDED = 1 << 30
BATCH_SHARES = (16, 8, 4)


@dataclass(frozen=True)
class PermitCost(Record):
    """Throughput with permits as a share of throughput without, at one size and batch."""

    way: str
    payload: str
    batch_share: int
    """BATCH is ROW_COUNT divided by this."""
    with_permits: Series
    """Chunks per second."""
    without_permits: Series
    """Chunks per second."""


async def measure_permit_cost(field: Field) -> list[PermitCost]:
    """Ways of ours that targets are about, at several sizes and batches."""
    entries: list[Entry] = []
    ours = [way for way in field.ways if way.group is Group.OURS and way.target]
    for name in (name for name in SIZES if name in field.settings.payloads):
        for way in ours:
            job = await field.calibrated(way, PAYLOADS[name])
            if job is None:
                continue
            # Without permits everything may have been sent before a tenth has come: all of the time counts.
            job = replace(job, warm_up_share=0.0)
            entries.append(Entry(way, replace(job, row_permits=UNBOUNDED, permit_batch=UNBOUNDED // 2)))
            entries += [Entry(way, replace(job, permit_batch=job.row_permits // share)) for share in BATCH_SHARES]
    return _compared(await in_rounds(field, entries, "with and without permits"))


def _compared(measured: list[tuple[Entry, list[Sample]]]) -> list[PermitCost]:
    rates = {entry: Series.of(sample.chunks_per_second for sample in samples) for entry, samples in measured}
    free = {(entry.way, entry.job.payload): rate for entry, rate in rates.items() if _is_unbounded(entry)}
    return [
        PermitCost(
            way=entry.way.name,
            payload=entry.job.payload,
            batch_share=entry.job.row_permits // entry.job.permit_batch,
            with_permits=rate,
            without_permits=free[entry.way, entry.job.payload],
        )
        for entry, rate in rates.items()
        if not _is_unbounded(entry) and (entry.way, entry.job.payload) in free
    ]


def _is_unbounded(entry: Entry) -> bool:
    return entry.job.row_permits == UNBOUNDED
