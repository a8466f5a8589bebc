"""The streaming source beside a real exchange: what is asked, read again, waited for and refused.

Without Spark, the calls come in its order: ``latestOffset``, offset log, ``partitions``, ``read``, commit log,
``latestOffset``.  Real queries take each row once, whatever is repeated; and what Spark, source and sink did is what
the model allows.
"""

import json
import pickle
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructType

from permitflow.client.blocking import control, open_sink
from permitflow.errors import (
    ChannelAbortedError,
    PeerGoneError,
    PeerTimeoutError,
    RetentionError,
    RowsLostError,
    SchemaMismatchError,
    UnknownConsumerError,
)
from permitflow.spark import PermitflowDataSource
from permitflow.spark.options import StreamOptions
from permitflow.spark.stream_planning import OffsetJson, Positions, StreamOffset
from permitflow.spark.stream_source import ExchangeStreamReader
from permitflow_testing.query_runs import judge_query, published_by_file_sink
from tests.impl.spark.conftest import KEEPING, Driver, options_of
from tests.support.served_exchange import ServedExchange, channels_of, numbers, producers, served_exchange

Options = dict[str, str]

SCHEMA = StructType().add("n", LongType())
EVERYTHING = ReadAllAvailable()


@pytest.fixture
def options(replay_options: Options) -> Options:
    return replay_options


@pytest.fixture(scope="module")
def shared() -> Iterator[ServedExchange]:
    """One exchange whose channels keep their rows for two consumers."""
    with served_exchange(more=[*KEEPING, "--consumer", "etl", "--consumer", "audit"]) as served:
        yield served


def put(options: Options, channel: int, start: int, stop: int, *, ends: bool = False) -> None:
    """Have the exchange keep these numbers; a chunk for each ten of them."""
    name = f"{options['stream']}/{channel}"
    with open_sink(options["address"], name, numbers(0, 0).schema, timeout_seconds=30) as sink:
        for first in range(start, stop, 10):
            sink.send(numbers(first, min(first + 10, stop)))
        sink.end(closes_channel=ends)


def reader_of(options: Options, schema: StructType = SCHEMA) -> ExchangeStreamReader:
    reader = PermitflowDataSource(options).streamReader(schema)
    assert isinstance(reader, ExchangeStreamReader)
    return reader


def read(options: Options, start: OffsetJson, end: OffsetJson, schema: StructType = SCHEMA) -> list[list[int]]:
    """What the tasks of a batch read, with a copy of a reader that has dialled nobody, as Spark makes them."""
    copy = pickle.loads(pickle.dumps(reader_of(options, schema)))
    assert isinstance(copy, ExchangeStreamReader)
    tasks = [copy.read(partition) for partition in copy.partitions(start, end)]
    return [[number for batch in task for number in batch["n"].to_pylist()] for task in tasks]


def acknowledged(options: Options, consumer: str = "") -> list[int]:
    with control(options["address"]) as line:
        return [each.acknowledged_row for each in line.positions(channels_of(options), consumer=consumer)]


def test_spark_keeps_the_first_batch_of_a_task_as_a_copy(options: Options) -> None:
    put(options, 0, 0, 200)
    put(options, 1, 1000, 1100)
    reader = reader_of(options)
    start, end = reader.initialOffset(), reader.latestOffset(reader.initialOffset(), ReadMaxRows(300))
    first, *_ = reader.read(reader.partitions(start, end)[0])
    assert first["n"].buffers()[1].parent is None  # no part of a message


def test_batches_can_be_read_again_and_are_acknowledged_later(
    options: Options,
) -> None:
    put(options, 0, 0, 200)
    put(options, 1, 1000, 1100)
    reader = reader_of(options)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(256)
    first = reader.initialOffset()
    second = reader.latestOffset(first, limit)
    assert read(options, first, second) == [[*range(128)], [*range(1000, 1100)]]
    assert read(options, first, second) == [[*range(128)], [*range(1000, 1100)]]
    assert acknowledged(options) == [0, 0]
    third = reader.latestOffset(second, limit)
    assert acknowledged(options) == [128, 100]
    assert read(options, second, third) == [[*range(128, 200)]]
    # Nothing is new, and the tail is acknowledged all the same.
    assert reader.latestOffset(third, limit) == third
    assert acknowledged(options) == [200, 100]
    assert reader.partitions(third, third) == []
    assert reader.reportLatestOffset() == {**third, "lag_rows": 0, "waiting_rows": 0, "blocked_share": 0.0}
    reader.stop()


