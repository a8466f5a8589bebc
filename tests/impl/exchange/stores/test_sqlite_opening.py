"""A store that cannot be opened to the end leaves nothing open."""

from pathlib import Path
from typing import NoReturn

import pytest

from permitflow.exchange.stores import sqlite
from permitflow.exchange.stores.sqlite import SqliteStore
from tests.support.process import nothing_stays_open


def test_a_store_that_cannot_be_opened_to_the_end_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sqlite, "Database", failing)
    with nothing_stays_open():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                SqliteStore(tmp_path)
