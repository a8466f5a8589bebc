"""Results as Markdown tables; documents take them from here, by name."""

from collections.abc import Callable

from benchmarks import curve_tables, throughput_tables
from benchmarks.checking_speed import PART as CHECKING
from benchmarks.checking_speed import CheckingSpeed
from benchmarks.imbalance.experiment import Imbalance
from benchmarks.latency import ALONE, BURSTS, LATENCY_PEERS, Latency, Load
from benchmarks.local import LocalRate
from benchmarks.markdown_table import table
from benchmarks.measuring import COMPARISON, CURVES, SPARK
from benchmarks.peers.registry import find_ways
from benchmarks.results import Results
from benchmarks.series import compact
from benchmarks.spark_exchange.jobs import SparkJob
from benchmarks.sweep_speed import PART as SWEEP
from benchmarks.sweep_speed import SweepSpeed
from benchmarks.targets import Verdict, judge

__all__ = ["TABLES"]


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
    """Who is compared."""
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
            # Of medians: what nobody judges has fewer rounds.
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
    "throughput": throughput_tables.throughput,
    "reading": throughput_tables.reading,
    "processor": throughput_tables.processor,
    "memory": throughput_tables.memory,
    "settings": throughput_tables.settings,
    "latency": latency,
    "bursts": bursts,
    "local": local,
    "imbalance": imbalance,
    "windows": curve_tables.windows,
    "batches": curve_tables.batches,
    "defaults": curve_tables.defaults,
    "delays": curve_tables.delays,
    "full_pipe": curve_tables.full_pipe,
    "stalled": curve_tables.stalled,
    "stores": curve_tables.stores,
    "channels": curve_tables.channels,
    "spark": spark,
    "sweep": sweep,
    "checking": checking,
    "verdicts": verdicts,
}
