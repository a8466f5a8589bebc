"""What permits cost: the same stream without permits, and with windows of several sizes.

A window does two things.  It bounds what is on its way: where that is less than the pipe needs to be full, the pipe is
slower, whoever sets the bound.  And its permits travel back: that is what permits themselves cost.  Without permits
there is a bound as well, the carrier's own, of some MiB.  So the promise is about a window that bounds as many bytes,
and the default window stands beside it.

Without permits the producer keeps no more rows waiting in its process than with the larger window
(``benchmarks.backlog``), and nothing but the carrier holds them back.  The clock covers the whole job, from when the
producer begins to send until the consumer has read the last chunk.

Until November 2026 nothing bounded what waited in the producer's process, and the clock was the consumer's: all of the
application's sending was done before it started.  That is measured as well, and told, and not judged.
"""

from collections.abc import Iterator, Sequence
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

__all__ = ["DEFAULT", "ROW_COUNT", "PermitCost", "measure_permit_cost"]

SIZES = ("64", "1,024", "4,096")
# Permits of more rows than any job has never bind; one return of half of them is never due.
UNBOUNDED = 1 << 30
# The promise: 6 MiB of rows of 24 bytes.  Ours hold 8 MiB on their way in shared memory, and over TCP what Linux lets
# a socket hold: 4 MiB where it is sent, and more where it is received.
ROW_COUNT = 262_144
DEFAULT = 32_768
BATCH_SHARES = (16, 8, 4)
# As many as with permits: a window of them in the exchange's channel, and one of its stream.
MOST_WAITING_ROWS = 2 * ROW_COUNT
_NUMBERS = [(window, share) for window in (DEFAULT, ROW_COUNT) for share in BATCH_SHARES]
# Longer than others: here dialling and the end of the stream are within the time, with permits and without.
JOB_SECONDS = 0.2
# A window that holds much of a job does not bind.
WINDOWS_IN_A_JOB = 8
# A producer that is held back goes on while most of its rows still wait, so that the carrier always has some.
BURSTS_IN_A_BACKLOG = 8


@dataclass(frozen=True)
class PermitCost(Record):
    """Throughput with permits beside throughput without, at one size, window and batch."""

    way: str
    payload: str
    row_permits: int
    permit_batch: int
    with_permits: Series
    """Chunks per second of the whole job, as those below."""
    without_permits: Series
    """Held back by the carrier alone."""
    without_bound: Series
    """Held back by nothing."""
    with_permits_when_read: Series
    """Chunks per second by the consumer's clock, from the first to the last one read; so is what stands below."""
    without_bound_when_read: Series
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
    def throughput_by_former_definition(self) -> Series:
        """The same as it was defined until November 2026."""
        return self.with_permits_when_read.ratio_to(self.without_bound_when_read)

    @property
    def what_a_bound_leaves(self) -> Series:
        """Without permits: held back by the carrier ÷ by nothing, by the same clock, round by round."""
        return self.without_permits.ratio_to(self.without_bound)

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
                longer = replace(job, chunks=int(job.chunks * JOB_SECONDS / field.settings.job_seconds))
                variants = _variants(job, _NUMBERS[:1]) if field.settings.is_smoke else _variants(longer, _NUMBERS)
                entries += [Entry(way, variant) for variant in variants]
    return list(_compared(await in_rounds(field, entries, "with and without permits")))


def _variants(job: Job, numbers: Sequence[tuple[int, int]]) -> Iterator[Job]:
    rows = job.shape.rows
    job = replace(
        job,
        chunks=max(job.chunks, WINDOWS_IN_A_JOB * ROW_COUNT // rows),
        # The same for all, so that all have the same to do.
        burst_chunks=max(1, min(job.burst_chunks, ROW_COUNT // BURSTS_IN_A_BACKLOG // rows)),
        warm_up_share=0.0,
    )
    without = replace(job, row_permits=UNBOUNDED, permit_batch=UNBOUNDED // 2)
    yield replace(without, most_waiting_rows=MOST_WAITING_ROWS)
    yield without
    for window, share in numbers:
        yield replace(job, row_permits=window, permit_batch=window // share)


def _compared(measured: list[tuple[Entry, list[Sample]]]) -> Iterator[PermitCost]:
    free = {
        (entry.way, entry.job.payload, entry.job.most_waiting_rows): samples
        for entry, samples in measured
        if entry.job.row_permits == UNBOUNDED
    }
    for (way, job), samples in measured:
        held, unheld = (free.get((way, job.payload, most_rows)) for most_rows in (MOST_WAITING_ROWS, 0))
        if job.row_permits != UNBOUNDED and held is not None and unheld is not None:
            yield PermitCost(
                way=way.name,
                payload=job.payload,
                row_permits=job.row_permits,
                permit_batch=job.permit_batch,
                with_permits=_whole(samples),
                without_permits=_whole(held),
                without_bound=_whole(unheld),
                with_permits_when_read=_when_read(samples),
                without_bound_when_read=_when_read(unheld),
                cpu_with_permits=_processor(samples),
                cpu_without_permits=_processor(held),
            )


def _whole(samples: list[Sample]) -> Series:
    return Series.of(sample.whole_chunks_per_second for sample in samples)


def _when_read(samples: list[Sample]) -> Series:
    return Series.of(sample.chunks_per_second for sample in samples)


def _processor(samples: list[Sample]) -> Series:
    return Series.of(sample.cpu_seconds_per_gigabyte for sample in samples)
