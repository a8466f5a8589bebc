"""What users of Spark's Kafka source do, beside a real exchange: where rows are from, from where on, in which tasks."""

import json
import time
from collections.abc import Iterable
from traceback import format_exception_only

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

import permitflow.spark
from permitflow.client.blocking import control, open_sink
from permitflow.errors import (
    ChannelSpentError,
    InvalidOptionError,
    PeerTimeoutError,
    PermitflowError,
    RetentionError,
    RowsNotThereError,
    UnknownChannelError,
)
from permitflow.spark import PermitflowDataSource
from permitflow.spark.source import ExchangeReader
from permitflow.spark.stream_source import ExchangeStreamReader
from tests.impl.spark.conftest import Driver
from tests.support.process import reserved_address
from tests.support.served_exchange import channels_of, numbers, producers
from tests.support.serving import address_of, serving

Options = dict[str, str]


@pytest.fixture
def kept_rows(replay_options: Options) -> Options:
    """Two channels: of one the rows 0 to 99, of the other 1000 to 1019; five of each are acknowledged."""
    address, channels = replay_options["address"], channels_of(replay_options)
    for channel, first, last in ((channels[0], 0, 100), (channels[1], 1000, 1020)):
        with open_sink(address, channel, numbers(0, 0).schema, timeout_seconds=30) as sink:
            sink.send(numbers(first, last))
            sink.end(closes_channel=False)
    with control(address) as orders:
        orders.acknowledge(dict.fromkeys(channels, 5))
    return replay_options


def batch_reader(options: Options, schema: StructType | None = None) -> ExchangeReader:
    source = PermitflowDataSource(options)
    reader = source.reader(schema or source.schema())
    assert isinstance(reader, ExchangeReader)
    return reader


def stream_reader(options: Options) -> ExchangeStreamReader:
    source = PermitflowDataSource(options)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, ExchangeStreamReader)
    return reader


def rows_of(reader: ExchangeReader | ExchangeStreamReader, parts: Iterable[InputPartition]) -> list[list[int]]:
    """The numbers that each task reads."""
    return [[number for batch in reader.read(part) for number in batch["n"].to_pylist()] for part in parts]


def test_a_row_is_named_by_channel_log_and_number(kept_rows: Options) -> None:
    reader = batch_reader({**kept_rows, "includeMetadata": "true"})
    table = pa.Table.from_batches([batch for part in reader.partitions() for batch in reader.read(part)])
    channels = channels_of(kept_rows)
    assert table.column_names == ["n", "_channel", "_row", "_log"]
    assert table["_row"].to_pylist() == [*range(5, 100), *range(5, 20)]
    assert table["_channel"].to_pylist() == [channels[0]] * 95 + [channels[1]] * 15
    with control(kept_rows["address"]) as orders:
        logs = [position.log_id for position in orders.positions(channels)]
    assert table["_log"].to_pylist() == [logs[0]] * 95 + [logs[1]] * 15


def test_rows_of_a_channel_that_is_read_once_are_numbered_too(options: Options) -> None:
    with producers(options, [numbers(7, 9)], [numbers(9, 10)]):
        reader = batch_reader({**options, "includeMetadata": "true", "columns": "n"})
        rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    first, second = channels_of(options)
    found = [(row["n"], row["_channel"], row["_row"], row["_log"]) for row in rows]
    assert found == [(7, first, 0, None), (8, first, 1, None), (9, second, 0, None)]


def test_a_second_reading_of_a_channel_is_refused_before_any_task(options: Options) -> None:
    with producers(options, [numbers(7, 9)], [numbers(9, 10)]):
        reader = batch_reader(options)
        assert rows_of(reader, reader.partitions()) == [[7, 8], [9]]
    with control(options["address"]) as orders:
        while any(told.state != "spent" for told in orders.statistics(channels_of(options)).channels):
            pass  # the exchange hears of the end after its reader
    with pytest.raises(ChannelSpentError, match="it was read to its end by"):
        reader.partitions()


