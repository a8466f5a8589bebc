"""The listener: what Spark says about a batch, joined with what the exchange answers; and the plot of it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeVar
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from permitflow.spark import ExchangeListener, listener, plot_back_pressure
from permitflow.spark.listener import QueryRecord
from permitflow.transports.grpc_blocking import open_sink
from tests.support.served_exchange import ServedExchange, channels_of

T = TypeVar("T")
Options = dict[str, str]

NOBODY = "127.0.0.1:1"


class Driver(Protocol):
    """See ``tests/impl/spark/conftest.py``."""

    def run(self, job: Callable[[SparkSession], T]) -> T: ...


@pytest.fixture
def options(kept: ServedExchange) -> Options:
    """Of a stream with one channel, which keeps at most 256 rows."""
    return {"address": kept.address, "stream": kept.stream(), "channels": "1", "timeout_seconds": "60"}


def put(options: Options, count: int) -> None:
    batch = pa.record_batch({"n": pa.array(range(count), pa.int64())})
    with open_sink(options["address"], channels_of(options)[0], batch.schema, timeout_seconds=60) as sink:
        sink.send(batch)
        sink.end(closes_channel=True)


def progress(**changes: Any) -> QueryProgressEvent:
    """As Spark says it."""
    source = {
        "description": "permitflow",
        "startOffset": "null",
        "endOffset": json.dumps({"version": 1, "rows": {"s/0": 10, "s/1": 20}, "logs": {"s/0": "", "s/1": ""}}),
        "latestOffset": json.dumps({"version": 1, "rows": {"s/0": 15, "s/1": 21}, "logs": {"s/0": "", "s/1": ""}}),
        "numInputRows": 30,
        "inputRowsPerSecond": float("nan"),
        "processedRowsPerSecond": 60.0,
    }
    told = {
        "id": "00000000-0000-0000-0000-000000000001",
        "runId": "00000000-0000-0000-0000-000000000002",
        "name": "orders",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 7,
        "batchDuration": 500,
        "durationMs": {"triggerExecution": 400},
        "eventTime": {},
        "stateOperators": [],
        "sources": [source],
        "sink": {"description": "noop", "numOutputRows": 30, "metrics": {}},
        "numInputRows": 30,
        "inputRowsPerSecond": float("nan"),
        "processedRowsPerSecond": 60.0,
        "observedMetrics": {},
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson({**told, **changes}))


def test_each_batch_of_a_query_is_joined_with_what_the_exchange_holds(
    driver: Driver, options: Options, tmp_path: Path
) -> None:
    put(options, 200)
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


def test_other_sources_have_no_backlog_that_is_known_here() -> None:
    watching = ExchangeListener(NOBODY)
    source = {"description": "rate", "startOffset": "1", "endOffset": "2", "latestOffset": '{"topic": {"0": 5}}'}
    rates = {"numInputRows": 1, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0}
    watching.onQueryProgress(progress(sources=[{**source, **rates}]))
    assert watching.records[0].progress is not None
    assert watching.records[0].progress.backlog_rows == 0


def test_an_exchange_that_is_away_costs_a_record_its_numbers_and_no_more() -> None:
    def fails(record: QueryRecord) -> None:
        raise RuntimeError("the user's own mistake")

    watching = ExchangeListener(NOBODY, on_record=fails)
    watching.onQueryProgress(progress())
    (record,) = watching.records
    assert "is gone" in record.error
    assert record.as_json()["error"] == record.error
    with pytest.raises(ValueError, match="needs two looks at least, and here are 0"):
        plot_back_pressure(watching)
