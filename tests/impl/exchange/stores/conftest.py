"""Stores to be tested."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.store import Store


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
    opened: Store = Store() if request.param == "memory" else SqliteStore(tmp_path / "store")
    yield opened
    opened.close()