def test_a_batch_job_reads_from_one_offset_to_another(kept_rows: Options) -> None:
    first, second = channels_of(kept_rows)
    places = {"startingOffsets": json.dumps({first: 90}), "endingOffsets": json.dumps({second: 7})}
    reader = batch_reader({**kept_rows, **places})
    assert rows_of(reader, reader.partitions()) == [[*range(90, 100)], [1005, 1006]]
    beyond = batch_reader({**kept_rows, "startingOffsets": json.dumps({first: 101})})
    with pytest.raises(RowsNotThereError, match="its next row is 100"):
        beyond.partitions()


def test_a_job_without_rows_has_a_task_all_the_same(kept_rows: Options) -> None:
    latest = batch_reader({**kept_rows, "startingOffsets": "latest"})
    (alone,) = latest.partitions()
    assert rows_of(latest, [alone]) == [[]]


def test_a_kept_channel_that_is_consumed_is_read_again(kept_rows: Options) -> None:
    """It has no rows left, and is no channel that is read once."""
    channels = channels_of(kept_rows)
    with control(kept_rows["address"]) as orders:
        orders.acknowledge(dict(zip(channels, (100, 20), strict=True)))
        orders.close_channels(channels)
        assert {told.state for told in orders.statistics(channels).channels} == {"spent"}
    reader = batch_reader(kept_rows)
    assert rows_of(reader, reader.partitions()) == [[]]


def test_tasks_are_as_many_as_the_user_wants(kept_rows: Options) -> None:
    more = batch_reader({**kept_rows, "minPartitions": "4"})
    assert [len(rows) for rows in rows_of(more, more.partitions())] == [31, 32, 32, 15]
    fewer = batch_reader({**kept_rows, "maxPartitions": "1"})
    assert rows_of(fewer, fewer.partitions()) == [[*range(5, 100), *range(1005, 1020)]]


def test_rows_that_end_before_they_begin_are_refused(kept_rows: Options) -> None:
    first, _ = channels_of(kept_rows)
    places = {"startingOffsets": json.dumps({first: 50}), "endingOffsets": json.dumps({first: 10})}
    with pytest.raises(InvalidOptionError, match=f"must not end channel '{first}' before row 50"):
        batch_reader({**kept_rows, **places}).partitions()


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "minPartitions", "maxPartitions", "consumer"])
def test_a_channel_that_is_read_once_has_no_ranges(options: Options, option: str) -> None:
    text = {"minPartitions": "3", "maxPartitions": "1"}.get(option, "latest")
    with producers(options, [numbers(0, 1)], [numbers(0, 1)]):
        reader = batch_reader({**options, option: text}, StructType([StructField("n", LongType())]))
        with pytest.raises(InvalidOptionError, match="needs channels that keep their rows") as caught:
            reader.partitions()
        assert caught.value.option == option
        left = batch_reader(options)
        assert rows_of(left, left.partitions()) == [[0], [0]]


@pytest.mark.parametrize(
    ("option", "refusal"),
    [
        ({"startingOffsets": "earliest"}, InvalidOptionError),
        ({"minRowsPerTrigger": "9"}, RetentionError),
        ({"timeout_seconds": "0.1"}, PeerTimeoutError),  # a stream, or a batch job for which a producer would help
    ],
    ids=["offsets", "stream", "either"],
)
def test_no_producer_is_awaited_who_would_not_help(
    options: Options, option: Options, refusal: type[PermitflowError]
) -> None:
    with pytest.raises(refusal) as caught:
        PermitflowDataSource({**options, **option}).schema()
    assert "permitflow serve --retention replay" in "".join(format_exception_only(caught.value))


def test_a_channel_that_is_not_there_is_told_before_a_producer_comes(options: Options) -> None:
    with pytest.raises(UnknownChannelError, match=f"unknown channel '{options['stream']}/2'"):
        PermitflowDataSource({**options, "channels": "3"}).schema()


def test_a_channel_to_unite_that_no_exchange_has_is_told_first(options: Options) -> None:
    with serving("--stream", "other", "--quiet") as other:
        addresses = f"{options['address']},{address_of(other)}"
        names = f"{channels_of(options)[0]},there-is-none"
        given = {"address": addresses, "channels": names, "mergeSchema": "true", "timeoutSeconds": "20"}
        with pytest.raises(UnknownChannelError, match="there-is-none"):
            PermitflowDataSource(given).schema()


