"""Option ``byte_window``, and wide rows: the exchange holds no more bytes than its window, and every row comes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType

from permitflow.client.blocking import control
from permitflow.spark.options import ReadOptions, WriteOptions
from permitflow.spark.reading import opened
from permitflow.spark.recording import recording
from permitflow.spark.sink import ExchangeWriter
from tests.impl.spark.conftest import KEEPING, Driver, options_of
from tests.support.served_exchange import ServedExchange, channels_of, served_exchange

WINDOW_BYTES = 65_536
WINDOW = ("--byte-window", "64KiB")
HALF = str(WINDOW_BYTES // 2)
ROWS = 400
CHUNK_ROWS = "5"  # of 4 kB each: three chunks fit into the window of a channel, one into that of a stream


def wide(spark: SparkSession) -> DataFrame:
    """By rows alone there would be room for a megabyte in each channel."""
    return spark.range(0, ROWS, 1, 2).selectExpr("id", "repeat('x', 4000) AS text")


def most_held(options: dict[str, str]) -> int:
    with control(options["address"]) as line:
        return max(each.peak_bytes_held for each in line.statistics(channels_of(options)).channels)


def test_the_option_is_the_window_of_both_ends(exchange: ServedExchange) -> None:
    options = options_of(exchange, byte_window=HALF)
    channel = channels_of(options)[0]
    writer = ExchangeWriter(WriteOptions.parse(options), StructType().add("n", LongType()))
    with (
        writer.open(channel) as sink,
        recording(None, "read") as streams,
        opened(ReadOptions.parse(options), channel, streams) as source,
    ):
        assert (sink.statistics().byte_window, source.statistics().byte_window) == (int(HALF), int(HALF))


def test_a_job_of_wide_rows_is_bounded_in_bytes(driver: Driver) -> None:
    with served_exchange(more=WINDOW) as exchange:
        options = options_of(exchange, byte_window=HALF)

        def job(spark: SparkSession) -> list[int]:
            with ThreadPoolExecutor(1) as pool:
                frame = spark.read.format("permitflow").schema("id LONG NOT NULL, text STRING NOT NULL")
                reading = pool.submit(frame.options(**options).load().select("id").collect)
                writer = wide(spark).write.format("permitflow").mode("append").options(**options)
                writer.option("chunk_rows", CHUNK_ROWS).save()
                return [row.id for row in reading.result()]

        assert sorted(driver.run(job)) == [*range(ROWS)]
        assert 0 < most_held(options) <= WINDOW_BYTES


def test_a_query_of_wide_rows_has_each_of_them_once(driver: Driver, tmp_path: Path) -> None:
    with served_exchange(more=[*KEEPING, *WINDOW]) as exchange:
        source, sink = options_of(exchange, byte_window=HALF), options_of(exchange, byte_window=HALF)

        def job(spark: SparkSession) -> list[int]:
            staged = wide(spark).write.format("permitflow").mode("append").option("delivery", "staged")
            staged.options(**source, chunk_rows=CHUNK_ROWS).save()
            writer = spark.readStream.format("permitflow").options(**source).load().writeStream.format("permitflow")
            query = writer.options(**sink, chunk_rows=CHUNK_ROWS, checkpointLocation=str(tmp_path)).start()
            try:
                query.processAllAvailable()
            finally:
                query.stop()
            frame = spark.read.format("permitflow").options(**sink).load()
            return [row.id for row in frame.where("length(text) = 4000").select("id").collect()]

        assert sorted(driver.run(job)) == [*range(ROWS)]
