"""A store opens with every commit that was confirmed, or says what is missing or damaged and stays as it is."""

import asyncio
import errno
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from permitflow.client import Staging
from permitflow.errors import StoreUnusableError, StoreWriteError
from permitflow.exchange import SqliteStore
from permitflow.exchange.stores.sqlite_database import FILE_NAME, RESERVE_NAME
from permitflow.exchange.stores.sqlite_journal import JOURNAL_NAME
from tests.support.stored_rows import CONSUMERS, OpenSqlite, channel, filled, rows

LOG_NAME = f"{FILE_NAME}-wal"
SLOT_BYTES = 4 << 10
DAMAGES = 60


def copied(folder: Path, at: Path) -> Path:
    """What a process that is killed now leaves in this folder."""
    return Path(shutil.copytree(folder, at))


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files; SQLite may make an empty log, or remove one."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.stat().st_size > 0}


def next_row(folder: Path) -> int:
    with SqliteStore(folder) as store:
        return channel(store).load().next_row


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.fixture
def left(run: asyncio.Runner, open_sqlite: OpenSqlite, tmp_path: Path) -> Path:
    """A store of 3,000 rows, of which 1,000 came in each commit, and whose exchange was killed.

    ``older`` beside it is a copy from before the last two commits, ``newest`` one from before the last.
    """

    async def write() -> None:
        place = channel(open_sqlite())
        await place.declare(rows(0, 0).schema)
        for first_row, name in ((0, "older"), (1000, "newest"), (2000, "left")):
            await place.append(first_row, [rows(first_row, 1000)])
            copied(tmp_path / "store", tmp_path / name)

    run.run(write())
    return tmp_path / "left"


def take_an_older(left: Path, *names: str) -> None:
    for name in names:
        shutil.copy(left.parent / "older" / name, left)


def flip_bits(left: Path, *places: int) -> None:
    for at in places:
        flip(left / JOURNAL_NAME, at)


def size_of_log(folder: Path) -> int:
    return (folder / LOG_NAME).stat().st_size


LOST: dict[str, tuple[Callable[[Path], None], int]] = {
    "the last byte of the log": (lambda left: os.truncate(left / LOG_NAME, size_of_log(left) - 1), 2000),
    "a late bit": (lambda left: flip(left / LOG_NAME, size_of_log(left.parent / "newest") + 5000), 2000),
    "an early bit": (lambda left: flip(left / LOG_NAME, 5000), 0),
    "an older log": (lambda left: take_an_older(left, LOG_NAME), 1000),
    "an older store": (lambda left: take_an_older(left, FILE_NAME, LOG_NAME), 1000),
    "the log": (lambda left: (left / LOG_NAME).unlink(), 0),
    "what was in the log": (lambda left: os.truncate(left / LOG_NAME, 0), 0),
}


@pytest.mark.parametrize("lost", LOST)
def test_rows_that_were_confirmed_and_are_missing_are_named(left: Path, lost: str) -> None:
    damage, kept_rows = LOST[lost]
    damage(left)
    before = contents(left)
    words = (
        rf"{3000 - kept_rows} rows of channel 'orders/0' \(from row {kept_rows} on\).*-wal, is lost, damaged or older"
    )
    for _ in range(2):
        with pytest.raises(StoreUnusableError, match=f"it lacks . of the 5 commits that were confirmed: {words}"):
            SqliteStore(left)
        assert contents(left) == before


def take_the_journal_of_another_store(left: Path) -> None:
    SqliteStore(left.parent / "other").close()
    shutil.copy(left.parent / "other" / JOURNAL_NAME, left)


DAMAGED = "is damaged, so nothing tells whether rows are missing"
JOURNALS: dict[str, tuple[Callable[[Path], None], str]] = {
    "gone": (lambda left: (left / JOURNAL_NAME).unlink(), "is not there, so nothing tells whether rows are missing"),
    "empty": (lambda left: os.truncate(left / JOURNAL_NAME, 0), DAMAGED),
    "damaged": (lambda left: flip_bits(left, 20, SLOT_BYTES + 20), DAMAGED),
    # Commit 5 is in the other slot.
    "half": (lambda left: flip_bits(left, 20), "half of its journal, .* so nothing tells whether commit 6 is missing"),
    "older": (
        lambda left: take_an_older(left, JOURNAL_NAME),
        "an older copy: that has noted commit 3, and the database has commit 5",
    ),
    "another store's": (take_the_journal_of_another_store, "is the journal of another store"),
}


