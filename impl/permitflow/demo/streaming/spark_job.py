"""The streaming query: joins line items that come from the exchange with the orders, and puts the late ones back.

Run as ``python -m permitflow.demo.streaming.spark_job '<JSON of PartSettings>'``.
"""

import sys
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from permitflow.demo.events import report
from permitflow.demo.spark_session import SHUFFLE_PARTITIONS, local_session
from permitflow.demo.streaming.cluster import CLUSTER, local_cluster
from permitflow.demo.streaming.late_items import ALL_LATE_ITEMS
from permitflow.demo.streaming.settings import LATE_ITEMS, LINE_ITEMS, PartSettings
from permitflow.spark import register

__all__ = ["main"]

# How often it looks whether everything has come; nothing waits for it but the end of the demo.
LOOK_SECONDS = 1


def main(settings: PartSettings) -> None:
    """Run the query until its source has ended and all of it is published, then end what it has written."""
    work_dir = Path(mkdtemp(prefix="spark-", dir=settings.work_dir))
    local_cluster(work_dir)
    with local_session("permitflow demo: streaming", master=CLUSTER, work_dir=work_dir, settings=SETTINGS) as spark:
        report("started", text="Spark has started")
        follow_to_end(start(spark, settings), settings)


SETTINGS = {
    # Spark is in the business of repeating tasks here: let it also do so with those that are merely slow.
    "spark.speculation": "true",
    # Without this its local cluster gives up a job that has lost ten executors.
    "spark.deploy.maxExecutorRetries": "-1",
    # The model replays all batches, and Spark would forget those before the last hundred.
    "spark.sql.streaming.minBatchesToRetain": "1000000",
}


def start(spark: SparkSession, settings: PartSettings) -> StreamingQuery:
    """Start the query; if it was there before, it goes on."""
    register(spark)
    source = spark.readStream.format("permitflow").options(**settings.exchange_options(LINE_ITEMS))
    source.option("trace_dir", str(settings.query_trace)).load().createOrReplaceTempView("lineitem")
    orders = spark.read.parquet(settings.table("orders")).select("o_orderkey", "o_orderpriority")
    # Each batch joins it: with all orders at scale 1, most of its time would go to shuffling and sorting them again.
    placed = orders.repartition(SHUFFLE_PARTITIONS, "o_orderkey").sortWithinPartitions("o_orderkey")
    placed.cache().createOrReplaceTempView("orders")
    sink = spark.sql(ALL_LATE_ITEMS).writeStream.format("permitflow").options(**settings.exchange_options(LATE_ITEMS))
    return sink.option("checkpointLocation", str(settings.checkpoint)).start()


def follow_to_end(query: StreamingQuery, settings: PartSettings) -> None:
    """Wait until no row will come any more and the query is done with all of them; by then its channels are closed."""
    # gRPC must not be loaded before Spark's JVM has been started.
    from permitflow.errors import PeerGoneError, PeerTimeoutError

    while not query.awaitTermination(LOOK_SECONDS):
        # Where the exchange is away for a while, the query waits for it, and so does this.
        with suppress(PeerGoneError, PeerTimeoutError):
            if end_of(settings):
                query.stop()
                return


def end_of(settings: PartSettings) -> bool:
    """Have all rows come, and has the query's commit log all of them?  Then nothing follows on its own channels."""
    from permitflow.protocol.control import ChannelState
    from permitflow.transports.grpc_blocking import control

    with control(settings.address, timeout_seconds=settings.timeout_seconds) as orders:
        positions = orders.positions(settings.line_items)
        for position in positions:
            if position.state is not ChannelState.ENDED or position.acknowledged_row < position.next_row:
                return False
        orders.close_channels(settings.late_items)
    rows = sum(position.next_row for position in positions)
    report("finished", text=f"{rows:,} rows were read, and their late ones published", rows=rows)
    return True


if __name__ == "__main__":
    main(PartSettings.from_json(sys.argv[1]))
