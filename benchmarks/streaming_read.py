"""How fast does a streaming query read channels that keep their rows, with the defaults of all that takes part?

    python -m benchmarks.streaming_read --rounds 3

`permitflow serve --retention replay` with two channels, a producer that never stops, and a query into Spark's `noop`
sink, and into Parquet: all of them share the machine.  In turns with it, the same query on a Python source that has its
rows in memory, in batches of as many rows: what Spark itself can do here.
"""

import argparse
import asyncio
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import product
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.harness import Partner, in_turns, serving
from benchmarks.results import Series, table
from benchmarks.spark_peers import CHUNK_ROWS, PAYLOAD, SLOTS, MemorySource, session
from permitflow.chunks import DEFAULT_KEPT_ROWS
from permitflow.exchange import stream_channels

STREAM = "orders"
BURST_CHUNKS = 16
CHUNKS_OF_A_TASK = DEFAULT_KEPT_ROWS // 2 // CHUNK_ROWS
# Batches that fill the exchange, and start workers.
WARM_UP_BATCHES = 3
LEAST_BATCHES = 3
# The first throws rows away: then only the source is measured.
SINKS = ("noop", "parquet")


async def produce(_pipe: object, address: str) -> None:
    """Put chunks into all channels, until this process is killed."""
    from permitflow.client import put

    async def feed(channel: str) -> None:
        async with put(address, channel, PAYLOAD.schema) as sender:
            while True:
                await sender.send_many(deque(PAYLOAD.chunks(BURST_CHUNKS)))

    await asyncio.gather(*(feed(channel) for channel in stream_channels(STREAM, SLOTS)))


def rows_per_second(data: DataFrame, sink: str, seconds: float) -> float:
    """Run a query for these seconds; return the rate of its batches, without the first ones and the last."""

    def measured(query: StreamingQuery) -> list[StreamingQueryProgress]:
        return [batch for batch in query.recentProgress if batch.numInputRows][WARM_UP_BATCHES:]

    with tempfile.TemporaryDirectory() as folder:
        writer = data.writeStream.format(sink).option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.start(f"{folder}/table")
        began = time.monotonic()
        while query.isActive and (time.monotonic() - began < seconds or len(measured(query)) < LEAST_BATCHES):
            time.sleep(0.1)
        if error := query.exception():
            raise error
        query.stop()
    batches = measured(query)
    first, last = (datetime.fromisoformat(batch.timestamp) for batch in (batches[0], batches[-1]))
    return sum(batch.numInputRows for batch in batches[:-1]) / (last - first).total_seconds()


def exchange_rate(spark: SparkSession, sink: str, seconds: float, window: Sequence[str]) -> float:
    """Rows per second through an exchange with this window, or the default."""
    options = ("--stream", f"{STREAM}:{SLOTS}", "--retention", "replay", *window, "--address", "127.0.0.1:0")
    with serving(*options) as (address, _):
        producer = Partner(produce, address)
        try:
            data = spark.readStream.format("permitflow").options(address=address, stream=STREAM, channels=SLOTS).load()
            return rows_per_second(data, sink, seconds)
        finally:
            producer.kill()


def memory_rate(spark: SparkSession, sink: str, seconds: float) -> float:
    data = spark.readStream.format("memory_chunks").option("chunks", CHUNKS_OF_A_TASK).load()
    return rows_per_second(data, sink, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each query in each round")
    parser.add_argument("--row-permits", type=int, action="append", default=[], help="another window; may be repeated")
    options = parser.parse_args()
    ways: dict[str, Callable[[SparkSession, str, float], float]] = {"the defaults": partial(exchange_rate, window=())}
    for rows in options.row_permits:
        ways[f"--row-permits {rows}"] = partial(exchange_rate, window=("--row-permits", str(rows)))
    ways["rows in memory"] = memory_rate
    with tempfile.TemporaryDirectory() as folder, session(Path(folder)) as spark:
        spark.sparkContext.setLogLevel("OFF")  # a query that is stopped in the middle of a batch prints pages
        spark.dataSource.register(MemorySource)
        runs = {(way, sink): partial(ways[way], spark, sink, options.seconds) for way, sink in product(ways, SINKS)}
        found = in_turns(runs, options.rounds)
    head = "streaming query of two channels, two task slots"
    print(table([{head: w} | {f"rows/s into {sink}": Series.of(found[w, sink]) for sink in SINKS} for w in ways]))


if __name__ == "__main__":
    main()
