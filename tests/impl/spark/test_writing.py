"""Spark writes into the channels of an exchange: rows, types, ends, and failures that no reader can overlook.

What a writer does that Spark has started a second time, or for a commit or an abort, is asked without Spark.
"""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from pathlib import Path
from threading import Barrier
from time import monotonic, sleep
from traceback import format_exception_only

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DoubleType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    YearMonthIntervalType,
)

from permitflow import client
from permitflow.client import blocking
from permitflow.client.blocking import control, open_sink, open_source
from permitflow.dispatch import spread, vnode_of
from permitflow.errors import (
    ChannelAbortedError,
    ChannelCancelledError,
    ChannelClosedError,
    ChannelResetError,
    ChannelSpentError,
    InvalidOptionError,
    InvalidParametersError,
    JobTotalError,
    PeerGoneError,
    PermitflowError,
    TaskRetryError,
    UnknownChannelError,
)
from permitflow.spark import PermitflowDataSource
from permitflow.spark.options import WriteOptions
from permitflow.spark.schema import arrow_schema
from permitflow.spark.sink import ExchangeWriter
from permitflow.tracing import read_trace
from permitflow_model.permit_channel_trace import rows_of
from tests.impl.spark.conftest import KEEPING, Driver, options_of
from tests.support.served_exchange import ServedExchange, channels_of, consume, consumers, served_exchange
from tests.support.serving import address_of, serving

Options = dict[str, str]
Received = list[list[pa.RecordBatch] | str]
"""For each channel what came, or the error in words."""


def column(batches: list[pa.RecordBatch] | str) -> list[int]:
    assert isinstance(batches, list), batches
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def write(driver: Driver, options: Options, query: str) -> Received:
    """Write a query's rows; what each channel's consumer got."""

    def job(spark: SparkSession) -> Received:
        with consumers(options) as receiving:
            spark.sql(query).write.format("permitflow").mode("append").options(**options).save()
            return [future.result() for future in receiving]

    return driver.run(job)


def test_task_p_writes_to_channel_p_modulo_n(driver: Driver, options: Options) -> None:
    first, second = write(driver, {**options, "chunk_rows": "50"}, "SELECT id FROM range(0, 1000, 1, 4)")
    # The tasks of a channel run side by side; each keeps its own order.
    assert sorted(column(first)) == [*range(0, 250), *range(500, 750)]
    assert sorted(column(second)) == [*range(250, 500), *range(750, 1000)]
    assert [value for value in column(first) if value < 250] == list(range(250))
    assert isinstance(first, list)
    assert {batch.num_rows for batch in first} == {50}


def test_rows_with_a_key_meet_in_its_channel_from_all_tasks(driver: Driver, options: Options) -> None:
    keyed = {**options, "key": "id", "chunkRows": "50"}
    query = "SELECT id % 100 AS id, 'as Spark has it' AS t FROM range(0, 1000, 1, 4)"
    received = write(driver, keyed, query)
    for channel, batches in enumerate(received):
        mine = [key for key in range(100) if spread(2)[vnode_of([key])] == channel]
        assert sorted(column(batches)) == sorted(mine * 10)
        assert isinstance(batches, list)
        assert max(batch.num_rows for batch in batches) <= 50


def test_batches_of_long_rows_are_bounded_in_bytes(driver: Driver, options: Options) -> None:
    """By what ``configure`` sets: they would have 1,000 rows each."""
    query = "SELECT id, repeat('x', 30000) AS t FROM range(0, 2000, 1, 2)"
    first, second = write(driver, options, query)
    assert column(first) == [*range(1000)]
    assert column(second) == [*range(1000, 2000)]
    assert isinstance(first, list)
    assert 100 <= max(batch.num_rows for batch in first) <= 200


TYPES = """
    SELECT id, CAST(id AS INT) AS i, concat('w', id) AS s, CAST(id AS DECIMAL(12, 3)) AS d, DATE '2024-02-29' AS day,
           TIMESTAMP '2024-02-29 12:00:00' AS at, TIMESTAMP_NTZ '2024-02-29 12:00:00' AS local,
           array(id, NULL) AS l, struct(id AS x, 'y' AS y) AS st, map('k', id) AS m, X'00FF' AS b,
           CAST(NULL AS DOUBLE) AS nothing, if(id % 2 = 0, NULL, id) AS sometimes
    FROM range(0, 100, 1, 2)
"""


