"""Two streams with barriers are one source whose batches are the epochs, each row once, whatever starts again."""

import asyncio
import pickle
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from permitflow import ChannelParameters
from permitflow.client import RemoteSender, put
from permitflow.client.blocking import control
from permitflow.errors import EpochTooLargeError, InvalidOptionError
from permitflow.spark import PermitflowDataSource
from permitflow.spark.schema import united_schema
from permitflow.spark.shape import RowShape
from permitflow.spark.stream_planning import OffsetJson
from permitflow.spark.stream_source import ExchangeStreamReader
from permitflow_testing.query_runs import judge_query
from tests.impl.spark.conftest import KEEPING, LONGEST_END_SECONDS, Driver
from tests.support.served_exchange import ServedExchange, served_exchange

Options = dict[str, str]
Row = tuple[str, int, int]
"""The channel, the epoch, and the number in the epoch of a row."""

SCHEMAS = {
    "orders": pa.schema([("epoch", pa.int64()), ("n", pa.int64()), ("price", pa.float64())]),
    "payments": pa.schema([("epoch", pa.int64()), ("n", pa.int64()), ("method", pa.string())]),
}
OWN = {"orders": 9.5, "payments": "card"}
"""What only this stream has in a row."""
UNITED = united_schema({f"{kind}/0": schema for kind, schema in SCHEMAS.items()}, RowShape(channel_column="channel"))
STREAMS = (*KEEPING, "--stream", "orders:1", "--stream", "payments:1")
ROWS = {"orders": 10, "payments": 1}
"""Of each epoch."""
CHANNELS = ["orders/0", "payments/0"]
EMPTY = 3
"""An epoch without rows."""


def rows_of(kind: str, epoch: int) -> list[Row]:
    return [] if epoch == EMPTY else [(f"{kind}/0", epoch, number) for number in range(ROWS[kind])]


def batch_of(kind: str, epoch: int) -> pa.RecordBatch:
    _, epochs, numbers = zip(*rows_of(kind, epoch), strict=True)
    return pa.record_batch([epochs, numbers, [OWN[kind]] * len(epochs)], schema=SCHEMAS[kind])


async def put_epoch(sender: RemoteSender, kind: str, epoch: int) -> None:
    if rows_of(kind, epoch):
        await sender.send(batch_of(kind, epoch))
    await sender.send_barrier(epoch)


def put_epochs(address: str, kind: str, epochs: Sequence[int], *, ends: bool = False) -> None:
    """The rows of these epochs, and a barrier behind each."""

    async def produce() -> None:
        async with put(address, f"{kind}/0", SCHEMAS[kind], producer=kind) as sender:
            for epoch in epochs:
                await put_epoch(sender, kind, epoch)
            await sender.end(closes_channel=ends)

    asyncio.run(produce())


def options_of(address: str, **more: str) -> Options:
    named = {"address": address, "channels": ",".join(CHANNELS), "channel_column": "channel"}
    return {**named, "epochs": "aligned", "timeout_seconds": "60", **more}


def run_epochs(
    driver: Driver, options: Options, checkpoint: str, *, failing: int | None = None
) -> tuple[str, list[tuple[int, list[Row], int]]]:
    """Run a query over what is there: how it ended, and of each batch its rows, and how many orders were paid."""

    def job(spark: SparkSession) -> tuple[str, list[tuple[int, list[Row], int]]]:
        seen: list[tuple[int, list[Row], int]] = []

        def join(frame: DataFrame, batch: int) -> None:
            frame.persist()
            orders = frame.where("channel = 'orders/0'").select("epoch", "n", "price")
            payments = frame.where("channel = 'payments/0'").select("epoch", "n", "method")
            paid = orders.join(payments, ["epoch", "n"]).where("price = 9.5 AND method = 'card'").count()
            seen.append((batch, sorted((row.channel, row.epoch, row.n) for row in frame.collect()), paid))
            frame.unpersist()
            if batch == failing:
                raise RuntimeError("the table is locked")

        stream = spark.readStream.format("permitflow").options(**options)
        writer = stream.load().writeStream.foreachBatch(join).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(90)
        except Exception as error:
            return str(error), seen
        finally:
            query.stop()
        return "", seen

    return driver.run(job)


