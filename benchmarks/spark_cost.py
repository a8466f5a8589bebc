"""What does the exchange cost a Spark job, beside Parquet?  Processor seconds.

    python -m benchmarks.spark_cost read
    python -m benchmarks.spark_cost write --rounds 3

`permitflow serve` with the default window, a producer with its rows in memory or a consumer that counts them, and a
session as `permitflow.spark.configure` makes it, with Java's own defaults: all of them share the machine.  Counted are
Java, Spark's Python workers, the exchange, and the producer or consumer, from when all of them have started.  Rows that
are read go into Spark's own sink `noop`.  A Python source with its rows in memory, and a Python sink that throws its
rows away, show what Spark itself takes to hand rows over.
"""

import argparse
import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness import CHECKOUT, Partner, in_turns, serving
from benchmarks.jobs import Payload
from benchmarks.results import Series, table
from benchmarks.spark_peers import CHUNK_ROWS, SLOTS, MemorySource, NullSink
from permitflow.client import SameHost, get, put
from permitflow.exchange import stream_channels
from permitflow.spark.local_session import local_session

STREAM, PARQUET = "orders", "Parquet"
ROWS = 20_000_000
COLUMNS = ("id AS serial", "2 * id AS double", "id % 1009 AS square")
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BETWEEN_LOOKS_SECONDS = 0.1
# Java compiles the loops, and workers are started.
WARM_UP_ROUNDS = 1
# Those of `local_session` start fast, and leave out the compiler that makes long jobs fast.
SETTINGS = {"spark.driver.extraJavaOptions": ""}
# How a worker, and the producer or consumer, reach an exchange on their host.
CARRIERS = {
    "shared memory": ("127.0.0.1:0", "auto"),
    "TCP": ("tcp://127.0.0.1:0", "never"),
    "gRPC": ("127.0.0.1:0", "never"),
}

Way = Callable[[], list[float]]
"""Processor seconds of Java, the workers, the exchange, and the producer or consumer; and seconds."""


# Beside the session: ready, then told to go, then done; it ends with the pipe.