@pytest.mark.parametrize("is_now", JOURNALS)
def test_a_journal_that_proves_nothing_is_refused_and_can_be_put_back(left: Path, is_now: str) -> None:
    damage, words = JOURNALS[is_now]
    journal = (left / JOURNAL_NAME).read_bytes()
    damage(left)
    before = contents(left)
    with pytest.raises(StoreUnusableError, match=words):
        SqliteStore(left)
    assert contents(left) == before
    (left / JOURNAL_NAME).write_bytes(journal)
    assert next_row(left) == 3000


@pytest.mark.parametrize("is_torn", [False, True])
async def test_a_crash_between_a_commit_and_its_journal_loses_nothing(left: Path, is_torn: bool) -> None:
    shutil.copy(left.parent / "newest" / JOURNAL_NAME, left)
    if is_torn:
        flip(left / JOURNAL_NAME, SLOT_BYTES + 20)
    with SqliteStore(left) as store:
        await channel(store).append(3000, [rows(3000, 1)])
    assert next_row(left) == 3001


async def test_a_journal_with_another_history_of_the_same_length_is_refused(left: Path) -> None:
    other = copied(left, left.parent / "other")
    for folder, new_rows in ((left, 1), (other, 2)):
        with SqliteStore(folder) as store:
            await channel(store).append(3000, [rows(3000, new_rows)])
    shutil.copy(other / JOURNAL_NAME, left)
    with pytest.raises(StoreUnusableError, match=r"is not its journal.*commit 6 of another history"):
        SqliteStore(left)


async def test_who_wants_what_is_left_can_say_so(left: Path) -> None:
    take_an_older(left, LOG_NAME)
    with closing(sqlite3.connect(left / FILE_NAME)) as shell:
        shell.execute("PRAGMA user_version = 0")
    with pytest.raises(StoreUnusableError, match="knows of 5 commits"):
        SqliteStore(left)  # the journal is there: it may as well be an older copy of the database
    (left / JOURNAL_NAME).unlink()
    with SqliteStore(left) as store:
        await channel(store).append(1000, [rows(1000, 1)])
    assert next_row(left) == 1001


async def test_nothing_is_confirmed_once_the_journal_cannot_be_written(
    open_sqlite: OpenSqlite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await filled(open_sqlite())

    def fails(*_: object) -> int:
        raise OSError(errno.EIO, "the disk fails")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fails)
        with pytest.raises(StoreWriteError, match=r"its journal cannot be written .the disk fails., so start"):
            await place.append(30, [rows(30, 1)])
    with pytest.raises(StoreWriteError, match=r"its journal cannot be written .the disk fails., so start"):
        await place.append(30, [rows(30, 1)])
    # As after a crash: nobody was told of the last row.
    open_sqlite().close()
    assert next_row(tmp_path / "store") == 31


class Written(NamedTuple):
    """Copies of a store: killed, closed, and older ones."""

    now: tuple[Path, Path]
    older: list[Path]


async def written(folder: Path) -> Written:
    """Three channels, with rows, acknowledgements and staged rows."""
    older: list[Path] = []
    with SqliteStore(folder / "store") as store:
        places = [channel(store, f"orders/{number}") for number in range(3)]
        for place in places:
            await place.declare(rows(0, 0).schema)
        for turn in range(12):
            for place in places:
                await place.append(100 * turn, [rows(100 * turn, 100)], "p", 100 * turn + 100)
            for consumer in CONSUMERS:
                await places[0].acknowledge(consumer, 50 * turn, 50 * turn)
            await places[1].stage(Staging("q", turn, 0, "a"), [rows(0, 7)])
            if turn % 4 == 2:
                older.append(copied(folder / "store", folder / f"older {turn}"))
        killed = copied(folder / "store", folder / "killed")
    return Written((killed, folder / "store"), older)


