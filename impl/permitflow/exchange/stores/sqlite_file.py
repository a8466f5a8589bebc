"""Opens the file of a durable store, and refuses one that is not ours, or that somebody else has open."""

import errno
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from permitflow.errors import StoreInUseError, StoreUnusableError
from permitflow.exchange.stores.sqlite_mark import CLOSING, LogMark, identity_of, says_more_is_in_the_log
from permitflow.exchange.stores.sqlite_tables import TABLES, TABLES_VERSION

__all__ = ["ADVICE", "FILE_NAME", "close_file", "open_file"]

FILE_NAME = "permitflow.sqlite"

# The file's own mark, by which SQLite tells applications apart: "pfEx".
_APPLICATION_ID = 0x70664578
# Chunks are tens of kilobytes: with SQLite's 4 KiB pages, writing them takes up to three times as long.
_PAGE_BYTES = 16 << 10
# The log is folded back into the file once it is this long, and cut off if it was longer.
_LOG_BYTES = 32 << 20

ADVICE = "keep a copy of it, and take another folder"


def open_file(folder: Path) -> tuple[sqlite3.Connection, LogMark]:
    """Open the store in this folder, or begin one there; nobody else can open it until the connection is closed.

    The lock is the operating system's, on the file itself: a process that is killed leaves none behind.  The mark is to
    be closed after the connection; see ``close_file``.

    Raises:
        StoreInUseError: another exchange has it open.
        StoreUnusableError: there is something else, or a newer store, or a damaged one, or it cannot be written.
    """
    path = folder / FILE_NAME
    try:
        # What is in the rows is nobody else's business, unless somebody has made the folder on purpose.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_begun = path.exists() and path.stat().st_size > 0
        _require_writable(path if is_begun else folder, folder)
        identity = identity_of(path) if is_begun else None
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except FileExistsError as error:
        raise StoreUnusableError(path=str(folder), reason="it is no folder; name one, which may be new") from error
    except OSError as error:
        raise StoreUnusableError(path=str(folder), reason=error.strerror or str(error)) from error
    except sqlite3.Error as error:
        raise StoreUnusableError(path=str(folder), reason=str(error)) from error
    mark: LogMark | None = None
    try:
        if not is_begun:
            _lay_out(connection)
        with CLOSING:
            _take(connection, folder)
            mark = LogMark(path, identity or identity_of(path))
        _make_ready(connection, path)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's own words may quote what is damaged
        close_file(connection, mark)
        raise StoreUnusableError(path=str(path), reason=_words(error)) from error
    except BaseException:
        close_file(connection, mark)
        raise
    return connection, mark


def close_file(connection: sqlite3.Connection, mark: LogMark | None) -> None:
    """Close what ``open_file`` has opened, which gives up the lock."""
    with CLOSING:
        connection.close()
        if mark is not None:
            mark.close()


def _require_writable(*paths: Path) -> None:
    """Say so here: SQLite would call it an error of the disk."""
    for path in paths:
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, f"{path.name} may not be written to")


def _lay_out(connection: sqlite3.Connection) -> None:
    """Choose what can only be chosen while the file is empty."""
    connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")


def _take(connection: sqlite3.Connection, folder: Path) -> None:
    """Lock the file.  Alone with it, SQLite needs no shared memory beside it either."""
    try:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreInUseError(path=str(folder)) from error
        raise


def _make_ready(connection: sqlite3.Connection, path: Path) -> None:
    has_all = _require_ours(connection, path)
    _prepare(connection, path)
    if not has_all:
        _create_tables(connection)
    _fold(connection)


def _require_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Refuse what is no store of ours, unchanged; has it all tables, as an empty file and an older store have not?"""
    tables, mark, version = (
        connection.execute(question).fetchone()[0]
        for question in ("SELECT count(sql) FROM sqlite_schema", "PRAGMA application_id", "PRAGMA user_version")
    )
    if mark != _APPLICATION_ID and (tables or mark):
        raise StoreUnusableError(path=str(path), reason="it is a database of another program; take another folder")
    if says_more_is_in_the_log(version):
        log = Path(f"{path.resolve()}-wal")
        _close_and_leave(connection, log)
        advice = "put that back, or keep a copy of what is here, and take another folder"
        reason = f"its newest commits are in its log, {log}, which is not there or not whole; {advice}"
        raise StoreUnusableError(path=str(path), reason=reason)
    if version > TABLES_VERSION:
        reason = f"a newer release wrote it (tables of version {version}, this one knows {TABLES_VERSION}); update"
        raise StoreUnusableError(path=str(path), reason=reason)
    if tables and (damage := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise StoreUnusableError(path=str(path), reason=f"it is damaged ({damage.splitlines()[-1]}); {ADVICE}")
    return int(tables) >= len(TABLES)


def _close_and_leave(connection: sqlite3.Connection, log: Path) -> None:
    """SQLite removes, as it closes, a log in which it has found nothing; somebody may still find something."""
    kept = log.with_name(f"{log.name}.kept")
    with suppress(OSError):
        if log.stat().st_size > 0:
            os.link(log, kept)
    connection.close()
    with suppress(OSError):
        if not log.exists():
            kept.rename(log)
        kept.unlink(missing_ok=True)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    (journal,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if journal != "wal":
        raise StoreUnusableError(path=str(path), reason="no write-ahead log is possible there")
    # With a write-ahead log anything less may forget the last commits when the power fails.
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={_LOG_BYTES // _PAGE_BYTES}")
    connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")


def _create_tables(connection: sqlite3.Connection) -> None:
    """All tables and the mark in one transaction: whoever is killed meanwhile leaves an empty file."""
    connection.execute("BEGIN IMMEDIATE")
    for table in TABLES:
        connection.execute(table)
    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={TABLES_VERSION}")
    connection.execute("COMMIT")


def _fold(connection: sqlite3.Connection) -> None:
    """Fold back the tables of a new store, or what was left in the log: an empty file without a log is a new store."""
    with suppress(sqlite3.OperationalError):  # a full disk; the log still has everything
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _words(error: sqlite3.Error | UnicodeDecodeError) -> str:
    codes = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    # Errors of Python's own module have no code: so it tells, for one, of text that is none.
    is_damage = getattr(error, "sqlite_errorcode", None) in codes or "Could not decode" in str(error)
    if isinstance(error, UnicodeDecodeError) or is_damage:
        return f"it is damaged, or no database at all ({error}); {ADVICE}"
    return str(error)
