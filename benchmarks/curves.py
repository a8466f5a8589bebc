"""How throughput and latency depend on ROW_COUNT, on BATCH, and on the distance."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rich.progress import track

from benchmarks.field import Field
from benchmarks.jobs import Job
from benchmarks.pairs import Pair, Sample
from benchmarks.payloads import PAYLOADS
from benchmarks.peers.registry import find_ways
from benchmarks.peers.way import Group, Way
from benchmarks.records import Record
from benchmarks.series import Series
from benchmarks.targets import ways_for
from benchmarks.throughput import Entry, in_rounds
from permitflow.protocol.frames import StatedParameters
from permitflow.simulation.chunk_sizes import ConstantSize
from permitflow.simulation.run import simulate
from permitflow.simulation.setting import Setting

__all__ = ["DelayPoint", "Point", "measure_batches", "measure_delays", "measure_windows"]

BATCH_SHARE = 8
WINDOWS = tuple(1 << exponent for exponent in range(11, 20))
WINDOW_SIZES = ("64", "1,024")
BATCHES = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384)
DELAY_PAYLOAD = PAYLOADS["1,024"]
MOST_ROUNDS = 3
# Below this share of the fastest rate, the pipe is not full.
FULL_SHARE = 0.9
DELAYS_SECONDS = (0.001, 0.005, 0.02)


@dataclass(frozen=True)
class Point(Record):
    """One way with one window and batch, as fast as it can."""

    way: str
    payload: str
    row_permits: int
    permit_batch: int
    chunks_per_second: Series
    median_milliseconds: Series
    """On the way, while the channel is full."""
    percentile_99_milliseconds: Series
    peak_memory_bytes: Series
    """Of both processes."""


async def measure_windows(field: Field) -> list[Point]:
    """Windows from 2,048 rows on, returned by eighths."""
    return await _curve(field, [(window, window // BATCH_SHARE) for window in WINDOWS], "windows")


async def measure_batches(field: Field) -> list[Point]:
    """Batches from one row to half the window."""
    row_permits = PAYLOADS["64"].row_permits
    return await _curve(field, [(row_permits, batch) for batch in BATCHES], "batches")


async def _curve(field: Field, numbers: list[tuple[int, int]], what: str) -> list[Point]:
    if field.settings.is_smoke:
        numbers = numbers[:1]
    entries: list[Entry] = []
    for name in (name for name in WINDOW_SIZES if name in field.settings.payloads):
        for way in _ours(field):
            job = await field.calibrated(way, PAYLOADS[name])
            if job is not None:
                jobs = [replace(job, row_permits=window, permit_batch=batch) for window, batch in numbers]
                entries += [Entry(way, replace(each, stamps=stamps)) for each in jobs for stamps in (False, True)]
    measured = dict(await in_rounds(field, entries, what))
    pairs = [(entry, Entry(entry.way, replace(entry.job, stamps=True))) for entry in measured if not entry.job.stamps]
    return [_point(plain, measured[plain], measured[stamped]) for plain, stamped in pairs if stamped in measured]


def _ours(field: Field) -> list[Way]:
    return [way for way in field.ways if way.group is Group.OURS and way.target]


def _point(entry: Entry, plain: list[Sample], stamped: list[Sample]) -> Point:
    return Point(
        way=entry.way.name,
        payload=entry.job.payload,
        row_permits=entry.job.row_permits,
        permit_batch=entry.job.permit_batch,
        chunks_per_second=Series.of(sample.chunks_per_second for sample in plain),
        median_milliseconds=Series.of(sample.latencies_ns[0] / 1e6 for sample in stamped),
        percentile_99_milliseconds=Series.of(sample.latencies_ns[1] / 1e6 for sample in stamped),
        peak_memory_bytes=Series.of(float(sample.peak_memory_bytes) for sample in plain),
    )


@dataclass(frozen=True)
class DelayPoint(Record):
    """The remote way over a distance."""

    rtt_milliseconds: float
    row_permits: int
    rows_per_second: Series
    predicted_rows_per_second: float
    """By the simulation of the same channel, with the fastest rate of this run as the consumer's."""
    is_bound_by_window: bool
    """Says the simulation that the window holds the channel back?"""

    @property
    def turn_around_milliseconds(self) -> float:
        """What both processes add to the round trip, if the window is what holds the channel back."""
        return self.rtt_milliseconds * (self.predicted_rows_per_second / self.rows_per_second.median - 1)


async def measure_delays(field: Field) -> list[DelayPoint]:
    """Windows over several distances; what the simulation says beside it."""
    way, *_ = ways_for("remote")
    module, _ = find_ways()[0][way.name]
    delays = DELAYS_SECONDS[:1] if field.settings.is_smoke else DELAYS_SECONDS
    windows = WINDOWS[:1] if field.settings.is_smoke else WINDOWS[1:]
    near = await field.calibrated(way, DELAY_PAYLOAD)
    if near is None:
        return []
    found: list[tuple[float, Job, list[Sample]]] = []
    for delay in delays:
        async with Pair(module, way, delay) as pair:
            for window in track(windows, f"a distance of {delay * 1e3:g} ms", console=field.console):
                job = replace(near, row_permits=window, permit_batch=window // BATCH_SHARE)
                job = replace(job, chunks=_affordable(job, delay, field.settings.longest_job_seconds))
                samples = [await field.run_pair(pair, job) for _ in range(min(MOST_ROUNDS, field.settings.rounds))]
                found.append((delay, job, [sample for sample in samples if sample is not None]))
    return _compared(found)


def _affordable(job: Job, delay_seconds: float, seconds: float) -> int:
    """At most about a window comes in a round trip."""
    round_trips = seconds / (2 * delay_seconds)
    return max(32, min(job.chunks, int(round_trips * job.row_permits / job.shape.rows)))


def _compared(found: Iterable[tuple[float, Job, list[Sample]]]) -> list[DelayPoint]:
    rates = [
        (delay, job, Series.of(sample.chunks_per_second * job.shape.rows for sample in samples))
        for delay, job, samples in found
        if samples
    ]
    fastest = max((rate.median for _, _, rate in rates), default=0.0)
    points = []
    for delay, job, rate in rates:
        predicted = _predicted(job, delay, fastest)
        points.append(DelayPoint(2e3 * delay, job.row_permits, rate, predicted, predicted < FULL_SHARE * fastest))
    return points


def _predicted(job: Job, delay_seconds: float, consumer_rate: float) -> float:
    setting = Setting(
        upstream=StatedParameters(row_permits=job.row_permits, permit_batch=job.permit_batch),
        chunks=ConstantSize(job.shape.rows),
        flush_idle=True,
        forward_seconds=delay_seconds,
        return_seconds=delay_seconds,
        consumer_rate=consumer_rate,
    )
    figures = simulate(setting).figures
    return figures.throughput if figures is not None else 0.0
