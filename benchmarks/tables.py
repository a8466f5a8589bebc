"""Results as Markdown tables; documents take them from here, by name."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks.curves import DelayPoint, Point
from benchmarks.idle_channels import IdleChannels
from benchmarks.imbalance.experiment import Imbalance
from benchmarks.latency import LOADS, Latency
from benchmarks.limits import Limit
from benchmarks.local import LocalRate
from benchmarks.payloads import PAYLOADS
from benchmarks.peers.registry import find_ways
from benchmarks.profiling import Cost
from benchmarks.results import Results
from benchmarks.series import compact
from benchmarks.spark_exchange.jobs import SparkJob
from benchmarks.stalled import Stalled
from benchmarks.stores import STORES, StoreRate
from benchmarks.targets import Verdict, judge
from benchmarks.throughput import Cell
from permitflow.protocol.parameters import ChannelParameters

__all__ = ["TABLES", "table"]

NOT_MEASURED = "-"
UNMEASURED = "Not measured in this run."
HEAD_LINES = 2

Table = Callable[[Results], str]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is text, the others are numbers.  Without rows, a word in place of a table."""
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) if len(lines) > HEAD_LINES else UNMEASURED


def machine(results: Results) -> str:
    """On what it was measured, and how thoroughly."""
    facts = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    by_rounds: dict[int, list[str]] = {}
    for part, count in results.rounds.items():
        by_rounds.setdefault(count, []).append(part)
    told = "; ".join(f"{count} round{'s' * (count > 1)} of {', '.join(parts)}" for count, parts in by_rounds.items())
    return f"{facts}. Seed {results.settings['seed']}; {told}."


def ways(_: Results) -> str:
    """Who is compared."""
    found, _skipped = find_ways()
    rows = [(way.name, str(way.group), way.about) for _, way in found.values()]
    return "\n".join(["| Way | Group | How |", "|---|---|---|", *("| " + " | ".join(row) + " |" for row in rows)])


def _by_way(cells: list[Cell], shown: Callable[[Cell], str], unit: str) -> str:
    sizes = [name for name in PAYLOADS if any(cell.payload == name for cell in cells)]
    by_key = {(cell.way, cell.payload): cell for cell in cells}
    names = dict.fromkeys(cell.way for cell in cells)
    rows = [
        [name, *(shown(by_key[name, size]) if (name, size) in by_key else NOT_MEASURED for size in sizes)]
        for name in names
    ]
    return table([unit, *sizes], rows)


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


def latency(results: Results) -> str:
    """Median and 99th percentile under each load."""
    found = {(each.way, each.load): each for each in results.get("latency", Latency)}
    rows = []
    for name in dict.fromkeys(way for way, _ in found):
        row = [name]
        for load in LOADS:
            each = found.get((name, load.name))
            row += (
                [each.median_microseconds.told(), compact(each.percentile_99_microseconds.median)]
                if each
                else [NOT_MEASURED] * 2
            )
        rows.append(row)
    heads = [f"{what}, {load.name}" for load in LOADS for what in ("p50", "p99")]
    return table(["µs", *heads], rows)


def local(results: Results) -> str:
    """Inside a process."""
    rates = results.get("local", LocalRate)
    by_key = {(rate.candidate, rate.chunk_rows): rate.million_messages_per_second for rate in rates}
    sizes = sorted({rate.chunk_rows for rate in rates})
    rows = [
        [name, *(by_key[name, size].told() for size in sizes)] for name in dict.fromkeys(name for name, _ in by_key)
    ]
    return table(["million messages/s", *(f"{size:,} rows" for size in sizes)], rows)


def limits(results: Results) -> str:
    """What the machine can do."""
    rows = [[limit.what, limit.gigabytes_per_second.told()] for limit in results.get("limits", Limit)]
    return table(["", "GB/s"], rows)


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


def windows(results: Results) -> str:
    """By window."""
    return _points(results.get("windows", Point), "ROW_COUNT", lambda point: point.row_permits)


def batches(results: Results) -> str:
    """By batch."""
    return _points(results.get("batches", Point), "BATCH", lambda point: point.permit_batch)


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
        *_default_rows(results.get("windows", Point), "ROW_COUNT", "row_permits", standard.row_permits),
        *_default_rows(results.get("batches", Point), "BATCH", "permit_batch", standard.permit_batch),
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
    return table(["round trip", "ROW_COUNT", "rows/s", "simulated", "turn-around of both processes"], rows)


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
    return table(["rows of 500 bytes", "ROW_COUNT", "MiB in a window", "MiB of both processes"], rows)


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


def spark(results: Results) -> str:
    """Jobs with the exchange and without."""
    jobs = results.get("spark", SparkJob)
    rows = [[f"{each.job}, beside {each.peer}", each.seconds.told(), each.peer_seconds.told()] for each in jobs]
    return table(["Spark", "seconds with the exchange", "without"], rows)


def profile(results: Results) -> str:
    """The costliest functions of each process."""
    costs = results.get("profile", Cost)
    processes = dict.fromkeys((cost.way, cost.payload, cost.role) for cost in costs)
    rows = [
        [
            f"{way}, {payload} rows, {role}",
            ", ".join(
                f"`{cost.function}` {cost.share:.0%}"
                for cost in costs
                if (cost.way, cost.payload, cost.role) == (way, payload, role)
            ),
        ]
        for way, payload, role in processes
    ]
    lines = ["| Process | Where |", "|---|---|", *(f"| {name} | {where} |" for name, where in rows)]
    return "\n".join(lines) if rows else UNMEASURED


def verdicts(results: Results) -> str:
    """Promises, and whether they are kept."""
    return table(["Promise", "found", "target", "verdict"], [_verdict(verdict) for verdict in judge(results)])


def _verdict(verdict: Verdict) -> list[str]:
    sign = "≤" if verdict.is_upper_limit else "≥"
    return [verdict.promise, verdict.found.told(), f"{sign} {verdict.target:g}", verdict.told]


TABLES: dict[str, Table] = {
    "machine": machine,
    "ways": ways,
    "throughput": throughput,
    "reading": reading,
    "processor": processor,
    "memory": memory,
    "settings": settings,
    "latency": latency,
    "local": local,
    "imbalance": imbalance,
    "windows": windows,
    "batches": batches,
    "defaults": defaults,
    "delays": delays,
    "stalled": stalled,
    "stores": stores,
    "channels": channels,
    "spark": spark,
    "profile": profile,
    "limits": limits,
    "verdicts": verdicts,
}
