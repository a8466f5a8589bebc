"""Proves, when a store is opened, that it has every confirmed commit.

SQLite reports no error if the write-ahead log is lost, truncated, damaged or an older copy: the newest commits are
just missing.  So each commit is counted twice, and opening the store compares both counts:

1. In the transaction itself: the table ``commits`` gets the number of the commit and a digest of the other tables.
2. After the flush of the transaction, and before it is confirmed: the journal, a separate file, gets the same, flushed.

A crash between the two leaves the database one commit ahead, and that commit was confirmed to no caller.  Any other
difference is refused.  The journal never grows, so it can be written on a full disk.  Its two slots are written in
turn, so an interrupted write leaves the other one intact.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4
from zlib import crc32

from permitflow.errors import StoreUnusableError
from permitflow.exchange.stores.system import System

JOURNAL_NAME = "permitflow.journal"

# A page of most file systems and disks: a damaged one takes one slot with it.
_SLOT_BYTES = 4 << 10
_CHECKSUM_BYTES = 4
# If commits are missing, the rows of this many channels can be named: of those that got rows last.
_CHANNELS_NAMED = 64
# The digest is a sum, so that a change of one row costs as much in a large table as in a small one.  SQLite's integers
# are signed.
_DIGESTS = 1 << 63
_NEXT_ROW = "id, name, next_row"
# What is kept and the batches, which are many, are not in the digest: batches have checksums, rows follow each other.
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('commits', 'batches', 'kept')"


class _Record(NamedTuple):
    """The contents of a slot."""

    store: str
    """The store's name, which its tables have, too."""
    commit: int
    """The number of the last confirmed commit."""
    digest: int
    """The digest of the tables after that commit."""
    next_rows: Mapping[str, int]
    """The next row of some channels, as that commit left them."""


