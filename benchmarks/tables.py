"""Results as Markdown tables; documents take them from here, by name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from benchmarks.call_windows import CallWindow
from benchmarks.curves import DelayPoint, Point, Stalled, full_pipes
from benchmarks.gate import FAR, LOCAL, NEAR, UNREAD, GateRun
from benchmarks.idle_channels import IdleChannels
from benchmarks.imbalance import Imbalance
from benchmarks.jobs import PAYLOADS
from benchmarks.latency import LATENCY_PEERS, Latency
from benchmarks.local_channel import LocalRate
from benchmarks.model_checking import CheckingSpeed
from benchmarks.peers.way import find_ways
from benchmarks.results import NOT_MEASURED, Results, Series, compact, table
from benchmarks.schedules import Schedule
from benchmarks.spark_exchange import SparkJob
from benchmarks.stages import StageCost, further
from benchmarks.stores import STORES, StoreRate
from benchmarks.targets import Verdict, judge
from benchmarks.throughput import Cell
from permitflow.protocol.permits import ChannelParameters

T = TypeVar("T")


def _listed(records: Iterable[T], columns: Mapping[str, Callable[[T], str]]) -> str:
    """A row for each record; each column is a function of the record."""
    return table([*columns], [[shown(record) for shown in columns.values()] for record in records])


def _by_way(shown: Callable[[Cell], str], unit: str, results: Results) -> str:
    cells = results.get("throughput", Cell)
    tuned = {cell.way for cell in cells if cell.is_tuned}
    # Those that were measured at their best have a row for the defaults as well.
    found = {
        (f"{cell.way}, defaults" if cell.way in tuned and not cell.is_tuned else cell.way, cell.payload): shown(cell)
        for cell in cells
    }
    sizes = [name for name in PAYLOADS if any(cell.payload == name for cell in cells)]
    names = dict.fromkeys(name for name, _ in found)
    return table([unit, *sizes], [[name, *(found.get((name, size), NOT_MEASURED) for size in sizes)] for name in names])


def _mebibytes(memory: Series) -> str:
    return f"{memory.median / 2**20:.0f}"


def _points(part: str, number: str, results: Results) -> str:
    return _listed(
        results.get(part, Point),
        {
            "": lambda point: f"{point.way}, {point.payload} rows",
            number: lambda point: f"{getattr(point, number):,}",
            "chunks/s": lambda point: point.chunks_per_second.told(),
            "p50 ms, full": lambda point: compact(point.median_milliseconds.median),
            "p99 ms, full": lambda point: compact(point.percentile_99_milliseconds.median),
            "MiB": lambda point: _mebibytes(point.peak_memory_bytes),
        },
    )


def defaults(results: Results) -> str:
    """The default window and batch beside the fastest of the curve: its throughput, and its costs."""
    rows = [*_default_rows(results, "windows", "row_permits"), *_default_rows(results, "batches", "permit_batch")]
    return table(["", "default", "of the fastest", "time on the way", "the fastest has", "time on the way"], rows)


def _default_rows(results: Results, part: str, number: str) -> Iterator[list[str]]:
    points, default = results.get(part, Point), getattr(ChannelParameters(), number)
    for way, payload in dict.fromkeys((point.way, point.payload) for point in points):
        curve = [point for point in points if (point.way, point.payload) == (way, payload)]
        fastest = max(curve, key=lambda point: point.chunks_per_second.median)
        for point in (point for point in curve if getattr(point, number) == default):
            yield [
                f"{number}, {way}, {payload} rows",
                f"{default:,}",
                f"{point.chunks_per_second.median / fastest.chunks_per_second.median:.0%}",
                f"{compact(point.median_milliseconds.median)} ms",
                f"{getattr(fastest, number):,}",
                f"{compact(fastest.median_milliseconds.median)} ms",
            ]


def delays(results: Results) -> str:
    full = "the pipe is full"
    return _listed(
        results.get("delays", DelayPoint),
        {
            "round trip": lambda point: f"{point.rtt_milliseconds:g} ms",
            "row_permits": lambda point: f"{point.row_permits:,}",
            "rows/s": lambda point: point.rows_per_second.told(),
            "simulated": lambda point: compact(point.predicted_rows_per_second),
            "turn-around of both processes": lambda point: (
                f"{point.turn_around_milliseconds:.1f} ms" if point.is_bound_by_window else full
            ),
        },
    )


def full_pipe(results: Results) -> str:
    points = results.get("delays", DelayPoint)
    largest = max((point.row_permits for point in points), default=0)
    return _listed(
        full_pipes(points),
        {
            "round trip": lambda pipe: f"{pipe.rtt_milliseconds:g} ms",
            "turn-around": lambda pipe: f"{pipe.turn_around_milliseconds:.1f} ms",
            "by the rule": lambda pipe: f"{pipe.by_network:,}",
            "by the rule, turn-around included": lambda pipe: f"{pipe.by_both:,}",
            "measured": lambda pipe: f"more than {largest:,}" if pipe.measured is None else f"{pipe.measured:,}",
        },
    )


def stalled(results: Results) -> str:
    return _listed(
        results.get("stalled", Stalled),
        {
            "rows of 500 bytes": lambda each: each.way,
            "row_permits": lambda each: f"{each.row_permits:,}",
            "MiB in a window": lambda each: f"{each.window_bytes / 2**20:.0f}",
            "MiB of both processes": lambda each: _mebibytes(each.peak_memory_bytes),
        },
    )


def channels(results: Results) -> str:
    return _listed(
        results.get("channels", IdleChannels),
        {
            "idle channels": lambda each: each.kind,
            "number": lambda each: f"{each.channels:,}",
            "KiB each": lambda each: f"{each.bytes_per_channel / 1024:,.0f}",
            "of a core, each": lambda each: f"{each.cpu_share_per_channel:.3%}",
        },
    )


def stores(results: Results) -> str:
    rates = {(rate.payload, rate.channels, rate.store): rate for rate in results.get("stores", StoreRate)}
    rows = []
    for payload, channels in dict.fromkeys((payload, channels) for payload, channels, _ in rates):
        memory, disk = (rates[payload, channels, store].chunks_per_second for store in STORES)
        where = f"{payload} rows, {channels} channel{'s' * (channels > 1)}"
        rows.append([where, memory.told(), disk.told(), disk.ratio_to(memory).told()])
    return table(["chunks per second", *(f"kept {place}" for place in ("in memory", "on disk")), "ratio"], rows)


def machine(results: Results) -> str:
    """The machine, and how thoroughly it was measured."""
    facts = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    by_rounds: dict[int, list[str]] = {}
    for part, count in results.rounds.items():
        by_rounds.setdefault(count, []).append(part)
    told = "; ".join(f"{count} round{'s' * (count > 1)} of {', '.join(parts)}" for count, parts in by_rounds.items())
    return f"{facts}. Seed {results.settings['seed']}; {told}."


def ways(_: Results) -> str:
    rows = [(way.name, str(way.group), way.about) for _, way in find_ways()[0].values()]
    return "\n".join(["| Way | Group | How |", "|---|---|---|", *("| " + " | ".join(row) + " |" for row in rows)])


def latency(results: Results) -> str:
    """Median and 99th percentile of chunks that are alone."""
    found = results.get("latency", Latency)
    medians = {each.way: each.median_microseconds.median for each in found}
    columns: dict[str, Callable[[Latency], str]] = {
        "µs, alone, every 2 ms": lambda each: each.way,
        "p50": lambda each: each.median_microseconds.told(),
        "p99": lambda each: compact(each.percentile_99_microseconds.median),
    }
    for peer in (name for name in LATENCY_PEERS.values() if name in medians):
        # Ratios of medians: ways that are not judged have fewer rounds.
        columns[f"p50 ÷ {peer.split(',')[0]}"] = lambda each, peer=peer: compact(medians[each.way] / medians[peer])  # type: ignore[misc]
    return _listed(found, columns)


def local(results: Results) -> str:
    rates = results.get("local", LocalRate)
    told = {(rate.candidate, rate.chunk_rows): rate.million_messages_per_second.told() for rate in rates}
    sizes = sorted({rate.chunk_rows for rate in rates})
    rows = [[name, *(told[name, size] for size in sizes)] for name in dict.fromkeys(name for name, _ in told)]
    return table(["million messages/s", *(f"{size:,} rows" for size in sizes)], rows)


def imbalance(results: Results) -> str:
    return _listed(
        results.get("imbalance", Imbalance),
        {
            "": lambda each: each.setup,
            "local rows/s": lambda each: each.local_rows_per_second.told(),
            "remote rows/s": lambda each: each.remote_rows_per_second.told(),
            "ratio": lambda each: each.ratio.told(),
            "local waits": lambda each: f"{each.local_back_pressure_rate.median:.1%}",
            "remote waits": lambda each: f"{each.remote_back_pressure_rate.median:.1%}",
        },
    )


def gate(carrier: str, results: Results) -> str:
    """All settings at all rates; times and rows per second also as multiples of the fixed window's, round by round."""
    runs = [run for run in results.get("gate", GateRun) if run.carrier == carrier]
    fixed = {run.rates: run for run in runs if run.setting == UNREAD}

    def multiple(read: Callable[[GateRun], Series]) -> Callable[[GateRun], str]:
        return lambda run: f"{read(run).ratio_to(read(fixed[run.rates])).median:.2f}"

    return _listed(
        runs,
        {
            "rates, setting": lambda run: f"{run.rates}, {run.setting}",
            "alignment, ms": lambda run: run.alignment_milliseconds.told(),
            "alignment ÷ not read": multiple(lambda run: run.alignment_milliseconds),
            "rows held then": lambda run: compact(run.held_rows.median),
            "most rows held": lambda run: compact(run.peak_held_rows.median),
            "rows/s": lambda run: run.rows_per_second.told(),
            "rows/s ÷ not read": multiple(lambda run: run.rows_per_second),
            "first row, ms": lambda run: compact(run.first_row_milliseconds.median),
            "rows in 20 ms": lambda run: compact(run.first_rows.median),
        },
    )


