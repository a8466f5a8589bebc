"""Whether a frame's columns are nullable is an accident of its plan: its rows find their way all the same."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from permitflow.client.blocking import open_sink
from permitflow.errors import SchemaMismatchError
from permitflow.spark import PermitflowDataSource
from tests.impl.spark.conftest import Driver
from tests.impl.spark.test_staged_writing import Task, task
from tests.support.served_exchange import channels_of

__all__ = ["task"]

Options = dict[str, str]


def send(options: Options, value: int | None, *, nullable: bool) -> None:
    """A client that is not Spark sends a row into the stream's first channel."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable)])
    with open_sink(options["address"], channels_of(options)[0], schema) as sink:
        sink.send(pa.record_batch([[value]], schema=schema))
        sink.end(closes_channel=False)


@pytest.mark.parametrize("first", ["SELECT 1L AS id", "a client"])
def test_frames_and_clients_share_a_channel_whatever_they_state(
    driver: Driver, replay_options: Options, first: str
) -> None:
    options = {**replay_options, "channels": "1", "end": "false"}
    if first == "a client":
        send(options, 1, nullable=True)

    def job(spark: SparkSession) -> list[int | None]:
        def write(query: str, **more: str) -> None:
            spark.sql(query).write.format("permitflow").mode("append").options(**options, **more).save()

        if first != "a client":
            write(first)
        write("SELECT CAST(NULL AS BIGINT) AS id")
        write("SELECT id FROM range(2, 3)", delivery="staged")
        stated = ", ".join(f"{name} '{value}'" for name, value in options.items())
        spark.sql(f"CREATE TEMPORARY VIEW sink (id BIGINT) USING permitflow OPTIONS ({stated})")
        spark.sql("INSERT INTO sink SELECT 3")
        spark.catalog.dropTempView("sink")
        send(options, 4, nullable=False)
        frame = spark.read.format("permitflow").options(**replay_options).option("channels", "1").load()
        return [row.id for row in frame.collect()]

    assert driver.run(job) == [1, None, 2, 3, 4]


def test_a_variant_may_be_null_whose_parts_may_not(driver: Driver, replay_options: Options) -> None:
    """In Arrow it is a struct of two columns without nulls."""
    options = {**replay_options, "channels": "1"}

    def job(spark: SparkSession) -> list[tuple[str | None, ...]]:
        beside = "named_struct('a', 1, 'v', CAST(NULL AS VARIANT))"
        alone = "CAST(NULL AS VARIANT) AS v, array(parse_json('1'), NULL) AS w"
        frame = spark.sql(f"SELECT {alone}, array({beside}) AS x, map(1, {beside}) AS y")
        frame.write.format("permitflow").mode("append").options(**options).save()
        back = spark.read.format("permitflow").options(**options).load()
        return [tuple(row) for row in back.selectExpr(*(f"CAST({name} AS STRING)" for name in "vwxy")).collect()]

    assert driver.run(job) == [(None, "[1, null]", "[{1, null}]", "{1 -> {1, null}}")]


@pytest.mark.parametrize("how", ["direct", "staged", "a stream"])
def test_a_channel_without_nulls_takes_frames_that_have_none(
    replay_options: Options, task: Task, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(task, "attemptNumber", lambda: 0)
    send(replay_options, 1, nullable=False)

    def write(*, nullable: bool) -> None:
        source, schema = PermitflowDataSource(options), StructType().add("id", LongType(), nullable)
        rows = iter([pa.record_batch([[*range(20)]], schema=pa.schema([pa.field("id", pa.int64(), nullable)]))])
        if how == "a stream":
            stream = source.streamWriter(schema, overwrite=False)
            stream.commit([stream.write(rows)], 0)
        else:
            writer = source.writer(schema, overwrite=False)
            writer.commit([writer.write(rows)])

    options = {**replay_options, "key": "id", "end": "false", **({} if how == "a stream" else {"delivery": how})}
    with pytest.raises(SchemaMismatchError, match="the channel has id: int64 not null; this producer has id: int64: "):
        write(nullable=True)
    write(nullable=False)
