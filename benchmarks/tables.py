"""Results as Markdown tables; documents take them from here, by name."""

from collections.abc import Callable, Collection, Iterator

from benchmarks.curves import DelayPoint, Point, Stalled, full_pipes
from benchmarks.idle_channels import IdleChannels
from benchmarks.imbalance.experiment import Imbalance
from benchmarks.jobs import PAYLOADS
from benchmarks.latency import ALONE, BURSTS, LATENCY_PEERS, Latency, Load
from benchmarks.local_channel import LocalRate
from benchmarks.measuring import COMPARISON, CURVES, SPARK
from benchmarks.model_checking import PART as CHECKING
from benchmarks.model_checking import CheckingSpeed
from benchmarks.peers.way import find_ways
from benchmarks.results import NOT_MEASURED, Results, compact, table
from benchmarks.spark_exchange.jobs import SparkJob
from benchmarks.stores import STORES, StoreRate
from benchmarks.sweep_at_scale import PART as SWEEP
from benchmarks.sweep_at_scale import SweepSpeed
from benchmarks.targets import Verdict, judge
from benchmarks.throughput import Cell
from permitflow.protocol.permits import ChannelParameters

__all__ = [
    "TABLES",
    "batches",
    "channels",
    "defaults",
    "delays",
    "full_pipe",
    "memory",
    "processor",
    "reading",
    "settings",
    "stalled",
    "stores",
    "throughput",
    "windows",
]


def _by_way(cells: list[Cell], shown: Callable[[Cell], str], unit: str) -> str:
    sizes = [name for name in PAYLOADS if any(cell.payload == name for cell in cells)]
    tuned = {cell.way for cell in cells if cell.is_tuned}
    # Those that were measured at their best have a row for the defaults as well.
    by_key = {
        (f"{cell.way}, defaults" if _is_beside_best(cell, tuned) else cell.way, cell.payload): cell for cell in cells
    }
    names = dict.fromkeys(name for name, _ in by_key)
    rows = [
        [name, *(shown(by_key[name, size]) if (name, size) in by_key else NOT_MEASURED for size in sizes)]
        for name in names
    ]
    return table([unit, *sizes], rows)


def _is_beside_best(cell: Cell, tuned: Collection[str]) -> bool:
    """Was the way of a cell, one of those that are tuned, measured with the default numbers?"""
    return cell.way in tuned and not cell.is_tuned


def _cells(results: Results, touch: str) -> list[Cell]:
    return [cell for cell in results.get("throughput", Cell) if cell.touch == touch]


def throughput(results: Results) -> str:
    """Of a consumer that sums up one column."""
    return _by_way(_cells(results, "column"), lambda cell: cell.chunks_per_second.told(), "chunks/s, median (range)")


def reading(results: Results) -> str:
    """Of a consumer that sums up every column."""
    return _by_way(_cells(results, "columns"), lambda cell: cell.chunks_per_second.told(), "chunks/s, median (range)")


def processor(results: Results) -> str:
    """Seconds of both processes for a gigabyte."""
    return _by_way(_cells(results, "column"), lambda cell: compact(cell.cpu_seconds_per_gigabyte.median), "CPU s/GB")


def memory(results: Results) -> str:
    """Of both processes."""
    return _by_way(_cells(results, "column"), lambda cell: f"{cell.peak_memory_bytes.median / 2**20:.0f}", "MiB")


def settings(results: Results) -> str:
    """Window and batch of each way."""
    return _by_way(
        _cells(results, "column"), lambda cell: f"{cell.row_permits // 1024}k / {cell.permit_batch / 1024:g}k", "rows"
    )


def windows(results: Results) -> str:
    """By window."""
    return _points(results.get("windows", Point), "row_permits", lambda point: point.row_permits)


def batches(results: Results) -> str:
    """By batch."""
    return _points(results.get("batches", Point), "permit_batch", lambda point: point.permit_batch)


def _points(points: list[Point], what: str, number: Callable[[Point], int]) -> str:
    rows = [
        [
            f"{point.way}, {point.payload} rows",
            f"{number(point):,}",
            point.chunks_per_second.told(),
            compact(point.median_milliseconds.median),
            compact(point.percentile_99_milliseconds.median),
            f"{point.peak_memory_bytes.median / 2**20:.0f}",
        ]
        for point in points
    ]
    return table(["", what, "chunks/s", "p50 ms, full", "p99 ms, full", "MiB"], rows)


