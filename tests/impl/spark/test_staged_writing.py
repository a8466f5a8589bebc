"""Spark writes exactly once: failing tasks, restarted drivers and late aborts included.

What was published is there for its readers: all of it, however small the window, and its schema.
"""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import LongType, StructType

from permitflow.client import ChannelState, Retention
from permitflow.client.blocking import control, open_sink
from permitflow.dispatch import spread, vnode_of
from permitflow.errors import (
    BatchOrderError,
    ChannelAbortedError,
    InvalidOptionError,
    PeerGoneError,
    StagedPartError,
    UnknownBatchError,
)
from permitflow.spark import PermitflowDataSource
from permitflow.spark.calls.source import GrpcDataSource
from permitflow.spark.options import WriteOptions
from permitflow.spark.patience import Patience
from permitflow.spark.schema import arrow_schema
from permitflow.spark.sink import StagedBatchWriter, StagedStreamWriter
from permitflow_testing.query_runs import judge_query
from tests.impl.spark.conftest import Driver
from tests.support.served_exchange import PATIENCE_SECONDS, SMALL_WINDOW, channels_of

Options = dict[str, str]

SCHEMA = StructType().add("id", LongType())


def published(options: Options) -> list[list[int]]:
    """The rows of each channel so far; all of them are acknowledged."""
    return [_rows(options, channel) for channel in channels_of(options)]


def _rows(options: Options, channel: str) -> list[int]:
    from permitflow.client.blocking import control, open_source

    found: list[int] = []
    with control(options["address"]) as orders:
        while True:
            (position,) = orders.positions([channel])
            first_row, next_row = position.acknowledged_row, position.next_row
            if first_row == next_row:
                return found
            with open_source(options["address"], channel, from_row=first_row, to_row=next_row) as source:
                found += [value for batch in source for value in batch.column(0).to_pylist()]
            orders.acknowledge({channel: next_row})


def states(options: Options) -> list[ChannelState]:
    from permitflow.client.blocking import control

    with control(options["address"]) as orders:
        return [position.state for position in orders.positions(channels_of(options))]


@pytest.mark.sample
def test_a_task_that_fails_halfway_is_repeated_and_its_rows_come_once(driver: Driver, replay_options: Options) -> None:
    options = {**replay_options, "delivery": "staged", "chunk_rows": "20"}

    def job(spark: SparkSession) -> None:
        def checked(number: int) -> tuple[int]:
            context = TaskContext.get()
            assert context is not None
            if number % 100 == 70 and context.attemptNumber() == 0:
                raise RuntimeError("the disk is on fire")
            return (number,)

        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
        try:
            rows = spark.sparkContext.parallelize(range(200), 2).map(checked)
            frame = spark.createDataFrame(rows, "id BIGINT")
            frame.write.format("permitflow").mode("append").options(**options).save()
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    driver.run(job)
    assert published(options) == [[*range(100)], [*range(100, 200)]]
    assert states(options) == [ChannelState.ENDED] * 2


def test_a_query_that_repeats_its_last_batch_publishes_it_once(
    driver: Driver, replay_options: Options, tmp_path: Path
) -> None:
    """The driver dies after publishing and before the commit log has the batch; tasks fail meanwhile."""

    def job(spark: SparkSession) -> list[int]:
        def checked(number: int) -> int:
            context = TaskContext.get()
            assert context is not None
            if number % 10 == 7 and context.attemptNumber() == 0:
                raise RuntimeError("the disk is on fire")
            return number

        spark.udf.register("checked", checked, LongType())

        def run() -> int:
            source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "20").load()
            query = (
                source.selectExpr("checked(value) AS id")
                .repartition(2)
                .writeStream.format("permitflow")
                .options(**replay_options)
                .option("checkpointLocation", str(tmp_path))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(60)
            return int(max(path.name for path in (tmp_path / "commits").iterdir() if path.name.isdecimal()))

        last = run()
        (tmp_path / "commits" / str(last)).unlink()
        (tmp_path / "commits" / f".{last}.crc").unlink(missing_ok=True)
        return [last, run()]

    first, last = driver.run(job)
    assert first <= last
    rows = sorted(value for channel in published(replay_options) for value in channel)
    assert rows == [*range(20 * (last + 1))]
    assert states(replay_options) == [ChannelState.OPEN] * 2
    shutil.rmtree(tmp_path)


@dataclass
class Task:
    """What Spark tells a task of a streaming query."""

    partition: int = 0
    properties: dict[str, str] = field(
        default_factory=lambda: {"sql.streaming.queryId": uuid4().hex, "streaming.sql.batchId": "0"}
    )

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.partition

    def attemptNumber(self) -> int:  # noqa: N802 - Spark's name
        return 1

    def taskAttemptId(self) -> int:  # noqa: N802 - Spark's name
        return 7

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802 - Spark's name
        return self.properties.get(key)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    task = Task()
    monkeypatch.setattr("permitflow.spark.sink.TaskContext.get", lambda: task)
    return task


def streaming(options: Options) -> StagedStreamWriter:
    """A writer as Spark makes one for a task, and another for a commit."""
    writer = PermitflowDataSource(options).streamWriter(SCHEMA, overwrite=False)
    assert isinstance(writer, StagedStreamWriter)
    return writer


def calling() -> DataSourceStreamWriter:
    """The same for a service's method."""
    service = {"address": "127.0.0.1:1", "method": "s.S/M", "repeatable": "true"}
    functions = {"serializer": "json:dumps", "deserializer": "json:loads", "message": "json:dumps"}
    return GrpcDataSource({**service, **functions}).streamWriter(SCHEMA, overwrite=False)


def batches(*numbers: int) -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch({"id": pa.array(numbers, pa.int64())})] if numbers else [])


