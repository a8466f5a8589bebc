"""Spark Connect: source and sink, of batch jobs and streaming queries, through a server in a process of its own."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import permitflow.spark
from permitflow.client.blocking import control
from tests.impl.spark.conftest import Driver
from tests.support.samples_service import Service
from tests.support.served_exchange import ServedExchange, channels_of, consume, consumers, numbers, producers

Options = dict[str, str]


def numbers_in(channels: Iterable[list[pa.RecordBatch] | str]) -> list[int]:
    """What was read of all channels; none of them may have failed."""
    found = []
    for batches in channels:
        assert not isinstance(batches, str), batches
        found += [n for batch in batches for n in batch.column(0).to_pylist()]
    return sorted(found)


def another_stream(exchange: ServedExchange, options: Options) -> Options:
    return {**options, "stream": exchange.stream()}


def test_a_batch_job_reads_channels_and_writes_into_others(
    connected: Driver, exchange: ServedExchange, options: Options
) -> None:
    """The source is found by its name: nothing was registered in this session."""
    target = another_stream(exchange, options)

    def job(spark: SparkSession) -> tuple[str, list[int]]:
        with producers(options, [numbers(0, 500)], [numbers(500, 1000)]), consumers(target) as reading:
            frame = spark.read.format("permitflow").options(**options).load()
            frame.selectExpr("n + 1 AS n").write.format("permitflow").mode("append").options(**target).save()
        return type(spark).__module__, numbers_in(future.result() for future in reading)

    module, written = connected.run(job)
    assert ".connect." in module
    assert written == list(range(1, 1001))


def test_a_frame_goes_through_a_service(connected: Driver) -> None:
    with Service(window=65_536).served() as service:
        options: dict[str, Any] = dict(service.options("Rate"))

        def job(spark: SparkSession) -> list[tuple[int, float]]:
            frame = spark.range(0, 100, 1, 2).selectExpr("id as number", "id as kept")
            scored = permitflow.spark.through(frame, keep=["kept"], repeatable=True, **options)
            return sorted((row.kept, row.score) for row in scored.collect())

        assert connected.run(job) == [(number, number / 2) for number in range(100)]


def test_a_query_publishes_rows_of_kept_channels_once(
    connected: Driver, kept: ServedExchange, replay_options: Options, tmp_path: Path
) -> None:
    target = another_stream(kept, replay_options)

    def job(spark: SparkSession) -> list[int]:
        frame = spark.readStream.format("permitflow").schema("n LONG").options(**replay_options).load()
        writer = frame.writeStream.format("permitflow").options(**target)
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        try:
            with producers(replay_options, [numbers(0, 100)], [numbers(100, 250)]):
                query.processAllAvailable()
        finally:
            query.stop()
        with control(target["address"]) as line:
            line.close_channels(channels_of(target))
        return numbers_in(consume(target, channel) for channel in channels_of(target))

    assert connected.run(job) == list(range(250))
    with control(replay_options["address"]) as line:
        assert [position.acknowledged_row for position in line.positions(channels_of(replay_options))] == [100, 150]
