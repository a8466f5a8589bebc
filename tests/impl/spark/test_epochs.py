"""Two streams with barriers are one source whose batches are the epochs, each row once, whatever starts again."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from permitflow.testing.query_runs import judge_query
from permitflow.transports.grpc_aio import put
from permitflow.transports.grpc_blocking import control
from tests.support.process import reserved_address
from tests.support.served_exchange import served_exchange

Options = dict[str, str]
Row = tuple[str, int, int]
"""What it is, its epoch, and its number in the epoch."""

T = TypeVar("T")

SCHEMA = pa.schema([("kind", pa.string()), ("epoch", pa.int64()), ("n", pa.int64())])
KEEPING = ("--retention", "replay", "--drain-seconds", "0.1", "--stream", "orders:1", "--stream", "payments:1")
ROWS = {"orders": 10, "payments": 1}
"""Of each epoch."""
CHANNELS = ["orders/0", "payments/0"]
EMPTY = 3
"""An epoch without rows."""


class Driver(Protocol):
    """See ``tests/impl/spark/conftest.py``."""

    def run(self, job: Callable[[SparkSession], T]) -> T: ...
    def failure(self, job: Callable[[SparkSession], object]) -> str: ...


@pytest.fixture
def address() -> Iterator[str]:
    """Where an exchange is found again."""
    with reserved_address() as reserved:
        yield reserved


def rows_of(kind: str, epoch: int) -> list[Row]:
    return [] if epoch == EMPTY else [(kind, epoch, number) for number in range(ROWS[kind])]


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    kinds, epochs, numbers = zip(*rows, strict=True)
    return pa.record_batch([pa.array(kinds), pa.array(epochs), pa.array(numbers)], schema=SCHEMA)


def put_epochs(address: str, kind: str, epochs: Sequence[int], *, ends: bool = False) -> None:
    """The rows of these epochs, and a barrier behind each."""

    async def produce() -> None:
        async with put(address, f"{kind}/0", SCHEMA, producer=kind) as sender:
            for epoch in epochs:
                if rows := rows_of(kind, epoch):
                    await sender.send(batch_of(rows))
                await sender.send_barrier(epoch)
            await sender.end(closes_channel=ends)

    asyncio.run(produce())


def options_of(address: str, **more: str) -> Options:
    return {"address": address, "channels": ",".join(CHANNELS), "epochs": "aligned", "timeout_seconds": "60", **more}


def run_epochs(
    driver: Driver, options: Options, checkpoint: str, *, failing: int | None = None
) -> tuple[str, list[tuple[int, list[Row], int]]]:
    """Run a query over what is there: how it ended, and of each batch its rows, and how many orders were paid."""

    def job(spark: SparkSession) -> tuple[str, list[tuple[int, list[Row], int]]]:
        seen: list[tuple[int, list[Row], int]] = []

        def join(frame: DataFrame, batch: int) -> None:
            frame.persist()
            orders, payments = frame.where("kind = 'orders'"), frame.where("kind = 'payments'")
            paid = orders.join(payments, ["epoch", "n"]).count()
            seen.append((batch, sorted((row.kind, row.epoch, row.n) for row in frame.collect()), paid))
            frame.unpersist()
            if batch == failing:
                raise RuntimeError("the table is locked")

        stream = spark.readStream.format("permitflow").schema("kind STRING, epoch LONG, n LONG").options(**options)
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


@pytest.mark.sample
def test_each_batch_has_the_rows_between_aligned_barriers_also_after_exchange_and_query_started_again(
    driver: Driver, tmp_path: Path, address: str
) -> None:
    """A batch fails after its rows were taken; it comes again with the same rows, from the other exchange."""
    durable, checkpoint = (*KEEPING, "--store", str(tmp_path / "store")), str(tmp_path / "checkpoint")
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
