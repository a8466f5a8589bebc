"""The listener: what Spark says about a batch, joined with what the exchange answers; and the plot of it.

What a query has committed when it is stopped is acknowledged for it, if that was wanted, and nothing else is.
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from unittest.mock import patch
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from permitflow.client.blocking import control, open_sink
from permitflow.spark import ExchangeListener, listener
from permitflow.spark.listener import CommittedTails, QueryRecord
from permitflow_testing.query_runs import judge_query
from permitflow_tools.explain.back_pressure import plot_back_pressure
from tests.impl.spark.conftest import Driver, options_of
from tests.support.served_exchange import ServedExchange, channels_of, numbers

Options = dict[str, str]

NOBODY = "127.0.0.1:1"


@pytest.fixture
def options(kept: ServedExchange) -> Options:
    """Of a stream with one channel, which keeps at most 256 rows."""
    return options_of(kept, channels="1")


def put(options: Options, first: int, stop: int, *, closes: bool = False) -> None:
    batch = numbers(first, stop)
    with open_sink(options["address"], channels_of(options)[0], batch.schema, timeout_seconds=60) as sink:
        sink.send(batch)
        sink.end(closes_channel=closes)


RUN = uuid4()


def said(*ends: str, latest: str = "null", name: str | None = "orders") -> StreamingQueryProgress:
    """What Spark says of a batch of so many sources, each with the offset at which it ends."""
    rates = {"numInputRows": 30, "inputRowsPerSecond": float("nan"), "processedRowsPerSecond": 60.0}
    source = {"description": "permitflow", "startOffset": "null", "latestOffset": latest, **rates}
    told = {"id": str(uuid4()), "runId": str(RUN), "name": name, "timestamp": "2026-01-01T00:00:00.000Z"}
    batch = {"batchId": 7, "batchDuration": 500, "durationMs": {"triggerExecution": 400}, "observedMetrics": {}}
    return StreamingQueryProgress.fromJson(
        {
            **{**told, **batch, **rates, "eventTime": {}, "stateOperators": []},
            "sources": [{**source, "endOffset": end} for end in ends],
            "sink": {"description": "noop", "numOutputRows": 30, "metrics": {}},
        }
    )


def progress() -> QueryProgressEvent:
    """Of two channels, with 6 rows left."""
    end, latest = (
        json.dumps({"version": 1, "rows": {"s/0": first, "s/1": second}, "logs": {"s/0": "", "s/1": ""}})
        for first, second in ((10, 20), (15, 21))
    )
    return QueryProgressEvent(said(end, latest=latest))


def test_each_batch_of_a_query_is_joined_with_what_the_exchange_holds(
    driver: Driver, options: Options, tmp_path: Path
) -> None:
    put(options, 0, 200, closes=True)
    written = tmp_path / "records.jsonl"

    def job(spark: SparkSession) -> list[QueryRecord]:
        whole = Event()

        def note(record: QueryRecord) -> None:
            if sum(each.progress.input_rows for each in made.records if each.progress) == 200:
                whole.set()

        made = listener(spark, options["address"], channels_of(options), on_record=note)
        answers_late = patch.object(sys.modules[ExchangeListener.__module__], "LONGEST_ANSWER_SECONDS", 60.0)
        try:
            answers_late.start()  # how soon is for the machine to say
            frame = spark.readStream.format("permitflow").schema("n LONG").options(**options)
            writer = frame.option("maxRowsPerBatch", "80").load().writeStream.format("noop").queryName("orders")
            query = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            assert query.awaitTermination(60)
            assert whole.wait(30)
            made.write(written)
            return list(made.records)
        finally:
            answers_late.stop()
            spark.streams.removeListener(made)

    records = driver.run(job)
    batches = [record.progress for record in records if record.progress is not None and record.progress.input_rows]
    assert [(batch.query, batch.input_rows) for batch in batches] == [("orders", 80), ("orders", 80), ("orders", 40)]
    assert [batch.backlog_rows for batch in batches] == [120, 40, 0]
    assert {record.error for record in records} == {""}
    assert {flow.traffic.channel for record in records for flow in record.flows} == set(channels_of(options))
    assert len(plot_back_pressure(written).axes) == 3


def test_backlog_and_rates_come_from_sparks_progress(kept: ServedExchange) -> None:
    watching = ExchangeListener(kept.address)
    watching.onQueryProgress(progress())
    watching.close()
    (record,) = watching.records
    assert record.progress is not None
    assert (record.progress.batch, record.progress.backlog_rows, record.progress.batch_seconds) == (7, 6, 0.4)
    assert record.progress.input_rows_per_second == 0.0
    json.dumps(record.as_json(), allow_nan=False)


def test_an_absent_exchange_costs_a_record_only_its_numbers() -> None:
    def fails(record: QueryRecord) -> None:
        raise RuntimeError("the user's own mistake")

    watching = ExchangeListener(NOBODY, on_record=fails)
    watching.onQueryProgress(progress())
    (record,) = watching.records
    assert "is gone" in record.error
    assert record.as_json()["error"] == record.error
    with pytest.raises(ValueError, match="needs two looks at least, and here are 0"):
        plot_back_pressure(watching)


def acknowledged_row(options: Options) -> int:
    with control(options["address"]) as orders:
        return orders.positions(channels_of(options))[0].acknowledged_row


def committed(
    options: Options, *rows: int, name: str | None = "orders", log_id: str | None = None
) -> StreamingQueryProgress:
    """What Spark says of a batch that ends at this row; of several sources, if there are several rows."""
    (channel,) = channels_of(options)
    with control(options["address"]) as orders:
        log_id = log_id or orders.positions([channel])[0].log_id
    ends = [json.dumps({"version": 1, "rows": {channel: row}, "logs": {channel: log_id}}) for row in rows]
    return said("17", '{"topic": {"0": 5}}', "null", *ends, name=name)


def after(options: Options, consumers: Mapping[str, str], batches: Sequence[StreamingQueryProgress]) -> int:
    """What is acknowledged when the run has ended of which Spark has said this."""
    tails = CommittedTails(options["address"], consumers)
    for batch in batches:
        tails.committed(batch)
    tails.ended(uuid4())
    assert acknowledged_row(options) == 0
    tails.ended(RUN)
    row = acknowledged_row(options)
    # Nothing is left to acknowledge: nobody is dialled any more.
    tails._address = NOBODY
    tails.ended(RUN)
    return row


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What we have logged; others log what they like, the event loop about an earlier test's garbage for one."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("permitflow.")]


def test_the_last_committed_batch_is_acknowledged_once_at_the_end(
    options: Options, caplog: pytest.LogCaptureFixture
) -> None:
    put(options, 0, 100)
    batches = [committed(options, row) for row in (30, 80)]
    assert after(options, {"orders": "default"}, batches) == 80
    assert not told(caplog)


def test_a_query_that_is_not_named_is_left_alone(options: Options) -> None:
    put(options, 0, 100)
    batches = [committed(options, 30), committed(options, 30, name=None)]
    assert after(options, {"another": "default"}, batches) == 0
    assert after(options, {str(batches[1].id): "default"}, batches) == 30


def test_the_listener_does_not_acknowledge_unknown_queries_or_offsets(
    options: Options, caplog: pytest.LogCaptureFixture
) -> None:
    put(options, 0, 100)
    with caplog.at_level(logging.WARNING):
        assert after(options, {"orders": "default"}, []) == 0
        assert after(options, {"orders": "default"}, [committed(options)]) == 0
        assert not told(caplog)
        assert after(options, {"orders": "default"}, [committed(options, 30, 40)]) == 0
        assert after(options, {"orders": "nobody"}, [committed(options, 30)]) == 0
        assert after(options, {"orders": "default"}, [committed(options, 30, log_id="another")]) == 0
    twice, unknown, lost = told(caplog)
    assert "query 'orders' reads from exchanges 2 times: nothing is acknowledged for it" in twice
    assert "until the query starts again: " in unknown
    assert "another" in lost


def test_a_stopped_query_holds_no_row_and_goes_on_where_it_was(
    driver: Driver, options: Options, tmp_path: Path
) -> None:
    checkpoint, traces = str(tmp_path / "checkpoint"), str(tmp_path / "traces")
    put(options, 0, 200)

    def job(spark: SparkSession) -> tuple[list[int], int, list[int]]:
        seen: list[int] = []
        read, over = Event(), Event()

        def note(record: QueryRecord) -> None:
            if record.progress is not None:
                read.set()
            elif read.is_set():
                over.set()

        def count(frame: DataFrame, _batch: int) -> None:
            seen.extend(row.n for row in frame.collect())

        made = listener(spark, options["address"], on_record=note, acknowledge_for={"orders": "default"})
        try:
            frame = spark.readStream.format("permitflow").options(**options, trace_dir=traces, maxRowsPerBatch="150")
            writer = frame.load().writeStream.foreachBatch(count).queryName("orders")
            writer = writer.option("checkpointLocation", checkpoint)
            # It asks for no second batch, so it acknowledges nothing by itself.
            query = writer.trigger(processingTime="1 hour").start()
            assert read.wait(60)
            query.stop()
            assert over.wait(60)
            first, acknowledged = sorted(seen), acknowledged_row(options)
            put(options, 200, 250)
            assert writer.trigger(availableNow=True).start().awaitTermination(60)
            return first, acknowledged, sorted(seen)
        finally:
            spark.streams.removeListener(made)

    first, acknowledged, all_of_them = driver.run(job)
    assert (first, acknowledged, all_of_them) == ([*range(150)], 150, [*range(250)])
    assert [verdict.describe() for verdict in judge_query(traces, checkpoint) if not verdict.is_valid] == []
