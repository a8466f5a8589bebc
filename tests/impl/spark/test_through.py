"""Rows go through a bidirectional method of any gRPC service: in order, bounded, matched, and refused in words."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import permitflow.spark
from permitflow.errors import (
    CallError,
    CallTimeoutError,
    EarlyAnswerError,
    InvalidOptionError,
    PeerTimeoutError,
    ResponseCountError,
    SchemaMismatchError,
)
from permitflow.spark.calls.bidirectional import RowsThrough
from permitflow.spark.calls.metadata import Metadata
from permitflow.spark.calls.options import ThroughOptions
from tests.impl.spark.conftest import CHECKOUT, LONGEST_END_SECONDS, Driver
from tests.support.samples_service import Service

ORDERS = StructType().add("number", "long").add("order", "string")
NUMBERS = StructType().add("number", "long")
SCORES = StructType().add("number", "long").add("score", "double")


def begin() -> Metadata:
    """What tells the attempt at a task."""
    return (("permitflow-partition", "7"),)


DEFAULTS: dict[str, object] = {
    "keep": ["order"],
    "one_to_one": True,
    "repeatable": False,
    "in_flight": 256,
    "timeout_seconds": 60,
    "window_bytes": 65_536,
    "batch_messages": 1_000,
    "nulls": "refuse",
}


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(window=65_536).served() as served:
        yield served


def task(
    service: Service, *, answered: StructType | None = None, given: StructType = ORDERS, **more: Any
) -> RowsThrough:
    options = ThroughOptions.of({**DEFAULTS, **service.options("Rate"), **more})
    return RowsThrough(options, given, answered)


def orders(count: int, together: int = 100) -> Iterator[pa.RecordBatch]:
    for first in range(0, count, together):
        numbers = range(first, min(first + together, count))
        yield pa.record_batch({"number": numbers, "order": [f"order {number}" for number in numbers]})


def numbers(count: int) -> Iterator[pa.RecordBatch]:
    return (batch.select(["number"]) for batch in orders(count))


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


# Rows and responses.


def test_each_row_gets_the_response_to_its_request_in_order(service: Service) -> None:
    through = task(service, in_flight=10, batch_messages=7)
    assert through.schema.names == ["order", "number", "score", "note"]
    assert rows(through.exchanged(orders(1_000), begin)) == [
        {"order": f"order {number}", "number": number, "score": number / 2, "note": None} for number in range(1_000)
    ]
    assert (service.calls, service.attempts[0]["permitflow-partition"]) == (1, "7")


def test_a_row_has_a_copy_for_each_row_of_its_response(service: Service) -> None:
    answered = StructType().add("number", "long").add("word", "string")
    through = task(service, answered=answered, rows="tests.support.samples_service:two_scores")
    assert rows(through.exchanged(orders(2), begin)) == [
        {"order": f"order {number}", "number": number, "word": word} for number in (0, 1) for word in ("once", "again")
    ]


def test_any_number_of_responses_comes_in_order_if_that_was_said(service: Service) -> None:
    service.answers_each = 2
    through = task(service, one_to_one=False, keep=[], given=NUMBERS)
    found = rows(through.exchanged(numbers(300), begin))
    assert [row["number"] for row in found] == [number for number in range(300) for _ in range(2)]


def test_a_task_without_rows_makes_no_call(service: Service) -> None:
    assert rows(task(service).exchanged(iter(()), begin)) == []
    assert service.calls == 0


# Bounds.


def test_a_service_that_reads_slowly_holds_the_rows_back() -> None:
    with Service(slow_seconds=0.0005, window=5).served() as service:
        ahead = list[int]()

        def taken() -> Iterator[pa.RecordBatch]:
            for at, batch in enumerate(orders(1_000, together=20)):
                ahead.append(20 * at - service.given)
                yield batch

        assert len(rows(task(service, in_flight=10).exchanged(taken(), begin))) == 1_000
    assert max(ahead) <= 10


def test_a_job_that_stands_still_holds_the_service_back(service: Service) -> None:
    service.answers_each = 10_000
    options: dict[str, Any] = {"one_to_one": False, "keep": [], "batch_messages": 10, "window_bytes": 5}
    answers = task(service, given=NUMBERS, **options).exchanged(numbers(1), begin)
    assert next(answers).num_rows == 10
    with Service().served() as other:  # calls go to and fro: the service could give more meanwhile
        assert len(rows(task(other).exchanged(orders(20), begin))) == 20
    assert service.given <= 2 * 10 + 5
    answers.close()  # type: ignore[attr-defined]  # a generator


def test_a_service_that_waits_beyond_the_window_is_told(service: Service) -> None:
    service.answers_late = 10
    with pytest.raises(
        PeerTimeoutError, match=r"10 requests were sent, and 0 responses .* more than 10 requests \(in_f"
    ):
        rows(task(service, in_flight=10, timeout_seconds=0.3).exchanged(orders(100), begin))
    assert len(service.recorded) == 10


def test_a_call_of_which_nobody_wants_more_is_cancelled(service: Service) -> None:
    answers = task(service, batch_messages=10).exchanged(orders(10_000), begin)
    next(answers)
    assert service.open_calls == 1
    answers.close()  # type: ignore[attr-defined]  # a generator
    with Service().served() as other:
        assert len(rows(task(other).exchanged(orders(20), begin))) == 20
    assert service.open_calls == 0


# Ends.


@pytest.mark.parametrize("each", [0, 2])
def test_a_response_too_many_or_too_few_fails_the_task(service: Service, each: int) -> None:
    service.answers_each = each
    with pytest.raises(ResponseCountError, match=r"has given \d+ responses to \d+ requests"):
        rows(task(service).exchanged(orders(50), begin))


@pytest.mark.parametrize(("one_to_one", "error"), [(True, ResponseCountError), (False, EarlyAnswerError)])
def test_a_call_that_ends_before_all_rows_fails_the_task(
    service: Service, one_to_one: bool, error: type[Exception]
) -> None:
    service.answer_after = 30
    with pytest.raises(error):
        rows(task(service, one_to_one=one_to_one, keep=[], given=NUMBERS).exchanged(numbers(1_000), begin))
    assert len(service.recorded) == 30


def test_an_error_of_the_service_comes_behind_the_rows_before_it(service: Service) -> None:
    service.fail_after = 15
    answers = task(service, batch_messages=10).exchanged(orders(100), begin)
    assert next(answers).num_rows == 10
    with pytest.raises(CallError, match="RESOURCE_EXHAUSTED: no more scores"):
        list(answers)


def test_a_call_has_a_deadline() -> None:
    with Service(slow_seconds=60).served() as service, pytest.raises(CallTimeoutError, match="DEADLINE_EXCEEDED"):
        rows(task(service, deadline_seconds=0.3).exchanged(orders(1), begin))


def test_what_a_users_function_raises_fails_the_task(service: Service) -> None:
    through = task(service, message="tests.support.samples_service:failing")
    with pytest.raises(LookupError, match=r"no sample for \{'number': 0, 'order': 'order 0'\}"):
        rows(through.exchanged(orders(1), begin))


def test_a_null_that_the_request_cannot_keep_is_refused(service: Service) -> None:
    batch = pa.record_batch({"number": pa.array([None], pa.int64()), "order": ["x"]})
    with pytest.raises(SchemaMismatchError, match="column number"):
        rows(task(service).exchanged(iter([batch]), begin))


# Arguments.


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"address": ""}, "option 'address' is missing"),
        ({"method": "permitflow.tests.Samples/Watch"}, "must be bidirectional, for rows to go through it"),
        ({"module": ""}, "option 'serializer' is missing"),
        ({"keep": "order"}, "option 'keep' must be a list of columns: 'order'"),
        ({"keep": ["ordre"]}, "option 'keep' must name columns of the frame, which has number, order: 'ordre'"),
        ({"keep": ["order", "number"]}, "option 'keep' must not name a column of the responses.*: 'number'"),
        ({"one_to_one": False}, "option 'keep' needs one_to_one"),
        ({"in_flight": 0}, "option 'in_flight' must be a whole number from 1"),
        ({"nulls": "zero"}, "option 'nulls' must be one of refuse, default"),
        ({"rows": "tests.support.samples_service:two_scores"}, "option 'rows' needs the schema of its rows"),
        ({"message": "tests.support.samples_service:asynchronous"}, "option 'message' must be no async function"),
        ({"channel": "tests.support.samples_service:no"}, "option 'channel' must be a function"),
    ],
)
def test_a_wrong_argument_is_refused_in_words(service: Service, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        task(service, **changes)


def test_a_column_that_is_neither_sent_nor_kept_is_refused(service: Service) -> None:
    with pytest.raises(SchemaMismatchError, match="column 'order'") as caught:
        task(service, keep=[])
    assert caught.value.__notes__ == ["to carry a column past the service, name it in 'keep'"]


# With Spark.


def test_a_frame_goes_through_a_service_and_keeps_its_columns(driver: Driver, service: Service) -> None:
    options: dict[str, Any] = dict(service.options("Rate"))

    def job(spark: SparkSession) -> tuple[list[int], list[tuple[object, ...]]]:
        spark.conf.set("spark.sql.session.timeZone", "America/Caracas")
        frame = (
            spark.range(0, 3_000, 1, 3)
            .where("id < 2500")
            .selectExpr("id as number", "timestamp_seconds(id) as at", "array(id) as list")
        )
        scored = permitflow.spark.through(frame, keep=["list", "at"], schema=SCORES, **options)
        found = scored.selectExpr("list[0]", "unix_seconds(at)", "number", "score").rdd.glom().collect()
        spark.conf.unset("spark.sql.session.timeZone")
        return [len(part) for part in found], [tuple(row) for part in found for row in part]

    sizes, found = driver.run(job)
    assert sizes == [1_000, 1_000, 500]
    assert found == [(number, number, number, number / 2) for number in range(2_500)]
    assert len({attempt["permitflow-job"] for attempt in service.attempts}) == 1
    assert sorted(attempt["permitflow-partition"] for attempt in service.attempts) == ["0", "1", "2"]


def test_a_task_that_would_call_again_is_refused(driver: Driver, service: Service) -> None:
    service.fail_after = 15
    options: dict[str, Any] = dict(service.options("Rate"))

    def job(spark: SparkSession) -> None:
        frame = spark.range(0, 100, 1, 1).toDF("number")
        permitflow.spark.through(frame, **options).collect()

    assert "Samples/Rate would be called again by task attempt" in driver.failure(job)
    assert service.calls == 1


def test_a_frame_that_one_action_computes_twice_is_refused(driver: Driver, service: Service) -> None:
    options: dict[str, Any] = dict(service.options("Rate"))

    def job(spark: SparkSession) -> None:
        frame = spark.range(0, 100, 1, 2).toDF("number")
        scored = permitflow.spark.through(frame, **options)
        assert [scored.count(), scored.count()] == [100, 100]  # each action computes it anew
        scored.orderBy("score").collect()

    assert "Samples/Rate would be called again by task attempt" in driver.failure(job)
    assert service.calls == 6


def test_a_task_calls_again_where_that_may_be(driver: Driver, service: Service) -> None:
    service.fail_after, service.fails_once = 15, True
    options: dict[str, Any] = dict(service.options("Rate"))

    def job(spark: SparkSession) -> int:
        frame = spark.range(0, 100, 1, 1).toDF("number")
        return permitflow.spark.through(frame, repeatable=True, **options).count()

    assert driver.run(job) == 100
    first, second = service.attempts
    assert first["permitflow-job"] == second["permitflow-job"]
    assert first["permitflow-attempt"] != second["permitflow-attempt"]


def test_a_service_that_dies_fails_the_job(driver: Driver, tmp_path: Path) -> None:
    program = "from tests.support.samples_service import serve_until_killed; serve_until_killed(dies_after=30)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as dying:
        assert dying.stdout is not None
        options: dict[str, Any] = {**Service().options("Rate"), "address": dying.stdout.readline().strip()}

        def job(spark: SparkSession) -> None:
            frame = spark.range(0, 1_000, 1, 1).toDF("number")
            permitflow.spark.through(frame, repeatable=True, **options).collect()

        assert "CallError: " in driver.failure(job)
        assert dying.wait(LONGEST_END_SECONDS) == 1


def test_batches_of_a_stream_go_through_a_service(driver: Driver, service: Service) -> None:
    reads = service.options("Watch", request='{"count": 250}', delivery="best-effort", batch_messages="100")
    options: dict[str, Any] = dict(service.options("Rate"))

    def job(spark: SparkSession) -> tuple[str, list[float]]:
        found, told = list[float](), ""
        frame = spark.readStream.format("permitflow-grpc").options(**reads).load().select("number")
        try:
            permitflow.spark.through(frame, **options)
        except InvalidOptionError as error:
            told = str(error)
        scored = permitflow.spark.through(frame, repeatable=True, **options)
        query = scored.writeStream.foreachBatch(lambda batch, _: found.extend(row.score for row in batch.collect()))
        query.trigger(availableNow=True).start().awaitTermination()
        return told, found

    told, found = driver.run(job)
    assert (
        told == "option 'repeatable' must be true for a streaming query: it computes a batch again after a crash: False"
    )
    assert found == [number / 2 for number in range(250)]
