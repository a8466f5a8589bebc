"""The parts of a run, one after the other."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict

from rich.console import Console

from benchmarks.curves import measure_batches, measure_delays, measure_stalled, measure_windows
from benchmarks.field import Field, Settings, open_field
from benchmarks.idle_channels import measure_idle_channels
from benchmarks.imbalance.experiment import measure_imbalance
from benchmarks.latency import measure_bursts, measure_latency
from benchmarks.local_channel import measure_local
from benchmarks.results import Record, Results, describe_machine
from benchmarks.stores import measure_stores
from benchmarks.throughput import measure_stream_ends, measure_throughput

__all__ = ["COMPARISON", "CURVES", "PARTS", "SPARK", "measure"]

Alone = Callable[[Settings], Sequence[Record]]
Among = Callable[[Field], Awaitable[Sequence[Record]]]


def measure_spark_jobs(settings: Settings) -> Sequence[Record]:
    """Spark is loaded only if it is asked for."""
    from benchmarks.spark_exchange.experiment import measure_spark

    return measure_spark(settings.rounds, settings.seed, is_smoke=settings.is_smoke)


# Parts that start processes of their own, or none.
ALONE: dict[str, Alone] = {
    "imbalance": lambda settings: measure_imbalance(settings.rounds, settings.seed, is_smoke=settings.is_smoke),
    "local": lambda settings: measure_local(settings.rounds, settings.seed, is_smoke=settings.is_smoke),
    "spark": measure_spark_jobs,
    "stores": lambda settings: measure_stores(settings.rounds, settings.seed, is_smoke=settings.is_smoke),
    "channels": lambda settings: measure_idle_channels(is_smoke=settings.is_smoke),
}
# Parts in which the ways compete.
AMONG_WAYS: dict[str, Among] = {
    "throughput": measure_throughput,
    "latency": measure_latency,
    "ends": measure_stream_ends,
    "bursts": measure_bursts,
    "windows": measure_windows,
    "batches": measure_batches,
    "delays": measure_delays,
    "stalled": measure_stalled,
}
PARTS = (*ALONE, *AMONG_WAYS)
# How our own figures depend on numbers: minutes more, and nothing that others are compared with.
CURVES = ("bursts", "windows", "batches", "delays", "stalled", "stores", "channels")
# Minutes more of another kind: jobs of Spark, most of whose time is the warming up of its Java processes.
SPARK = ("spark",)
COMPARISON = tuple(part for part in PARTS if part not in CURVES + SPARK)


def measure(parts: Sequence[str], settings: Settings, console: Console) -> Results:
    """Measure these parts."""
    results = Results(machine=describe_machine(), settings=asdict(settings))
    for part in (part for part in parts if part in ALONE):
        console.print(f"{part} …")
        began = time.monotonic()
        records = ALONE[part](settings)
        results.put(part, records, time.monotonic() - began)
    among = [part for part in parts if part in AMONG_WAYS]
    if among:
        asyncio.run(_compete(among, results, settings, console))
    return results


async def _compete(parts: Sequence[str], results: Results, settings: Settings, console: Console) -> None:
    async with open_field(settings, console) as field:
        for part in parts:
            began = time.monotonic()
            records = await AMONG_WAYS[part](field)
            results.put(part, records, time.monotonic() - began)
        results.failures = field.failures
