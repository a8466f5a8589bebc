"""Real queries: each row once, whatever is repeated; and what Spark, source and sink did is what the model allows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from permitflow.errors import InvalidOptionError
from permitflow.spark.options import StreamOptions
from permitflow.testing.query_runs import QueryVerdict, judge_query, published_by_file_sink
from permitflow.transports.grpc_blocking import control, open_sink
from tests.support.served_exchange import ServedExchange, channels_of, producers, served_exchange

T = TypeVar("T")
Options = dict[str, str]


class Driver(Protocol):
    """See ``tests/impl/spark/conftest.py``."""

    def run(self, job: Callable[[SparkSession], T]) -> T: ...
    def failure(self, job: Callable[[SparkSession], object]) -> str: ...


@pytest.fixture
def options(kept: ServedExchange, tmp_path: Path) -> Options:
    """Of a recorded stream of two channels, with a window of 256 rows each."""
    return {
        "address": kept.address,
        "stream": kept.stream(),
        "channels": "2",
        "timeout_seconds": "60",
        "trace_dir": str(tmp_path / "trace"),
    }


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


def chunks(start: int, stop: int) -> list[pa.RecordBatch]:
    return [numbers(first, min(first + 50, stop)) for first in range(start, stop, 50)]


def put(options: Options, channel: int, start: int, stop: int) -> None:
    """Have the exchange keep these numbers; the channel stays open."""
    name = channels_of(options)[channel]
    with open_sink(options["address"], name, numbers(0, 0).schema, timeout_seconds=60) as sink:
        for chunk in chunks(start, stop):
            sink.send(chunk)
        sink.end(closes_channel=False)


def kept_rows(options: Options) -> int:
    """Rows that the exchange keeps for the query."""
    with control(options["address"]) as line:
        return sum(position.next_row - position.acknowledged_row for position in line.positions(channels_of(options)))


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
def test_a_query_takes_each_row_once_and_acknowledges_the_tail_as_the_model_does(
    driver: Driver, options: Options, tmp_path: Path
) -> None:
    """Producers have more rows than the exchange may keep: they wait for the query's acknowledgements."""
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def job(spark: SparkSession) -> list[int]:
        frame = spark.readStream.format("permitflow").schema("n LONG").options(**options).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query = writer.start(table)
        try:
            with producers(options, chunks(0, 300), chunks(300, 450)):
                pass
            query.processAllAvailable()
        finally:
            query.stop()
        return sorted(row.n for row in spark.read.parquet(table).collect())

    assert driver.run(job) == list(range(450))
    assert kept_rows(options) == 0
    verdicts = judge_query(options["trace_dir"], checkpoint, published=published_by_file_sink(table))
    assert [verdict.describe() for verdict in verdicts if not verdict.is_valid] == []
    assert [verdict.table_rows for verdict in verdicts] == [300, 150]
    assert [verdict.state.acknowledged for verdict in verdicts] == [300, 150]


