"""Queries of a real session beside channels whose rows expire, whose columns grow, and that tell the time of a row."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from permitflow.client.blocking import control, open_sink
from permitflow_testing.query_runs import judge_query
from tests.impl.spark.conftest import KEEPING, Driver, options_of
from tests.support.served_exchange import ServedExchange, channels_of, numbers, served_exchange

Options = dict[str, str]
Rows = list[tuple[object, ...]]


@pytest.fixture(scope="module")
def expiring() -> Iterator[ServedExchange]:
    """One exchange whose channels keep a day's rows, and two chunks of 50 numbers."""
    with served_exchange(more=[*KEEPING, "--expire-seconds", "86400", "--expire-bytes", "1KiB"]) as served:
        yield served


def put(options: Options, *chunks: pa.RecordBatch) -> None:
    for chunk in chunks:
        with open_sink(options["address"], channels_of(options)[0], chunk.schema, timeout_seconds=30) as sink:
            sink.send(chunk)
            sink.end(closes_channel=False)


def run(spark: SparkSession, options: Options, checkpoint: str) -> tuple[Rows, str]:
    """Run a query over what is there: the rows that it saw, and the error in words."""
    seen: Rows = []

    def batch(frame: DataFrame, _number: int) -> None:
        seen.extend(tuple(row) for row in frame.collect())

    frame = spark.readStream.format("permitflow").options(**options).load()
    writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(60)
    except Exception as error:
        return sorted(seen), str(error)
    finally:
        query.stop()
    return sorted(seen), ""


@pytest.mark.long
def test_a_query_is_told_of_expired_rows_and_may_go_on(
    driver: Driver, expiring: ServedExchange, tmp_path: Path
) -> None:
    options, checkpoint, trace = options_of(expiring), str(tmp_path / "checkpoint"), tmp_path / "trace"
    recorded = {**options, "traceDir": str(trace)}
    put(options, numbers(0, 50))
    assert driver.run(lambda spark: run(spark, recorded, checkpoint)) == ([(n,) for n in range(50)], "")
    put(options, *(numbers(first, first + 50) for first in range(50, 400, 50)))
    with control(options["address"]) as orders:
        (position,) = orders.positions(channels_of(options)[:1])
    assert position.expired_row > 50

    seen, error = driver.run(lambda spark: run(spark, recorded, checkpoint))
    assert seen == []
    for words in ("permitflow.errors.RowsLostError", "row 50 of channel", "has expired", "skips nothing"):
        assert words in error
    verdicts = judge_query(trace, checkpoint)
    assert [verdict.describe() for verdict in verdicts if not verdict.is_valid] == []
    assert verdicts[0].state.phase == "failed"
    for path in trace.glob("source*"):
        path.write_text(re.sub('"expired": [0-9]+', '"expired": 0', path.read_text()))
    assert not judge_query(trace, checkpoint)[0].is_valid, "a loss without a reason"

    passing = {**options, "failOnDataLoss": "false"}
    there = [(n,) for n in range(position.expired_row, 400)]
    assert driver.run(lambda spark: run(spark, passing, checkpoint)) == (there, "")


@pytest.mark.long
def test_a_running_query_keeps_its_columns_and_the_next_has_all(
    driver: Driver, replay_options: Options, tmp_path: Path
) -> None:
    options, checkpoint = replay_options, str(tmp_path / "checkpoint")
    more = pa.record_batch({"n": pa.array([1]), "word": pa.array(["new"])})
    put(options, numbers(0, 1))

    def job(spark: SparkSession) -> Rows:
        seen: Rows = []

        def batch(frame: DataFrame, _number: int) -> None:
            seen.extend(tuple(row) for row in frame.collect())

        frame = spark.readStream.format("permitflow").options(**options).load()
        query = frame.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            put(options, more, numbers(2, 3))
            query.processAllAvailable()
        finally:
            query.stop()
        return seen

    assert driver.run(job) == [(0,), (1,), (2,)]
    put(options, numbers(3, 4), more)
    seen, error = driver.run(lambda spark: run(spark, options, checkpoint))
    assert ({*seen}, error) == ({(3, None), (1, "new")}, "")


@pytest.mark.long
def test_a_batch_job_reads_when_each_row_came(driver: Driver, replay_options: Options) -> None:
    before = datetime.now(UTC)
    put(replay_options, numbers(0, 3))
    after = datetime.now(UTC)

    def job(spark: SparkSession) -> tuple[list[str], list[float]]:
        frame = spark.read.format("permitflow").options(**replay_options, includeTime="true").load()
        rows = frame.selectExpr("n", "unix_micros(_time) / 1e6 AS seconds").collect()
        return frame.columns, [row.seconds for row in sorted(rows)]

    columns, seconds = driver.run(job)
    assert columns == ["n", "_time"]
    moments = [datetime.fromtimestamp(moment, UTC) for moment in seconds]
    assert len(moments) == 3
    assert before - timedelta(milliseconds=1) <= min(moments) <= max(moments) <= after + timedelta(milliseconds=1)
