"""Who calls in the wrong order, or what cannot be had, gets an answer that says what to do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from tests.impl.spark.conftest import Driver, options_of
from tests.support.served_exchange import ServedExchange, numbers, producers

pytestmark = pytest.mark.long

Options = dict[str, str]
Wrong = Callable[[SparkSession, Options], object]


def reader(spark: SparkSession, options: Options) -> DataFrameReader:
    return spark.read.format("permitflow").options(**options)


def stream(spark: SparkSession, options: Options) -> DataStreamReader:
    return spark.readStream.format("permitflow").options(**options)


def writer(spark: SparkSession, options: Options) -> DataFrameWriter:
    return spark.range(3).withColumnRenamed("id", "n").write.format("permitflow").options(**options)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda spark, options: reader(spark, options).load("orders"), "option 'path' is not used"),
        (lambda spark, options: writer(spark, options).mode("append").save("orders"), "option 'path' is not used"),
        (lambda spark, options: writer(spark, options).save(), 'cannot be written in the "ErrorIfExists" mode'),
        (lambda spark, options: writer(spark, options).mode("overwrite").save(), "must be 'append'"),
        (lambda spark, options: writer(spark, options).mode("append").partitionBy("n").save(), "identity(n)"),
        (lambda spark, options: reader(spark, options).load(), "no producer has dialled: has the writing job started"),
        (lambda spark, options: reader(spark, {**options, "stream": "nosuch"}).load(), "unknown channel 'nosuch/0'"),
        (lambda spark, options: reader(spark, {}).load(), "option 'address' is missing"),
        (lambda spark, options: reader(spark, {**options, "subscribe": "orders"}).load(), "option 'stream' with"),
        (
            lambda spark, options: spark.sql("CREATE TABLE unshaped USING permitflow OPTIONS (channels 'a')"),
            "CREATE TEMPORARY VIEW",
        ),
    ],
    ids=[
        "load a path",
        "save to a path",
        "no mode",
        "overwrite",
        "partitionBy",
        "read before anybody writes",
        "another stream",
        "no option",
        "an option of Kafka's",
        "a table without columns",
    ],
)
def test_a_wrong_order_is_answered(driver: Driver, kept: ServedExchange, wrong: Wrong, words: str) -> None:
    options = options_of(kept, timeoutSeconds="3")
    del options["timeout_seconds"]
    assert words in driver.failure(lambda spark: wrong(spark, options))


def test_running_counts_are_refused(driver: Driver, kept: ServedExchange, tmp_path: Path) -> None:
    options = {**options_of(kept), "checkpointLocation": str(tmp_path)}

    def job(spark: SparkSession) -> None:
        source = {name: text for name, text in options.items() if name != "checkpointLocation"}
        counts = stream(spark, source).schema("n BIGINT").load().groupBy("n").count().writeStream.format("permitflow")
        counts.options(**options).outputMode("complete").start().awaitTermination()

    assert "option 'outputMode' must be 'append'" in driver.failure(job)


def test_a_channel_that_is_read_once_is_no_stream(driver: Driver, options: Options) -> None:
    def job(spark: SparkSession) -> None:
        with producers(options, [numbers(0, 1)], [numbers(0, 1)]):
            query = stream(spark, options).load().writeStream.format("noop").trigger(availableNow=True).start()
            query.awaitTermination()

    assert "let it keep rows: permitflow serve --retention replay" in driver.failure(job)
