"""The connections of Spark's workers to an exchange are cut: a job has each of its rows once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from tests.impl.spark.conftest import Driver, options_of
from tests.support.cutting_proxy import Cut, Direction, cutting_beside
from tests.support.served_exchange import ServedExchange

ROWS = 6_000
STAGED_ROWS = 1_500  # what fits into the staging areas
MANY = [Cut(5_000 * n, direction) for n in range(1, 6) for direction in Direction]
FEW = [Cut(2_000 * n, direction) for n in range(1, 6) for direction in Direction]


@pytest.mark.parametrize(
    ("of_exchange", "delivery", "rows", "cuts"),
    [("exchange", "direct", ROWS, MANY), ("kept", "staged", STAGED_ROWS, FEW)],
)
def test_ten_cuts_leave_a_job_its_exact_rows(
    driver: Driver, of_exchange: str, delivery: str, rows: int, cuts: Sequence[Cut], request: pytest.FixtureRequest
) -> None:
    exchange: ServedExchange = request.getfixturevalue(of_exchange)
    with cutting_beside(exchange.address, cuts) as way:
        options = options_of(exchange, address=way.address, resume_seconds="20")

        def job(spark: SparkSession) -> list[int]:
            def read() -> list[int]:
                frame = spark.read.format("permitflow").schema("id LONG NOT NULL").options(**options).load()
                return [row.id for row in frame.collect()]

            def write() -> None:
                writer = spark.range(0, rows, 1, 2).write.format("permitflow").mode("append")
                writer.options(**options, chunk_rows="50", delivery=delivery).save()

            if delivery == "staged":
                write()
                return read()
            with ThreadPoolExecutor(1) as pool:
                reading = pool.submit(read)
                write()
                return reading.result()

        assert sorted(driver.run(job)) == [*range(rows)]
        assert way.cuts == len(cuts)
