"""The connections of Spark's workers to an exchange are cut: a job has each row once, or its error says what to do."""

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from permitflow.client.blocking import open_sink
from tests.impl.spark.conftest import Driver, options_of, running_driver
from tests.support.cutting_proxy import Cut, Direction, cutting_beside
from tests.support.served_exchange import SCHEMA, ServedExchange, channels_of, numbers

ROWS = 6_000
STAGED_ROWS = 1_500  # what fits into the staging areas
QUERY_ROWS = 1_000  # nobody reads what the query writes: one channel must hold it all
MANY = [Cut(5_000 * n, direction) for n in range(1, 6) for direction in Direction]
FEW = [Cut(2_000 * n, direction) for n in range(1, 6) for direction in Direction]
EARLY = [Cut(1_200 * n) for n in range(1, 6)] + [Cut(600 * n, Direction.DOWN) for n in range(1, 6)]


def read(spark: SparkSession, options: Mapping[str, str]) -> list[int]:
    frame = spark.read.format("permitflow").schema("id LONG NOT NULL").options(**options).load()
    return [row.id for row in frame.collect()]


def write(
    spark: SparkSession, options: Mapping[str, str], rows: int, *, delivery: str = "direct", tasks: int = 2
) -> None:
    writer = spark.range(0, rows, 1, tasks).write.format("permitflow").mode("append")
    writer.options(**options, chunk_rows="50", delivery=delivery).save()


def failed(act: Callable[[], object]) -> str:
    """The traceback of what must fail."""
    try:
        act()
    except Exception:
        return traceback.format_exc()
    raise AssertionError("it has not failed")


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
            if delivery == "staged":
                write(spark, options, rows, delivery=delivery)
                return read(spark, options)
            with ThreadPoolExecutor(1) as pool:
                reading = pool.submit(read, spark, options)
                write(spark, options, rows)
                return reading.result()

        assert sorted(driver.run(job)) == [*range(rows)]
        assert way.cuts == len(cuts)


def test_a_query_over_cut_connections_has_its_exact_rows(driver: Driver, kept: ServedExchange, tmp_path: Path) -> None:
    """Its producers, its source and its staged sink are cut ten times each."""
    source, sink = options_of(kept, resume_seconds="20"), options_of(kept, resume_seconds="20")

    def produce(address: str, channel: str, first: int) -> None:
        with open_sink(address, channel, SCHEMA, timeout_seconds=120, resume_seconds=20) as producer:
            for start in range(first, first + QUERY_ROWS // 2, 10):
                producer.send(numbers(start, start + 10))
            producer.end(closes_channel=True)

    with (
        cutting_beside(kept.address, EARLY) as before,
        cutting_beside(kept.address, EARLY) as between,
        cutting_beside(kept.address, EARLY) as behind,
        ThreadPoolExecutor(2) as pool,
    ):
        of_source, of_sink = {**source, "address": between.address}, {**sink, "address": behind.address}

        def job(spark: SparkSession) -> list[int]:
            frame = spark.readStream.format("permitflow").options(**of_source).load()
            writer = frame.writeStream.format("permitflow").options(**of_sink, chunk_rows="50")
            query = writer.option("checkpointLocation", str(tmp_path)).start()
            try:
                # The producers are still sending: they wait for what the query acknowledges.
                while sum(batch.numInputRows for batch in query.recentProgress) < QUERY_ROWS:
                    query.processAllAvailable()
            finally:
                query.stop()
            return [row.n for row in spark.read.format("permitflow").options(**sink).load().collect()]

        firsts = (0, QUERY_ROWS // 2)
        producing = [
            pool.submit(produce, before.address, channel, first)
            for channel, first in zip(channels_of(source), firsts, strict=True)
        ]
        found = driver.run(job)
        for producer in producing:
            producer.result()
        assert sorted(found) == [*range(QUERY_ROWS)]
        assert [way.cuts for way in (before, between, behind)] == [len(EARLY)] * 3


@pytest.mark.sample
def test_a_network_that_stays_away_fails_a_job_with_advice(driver: Driver, exchange: ServedExchange) -> None:
    """The second attempt at a task cannot even connect; its error, the job's, says where the first one's is."""
    with cutting_beside(exchange.address, [Cut(2_000, is_last=True)]) as way:
        options = options_of(exchange, address=way.address, resume_seconds="0.3")
        said = driver.failure(lambda spark: write(spark, options, ROWS))
        assert "Connection refused" in said
        assert "if it is ResumeTimeoutError, the connection was lost for longer than option resumeSeconds" in said


@pytest.fixture(scope="module")
def one_attempt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A session that makes one attempt at a task, as Spark does on one machine unless it is told otherwise."""
    with running_driver(tmp_path_factory.mktemp("attempt"), "local[4]") as running:
        yield running


LOST = "ResumeTimeoutError: the exchange at"


@pytest.mark.parametrize("end", ["write", "read"])
def test_both_jobs_fail_if_one_is_cut_off_for_ever(one_attempt: Driver, exchange: ServedExchange, end: str) -> None:
    direction = {"write": Direction.UP, "read": Direction.DOWN}[end]
    with cutting_beside(exchange.address, [Cut(4_000, direction, is_last=True)]) as way:
        # One task: a second one might first dial behind the cut.
        near = options_of(exchange, channels="1")
        far = {**near, "address": way.address, "resume_seconds": "0.5"}
        of_writer, of_reader = (far, near) if end == "write" else (near, far)

        def job(spark: SparkSession) -> dict[str, str]:
            with ThreadPoolExecutor(1) as pool:
                reading = pool.submit(failed, lambda: read(spark, of_reader))
                writing = failed(lambda: write(spark, of_writer, ROWS, tasks=1))
                return {"write": writing, "read": reading.result()}

        said = one_attempt.run(job)
        assert LOST in said.pop(end)
        assert "did not come back within 0.5 s" in said.popitem()[1]
        assert way.cuts == 1


def test_a_staged_job_that_is_cut_off_for_ever_fails(one_attempt: Driver, kept: ServedExchange) -> None:
    with cutting_beside(kept.address, [Cut(4_000, is_last=True)]) as way:
        options = options_of(kept, address=way.address, resume_seconds="0.5")
        assert LOST in one_attempt.failure(
            lambda spark: write(spark, options, STAGED_ROWS // 2, delivery="staged", tasks=1)
        )


def test_a_reader_of_kept_rows_that_is_cut_off_for_ever_fails(one_attempt: Driver, kept: ServedExchange) -> None:
    """It dials anew for as long as an exchange may be away; the cause of its last error is the lost connection."""
    near = options_of(kept, channels="1", timeout_seconds="5")
    one_attempt.run(lambda spark: write(spark, near, STAGED_ROWS // 2, delivery="staged", tasks=1))
    with cutting_beside(kept.address, [Cut(6_000, Direction.DOWN, is_last=True)]) as way:
        far = {**near, "address": way.address, "resume_seconds": "0.5"}
        said = one_attempt.failure(lambda spark: read(spark, far))
        assert LOST in said
        assert "option timeoutSeconds: 5" in said