def defaults(results: Results) -> str:
    """What the default window and batch reach of what the fastest of the curve does, and what that one costs."""
    standard = ChannelParameters()
    rows = [
        *_default_rows(results.get("windows", Point), "row_permits", "row_permits", standard.row_permits),
        *_default_rows(results.get("batches", Point), "permit_batch", "permit_batch", standard.permit_batch),
    ]
    return table(["", "default", "of the fastest", "time on the way", "the fastest has", "time on the way"], rows)


def _default_rows(points: list[Point], what: str, number: str, default: int) -> Iterator[list[str]]:
    for way, payload in dict.fromkeys((point.way, point.payload) for point in points):
        curve = [point for point in points if (point.way, point.payload) == (way, payload)]
        fastest = max(curve, key=lambda point: point.chunks_per_second.median)
        for point in (point for point in curve if getattr(point, number) == default):
            yield [
                f"{what}, {way}, {payload} rows",
                f"{default:,}",
                f"{point.chunks_per_second.median / fastest.chunks_per_second.median:.0%}",
                f"{compact(point.median_milliseconds.median)} ms",
                f"{getattr(fastest, number):,}",
                f"{compact(fastest.median_milliseconds.median)} ms",
            ]


def delays(results: Results) -> str:
    """By distance and window."""
    rows = [
        [
            f"{point.rtt_milliseconds:g} ms",
            f"{point.row_permits:,}",
            point.rows_per_second.told(),
            compact(point.predicted_rows_per_second),
            f"{point.turn_around_milliseconds:.1f} ms" if point.is_bound_by_window else "the pipe is full",
        ]
        for point in results.get("delays", DelayPoint)
    ]
    return table(["round trip", "row_permits", "rows/s", "simulated", "turn-around of both processes"], rows)


def full_pipe(results: Results) -> str:
    """By distance: from which window on the pipe is full."""
    largest = max((point.row_permits for point in results.get("delays", DelayPoint)), default=0)
    rows = [
        [
            f"{pipe.rtt_milliseconds:g} ms",
            f"{pipe.turn_around_milliseconds:.1f} ms",
            f"{pipe.by_network:,}",
            f"{pipe.by_both:,}",
            f"more than {largest:,}" if pipe.measured is None else f"{pipe.measured:,}",
        ]
        for pipe in full_pipes(results.get("delays", DelayPoint))
    ]
    heads = ("turn-around", "by the rule", "by the rule, turn-around included", "measured")
    return table(["round trip", *heads], rows)


def stalled(results: Results) -> str:
    """With a consumer that has stopped."""
    rows = [
        [
            each.way,
            f"{each.row_permits:,}",
            f"{each.window_bytes / 2**20:.0f}",
            f"{each.peak_memory_bytes.median / 2**20:.0f}",
        ]
        for each in results.get("stalled", Stalled)
    ]
    return table(["rows of 500 bytes", "row_permits", "MiB in a window", "MiB of both processes"], rows)


def channels(results: Results) -> str:
    """Idle ones."""
    rows = [
        [
            each.kind,
            f"{each.channels:,}",
            f"{each.bytes_per_channel / 1024:,.0f}",
            f"{each.cpu_share_per_channel:.3%}",
        ]
        for each in results.get("channels", IdleChannels)
    ]
    return table(["idle channels", "number", "KiB each", "of a core, each"], rows)


def stores(results: Results) -> str:
    """Rows that are kept: on disk, beside in memory."""
    rates = {(rate.payload, rate.channels, rate.store): rate for rate in results.get("stores", StoreRate)}
    setups = dict.fromkeys((payload, channels) for payload, channels, _ in rates)
    rows = []
    for payload, channels in setups:
        memory, disk = (rates[payload, channels, store].chunks_per_second for store in STORES)
        ratio = disk.ratio_to(memory)
        where = f"{payload} rows, {channels} channel{'s' * (channels > 1)}"
        rows.append([where, memory.told(), disk.told(), ratio.told()])
    return table(["chunks per second", *(f"kept {place}" for place in ("in memory", "on disk")), "ratio"], rows)


Table = Callable[[Results], str]


def machine(results: Results) -> str:
    """On what it was measured, and how thoroughly."""
    facts = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    by_rounds: dict[int, list[str]] = {}
    for part, count in results.rounds.items():
        by_rounds.setdefault(count, []).append(part)
    told = "; ".join(f"{count} round{'s' * (count > 1)} of {', '.join(parts)}" for count, parts in by_rounds.items())
    return f"{facts}. Seed {results.settings['seed']}; {told}."


def ways(_: Results) -> str:
    """What is compared."""
    found, _skipped = find_ways()
    rows = [(way.name, str(way.group), way.about) for _, way in found.values()]
    return "\n".join(["| Way | Group | How |", "|---|---|---|", *("| " + " | ".join(row) + " |" for row in rows)])