def test_a_plain_read_of_several_exchanges_asks_for_a_schema_alone(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a silent one each question takes seconds."""

    def asked(*_: object, **__: object) -> None:
        raise AssertionError("it asked what no option needs")

    monkeypatch.setattr("permitflow.client.blocking.control", asked)
    with reserved_address() as away, producers(options, [numbers(0, 1)], [numbers(0, 1)]):
        divided = {**options, "address": f"{options['address']},{away}"}
        assert PermitflowDataSource(divided).schema().names == ["n"]
        monkeypatch.undo()
        reader = batch_reader(options)
        assert rows_of(reader, reader.partitions()) == [[0], [0]]


def test_a_new_query_begins_at_the_latest_rows_in_several_tasks(kept_rows: Options) -> None:
    reader = stream_reader({**kept_rows, "startingOffsets": "latest", "minPartitions": "4"})
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    entered = reader.latestOffset(start, limit)
    assert reader.partitions(start, entered) == []
    with open_sink(kept_rows["address"], channels_of(kept_rows)[0], numbers(0, 0).schema) as sink:
        sink.send(numbers(100, 108))
        sink.end(closes_channel=False)
    following = reader.latestOffset(entered, limit)
    assert rows_of(reader, reader.partitions(entered, following)) == [
        [100, 101],
        [102, 103],
        [104, 105],
        [106, 107],
    ]
    reader.stop()


def test_a_batch_has_so_many_bytes_at_most(kept_rows: Options) -> None:
    reader = stream_reader({**kept_rows, "maxBytesPerTrigger": "80B", "maxPartitions": "1"})
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxBytes(80)
    end = reader.latestOffset(start, ReadMaxBytes(80))
    ((*rows,),) = rows_of(reader, reader.partitions(start, end))
    assert len(rows) == 10
    both = stream_reader({**kept_rows, "maxBytesPerTrigger": "80B", "maxRowsPerTrigger": "3"})
    assert both.getDefaultReadLimit() == ReadMaxRows(3)
    assert sum(map(len, rows_of(both, both.partitions(start, both.latestOffset(start, ReadMaxRows(3)))))) == 3
    reader.stop()
    both.stop()


def test_lost_rows_are_left_out_if_the_user_wants(kept_rows: Options, caplog: pytest.LogCaptureFixture) -> None:
    channels = channels_of(kept_rows)
    reader = stream_reader({**kept_rows, "failOnDataLoss": "false"})
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    first = reader.latestOffset(start, limit)
    with control(kept_rows["address"]) as orders:
        orders.acknowledge({channels[0]: 60, channels[1]: 20})
    # The batch that was planned is read again: of one channel the end is left, of the other one nothing.
    assert rows_of(reader, reader.partitions(start, first)) == [[*range(60, 100)], []]
    assert "the rows [5, 60) of channel" in caplog.text
    entered = reader.latestOffset(start, limit)
    assert f"rows of channel {channels[0]!r} are lost from row 5 on, and left out: " in caplog.text
    assert "The query stops here" not in caplog.text
    assert rows_of(reader, reader.partitions(start, entered)) == [[], []]
    following = reader.latestOffset(entered, limit)
    assert rows_of(reader, reader.partitions(entered, following)) == [[*range(60, 100)]]
    reader.stop()


def test_rows_have_the_time_at_which_they_came_if_the_user_wants(kept_rows: Options) -> None:
    began = time.time()
    wanted = {**kept_rows, "includeTime": "true", "includeMetadata": "true", "startingOffsets": "earliest"}
    reader = batch_reader(wanted)
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert {tuple(batch.schema.names) for batch in batches} == {("n", "_channel", "_row", "_log", "_time")}
    times = [each.timestamp() for batch in batches for each in batch["_time"].to_pylist()]
    assert len(times) == 110
    assert began - 600 < min(times) <= max(times) <= time.time()


def test_times_of_a_channel_that_is_read_once_are_refused(options: Options) -> None:
    reader = batch_reader({**options, "includeTime": "true"}, StructType([StructField("n", LongType())]))
    with pytest.raises(InvalidOptionError, match=r"includeTime.* needs channels that keep their rows"):
        reader.partitions()


@pytest.mark.parametrize("more", [{}, {"includeMetadata": "true"}], ids=["plain", "with metadata"])
def test_a_query_keeps_its_columns_when_producers_bring_more(kept_rows: Options, more: Options) -> None:
    wanted = {**kept_rows, **more}
    before = PermitflowDataSource(wanted).schema()
    grown = numbers(0, 0).schema.append(pa.field("word", pa.string()))
    for channel, first in zip(channels_of(kept_rows), (100, 1020), strict=True):
        with open_sink(kept_rows["address"], channel, grown, timeout_seconds=30) as sink:
            sink.send(pa.record_batch([[first], ["new"]], schema=grown))
            sink.end(closes_channel=False)
    after = PermitflowDataSource(wanted).schema()
    assert [name for name in after.names if name not in before.names] == ["word"]
    for schema in (before, after):
        reader = batch_reader(wanted, schema)
        rows = [row for each in reader.partitions() for batch in reader.read(each) for row in batch.to_pylist()]
        assert len(rows) == 112
        words = [row.get("word") for row in rows if row["n"] in (99, 100, 1020)]
        assert words == ([None, None, None] if schema is before else [None, "new", "new"])


def test_a_view_of_sql_and_a_stream_have_the_same_columns(driver: Driver, kept_rows: Options) -> None:
    wanted = {**kept_rows, "includeMetadata": "true"}
    spelled = ", ".join(f"{name} '{text}'" for name, text in wanted.items())
    later = {"startingOffsets": json.dumps({channels_of(kept_rows)[0]: 90}), "minPartitions": "3"}

    def job(spark: SparkSession) -> tuple[list[int], list[str], list[int]]:
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW kept USING permitflow OPTIONS ({spelled})")
        sums = spark.sql("SELECT _channel, count(*), max(_row), sum(n) FROM kept GROUP BY 1 ORDER BY 1").collect()
        stream = spark.readStream.format("permitflow").options(**wanted, **later, maxBytesPerTrigger="1MiB").load()
        query = stream.writeStream.format("memory").queryName("idioms").trigger(availableNow=True).start()
        query.awaitTermination()
        rows = [row[0] for row in spark.sql("SELECT _row FROM idioms ORDER BY _channel, 1").collect()]
        return [number for row in sums for number in row[1:]], stream.columns, rows

    sums, columns, rows = driver.run(job)
    assert sums == [95, 99, sum(range(5, 100)), 15, 19, sum(range(1005, 1020))]
    assert columns == ["n", "_channel", "_row", "_log"]
    assert rows == [*range(90, 100), *range(5, 20)]


@pytest.mark.long
def test_a_table_has_the_options_of_each_statement(driver: Driver, kept_rows: Options) -> None:
    stated = ", ".join(f"{name}='{text}'" for name, text in kept_rows.items())

    def job(spark: SparkSession) -> tuple[int, str]:
        spark.sql("CREATE TABLE idioms_table (n BIGINT) USING permitflow")
        try:
            (found,) = spark.sql(f"SELECT count(*) FROM idioms_table WITH ({stated})").collect()
            spark.sql("SELECT * FROM idioms_table").collect()
        except Exception as error:
            kind = permitflow.spark.cause_of(error)
            assert kind is not None
            return found[0], kind.__name__
        finally:
            spark.sql("DROP TABLE idioms_table")
        raise AssertionError("a table had options of its own")

    assert driver.run(job) == (110, "InvalidOptionError")


@pytest.mark.long
def test_spark_hands_its_filters_to_the_source(driver: Driver, kept_rows: Options) -> None:
    wanted = {**kept_rows, "includeMetadata": "true", "pushFilters": "true"}

    def job(spark: SparkSession) -> tuple[int, int]:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        try:
            few = spark.read.format("permitflow").options(**wanted).load().where("_row > 97 AND n < 1000")
            return few.count(), few.rdd.getNumPartitions()
        finally:
            spark.conf.unset("spark.sql.python.filterPushdown.enabled")

    assert driver.run(job) == (2, 1), "of the other channel nothing is read"
