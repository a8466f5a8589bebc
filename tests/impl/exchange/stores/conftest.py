"""Stores to be tested, and rows that tell where they belong."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.exchange.stores.memory import MemoryStore
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.store import Store

SCHEMA = pa.schema([("number", pa.int64()), ("name", pa.string())])


def numbered(first_row: int, rows: int) -> pa.RecordBatch:
    """Rows that hold their own numbers."""
    numbers = range(first_row, first_row + rows)
    return pa.record_batch([[*numbers], [f"row {number}" for number in numbers]], schema=SCHEMA)


def numbers_of(batches: Sequence[pa.RecordBatch]) -> list[int]:
    """The numbers that rows hold."""
    return [number for batch in batches for number in batch["number"].to_pylist()]


@pytest.fixture
def rows() -> Callable[[int, int], pa.RecordBatch]:
    """Makes rows that hold their own numbers."""
    return numbered


@pytest.fixture
def numbers() -> Callable[[Sequence[pa.RecordBatch]], list[int]]:
    """The numbers that rows hold."""
    return numbers_of


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[], SqliteStore]]:
    """Opens the durable store of the test, again and again, and closes the one before."""
    with ExitStack() as stack:

        def opened() -> SqliteStore:
            stack.close()
            return stack.enter_context(SqliteStore(tmp_path / "store"))

        yield opened


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Every store that there is."""
    opened: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store")
    yield opened
    opened.close()
