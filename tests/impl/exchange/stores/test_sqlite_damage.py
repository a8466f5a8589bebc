"""Files that are no store of ours, or not any more, are refused and left as they are."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.errors import StoreUnusableError
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_database import FILE_NAME
from permitflow.exchange.stores.sqlite_journal import JOURNAL_NAME
from tests.support.kept_rows import channel, filled

Open = Callable[[], SqliteStore]
Rows = Callable[[int, int], pa.RecordBatch]
Numbers = Callable[[Sequence[pa.RecordBatch]], list[int]]


def damage_header(path: Path) -> None:
    path.write_bytes(b"this is no database" + path.read_bytes()[19:])


def damage_a_name(path: Path) -> None:
    """SQLite quotes it, and Python cannot read that."""
    content = path.read_bytes()
    for old, new in ((b"tablechannels", b"table\xffhannels"), (b"CREATE TABLE channels", b"CREATE TABLX channels")):
        assert old in content
        content = content.replace(old, new)
    path.write_bytes(content)


def damage_tables(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(3 * (16 << 10))
        file.write(b"\xff" * (64 << 10))


def cut_off(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def lose_rows(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM kept WHERE first_row = 10")
    connection.close()


def lose_a_batch(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM batches WHERE id = 3")
    connection.close()


def change_a_batch(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE batches SET arrow = substr(arrow, 1, 200) WHERE id = 2")
    connection.close()


def lose_the_last_rows(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE channels SET next_row = 29")
    connection.close()


def change_a_position(path: Path) -> None:
    """SQLite has no checksums of its own: a bit more, and a consumer would never get these rows."""
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE consumers SET acknowledged_row = 16 WHERE name = 'audit'")
    connection.close()


def name_a_batch_twice(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE kept SET batch = 3 WHERE batch = 2")
    connection.close()


def flip_a_bit(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        ((arrow,),) = connection.execute("SELECT arrow FROM batches WHERE id = 2")
        content = arrow.replace(b"row 12", b"row 13")
        assert content != arrow
        connection.execute("UPDATE batches SET arrow = ? WHERE id = 2", (content,))
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        damage_header,
        damage_a_name,
        damage_tables,
        cut_off,
        lose_rows,
        lose_the_last_rows,
        lose_a_batch,
        name_a_batch_twice,
        change_a_batch,
        change_a_position,
        flip_a_bit,
    ],
)
def test_a_damaged_store_is_refused_and_left_as_it_is(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    run.run(filled(open_store(), rows))
    open_store().close()
    path = tmp_path / "store" / FILE_NAME
    damage(path)
    before = {path.name: path.read_bytes() for path in path.parent.iterdir()}
    with pytest.raises(StoreUnusableError, match=r"damaged.*take another folder"):
        open_store()
    assert {path.name: path.read_bytes() for path in path.parent.iterdir()} == before


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    with pytest.raises(StoreUnusableError, match="another program"):
        SqliteStore(tmp_path)


def test_a_store_of_a_newer_release_is_refused(open_store: Open, tmp_path: Path) -> None:
    open_store().close()
    with sqlite3.connect(tmp_path / "store" / FILE_NAME) as connection:
        connection.execute("PRAGMA user_version=9")
    connection.close()
    with pytest.raises(StoreUnusableError, match="newer release wrote it"):
        open_store()


def test_a_store_of_an_older_release_is_gone_on_with(run: asyncio.Runner, rows: Rows, tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        run.run(filled(store, rows))
        for query in "ab":
            run.run(store.publish(query, 0, []))
    # Version 1 had no count of commits, and at first no order of queries.
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as older:
        older.execute("DROP TABLE publishing")
        older.execute("DROP TABLE commits")
        older.execute("PRAGMA user_version=1")
    (tmp_path / JOURNAL_NAME).unlink()
    with SqliteStore(tmp_path) as store:
        assert channel(store).load().next_row == 30
        run.run(store.publish("a", 1, []))
    with SqliteStore(tmp_path) as store:
        assert channel(store).load().next_row == 30
        assert [*store.published_batches().items()] == [("b", 0), ("a", 1)]


@pytest.mark.parametrize("name", ["", FILE_NAME])
def test_what_may_not_be_written_to_is_named(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    open_store().close()
    kept = tmp_path / "store" / name
    # As whoever runs the tests may write to everything.
    monkeypatch.setattr("os.access", lambda path, _: path != kept)
    with pytest.raises(StoreUnusableError, match=f"{kept.name} may not be written to"):
        open_store()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("notes")
    with pytest.raises(StoreUnusableError, match="store cannot be used as a store: it is no folder; name one"):
        SqliteStore(tmp_path / "store")