async def produce(pipe: Connection, address: str, same_host: str, rows: int, chunk_rows: int) -> None:
    """Send the rows of each channel."""
    payload = Payload("spark", chunk_rows)
    async with AsyncExitStack() as stack:
        senders = [
            await stack.enter_async_context(put(address, channel, payload.schema, same_host=SameHost(same_host)))
            for channel in stream_channels(STREAM, SLOTS)
        ]
        payload.distinct()
        pipe.send("ready")
        await asyncio.to_thread(pipe.recv)

        async def feed(sender: Any) -> None:
            for chunk in payload.chunks(rows // SLOTS // chunk_rows):
                await sender.send(chunk)
            await sender.end()

        await asyncio.gather(*map(feed, senders))
        pipe.send(rows)
        await asyncio.to_thread(pipe.recv)


async def consume(pipe: Connection, address: str, same_host: str) -> None:
    """Count the rows of all channels."""
    pipe.send("ready")
    await asyncio.to_thread(pipe.recv)

    async def count(channel: str) -> int:
        async with get(address, channel, same_host=SameHost(same_host)) as receiver:
            return sum([message.rows async for message in receiver])

    pipe.send(sum(await asyncio.gather(*map(count, stream_channels(STREAM, SLOTS)))))
    await asyncio.to_thread(pipe.recv)


# The session.


def processor_seconds(pid: int) -> float:
    """The processor time of a process and all of its descendants, those that have ended included."""
    process, seconds = psutil.Process(pid), 0.0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            seconds += sum(each.cpu_times()[:4])
    return seconds


class Workers:
    """The Python processes of a session, looked at often: some are killed, and then nobody knows their time."""

    def __init__(self, java: psutil.Process) -> None:
        self._java = java
        self._seconds: dict[psutil.Process, float] = {}
        self._is_over = threading.Event()
        self._looking = threading.Thread(target=self._look_on)

    def __enter__(self) -> "Workers":
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._looking.join()

    def _look_on(self) -> None:
        while not self._is_over.wait(BETWEEN_LOOKS_SECONDS):
            self.seconds()

    def seconds(self) -> float:
        """The processor time of all that there were."""
        for each in self._java.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                self._seconds[each] = sum(each.cpu_times()[:2])
        return sum([*self._seconds.values()])


def cost(run: Callable[[], None], beside: tuple[int, ...] = ()) -> list[float]:
    """Run a job; processor seconds of Java, a child of this process, of its workers, and of others; seconds."""
    (java,) = (each for each in psutil.Process().children() if each.name() == "java")

    def used() -> list[float]:
        return [sum(java.cpu_times()[:2]), workers.seconds(), *map(processor_seconds, beside)]

    with Workers(java) as workers:
        before, began = used(), time.perf_counter()
        run()
        seconds = time.perf_counter() - began
    found = [after - start for after, start in zip(used(), before, strict=True)]
    return [*found, *[0.0] * (4 - len(found)), seconds]


def noop(data: DataFrame) -> None:
    data.write.format("noop").mode("overwrite").save()


def through_an_exchange(
    served: tuple[str, ...],
    role: Callable[..., Any],
    arguments: tuple[object, ...],
    rows: int,
    job: Callable[[str], None],
) -> list[float]:
    """The cost of a job that reads or writes a stream at the address that it is given."""
    with (
        serving("--stream", f"{STREAM}:{SLOTS}", *served) as (address, exchange),
        Partner(role, address, *arguments) as partner,
    ):
        partner.hears()

        def run() -> None:
            partner.tell("go")
            job(address)
            assert (moved := partner.hears()) == rows, f"{moved:,} of {rows:,} rows came"

        found = cost(run, (exchange, partner.pid))
        partner.tell("end")
        return found


def reading(spark: SparkSession, rows: int, window: tuple[str, ...], _: list[int], folder: Path) -> dict[str, Way]:
    spark.dataSource.register(MemorySource)
    file = str(folder / "table")
    spark.range(0, rows, 1, SLOTS).selectExpr(*COLUMNS).write.parquet(file)
    memory = spark.read.format(MemorySource.name()).option("chunks", rows // SLOTS // CHUNK_ROWS).load()

    def job(same_host: str, address: str) -> None:
        stream = spark.read.format("permitflow").schema("serial BIGINT, double BIGINT, square BIGINT")
        noop(stream.options(address=address, stream=STREAM, channels=SLOTS, sameHost=same_host).load())

    ways: dict[str, Way] = {
        PARQUET: lambda: cost(lambda: noop(spark.read.parquet(file))),
        "a source with its rows in memory": lambda: cost(lambda: noop(memory)),
    }
    for carrier, (listen, same_host) in CARRIERS.items():
        served, arguments = ("--address", listen, *window), (same_host, rows, CHUNK_ROWS)
        ways[carrier] = partial(through_an_exchange, served, produce, arguments, rows, partial(job, same_host))
    return ways


def writing(spark: SparkSession, rows: int, window: tuple[str, ...], batches: list[int], _: Path) -> dict[str, Way]:
    spark.dataSource.register(NullSink)
    data = spark.range(0, rows, 1, SLOTS).selectExpr(*COLUMNS)

    def write_parquet() -> None:
        with tempfile.TemporaryDirectory() as folder:
            data.write.mode("append").parquet(f"{folder}/table")

    def job(same_host: str, address: str) -> None:
        stream = data.write.format("permitflow").mode("append")
        stream.options(address=address, stream=STREAM, channels=SLOTS, sameHost=same_host).save()

    def through(carrier: str, batch_rows: str) -> list[float]:
        listen, same_host = CARRIERS[carrier]
        spark.conf.set(BATCH_ROWS, batch_rows)
        served = ("--address", listen, *window)
        return through_an_exchange(served, consume, (same_host,), rows, partial(job, same_host))

    default = spark.conf.get(BATCH_ROWS) or ""
    ways: dict[str, Way] = {
        PARQUET: lambda: cost(write_parquet),
        "a sink that throws rows away": lambda: cost(data.write.format(NullSink.name()).mode("append").save),
    }
    ways |= {carrier: partial(through, carrier, default) for carrier in CARRIERS}
    return ways | {
        f"shared memory, batches of {each}": partial(through, "shared memory", str(each)) for each in batches
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=("read", "write"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=ROWS, help="a multiple of two chunks of 8,192")
    parser.add_argument("--batch-rows", type=int, action="append", default=[], help="of Spark's writes; repeatable")
    parser.add_argument("--row-permits", type=int, help="of the exchange; its default if it is not given")
    options = parser.parse_args()
    # Workers import the peers from here.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    ways_of = reading if options.job == "read" else writing
    # As many as the producer's chunks have.
    rows = options.rows // (SLOTS * CHUNK_ROWS) * SLOTS * CHUNK_ROWS
    with (
        tempfile.TemporaryDirectory() as folder,
        local_session("benchmark", master=f"local[{SLOTS}]", work_dir=Path(folder), settings=SETTINGS) as spark,
    ):
        window = ("--row-permits", str(options.row_permits)) if options.row_permits else ()
        ways = ways_of(spark, rows, window, options.batch_rows, Path(folder))
        in_turns(ways, WARM_UP_ROUNDS)
        found = in_turns(ways, options.rounds)
    heads = ("of Java", "of the workers", "of the exchange", "of the producer or consumer", "seconds")
    print(f"{rows:,} rows of three 64-bit numbers, {SLOTS} task slots; processor seconds")
    whole = {way: Series.of(sum(run[:-1]) for run in runs) for way, runs in found.items()}
    print(
        table(
            [
                {"way": way}
                | {head: Series.of(run[at] for run in runs) for at, head in enumerate(heads)}
                | {"all ÷ Parquet": whole[way].ratio_to(whole[PARQUET])}
                for way, runs in found.items()
            ]
        )
    )


if __name__ == "__main__":
    main()
