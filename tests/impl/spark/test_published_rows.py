"""What a staged job has published is there for its readers: all of it, however small the window, and its schema."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from permitflow.protocol.control import ChannelState
from permitflow.testing.query_runs import judge_query
from permitflow.transports.grpc_blocking import control, open_sink
from tests.support.served_exchange import SMALL_WINDOW, channels_of

T = TypeVar("T")
Options = dict[str, str]

ROWS = 1_600
"""Of two channels: 800 each, of which 256 have permits."""
STAGING_ROWS = 4 * SMALL_WINDOW.row_permits


class Driver(Protocol):
    """See ``tests/impl/spark/conftest.py``."""

    def run(self, job: Callable[[SparkSession], T]) -> T: ...
    def failure(self, job: Callable[[SparkSession], object]) -> str: ...


def write(frame: DataFrame, options: Options, **more: str) -> None:
    frame.write.format("permitflow").mode("append").options(**options).options(**more).save()


def read(spark: SparkSession, options: Options) -> DataFrame:
    return spark.read.format("permitflow").options(**options).load()


def acknowledged(options: Options) -> list[int]:
    with control(options["address"]) as orders:
        return [position.acknowledged_row for position in orders.positions(channels_of(options))]


def test_available_now_takes_all_rows_of_a_staged_job_in_several_batches(
    driver: Driver, replay_options: Options, tmp_path: Path
) -> None:
    options = {**replay_options, "trace_dir": str(tmp_path / "trace")}
    checkpoint = str(tmp_path / "checkpoint")

    def job(spark: SparkSession) -> list[list[int]]:
        write(spark.range(0, ROWS, 1, 2), replay_options, delivery="staged")
        batches: list[list[int]] = []

        def note(frame: DataFrame, _: int) -> None:
            batches.append([row.id for row in frame.collect()])

        stream = spark.readStream.format("permitflow").options(**options).load()
        query = stream.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint)
        assert query.trigger(availableNow=True).start().awaitTermination(60)
        return batches

    batches = driver.run(job)
    assert sorted(number for batch in batches for number in batch) == [*range(ROWS)]
    assert max(map(len, batches)) == SMALL_WINDOW.row_permits, "half a window of each channel"
    verdicts = judge_query(options["trace_dir"], checkpoint, staging_rows=STAGING_ROWS)
    assert [verdict.describe() for verdict in verdicts if not verdict.is_valid] == []
    without_staging = judge_query(options["trace_dir"], checkpoint)
    assert "keeps 800 rows, and has 256 permits" in without_staging[0].describe()


@pytest.mark.parametrize("end", ["true", "false"])
def test_a_batch_read_takes_all_that_is_there_as_often_as_one_likes(
    driver: Driver, replay_options: Options, end: str
) -> None:
    def job(spark: SparkSession) -> tuple[list[list[int]], int]:
        write(spark.range(0, ROWS, 1, 2), replay_options, delivery="staged", end=end)
        frame = read(spark, replay_options)
        return [sorted(row.id for row in frame.collect()) for _ in range(2)], frame.union(frame).count()

    readings, twice = driver.run(job)
    assert readings == [[*range(ROWS)]] * 2
    assert twice == 2 * ROWS
    assert acknowledged(replay_options) == [0, 0]


def test_a_batch_read_waits_for_no_producer_and_finds_more_when_it_is_planned_anew(
    driver: Driver, replay_options: Options
) -> None:
    options = {**replay_options, "channels": "1"}

    def put(spark: SparkSession, first: int) -> int:
        write(spark.range(first, first + 50), options, end="false")
        return read(spark, options).count()

    assert driver.run(lambda spark: [put(spark, first) for first in (0, 50)]) == [50, 100]


def test_a_batch_read_of_a_broken_channel_fails(driver: Driver, replay_options: Options) -> None:
    options = {**replay_options, "channels": "1"}
    chunk = pa.record_batch({"id": pa.array([1, 2], pa.int64())})
    with open_sink(options["address"], channels_of(options)[0], chunk.schema, timeout_seconds=60) as sink:
        sink.send(chunk)
        sink.abort("its disk is on fire")
    failure = driver.failure(lambda spark: read(spark, options).collect())
    assert "ChannelAbortedError" in failure
    assert "its disk is on fire" in failure


@pytest.mark.parametrize("delivery", ["staged", "direct"])
@pytest.mark.parametrize("rows", [10, 0])
def test_channels_without_rows_end_with_the_schema_of_the_job(
    driver: Driver, replay_options: Options, delivery: str, rows: int
) -> None:
    second = {**replay_options, "channels": channels_of(replay_options)[1]}
    second.pop("stream")

    def job(spark: SparkSession) -> tuple[list[int], str, list[Row]]:
        write(spark.range(rows).coalesce(1), replay_options, delivery=delivery)
        empty = read(spark, second)
        return [row.id for row in read(spark, replay_options).collect()], empty.schema.simpleString(), empty.collect()

    assert driver.run(job) == ([*range(rows)], "struct<id:bigint>", [])
    with control(replay_options["address"]) as orders:
        found = orders.positions(channels_of(replay_options))
    assert [position.state for position in found] == [ChannelState.ENDED] * 2


def test_an_empty_job_gives_the_reader_of_a_channel_that_is_read_once_an_empty_frame(
    driver: Driver, options: Options
) -> None:
    def job(spark: SparkSession) -> tuple[str, int]:
        write(spark.range(0), options)
        frame = read(spark, options)
        return frame.schema.simpleString(), frame.count()

    assert driver.run(job) == ("struct<id:bigint>", 0)


def test_a_published_batch_without_rows_of_a_channel_states_its_schema_as_well(
    driver: Driver, replay_options: Options
) -> None:
    def job(spark: SparkSession) -> list[int]:
        write(spark.range(3).coalesce(1), replay_options, delivery="staged", end="false")
        return [row.id for row in read(spark, replay_options).collect()]

    assert driver.run(job) == [0, 1, 2]
    with control(replay_options["address"]) as orders:
        schemas = [position.schema for position in orders.positions(channels_of(replay_options))]
    assert [schema and schema.names for schema in schemas] == [["id"], ["id"]]
