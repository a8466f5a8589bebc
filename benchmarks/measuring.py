"""The parts of a run, one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

from rich.console import Console

from benchmarks.call_windows import measure_call_windows
from benchmarks.curves import measure_batches, measure_delays, measure_stalled, measure_windows
from benchmarks.field import Field, Settings, open_field
from benchmarks.gate import measure_gate
from benchmarks.idle_channels import measure_idle_channels
from benchmarks.imbalance import measure_imbalance
from benchmarks.latency import measure_latency
from benchmarks.local_channel import measure_local
from benchmarks.model_checking import measure_checking
from benchmarks.results import Record, Results, describe_machine
from benchmarks.schedules import measure_schedules
from benchmarks.stages import measure_stages
from benchmarks.stores import measure_stores
from benchmarks.throughput import measure_stream_ends, measure_throughput


def measure_spark_jobs(settings: Settings) -> Sequence[Record]:
    """Spark is loaded only if it is asked for."""
    from benchmarks.spark_exchange.experiment import measure_spark

    return measure_spark(settings)


# Parts that start processes of their own, or none.
ALONE: dict[str, Callable[[Settings], Sequence[Record]]] = {
    "imbalance": measure_imbalance,
    "gate": measure_gate,
    "local": measure_local,
    "stages": measure_stages,
    "spark": measure_spark_jobs,
    "stores": measure_stores,
    "channels": measure_idle_channels,
    "checking": measure_checking,
    "schedules": measure_schedules,
    "call_windows": measure_call_windows,
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
# Ours beside others.
COMPARISON = ("imbalance", "local", "stages", "throughput", "latency", "ends")
# How our own figures depend on numbers: minutes more, and nothing that others are compared with.
CURVES = ("stores", "channels", "schedules", "call_windows", "windows", "batches", "delays", "stalled")


def measure(parts: Sequence[str], settings: Settings, console: Console) -> Results:
    results = Results(machine=describe_machine(), settings=asdict(settings))
    for part in (part for part in ALONE if part in parts):
        console.print(f"{part} …")
        results.put(part, ALONE[part](settings))
    if any(part in AMONG_WAYS for part in parts):
        with open_field(settings, console) as field:
            for part in (part for part in AMONG_WAYS if part in parts):
                results.put(part, AMONG_WAYS[part](field))
            results.failures = field.failures
    return results