async def known(folder: Path) -> list[object]:
    """All that an exchange would know of the store."""
    facts: list[object] = []
    with SqliteStore(folder) as store:
        for number in range(3):
            place = channel(store, f"orders/{number}")
            kept = place.load()
            first_row = min((kept.acknowledged or {"nobody": 0}).values())
            found = await place.read(first_row, kept.next_row) if kept.next_row else []
            facts.append((kept, [row for batch in found for row in batch.to_pylist()]))
    return facts


def damage(path: Path, older: Path, chance: random.Random) -> str:
    """Damage a file, or leave it as it was once; how."""
    how = chance.choice(("cut", "flip", "flip", "clear", "older", "delete"))
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content))
    if how == "delete":
        path.unlink()
    elif how == "older":
        if (older / path.name).exists():
            shutil.copy(older / path.name, path)
    elif how == "cut":
        path.write_bytes(content[:at])
    else:
        content[at : at + 512] = bytes(512) if how == "clear" else content[at : at + 512]
        content[at] ^= 1 << chance.randrange(8) if how == "flip" else 0
        path.write_bytes(content)
    return f"{path.name} {how}"


async def test_a_damaged_file_is_refused_or_everything_is_there(tmp_path: Path) -> None:
    stores = await written(tmp_path)
    for folder in (*stores.now, *stores.older):
        (folder / RESERVE_NAME).unlink(missing_ok=True)
    everything = await known(copied(stores.now[0], tmp_path / "as it was"))
    refused = opened = 0
    for seed in range(DAMAGES):
        chance = random.Random(seed)
        folder = copied(chance.choice(stores.now), tmp_path / "damaged")
        how = damage(chance.choice(sorted(folder.iterdir())), chance.choice(stores.older), chance)
        before = contents(folder)
        try:
            assert await known(folder) == everything, f"{seed}: {how}"
            opened += 1
        except StoreUnusableError:
            assert contents(folder) == before, f"{seed}: {how}"
            refused += 1
        shutil.rmtree(folder)
    # Not everything hits something: there is free space in all of the files.
    assert refused > DAMAGES // 3
    assert opened > DAMAGES // 10