def test_a_query_that_starts_again_goes_on_where_its_checkpoint_is(options: Options) -> None:
    put(options, 0, 0, 50)
    first_run = reader_of(options)
    first = first_run.initialOffset()
    second = first_run.latestOffset(first, ReadMaxRows(20))
    first_run.stop()
    # The batch is in the offset log and not in the commit log: it is read again, and nothing was forgotten.
    put(options, 0, 50, 60)
    next_run = reader_of(options)
    assert next_run.initialOffset() == first
    assert read(options, first, second) == [[*range(20)]]
    third = next_run.latestOffset(second, EVERYTHING)
    assert read(options, second, third) == [[*range(20, 60)]]
    next_run.stop()


def test_available_now_takes_what_is_there_and_ends(options: Options) -> None:
    put(options, 0, 0, 50)
    reader = reader_of(options)
    reader.prepareForTriggerAvailableNow()
    put(options, 0, 50, 60)
    offsets = [reader.initialOffset()]
    while len(offsets) < 2 or offsets[-1] != offsets[-2]:
        offsets.append(reader.latestOffset(offsets[-1], ReadMaxRows(30)))
    assert [offset["rows"] for offset in offsets] == [
        {f"{options['stream']}/0": row, f"{options['stream']}/1": 0} for row in (0, 30, 50, 50)
    ]
    assert acknowledged(options) == [50, 0]
    reader.stop()


def test_a_broken_channel_is_read_to_its_last_row_and_then_said(options: Options) -> None:
    put(options, 0, 0, 10)
    with open_sink(options["address"], f"{options['stream']}/0", numbers(0, 0).schema, timeout_seconds=30) as sink:
        sink.abort("the disk is on fire")
    reader = reader_of(options)
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    assert read(options, reader.initialOffset(), end) == [[*range(10)]]
    with pytest.raises(ChannelAbortedError, match="the disk is on fire; all 10 rows that had come before were read"):
        reader.latestOffset(end, EVERYTHING)
    assert acknowledged(options) == [10, 0]
    reader.stop()


def test_two_queries_read_as_two_consumers_undisturbed(shared: ServedExchange) -> None:
    options = options_of(shared)
    put(options, 0, 0, 50)
    etl, audit = ({**options, "consumer": name} for name in ("etl", "audit"))
    fast, slow = reader_of(etl), reader_of(audit)
    first = slow.initialOffset()
    end = fast.latestOffset(fast.initialOffset(), EVERYTHING)
    fast.latestOffset(end, EVERYTHING)
    assert (acknowledged(options, "etl"), acknowledged(options, "audit")) == ([50, 0], [0, 0])
    assert read(audit, first, slow.latestOffset(first, EVERYTHING)) == [[*range(50)]]
    with pytest.raises(UnknownConsumerError, match="keeps no rows for a consumer 'default'; it does for: 'etl', 'audi"):
        reader_of(options).initialOffset()


def test_two_queries_as_one_consumer_are_told_of_each_other(options: Options, tmp_path: Path) -> None:
    put(options, 0, 0, 50)
    one, other = reader_of(options), reader_of(options)
    first = other.initialOffset()
    end = one.latestOffset(one.initialOffset(), EVERYTHING)
    one.latestOffset(end, EVERYTHING)
    with pytest.raises(RowsLostError, match="perhaps another query, or another branch of this one, reads as consumer"):
        other.latestOffset(first, EVERYTHING)
    with pytest.raises(RowsLostError, match=r"row 0 of channel .* was acknowledged and is forgotten"):
        read({**options, "traceDir": str(tmp_path)}, first, end)
    (recorded,) = tmp_path.glob("task*")
    assert [json.loads(line)["action"] for line in recorded.read_text().splitlines()] == ["RunTask", "FailTask"]


def test_rows_lost_with_an_exchange_in_memory_fail_the_query(address: str) -> None:
    with served_exchange(more=KEEPING, address=address) as exchange:
        options = options_of(exchange)
        put(options, 0, 0, 50)
        reader = reader_of(options)
        first = reader.initialOffset()
        end = reader.latestOffset(first, EVERYTHING)
        exchange.signal(signal.SIGKILL)
    with served_exchange(more=KEEPING, address=address):
        put(options, 0, 0, 90)
        with pytest.raises(RowsLostError, match="an exchange without a durable store was restarted"):
            reader.latestOffset(end, EVERYTHING)
        with pytest.raises(RowsLostError, match="from row 0 on"):
            read(options, first, end)
    reader.stop()


