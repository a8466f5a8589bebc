"""The parts of a run, one after the other."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial

from rich.console import Console

from benchmarks.curves import measure_batches, measure_delays, measure_stalled, measure_windows
from benchmarks.field import Field, Settings, open_field
from benchmarks.idle_channels import measure_idle_channels
from benchmarks.imbalance import measure_imbalance
from benchmarks.latency import measure_latency
from benchmarks.local_channel import measure_local
from benchmarks.model_checking import measure_checking
from benchmarks.results import Record, Results, describe_machine
from benchmarks.stores import measure_stores
from benchmarks.throughput import measure_stream_ends, measure_throughput


def measure_spark_jobs(settings: Settings) -> Sequence[Record]:
    """Spark is loaded only if it is asked for."""
    from benchmarks.spark_exchange.experiment import measure_spark

    return measure_spark(settings)


# Parts that start processes of their own, or none.
ALONE: dict[str, Callable[[Settings], Sequence[Record]]] = {
    "imbalance": measure_imbalance,
    "local": measure_local,
    "spark": measure_spark_jobs,
    "stores": measure_stores,
    "channels": measure_idle_channels,
    "checking": measure_checking,
}
# Parts in which the ways compete.
AMONG_WAYS: dict[str, Callable[[Field], Sequence[Record]]] = {
    "throughput": measure_throughput,
    "latency": measure_latency,
    "ends": measure_stream_ends,
    "windows": measure_windows,
    "batches": measure_batches,
    "delays": measure_delays,
    "stalled": measure_stalled,
}
PARTS = (*ALONE, *AMONG_WAYS)
# Ours beside others; jobs of Spark; how our own figures depend on numbers; and checking.  All but the first take
# minutes more, and compare nothing with others.
COMMANDS = {
    "make bench": ("imbalance", "local", "throughput", "latency", "ends"),
    "make bench-spark": ("spark",),
    "make curves": ("stores", "channels", "windows", "batches", "delays", "stalled"),
    "make bench-models": ("checking",),
}


def measure(parts: Sequence[str], settings: Settings, console: Console) -> Results:
    results = Results(machine=describe_machine(), settings=asdict(settings))
    for part in (part for part in ALONE if part in parts):
        console.print(f"{part} …")
        _put(results, part, partial(ALONE[part], settings))
    if any(part in AMONG_WAYS for part in parts):
        with open_field(settings, console) as field:
            for part in (part for part in AMONG_WAYS if part in parts):
                _put(results, part, partial(AMONG_WAYS[part], field))
            results.failures = field.failures
    return results


def _put(results: Results, part: str, measured: Callable[[], Sequence[Record]]) -> None:
    began = time.monotonic()
    records = measured()
    results.put(part, records, time.monotonic() - began)