def write_at(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def damage_a_name(path: Path) -> None:
    """SQLite quotes it, and Python cannot read that."""
    content = path.read_bytes()
    for old, new in ((b"tablechannels", b"table\xffhannels"), (b"CREATE TABLE channels", b"CREATE TABLX channels")):
        assert old in content
        content = content.replace(old, new)
    path.write_bytes(content)


def changing(*statements: str) -> Callable[[Path], None]:
    """SQLite has no checksums of its own: it says nothing."""

    def change(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in statements:
                assert connection.execute(statement).rowcount

    return change


DAMAGES_OF_FILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "header": (lambda path: write_at(path, 0, b"this is no database"), ""),
    "name of a table": (damage_a_name, ""),
    "tables": (lambda path: write_at(path, 3 * (16 << 10), b"\xff" * (64 << 10)), ""),
    "cut off": (lambda path: os.truncate(path, path.stat().st_size // 2), ""),
    "first rows lost": (
        changing("DELETE FROM kept WHERE first_row = 0", "DELETE FROM batches WHERE id = 1"),
        "10 rows are missing",
    ),
    "rows lost": (changing("DELETE FROM kept WHERE first_row = 10"), "rows before row 20 are missing"),
    "last rows lost": (changing("UPDATE channels SET next_row = 29"), "its rows do not end at row 28"),
    "batch lost": (changing("DELETE FROM batches WHERE id = 3"), "is missing"),
    "batch named twice": (changing("UPDATE kept SET batch = 3 WHERE batch = 2"), "2 are named"),
    "batch cut": (changing("UPDATE batches SET arrow = substr(arrow, 1, 200) WHERE id = 2"), "was altered"),
    "schema that is none": (changing("UPDATE batches SET schema = -1 WHERE id = 3"), "has schema -1 of 1"),
    "expired rows that never came": (changing("UPDATE channels SET expired_row = 31"), "before row 31 have expired"),
    "consumer that would never get rows": (
        changing("UPDATE consumers SET acknowledged_row = 16 WHERE name = 'audit'"),
        "its tables are not what commit 5 has left",
    ),
}


@pytest.mark.parametrize("what", DAMAGES_OF_FILE)
async def test_a_damaged_store_is_refused_and_left_as_it_is(open_sqlite: OpenSqlite, tmp_path: Path, what: str) -> None:
    await filled(open_sqlite())
    open_sqlite().close()
    path = tmp_path / "store" / FILE_NAME
    damage, words = DAMAGES_OF_FILE[what]
    damage(path)
    before = {path.name: path.read_bytes() for path in path.parent.iterdir()}
    with pytest.raises(StoreUnusableError, match=rf"damaged.*{words}.*take another folder"):
        open_sqlite()
    assert {path.name: path.read_bytes() for path in path.parent.iterdir()} == before


@pytest.mark.parametrize("is_staged", [False, True])
async def test_a_flipped_bit_on_disk_is_named_with_channel_and_rows(
    open_sqlite: OpenSqlite, tmp_path: Path, is_staged: bool
) -> None:
    place = await filled(open_sqlite())
    await place.stage(Staging("q", 7, 0, "first"), [rows(30, 10)])
    open_sqlite().close()
    path = tmp_path / "store" / FILE_NAME
    with sqlite3.connect(path) as connection:
        table, order = ("staged", "position") if is_staged else ("kept", "first_row")
        run_of_rows = f"SELECT arrow FROM {table} JOIN batches ON batch = batches.id ORDER BY {order} DESC LIMIT 1"
        ((arrow,),) = connection.execute(run_of_rows).fetchall()
    connection.close()
    sound = path.read_bytes()
    assert sound.count(arrow) == 1
    words = "query='q', batch=7, partition=0, attempt='first'" if is_staged else "the run of rows 20 to 29 was altered"
    for bit in random.Random(1).sample(range(8 * len(arrow)), 40):
        damaged = bytearray(sound)
        damaged[sound.index(arrow) + bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(
            StoreUnusableError, match=f"channel 'orders/0': .*{words}.*its checksum is [0-9a-f]{{8}}, that"
        ):
            open_sqlite()
    path.write_bytes(sound)
    assert (await channel(open_sqlite()).read(20, 30))[0].equals(rows(20, 10))


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    with pytest.raises(StoreUnusableError, match="another program"):
        SqliteStore(tmp_path)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (5, "before the first release .tables of version 5"),
        (9, "newer release wrote it"),
    ],
)
def test_a_store_of_another_release_is_refused_and_stays_as_it_is(
    open_sqlite: OpenSqlite, tmp_path: Path, version: int, words: str
) -> None:
    open_sqlite().close()
    with closing(sqlite3.connect(tmp_path / "store" / FILE_NAME)) as connection:
        connection.execute(f"PRAGMA user_version={version}")
    before = contents(tmp_path / "store")
    with pytest.raises(StoreUnusableError, match=words):
        open_sqlite()
    assert contents(tmp_path / "store") == before


@pytest.mark.parametrize("name", ["", FILE_NAME])
def test_a_store_that_may_not_be_written_to_is_named(
    open_sqlite: OpenSqlite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    open_sqlite().close()
    kept = tmp_path / "store" / name
    # The user who runs the tests may write to everything.
    monkeypatch.setattr("os.access", lambda path, _: path != kept)
    with pytest.raises(StoreUnusableError, match=f"{kept.name} may not be written to"):
        open_sqlite()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("notes")
    with pytest.raises(StoreUnusableError, match="store cannot be used as a store: it is not a folder; name one"):
        SqliteStore(tmp_path / "store")


async def test_many_channels_with_long_names_fit_into_the_journal(open_sqlite: OpenSqlite, tmp_path: Path) -> None:
    store = open_sqlite()
    for number in range(100):
        place = channel(store, f"{number}/{'x' * 300}")
        await place.declare(rows(0, 0).schema)
        await place.append(0, [rows(0, 3)])
    left = copied(tmp_path / "store", tmp_path / "left")
    (left / LOG_NAME).unlink()
    with pytest.raises(StoreUnusableError, match=r"the 300 commits.*: 3 rows of channel '99/x"):
        SqliteStore(left)
