"""The two Spark jobs: one has orders, the other one wants their scores."""

from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from benchmarks.slow_service.programs import ORDERS, Settings, decode, encode, fetch, post
from permitflow.spark.local_session import local_session

BATCH_ROWS = 64


def run(pipe: Connection, job: str, settings: Settings) -> None:
    """Run one of them, ``send`` or ``receive``; the messages are its beginning and its result."""
    arrow = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS)}
    slots, work_dir = f"local[{settings.channels}]", Path(settings.work_dir)
    with local_session(f"slow service: {job}", master=slots, work_dir=work_dir, settings=arrow) as spark:
        pipe.send("begun")
        if job == "send":
            send(orders(spark, settings), settings)
            pipe.send("sent")
        else:
            count, total = received(spark, settings).selectExpr("count(*)", "sum(score)").collect()[0]
            pipe.send((count, total))


def orders(spark: SparkSession, settings: Settings) -> DataFrame:
    table = spark.range(0, settings.rows, numPartitions=settings.channels)
    document = f"rpad(cast(id as string), {settings.document_bytes}, '.') as document"
    return table.selectExpr("id", "cast(id % 1000 as double) as amount", document)


def send(table: DataFrame, settings: Settings) -> None:
    if settings.exchange:
        writer = table.write.format("permitflow").option("stream", "orders").mode("append")
        writer.options(address=settings.exchange, channels=str(settings.channels)).save()
        return
    gateway = settings.gateway

    def post_all(rows: Iterator[Row]) -> None:
        while some := list(islice(rows, BATCH_ROWS)):
            batch = pa.RecordBatch.from_pylist([row.asDict() for row in some], schema=ORDERS)
            post(f"{gateway}/orders", encode(batch))

    table.foreachPartition(post_all)
    post(f"{gateway}/orders", b"")


def received(spark: SparkSession, settings: Settings) -> DataFrame:
    if settings.exchange:
        reader = spark.read.format("permitflow").option("stream", "scores")
        return reader.options(address=settings.exchange, channels=str(settings.channels)).load()
    gateway = settings.gateway

    def fetch_all(_: int) -> Iterator[tuple[int, float]]:
        while (answer := fetch(f"{gateway}/scores")).status != 205:
            if answer.status == 200:
                yield from zip(*decode(answer.body).to_pydict().values(), strict=True)

    rows = spark.sparkContext.parallelize([0], 1).flatMap(fetch_all)
    return spark.createDataFrame(rows, "id long, score double")
