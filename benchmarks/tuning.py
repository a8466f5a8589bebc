"""Which window and which batch suit a way best: tried out in short runs, by the same rule for everybody."""

import statistics
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from benchmarks.jobs import Job
from benchmarks.payloads import CHUNKS_IN_WINDOW

__all__ = ["candidates", "fastest"]

# Windows as multiples of the default one; and batches as shares of the window.
WINDOW_MULTIPLES = (0.5, 1, 2, 8)
BATCH_SHARES = (2, 4, 8)
# 262,144 rows of three int64 columns: about what carriers hold without permits.
MOST_WINDOW_BYTES = 6 << 20
# A window that holds much of a job does not bind.  Those that are not larger than the default have jobs as all have.
WINDOWS_IN_A_JOB = 8
PILOT_SHARE = 4
LEAST_CHUNKS = 32
# So many of the fastest are tried again, and so many of these once more: a short run is easily disturbed.
KEPT = (4, 2)


def candidates(job: Job, most_chunks: int) -> list[Job]:
    """The same job with other windows and batches, and long enough for each.

    Args:
        job: with the default numbers.
        most_chunks: that a job may have; windows that cannot be filled several times by so many are left out.
    """
    found: list[Job] = []
    for row_permits in _windows(job):
        chunks = WINDOWS_IN_A_JOB * row_permits // job.shape.rows
        if row_permits > job.row_permits and chunks > most_chunks:
            continue
        long_enough = job if row_permits <= job.row_permits else replace(job, chunks=max(job.chunks, chunks))
        found += [
            replace(long_enough, row_permits=row_permits, permit_batch=row_permits // share) for share in BATCH_SHARES
        ]
    return found


def _windows(job: Job) -> Iterator[int]:
    """At least eight chunks; those beyond the default, no more bytes than carriers hold."""
    shape = job.shape
    largest = max(job.row_permits, MOST_WINDOW_BYTES * shape.rows // shape.chunk_bytes)
    for multiple in WINDOW_MULTIPLES:
        row_permits = int(multiple * job.row_permits)
        if CHUNKS_IN_WINDOW * shape.rows <= row_permits <= largest:
            yield row_permits


async def fastest(competing: list[Job], chunks_per_second: Callable[[Job], Awaitable[float]]) -> Job:
    """The one that is fastest by the mean of its pilots: all have one, the fastest of them another one, and so on.

    Args:
        competing: at least one.
        chunks_per_second: runs a job; 0 if that failed.
    """
    rates: dict[Job, list[float]] = {job: [] for job in competing}
    for kept in (*KEPT, 1):
        for job in competing:
            rates[job].append(await chunks_per_second(_pilot(job)))
        competing = sorted(competing, key=lambda job: statistics.fmean(rates[job]), reverse=True)[:kept]
    return competing[0]


def _pilot(job: Job) -> Job:
    return replace(job, chunks=max(LEAST_CHUNKS, job.chunks // PILOT_SHARE))