def test_an_exchange_with_a_store_may_start_again_midway(tmp_path: Path, address: str) -> None:
    """The reading stream's own window is so small that most of the task's rows are still in the exchange."""
    durable = (*KEEPING, "--store", str(tmp_path))
    with served_exchange(more=durable, address=address) as exchange:
        options = options_of(exchange, row_permits="20")
        put(options, 0, 0, 200)
        reader = reader_of(options)
        first = reader.initialOffset()
        end = reader.latestOffset(first, ReadMaxRows(120))
        task = reader_of(options).read(reader.partitions(first, end)[0])
        numbers_read = next(task)["n"].to_pylist()
        exchange.signal(signal.SIGKILL)
    back = threading.Event()
    restarted = threading.Thread(target=_serve_again, args=(durable, address, back))
    restarted.start()
    try:
        # The rest of the task, and the driver's line, wait until the exchange is there again.
        numbers_read += [number for batch in task for number in batch["n"].to_pylist()]
        assert numbers_read == [*range(120)]
        assert read(options, end, reader.latestOffset(end, EVERYTHING)) == [[*range(120, 200)]]
        assert acknowledged(options) == [120, 0]
    finally:
        back.set()
        restarted.join()
    reader.stop()


def _serve_again(durable: tuple[str, ...], address: str, until: threading.Event) -> None:
    with served_exchange(more=durable, address=address):
        until.wait(60)


def test_an_absent_exchange_is_awaited_as_long_as_allowed() -> None:
    with served_exchange(more=KEEPING) as exchange:
        options, first, end = filled(exchange)
    # The last attempts have what is left of it, and must have time to be refused.
    hasty = {**options, "timeout_seconds": "3"}
    with pytest.raises(PeerGoneError) as asked:
        reader_of(hasty).latestOffset(end, EVERYTHING)
    with pytest.raises(PeerGoneError) as task:
        read(hasty, first, end)
    for caught in (asked, task):
        assert options["address"] in str(caught.value)
        assert "option timeoutSeconds: 3" in caught.value.__notes__[-1]


def filled(exchange: ServedExchange, **more: str) -> tuple[Options, OffsetJson, OffsetJson]:
    """Options of a stream with 50 rows in its first channel, and their offsets; asked for in peace."""
    options = options_of(exchange, **more)
    put(options, 0, 0, 50)
    reader = reader_of(options)
    first = reader.initialOffset()
    end = reader.latestOffset(first, EVERYTHING)
    reader.stop()
    return options, first, end


def test_a_stalled_exchange_is_named_with_channel_and_cause() -> None:
    with served_exchange(more=KEEPING) as exchange:
        options, first, end = filled(exchange, same_host="never")
        hasty = {**options, "timeout_seconds": "0.5"}
        exchange.signal(signal.SIGSTOP)
        try:
            name = re.escape(f"(channel '{options['stream']}/0' and 1 more) does not answer: no reply within 0.5 s")
            with pytest.raises(PeerTimeoutError, match=name):
                reader_of(hasty).latestOffset(end, EVERYTHING)
            with pytest.raises(PeerTimeoutError, match=re.escape("though it keeps the rows [0, 50): is it")):
                read(hasty, first, end)
        finally:
            exchange.signal(signal.SIGCONT)


def test_a_users_schema_that_does_not_fit_fails_the_task(options: Options) -> None:
    put(options, 0, 0, 10)
    wrong = StructType().add("n", StringType())
    reader = reader_of(options, wrong)
    first = reader.initialOffset()
    end = reader.latestOffset(first, EVERYTHING)
    with pytest.raises(SchemaMismatchError, match="struct<n:string>"):
        read(options, first, end, wrong)
    assert read(options, first, end) == [[*range(10)]]
    reader.stop()


def test_a_channel_that_is_read_once_cannot_be_streamed(exchange: ServedExchange) -> None:
    with pytest.raises(RetentionError, match=r"whose retention is once, .*; let it keep rows: .* --retention replay"):
        reader_of(options_of(exchange)).initialOffset()


@pytest.fixture
def recorded(options: Options, tmp_path: Path) -> Options:
    """Of a recorded stream of two channels, with a window of 256 rows each."""
    return {**options, "trace_dir": str(tmp_path / "trace")}


def chunks(start: int, stop: int) -> list[pa.RecordBatch]:
    return [numbers(first, min(first + 50, stop)) for first in range(start, stop, 50)]


def kept_rows(recorded: Options) -> int:
    """Rows that the exchange keeps for the query."""
    with control(recorded["address"]) as line:
        return sum(position.next_row - position.acknowledged_row for position in line.positions(channels_of(recorded)))


def run_available(frame: DataFrame, checkpoint: str, batch: Callable[[DataFrame, int], None]) -> str:
    """Run a query over what is there; the error in words, if it fails."""
    writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(60)
    except Exception as error:
        return str(error)
    finally:
        query.stop()
    return ""