def test_a_batch_that_failed_is_run_again_with_the_same_rows_and_nothing_is_skipped(
    driver: Driver, options: Options, tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    put(options, 0, 0, 100)

    def job(spark: SparkSession) -> tuple[list[str], list[tuple[int, list[int]]]]:
        seen: list[tuple[int, list[int]]] = []

        def fail_once(frame: DataFrame, batch: int) -> None:
            seen.append((batch, sorted(row.n for row in frame.collect())))
            if [number for number, _ in seen].count(1) == 1 and batch == 1:
                raise RuntimeError("the table is locked")

        limited = spark.readStream.format("permitflow").options(**options).option("maxRowsPerBatch", "60")
        ends = [run_available(limited.load(), checkpoint, fail_once) for _ in range(2)]
        put(options, 0, 100, 130)
        ends.append(run_available(limited.load(), checkpoint, fail_once))
        # Somebody acknowledges what the query has not seen yet.
        put(options, 0, 130, 140)
        with control(options["address"]) as line:
            line.acknowledge({channels_of(options)[0]: 135})
        ends.append(run_available(limited.load(), checkpoint, fail_once))
        return ends, seen

    ends, seen = driver.run(job)
    assert seen == [(0, [*range(60)]), (1, [*range(60, 100)]), (1, [*range(60, 100)]), (2, [*range(100, 130)])]
    assert "the table is locked" in ends[0]
    assert ends[1:3] == ["", ""]
    assert "permitflow.errors.RowsLostError" in ends[3]
    assert "from row 130 on, as consumer 'default'" in ends[3]
    assert "Nothing was skipped" in ends[3]


def judged(driver: Driver, options: Options, tmp_path: Path, source: str, *, runs: int) -> QueryVerdict:
    """What the model says about a query over 80 rows, 40 a batch; each run but the last one fails in its last batch."""
    checkpoint = str(tmp_path / "checkpoint")
    put(options, 0, 0, 80)

    def job(spark: SparkSession) -> None:
        from tests.support.sabotaged_sources import AcknowledgesInCommit, AcknowledgesInRead

        for kind in (AcknowledgesInCommit, AcknowledgesInRead):
            spark.dataSource.register(kind)
        stream = spark.readStream.format(source).schema("n LONG").options(**options).option("maxRowsPerBatch", "40")

        for run in range(runs):

            def count(frame: DataFrame, batch: int, fails: bool = run < runs - 1) -> None:
                frame.count()
                if batch == 1 and fails:
                    raise RuntimeError("the table is locked")

            run_available(stream.load(), checkpoint, count)

    driver.run(job)
    return judge_query(options["trace_dir"], checkpoint)[0]


def test_a_run_with_a_crash_between_both_logs_is_a_behaviour_of_the_model(
    driver: Driver, options: Options, tmp_path: Path
) -> None:
    verdict = judged(driver, options, tmp_path, "permitflow", runs=2)
    assert verdict.is_valid, verdict.describe()
    assert (verdict.state.output, verdict.state.acknowledged) == (80, 80)


def test_a_source_that_acknowledges_in_commit_is_found_out_at_the_next_batch(
    driver: Driver, options: Options, tmp_path: Path
) -> None:
    verdict = judged(driver, options, tmp_path, "permitflow_commit", runs=1)
    (event, reason) = (verdict.replay.blocked[0].event, verdict.replay.blocked[0].reason)
    assert (event.action, event.start) == ("PlanBatch", 40)
    assert "only the rows up to 0 have been acknowledged, though the commit log has all up to 40" in reason
    assert "not a behaviour of the specification" in verdict.describe()


def test_a_source_that_acknowledges_in_read_is_found_out_where_the_exchange_shows_it(
    driver: Driver, options: Options, tmp_path: Path
) -> None:
    verdict = judged(driver, options, tmp_path, "permitflow_read", runs=1)
    (event, reason) = (verdict.replay.blocked[0].event, verdict.replay.blocked[0].reason)
    assert (event.action, event.end) == ("Acknowledge", 40)
    assert "the exchange has forgotten the rows up to 40 already, though only those up to 0" in reason


@contextmanager
def two_consumers() -> Iterator[ServedExchange]:
    more = ["--retention", "replay", "--consumer", "etl", "--consumer", "audit", "--drain-seconds", "0.1"]
    with served_exchange(more=more) as served:
        yield served


def test_a_union_of_two_consumers_and_of_one_with_itself_reads_everything_thrice(
    driver: Driver, tmp_path: Path
) -> None:
    with two_consumers() as exchange:
        options = {"address": exchange.address, "stream": exchange.stream(), "channels": "2", "timeout_seconds": "60"}
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
        with control(options["address"]) as line:
            for consumer in ("etl", "audit"):
                rows = [each.acknowledged_row for each in line.positions(channels_of(options), consumer=consumer)]
                assert rows == [50, 30]


def test_what_keeps_a_stream_from_starting_is_said_in_our_words(driver: Driver, options: Options) -> None:
    wrong = {**options, "maxRowsPerBatch": "none"}
    with pytest.raises(InvalidOptionError) as caught:
        StreamOptions.parse(wrong)
    failure = driver.failure(lambda spark: spark.readStream.format("permitflow").options(**wrong).load())
    assert str(caught.value) in failure
