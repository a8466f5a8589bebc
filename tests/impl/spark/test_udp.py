"""Spark over UDP: an address that begins with ``udp://`` is one like any other."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from tests.impl.spark.conftest import KEEPING, Driver, options_of
from tests.support.served_exchange import served_exchange

ADDRESS = "udp://127.0.0.1:0"


def test_a_job_writes_what_another_one_reads(driver: Driver) -> None:
    with served_exchange(address=ADDRESS) as exchange:
        options = options_of(exchange)
        assert options["address"].startswith("udp://")

        def job(spark: SparkSession) -> list[int]:
            with ThreadPoolExecutor(1) as pool:
                frame = spark.read.format("permitflow").schema("id LONG NOT NULL").options(**options).load()
                reading = pool.submit(frame.collect)
                spark.range(0, 5_000, 1, 2).write.format("permitflow").mode("append").options(**options).save()
                return [row.id for row in reading.result()]

        assert sorted(driver.run(job)) == [*range(5_000)]


def test_a_query_reads_a_staged_job_and_publishes_its_rows(driver: Driver, tmp_path: Path) -> None:
    with served_exchange(address=ADDRESS, more=KEEPING) as exchange:
        source, sink = options_of(exchange), options_of(exchange)

        def job(spark: SparkSession) -> list[int]:
            staged = spark.range(0, 1_000, 1, 2).write.format("permitflow").mode("append").option("delivery", "staged")
            staged.options(**source).save()
            writer = spark.readStream.format("permitflow").options(**source).load().writeStream.format("permitflow")
            query = writer.options(**sink).option("checkpointLocation", str(tmp_path)).start()
            try:
                query.processAllAvailable()
            finally:
                query.stop()
            return [row.id for row in spark.read.format("permitflow").options(**sink).load().collect()]

        assert sorted(driver.run(job)) == [*range(1_000)]
