"""The store on disk: what it has after it was closed and opened again, for whom it is, and how it uses its disk.

Channels are added all or none.  What is flushed, what waits, and how much is used; on a full disk acknowledgements go
through, since they make room, and producers get nothing of what is set apart.
"""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from permitflow.errors import (
    StoreInUseError,
    StoreWriteError,
)
from permitflow.exchange import ChannelStore, SqliteStore
from permitflow.exchange.stores import sqlite_database
from permitflow.exchange.stores.sqlite_database import FILE_NAME, RESERVE_BYTES, RESERVE_NAME
from permitflow.exchange.stores.sqlite_journal import JOURNAL_NAME
from tests.support.process import files_of_at_most, nothing_stays_open
from tests.support.stored_rows import (
    CONSUMERS,
    OpenSqlite,
    channel,
    filled,
    numbers,
    rows,
)


def test_a_store_that_is_open_cannot_be_opened_again(open_sqlite: OpenSqlite, tmp_path: Path) -> None:
    open_sqlite()
    with pytest.raises(StoreInUseError, match="in use by another exchange"):
        SqliteStore(tmp_path / "store")
    open_in_child = "import sys; from permitflow.exchange.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1])"
    script = open_in_child.replace("sys.argv[1]", "__import__('pathlib').Path(sys.argv[1])")
    child = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert "StoreInUseError" in child.stderr


def test_a_store_that_was_closed_can_be_opened_and_leaves_no_log(open_sqlite: OpenSqlite, tmp_path: Path) -> None:
    open_sqlite().close()
    assert {path.name for path in (tmp_path / "store").iterdir()} == {FILE_NAME, JOURNAL_NAME, RESERVE_NAME}
    open_sqlite()


async def test_a_full_disk_leaves_nothing_half_written_and_recovers(
    open_sqlite: OpenSqlite, caplog: pytest.LogCaptureFixture
) -> None:
    place = await filled(open_sqlite())
    next_row = 30
    with files_of_at_most(4 << 20), suppress(StoreWriteError):
        while next_row < 10_000_000:
            await place.append(next_row, [rows(next_row, 2000)], "p", next_row + 2000)
            next_row += 2000
    assert 2030 <= next_row < 10_000_000
    # The channel stands where it stood: what failed can be sent again.
    await place.append(next_row, [rows(next_row, 5)], "p", next_row + 5)
    next_row += 5
    place = channel(open_sqlite())
    assert (place.load().next_row, place.load().producers) == (next_row, {"p": next_row})
    assert numbers(await place.read(0, next_row)) == list(range(next_row))
    # The operator of the exchange is told as well.
    told = [record.getMessage() for record in caplog.records if record.name.startswith("permitflow.")]
    assert [message.partition("store ")[2].split()[1:4] for message in told] == [
        ["cannot", "be", "written:"],
        ["can", "be", "written"],
    ]


async def test_forgotten_rows_make_room(open_sqlite: OpenSqlite, tmp_path: Path) -> None:
    async def flow(place: ChannelStore, first_row: int, end: int, kept_rows: int) -> None:
        for row in range(first_row, end, 5000):
            await place.append(row, [rows(row, 5000)])
            first_kept_row = max(0, row + 5000 - kept_rows)
            for consumer in CONSUMERS:
                await place.acknowledge(consumer, first_kept_row, first_kept_row)

    place = channel(open_sqlite())
    await place.declare(rows(0, 0).schema)
    await flow(place, 0, 200_000, 50_000)
    open_sqlite().close()
    early = (tmp_path / "store" / FILE_NAME).stat().st_size
    await flow(channel(open_sqlite()), 200_000, 1_000_000, 50_000)
    # The log beside the file is cut off at 32 MiB; what it may hold beyond that is one transaction.
    assert (tmp_path / "store" / f"{FILE_NAME}-wal").stat().st_size < 34 << 20
    open_sqlite().close()
    late = (tmp_path / "store" / FILE_NAME).stat().st_size
    assert late < early + (1 << 20) < 8 << 20


def on_a_small_disk(disk: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a world of its own where this folder is a disk of 32 MiB."""
    disk.mkdir(exist_ok=True)
    script = f'mount -t tmpfs -o size=32m tmpfs {disk} && exec "$@"'
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]
    return subprocess.run(unshare, capture_output=True, text=True, check=False, timeout=100)


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """Where a disk can be."""
    if shutil.which("unshare") is None or on_a_small_disk(tmp_path / "disk", "true").returncode:
        pytest.skip("a disk of a few MiB needs a user namespace")
    return tmp_path / "disk"


def used(disk: Path, way: str, rows: int, batches: int) -> Any:
    """What a child tells of its use of this small disk."""
    child = Path(__file__).with_name("filling_child.py")
    done = on_a_small_disk(disk, sys.executable, str(child), str(disk), way, str(rows), str(batches))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("batches", [0, 20], ids=["filled by rows", "filled by another program"])
@pytest.mark.parametrize("rows", [2000, *(pytest.param(rows, marks=pytest.mark.long) for rows in (100, 5000))])
def test_on_a_full_disk_all_is_acknowledged_and_then_there_is_room(small_disk: Path, rows: int, batches: int) -> None:
    facts = used(small_disk, "fill", rows, batches)
    assert facts["left to producers"] == 0
    assert facts["reserve before"]
    assert facts["acknowledged"] == facts["batches"] >= 20
    assert facts["appended afterwards"] == 10
    assert facts["reserve afterwards"]
    assert facts["is as it was"]


def test_the_log_of_rows_that_are_gone_leaves_a_small_disk_its_room(small_disk: Path) -> None:
    batches = 200  # of 200 KB
    assert used(small_disk, "pass", 2000, batches) == {"passed": batches}


async def test_only_what_makes_room_gets_the_reserve_and_it_is_made_again(
    open_sqlite: OpenSqlite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reserve = tmp_path / "store" / RESERVE_NAME

    def needs_the_reserve(connection: sqlite3.Connection) -> None:
        """SQLite has no more room as long as the reserve takes it."""
        connection.execute(f"PRAGMA max_page_count={1 if reserve.exists() else 1 << 30}")
        connection.execute("CREATE TABLE more (a)")
        connection.execute("DROP TABLE more")

    store = open_sqlite()
    place = await filled(store)
    with pytest.raises(StoreWriteError, match="full: beside its rows a store needs some 5 MiB"):
        await store.database.submit(needs_the_reserve)
    assert reserve.stat().st_size == RESERVE_BYTES
    with files_of_at_most(RESERVE_BYTES // 2):  # it cannot be made again
        await store.database.submit(needs_the_reserve, makes_room=True)
        with pytest.raises(StoreWriteError, match="the disk is full, but for what makes room: rows need some 5 MiB"):
            await place.append(30, [rows(30, 1)])
        await place.acknowledge("audit", 30, 0)
        assert not reserve.exists()
    await place.append(30, [rows(30, 1)])
    assert reserve.stat().st_size == RESERVE_BYTES
    # Not with each acknowledgement: "again" means rows as well.
    told = [re.sub("the store [^ ]+ |: .*", "", record.getMessage()) for record in caplog.records]
    assert told == ["cannot be written", "has a full disk", "can be written again"]


def test_a_store_that_cannot_be_opened_to_the_end_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sqlite_database, "SqliteDatabase", failing)
    with nothing_stays_open():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                SqliteStore(tmp_path)