def test_all_types_arrive_as_sparks_own_arrow_schema_in_utc(driver: Driver, options: Options) -> None:
    def job(spark: SparkSession) -> tuple[pa.Schema, Received]:
        # Spark hands batches over in the session's zone.
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        try:
            frame = spark.sql(TYPES)
            with consumers(options) as receiving:
                frame.write.format("permitflow").mode("append").options(**options).save()
                return arrow_schema(frame.schema.toNullable()), [future.result() for future in receiving]
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")

    schema, (first, second) = driver.run(job)
    assert isinstance(first, list)
    assert first[0].schema.equals(schema)
    assert schema.field("at").type == pa.timestamp("us", "UTC")
    rows = [row for batches in (first, second) for batch in batches for row in batch.to_pylist()]  # type: ignore[union-attr]  # no error in words
    assert [row["id"] for row in rows] == list(range(100))
    assert rows[3]["at"].isoformat() == "2024-02-29T17:00:00+00:00"
    assert rows[3]["local"].isoformat() == "2024-02-29T12:00:00"
    assert (rows[3]["l"], rows[3]["st"], rows[3]["m"]) == ([3, None], {"x": 3, "y": "y"}, [("k", 3)])
    assert (str(rows[3]["d"]), rows[3]["nothing"], rows[3]["b"]) == ("3.000", None, b"\x00\xff")
    assert [row["sometimes"] for row in rows[:4]] == [None, 1, None, 3]


@pytest.mark.sample
def test_one_job_reads_the_rows_of_another(driver: Driver, options: Options) -> None:
    def job(spark: SparkSession) -> tuple[list[Row], list[Row]]:
        frame = spark.sql(TYPES)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(lambda: spark.read.format("permitflow").options(**options).load().collect())
            frame.write.format("permitflow").mode("append").options(**options).save()
            return frame.collect(), reading.result()

    written, read = driver.run(job)
    assert sorted(read, key=lambda row: row.id) == written


@pytest.mark.parametrize(("same_host", "compression"), [("require", "auto"), ("never", "zstd")])
def test_workers_share_memory_with_the_exchange_or_compress(
    driver: Driver, options: Options, same_host: str, compression: str
) -> None:
    """Batches of a few hundred KiB, so that they go through the ring, or are compressed."""
    options = {**options, "same_host": same_host, "compression": compression, "row_permits": "256"}

    def job(spark: SparkSession) -> int:
        wide = spark.range(0, 1000, 1, 2).selectExpr("id", "repeat('x', 2000) AS text")
        frame = spark.read.format("permitflow").schema("id LONG NOT NULL, text STRING").options(**options).load()
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(lambda: frame.selectExpr("sum(length(text) + id)").collect())
            wide.write.format("permitflow").mode("append").options(**options).save()
            return int(reading.result()[0][0])

    assert driver.run(job) == 1000 * 2000 + sum(range(1000))


@pytest.mark.parametrize(
    "query",
    ["SELECT id FROM range(0, 4, 1, 4) WHERE id = 1", "SELECT id FROM range(0)", "SELECT id FROM range(5) WHERE 1 = 0"],
    ids=["empty partitions", "no rows", "no partitions"],
)
def test_readers_of_an_empty_write_get_schema_and_end(driver: Driver, options: Options, query: str) -> None:
    received = write(driver, options, query)
    assert column(received[0]) == []
    assert column(received[1]) == ([1] if "id = 1" in query else [])


