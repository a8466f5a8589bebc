"""Millions of rows through gRPC: the bound holds, and a slow consumer costs no memory at either end.

    python benchmarks/soak_grpc.py --rows 10000000 --slow-seconds 30

Two processes on one machine: an exchange with its producer, and a consumer.  First at full speed; then with a
consumer that is a hundred times slower, while the memory of both processes is watched.  Exit code 1: a promise broke.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
ENDPOINT = [sys.executable, "-m", "tests.support.endpoints"]
SLOWDOWN = 100
SAMPLE_SECONDS = 0.1
# The first part of a run fills caches and pools; memory is judged afterwards.
WARM_UP_SHARE = 0.3
# A producer without back-pressure would run ahead by hundreds of MB each second.
MOST_GROWTH_BYTES_PER_SECOND = 256 * 1024.0
# This many samples show a slope as well as more do.
MOST_SAMPLES = 400
LONGEST_SECONDS = 3600.0


class Sample(NamedTuple):
    """Resident memory of both processes at one time."""

    seconds: float
    source_bytes: int
    consumer_bytes: int


class Run(NamedTuple):
    seconds: float
    source: dict[str, Any]
    """The statistics of the channel, as its exchange told them."""
    consumed_rows: int
    samples: list[Sample]


def run(options: argparse.Namespace, *, rows: int, pause_seconds: float) -> Run:
    """Move so many rows from one process to another, and watch both."""
    common = ["--row-permits", str(options.row_permits), "--chunk-rows", str(options.chunk_rows)]
    source = subprocess.Popen(
        [*ENDPOINT, "source", "--rows", str(rows), *common], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    address = heard(source, "ready")["address"]
    consume = [*ENDPOINT, "consume", address, *common, "--pause-seconds", str(pause_seconds)]
    consumer = subprocess.Popen(consume, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        heard(consumer, "ready")
        heard(consumer, "flowing")
        began = time.monotonic()
        samples = watch(source, consumer, began)
        seconds = time.monotonic() - began
        done = heard(consumer, "done")
        return Run(seconds, heard(source, "done")["statistics"], done["rows"], samples)
    finally:
        for process in (source, consumer):
            process.kill()
            process.communicate()


def heard(process: "subprocess.Popen[str]", event: str) -> dict[str, Any]:
    """The next line of a process, which must report this event."""
    assert process.stdout is not None
    line = process.stdout.readline()
    told: dict[str, Any] = json.loads(line) if line else {"event": "nothing: it has ended"}
    if told["event"] != event:
        raise SystemExit(f"{process.args!r} said {told}, expected {event}")
    return told


def watch(source: "subprocess.Popen[str]", consumer: "subprocess.Popen[str]", began: float) -> list[Sample]:
    samples: list[Sample] = []
    here, there = psutil.Process(source.pid), psutil.Process(consumer.pid)
    while True:
        try:
            consumer.wait(SAMPLE_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() - began > LONGEST_SECONDS:
                raise SystemExit(f"nothing came to an end within {LONGEST_SECONDS:g} s") from None
        else:
            return samples
        try:
            sample = Sample(time.monotonic() - began, here.memory_info().rss, there.memory_info().rss)
        except psutil.NoSuchProcess:
            return samples
        samples.append(sample)


def growth_bytes_per_second(times: list[float], sizes: list[int]) -> float:
    """The slope of memory over time, after warming up.

    It is the median of the slopes between any two samples.  A pool that is filled late is a single step, which is
    between fewer than half of them; whatever grows all the time does so between nearly all.
    Source: P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, 1968.
    """
    skipped = int(len(times) * WARM_UP_SHARE)
    samples = list(zip(times, sizes, strict=True))[skipped :: len(times) // MOST_SAMPLES + 1]
    return statistics.median(
        (later - earlier) / (end - begin) for (begin, earlier), (end, later) in itertools.combinations(samples, 2)
    )


def broken_promises(name: str, result: Run, rows: int, row_permits: int) -> list[str]:
    channel = result.source
    peaks = {channel["name"]: channel["numbers"]["peak_rows_held"]} | {
        stream["stream"]: stream["numbers"]["peak_rows_held"] for stream in channel["streams"]
    }
    broken = [
        f"{name}: {peak} permits were out on {where}, more than {row_permits}"
        for where, peak in peaks.items()
        if peak > row_permits
    ]
    if result.consumed_rows != rows:
        broken.append(f"{name}: {result.consumed_rows} rows arrived, not {rows}")
    return broken


def growths(result: Run) -> dict[str, float]:
    """The growth of each process's memory, in bytes per second."""
    times = [sample.seconds for sample in result.samples]
    return {
        "source": growth_bytes_per_second(times, [sample.source_bytes for sample in result.samples]),
        "consumer": growth_bytes_per_second(times, [sample.consumer_bytes for sample in result.samples]),
    }


def growing(by_process: dict[str, float]) -> list[str]:
    """The processes whose memory does not stay flat."""
    return [
        f"slow consumer: the memory of the {who} grows by {growth / 1024:.0f} KiB per second"
        for who, growth in by_process.items()
        if growth > MOST_GROWTH_BYTES_PER_SECOND
    ]


def figures(result: Run, rows: int) -> dict[str, float]:
    numbers = result.source["numbers"]
    (stream,) = result.source["streams"]
    return {
        "rows": rows,
        "chunks": numbers["sent_chunks"],
        "seconds": result.seconds,
        "rows_per_second": rows / result.seconds,
        "peak_rows_held": stream["numbers"]["peak_rows_held"],
        "peak_rows_in_the_exchange": numbers["peak_rows_held"],
        "blocked_share": numbers["waiting_seconds"] / numbers["open_seconds"],
        "source_mib": max((sample.source_bytes for sample in result.samples), default=0) / 2**20,
        "consumer_mib": max((sample.consumer_bytes for sample in result.samples), default=0) / 2**20,
    }


def soak(options: argparse.Namespace) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Both runs: their figures, and the promises that broke."""
    fast = run(options, rows=options.rows, pause_seconds=0.0)
    report = {"full speed": figures(fast, options.rows)}
    broken = broken_promises("full speed", fast, options.rows, options.row_permits)
    rate = report["full speed"]["rows_per_second"] / SLOWDOWN
    slow_rows = max(int(rate * options.slow_seconds), options.row_permits * 4)
    slow = run(options, rows=slow_rows, pause_seconds=options.chunk_rows / rate)
    growth = growths(slow)
    per_second = {f"{who}_growth_kib_per_second": bytes_ / 1024 for who, bytes_ in growth.items()}
    report["slow consumer"] = figures(slow, slow_rows) | per_second
    broken += broken_promises("slow consumer", slow, slow_rows, options.row_permits) + growing(growth)
    return report, broken


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows at full speed")
    parser.add_argument("--slow-seconds", type=float, default=30.0, help="how long the slow consumer is watched")
    parser.add_argument("--row-permits", type=int, default=32_768)
    parser.add_argument("--chunk-rows", type=int, default=1024)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    report, broken = soak(options)
    if options.json:
        print(json.dumps({"runs": report, "bound": options.row_permits, "broken": broken}))
    else:
        for name, numbers in report.items():
            print(f"{name} (bound {options.row_permits} rows)")
            for what, value in numbers.items():
                print(f"  {what.replace('_', ' '):34}{value:>16,.2f}")
        print(*(broken or ["every promise held"]), sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