def schedules(results: Results) -> str:
    return _listed(
        results.get("schedules", Schedule),
        {
            "Schedule": lambda each: f"{each.schedule}, {each.size}/{each.batch}",
            "round trip": lambda each: f"{each.round_trip_milliseconds:g} ms",
            "messages/s, simulated": lambda each: f"{each.simulated_per_second:.0f}",
            "over TCP": lambda each: each.per_second.told(),
            "idle, simulated": lambda each: f"{each.simulated_idle_share:.0%}",
            "idle over TCP": lambda each: f"{each.idle_share.median:.0%}",
            "stalls for 100 messages": lambda each: (
                f"{100 * each.simulated_stalls_per_message:.0f}; {100 * each.stalls_per_message.median:.0f}"
            ),
            "requests": lambda each: f"{100 * each.requests_per_message:.0f}",
        },
    )


def call_windows(results: Results) -> str:
    return _listed(
        results.get("call_windows", CallWindow),
        {
            "Window": lambda each: "gRPC's own" if each.window_bytes is None else f"{each.window_bytes:,} bytes",
            "messages of": lambda each: f"{each.message_bytes:,} bytes",
            "unread at most, stated": lambda each: "-" if each.most_unread is None else f"{each.most_unread:,}",
            "measured": lambda each: f"{each.unread:,}",
            "messages/s": lambda each: each.per_second.told(),
            "÷ plain grpc.aio": lambda each: compact(each.per_second.ratio_to(each.plain_per_second).median),
        },
    )