def expected(batch: int) -> tuple[int, list[Row], int]:
    """Batch 0 is epoch 1, and so on."""
    orders, payments = rows_of("orders", batch + 1), rows_of("payments", batch + 1)
    return batch, [*orders, *payments], len(payments)


@pytest.fixture
def exchange() -> Iterator[ServedExchange]:
    """An exchange whose channels keep 256 rows for one consumer."""
    with served_exchange(more=STREAMS) as served:
        yield served


UNBOUNDED = ReadMaxRows(2**62)


def reader_of(options: Options) -> ExchangeStreamReader:
    reader = PermitflowDataSource(options).streamReader(UNITED)
    assert isinstance(reader, ExchangeStreamReader)
    return reader


def rows_between(options: Options, start: OffsetJson, end: OffsetJson) -> list[Row]:
    """What the tasks of a batch read, with a copy of a reader that has dialled nobody, as Spark makes them."""
    copy = pickle.loads(pickle.dumps(reader_of(options)))
    assert isinstance(copy, ExchangeStreamReader)
    batches = [batch for task in copy.partitions(start, end) for batch in copy.read(task)]
    return sorted((row["channel"], row["epoch"], row["n"]) for batch in batches for row in batch.to_pylist())


def test_trigger_once_is_refused_where_batches_are_epochs(exchange: ServedExchange) -> None:
    reader = reader_of(options_of(exchange.address))
    with pytest.raises(InvalidOptionError, match=r"Trigger.Once is a single batch: use trigger\(availableNow=True\)"):
        reader.latestOffset({}, ReadAllAvailable())


def ask_until_it_fails(reader: ExchangeStreamReader, offset: OffsetJson) -> NoReturn:
    """One batch after the other, and every batch is done at once."""
    while True:
        offset = reader.latestOffset(offset, UNBOUNDED)


def test_a_batch_is_an_epoch_that_can_be_read_again(
    exchange: ServedExchange,
) -> None:
    put_epochs(exchange.address, "orders", [1, 2, EMPTY, 4])
    put_epochs(exchange.address, "payments", [1, 2, EMPTY, 4])
    options = options_of(exchange.address)
    reader = reader_of(options)
    assert reader.getDefaultReadLimit() == UNBOUNDED
    start = reader.initialOffset()
    for epoch in (1, 2, EMPTY, 4):
        end = reader.latestOffset(start, UNBOUNDED)
        assert end["barrier"] == epoch
        for _ in range(2):
            assert rows_between(options, start, end) == [*rows_of("orders", epoch), *rows_of("payments", epoch)]
        start = end
    assert reader.latestOffset(start, UNBOUNDED) == start
    with control(exchange.address) as line:
        positions = line.positions(CHANNELS)
    assert [(each.acknowledged_row, each.next_row, each.barriers) for each in positions] == [(30, 30, ()), (3, 3, ())]
    assert reader.reportLatestOffset() == {**start, "lag_rows": 0, "waiting_rows": 0, "blocked_share": 0.0}
    reader.stop()


def test_an_epoch_that_cannot_be_kept_is_told_at_once(exchange: ServedExchange) -> None:
    """The producer of orders waits for room in the middle of its second epoch."""

    async def produce(failed: asyncio.Event) -> None:
        async with put(exchange.address, "orders/0", SCHEMAS["orders"]) as sender:
            await put_epoch(sender, "orders", 1)
            sending = asyncio.create_task(send_for_ever(sender))
            await failed.wait()
            sending.cancel()

    async def send_for_ever(sender: RemoteSender) -> None:
        while True:
            await sender.send(batch_of("orders", 2))

    async def run() -> EpochTooLargeError:
        failed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            producing = group.create_task(produce(failed))
            error = await asyncio.to_thread(fail)
            failed.set()
        assert producing.done()
        return error

    def fail() -> EpochTooLargeError:
        with pytest.raises(EpochTooLargeError) as caught:
            ask_until_it_fails(reader, reader.initialOffset())
        return caught.value

    put_epochs(exchange.address, "payments", [1])
    reader = reader_of(options_of(exchange.address))
    error = asyncio.run(run())
    assert (error.channel, error.barrier, error.kept_rows, error.limit_rows) == ("orders/0", 1, 250, 256)
    assert error.waiting_rows == ROWS["orders"]
    reader.stop()