@pytest.mark.parametrize("where", [pytest.param("Python", marks=pytest.mark.sample), "the JVM"])
def test_a_task_that_fails_halfway_fails_readers_and_is_not_repeated(
    driver: Driver, options: Options, where: str
) -> None:
    """An exception, which Spark answers with a second attempt."""

    def job(spark: SparkSession) -> tuple[str, Received]:
        def checked(number: int) -> tuple[int]:
            if number % 500 == 400:
                raise RuntimeError("the disk is on fire")
            return (number,)

        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
        frame = (
            spark.createDataFrame(spark.sparkContext.parallelize(range(1000), 2).map(checked), "id BIGINT")
            if where == "Python"
            else spark.sql("SELECT if(id = 777, raise_error('the disk'), id) AS id FROM range(0, 1000, 1, 2)")
        )
        try:
            with consumers(options) as receiving:
                try:
                    frame.write.format("permitflow").mode("append").options(**options).save()
                except Exception as error:
                    return str(error), [future.result() for future in receiving]
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        raise AssertionError("the job went well")

    text, received = driver.run(job)
    assert any(words in text for words in ("ChannelAbortedError", "TaskRetryError", "the disk"))
    # The JVM may fail before a row has come.
    assert {str(result).partition(":")[0] for result in received} <= {"ChannelAbortedError", "ChannelResetError"}


@pytest.mark.parametrize("more", [{}, {"key": "id"}], ids=["", "key"])
@pytest.mark.parametrize("served", ["options", "replay_options"])
def test_a_task_that_fails_before_its_first_row_is_repeated(
    driver: Driver, request: pytest.FixtureRequest, served: str, more: Options
) -> None:
    options: Options = request.getfixturevalue(served)

    def job(spark: SparkSession) -> list[int]:
        def failing_once(numbers: Iterable[int]) -> Iterable[tuple[int]]:
            context = TaskContext.get()
            if context is not None and context.attemptNumber() == 0:
                raise RuntimeError("the disk is on fire")
            return zip(numbers)

        numbers = spark.sparkContext.parallelize(range(90), 3)
        frame = spark.createDataFrame(numbers.mapPartitions(failing_once), "id BIGINT")
        frame.write.format("permitflow").mode("append").options(**options, **more).save()
        return sorted(row.id for row in spark.read.format("permitflow").options(**options).load().collect())

    assert driver.run(job) == [*range(90)]


# Takes its first rows, and holds them.
HOLDING = """
import sys, time
from permitflow.client.blocking import open_source
with open_source(*sys.argv[1:]) as source:
    print("connected", flush=True)
    rows = next(source)
    time.sleep(1000)
"""


def test_a_job_whose_reader_is_killed_with_rows_in_hand_fails(driver: Driver, options: Options) -> None:
    channel = channels_of(options)[0]
    options = {**options, "stream": "", "channels": channel}
    del options["stream"]

    def job(spark: SparkSession) -> str:
        with open_sink(options["address"], channel, pa.schema([("id", pa.int64())])) as sink:
            sink.end(closes_channel=False)  # a reader is connected once its channel has a schema
        command = [sys.executable, "-c", HOLDING, options["address"], channel]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE)
        # The end of a channel without a reader waits for none.
        assert reader.stdout is not None
        reader.stdout.readline()

        def kill_while_the_commit_waits() -> None:
            with control(options["address"]) as orders:
                while orders.statistics((channel,)).channels[0].state != "ended":
                    sleep(0.01)
            reader.kill()

        rows = spark.range(0, 10, 1, 1).write.format("permitflow").mode("append").options(**options)
        with ThreadPoolExecutor(1) as pool:
            killing = pool.submit(kill_while_the_commit_waits)
            try:
                rows.save()
            except Exception as error:
                return str(error)
            finally:
                killing.result()
                reader.communicate()
        return "the job went well"

    assert f"the consumer of channel '{channel}' at " in driver.run(job)


@pytest.mark.parametrize(
    ("mode", "change", "words"),
    [
        ("overwrite", {}, "option 'mode' must be 'append'"),
        ("append", {"address": "127.0.0.1:1"}, "PeerGoneError: the exchange at 127.0.0.1:1"),
    ],
    ids=["overwrite", "nobody there"],
)
def test_a_failure_to_start_writing_raises_our_own_error(
    driver: Driver, options: Options, mode: str, change: Options, words: str
) -> None:
    changed = {**options, **change}

    def job(spark: SparkSession) -> None:
        spark.range(10).write.format("permitflow").mode(mode).options(**changed).save()

    assert words in driver.failure(job)