@pytest.mark.sample
def test_a_query_takes_each_row_once_as_the_model_does(driver: Driver, recorded: Options, tmp_path: Path) -> None:
    """Producers have more rows than the exchange may keep: they wait for the query's acknowledgements."""
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def job(spark: SparkSession) -> list[int]:
        frame = spark.readStream.format("permitflow").schema("n LONG").options(**recorded).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query = writer.start(table)
        try:
            with producers(recorded, chunks(0, 300), chunks(300, 450)):
                pass
            query.processAllAvailable()
        finally:
            query.stop()
        return sorted(row.n for row in spark.read.parquet(table).collect())

    assert driver.run(job) == list(range(450))
    assert kept_rows(recorded) == 0
    verdicts = judge_query(recorded["trace_dir"], checkpoint, published=published_by_file_sink(table))
    assert [verdict.describe() for verdict in verdicts if not verdict.is_valid] == []
    assert [verdict.state.output for verdict in verdicts] == [300, 150]
    assert [verdict.state.acknowledged for verdict in verdicts] == [300, 150]


def test_a_failed_batch_runs_again_with_the_same_rows(driver: Driver, recorded: Options, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    put(recorded, 0, 0, 100)

    def job(spark: SparkSession, *, fails: bool) -> tuple[str, list[tuple[int, list[int]]]]:
        seen: list[tuple[int, list[int]]] = []

        def batch(frame: DataFrame, number: int) -> None:
            seen.append((number, sorted(row.n for row in frame.collect())))
            if number == 1 and fails:
                raise RuntimeError("the table is locked")

        limited = spark.readStream.format("permitflow").options(**recorded).option("maxRowsPerTrigger", "60")
        return run_available(limited.load(), checkpoint, batch), seen

    failed, seen = driver.run(lambda spark: job(spark, fails=True))
    assert "the table is locked" in failed
    assert seen == [(0, [*range(60)]), (1, [*range(60, 100)])]
    assert driver.run(lambda spark: job(spark, fails=False)) == ("", [(1, [*range(60, 100)])])
    (verdict,) = (each for each in judge_query(recorded["trace_dir"], checkpoint) if each.state.output)
    assert verdict.is_valid, verdict.describe()
    assert (verdict.state.output, verdict.state.acknowledged) == (100, 100)
    # Somebody acknowledges what the query has not seen yet.
    put(recorded, 0, 100, 110)
    with control(recorded["address"]) as line:
        line.acknowledge({channels_of(recorded)[0]: 105})
    lost, seen = driver.run(lambda spark: job(spark, fails=False))
    assert seen == []
    for words in ("permitflow.errors.RowsLostError", "from row 100 on, as consumer 'default'", "skips nothing"):
        assert words in lost


class _CommitReader(ExchangeStreamReader):
    """Believes that ``commit`` is the place, as the name suggests."""

    def _acknowledge(self, start: StreamOffset) -> Positions:
        return self._ask_positions()

    def commit(self, end: OffsetJson) -> None:
        self._line.acknowledge(self._planner.acknowledgement(StreamOffset.of_json(end)))


class AcknowledgesInCommit(PermitflowDataSource):
    """``format("permitflow_commit")``: gets stuck when a batch takes the whole window."""

    @classmethod
    def name(cls) -> str:
        return "permitflow_commit"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _CommitReader(StreamOptions.parse(self.options), schema)


def test_a_source_that_acknowledges_in_commit_is_found_out(driver: Driver, recorded: Options, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    put(recorded, 0, 0, 80)

    def job(spark: SparkSession) -> None:
        spark.dataSource.register(AcknowledgesInCommit)
        stream = spark.readStream.format("permitflow_commit").schema("n LONG").options(**recorded)
        run_available(stream.option("maxRowsPerBatch", "40").load(), checkpoint, lambda frame, _: print(frame.count()))

    driver.run(job)
    verdict = judge_query(recorded["trace_dir"], checkpoint)[0]
    (event, reason) = (verdict.replay.blocked[0].event, verdict.replay.blocked[0].reason)
    assert (event.action, event.start) == ("PlanBatch", 40)
    assert "only the rows up to 0 have been acknowledged, though the commit log has all up to 40" in reason
    assert "not a behaviour of the specification" in verdict.describe()


def test_a_union_of_two_consumers_reads_everything_thrice(
    driver: Driver, shared: ServedExchange, tmp_path: Path
) -> None:
    options = options_of(shared)
    put(options, 0, 0, 50)
    put(options, 1, 50, 80)

    def job(spark: SparkSession) -> tuple[str, list[int]]:
        counts: list[int] = []

        def count(frame: DataFrame, batch: int) -> None:
            counts.append(frame.where("n >= 0").count())

        stream = spark.readStream.format("permitflow").schema("n LONG").options(**options)
        etl, audit = stream.option("consumer", "etl").load(), stream.option("consumer", "audit").load()
        return run_available(etl.union(etl).union(audit), str(tmp_path / "checkpoint"), count), counts

    ended, counts = driver.run(job)
    assert ended == ""
    assert sum(counts) == 3 * 80
    assert [acknowledged(options, consumer) for consumer in ("etl", "audit")] == [[50, 30]] * 2
