"""What permits cost: the same stream with permits that never bind, and with windows of several sizes.

A window does two things.  It bounds what is on its way: where that is less than the pipe needs to be full, the pipe is
slower, whoever sets the bound.  And its permits travel back: that is what permits themselves cost.  Without permits
there is a bound as well, the carrier's own, of some MiB.  So the promise is about a window that bounds as many bytes,
and the smaller windows stand beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.field import Field
from benchmarks.jobs import Job
from benchmarks.pairs import Sample
from benchmarks.payloads import PAYLOADS
from benchmarks.peers.way import Group
from benchmarks.records import Record
from benchmarks.series import Series
from benchmarks.throughput import Entry, in_rounds
from permitflow.protocol.frames import StatedParameters
from permitflow.simulation.chunk_sizes import ConstantSize
from permitflow.simulation.setting import Setting
from permitflow.simulation.window import enough_rows

__all__ = ["BETWEEN", "DEFAULT", "ROW_COUNT", "PermitCost", "measure_permit_cost"]

SIZES = ("64", "1,024", "4,096")
# Permits of more rows than any job has never bind; one return of half of them is never due.
UNBOUNDED = 1 << 30
# The promise: 6 MiB of rows of 24 bytes.  Ours hold 8 MiB on their way in shared memory, and over TCP what Linux lets
# a socket hold: 4 MiB where it is sent, and more where it is received.
ROW_COUNT = 262_144
DEFAULT = 32_768
BETWEEN = 131_072
BATCH_SHARES = (16, 8, 4)
# Between the two ends one batch will do.
_NUMBERS = [(window, share) for window in (DEFAULT, ROW_COUNT) for share in BATCH_SHARES] + [(BETWEEN, 8)]
# A window that holds much of a job does not bind.
WINDOWS_IN_A_JOB = 8


@dataclass(frozen=True)
class PermitCost(Record):
    """Throughput with permits beside throughput without, at one size, window and batch."""

    way: str
    payload: str
    row_permits: int
    permit_batch: int
    with_permits: Series
    """Chunks per second."""
    without_permits: Series
    """Chunks per second."""
    cpu_with_permits: Series
    """Seconds of both processes for a gigabyte."""
    cpu_without_permits: Series

    @property
    def batch_share(self) -> int:
        """BATCH is ROW_COUNT divided by this."""
        return self.row_permits // self.permit_batch

    @property
    def throughput(self) -> Series:
        """With permits ÷ without, round by round."""
        return self.with_permits.ratio_to(self.without_permits)

    @property
    def processor(self) -> Series:
        """Seconds with permits ÷ without, round by round."""
        return self.cpu_with_permits.ratio_to(self.cpu_without_permits)

    def enough_rows(self, row_permits: int) -> int:
        """The ROW_COUNT that is always enough by the rule of thumb, where BATCH is this share of ``row_permits``.

        The rate to be kept up is that without permits.  The time until permits are back is taken from this window,
        as if the window were what holds it back.
        """
        rows = PAYLOADS[self.payload].rows
        on_the_way = max(rows, self.row_permits - self.permit_batch - 2 * rows)
        setting = Setting(
            upstream=StatedParameters(row_permits=row_permits, permit_batch=row_permits // self.batch_share),
            chunks=ConstantSize(rows),
            forward_seconds=on_the_way / (self.with_permits.median * rows),
            consumer_rate=self.without_permits.median * rows,
        )
        enough = enough_rows(setting)
        assert enough is not None, "chunks of one size have a largest size"
        return enough


async def measure_permit_cost(field: Field) -> list[PermitCost]:
    """Ways of ours that targets are about, at several sizes, windows and batches."""
    entries: list[Entry] = []
    ours = [way for way in field.ways if way.group is Group.OURS and way.target]
    for name in (name for name in SIZES if name in field.settings.payloads):
        for way in ours:
            job = await field.calibrated(way, PAYLOADS[name])
            if job is not None:
                entries += [Entry(way, variant) for variant in _variants(job, is_smoke=field.settings.is_smoke)]
    return list(_compared(await in_rounds(field, entries, "with and without permits")))


def _variants(job: Job, *, is_smoke: bool) -> Iterator[Job]:
    numbers = _NUMBERS[:1] if is_smoke else _NUMBERS
    largest = max(window for window, _ in numbers)
    chunks = max(job.chunks, WINDOWS_IN_A_JOB * largest // job.shape.rows)
    # Without permits everything may have been sent before a tenth has come: all of the time counts.
    job = replace(job, chunks=chunks, warm_up_share=0.0)
    yield replace(job, row_permits=UNBOUNDED, permit_batch=UNBOUNDED // 2)
    for window, share in numbers:
        yield replace(job, row_permits=window, permit_batch=window // share)


def _compared(measured: list[tuple[Entry, list[Sample]]]) -> Iterator[PermitCost]:
    free = {(entry.way, entry.job.payload): samples for entry, samples in measured if _is_unbounded(entry)}
    for (way, job), samples in measured:
        without = free.get((way, job.payload))
        if job.row_permits != UNBOUNDED and without is not None:
            yield PermitCost(
                way=way.name,
                payload=job.payload,
                row_permits=job.row_permits,
                permit_batch=job.permit_batch,
                with_permits=Series.of(sample.chunks_per_second for sample in samples),
                without_permits=Series.of(sample.chunks_per_second for sample in without),
                cpu_with_permits=Series.of(sample.cpu_seconds_per_gigabyte for sample in samples),
                cpu_without_permits=Series.of(sample.cpu_seconds_per_gigabyte for sample in without),
            )


def _is_unbounded(entry: Entry) -> bool:
    return entry.job.row_permits == UNBOUNDED
