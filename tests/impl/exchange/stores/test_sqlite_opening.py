"""Whoever opens a store marks no other one, and leaves nothing open if he fails; a child process opens its own."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

from permitflow.exchange.stores import sqlite
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_file import FILE_NAME
from permitflow.exchange.stores.sqlite_load import load_channels
from permitflow.exchange.stores.sqlite_mark import LogMark, identity_of
from permitflow.testing.descriptors import nothing_stays_open
from permitflow.testing.stored_channels import channel, filled

Rows = Callable[[int, int], pa.RecordBatch]


def test_a_store_that_takes_the_place_of_an_open_one_is_not_marked(
    run: asyncio.Runner, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, restored = tmp_path / "live", tmp_path / "restored"

    def restore_and_load(connection: sqlite3.Connection) -> object:
        live.rename(tmp_path / "moved")
        restored.rename(live)
        return load_channels(connection)

    with SqliteStore(restored) as store:
        run.run(filled(store, rows))
    SqliteStore(live).close()
    monkeypatch.setattr(sqlite, "load_channels", restore_and_load)
    with SqliteStore(live) as store:
        run.run(filled(store, rows))
    monkeypatch.undo()
    for folder in (live, tmp_path / "moved"):
        with SqliteStore(folder) as store:
            assert channel(store).load().next_row == 30


def test_a_file_that_is_not_the_one_that_sqlite_has_open_is_left_alone(tmp_path: Path) -> None:
    for name in ("open", "other"):
        SqliteStore(tmp_path / name).close()
    file, other = tmp_path / "open" / FILE_NAME, tmp_path / "other" / FILE_NAME
    with closing(LogMark(file, identity_of(file))) as mark:
        assert mark.is_due()
    with closing(LogMark(file, identity_of(other))) as mark:
        assert not mark.is_due()


def test_a_store_that_cannot_be_opened_to_the_end_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sqlite, "Database", failing)
    with nothing_stays_open():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                SqliteStore(tmp_path)


FORKING = """
import os, sys, threading
from pathlib import Path
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_mark import CLOSING

has_begun, may_end = threading.Event(), threading.Event()

def close_slowly():
    with CLOSING:
        has_begun.set()
        may_end.wait()

threading.Thread(target=close_slowly).start()
has_begun.wait()
os.register_at_fork(before=may_end.set)
child = os.fork()
SqliteStore(Path(sys.argv[1], "child" if child == 0 else "parent")).close()
if child:
    sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_process_that_was_forked_while_a_store_was_closed_opens_one_of_its_own(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], check=True, timeout=100)
