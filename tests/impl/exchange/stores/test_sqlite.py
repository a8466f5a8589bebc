"""The store on disk: what it has after it was closed and opened again, and for whom it is."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.errors import (
    StoreError,
    StoreInUseError,
    StoreLeftoverError,
    StoreMismatchError,
    StoreUnusableError,
    StoreWriteError,
)
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_database import FILE_NAME, RESERVE_NAME
from permitflow.exchange.stores.sqlite_journal import JOURNAL_NAME
from permitflow.exchange.stores.store import KeptPart, PublishedPart
from permitflow.protocol.control import ChannelState
from permitflow.protocol.frames import Staging
from permitflow.protocol.parameters import ChannelParameters
from tests.support.kept_rows import CONSUMERS, PARAMETERS, channel, filled

Open = Callable[[], SqliteStore]
Rows = Callable[[int, int], pa.RecordBatch]
Numbers = Callable[[Sequence[pa.RecordBatch]], list[int]]


def test_all_that_was_written_is_there_again(
    run: asyncio.Runner, open_store: Open, rows: Rows, numbers: Numbers
) -> None:
    parts = [Staging("q", batch, 0, "a") for batch in (1, 2, 3)]

    async def write() -> str:
        store = open_store()
        place = await filled(store, rows)
        await place.acknowledge("default", 30, 0)
        await place.acknowledge("audit", 12, 12)
        for part in parts:
            await place.stage(part, [rows(30, 2), rows(32, 3)])
        await store.publish("q", 1, [PublishedPart("orders/0", parts[0], 30)])
        await store.publish("q", 2, [PublishedPart("orders/0", parts[1], 35)])
        await place.finish(ChannelState.BROKEN, "the producer gave up")
        return place.load().log_id

    async def read() -> list[pa.RecordBatch]:
        return await place.read(12, 40)

    log_id = run.run(write())
    store = open_store()
    place = channel(store)
    kept = place.load()
    assert (kept.log_id, kept.next_row, kept.schema) == (log_id, 40, rows(0, 0).schema)
    assert (kept.acknowledged, kept.producers) == ({"default": 30, "audit": 12}, {"p": 30})
    assert (kept.state, kept.reason) == (ChannelState.BROKEN, "the producer gave up")
    assert kept.staged == (KeptPart(staging=parts[2], chunk_rows=(2, 3)),)
    assert store.published_batches() == {"q": 2}
    assert numbers(run.run(read())) == [*range(12, 30), 30, 31, 32, 33, 34, 30, 31, 32, 33, 34]


def test_dictionaries_and_nested_columns_come_back(run: asyncio.Runner, open_store: Open) -> None:
    table = {
        "word": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "list": pa.array([[1], [], None, [2, 3]]),
        "struct": pa.array([{"x": 1.5}, None, {"x": None}, {"x": -0.0}]),
    }
    batch = pa.record_batch(table)

    async def write() -> None:
        place = channel(open_store())
        await place.declare(batch.schema)
        await place.append(0, [batch.slice(1, 2), batch])

    run.run(write())
    read = run.run(channel(open_store()).read(0, 6))
    assert pa.Table.from_batches(read).to_pylist() == [*batch.slice(1, 2).to_pylist(), *batch.to_pylist()]


def test_small_batches_are_stored_together_and_none_is_longer_than_a_chunk_may_be(
    run: asyncio.Runner, open_store: Open, rows: Rows
) -> None:
    parameters = ChannelParameters(row_permits=1000, max_chunk_cost=64)

    async def write() -> None:
        place = open_store().open_channel("orders/0", parameters=parameters, consumers=CONSUMERS)
        await place.declare(rows(0, 0).schema)
        await place.append(0, [rows(number, 1) for number in range(300)])

    run.run(write())
    place = open_store().open_channel("orders/0", parameters=parameters, consumers=CONSUMERS)
    assert [batch.num_rows for batch in run.run(place.read(0, 300))] == [64, 64, 64, 64, 44]


def test_a_store_that_is_open_cannot_be_opened_again(open_store: Open, tmp_path: Path) -> None:
    open_store()
    with pytest.raises(StoreInUseError, match="in use by another exchange"):
        SqliteStore(tmp_path / "store")
    open_in_child = "import sys; from permitflow.exchange.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1])"
    script = open_in_child.replace("sys.argv[1]", "__import__('pathlib').Path(sys.argv[1])")
    child = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert "StoreInUseError" in child.stderr


def test_a_store_that_was_closed_can_be_opened_and_leaves_no_log(open_store: Open, tmp_path: Path) -> None:
    open_store().close()
    assert {path.name for path in (tmp_path / "store").iterdir()} == {FILE_NAME, JOURNAL_NAME, RESERVE_NAME}
    open_store()


@pytest.mark.parametrize(
    ("parameters", "consumers", "message"),
    [
        (ChannelParameters(row_permits=50), CONSUMERS, "row permits 100000, and is now to have 50"),
        (ChannelParameters(row_permits=100_000, permit_batch=1), CONSUMERS, "permit batch 12500.*1:"),
        (ChannelParameters(row_permits=100_000, oversize="whole"), CONSUMERS, "oversize split"),  # type: ignore[arg-type]
        (PARAMETERS, ("default",), "consumers audit, default, and is now to have default:"),
        (PARAMETERS, ("default", "audit", "etl"), "consumers audit, default, and is now to have audit, default, etl"),
    ],
)
def test_a_channel_that_was_stored_otherwise_is_refused(
    open_store: Open, parameters: ChannelParameters, consumers: tuple[str, ...], message: str
) -> None:
    channel(open_store())
    store = open_store()
    with pytest.raises(StoreMismatchError, match=message):
        store.open_channel("orders/0", parameters=parameters, consumers=consumers)
    # It was not touched, and the right numbers still open it.
    channel(store)


@pytest.mark.parametrize(
    ("channels", "parameters", "error"),
    [
        (["orders/1", "new/0"], PARAMETERS, StoreLeftoverError),
        (["new/0", "orders/0", "orders/1"], ChannelParameters(row_permits=50), StoreMismatchError),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_before_anything_of_it_is_done(
    open_store: Open, channels: list[str], parameters: ChannelParameters, error: type[StoreError]
) -> None:
    store = open_store()
    names = ["orders/0", "orders/1"]
    for name in names:
        channel(store, name)
    with pytest.raises(error, match="orders/0"):
        open_store().require_fitting(channels, parameters=parameters, consumers=CONSUMERS)
    open_store().require_fitting(names, parameters=PARAMETERS, consumers=CONSUMERS)
    open_store().require_fitting([*names, "new/0"], parameters=PARAMETERS, consumers=CONSUMERS)


def test_every_error_is_a_store_error() -> None:
    for kind in (StoreInUseError, StoreLeftoverError, StoreMismatchError, StoreUnusableError, StoreWriteError):
        assert issubclass(kind, StoreError)
