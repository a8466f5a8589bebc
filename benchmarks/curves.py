"""How our own figures depend on row_permits, permit_batch and distance; and what a consumer that has stopped holds."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from rich.progress import track

from benchmarks.field import Field, Pair, Sample
from benchmarks.jobs import PAYLOADS, WIDE_ROW_BYTES, Job
from benchmarks.peers.way import find_ways, ways_for
from benchmarks.results import COMPACT, MEBIBYTES, Row, Series
from benchmarks.throughput import Entry, in_rounds, judged_ways
from permitflow import ChannelParameters
from permitflow.flows.permits.parameters import StatedParameters
from permitflow_tools.simulation.chunk_sizes import WeightedSizes
from permitflow_tools.simulation.run import simulate
from permitflow_tools.simulation.setting import SimulationSetting
from permitflow_tools.simulation.window import enough_rows

WINDOWS = tuple(1 << exponent for exponent in range(11, 20))
# A smaller window would only cut chunks into slices.
LEAST_CHUNKS_IN_WINDOW = 2
SIZES = ("64", "1,024", "4,096")
# From one row to half of the window.
BATCHES = (1, 256, 1_024, 2_048, 4_096, 8_192, 16_384)
DELAY_PAYLOAD = PAYLOADS["1,024"]
DELAY_WINDOWS = (*WINDOWS[1:], 1 << 20)
MOST_ROUNDS = 3
# Below this share of the fastest rate, the pipe is not full.
FULL_SHARE = 0.9
DELAYS_SECONDS = (0.001, 0.005, 0.02)


def default_batch(row_permits: int) -> int:
    """permit_batch, if nothing is said about it."""
    return ChannelParameters(row_permits=row_permits).permit_batch


def measure_windows(field: Field) -> list[Row]:
    """Windows from 2,048 rows on, returned by the default batch."""
    return _curve(field, [(window, default_batch(window)) for window in WINDOWS], "row_permits", "windows")


def measure_batches(field: Field) -> list[Row]:
    """Batches from one row to half the window."""
    row_permits = PAYLOADS["64"].row_permits
    return _curve(field, [(row_permits, batch) for batch in BATCHES], "permit_batch", "batches")


def _curve(field: Field, numbers: list[tuple[int, int]], varied: str, what: str) -> list[Row]:
    """Each way with each window and batch: throughput, and with stamped chunks the time on the way."""
    if field.settings.is_smoke:
        numbers = numbers[:1]
    entries: list[Entry] = []
    for name in (name for name in SIZES if name in field.settings.payloads):
        for way in judged_ways(field):
            job = field.calibrated(way, PAYLOADS[name])
            if job is not None:
                usable = [each for each in numbers if each[0] >= LEAST_CHUNKS_IN_WINDOW * job.shape.rows]
                jobs = [replace(job, row_permits=window, permit_batch=batch) for window, batch in usable]
                entries += [Entry(way, replace(each, stamps=stamps)) for each in jobs for stamps in (False, True)]
    measured = dict(in_rounds(field, entries, what))
    found: list[Row] = []
    for entry in (entry for entry in measured if not entry.job.stamps):
        plain, stamped = measured[entry], measured.get(Entry(entry.way, replace(entry.job, stamps=True)))
        if stamped is not None:
            found.append(
                {
                    "": f"{entry.way.name}, {entry.job.payload} rows",
                    varied: getattr(entry.job, varied),
                    "chunks/s": Series.of(sample.chunks_per_second for sample in plain),
                    "p50 ms, full": Series.of((sample.latencies_ns[0] / 1e6 for sample in stamped), COMPACT),
                    "p99 ms, full": Series.of((sample.latencies_ns[1] / 1e6 for sample in stamped), COMPACT),
                    "MiB": Series.of((sample.peak_memory_bytes / 2**20 for sample in plain), MEBIBYTES),
                    "_chunk_rows": entry.job.shape.rows,
                }
            )
    return found


def measure_delays(field: Field) -> list[Row]:
    """Windows over several distances; what the simulation says beside it."""
    way, *_ = ways_for("remote")
    module, _ = find_ways()[0][way.name]
    delays = DELAYS_SECONDS[:1] if field.settings.is_smoke else DELAYS_SECONDS
    windows = DELAY_WINDOWS[:1] if field.settings.is_smoke else DELAY_WINDOWS
    near = field.calibrated(way, DELAY_PAYLOAD)
    if near is None:
        return []
    found: list[tuple[float, Job, list[Sample]]] = []
    for delay in delays:
        with Pair(module, way, delay) as pair:
            for window in track(windows, f"a distance of {delay * 1e3:g} ms", console=field.console):
                job = replace(near, row_permits=window, permit_batch=default_batch(window))
                job = replace(job, chunks=_affordable(job, delay, field.settings.longest_job_seconds))
                samples = [field.run(way, job, pair) for _ in range(min(MOST_ROUNDS, field.settings.rounds))]
                found.append((delay, job, [sample for sample in samples if sample is not None]))
    return _compared(found)


def _affordable(job: Job, delay_seconds: float, seconds: float) -> int:
    """At most about a window comes in a round trip."""
    round_trips = seconds / (2 * delay_seconds)
    return max(32, min(job.chunks, int(round_trips * job.row_permits / job.shape.rows)))


def _compared(found: Sequence[tuple[float, Job, list[Sample]]]) -> list[Row]:
    """The simulation of the same channel has the fastest rate of this run as its consumer's."""
    rates = [
        (delay, job, Series.of(sample.chunks_per_second * job.shape.rows for sample in samples))
        for delay, job, samples in found
        if samples
    ]
    fastest = max((rate.median for _, _, rate in rates), default=0.0)
    rows: list[Row] = []
    for delay, job, rate in rates:
        predicted, rtt = _predicted(job, delay, fastest), 2e3 * delay
        # The time that both processes add to the round trip, if the window limits the channel.
        turn_around = rtt * (predicted / rate.median - 1) if predicted < FULL_SHARE * fastest else None
        rows.append(
            {
                "round trip": f"{rtt:g} ms",
                "row_permits": job.row_permits,
                "rows/s": rate,
                "simulated": predicted,
                "turn-around of both processes": "the pipe is full" if turn_around is None else f"{turn_around:.1f} ms",
                "_rtt_milliseconds": rtt,
                "_turn_around_milliseconds": turn_around,
            }
        )
    return rows


