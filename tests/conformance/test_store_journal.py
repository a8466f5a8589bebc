"""The model says which stores open: from each state in which it may be opened, a real one is put together and opened.

A store's commits are made for real, and its files are kept after each.  A state of the model is the database after one
of them, and a journal with the records of others, or damaged ones.
"""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from permitflow.errors import StoreUnusableError
from permitflow.exchange import SqliteStore
from permitflow.exchange.stores.sqlite_database import FILE_NAME
from permitflow.exchange.stores.sqlite_journal import JOURNAL_NAME
from permitflow_model.kernel.explore import explore
from permitflow_model.store_journal import DAMAGED, SYSTEM, Parameters, Slots, opens
from tests.support.stored_rows import SCHEMA, channel, rows

CONSTANTS = Parameters(commits=3, faults=2, losses=2)
SLOT_BYTES = 4 << 10


class _Found(NamedTuple):
    """What is on the disk."""

    log: int
    slots: Slots


def _left() -> dict[_Found, bool]:
    """What may be found when a store is opened, and whether it opens."""
    states = [state for state in explore(SYSTEM, CONSTANTS).states if state.phase == "down"]
    return {_Found(state.log, state.slots): opens(state) for state in states}


async def _commit(store: SqliteStore, number: int) -> None:
    """Make the commit of this number; a new store has commit 0, and a new channel is one."""
    place = channel(store) if number else None
    if place is not None and number > 1:
        await (place.declare(SCHEMA) if number == 2 else place.append(0, [rows(0, 1)]))


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of a store after each of its first commits, closed."""
    folder, found = tmp_path_factory.mktemp("store") / "store", []
    for number in range(CONSTANTS.commits + 1):
        with SqliteStore(folder) as store:
            asyncio.run(_commit(store, number))
        with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
            assert connection.execute("SELECT number FROM commits").fetchone() == (number,)
        found.append(Path(shutil.copytree(folder, folder.with_name(str(number)))))
    return found


def _put_together(found: _Found, commits: list[Path], at: Path) -> Path:
    shutil.copytree(commits[found.log], at)
    journal = b""
    for place, number in enumerate(found.slots):
        written = commits[number].joinpath(JOURNAL_NAME).read_bytes() if number != DAMAGED else bytes(2 * SLOT_BYTES)
        journal += written[place * SLOT_BYTES : (place + 1) * SLOT_BYTES]
    at.joinpath(JOURNAL_NAME).write_bytes(journal)
    return at


def _does_open(folder: Path) -> bool:
    try:
        SqliteStore(folder).close()
    except StoreUnusableError:
        return False
    return True


def test_a_real_store_opens_where_its_model_does(commits: list[Path], tmp_path: Path) -> None:
    left = _left()
    assert {*left.values()} == {True, False}
    wrong = [
        found
        for number, (found, may) in enumerate(left.items())
        if _does_open(_put_together(found, commits, tmp_path / str(number))) is not may
    ]
    assert wrong == []
