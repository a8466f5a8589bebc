"""The streaming source beside a real exchange, without Spark: what is asked, read again, waited for and refused.

The calls come in Spark's order: ``latestOffset``, offset log, ``partitions``, ``read``, commit log, ``latestOffset``.
"""

import pickle
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructType

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
from permitflow.spark.stream_planning import OffsetJson
from permitflow.spark.stream_source import ExchangeStreamReader
from permitflow.transports.grpc_blocking import control, open_sink
from tests.support.process import reserved_address
from tests.support.served_exchange import ServedExchange, served_exchange

Options = dict[str, str]

SCHEMA = StructType().add("n", LongType())
KEEPING = ("--retention", "replay", "--drain-seconds", "0.1")
EVERYTHING = ReadAllAvailable()


@pytest.fixture
def options(kept: ServedExchange) -> Options:
    """Of a stream of two channels that nobody has used, in an exchange that keeps rows."""
    return options_of(kept)


@pytest.fixture(scope="module")
def shared() -> Iterator[ServedExchange]:
    """One exchange whose channels keep their rows for two consumers."""
    with served_exchange(more=[*KEEPING, "--consumer", "etl", "--consumer", "audit"]) as served:
        yield served


def options_of(exchange: ServedExchange, **more: str) -> Options:
    stream = {"address": exchange.address, "stream": exchange.stream(), "channels": "2", "timeout_seconds": "30"}
    return {**stream, **more}


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


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
        names = [f"{options['stream']}/{number}" for number in range(2)]
        return [position.acknowledged_row for position in line.positions(names, consumer=consumer)]


def test_batches_come_in_order_can_be_read_again_and_are_acknowledged_when_the_next_one_is_asked_for(
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
    assert reader.reportLatestOffset() == third
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


def test_an_ended_channel_is_read_to_its_end_and_then_nothing_is_new(options: Options) -> None:
    put(options, 0, 0, 10, ends=True)
    put(options, 1, 0, 5, ends=True)
    reader = reader_of(options)
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    assert read(options, reader.initialOffset(), end) == [[*range(10)], [*range(5)]]
    assert reader.latestOffset(end, EVERYTHING) == end
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


def test_two_queries_read_as_two_consumers_and_neither_disturbs_the_other(shared: ServedExchange) -> None:
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


def test_two_queries_as_one_consumer_are_told_of_each_other(options: Options) -> None:
    put(options, 0, 0, 50)
    one, other = reader_of(options), reader_of(options)
    first = other.initialOffset()
    end = one.latestOffset(one.initialOffset(), EVERYTHING)
    one.latestOffset(end, EVERYTHING)
    with pytest.raises(RowsLostError, match="does another query, or another branch of this one, read as consumer"):
        other.latestOffset(first, EVERYTHING)
    with pytest.raises(RowsLostError, match=r"row 0 of channel .* was acknowledged and is forgotten"):
        read(options, first, end)


@pytest.fixture
def address() -> Iterator[str]:
    """Where an exchange is found again."""
    with reserved_address() as reserved:
        yield reserved


def test_what_an_exchange_in_memory_has_lost_fails_the_query_even_if_other_rows_have_come(address: str) -> None:
    with served_exchange(more=KEEPING, address=address) as exchange:
        options = options_of(exchange)
        put(options, 0, 0, 50)
        reader = reader_of(options)
        first = reader.initialOffset()
        end = reader.latestOffset(first, EVERYTHING)
        exchange.signal(signal.SIGKILL)
    with served_exchange(more=KEEPING, address=address):
        put(options, 0, 0, 90)
        with pytest.raises(RowsLostError, match="an exchange without a durable store has started again"):
            reader.latestOffset(end, EVERYTHING)
        with pytest.raises(RowsLostError, match="from row 0 on"):
            read(options, first, end)
    reader.stop()


def test_an_exchange_with_a_store_may_start_again_in_the_middle_of_everything(tmp_path: Path, address: str) -> None:
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


def test_an_exchange_that_stays_away_is_waited_for_as_long_as_the_user_allows() -> None:
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
        assert "option timeout_seconds: 3" in caught.value.__notes__[-1]


def filled(exchange: ServedExchange, **more: str) -> tuple[Options, OffsetJson, OffsetJson]:
    """Options of a stream with 50 rows in its first channel, and their offsets; asked for in peace."""
    options = options_of(exchange, **more)
    put(options, 0, 0, 50)
    reader = reader_of(options)
    first = reader.initialOffset()
    end = reader.latestOffset(first, EVERYTHING)
    reader.stop()
    return options, first, end


def test_an_exchange_that_stands_still_is_named_with_the_channel_and_the_likely_cause() -> None:
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


def test_a_schema_of_the_users_that_does_not_fit_fails_the_task_and_the_rows_stay(options: Options) -> None:
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
    with pytest.raises(RetentionError, match="whose retention is once") as caught:
        reader_of(options_of(exchange)).initialOffset()
    assert "--retention replay" in caught.value.__notes__[-1]


def test_the_schema_comes_from_the_channel_also_for_a_consumer_with_a_name(shared: ServedExchange) -> None:
    options = options_of(shared, consumer="etl")
    put(options, 0, 0, 10)
    assert PermitflowDataSource(options).schema().simpleString() == "struct<n:bigint>"
