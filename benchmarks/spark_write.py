"""What does a direct write of a Spark job cost, beside writing the same rows as Parquet?  In processor seconds.

    python -m benchmarks.spark_write --rounds 2

`permitflow serve` with the default window, a consumer that counts rows, and a session as `permitflow.spark.configure`
makes it: all of them share the machine.  Counted are all processes of the session, the exchange, and the consumer, from
when all of them have started.  A Python sink that throws its rows away shows what Spark itself takes to hand them over.
`--batch-rows N` tries other Arrow batches of Spark, `--row-permits N` other windows.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness import Partner, serving
from benchmarks.spark_peers import COLUMNS, ROWS, SLOTS, NullSink, compare, measured, processor_seconds
from permitflow.exchange import stream_channels

STREAM = "orders"
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


async def consume(pipe: object, address: str) -> None:
    """Say that all is loaded, count the rows of all channels, and say how many."""
    import asyncio

    from permitflow.client import get

    pipe.send("ready")  # type: ignore[attr-defined]  # a connection

    async def count(channel: str) -> int:
        async with get(address, channel) as receiver:
            return sum([message.rows async for message in receiver])

    counts = await asyncio.gather(*map(count, stream_channels(STREAM, SLOTS)))
    pipe.send(sum(counts))  # type: ignore[attr-defined]  # a connection


def write_channels(data: DataFrame, rows: int, window: int | None) -> list[float]:
    """Processor seconds of the session, the exchange and the consumer; and seconds."""
    options = ("--stream", f"{STREAM}:{SLOTS}", *(() if window is None else ("--row-permits", str(window))))
    with serving(*options, "--address", "127.0.0.1:0") as (address, exchange), Partner(consume, address) as consumer:
        consumer.hears()
        before = [processor_seconds(pid) for pid in (exchange, consumer.pid)]
        seconds, session = measured(
            lambda: (
                data.write.format("permitflow")
                .mode("append")
                .options(address=address, stream=STREAM, channels=SLOTS)
                .save()
            )
        )
        assert (counted := consumer.hears()) == rows, f"{counted:,} of {rows:,} rows came"
        moving = [processor_seconds(pid) - start for pid, start in zip((exchange, consumer.pid), before, strict=True)]
        return [session, *moving, seconds]


def write_parquet(data: DataFrame) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        seconds, session = measured(lambda: data.write.mode("append").parquet(f"{folder}/table"))
    return [session, 0.0, 0.0, seconds]


def write_nowhere(data: DataFrame) -> list[float]:
    seconds, session = measured(lambda: data.write.format(NullSink.name()).mode("append").save())
    return [session, 0.0, 0.0, seconds]


def _ways(spark: SparkSession, options: argparse.Namespace) -> dict[str, Callable[[], list[float]]]:
    spark.dataSource.register(NullSink)
    data = spark.range(0, options.rows, 1, SLOTS).selectExpr(*COLUMNS)
    default = spark.conf.get(BATCH_ROWS) or ""

    def channels(batch_rows: str, window: int | None) -> list[float]:
        spark.conf.set(BATCH_ROWS, batch_rows)
        return write_channels(data, options.rows, window)

    ways: dict[str, Callable[[], list[float]]] = {
        "parquet": partial(write_parquet, data),
        "a sink that throws rows away": partial(write_nowhere, data),
        "the defaults": partial(channels, default, None),
    }
    for rows in options.batch_rows:
        for window in options.row_permits or [None]:
            words = f"batches of {rows}, window {window or 'as by default'}"
            ways[words] = partial(channels, str(rows), window)
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--batch-rows", type=int, action="append", default=[], help="may be repeated")
    parser.add_argument("--row-permits", type=int, action="append", default=[], help="with these batches")
    options = parser.parse_args()
    compare("consumer", options, lambda spark, options, _: _ways(spark, options))


if __name__ == "__main__":
    main()
