"""Spark reads and writes streaming methods of any gRPC service: rows, bounds, ends, and what cannot be had."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from traceback import extract_tb
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from permitflow.errors import CallError, EarlyAnswerError, InvalidOptionError, RepeatedCallError, SchemaMismatchError
from permitflow.spark import GrpcDataSource, PermitflowDataSource
from permitflow.spark.calls.messages import Messages, Rows, method_of
from permitflow.spark.calls.options import Nulls, ReadCallOptions, WriteCallOptions
from permitflow.spark.calls.sink import CallWriter
from permitflow.spark.calls.source import CallPartition, CallReader, CallStreamReader
from permitflow.spark.schema import arrow_schema
from tests.impl.spark.conftest import Driver
from tests.support.samples_service import Sample, Service

Options = dict[str, str]
NUMBERS = StructType().add("number", "long")
IDS = pa.schema([("id", pa.int64())])


@pytest.fixture
def service() -> Iterator[Service]:
    with Service().served() as served:
        yield served


# Messages and rows.


def reading(options: Options) -> tuple[Any, StructType]:
    method = method_of(ReadCallOptions.parse(options).call, client_streams=False)
    return method, GrpcDataSource(options).schema()


FULL = {
    "number": 2**62,
    "level": 0,
    "text": "ä",
    "raw": b"\x00\xff",
    "flag": True,
    "ratio": 0.5,
    "big": Decimal(2**64 - 1),
    "light": "BRIGHT",
    "place": {"name": "x", "height": None},
    "values": [1, 0, -1],
    "places": [("k", {"name": "y", "height": 2.5})],
    "at": datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
}


def test_a_message_with_all_kinds_of_fields_becomes_a_row_and_back(service: Service) -> None:
    method, schema = reading(service.options("Watch"))
    written = method_of(WriteCallOptions.parse(service.options("Record")).call, client_streams=True)
    given = pa.RecordBatch.from_pylist([FULL], schema=arrow_schema(schema))
    (message,) = Messages(written, "", schema).of(given)
    assert (message.big, message.light, message.HasField("level"), message.places["k"].height) == (
        2**64 - 1,
        1,
        True,
        2.5,
    )
    assert Rows(method, "", schema).batch([message]).to_pylist() == [FULL]


def test_an_unset_field_is_null_only_where_protobuf_keeps_that(service: Service) -> None:
    method, schema = reading(service.options("Watch"))
    (row,) = Rows(method, "", schema).batch([Sample(light=7)]).to_pylist()
    assert [name for name, value in row.items() if value is None] == ["level", "place", "at"]
    assert (row["text"], row["number"], row["values"], row["light"]) == ("", 0, [], "7")


@pytest.mark.parametrize("function", ["no_row", "short_rows"])
def test_what_is_no_row_of_a_users_function_is_named(service: Service, function: str) -> None:
    method = method_of(ReadCallOptions.parse(service.options("Watch")).call, client_streams=False)
    made = Rows(
        method, f"tests.support.samples_service:{function}", StructType().add("number", "long").add("word", "string")
    )
    with pytest.raises(SchemaMismatchError, match=r"here number, word; .* from the function of option 'rows', which"):
        made.batch([Sample(number=3)])


def test_what_is_no_message_of_a_users_function_is_named(service: Service) -> None:
    method = method_of(WriteCallOptions.parse(service.options("Record")).call, client_streams=True)
    made = Messages(method, "tests.support.samples_service:no_row", StructType().add("id", "long"))
    with pytest.raises(SchemaMismatchError, match="here NoneType from the function of option 'message'"):
        made.of(pa.record_batch({"id": [5]}))


def test_a_message_that_contains_itself_needs_a_function(service: Service) -> None:
    with pytest.raises(SchemaMismatchError, match="name a function with option 'rows' or 'message'"):
        GrpcDataSource(service.options("Grow")).schema()


def test_fields_that_differ_only_by_case_are_refused_at_load(service: Service) -> None:
    with pytest.raises(SchemaMismatchError, match=r"tests\.Twins has 'id' and 'ID'"):
        GrpcDataSource(service.options("Pair")).schema()


@pytest.mark.parametrize(("column", "empty"), [("text", ""), ("values", []), ("light", 0)])
def test_a_null_that_protobuf_cannot_keep_is_refused_or_the_default(
    service: Service, column: str, empty: object
) -> None:
    schema, rows = StructType().add(column, "string"), pa.record_batch({column: pa.array([None], pa.string())})
    written = method_of(WriteCallOptions.parse(service.options("Record")).call, client_streams=True)
    with pytest.raises(SchemaMismatchError, match=f"column {column}.* it is null, and the service could not tell that"):
        Messages(written, "", schema).of(rows)
    (message,) = Messages(written, "", schema, Nulls.DEFAULT).of(rows)
    assert getattr(message, column) == empty


def test_a_null_element_of_a_list_is_refused(service: Service) -> None:
    written = method_of(WriteCallOptions.parse(service.options("Record")).call, client_streams=True)
    rows = pa.record_batch({"values": pa.array([[1, None]], pa.list_(pa.int32()))})
    with pytest.raises(SchemaMismatchError, match=r"column values.* an element is null"):
        Messages(written, "", StructType().add("values", "string"), Nulls.DEFAULT).of(rows)


def test_users_functions_convert_messages_and_rows(service: Service) -> None:
    options = service.options("Watch", rows="tests.support.samples_service:two_rows")
    schema = StructType().add("number", "long").add("word", "string")
    method = method_of(ReadCallOptions.parse(options).call, client_streams=False)
    batch = Rows(method, "tests.support.samples_service:two_rows", schema).batch([Sample(number=3)])
    assert batch.to_pylist() == [{"number": 3, "word": "once"}, {"number": 3, "word": "again"}]
    written = method_of(WriteCallOptions.parse(service.options("Record")).call, client_streams=True)
    made = Messages(written, "tests.support.samples_service:named", StructType().add("id", "long"))
    assert made.of(pa.record_batch({"id": [5]})) == [Sample(number=5, text="number 5")]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [("light", "GREY", "GREY"), ("level", 2**40, "level"), ("nowhere", 1, "column 'nowhere'")],
)
def test_a_value_that_fits_into_no_field_is_named(service: Service, column: str, value: object, words: str) -> None:
    written = method_of(WriteCallOptions.parse(service.options("Record")).call, client_streams=True)
    rows = pa.RecordBatch.from_pylist([{column: value}])
    with pytest.raises(SchemaMismatchError, match=words):
        Messages(written, "", StructType().add(column, "string")).of(rows)


# Options.


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        ("Watch", {"method": "Samples.Watch"}, "option 'method' must be a method's full name"),
        ("Watch", {"method": "a.B/C"}, "must name a service of module"),
        ("Wach", {}, "it has Watch, Record"),
        ("Record", {}, "must be server-streaming, to read rows"),
        ("Watch", {"module": "no_such_module"}, "cannot be imported by Spark's Python"),
        ("Watch", {"request": "{"}, "option 'request' must be JSON"),
        ("Watch", {"request": 100_000 * "["}, "option 'request' must be JSON"),
        ("Watch", {"request": '{"frist": 1}'}, "option 'request' does not fit"),
        ("Watch", {"rows": "two_rows"}, "must be a function of a module"),
        ("Watch", {"serializer": "a:b"}, "cannot be combined with option 'module'"),
        ("Watch", {"window_bytes": "4"}, "must be a whole number from 5"),
        ("Watch", {"stream": "orders"}, "option 'stream' is unknown"),
        ("Watch", {"delivery": "best-effort"}, "is for streaming queries only"),
        ("Watch", {"path": "x"}, "and set 'method'"),
        ("Watch", {"channel": "tests.support.samples_service:no"}, "has none of this name"),
        ("Watch", {"address": "tcp://sensors:50051"}, "must be host:port, as gRPC names a service, without tcp://"),
        ("Watch", {"address": "grpc://sensors:50051"}, "without grpc://"),
        ("Watch", {"address": "https://sensors/a"}, "without https://"),
    ],
)
def test_a_wrong_option_of_a_reader_is_refused_in_words(
    service: Service, method: str, changes: Options, words: str
) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        GrpcDataSource({**service.options(method), **changes}).reader(NUMBERS)


def test_where_a_module_raises_is_told(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ours.py").write_text("def rate():\n    return 1 / 0\n\nRATE = rate()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidOptionError, match="it raises ZeroDivisionError") as caught:
        GrpcDataSource(service.options("Watch", rows="ours:two_rows")).reader(NUMBERS)
    (told,) = caught.value.__notes__
    assert [line.split(", ")[1:] for line in told.splitlines() if "File" in line] == [
        ["line 4", "in <module>"],
        ["line 2", "in rate"],
    ]


@pytest.mark.parametrize("address", ["unix:/run/sensors.sock", "dns:///sensors:50051", "sensors:50051"])
def test_a_service_has_any_address_that_grpc_knows(service: Service, address: str) -> None:
    options = {**service.options("Watch"), "address": address}
    assert ReadCallOptions.parse(options).call.address == address


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "option 'delivery' is missing: a call cannot be rewound"),
        ({"delivery": "at-least-once"}, "must be one of best-effort, exactly-once: a call cannot be rewound"),
        ({"delivery": "exactly-once"}, "cannot be had: a call cannot be rewound"),
        ({"delivery": "best-effort", "request": "[{}, {}]"}, "which reads one call"),
    ],
)
def test_a_streaming_query_is_told_what_can_be_had(service: Service, changes: Options, words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        GrpcDataSource(service.options("Watch", **changes)).simpleStreamReader(NUMBERS)


def test_a_wrong_option_of_a_stream_is_told_at_load(service: Service) -> None:
    options = service.options("Watch", delivery="best-effort", max_messages="5")
    with pytest.raises(InvalidOptionError, match="option 'maxMessages' is for batch jobs only"):
        GrpcDataSource(options).schema()


@pytest.mark.parametrize("source", [GrpcDataSource, PermitflowDataSource])
def test_a_refused_stream_says_why_when_it_is_asked(source: type[DataSource]) -> None:
    reader = source({"address": "nowhere"}).streamReader(NUMBERS)
    for ask in (reader.initialOffset, lambda: reader.latestOffset({}, ReadAllAvailable())):
        with pytest.raises(InvalidOptionError, match="option 'address' must be host:port") as caught:
            ask()
        assert extract_tb(caught.tb)[-1].name == "_refuse", "not the calls that have found it out"


def test_trigger_once_is_refused_where_it_would_take_a_part(service: Service) -> None:
    reader = GrpcDataSource(service.options("Watch", delivery="best-effort")).streamReader(NUMBERS)
    with pytest.raises(InvalidOptionError, match=r"Use trigger\(availableNow=True\): 'once'"):
        reader.latestOffset({"messages": 0}, ReadAllAvailable())


def test_a_nulls_rule_beside_a_function_is_refused(service: Service) -> None:
    options = service.options("Record", message="tests.support.samples_service:named", nulls="default")
    with pytest.raises(InvalidOptionError, match="option 'nulls' cannot be combined with option 'message'"):
        GrpcDataSource(options).writer(NUMBERS, False)


def test_a_streaming_query_writes_only_to_a_repeatable_service(service: Service) -> None:
    with pytest.raises(InvalidOptionError, match="option 'repeatable' must be 'true' for a streaming query"):
        GrpcDataSource(service.options("Record")).streamWriter(NUMBERS, False)
    GrpcDataSource(service.options("Record", repeatable="true")).streamWriter(NUMBERS, False)


# Reading, without Spark.


def batches(options: Options, request: str = '{"count": 100, "sizeBytes": 1000}') -> Iterator[pa.RecordBatch]:
    return CallReader(ReadCallOptions.parse(options), NUMBERS).read(CallPartition(0, request))


def test_a_reader_that_stands_still_holds_the_service_back(service: Service) -> None:
    options = service.options("Watch", window_bytes="5", batch_messages="10", batch_seconds="60")
    numbers = list[int]()
    for batch in batches(options):
        numbers += batch.column("number").to_pylist()
        # Other calls go to and fro: the service could give more meanwhile.
        assert all(writer(service).send(iter(()), ()) == 0 for _ in range(3))
        service.consumed = len(numbers)
    assert numbers == list(range(100))
    assert service.most_ahead <= 10 + 2


def test_a_call_is_cancelled_after_the_most_messages_or_unread(service: Service) -> None:
    endless = '{"count": 1000000}'
    options = service.options("Watch", max_messages="25", batch_messages="10", batch_seconds="60")
    assert [batch.num_rows for batch in batches(options, endless)] == [10, 10, 5]
    first = batches(service.options("Watch", batch_messages="10"), endless)
    assert next(first).num_rows == 10
    first.close()  # type: ignore[attr-defined]  # a generator
    assert service.given < 1_000_000


def test_a_services_error_fails_the_task_behind_earlier_messages(service: Service) -> None:
    service.fail_after = 15
    reader = batches(service.options("Watch", batch_messages="10", batch_seconds="60"))
    assert next(reader).num_rows == 10
    with pytest.raises(CallError, match="RESOURCE_EXHAUSTED: no more samples"):
        list(reader)


def test_messages_without_protobuf_have_functions_of_the_user(service: Service) -> None:
    functions = {
        name: f"tests.support.samples_service:{name}" for name in ("serializer", "deserializer", "rows", "channel")
    }
    options = service.options("Watch", request="3", **functions)
    del options["module"]
    reader = CallReader(ReadCallOptions.parse(options), NUMBERS)
    (batch,) = reader.read(*reader.partitions())
    assert batch.to_pylist() == [{"number": 0}, {"number": 1}, {"number": 2}]


# A stream, without Spark.


def stream(service: Service, **more: str) -> CallStreamReader:
    options = service.options("Watch", request='{"count": 25}', batch_messages="10", batch_seconds="60", **more)
    return CallStreamReader(ReadCallOptions.parse(options, streams=True), NUMBERS)


def numbers_in(parts: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for part in parts for number in part.column("number").to_pylist()]


def test_a_stream_is_one_call_read_batch_by_batch(service: Service) -> None:
    reader = stream(service, delivery="best-effort")
    offset, found = reader.initialOffset(), list[list[int]]()
    for _ in range(4):
        rows, offset = reader.read(offset)
        found.append(numbers_in(rows))
    assert found == [list(range(10)), list(range(10, 20)), list(range(20, 25)), []]
    assert (offset, service.calls) == ({"messages": 25}, 1)


def test_with_available_now_a_stream_lasts_as_long_as_its_call(service: Service) -> None:
    options = service.options("Watch", request='{"count": 25}', batch_seconds="0.000001", delivery="best-effort")
    reader = CallStreamReader(ReadCallOptions.parse(options, streams=True), NUMBERS)
    reader.prepareForTriggerAvailableNow()
    start, found = None, list[int]()
    offset = reader.initialOffset()
    while offset != start:
        start = offset
        rows, offset = reader.read(start)
        found += numbers_in(rows)
    assert found == list(range(25))


def test_after_a_restart_a_batch_is_lost_or_read_again_as_was_agreed(service: Service) -> None:
    start, end = {"messages": 10}, {"messages": 20}
    restarted = stream(service, delivery="best-effort")
    assert numbers_in(restarted.readBetweenOffsets(start, end)) == []
    assert numbers_in(restarted.read(end)[0]) == list(range(10))  # whatever the service sends now
    restarted = stream(service, delivery="exactly-once", repeatable="true")
    assert numbers_in(restarted.readBetweenOffsets(start, end)) == list(range(10, 20))
    assert numbers_in(restarted.read(end)[0]) == list(range(20, 25))
    with pytest.raises(RepeatedCallError, match="ended after 25 messages, where it gave more than 30 before"):
        stream(service, delivery="exactly-once", repeatable="true").read({"messages": 30})
    with pytest.raises(RepeatedCallError, match="ended before the 20 messages of this batch had come"):
        numbers_in(restarted.readBetweenOffsets(start, {"messages": 30}))


# Writing, without Spark.


def writer(service: Service, **more: str) -> CallWriter:
    options = service.options("Record", message="tests.support.samples_service:named", **more)
    return CallWriter(WriteCallOptions.parse(options), StructType().add("id", "long"))


def counted(service: Service, rows: int, together: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, rows, together):
        service.given += together
        service.notice()
        yield pa.RecordBatch.from_pydict({"id": range(first, first + together)}, schema=IDS)


def test_a_service_that_reads_slowly_holds_the_rows_back() -> None:
    with Service(slow_seconds=0.0005).served() as service:
        assert writer(service).send(counted(service, 2_000, together=50), ()) == 2_000
        assert [sample.number for sample in service.recorded] == list(range(2_000))
        # One in the loop's queue, one on its way, one that waits, and the next: of 50 rows each.
        assert service.most_ahead <= 4 * 50 + 2


@pytest.mark.parametrize("rows", [50, 2_000])
def test_a_service_that_answers_early_acknowledges_no_later_rows(rows: int) -> None:
    with Service(answer_after=30).served() as service:
        with pytest.raises(EarlyAnswerError, match=r"has answered after \d+ messages, before all rows"):
            writer(service).send(counted(service, rows, together=50), ())
        assert len(service.recorded) == 30
        assert service.given <= 30 + 4 * 50  # it takes no more from Spark


def test_a_serializer_that_fails_sends_nothing_in_its_place(service: Service) -> None:
    functions = {"message": "named", "serializer": "thirds_fail", "deserializer": "deserializer"}
    options = service.options(
        "Record", **{name: f"tests.support.samples_service:{it}" for name, it in functions.items()}
    )
    del options["module"]
    sending = CallWriter(WriteCallOptions.parse(options), StructType().add("id", "long"))
    with pytest.raises(LookupError, match="3 cannot be serialized"):
        sending.send(counted(service, 10, together=1), ())
    assert [sample.text for sample in service.recorded if not sample.text] == []


def test_a_task_without_rows_is_answered_too(service: Service) -> None:
    assert writer(service).send(iter(()), (("permitflow-partition", "7"),)) == 0
    assert service.attempts[0]["permitflow-partition"] == "7"


def test_a_service_gets_the_metadata_that_the_user_states(service: Service, tmp_path: Path) -> None:
    secrets = tmp_path / "metadata.json"
    secrets.write_text('{"authorization": "Bearer 5"}')
    stated = writer(service, metadata='{"x-tenant": "north"}', metadataFile=str(secrets))
    assert stated.send(counted(service, 1, together=1), (("permitflow-partition", "7"),)) == 1
    wanted = {"x-tenant": "north", "authorization": "Bearer 5", "permitflow-partition": "7"}
    assert wanted.items() <= service.attempts[0].items()


# With Spark.


def test_one_job_reads_a_service_and_writes_into_a_slow_one(driver: Driver) -> None:
    with Service(slow_seconds=0.001).served() as service:
        query = '[{"count": 200, "sizeBytes": 20000}, {"first": 200, "count": 200, "sizeBytes": 20000}]'
        reads = service.options("Watch", request=query, window_bytes="5", batch_messages="2")
        writes = service.options("Record")

        def job(spark: SparkSession) -> None:
            # Spark finds the format by itself.
            spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2")
            frame = spark.read.format("permitflow-grpc").options(**reads).load()
            frame.write.format("permitflow-grpc").mode("append").options(**writes).save()
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

        driver.run(job)
    assert sorted(sample.number for sample in service.recorded) == list(range(400))
    assert {attempt["permitflow-partition"] for attempt in service.attempts} == {"0", "1"}
    # Two tasks; each has some buffers of 64 KiB and sockets of 200 KiB between its processes.
    assert service.most_ahead <= 2 * 60


def test_a_streaming_query_reads_a_service(driver: Driver, service: Service) -> None:
    options = service.options("Watch", request='{"count": 250}', delivery="best-effort", batch_messages="100")

    def job(spark: SparkSession) -> list[list[int]]:
        found = list[list[int]]()
        frame = spark.readStream.format("permitflow-grpc").options(**options).load()
        query = frame.writeStream.foreachBatch(
            lambda batch, _: found.append([row.number for row in batch.collect()])
        ).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return found

    found = driver.run(job)
    assert [number for batch in found for number in batch] == list(range(250))
    assert max(map(len, found)) <= 100
    assert service.calls == 1


@pytest.mark.sample
def test_available_now_reads_a_call_to_its_end(driver: Driver, service: Service) -> None:
    options = service.options("Watch", request='{"count": 250}', delivery="best-effort", batch_messages="100")

    def job(spark: SparkSession) -> list[int]:
        found = list[int]()
        frame = spark.readStream.format("permitflow-grpc").options(**options).load()
        query = frame.writeStream.foreachBatch(lambda batch, _: found.append(batch.count()))
        query.trigger(availableNow=True).start().awaitTermination()
        return found

    assert driver.run(job) == [100, 100, 50]


@pytest.mark.parametrize("source", ["permitflow", "permitflow-grpc"])
def test_a_wrong_option_of_a_stream_is_what_spark_says(driver: Driver, source: str) -> None:
    def job(spark: SparkSession) -> None:
        frame = spark.readStream.format(source).schema("number long").option("address", "nowhere").load()
        frame.writeStream.format("noop").start().awaitTermination()

    told = driver.failure(job)
    assert "InvalidOptionError: option 'address' must be host:port" in told
    assert "UnboundLocalError" not in told


def test_a_task_that_would_call_again_is_refused(driver: Driver, service: Service) -> None:
    service.fail_after = 15
    options = service.options("Watch", request='{"count": 250}')

    def job(spark: SparkSession) -> None:
        spark.read.format("permitflow-grpc").options(**options).load().collect()

    assert "RepeatedCallError: permitflow.tests.Samples/Watch would be called again by task attempt " in driver.failure(
        job
    )
    assert service.calls == 1