def test_each_batch_has_its_epochs_rows_also_after_restarts(driver: Driver, tmp_path: Path, address: str) -> None:
    """A batch fails after its rows were taken; it comes again with the same rows, from the other exchange."""
    durable, checkpoint = (*STREAMS, "--store", str(tmp_path / "store")), str(tmp_path / "checkpoint")
    options = options_of(address, trace_dir=str(tmp_path / "trace"))
    with served_exchange(more=durable, address=address) as exchange:
        put_epochs(address, "orders", [1, 2, 3, 4])
        put_epochs(address, "payments", [1, 2, 3])
        ended, seen = run_epochs(driver, options, checkpoint, failing=1)
        assert "the table is locked" in ended
        assert seen == [expected(0), expected(1)]
        exchange.signal(signal.SIGKILL)
    with served_exchange(more=durable, address=address):
        # Epoch 4 has not come in both: it is in no batch.
        assert run_epochs(driver, options, checkpoint) == ("", [expected(1), expected(2)])
        put_epochs(address, "payments", [4])
        assert run_epochs(driver, options, checkpoint) == ("", [expected(3)])
        with control(address) as line:
            positions = line.positions(CHANNELS)
        assert [(each.acknowledged_row, each.next_row, each.barriers) for each in positions] == [
            (30, 30, ()),
            (3, 3, ()),
        ]
    verdicts = judge_query(options["trace_dir"], checkpoint)
    assert [verdict.describe() for verdict in verdicts if not verdict.is_valid] == []
    assert [verdict.state.acknowledged for verdict in verdicts] == [30, 3]


LAST = 12
"""Epochs of a query that never ends by itself."""


def test_a_query_stopped_midway_takes_each_epoch_once(driver: Driver, tmp_path: Path) -> None:
    """The channels keep three epochs of orders, so that their producer is never far ahead."""
    checkpoint = str(tmp_path / "checkpoint")
    window = ChannelParameters(row_permits=3 * ROWS["orders"], permit_batch=ROWS["orders"])
    with served_exchange(window, more=STREAMS) as exchange, ThreadPoolExecutor() as threads:
        options = options_of(exchange.address, trace_dir=str(tmp_path / "trace"))
        epochs = range(1, LAST + 1)
        producing = [threads.submit(put_epochs, exchange.address, kind, epochs, ends=True) for kind in ROWS]

        def job(spark: SparkSession) -> list[tuple[int, list[Row]]]:
            seen: list[tuple[int, list[Row]]] = []

            def note(frame: DataFrame, batch: int) -> None:
                seen.append((batch, sorted((row.channel, row.epoch, row.n) for row in frame.collect())))

            stream = spark.readStream.format("permitflow").options(**options).load()
            for last in (LAST // 2, LAST):
                writer = stream.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint)
                query = writer.trigger(processingTime="0 seconds").start()
                try:
                    while query.isActive and not (seen and seen[-1][0] >= last - 1):
                        query.awaitTermination(1)
                    if last == LAST:
                        query.processAllAvailable()
                finally:
                    query.stop()
            return seen

        seen = driver.run(job)
        for each in producing:
            each.result(LONGEST_END_SECONDS)
    # The batch at which the query was stopped may have come again, with the same rows.
    assert dict(seen) == {batch: rows for batch, rows, _ in map(expected, range(LAST))}
    assert all(rows == expected(batch)[1] for batch, rows in seen)
    verdicts = judge_query(options["trace_dir"], checkpoint)
    assert [verdict.describe() for verdict in verdicts if not verdict.is_valid] == []
    assert [verdict.state.acknowledged for verdict in verdicts] == [10 * (LAST - 1), LAST - 1]
