"""Stores to be tested."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from permitflow.exchange import PostgresStore, SqliteStore
from permitflow.exchange.stores.durable import DurableStore
from tests.support.stored_rows import OpenSqlite, OpenStore


@pytest.fixture
def open_sqlite(tmp_path: Path) -> Iterator[OpenSqlite]:
    """Opens the store of the test on disk, again and again, and closes the one before."""
    with ExitStack() as stack:

        def opened() -> SqliteStore:
            stack.close()
            return stack.enter_context(SqliteStore(tmp_path / "store"))

        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the durable store of the test, each that there is, again and again, and closes the one before."""
    address = request.getfixturevalue("postgres").new_address() if request.param == "postgres" else ""
    with ExitStack() as stack:

        def opened() -> DurableStore:
            stack.close()
            return stack.enter_context(PostgresStore(address) if address else SqliteStore(tmp_path / "store"))

        yield opened