class Journal:
    """Counts the commits of an open store.  For the writing thread."""

    def __init__(self, connection: sqlite3.Connection, database: Path, system: System) -> None:
        """Compare the tables' count with the journal's; nothing is changed.

        Raises:
            StoreUnusableError: confirmed commits are missing, or may be.
        """
        self._system = system
        self._path = database.with_name(JOURNAL_NAME)
        counted = connection.execute("SELECT store, number, digest, previous_digest FROM commits").fetchone()
        if counted is None:
            raise _unusable(database, "it has no count of its commits")
        self._store, self._commit, self._digest, previous_digest = counted
        self._next_rows = dict(connection.execute("SELECT name, next_row FROM channels"))
        self._compare(database, previous_digest)
        self._facts = [*_facts(connection)]
        self._new_digest = self._digest
        self._new_next_rows: dict[str, int | None] = {}
        self._file: int | None = None

    def _compare(self, database: Path, previous_digest: int) -> None:
        last, is_whole = _last_record(database, self._system)
        if last is None:
            what = "is not there" if self._system.size_bytes(self._path) is None else "is damaged"
            raise _unusable(database, f"its journal, {self._path}, {what}, so nothing tells whether rows are missing")
        if last.store != self._store:
            raise _unusable(database, f"{self._path} is the journal of another store")
        if self._commit < last.commit:
            raise _unusable(database, self._missing(database, last))
        ahead: int = self._commit - last.commit
        if ahead > 1 or last.digest != (previous_digest if ahead else self._digest):
            what = f"{self._path} is not its journal, or an older copy: that has noted commit {last.commit}"
            raise _unusable(database, f"{what}, and the database has commit {self._commit} of another history")
        if not ahead and not is_whole:
            # The damaged half may have been the newer one.
            what = f"half of its journal, {self._path}, is damaged"
            raise _unusable(database, f"{what}, so nothing tells whether commit {self._commit + 1} is missing")

    def _missing(self, database: Path, last: _Record) -> str:
        rows = {name: next_row - self._next_rows.get(name, 0) for name, next_row in last.next_rows.items()}
        named = [
            f"{missing} rows of channel {name!r} (from row {self._next_rows.get(name, 0)} on)"
            for name, missing in rows.items()
            if missing > 0
        ]
        commits = f"{last.commit - self._commit} of the {last.commit} commits that were confirmed"
        what = ", ".join(named) or "no rows, but acknowledgements, staged rows or the like"
        log = log_of(database, self._system)
        return f"it lacks {commits}: {what}; its log, {log}, is lost, damaged or older, or all of it is"

    def require_same(self, connection: sqlite3.Connection) -> None:
        """Compare the tables' digest; nothing is changed.

        Raises:
            ValueError: the tables do not match the last commit.
        """
        if _digest_of(connection, self._facts) != self._digest:
            raise ValueError(f"its tables are not what commit {self._commit} has left")

    def start(self, connection: sqlite3.Connection) -> None:
        """Track the changes of the tables from now on; what they have now survives a crash of the machine.

        Raises:
            OSError: the journal cannot be written.
        """
        self._file = self._system.open(self._path)
        # It may be one commit behind.  If not, its last record may still be in the kernel's memory only.
        self._write()
        connection.execute("PRAGMA temp_store=MEMORY")
        # A row that is replaced is deleted, too.
        connection.execute("PRAGMA recursive_triggers=ON")
        connection.create_function("permitflow_changed", -1, self._changed)
        for table, columns in self._facts:
            for statement in _triggers(table, columns):
                connection.execute(statement)

    def begin(self) -> None:
        """Begin a transaction; the one before it may have been undone."""
        self._new_digest = self._digest
        self._new_next_rows.clear()

    def count(self, connection: sqlite3.Connection) -> None:
        """Count the transaction, as a part of it."""
        facts = (self._commit + 1, self._new_digest)
        connection.execute("UPDATE commits SET previous_digest = digest, number = ?, digest = ?", facts)

    def confirm(self) -> None:
        """Note that the transaction is flushed.

        Raises:
            OSError: the journal cannot be written; no commit may be confirmed any more.
        """
        self._commit += 1
        self._digest = self._new_digest
        for channel, next_row in self._new_next_rows.items():
            self._next_rows.pop(channel, None)  # those that got rows last come last
            if next_row is not None:
                self._next_rows[channel] = next_row
        self._write()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._system.close(self._file)
            self._file = None

    def _write(self) -> None:
        assert self._file is not None, "the journal is written once it is started"
        latest = dict(islice(reversed(self._next_rows.items()), _CHANNELS_NAMED))
        slot = _encoded(_Record(self._store, self._commit, self._digest, latest))
        self._system.write(self._file, self._commit % 2 * _SLOT_BYTES, slot)
        self._system.flush(self._file)

    def _changed(self, table: str, columns: str, *values: object) -> None:
        """A row has its old values no more, and its new ones from now on; of none, all are None."""
        middle = len(values) // 2
        old, new = values[:middle], values[middle:]
        # The first column is never NULL.
        gone = 0 if old[0] is None else _digest_of_row(table, old)
        come = 0 if new[0] is None else _digest_of_row(table, new)
        self._new_digest = (self._new_digest + come - gone) % _DIGESTS
        if columns == _NEXT_ROW:
            _, name, next_row = old if new[0] is None else new
            assert isinstance(name, str)
            assert isinstance(next_row, int)
            self._new_next_rows[name] = None if new[0] is None else next_row


def require_nothing_confirmed(database: Path, system: System) -> None:
    """Refuse a database without a count of commits, if its journal has one.

    Raises:
        StoreUnusableError: the journal has a count, or is damaged.
    """
    path = database.with_name(JOURNAL_NAME)
    last, _ = _last_record(database, system)
    if last is not None and last.commit > 0:
        rows = "".join(f", {rows} rows of channel {name!r}" for name, rows in last.next_rows.items())
        what = f"its journal, {path}, knows of {last.commit} commits that were confirmed{rows}, and it has none of them"
        raise _unusable(database, f"{what}: it was lost, or is an older copy")
    if last is None and system.size_bytes(path) is not None:
        raise _unusable(database, f"it is new, or an older copy, because {path}, a store's journal, is damaged")


