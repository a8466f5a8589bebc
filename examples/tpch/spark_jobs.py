"""The Spark jobs of both demos, each in a process of its own.

Run as ``python -m examples.tpch.spark_jobs JOB '<JSON of its settings>'``; the jobs are the keys of ``JOBS``.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from permitflow.client.blocking import control
from permitflow.errors import PeerGoneError, PeerTimeoutError
from permitflow.spark import register
from permitflow.spark.local_session import CLUSTER, SHUFFLE_PARTITIONS, local_session
from permitflow.stream.control import ChannelState

from ..child_process import report
from .settings import LATE_ITEMS, LINE_ITEMS, STREAM, PartSettings
from .tables import (
    ALL_LATE_ITEMS,
    LATE_LINE_ITEMS,
    PRIORITIES_OF_LATE_ITEMS,
    TABLES,
    WHOLE_QUERY,
    ShippingMode,
)

# How often the streaming job looks whether everything has come; nothing waits for it but the end of the demo.
LOOK_SECONDS = 1

STREAMING_SETTINGS = {
    # Spark repeats tasks here anyway: let it also repeat those that are merely slow.
    "spark.speculation": "true",
    # Without this its local cluster gives up a job that has lost ten executors.
    "spark.deploy.maxExecutorRetries": "-1",
    # The model replays all batches, and Spark would forget those before the last hundred.
    "spark.sql.streaming.minBatchesToRetain": "1000000",
}


def send(settings: PartSettings) -> None:
    """Spark job 1: put the late line items of query 12 into the exchange, one task for each channel."""
    # All channels of the stream at the same time: a task that waits for the others would starve.
    slots = f"local[{settings.channels}]"
    with local_session("permitflow demo: sending", master=slots, work_dir=Path(settings.work_dir)) as spark:
        report("started", text="Spark has started")
        spark.read.parquet(settings.table("lineitem")).createOrReplaceTempView("lineitem")
        late = spark.sql(LATE_LINE_ITEMS).repartition(settings.channels)
        writer = late.write.format("permitflow").mode("append").options(**settings.exchange_options(STREAM))
        writer.option("traceDir", str(settings.traces)).option("chunkRows", str(settings.chunk_rows)).save()
        report("sent", text="everything was sent, and the exchange has accepted it")


def receive(settings: PartSettings) -> None:
    """Spark job 2: read the late line items from the exchange, join the orders, and aggregate.

    Afterwards, in the same session, it runs the whole query on the files, for comparison.
    """
    # All channels of the stream at the same time: a task that waits for the others would starve.
    slots = f"local[{settings.channels}]"
    with local_session("permitflow demo: receiving", master=slots, work_dir=Path(settings.work_dir)) as spark:
        report("started", text="Spark has started")
        for table in TABLES:
            spark.read.parquet(settings.table(table)).createOrReplaceTempView(table)
        exchange = spark.read.format("permitflow").options(**settings.exchange_options(STREAM))
        exchange.option("traceDir", str(settings.traces)).load().createOrReplaceTempView("late_line_items")
        queries = {
            "query_through_exchange": ("query 12 through the exchange", PRIORITIES_OF_LATE_ITEMS),
            "query_directly": ("query 12 directly", WHOLE_QUERY),
        }
        for event, (what, query) in queries.items():
            began = monotonic()
            rows = answer(spark.sql(query))
            seconds = monotonic() - began
            report(event, text=f"{what} took {seconds:.1f} s", rows=rows, seconds=seconds)


def answer(query: DataFrame) -> list[ShippingMode]:
    """The rows of query 12."""
    return [ShippingMode(row[0], row[1], row[2]) for row in query.collect()]


def directly(settings: PartSettings) -> None:
    """What the streaming job is compared with: the late items, and query 12, by Spark alone, from the files."""
    slots = f"local[{settings.channels}]"
    with local_session("permitflow demo: directly", master=slots, work_dir=Path(settings.work_dir)) as spark:
        for table in TABLES:
            spark.read.parquet(settings.table(table)).createOrReplaceTempView(table)
        spark.sql(ALL_LATE_ITEMS).select("l_orderkey", "l_linenumber").write.parquet(str(settings.direct_answer))
        report("answer", text="query 12 was answered directly", rows=answer(spark.sql(WHOLE_QUERY)))


def stream(settings: PartSettings) -> None:
    """The streaming query: join line items from the exchange with the orders, and put the late ones back.

    It runs until its source has ended and all of it is published; then it closes the channels that it has written.
    """
    work_dir = Path(mkdtemp(prefix="spark-", dir=settings.work_dir))
    name = "permitflow demo: streaming"
    with local_session(name, master=CLUSTER, work_dir=work_dir, settings=STREAMING_SETTINGS) as spark:
        report("started", text="Spark has started")
        follow_to_end(start(spark, settings), settings)


def start(spark: SparkSession, settings: PartSettings) -> StreamingQuery:
    """Start the query; if it was there before, it goes on."""
    register(spark)
    source = spark.readStream.format("permitflow").options(**settings.exchange_options(LINE_ITEMS))
    source.option("traceDir", str(settings.traces)).load().createOrReplaceTempView("lineitem")
    orders = spark.read.parquet(settings.table("orders")).select("o_orderkey", "o_orderpriority")
    # Each batch joins it: with all orders at scale 1, most of its time would go to shuffling and sorting them again.
    placed = orders.repartition(SHUFFLE_PARTITIONS, "o_orderkey").sortWithinPartitions("o_orderkey")
    placed.cache().createOrReplaceTempView("orders")
    sink = spark.sql(ALL_LATE_ITEMS).writeStream.format("permitflow").options(**settings.exchange_options(LATE_ITEMS))
    return sink.option("checkpointLocation", str(settings.checkpoint)).start()


def follow_to_end(query: StreamingQuery, settings: PartSettings) -> None:
    """Wait until no more rows can come and the query has processed all of them; its channels are closed by then."""
    while not query.awaitTermination(LOOK_SECONDS):
        # While the exchange is away, the query waits for it, and so does this.
        with suppress(PeerGoneError, PeerTimeoutError):
            if end_of(settings):
                query.stop()
                return


def end_of(settings: PartSettings) -> bool:
    """Have all rows come, and has the query's commit log all of them?  Then nothing follows on its own channels."""
    with control(settings.address, timeout_seconds=settings.timeout_seconds) as orders:
        positions = orders.positions(settings.line_items)
        for position in positions:
            if position.state is not ChannelState.ENDED or position.acknowledged_row < position.next_row:
                return False
        orders.close_channels(settings.late_items)
    rows = sum(position.next_row for position in positions)
    report("finished", text=f"{rows:,} rows were read, and their late ones published", rows=rows)
    return True


JOBS: dict[str, Callable[[PartSettings], None]] = {job.__name__: job for job in (send, receive, directly, stream)}


if __name__ == "__main__":
    JOBS[sys.argv[1]](PartSettings.from_command_line())
