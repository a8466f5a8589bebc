"""The Spark job of the measurement, in a process of its own for each setting of Spark.

    python -m benchmarks.run_ahead.job '{"chunk_rows": [256], "total_rows": 400000, "settings": {}}'

Prints a line of JSON for each case.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from benchmarks.run_ahead import FREE_CHANNELS
from permitflow.demo.spark_session import local_session

# The consumer in the JVM sleeps so long over the first row.
STALL_MILLISECONDS = 15_000
# What has not changed for so long is taken for stalled.
STEADY_SECONDS = 1.0
LONGEST_SECONDS = 240.0
SCHEMA = "a LONG, b LONG, c LONG"
STALLS = f"if(a > 0, '', java_method('java.lang.Thread', 'sleep', {STALL_MILLISECONDS}L)) IS NOT NULL"


class Exchange:
    """The other process; for one thread at a time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Use ``exchange``."""
        self._process = process
        self.address = str(self._answer()["address"])

    def ask(self, *words: object) -> dict[str, Any]:
        """Ask, and read the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def exchange(chunk_rows: list[int], total_rows: int) -> Iterator[Exchange]:
    """Beside this process, because Spark's gateway must not be forked where gRPC runs."""
    told = json.dumps({"chunk_rows": chunk_rows, "total_rows": total_rows})
    command = [sys.executable, "-m", "benchmarks.run_ahead.exchange", told]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Exchange(process)
        finally:
            process.kill()


def stalled(served: Exchange, size: int, consumer: str) -> dict[str, int]:
    """Wait until nothing moves any more; what has moved until then."""
    last, since, began = served.ask("look", size, consumer), time.monotonic(), time.monotonic()
    while time.monotonic() - began < LONGEST_SECONDS:
        time.sleep(0.05)
        now = served.ask("look", size, consumer)
        if now != last:
            last, since = now, time.monotonic()
        elif now["returned"] and time.monotonic() - since > STEADY_SECONDS:
            return now
    raise TimeoutError(f"{consumer}, chunks of {size}: nothing moves, or it does not stall")


def measure(spark: SparkSession, served: Exchange, size: int, consumer: str) -> dict[str, object]:
    """Let one job read while its consumer is stalled, then to its end."""

    def watch() -> dict[str, int]:
        seen = stalled(served, size, consumer)
        if consumer == "writer":
            served.ask("release", size, consumer)
        return seen

    with tempfile.TemporaryDirectory() as traces, ThreadPoolExecutor(1) as pool:
        frame = reading(spark, served, f"in/{size}/{consumer}").option("trace_dir", traces)
        watching = pool.submit(watch)
        run(frame.load(), served.address, size, consumer)
        seen = watching.result()
        (told,) = (json.loads(path.read_text())[0] for path in Path(traces).glob("read-*.statistics.json"))
    hidden = seen["returned"] - seen["written"]
    return {"chunk_rows": size, "consumer": consumer, "hidden_rows": hidden, "metered": told["peak_run_ahead_rows"]}


def reading(spark: SparkSession, served: Exchange, channel: str) -> DataFrameReader:
    """A reader of one channel."""
    frame = spark.read.format("permitflow").schema(SCHEMA)
    return frame.option("address", served.address).option("channels", channel)


def rows_per_second(spark: SparkSession, served: Exchange, size: int, total_rows: int) -> list[float]:
    """How fast rows come while nobody stalls: each of the jobs after the first one."""
    seconds = []
    for number in range(FREE_CHANNELS):
        frame = reading(spark, served, f"in/{size}/free/{number}").load()
        began = time.monotonic()
        frame.write.format("noop").mode("overwrite").save()
        seconds.append(time.monotonic() - began)
    return [total_rows / each for each in seconds[1:]]


def run(frame: DataFrame, address: str, size: int, consumer: str) -> None:
    """The job."""
    if consumer == "jvm":
        frame.where(STALLS).write.format("noop").mode("overwrite").save()
        return
    writer = frame.write.format("permitflow").mode("append").option("address", address)
    writer.option("channels", f"out/{size}").save()


def main(chunk_rows: list[int], total_rows: int, settings: dict[str, str]) -> None:
    """All cases under one setting."""
    with (
        tempfile.TemporaryDirectory() as folder,
        exchange(chunk_rows, total_rows) as served,
        local_session("run-ahead", master="local[2]", work_dir=Path(folder), settings=settings) as spark,
    ):
        for size in chunk_rows:
            speeds = rows_per_second(spark, served, size, total_rows)
            for consumer in ("jvm", "writer"):
                case = measure(spark, served, size, consumer)
                print(json.dumps({**case, "free_rows_per_second": speeds}), flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