def begin_counting(connection: sqlite3.Connection, database: Path, system: System) -> None:
    """Begin a journal, in the transaction that makes the tables, so that no store of this version is without one."""
    store, digest = uuid4().hex, _digest_of(connection, [*_facts(connection)])
    connection.execute("DELETE FROM commits")
    connection.execute("INSERT INTO commits VALUES (?, 0, ?, ?)", (store, digest, digest))
    path = database.with_name(JOURNAL_NAME)
    new = path.with_name(f"{path.name}.new")
    slot = _encoded(_Record(store, 0, digest, {}))
    file = system.open(new, is_new=True)
    try:
        system.write(file, 0, slot + slot)
        system.flush(file)
    finally:
        system.close(file)
    system.replace(new, path)
    system.flush_folder(path.parent)


def _last_record(database: Path, system: System) -> tuple[_Record | None, bool]:
    """The newest record that is readable; is the other one what was written before it?"""
    content = system.read(database.with_name(JOURNAL_NAME)) or b""
    slots = (content[:_SLOT_BYTES], content[_SLOT_BYTES : 2 * _SLOT_BYTES])
    found = sorted((_decoded(slot) for slot in slots if _is_intact(slot)), key=lambda record: record.commit)
    if not found:
        return None, False
    return found[-1], len(found) == 2 and found[1].commit - found[0].commit <= 1


def _encoded(record: _Record) -> bytes:
    named = [*record.next_rows.items()]
    size_bytes = _SLOT_BYTES - _CHECKSUM_BYTES
    while len(body := json.dumps(record._replace(next_rows=dict(named))).encode()) > size_bytes:
        named = named[: len(named) // 2]
    body = body.ljust(size_bytes)
    return crc32(body).to_bytes(_CHECKSUM_BYTES, "big") + body


def _is_intact(slot: bytes) -> bool:
    checksum = int.from_bytes(slot[:_CHECKSUM_BYTES], "big")
    return len(slot) == _SLOT_BYTES and crc32(slot[_CHECKSUM_BYTES:]) == checksum


def _decoded(slot: bytes) -> _Record:
    return _Record(*json.loads(slot[_CHECKSUM_BYTES:]))


def _facts(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """The tables and columns in the digest."""
    for (table,) in connection.execute(_TABLES).fetchall():
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        if table == "channels":
            # By itself, since it changes with each append, and the rest, with the schema, is long.
            yield table, _NEXT_ROW
            columns.remove("next_row")
        yield table, ", ".join(columns)


def _digest_of(connection: sqlite3.Connection, facts: Sequence[tuple[str, str]]) -> int:
    rows = ((table, row) for table, columns in facts for row in connection.execute(f"SELECT {columns} FROM {table}"))
    return sum(_digest_of_row(table, row) for table, row in rows) % _DIGESTS


def _digest_of_row(table: str, values: tuple[object, ...]) -> int:
    return crc32(repr((table, values)).encode())


def _triggers(table: str, columns: str) -> Iterator[str]:
    """They tell this connection of each change; no other program sees them."""
    names = columns.split(", ")
    old, new = (", ".join(f"{row}.{name}" for name in names) for row in ("OLD", "NEW"))
    none = ", ".join("NULL" for _ in names)
    changes = (("INSERT", none, new), ("DELETE", old, none), (f"UPDATE OF {columns}", old, new))
    for number, (change, before, after) in enumerate(changes):
        yield f"""
            CREATE TEMP TRIGGER "{table} {columns} {number}" AFTER {change} ON main.{table} BEGIN
                SELECT permitflow_changed('{table}', '{columns}', {before}, {after});
            END
        """


def log_of(database: Path, system: System) -> Path:
    """The write-ahead log, beside the database itself, which may lie behind a link."""
    return Path(f"{system.resolved(database)}-wal")


def _unusable(database: Path, reason: str) -> StoreUnusableError:
    advice = (
        "put back what belongs together, or take another folder; to go on with what is there, remove the journal "
        f'from a copy of the folder, and say so: sqlite3 {database.name} "PRAGMA user_version = 0"'
    )
    return StoreUnusableError(path=str(database), reason=f"{reason}; {advice}")
