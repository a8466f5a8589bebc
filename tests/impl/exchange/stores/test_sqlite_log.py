"""A store without its log, in which the newest commits are, is refused; and it is complete where no log is needed."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.errors import StoreUnusableError
from permitflow.exchange.stores import sqlite_log
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_file import FILE_NAME
from permitflow.testing.limits import files_of_at_most
from permitflow.testing.stored_channels import channel, filled

Open = Callable[[], SqliteStore]
Rows = Callable[[int, int], pa.RecordBatch]
Numbers = Callable[[Sequence[pa.RecordBatch]], list[int]]

LOG_NAME = f"{FILE_NAME}-wal"


def remove(log: Path) -> None:
    log.unlink()


def empty(log: Path) -> None:
    log.write_bytes(b"")


def killed(folder: Path, at: Path) -> Path:
    """What a process that is killed now leaves in this folder."""
    return Path(shutil.copytree(folder, at, dirs_exist_ok=True))


def next_row(folder: Path) -> int:
    with SqliteStore(folder) as store:
        return channel(store).load().next_row


@pytest.fixture
def left(run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path) -> Path:
    """A store of thirty rows whose exchange was killed."""
    run.run(filled(open_store(), rows))
    return killed(tmp_path / "store", tmp_path / "left")


@pytest.mark.parametrize("lose", [remove, empty])
def test_a_store_whose_log_is_lost_is_refused_and_left_as_it_is(left: Path, lose: Callable[[Path], None]) -> None:
    lose(left / LOG_NAME)
    before = (left / FILE_NAME).read_bytes()
    for _ in range(2):
        with pytest.raises(StoreUnusableError, match=r"its log, .*-wal, is not there.*put it back"):
            SqliteStore(left)
    assert (left / FILE_NAME).read_bytes() == before


def test_a_log_that_is_put_back_brings_everything(left: Path, tmp_path: Path) -> None:
    shutil.move(left / LOG_NAME, tmp_path / "log")
    with pytest.raises(StoreUnusableError):
        SqliteStore(left)
    shutil.move(tmp_path / "log", left / LOG_NAME)
    assert next_row(left) == 30


def test_a_store_that_was_closed_needs_no_log(open_store: Open, left: Path) -> None:
    for _ in range(2):
        assert next_row(left) == 30
        assert [path.name for path in left.iterdir()] == [FILE_NAME]


def test_a_log_that_another_program_has_folded_back_is_not_missed(left: Path) -> None:
    with closing(sqlite3.connect(left / FILE_NAME)) as shell:
        assert shell.execute("SELECT sum(rows) FROM kept").fetchone() == (30,)
    assert not (left / LOG_NAME).exists()
    assert next_row(left) == 30


def test_a_log_that_was_folded_back_and_begun_again_is_missed(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_log, "LOG_BYTES", 10 * sqlite_log.PAGE_BYTES)
    marks: list[int] = []

    async def write() -> None:
        store = open_store()
        store._database.done(lambda connection: connection.set_trace_callback(noted))
        place = await filled(store, rows)
        for row in range(30, 130):
            await place.append(row, [rows(row, 1)])

    def noted(statement: str) -> None:
        marks.extend([len(marks)] if "wal_checkpoint" in statement else [])

    run.run(write())
    assert len(marks) > 2
    assert (tmp_path / "store" / LOG_NAME).stat().st_size < 30 * sqlite_log.PAGE_BYTES
    left = killed(tmp_path / "store", tmp_path / "left")
    (left / LOG_NAME).unlink()
    with pytest.raises(StoreUnusableError, match="its log"):
        SqliteStore(left)


def test_at_every_moment_a_store_has_what_was_confirmed_and_without_its_log_it_has_it_or_is_refused(
    run: asyncio.Runner, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two statements: when the store begins, when the log is folded back, and when it is closed."""
    monkeypatch.setattr(sqlite_log, "LOG_BYTES", 10 * sqlite_log.PAGE_BYTES)
    confirmed = [0]
    moments: list[tuple[Path, int]] = []

    def keep_moment(_: str) -> None:
        at = killed(tmp_path / "store", tmp_path / str(len(moments)))
        moments.append((at, confirmed[-1]))

    async def write() -> None:
        with SqliteStore(tmp_path / "store") as store:
            store._database._connection.set_trace_callback(keep_moment)
            place = await filled(store, rows)
            confirmed.append(30)
            for row in range(30, 36):
                await place.append(row, [rows(row, 1)])
                confirmed.append(row + 1)

    run.run(write())
    refused = 0
    for folder, rows_confirmed in moments:
        alone = killed(folder, folder / "alone")
        (alone / LOG_NAME).unlink(missing_ok=True)
        assert next_row(folder) >= rows_confirmed
        try:
            assert next_row(alone) >= rows_confirmed
        except StoreUnusableError:
            refused += 1
    assert 0 < refused <= len(moments)


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
