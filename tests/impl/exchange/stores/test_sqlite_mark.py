"""A store that has lost its log, in which the newest commits are, is refused; one that is complete never is."""

import asyncio
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.errors import StoreUnusableError
from permitflow.exchange.stores import sqlite_file
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_file import FILE_NAME
from permitflow.exchange.stores.sqlite_mark import LogMark
from permitflow.testing.limits import files_of_at_most
from permitflow.testing.stored_channels import CONSUMERS, channel, filled

Open = Callable[[], SqliteStore]
Rows = Callable[[int, int], pa.RecordBatch]

LOG_NAME = f"{FILE_NAME}-wal"
PAGE_BYTES = 16 << 10
MARK = int.from_bytes(b"Log\x01", "big")


def remove(log: Path) -> None:
    log.unlink()


def empty(log: Path) -> None:
    log.write_bytes(b"")


def damage(log: Path) -> None:
    content = log.read_bytes()
    log.write_bytes(content[:40] + bytes(100) + content[140:])


def killed(folder: Path, at: Path) -> Path:
    """What a process that is killed now leaves in this folder."""
    return Path(shutil.copytree(folder, at))


def next_row(folder: Path) -> int:
    with SqliteStore(folder) as store:
        return channel(store).load().next_row


def content(file: Path) -> list[str]:
    """All that is in a copy of a file, and in its log if there is one, whatever the file says of it."""
    with closing(sqlite3.connect(file)) as shell:
        return list(shell.iterdump())


def version_of(file: Path) -> int:
    """As SQLite has it, of a copy: it folds a log back, and removes it."""
    with closing(sqlite3.connect(file)) as shell:
        return int(shell.execute("PRAGMA user_version").fetchone()[0])


@pytest.fixture
def left(run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path) -> Path:
    """A store of thirty rows whose exchange was killed."""
    run.run(filled(open_store(), rows))
    return killed(tmp_path / "store", tmp_path / "left")


@pytest.mark.parametrize("lose", [remove, empty, damage])
def test_a_store_whose_log_is_lost_is_refused_and_left_as_it_is(left: Path, lose: Callable[[Path], None]) -> None:
    lose(left / LOG_NAME)
    before = {path.name: path.read_bytes() for path in left.iterdir() if path.stat().st_size}
    for _ in range(2):
        with pytest.raises(StoreUnusableError, match=r"newest commits are in its log, .*-wal, which is not there"):
            SqliteStore(left)
        assert {path.name: path.read_bytes() for path in left.iterdir()} == before


def test_a_log_that_is_put_back_brings_everything(left: Path, tmp_path: Path) -> None:
    shutil.move(left / LOG_NAME, tmp_path / "log")
    with pytest.raises(StoreUnusableError):
        SqliteStore(left)
    shutil.move(tmp_path / "log", left / LOG_NAME)
    assert next_row(left) == 30


def test_whoever_wants_what_is_left_can_say_so(left: Path) -> None:
    (left / LOG_NAME).unlink()
    with closing(sqlite3.connect(left / FILE_NAME)) as shell:
        shell.execute("PRAGMA user_version = 1")
    assert next_row(left) == 0


def test_a_store_that_was_closed_needs_no_log(left: Path) -> None:
    for _ in range(2):
        assert next_row(left) == 30
        assert [path.name for path in left.iterdir()] == [FILE_NAME]
    assert version_of(left / FILE_NAME) == 1


def test_with_its_log_a_marked_file_is_what_every_release_knows(left: Path) -> None:
    assert (left / FILE_NAME).read_bytes()[60:64] == b"Log\x01"
    # Another program folds the log back, and takes the mark away with it.
    assert version_of(left / FILE_NAME) == 1
    assert not (left / LOG_NAME).exists()
    assert (left / FILE_NAME).read_bytes()[60:64] == b"\0\0\0\x01"
    assert next_row(left) == 30


def test_without_its_log_a_marked_file_is_a_newer_one_to_older_releases(left: Path) -> None:
    (left / LOG_NAME).unlink()
    assert version_of(left / FILE_NAME) == MARK > 1


