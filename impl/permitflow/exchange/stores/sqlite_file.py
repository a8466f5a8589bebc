"""Opens the file of a durable store, and refuses one that is not ours, or that somebody else has open."""

import errno
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from traceback import clear_frames

from permitflow.errors import StoreInUseError, StoreUnusableError
from permitflow.exchange.stores.sqlite_journal import (
    Journal,
    begin_counting,
    log_of,
    require_nothing_confirmed,
)
from permitflow.exchange.stores.sqlite_staging import take_over_published
from permitflow.exchange.stores.sqlite_tables import TABLES, TABLES_VERSION

__all__ = ["ADVICE", "FILE_NAME", "leave_file", "open_file"]

FILE_NAME = "permitflow.sqlite"

# The file's own mark, by which SQLite tells applications apart: "pfEx".
_APPLICATION_ID = 0x70664578
# The version of the tables as older releases marked a file whose log had more, and as it is read if that log is lost.
_LOG_IS_LOST = int.from_bytes(b"Log\1", "big")
# Chunks are tens of kilobytes: with SQLite's 4 KiB pages, writing them takes up to three times as long.
_PAGE_BYTES = 16 << 10
# The log is folded back into the file once it is this long, and cut off if it was longer.
_LOG_BYTES = 32 << 20

ADVICE = "keep a copy of it, and take another folder"


def open_file(folder: Path) -> tuple[sqlite3.Connection, Journal]:
    """Open the store in this folder, or begin one there; nobody else can open it until the connection is closed.

    The lock is the operating system's, on the file itself: a process that is killed leaves none behind.  The journal is
    to be started once everything else in the file is known to be sound.

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
        if not is_begun:  # SQLite removes the log of an empty file
            require_nothing_confirmed(path)
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except FileExistsError as error:
        raise StoreUnusableError(path=str(folder), reason="it is no folder; name one, which may be new") from error
    except (OSError, sqlite3.Error) as error:
        raise _unusable(folder, error) from error
    try:
        if not is_begun:
            _lay_out(connection)
        _take(connection, folder)
        if _require_ours(connection, path) < TABLES_VERSION:
            _require_sound(connection, path)
            _begin(connection, path)
        journal = Journal(connection, path)
        _require_sound(connection, path)
        _prepare(connection, path)
    except BaseException as error:
        leave_file(connection, path, error)
        if isinstance(error, sqlite3.Error | UnicodeDecodeError | OSError):
            raise _unusable(path, error) from error
        raise
    return connection, journal


def leave_file(connection: sqlite3.Connection, path: Path, error: BaseException) -> None:
    """Close a file that is refused, and leave it and its log as they are.

    SQLite folds the log back as it closes the file, or removes it if it has found nothing there.  But that may be the
    wrong log, or a damaged one of which more can be saved.
    """
    cause: BaseException | None = error
    while cause is not None:
        clear_frames(cause.__traceback__)  # a cursor in one of them would keep the file open
        cause = cause.__context__
    log = log_of(path)
    kept = log.with_name(f"{log.name}.kept")
    with suppress(OSError):
        if log.stat().st_size > 0:
            os.link(log, kept)
    connection.interrupt()  # which ends the folding before its first page
    connection.close()
    with suppress(OSError):
        if not log.exists():
            kept.rename(log)
        kept.unlink(missing_ok=True)


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


def _require_ours(connection: sqlite3.Connection, path: Path) -> int:
    """Refuse what is no store of ours; the version of its tables, 0 if there are none."""
    tables, mark, version = (
        connection.execute(question).fetchone()[0]
        for question in ("SELECT count(sql) FROM sqlite_schema", "PRAGMA application_id", "PRAGMA user_version")
    )
    if mark != _APPLICATION_ID and (tables or mark):
        raise StoreUnusableError(path=str(path), reason="it is a database of another program; take another folder")
    if version == _LOG_IS_LOST:
        reason = f"its newest commits are in its log, {log_of(path)}, which is not there or not whole; {ADVICE}"
        raise StoreUnusableError(path=str(path), reason=reason)
    if version > TABLES_VERSION:
        reason = f"a newer release wrote it (tables of version {version}, this one knows {TABLES_VERSION}); update"
        raise StoreUnusableError(path=str(path), reason=reason)
    if tables and version < 1:
        raise StoreUnusableError(path=str(path), reason=f"it is damaged (tables of version {version}); {ADVICE}")
    return int(version)


def _require_sound(connection: sqlite3.Connection, path: Path) -> None:
    if (damage := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise StoreUnusableError(path=str(path), reason=f"it is damaged ({damage.splitlines()[-1]}); {ADVICE}")


def _begin(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new store, or what an older release has not made of them.

    All in one transaction: a process that is killed meanwhile leaves what was there.
    """
    require_nothing_confirmed(path)
    connection.execute("BEGIN IMMEDIATE")
    for table in TABLES:
        connection.execute(table)
    take_over_published(connection)
    begin_counting(connection, path)
    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={TABLES_VERSION}")
    connection.execute("COMMIT")


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    (journal,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if journal != "wal":
        raise StoreUnusableError(path=str(path), reason="no write-ahead log is possible there")
    # With a write-ahead log anything less may forget the last commits when the power fails.
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={_LOG_BYTES // _PAGE_BYTES}")
    connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")


def _unusable(path: Path, error: Exception) -> StoreUnusableError:
    return StoreUnusableError(path=str(path), reason=_words(error))


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    codes = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    # Errors of Python's own module have no code: so it tells, for one, of text that is none.
    is_damage = getattr(error, "sqlite_errorcode", None) in codes or "Could not decode" in str(error)
    if isinstance(error, UnicodeDecodeError) or is_damage:
        return f"it is damaged, or no database at all ({error}); {ADVICE}"
    return str(error)