def spark(results: Results) -> str:
    return _listed(
        results.get("spark", SparkJob),
        {
            "Spark": lambda job: f"{job.job}, beside {job.peer}",
            "seconds with the exchange": lambda job: job.seconds.told(),
            "without": lambda job: job.peer_seconds.told(),
            "rounds": lambda job: f"{len(job.seconds.values)}, after {job.warm_up_rounds}",
        },
    )


def checking(results: Results) -> str:
    return _listed(
        results.get("checking", CheckingSpeed),
        {
            "What": lambda each: each.what,
            "of": lambda each: f"{each.count:,} {each.unit}",
            "CPU seconds": lambda each: f"{each.cpu_seconds:.2f}",
            "each second": lambda each: compact(each.count / each.cpu_seconds),
        },
    )


def stages(results: Results) -> str:
    costs = results.get("stages", StageCost)

    def told(series: Series | None) -> str:
        return NOT_MEASURED if series is None else series.told()

    return _listed(
        costs,
        {
            "": lambda cost: f"{cost.element}, {cost.work}" + (f", {cost.steps} steps" if cost.steps > 1 else ""),
            "µs by hand": lambda cost: cost.generator_microseconds.told(),
            "µs by stages": lambda cost: cost.stage_microseconds.told(),
            "ratio": lambda cost: cost.ratio.told(),
            "ratio of a further step": lambda cost: told(further(costs, cost)),
        },
    )


def verdicts(results: Results) -> str:
    columns: dict[str, Callable[[Verdict], str]] = {
        "Promise": lambda verdict: verdict.promise,
        "found": lambda verdict: verdict.found.told(),
        "target": lambda verdict: f"{'≤' if verdict.is_upper_limit else '≥'} {verdict.target:g}",
        "verdict": lambda verdict: verdict.told,
    }
    return _listed(judge(results), columns)


TABLES: dict[str, Callable[[Results], str]] = {
    "machine": machine,
    "ways": ways,
    "throughput": partial(_by_way, lambda cell: cell.chunks_per_second.told(), "chunks/s, median (range)"),
    "processor": partial(_by_way, lambda cell: compact(cell.cpu_seconds_per_gigabyte.median), "CPU s/GB"),
    "memory": partial(_by_way, lambda cell: _mebibytes(cell.peak_memory_bytes), "MiB"),
    "settings": partial(_by_way, lambda cell: f"{cell.row_permits // 1024}k / {cell.permit_batch / 1024:g}k", "rows"),
    "latency": latency,
    "local": local,
    "imbalance": imbalance,
    "gate_in_a_process": partial(gate, LOCAL),
    "gate_near": partial(gate, NEAR),
    "gate_far": partial(gate, FAR),
    "schedules": schedules,
    "call_windows": call_windows,
    "windows": partial(_points, "windows", "row_permits"),
    "batches": partial(_points, "batches", "permit_batch"),
    "defaults": defaults,
    "delays": delays,
    "full_pipe": full_pipe,
    "stalled": stalled,
    "stores": stores,
    "channels": channels,
    "spark": spark,
    "checking": checking,
    "stages": stages,
    "verdicts": verdicts,
}
