"""Stores to be tested."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from permitflow.exchange import SqliteStore


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[], SqliteStore]]:
    """Opens the durable store of the test, again and again, and closes the one before."""
    with ExitStack() as stack:

        def opened() -> SqliteStore:
            stack.close()
            return stack.enter_context(SqliteStore(tmp_path / "store"))

        yield opened