def durations(results: Results) -> str:
    """How long each part took to measure."""
    rows: list[list[str]] = []
    for command, parts in (("make bench", COMPARISON), ("make bench-spark", SPARK), ("make curves", CURVES)):
        measured = [part for part in parts if part in results.seconds]
        rows += [[f"{command}: {part}", f"{results.seconds[part]:.0f}"] for part in measured]
        if len(measured) > 1:
            rows.append([f"{command}, together", f"{sum(results.seconds[part] for part in measured):.0f}"])
    return table(["part", "seconds to measure"], rows)


def latency(results: Results) -> str:
    """Median and 99th percentile of chunks that are alone."""
    return _latency(results.get("latency", Latency), ALONE)


def bursts(results: Results) -> str:
    """The same of several chunks at once."""
    return _latency(results.get("bursts", Latency), BURSTS)


def _latency(found: list[Latency], load: Load) -> str:
    told = [each for each in found if each.load == load.name]
    medians = {each.way: each.median_microseconds for each in told}
    peers = [name for name in LATENCY_PEERS.values() if name in medians]
    rows = [
        [
            each.way,
            each.median_microseconds.told(),
            compact(each.percentile_99_microseconds.median),
            # Of medians: ways that are not judged have fewer rounds.
            *(compact(each.median_microseconds.median / medians[peer].median) for peer in peers),
        ]
        for each in told
    ]
    return table([f"µs, {load.name}", "p50", "p99", *(f"p50 ÷ {peer.split(',')[0]}" for peer in peers)], rows)


def local(results: Results) -> str:
    """Inside a process."""
    rates = results.get("local", LocalRate)
    by_key = {(rate.candidate, rate.chunk_rows): rate.million_messages_per_second for rate in rates}
    sizes = sorted({rate.chunk_rows for rate in rates})
    rows = [
        [name, *(by_key[name, size].told() for size in sizes)] for name in dict.fromkeys(name for name, _ in by_key)
    ]
    return table(["million messages/s", *(f"{size:,} rows" for size in sizes)], rows)


def imbalance(results: Results) -> str:
    """Both upstreams of the join."""
    rows = [
        [
            each.setup,
            each.local_rows_per_second.told(),
            each.remote_rows_per_second.told(),
            each.ratio.told(),
            f"{each.local_back_pressure_rate.median:.1%}",
            f"{each.remote_back_pressure_rate.median:.1%}",
        ]
        for each in results.get("imbalance", Imbalance)
    ]
    return table(["", "local rows/s", "remote rows/s", "ratio", "local waits", "remote waits"], rows)


def spark(results: Results) -> str:
    """Jobs with the exchange and without."""
    jobs = results.get("spark", SparkJob)
    rows = [
        [f"{each.job}, beside {each.peer}", each.seconds.told(), each.peer_seconds.told(), each.rounds] for each in jobs
    ]
    return table(["Spark", "seconds with the exchange", "without", "rounds"], rows)


def sweep(results: Results) -> str:
    """A grid explored on Spark, and by plain processes; by ``benchmarks/sweep_at_scale.py``."""
    rows = [row for each in results.get(SWEEP, SweepSpeed) for row in each.rows()]
    return table(["Two cores", "seconds", "thousand states/s"], rows)


def checking(results: Results) -> str:
    """Explorer, TLC, recorded runs, proofs; by ``benchmarks/model_checking.py``."""
    rows = [each.row() for each in results.get(CHECKING, CheckingSpeed)]
    return table(["What", "of", "CPU seconds", "each second"], rows)


def verdicts(results: Results) -> str:
    """Promises, and whether they are kept."""
    return table(["Promise", "found", "target", "verdict"], [_verdict(verdict) for verdict in judge(results)])


def _verdict(verdict: Verdict) -> list[str]:
    sign = "≤" if verdict.is_upper_limit else "≥"
    return [verdict.promise, verdict.found.told(), f"{sign} {verdict.target:g}", verdict.told]


TABLES: dict[str, Table] = {
    "machine": machine,
    "durations": durations,
    "ways": ways,
    "throughput": throughput,
    "reading": reading,
    "processor": processor,
    "memory": memory,
    "settings": settings,
    "latency": latency,
    "bursts": bursts,
    "local": local,
    "imbalance": imbalance,
    "windows": windows,
    "batches": batches,
    "defaults": defaults,
    "delays": delays,
    "full_pipe": full_pipe,
    "stalled": stalled,
    "stores": stores,
    "channels": channels,
    "spark": spark,
    "sweep": sweep,
    "checking": checking,
    "verdicts": verdicts,
}
