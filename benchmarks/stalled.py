"""What a consumer that has stopped reading costs: the memory that its window holds, and no more."""

from dataclasses import dataclass

from benchmarks.field import Field
from benchmarks.jobs import Job
from benchmarks.payloads import PAYLOADS, WIDE_ROW_BYTES
from benchmarks.peers.way import Group
from benchmarks.records import Record
from benchmarks.series import Series
from benchmarks.throughput import Entry, in_rounds
from permitflow.protocol.parameters import ChannelParameters

__all__ = ["Stalled", "measure_stalled"]

PAYLOAD = PAYLOADS["wide"]
WINDOWS = (8_192, 32_768, 131_072, 524_288)
# Long enough to fill the largest window, which is 250 MiB.
STALL_SECONDS = 1.0
SMOKE_STALL_SECONDS = 0.1
WINDOWS_SENT = 3


@dataclass(frozen=True)
class Stalled(Record):
    """One way with one window."""

    way: str
    row_permits: int
    peak_memory_bytes: Series
    """Of both processes together."""

    @property
    def window_bytes(self) -> int:
        """Data of a full window."""
        return self.row_permits * WIDE_ROW_BYTES


async def measure_stalled(field: Field) -> list[Stalled]:
    """Ways of ours that targets are about."""
    is_smoke = field.settings.is_smoke
    ours = [way for way in field.ways if way.group is Group.OURS and way.target]
    jobs = [
        Job(
            payload=PAYLOAD.name,
            chunks=WINDOWS_SENT * row_permits // PAYLOAD.rows,
            row_permits=row_permits,
            permit_batch=ChannelParameters(row_permits=row_permits).permit_batch,
            stall_seconds=SMOKE_STALL_SECONDS if is_smoke else STALL_SECONDS,
        )
        for row_permits in (WINDOWS[:1] if is_smoke else WINDOWS)
    ]
    # The smallest first: memory that was had once is not always given back.
    entries = [Entry(way, job) for way in ours for job in jobs]
    return [
        Stalled(
            entry.way.name,
            entry.job.row_permits,
            Series.of(float(sample.peak_memory_bytes) for sample in samples),
        )
        for entry, samples in await in_rounds(field, entries, "a consumer that has stopped", in_order=True)
    ]