def test_trace_dir_records_the_tasks_actions(driver: Driver, options: Options, tmp_path: Path) -> None:
    write(driver, {**options, "trace_dir": str(tmp_path)}, "SELECT id FROM range(0, 1000, 1, 2)")
    trace = read_trace(tmp_path)
    assert trace.is_complete
    sent = [
        rows_of(event)
        for run in trace.channels.values()
        for log in run.logs
        for event in log
        if event.action == "SendChunk"
    ]
    assert sum(sent) == 1000
    assert len(list(tmp_path.glob("*.statistics.json"))) == 2


SOON_SECONDS = 20.0  # guards against hangs


@dataclass
class Attempt:
    """What Spark tells a task that it starts."""

    partition: int
    number: int
    """Of the attempts at the task; it begins anew each time the stage is run."""
    attempt: int
    properties: dict[str, str] = field(default_factory=dict)

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802 - Spark's name
        return self.properties.get(key)

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.partition

    def attemptNumber(self) -> int:  # noqa: N802 - Spark's name
        return self.number

    def taskAttemptId(self) -> int:  # noqa: N802 - Spark's name
        return self.attempt


ONE_COLUMN = StructType().add("id", LongType())
ONE_ROW = pa.record_batch({"id": pa.array([1], pa.int64())})


class Tasks:
    """Runs the attempts at the tasks of a job without Spark."""

    def __init__(self, options: Options, monkeypatch: pytest.MonkeyPatch, *, is_planned: bool = False) -> None:
        self.writer = ExchangeWriter(WriteOptions.parse(options), StructType().add("id", LongType()))
        if is_planned:
            self.writer.require_channels()
        self._monkeypatch = monkeypatch

    def run(self, attempt: Attempt, rows: Iterable[pa.RecordBatch] = (ONE_ROW,)) -> WriterCommitMessage:
        self._monkeypatch.setattr("permitflow.spark.sink.TaskContext.get", lambda: attempt)
        return self.writer.write(iter(rows))


FULL = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}


@pytest.mark.parametrize(("properties", "long_bytes", "shares"), [({}, 9, False), ({}, 8, True), (FULL, 9, True)])
def test_a_task_whose_only_batch_is_short_shares_no_memory(
    options: Options,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    properties: dict[str, str],
    long_bytes: int,
    shares: bool,
) -> None:
    """To share takes longer than such a task, whose row has eight bytes; a batch that is full is not the last one."""
    monkeypatch.setattr("permitflow.carriers.shared_memory.link.RING_FROM_BYTES", long_bytes)
    Tasks({**options, "traceDir": str(tmp_path)}, monkeypatch).run(Attempt(0, 0, 5, properties))
    (told,) = (json.loads(file.read_text()) for file in tmp_path.glob("*.statistics.json"))
    assert told[0]["path"].startswith("shared memory" if shares else "network")