def test_the_attempt_that_spark_names_is_published_by_partition(replay_options: Options, task: Task) -> None:
    writer = streaming(replay_options)
    zombie, chosen = writer.write(batches(-1, -2)), writer.write(batches(1, 2))
    task.partition = 2
    other = writer.write(batches(3))
    streaming(replay_options).commit([other, chosen], 0)
    streaming(replay_options).commit([zombie, other], 0)
    assert published(replay_options) == [[1, 2, 3], []]


def test_rows_with_a_key_are_published_in_their_channels(replay_options: Options, task: Task) -> None:
    writer = streaming({**replay_options, "key": "id"})
    given_up, chosen = writer.write(batches(*range(-9, 9))), writer.write(batches(*range(9)))
    writer.commit([chosen], 0)
    writer.abort([given_up, None], 0)
    owners = spread(2)
    assert published(replay_options) == [
        [n for n in range(9) if owners[vnode_of([n])] == channel] for channel in (0, 1)
    ]


def test_abort_gives_up_what_is_staged_and_never_what_is_published(replay_options: Options, task: Task) -> None:
    writer = streaming(replay_options)
    done = writer.write(batches(1))
    writer.commit([done], 0)
    writer.abort([done, None], 0)
    writer.abort([None], 1)
    task.properties["streaming.sql.batchId"] = "1"
    given_up = writer.write(batches(-1))
    writer.abort([given_up, None], 1)
    with pytest.raises(StagedPartError, match="is not staged"):
        writer.commit([given_up], 1)
    writer.commit([writer.write(batches(2))], 1)
    assert published(replay_options) == [[1, 2], []]


def test_a_batch_of_which_spark_hands_no_rows_over_is_refused(replay_options: Options) -> None:
    for writer in (streaming(replay_options), calling()):
        with pytest.raises(InvalidOptionError, match=r"'trigger' hands no rows to a sink in Python.*: 'continuous'"):
            writer.commit([None, None], 0)


def test_a_late_abort_of_a_dead_driver_leaves_the_next_one_alone(replay_options: Options, task: Task) -> None:
    dead, next_one = streaming(replay_options), streaming(replay_options)
    staged_before = dead.write(batches(1))
    staged_again = next_one.write(batches(1))
    dead.abort([staged_before, None], 0)
    with pytest.raises(StagedPartError, match="is not staged"):
        dead.commit([staged_before], 0)
    next_one.commit([staged_again], 0)
    assert published(replay_options) == [[1], []]


@pytest.mark.parametrize("known", ["no task", "a task without rows"])
def test_an_abort_without_staged_rows_makes_no_call(
    replay_options: Options, task: Task, caplog: pytest.LogCaptureFixture, known: str
) -> None:
    def driver(**more: str) -> StagedBatchWriter:
        key = {"delivery": "staged", "query": f"{replay_options['stream']} nightly", "batch": "7"}
        return StagedBatchWriter(WriteOptions.parse({**replay_options, **key, **more}), SCHEMA)

    first, second = driver(), driver()
    messages: list[WriterCommitMessage | None] = [first.write(batches())] if known == "a task without rows" else [None]
    finished = second.write(batches(1, 2))
    first.abort(messages)
    second.commit([finished])
    assert published(replay_options) == [[1, 2], []]
    nobody = driver(address="127.0.0.1:1", timeout_seconds=str(PATIENCE_SECONDS))
    nobody.abort(messages)
    assert not caplog.records


def test_a_task_that_does_not_know_its_batch_says_so(replay_options: Options, task: Task) -> None:
    task.properties.clear()
    with pytest.raises(UnknownBatchError, match=r"sql\.streaming\.queryId"):
        streaming(replay_options).write(batches(1))


def test_a_batch_job_has_a_key_of_its_own_unless_it_is_given_one(replay_options: Options, task: Task) -> None:
    staged(replay_options, [1])
    staged(replay_options, [2])
    staged(replay_options, [3], query="nightly", batch="20240229", end="true")
    staged(replay_options, [3], query="nightly", batch="20240229", end="true")
    assert published(replay_options) == [[1, 2, 3], []]
    assert states(replay_options) == [ChannelState.ENDED] * 2


def staged(options: Options, numbers: Iterable[int], **more: str) -> None:
    """Run a staged batch job of one task."""
    chosen = {**options, "delivery": "staged", "end": "false", **more}
    writer = PermitflowDataSource(chosen).writer(SCHEMA, overwrite=False)
    assert isinstance(writer, StagedBatchWriter)
    writer.commit([writer.write(batches(*numbers))])


