"""Spark reads the channels of an exchange: rows, types, permits, and what it says when it cannot."""

from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from permitflow.client.blocking import open_sink
from permitflow.errors import SchemaMismatchError
from permitflow.spark import PermitflowDataSource
from permitflow.spark.source import ExchangeReader
from permitflow.tracing import read_trace
from tests.impl.spark.conftest import Driver
from tests.support.served_exchange import channels_of, numbers, produce, producers

Options = dict[str, str]


def test_each_channel_is_a_partition_with_the_agreed_schema(driver: Driver, options: Options) -> None:
    def job(spark: SparkSession) -> tuple[str, list[list[int]]]:
        with producers(options, [numbers(0, 500), numbers(500, 600)], [numbers(600, 1000)]):
            frame = spark.read.format("permitflow").options(**options).load()
            return frame.schema.simpleString(), frame.rdd.map(lambda row: int(row.n)).glom().collect()

    schema, partitions = driver.run(job)
    assert schema == "struct<n:bigint>"
    assert partitions == [list(range(600)), list(range(600, 1000))]


def test_a_users_schema_that_does_not_fit_is_refused_and_rows_stay(driver: Driver, options: Options) -> None:
    def job(spark: SparkSession) -> tuple[str, int]:
        with producers(options, [numbers(0, 10)], [numbers(10, 20)]):
            wrong = spark.read.schema("n INT").format("permitflow").options(**options).load()
            try:
                wrong.collect()
            except Exception as error:
                return str(error), spark.read.format("permitflow").options(**options).load().count()
        raise AssertionError("the wrong schema was taken")

    text, rows_left = driver.run(job)
    assert "permitflow.errors.SchemaMismatchError: schemas differ" in text
    assert "struct<n:int>" in text
    assert "struct<n:bigint>" in text
    assert rows_left == 20


def test_columns_that_differ_only_by_case_are_refused_at_load(options: Options) -> None:
    twins = pa.schema({"n": pa.int64(), "N": pa.int64()})
    with (
        open_sink(options["address"], channels_of(options)[0], twins),
        pytest.raises(SchemaMismatchError, match=r"has 'n' and 'N'"),
    ):
        PermitflowDataSource(options).schema()


def test_a_stream_is_read_once(driver: Driver, options: Options) -> None:
    def job(spark: SparkSession) -> tuple[int, str]:
        with producers(options, [numbers(0, 10)], [numbers(10, 20)]):
            frame = spark.read.format("permitflow").options(**options).load()
            first = frame.count()
            try:
                frame.count()
            except Exception as error:
                return first, str(error)
        raise AssertionError("it was read twice")

    first, text = driver.run(job)
    assert first == 20
    assert "permitflow.errors.ChannelSpentError" in text
    assert "a channel is written and read once" in text


def test_a_reader_that_stops_early_fails_the_producer(driver: Driver, options: Options) -> None:
    def job(spark: SparkSession) -> tuple[int, str]:
        try:
            with producers({**options, "channels": "1"}, [numbers(0, 100_000)]):
                frame = spark.read.format("permitflow").options(**{**options, "channels": "1"}).load()
                rows = len(frame.take(5))
        except Exception as error:
            return rows, f"{type(error).__name__}: {error}"
        raise AssertionError("the producer believes that all was read")

    rows, text = driver.run(job)
    assert rows == 5
    assert text.startswith("PeerGoneError: the consumer of channel")


def test_an_aborted_stream_fails_the_job(driver: Driver, options: Options) -> None:
    broken = pa.record_batch({"other": ["x"]})

    def job(spark: SparkSession) -> str:
        try:
            # The second batch does not fit: the producer gives up.
            with producers({**options, "channels": "1"}, [numbers(0, 10), broken]):
                spark.read.format("permitflow").options(**{**options, "channels": "1"}).load().collect()
        except Exception as error:
            return str(error)
        raise AssertionError("a shortened result was taken for the whole")

    text = driver.run(job)
    assert "permitflow.errors.ChannelAbortedError" in text
    assert "gave up: SchemaMismatchError" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stream": "nowhere"}, "UnknownChannelError: unknown channel 'nowhere/0'"),
        ({"timeout_seconds": "0.2"}, "PeerTimeoutError: the exchange at"),
    ],
    ids=["unknown channel", "no producer"],
)
def test_a_failure_to_start_reading_raises_our_own_error(
    driver: Driver, options: Options, change: Options, words: str
) -> None:
    changed = {**options, **change}
    assert words in driver.failure(lambda spark: spark.read.format("permitflow").options(**changed).load())


def test_a_batchs_permits_return_when_spark_asks_for_the_next(options: Options, tmp_path: Path) -> None:
    """Spark's worker resumes the generator once it has written a batch to the JVM."""
    # A chunk is more than half the window: each comes alone.
    single = {**options, "channels": "1", "row_permits": "100", "permit_batch": "1"}
    for channel in channels_of(single):
        produce(single, channel, [numbers(0, 64), numbers(64, 128), numbers(128, 192)])
    source = PermitflowDataSource({**single, "trace_dir": str(tmp_path)})
    reader = source.reader(StructType().add("n", LongType()))
    assert isinstance(reader, ExchangeReader)
    batches = reader.read(reader.partitions()[0])
    assert [next(batches).num_rows, next(batches).num_rows] == [64, 64]
    batches.close()  # type: ignore[attr-defined]  # a generator, as Spark closes it
    (trace,) = read_trace(tmp_path).channels.values()
    actions = [event.action for log in trace.logs for event in log]
    assert actions.count("Deliver") >= 2
    assert actions.count("Consume") == 1


def test_chunks_together_are_one_batch_of_half_the_window_at_most(options: Options) -> None:
    single = {**options, "channels": "1", "row_permits": "256"}
    (channel,) = channels_of(single)
    produce(single, channel, [numbers(start, start + 64) for start in range(0, 256, 64)])
    reader = PermitflowDataSource(single).reader(StructType().add("n", LongType()))
    assert isinstance(reader, ExchangeReader)
    batches = list(reader.read(reader.partitions()[0]))
    assert [batch.column("n").to_pylist() for batch in batches] == [[*range(128)], [*range(128, 256)]]


def test_spark_keeps_the_first_batch_as_a_copy(options: Options) -> None:
    """Spark holds it until all are read, and a message in shared memory that is held keeps all space behind it."""
    single = {**options, "channels": "1", "row_permits": "100"}
    (channel,) = channels_of(single)
    produce(single, channel, [numbers(0, 64), numbers(64, 128)])
    reader = PermitflowDataSource(single).reader(StructType().add("n", LongType()))
    assert isinstance(reader, ExchangeReader)
    first, second = reader.read(reader.partitions()[0])
    assert [*first.column("n").to_pylist(), *second.column("n").to_pylist()] == [*range(128)]
    parents = [batch.column("n").buffers()[1].parent for batch in (first, second)]  # the message that it is a part of
    assert [parent is None for parent in parents] == [True, False]


def test_a_slow_job_gets_short_batches(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow.spark.reading.monotonic", count(step=10).__next__)
    single = {**options, "channels": "1", "row_permits": "64"}
    (channel,) = channels_of(single)
    produce(single, channel, [numbers(row, row + 1) for row in range(64)])
    reader = PermitflowDataSource(single).reader(StructType().add("n", LongType()))
    assert isinstance(reader, ExchangeReader)
    batches = list(reader.read(reader.partitions()[0]))
    assert max(batch.num_rows for batch in batches[1:]) <= 16
    assert [row for batch in batches for row in batch.column("n").to_pylist()] == [*range(64)]
