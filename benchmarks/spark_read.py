"""What does reading from the exchange cost a Spark job, beside reading the same rows from Parquet?  Processor seconds.

    python -m benchmarks.spark_read --rounds 2

`permitflow serve` with the default window, a producer with its rows in memory, and a session as
`permitflow.spark.configure` makes it: all of them share the machine.  Counted are all processes of the session, the
exchange, and the producer, from when all of them have started; the rows go into Spark's own sink `noop`.  A Python
source with its rows in memory shows what Spark itself takes to be handed them.  `--chunk-rows N` tries other chunks,
`--row-permits N` other windows.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness import Partner, serving
from benchmarks.jobs import Payload
from benchmarks.spark_peers import CHUNK_ROWS, COLUMNS, ROWS, SLOTS, MemorySource, compare, measured, processor_seconds
from permitflow.exchange import stream_channels

STREAM = "orders"
# How a worker, and the producer, reach an exchange on their host.
CARRIERS = {
    "shared memory": ("127.0.0.1:0", "auto"),
    "TCP": ("tcp://127.0.0.1:0", "never"),
    "gRPC": ("127.0.0.1:0", "never"),
}


async def produce(pipe: object, address: str, same_host: str, rows: int, chunk_rows: int) -> None:
    """Connect, say so, and send the rows of each channel once told to."""
    import asyncio
    from contextlib import AsyncExitStack

    from permitflow.carriers.shared_memory import SameHost
    from permitflow.client import put

    payload = Payload("spark", chunk_rows)
    async with AsyncExitStack() as stack:
        senders = [
            await stack.enter_async_context(put(address, channel, payload.schema, same_host=SameHost(same_host)))
            for channel in stream_channels(STREAM, SLOTS)
        ]
        payload.distinct()
        pipe.send("ready")  # type: ignore[attr-defined]  # a connection
        await asyncio.to_thread(pipe.recv)  # type: ignore[attr-defined]

        async def feed(sender: object) -> None:
            for chunk in payload.chunks(rows // SLOTS // chunk_rows):
                await sender.send(chunk)  # type: ignore[attr-defined]
            await sender.end()  # type: ignore[attr-defined]

        await asyncio.gather(*map(feed, senders))
        pipe.send("done")  # type: ignore[attr-defined]
        await asyncio.to_thread(pipe.recv)  # type: ignore[attr-defined]


def _noop(data: DataFrame) -> None:
    data.write.format("noop").mode("overwrite").save()


def read_channels(spark: SparkSession, carrier: str, rows: int, chunk_rows: int, window: int | None) -> list[float]:
    """Processor seconds of the session, the exchange and the producer; and seconds."""
    listen, same_host = CARRIERS[carrier]
    options = ("--stream", f"{STREAM}:{SLOTS}", *(() if window is None else ("--row-permits", str(window))))
    with (
        serving(*options, "--address", listen) as (address, exchange),
        Partner(produce, address, same_host, rows, chunk_rows) as producer,
    ):
        producer.hears()
        data = (
            spark.read.format("permitflow")
            .schema("serial BIGINT, double BIGINT, square BIGINT")
            .options(address=address, stream=STREAM, channels=SLOTS, sameHost=same_host)
            .load()
        )
        before = [processor_seconds(pid) for pid in (exchange, producer.pid)]
        producer.tell("go")
        seconds, session = measured(partial(_noop, data))
        producer.hears()
        moving = [processor_seconds(pid) - start for pid, start in zip((exchange, producer.pid), before, strict=True)]
        producer.tell("end")
        return [session, *moving, seconds]


def read_here(data: DataFrame) -> list[float]:
    """Without an exchange."""
    seconds, session = measured(partial(_noop, data))
    return [session, 0.0, 0.0, seconds]


def _ways(spark: SparkSession, options: argparse.Namespace, folder: Path) -> dict[str, Callable[[], list[float]]]:
    spark.dataSource.register(MemorySource)
    file = str(folder / "table")
    spark.range(0, options.rows, 1, SLOTS).selectExpr(*COLUMNS).write.parquet(file)
    chunks = options.rows // SLOTS // CHUNK_ROWS
    ways: dict[str, Callable[[], list[float]]] = {
        "parquet": partial(read_here, spark.read.parquet(file)),
        "a source with its rows in memory": partial(
            read_here, spark.read.format(MemorySource.name()).option("chunks", chunks).load()
        ),
    }
    for carrier in options.carrier or CARRIERS:
        for rows in options.chunk_rows or [CHUNK_ROWS]:
            for window in options.row_permits or [None]:
                words = f"{carrier}, chunks of {rows}, window {window or 'as by default'}"
                ways[words] = partial(read_channels, spark, carrier, options.rows, rows, window)
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--carrier", action="append", choices=CARRIERS, help="may be repeated; all")
    parser.add_argument("--chunk-rows", type=int, action="append", default=[], help="may be repeated")
    parser.add_argument("--row-permits", type=int, action="append", default=[], help="with these chunks")
    options = parser.parse_args()
    compare("producer", options, _ways)


if __name__ == "__main__":
    main()