def test_a_job_writes_into_channels_whatever_their_consumers_are(replay_options: Options, task: Task) -> None:
    stream = f"named-{uuid4().hex}"
    with control(replay_options["address"]) as orders:
        orders.add_stream(stream, 2, retention=Retention.REPLAY, consumers=("etl", "audit"))
        staged({**replay_options, "stream": stream}, [1, 2], end="true")
        positions = orders.positions([f"{stream}/0", f"{stream}/1"], consumer="etl")
    assert [(each.next_row, each.state) for each in positions] == [(2, ChannelState.ENDED), (0, ChannelState.ENDED)]


def test_a_batch_number_that_falls_is_an_error(replay_options: Options, task: Task) -> None:
    key = {"query": f"{replay_options['stream']} nightly"}
    staged(replay_options, [1], **key, batch="8")
    with pytest.raises(BatchOrderError, match=r"batch 7 .* batch 8 was published before"):
        staged(replay_options, [2], **key, batch="7")
    staged(replay_options, [1], **key, batch="8")
    assert published(replay_options) == [[1], []]


def test_a_commit_fails_if_a_channel_to_end_is_broken(replay_options: Options, task: Task) -> None:
    options = {**replay_options, "delivery": "staged", "end": "true"}
    writer = PermitflowDataSource(options).writer(SCHEMA, overwrite=False)
    assert isinstance(writer, StagedBatchWriter)
    with open_sink(replay_options["address"], channels_of(replay_options)[1], arrow_schema(SCHEMA)) as sink:
        sink.abort("it has failed")
    with pytest.raises(ChannelAbortedError, match="it has failed"):
        writer.commit([writer.write(batches(1))])
    assert states(replay_options) == [ChannelState.ENDED, ChannelState.BROKEN]


def test_a_job_whose_key_was_published_before_is_warned_of(
    replay_options: Options, task: Task, caplog: pytest.LogCaptureFixture
) -> None:
    key = {"query": f"{replay_options['stream']} nightly", "batch": "8"}
    staged(replay_options, [1], **key)
    assert caplog.messages == []
    staged(replay_options, [2], **key)
    assert ["the rows of this run are dropped" in words for words in caplog.messages] == [True]


@pytest.mark.parametrize(
    ("more", "properties", "warnings"),
    [
        ({}, {"sql.streaming.queryId": "q", "streaming.sql.batchId": "3"}, 1),
        ({"query": "copy", "batch": "3"}, {"sql.streaming.queryId": "q", "streaming.sql.batchId": "3"}, 0),
        ({}, {}, 0),
    ],
    ids=["foreachBatch", "with a key", "a batch job"],
)
def test_a_job_in_foreach_batch_without_a_key_is_warned_of(
    replay_options: Options,
    task: Task,
    caplog: pytest.LogCaptureFixture,
    more: Options,
    properties: dict[str, str],
    warnings: int,
) -> None:
    task.properties = properties
    staged(replay_options, [1], **more)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert ["foreachBatch (batch 3 of query q) without a key" in words for words in told] == [True] * warnings


def test_a_task_waits_for_the_exchange_as_long_as_it_was_told(
    replay_options: Options, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    patience = Patience(60.0, ["a"], clock=lambda: now[0], pause=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr("permitflow.spark.sink.Patience", lambda seconds, _: patience if seconds == 60 else None)
    with pytest.raises(PeerGoneError):
        streaming({**replay_options, "address": "127.0.0.1:1"}).write(batches(1))
    assert 58 <= now[0] <= 60


def test_a_batch_that_cannot_be_staged_is_told_in_our_words(
    driver: Driver, replay_options: Options, options: Options
) -> None:
    def too_large(spark: SparkSession) -> None:
        writer = spark.range(0, 10_000, 1, 1).write.format("permitflow").mode("append").option("delivery", "staged")
        writer.options(**replay_options).save()

    def nothing_kept(spark: SparkSession) -> None:
        writer = spark.range(10).write.format("permitflow").mode("append").option("delivery", "staged")
        writer.options(**options).save()

    assert "StagingFullError: batch 0 of query" in driver.failure(too_large)
    assert "RetentionError" in driver.failure(nothing_kept)
    assert published(replay_options) == [[], []]


ROWS = 1_600
"""Of two channels: 800 each, of which 256 have permits."""
STAGING_ROWS = 4 * SMALL_WINDOW.row_permits


def write(frame: DataFrame, options: Options, **more: str) -> None:
    frame.write.format("permitflow").mode("append").options(**options).options(**more).save()


def read(spark: SparkSession, options: Options) -> DataFrame:
    return spark.read.format("permitflow").options(**options).load()


def acknowledged(options: Options) -> list[int]:
    with control(options["address"]) as orders:
        return [position.acknowledged_row for position in orders.positions(channels_of(options))]


def test_available_now_takes_a_staged_job_in_several_batches(
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


def test_a_batch_read_finds_more_when_it_is_planned_anew(driver: Driver, replay_options: Options) -> None:
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