def test_a_second_attempt_is_refused_where_rows_of_the_first_are(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = Tasks(options, monkeypatch)
    tasks.run(Attempt(3, number=0, attempt=8))
    with pytest.raises(TaskRetryError, match="partition 3: it is written for the second time") as caught:
        tasks.run(Attempt(3, number=1, attempt=9))
    assert (caught.value.partition, caught.value.attempt) == (3, 9)
    assert "Spark's log has the error of the one before it" in "".join(format_exception_only(caught.value))


@pytest.mark.parametrize("is_single", [True, False], ids=["one exchange", "several"])
def test_a_retry_is_refused_by_an_exchange_that_was_started_again(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, is_single: bool
) -> None:
    """It has rows that it does not know from whom; those from before the job do not matter."""
    keeping = (*KEEPING, "--store", str(tmp_path / "store"))
    with ExitStack() as stack:
        with served_exchange(address=address, more=keeping) as before:
            options = options_of(before)
            if not is_single:
                other = stack.enter_context(serving("--stream", "other:1", "--address", "127.0.0.1:0", "--quiet"))
                options["address"] += f",{address_of(other)}"
            earlier, tasks = (Tasks(options, monkeypatch, is_planned=True) for _ in range(2))
            earlier.run(Attempt(0, number=0, attempt=8))
        with served_exchange(address=address, more=keeping):
            with pytest.raises(TaskRetryError):
                tasks.run(Attempt(0, number=1, attempt=9))
            later = Tasks(options, monkeypatch, is_planned=True)
            later.writer.commit([later.run(Attempt(0, number=1, attempt=10))])


def test_a_job_ends_at_an_exchange_that_has_lost_its_log(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no store, and is started again behind the planning."""
    with served_exchange(address=address, more=KEEPING) as before:
        tasks = Tasks(options_of(before), monkeypatch, is_planned=True)
    with (
        served_exchange(address=address, more=KEEPING),
        pytest.raises(ChannelResetError, match="its rows were lost with their exchange"),
    ):
        tasks.run(Attempt(0, number=0, attempt=8))


def test_a_stage_that_is_run_again_breaks_its_channels(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark numbers the attempts from 0 again."""
    tasks = Tasks(options, monkeypatch)
    first = tasks.run(Attempt(0, number=0, attempt=5))
    with pytest.raises(TaskRetryError, match="task attempt 9"):
        tasks.run(Attempt(0, number=0, attempt=9))
    with pytest.raises(ChannelAbortedError):
        tasks.writer.commit([first])
    assert str(consume(options, channels_of(options)[0])).startswith("ChannelAbortedError")


def test_an_attempt_with_a_key_may_send_into_each_channel(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks({**options, "key": "id"}, monkeypatch)
    both = pa.record_batch({"id": pa.array([*range(20)], pa.int64())})
    first = tasks.run(Attempt(0, number=0, attempt=5), [both, both])
    with pytest.raises(TaskRetryError, match="task attempt 9"):
        tasks.run(Attempt(0, number=0, attempt=9), [both])
    with pytest.raises(ChannelAbortedError):
        tasks.writer.commit([first])


@pytest.mark.parametrize(("step", "alone"), [("open_sink", 1), ("BlockingSink.end", 0)])
def test_a_task_with_a_key_reaches_its_channels_side_by_side(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch, step: str, alone: int
) -> None:
    """But for the one that is opened first."""
    channels, calls = [exchange.channel() for _ in range(3)], count()
    beside, original = Barrier(len(channels) - alone, timeout=SOON_SECONDS), attrgetter(step)(blocking)

    def together(*stated: object, **options: object) -> object:
        if next(calls) >= alone:
            beside.wait()
        return original(*stated, **options)

    monkeypatch.setattr(f"permitflow.client.blocking.{step}", together)
    options = {"address": exchange.address, "channels": ",".join(channels), "key": "id"}
    rows = pa.record_batch({"id": pa.array([*range(30)], pa.int64())})
    Tasks(options, monkeypatch).run(Attempt(0, number=0, attempt=5), [rows])


def test_a_chunk_has_no_more_rows_than_it_may(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks({**options, "chunkRows": "3"}, monkeypatch)
    tasks.run(Attempt(0, number=0, attempt=5), [pa.record_batch({"id": pa.array([*range(7)], pa.int64())})])
    with open_source(options["address"], channels_of(options)[0]) as source:
        assert [next(source).num_rows for _ in range(3)] == [3, 3, 1]


def test_a_key_needs_all_channels_of_the_stream(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidParametersError, match="must be at least 2, because the exchange has"):
        Tasks({**options, "key": "id", "channels": "1"}, monkeypatch).run(Attempt(0, number=0, attempt=5))


@pytest.mark.parametrize("delivery", ["direct", "staged"])
def test_a_frame_without_columns_is_refused_by_the_driver(options: Options, delivery: str) -> None:
    source = PermitflowDataSource({**options, "delivery": delivery})
    with pytest.raises(InvalidParametersError, match=r"the frame's columns must be at least one: .* rows of nulls"):
        source.writer(StructType(), overwrite=False)


def test_columns_of_one_name_are_refused_by_the_driver(options: Options) -> None:
    with pytest.raises(InvalidParametersError, match=r"\['a', 'a'\]"):
        PermitflowDataSource(options).writer(StructType().add("a", LongType()).add("a", LongType()), overwrite=False)


@pytest.mark.parametrize("delivery", ["direct", "staged"])
def test_columns_that_differ_only_by_case_need_a_session_that_cares(
    driver: Driver, replay_options: Options, delivery: str
) -> None:
    options = {**replay_options, "delivery": delivery, "channels": "1"}

    def job(spark: SparkSession) -> list[Row]:
        frame = spark.sql("SELECT 1 AS id, 2 AS ID")
        frame.write.format("permitflow").mode("append").options(**options).save()
        source = spark.read.format("permitflow").options(**replay_options).option("channels", "1")
        return source.schema(frame.schema).load().collect()

    def caring(spark: SparkSession) -> list[Row]:
        spark.conf.set("spark.sql.caseSensitive", "TRUE")
        try:
            return job(spark)
        finally:
            spark.conf.unset("spark.sql.caseSensitive")

    assert "must have names that differ by more than case: rename" in driver.failure(job)
    assert driver.run(caring) == [Row(id=1, ID=2)]


MONTHS = YearMonthIntervalType(YearMonthIntervalType.MONTH)


UNTYPED = MapType(NullType(), NullType())


@pytest.mark.parametrize(
    "kind", [MONTHS, ArrayType(MONTHS), MapType(StringType(), StructType().add("a", MONTHS)), UNTYPED]
)
def test_a_type_that_arrow_cannot_carry_is_refused_by_the_driver(options: Options, kind: DataType) -> None:
    words = f"the frame's columns must have types that .* leave it out, not 'age {kind.simpleString()}'"
    with pytest.raises(InvalidParametersError, match=words):
        PermitflowDataSource(options).writer(StructType().add("id", LongType()).add("age", kind), overwrite=False)


def test_rare_types_that_arrow_carries_are_not_refused(options: Options) -> None:
    rows = StructType().add("took", DayTimeIntervalType()).add("nothing", ArrayType(NullType()))
    PermitflowDataSource(options).writer(rows, overwrite=False)


@pytest.mark.parametrize("change", [{"stream": "nosuch"}, {}], ids=["no channel", "another schema"])
def test_a_job_that_no_channel_takes_has_nobody_to_tell(options: Options, change: Options) -> None:
    for channel in channels_of(options):
        with open_sink(options["address"], channel, ONE_ROW.schema, timeout_seconds=SOON_SECONDS) as sink:
            sink.end(closes_channel=False)
    ExchangeWriter(WriteOptions.parse({**options, **change}), StructType().add("x", DoubleType())).abort([])
    assert [state_of(options, channel) for channel in channels_of(options)] == ["open", "open"]


def test_an_abort_waits_for_a_silent_exchange_a_moment(
    options: Options, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's driver is not to wait for as long as a task may."""
    monkeypatch.setattr("permitflow.spark.sink.ABORT_TIMEOUT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        away = WriteOptions.parse({**options, "address": address, "timeout_seconds": "3600"})
        ExchangeWriter(away, ONE_COLUMN).abort([None])
    (record,) = caplog.records
    assert re.search(r"0\.5 s", record.message)


def test_an_abort_of_many_channels_waits_once_for_silence(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen are told at a time: each of the six lots waited as long again."""
    monkeypatch.setattr("permitflow.spark.sink.ABORT_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr("permitflow.client.diagnosis._LONGEST_ANSWER_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        away = WriteOptions.parse({**options, "address": address, "channels": "96"})
        began = monotonic()
        ExchangeWriter(away, ONE_COLUMN).abort([None])
    assert monotonic() - began < 5


def test_a_key_that_the_rows_do_not_have_is_refused_by_the_driver(options: Options) -> None:
    rows = StructType().add("id", LongType()).add("x", DoubleType())
    for given, words in (
        ({"key": "nr"}, "option 'key' must be a column of the rows"),
        ({"key": "x"}, "option 'key' must be made of columns of whole numbers"),
        ({"key": "id", "changeColumn": "x"}, "option 'changeColumn' must be a column of text"),
    ):
        with pytest.raises(InvalidOptionError, match=words):
            PermitflowDataSource({**options, **given}).writer(rows, overwrite=False)


def test_a_commit_without_a_tasks_rows_breaks_their_channel(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks(options, monkeypatch)
    tasks.run(Attempt(0, number=0, attempt=5))
    with pytest.raises(JobTotalError, match="has taken 1"):
        tasks.writer.commit([None])
    assert str(consume(options, channels_of(options)[0])).startswith("ChannelAbortedError")


def test_a_task_fails_if_its_reader_needs_no_more(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = channels_of(options)[0]

    def rows() -> Iterator[pa.RecordBatch]:
        yield ONE_ROW
        with open_source(options["address"], channel) as source:
            next(source)
            source.cancel("it has seen enough")

    with pytest.raises(ChannelCancelledError):
        Tasks(options, monkeypatch).run(Attempt(0, number=0, attempt=5), rows())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"channels": "3"}, "unknown channel"),
        ({"address": "127.0.0.1:1"}, "is gone"),
        ({"delivery": "staged"}, "publishes nothing"),
    ],
    ids=["too many channels", "nobody there", "staged rows"],
)
def test_a_job_is_refused_before_any_task(options: Options, change: Options, words: str) -> None:
    with pytest.raises(PermitflowError, match=words):
        PermitflowDataSource({**options, **change}).writer(ONE_COLUMN, overwrite=False)


@pytest.fixture
def staged_options(replay_options: Options) -> Options:
    return {**replay_options, "delivery": "staged"}


@pytest.mark.parametrize(
    ("kind", "breaks", "refusal"),
    [
        ("options", True, ChannelSpentError),
        ("options", False, ChannelSpentError),
        ("replay_options", True, ChannelAbortedError),
        ("replay_options", False, ChannelClosedError),
        ("staged_options", True, ChannelAbortedError),
        ("staged_options", False, ChannelClosedError),
    ],
)
def test_a_job_for_a_used_channel_is_refused_before_any_task(
    request: pytest.FixtureRequest, kind: str, breaks: bool, refusal: type[PermitflowError]
) -> None:
    options: Options = request.getfixturevalue(kind)
    with open_sink(options["address"], channels_of(options)[1], ONE_ROW.schema) as sink:
        if breaks:
            sink.abort("enough")
        else:
            sink.end(closes_channel=True)
    with pytest.raises(refusal):
        PermitflowDataSource(options).writer(ONE_COLUMN, overwrite=False)


def test_a_staged_job_that_may_be_a_repetition_is_not_refused(staged_options: Options) -> None:
    keyed = {**staged_options, "query": f"{staged_options['stream']} nightly", "batch": "1"}
    for _ in range(2):
        PermitflowDataSource(keyed).writer(ONE_COLUMN, overwrite=False).commit([None])
    assert [consume(staged_options, channel) for channel in channels_of(staged_options)] == [[], []]


def test_no_channel_is_ended_before_all_have_been_reached(options: Options) -> None:
    first = channels_of(options)[0]
    named = {"address": options["address"], "channels": f"{first},nowhere", "timeout_seconds": "60"}
    writer = ExchangeWriter(WriteOptions.parse(named), StructType().add("id", LongType()))
    with pytest.raises(UnknownChannelError, match="nowhere"):
        writer.commit([None])
    writer.abort([None])
    assert state_of(options, first) == "waiting"


def test_more_channels_than_there_are_get_no_rows(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks({**options, "channels": "4"}, monkeypatch)
    with pytest.raises(UnknownChannelError, match=f"unknown channel '{options['stream']}/2'"):
        tasks.run(Attempt(0, number=0, attempt=5))
    tasks.writer.abort([None])
    assert [state_of(options, channel) for channel in channels_of(options)] == ["waiting", "waiting"]


def test_a_task_misses_a_channel_of_another_task(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = channels_of(options)
    with control(options["address"]) as orders:
        orders.remove([first])
    tasks = Tasks(options, monkeypatch)
    with pytest.raises(UnknownChannelError, match=first):
        tasks.run(Attempt(1, number=0, attempt=5))
    tasks.writer.abort([None])
    assert state_of(options, second) == "waiting"


def test_an_abort_that_nobody_hears_is_no_second_error(options: Options, caplog: pytest.LogCaptureFixture) -> None:
    """Spark would wrap that of the task, which says what to do, in hundreds of lines."""
    gone = WriteOptions.parse({**options, "address": "127.0.0.1:1"})
    ExchangeWriter(gone, ONE_COLUMN).abort([None])
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "readers may wait for a job that has failed, until their time-out, or take its rows for all of them"
    ]


def test_an_abort_awaits_an_exchange_that_starts_again(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that it has kept would look like all of them."""
    monkeypatch.setattr("permitflow.spark.sink.ABORT_TIMEOUT_SECONDS", 3 * SOON_SECONDS)
    durable = (*KEEPING, "--store", str(tmp_path))
    with served_exchange(more=durable, address=address) as served:
        options = options_of(served)
        tasks = Tasks(options, monkeypatch)
        tasks.writer.require_channels()
        tasks.run(Attempt(0, number=0, attempt=5))
        served.signal(signal.SIGKILL)
    with ThreadPoolExecutor(1) as pool:
        abort = pool.submit(tasks.writer.abort, [None])
        with served_exchange(more=durable, address=address):
            abort.result()
            assert [state_of(options, channel) for channel in channels_of(options)] == ["broken", "waiting"]


def test_a_job_that_comes_too_late_has_nobody_to_tell(options: Options) -> None:
    """Spark would print a second error beside that of the task, which says what to do."""
    schema = StructType().add("n", LongType())
    first, second = (PermitflowDataSource(options).writer(schema, overwrite=False) for _ in range(2))
    first.commit([None])
    assert [consume(options, channel) for channel in channels_of(options)] == [[], []]
    with pytest.raises(ChannelSpentError):
        second.commit([None])
    second.abort([None])


async def reset(options: Options) -> None:
    async with client.control(options["address"]) as orders:
        await orders.reset(channels_of(options), force=True)


def test_an_interrupted_jobs_late_abort_spares_the_next_job(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's driver may come to it long after Ctrl-C."""
    interrupted = Tasks(options, monkeypatch)
    interrupted.run(Attempt(0, number=0, attempt=5))
    asyncio.run(reset(options))
    following = Tasks(options, monkeypatch)
    sent = following.run(Attempt(0, number=0, attempt=7))
    interrupted.writer.abort([None])
    following.writer.commit([sent])
    assert [consume(options, channel) for channel in channels_of(options)] == [[ONE_ROW], []]


def committing(options: Options, pool: ThreadPoolExecutor) -> "Future[None]":
    writer = ExchangeWriter(WriteOptions.parse(options), StructType().add("n", LongType()))
    return pool.submit(writer.commit, [None])


def state_of(options: Options, channel: str) -> str:
    with control(options["address"]) as orders:
        return orders.statistics((channel,)).channels[0].state


@pytest.mark.parametrize("end", ["true", "false"])
def test_a_commit_fails_if_a_reader_has_left_with_rows(options: Options, end: str) -> None:
    channel, _ = channels_of(options)
    batch = pa.record_batch({"n": pa.array([1], pa.int64())})
    with open_sink(options["address"], channel, batch.schema) as sink:
        sink.send(batch)
        sink.end(closes_channel=False)
    with open_source(options["address"], channel) as source:
        next(source)
    while state_of(options, channel) != "broken":
        sleep(0.01)
    with ThreadPoolExecutor(1) as pool, pytest.raises(PeerGoneError, match=f"the consumer of channel '{channel}'"):
        committing({**options, "end": end}, pool).result(SOON_SECONDS)


def test_a_commit_fails_if_a_reader_needs_no_more(options: Options) -> None:
    channel, other = channels_of(options)
    batch = pa.record_batch({"n": pa.array([1], pa.int64())})
    with open_sink(options["address"], channel, batch.schema) as sink:
        sink.send(batch)
        sink.end(closes_channel=False)
    with ThreadPoolExecutor(1) as pool, open_source(options["address"], channel) as source:
        commit = committing(options, pool)
        assert consume(options, other) == []
        source.cancel("it has seen enough")
        with pytest.raises(ChannelCancelledError, match="has not read all of them"):
            commit.result(SOON_SECONDS)


def test_a_commit_says_all_ends_and_waits_for_readers_that_hold_rows(options: Options) -> None:
    """A reader that merges its channels needs the end of one to go on with another."""
    first, second = channels_of(options)
    batch = pa.record_batch({"n": pa.array([1], pa.int64())})
    with open_sink(options["address"], first, batch.schema) as sink, ThreadPoolExecutor(1) as pool:
        sink.send(batch)
        sink.end(closes_channel=False)
        with open_source(options["address"], first) as source:
            assert next(source) == batch
            commit = committing(options, pool)
            assert consume(options, second) == []
            assert not commit.done()
            assert list(source) == []
            commit.result(SOON_SECONDS)