@pytest.mark.parametrize("pages", [1, 12], ids=["every commit is long", "some are"])
def test_at_every_moment_a_store_is_complete_or_else_refused(
    run: asyncio.Runner, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    """With its log it is complete, and without it: between any two statements, around each mark, when it is closed."""
    monkeypatch.setattr(sqlite_file, "_LOG_BYTES", pages * PAGE_BYTES)
    number, pwrite, confirmed = count(), os.pwrite, [0]
    moments: list[tuple[Path, int]] = []

    def keep_moment(_: object = None) -> None:
        moments.append((killed(tmp_path / "store", tmp_path / str(next(number))), confirmed[-1]))

    def marking(file: int, mark: bytes, at: int) -> int:
        keep_moment()
        written = pwrite(file, mark, at)
        keep_moment()
        return written

    async def write() -> None:
        with SqliteStore(tmp_path / "store") as store:
            store._database.done(lambda connection: connection.set_trace_callback(keep_moment))
            place = await filled(store, rows)
            confirmed.append(30)
            for row in range(30, 40):
                await place.append(row, [rows(row, 1)])
                confirmed.append(row + 1)
                await place.acknowledge(CONSUMERS[0], row, 0)
        keep_moment()

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", marking)
        run.run(write())
    refused = 0
    for folder, rows_confirmed in moments:
        without_log = killed(folder, folder / "without")
        (without_log / LOG_NAME).unlink(missing_ok=True)
        seen_alone = content(Path(shutil.copy(without_log / FILE_NAME, folder / "seen")))
        try:
            assert next_row(without_log) >= rows_confirmed
        except StoreUnusableError:
            refused += 1
            assert seen_alone != content(killed(folder, tmp_path / f"{folder.name} with") / FILE_NAME)
        assert next_row(folder) >= rows_confirmed
    assert 0 < refused < len(moments)
    assert next_row(tmp_path / "store") == 40


def test_a_store_that_was_closed_on_a_full_disk_is_complete(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path
) -> None:
    async def write() -> None:
        place = await filled(open_store(), rows)
        for row in range(30, 400_030, 20_000):
            await place.append(row, [rows(row, 20_000)])

    run.run(write())
    with files_of_at_most(1 << 20):
        open_store().close()
    assert (tmp_path / "store" / LOG_NAME).stat().st_size > 1 << 20
    assert next_row(tmp_path / "store") == 400_030
    # Closed well, it needs no log.
    assert [path.name for path in (tmp_path / "store").iterdir()] == [FILE_NAME]
    assert next_row(tmp_path / "store") == 400_030


def test_a_new_store_that_cannot_be_folded_back_is_complete_with_its_log(
    run: asyncio.Runner, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    with ExitStack() as full:

        def fill_disk(statement: str) -> None:
            if "wal_checkpoint" in statement:
                full.enter_context(files_of_at_most(2 * PAGE_BYTES))

        def connected(path: Path, **options: bool) -> sqlite3.Connection:
            connection = connect(path, **options)  # type: ignore[call-overload]  # whatever it takes
            connection.set_trace_callback(fill_disk)
            assert isinstance(connection, sqlite3.Connection)
            return connection

        monkeypatch.setattr(sqlite3, "connect", connected)
        with SqliteStore(tmp_path / "store") as store:
            full.close()
            run.run(filled(store, rows))
            killed(tmp_path / "store", tmp_path / "left")
    monkeypatch.undo()
    without_log = killed(tmp_path / "left", tmp_path / "without")
    (without_log / LOG_NAME).unlink()
    with pytest.raises(StoreUnusableError):
        SqliteStore(without_log)
    assert next_row(tmp_path / "left") == next_row(tmp_path / "store") == 30


def test_the_page_that_a_mark_takes_keeps_nothing_from_being_written(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def has_no_room(*_: object) -> Iterator[None]:
        raise sqlite3.OperationalError("database or disk is full")
        yield

    monkeypatch.setattr(LogMark, "marking", has_no_room)
    run.run(filled(open_store(), rows))
    assert b"Log" not in killed(tmp_path / "store", tmp_path / "left").joinpath(FILE_NAME).read_bytes()[60:64]
    assert next_row(tmp_path / "left") == 30


def test_a_store_that_cannot_be_marked_is_as_good_as_ever(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.EIO, "the disk fails")

    monkeypatch.setattr(os, "pwrite", fails)
    run.run(filled(open_store(), rows))
    assert next_row(killed(tmp_path / "store", tmp_path / "left")) == 30


def test_a_file_behind_a_link_is_marked_where_it_lies(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path
) -> None:
    disk, store = tmp_path / "disk", tmp_path / "store"
    disk.mkdir()
    store.mkdir()
    (store / FILE_NAME).symlink_to(disk / "rows.sqlite")
    run.run(filled(open_store(), rows))
    left = killed(disk, tmp_path / "left")
    (left / "rows.sqlite-wal").unlink()
    (left / FILE_NAME).symlink_to("rows.sqlite")
    with pytest.raises(StoreUnusableError, match=r"rows\.sqlite-wal, which is not there"):
        SqliteStore(left)
    open_store().close()
    assert next_row(store) == 30


TRYING = """
import sys
from pathlib import Path
from permitflow.errors import StoreInUseError
from permitflow.exchange.stores.sqlite import SqliteStore
try:
    SqliteStore(Path(sys.argv[1]))
except StoreInUseError:
    print("in use")
"""


def test_to_mark_a_file_does_not_unlock_it(run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path) -> None:
    """POSIX: who closes a file, however often he has it open, gives up his locks on it."""
    run.run(filled(open_store(), rows))
    # By another process, for the same reason.
    head = ["head", "--bytes=64", str(tmp_path / "store" / FILE_NAME)]
    assert subprocess.run(head, capture_output=True, check=True).stdout.endswith(b"Log\x01")
    asking = [sys.executable, "-c", TRYING, str(tmp_path / "store")]
    assert subprocess.run(asking, capture_output=True, text=True, check=True).stdout == "in use\n"


def test_a_store_that_was_never_folded_back_is_marked_by_the_next_exchange(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As releases have left it that folded nothing back when they began."""
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "_fold", lambda _: None)
        run.run(filled(open_store(), rows))
        left = killed(tmp_path / "store", tmp_path / "left")
    assert (left / FILE_NAME).read_bytes()[60:64] == bytes(4)
    with SqliteStore(left) as store:
        run.run(channel(store).append(30, [rows(30, 1)]))
        without_log = killed(left, tmp_path / "without")
    (without_log / LOG_NAME).unlink()
    with pytest.raises(StoreUnusableError, match="newest commits are in its log"):
        SqliteStore(without_log)
    assert next_row(left) == 31