def _predicted(job: Job, delay_seconds: float, consumer_rate: float) -> float:
    figures = simulate(_setting(job.row_permits, job.permit_batch, 2 * delay_seconds, consumer_rate)).figures
    return figures.throughput if figures is not None else 0.0


def _setting(row_permits: int, permit_batch: int, rtt_seconds: float, consumer_rate: float) -> SimulationSetting:
    return SimulationSetting(
        upstream=StatedParameters(row_permits=row_permits, permit_batch=permit_batch),
        chunks=WeightedSizes([DELAY_PAYLOAD.rows]),
        flush_idle=True,
        forward_seconds=rtt_seconds / 2,
        return_seconds=rtt_seconds / 2,
        consumer_rate=consumer_rate,
    )


def full_pipes(points: Sequence[Row]) -> list[Row]:
    """The window from which on a distance no longer matters: by the rule of thumb, and as measured.

    All windows are powers of two, so that rule and measurement can be equal.
    """
    fastest = max((point["rows/s"].median for point in points), default=0.0)
    largest = max((point["row_permits"] for point in points), default=0)
    found: list[Row] = []
    for rtt in dict.fromkeys(point["_rtt_milliseconds"] for point in points):
        mine = [point for point in points if point["_rtt_milliseconds"] == rtt]
        bound = [at for point in mine if (at := point["_turn_around_milliseconds"]) is not None]
        turn_around = max(0.0, median(bound)) if bound else 0.0
        full = [point["row_permits"] for point in mine if point["rows/s"].median >= FULL_SHARE * fastest]
        found.append(
            {
                "round trip": f"{rtt:g} ms",
                "turn-around": f"{turn_around:.1f} ms",
                "by the rule": _enough(rtt, fastest),
                "by the rule, turn-around included": _enough(rtt + turn_around, fastest),
                "measured": min(full) if full else f"more than {largest:,}",
            }
        )
    return found


def _enough(rtt_milliseconds: float, rows_per_second: float) -> int:
    row_permits = WINDOWS[0]
    while True:
        setting = _setting(row_permits, default_batch(row_permits), rtt_milliseconds / 1e3, rows_per_second)
        enough = enough_rows(setting)
        assert enough is not None, "chunks of one size have a largest size"
        if enough <= row_permits:
            return row_permits
        row_permits *= 2


STALLED_PAYLOAD = PAYLOADS["wide"]
STALLED_WINDOWS = (8_192, 32_768, 131_072, 524_288)
# Long enough to fill the largest window, which is 250 MiB.
STALL_SECONDS = 1.0
SMOKE_STALL_SECONDS = 0.1
WINDOWS_SENT = 3


def measure_stalled(field: Field) -> list[Row]:
    """Our ways for which targets exist."""
    is_smoke = field.settings.is_smoke
    jobs = [
        Job(
            payload=STALLED_PAYLOAD.name,
            chunks=WINDOWS_SENT * row_permits // STALLED_PAYLOAD.rows,
            row_permits=row_permits,
            permit_batch=default_batch(row_permits),
            stall_seconds=SMOKE_STALL_SECONDS if is_smoke else STALL_SECONDS,
        )
        for row_permits in (STALLED_WINDOWS[:1] if is_smoke else STALLED_WINDOWS)
    ]
    # The smallest first: a process does not always give memory back.
    entries = [Entry(way, job) for way in judged_ways(field) for job in jobs]
    found = in_rounds(field, entries, "a consumer that has stopped", in_order=True)
    return [
        {
            "rows of 500 bytes": entry.way.name,
            "row_permits": entry.job.row_permits,
            "MiB in a window": f"{(mebibytes := entry.job.row_permits * WIDE_ROW_BYTES / 2**20):.0f}",
            "MiB of both processes": Series.of((sample.peak_memory_bytes / 2**20 for sample in samples), MEBIBYTES),
            "_window_mebibytes": mebibytes,
        }
        for entry, samples in found
    ]
