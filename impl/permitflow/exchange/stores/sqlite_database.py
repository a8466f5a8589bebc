"""The file of a durable store: its opening, and what runs jobs on it.

A job is done once it is on disk: SQLite's write-ahead log is flushed at each commit (``synchronous=FULL``).
"""

import errno
import logging
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from traceback import clear_frames
from typing import TypeVar

from permitflow.errors import StoreInUseError, StoreUnusableError
from permitflow.exchange.stores.database import TABLES, TABLES_VERSION, Database, Job, Load, wrong_version
from permitflow.exchange.stores.sqlite_journal import Journal, begin_counting, log_of, require_nothing_confirmed
from permitflow.exchange.stores.system import System

T = TypeVar("T")

_log = logging.getLogger(__name__)

FILE_NAME = "permitflow.sqlite"

_TYPES = {
    "identity": "INTEGER PRIMARY KEY",
    "integer": "INTEGER",
    "bytes": "BLOB",
    "table": "STRICT",
    "keyed_table": "STRICT, WITHOUT ROWID",
}

# One row: see ``sqlite_journal``.
_COMMITS = """
CREATE TABLE IF NOT EXISTS commits (
    store TEXT NOT NULL,               -- made with the tables; its journal has the same
    number INTEGER NOT NULL,           -- of the last commit
    digest INTEGER NOT NULL,           -- of the other tables but ``batches`` and ``kept``
    previous_digest INTEGER NOT NULL   -- as the commit before has left it
) STRICT
"""

# The file's own mark, by which SQLite tells applications apart: "pfEx".
_APPLICATION_ID = 0x70664578
# A new file has this one, and one whose commits are to be counted anew.
_UNCOUNTED = 0
# Chunks are tens of kilobytes: with SQLite's 4 KiB pages, writing them takes up to three times as long.
_PAGE_BYTES = 16 << 10

ADVICE = "keep a copy of it, and take another folder"

RESERVE_NAME = "permitflow.reserve"

# Half of it is for the file, which grows when the log is folded back; the other half is for the log, to which an
# acknowledgement adds some eight pages of 16 KiB.
RESERVE_BYTES = 4 << 20
_NEEDED_MIB = RESERVE_BYTES * 5 // 4 >> 20

# What was deleted is used again first.  Above a quarter of the file, and this, the file system gets some of it back.
_FREE_PAGES_KEPT = 512
_PAGES_GIVEN_BACK_AT_ONCE = 512

# With less than this left on the disk, the log is folded back before the file would have to grow by more than the
# reserve has room for.  With more left it would cost a fifth of the pace of large chunks for nothing.
_SCARCE_BYTES = 256 << 20

# On a full disk: to give back a page may take one of the log first.
_PAGES_GIVEN_BACK_FOR_RESERVE = 16

# Reading the free space costs a tenth of a small transaction.
_COMMITS_BETWEEN_LOOKS = 32


def open_database(folder: Path, load: Load[T], system: System) -> "tuple[SqliteDatabase, T]":
    """Open the store in this folder, or make one; no other process can open it until the database is closed.

    The lock is the operating system's, on the file itself: a killed process leaves no lock behind.

    Args:
        folder: of the store.
        load: reads all there is; raises ``ValueError`` where that is damaged.
        system: has the folder.

    Raises:
        StoreInUseError: another exchange has it open.
        StoreUnusableError: the folder has other contents, a newer store or a damaged one, or is not writable.
    """
    path = folder / FILE_NAME
    try:
        # Only this user may read the rows, unless the folder was made beforehand with other rights.
        system.make_folder(folder)
        is_begun = bool(system.size_bytes(path))
        _require_writable(system, path if is_begun else folder, folder)
        if not is_begun:  # SQLite removes the log of an empty file
            require_nothing_confirmed(path, system)
        connection = system.connect(path)
    except FileExistsError as error:
        raise StoreUnusableError(path=str(folder), reason="it is not a folder; name one, which may be new") from error
    except (OSError, sqlite3.Error) as error:
        raise StoreUnusableError(path=str(folder), reason=_words(error)) from error
    journal: Journal | None = None
    try:
        if not is_begun:
            _lay_out(connection)
        _take(connection, folder)
        version = _require_ours(connection, path)
        if version == _UNCOUNTED:
            _require_sound(connection, path)
            _begin(connection, path, system)
        journal = Journal(connection, path, system)
        _require_sound(connection, path)
        _prepare(connection, path, system.log_bytes)
        try:
            loaded = load(connection)
            journal.require_same(connection)
        except (ValueError, sqlite3.Error) as error:
            raise StoreUnusableError(path=str(path), reason=f"it is damaged ({error}); {ADVICE}") from error
        _settle(connection, path, system)
        journal.start(connection)
        return SqliteDatabase(connection, folder, journal, system), loaded
    except BaseException as error:
        if journal is not None:
            journal.close()
        _leave(connection, path, error, system)
        if isinstance(error, sqlite3.Error | ValueError | OSError):
            raise StoreUnusableError(path=str(path), reason=_words(error)) from error
        raise


def _leave(connection: sqlite3.Connection, path: Path, error: BaseException, system: System) -> None:
    """Close a refused file, and leave it and its log unchanged.

    SQLite folds the log back when it closes the file, or removes the log if it found no commit there.  But this may be
    the wrong log, or a damaged one with rows that can still be saved.
    """
    cause: BaseException | None = error
    while cause is not None:
        clear_frames(cause.__traceback__)  # a cursor in one of them would keep the file open
        cause = cause.__context__
    log = log_of(path, system)
    kept = log.with_name(f"{log.name}.kept")
    with suppress(OSError):
        if system.size_bytes(log):
            system.link(log, kept)
    connection.interrupt()  # which ends the folding before its first page
    connection.close()
    with suppress(OSError):
        if system.size_bytes(log) is None:
            system.replace(kept, log)
        system.remove(kept)


def _require_writable(system: System, *paths: Path) -> None:
    """Refuse it here: SQLite would report a disk error."""
    for path in paths:
        if not system.may_write(path):
            raise PermissionError(errno.EACCES, f"{path.name} may not be written to")


def _lay_out(connection: sqlite3.Connection) -> None:
    """Set the options that need an empty file."""
    connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")


def _take(connection: sqlite3.Connection, folder: Path) -> None:
    """Lock the file.  With exclusive access, SQLite needs no shared memory file either."""
    try:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreInUseError(path=str(folder)) from error
        raise


def _require_ours(connection: sqlite3.Connection, path: Path) -> int:
    """Refuse a file that is not a store of this version; return the version of its tables."""
    tables, mark, version = (
        connection.execute(question).fetchone()[0]
        for question in ("SELECT count(sql) FROM sqlite_schema", "PRAGMA application_id", "PRAGMA user_version")
    )
    if mark != _APPLICATION_ID and (tables or mark):
        raise StoreUnusableError(path=str(path), reason="it is a database of another program; take another folder")
    if version != _UNCOUNTED and (reason := wrong_version(version, ADVICE)):
        raise StoreUnusableError(path=str(path), reason=reason)
    return int(version)


def _settle(connection: sqlite3.Connection, path: Path, system: System) -> None:
    """Let what a killed process has left in the log survive a crash of the machine, before any of it counts as kept.

    SQLite reads the log, and flushes nothing.  A flush alone might not help: after one that has failed, the next one
    succeeds and writes nothing.  So all of it is written once more, into the file; on a full disk, into the log itself.
    """
    log = log_of(path, system)
    if not system.size_bytes(log):
        return
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        if not _may_be_full(error):
            raise
        file = system.open(log)
        try:
            system.write(file, 0, system.read(log) or b"")
            system.flush(file)
        finally:
            system.close(file)
        system.flush_folder(log.parent)


def _require_sound(connection: sqlite3.Connection, path: Path) -> None:
    if (damage := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise StoreUnusableError(path=str(path), reason=f"it is damaged ({damage.splitlines()[-1]}); {ADVICE}")


def _begin(connection: sqlite3.Connection, path: Path, system: System) -> None:
    """Make the tables of a new store, or begin to count the commits of one anew.

    All in one transaction: a process killed meanwhile leaves the file unchanged.
    """
    require_nothing_confirmed(path, system)
    connection.execute("BEGIN IMMEDIATE")
    for table in TABLES:
        connection.execute(table.format_map(_TYPES))
    connection.execute(_COMMITS)
    begin_counting(connection, path, system)
    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={TABLES_VERSION}")
    connection.execute("COMMIT")


def _prepare(connection: sqlite3.Connection, path: Path, log_bytes: int) -> None:
    (journal,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if journal != "wal":
        raise StoreUnusableError(path=str(path), reason="no write-ahead log is possible there")
    # With a write-ahead log, any weaker setting may lose the last commits in a power failure.
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={log_bytes // _PAGE_BYTES}")
    connection.execute(f"PRAGMA journal_size_limit={log_bytes}")


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    codes = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    # Errors of Python's own module, for instance for invalid text, have no code.
    is_damage = getattr(error, "sqlite_errorcode", None) in codes or "Could not decode" in str(error)
    if isinstance(error, ValueError) or is_damage:
        return f"it is damaged, or no database at all ({error}); {ADVICE}"
    return str(error)


class Reserve:
    """A file that reserves space, and is removed when the space is needed.  For the writing thread."""

    def __init__(self, log: Path, system: System) -> None:
        """Reserve space, if there is some, on the disk of the store's log."""
        self._path = log.with_name(RESERVE_NAME)
        self._system = system
        self.is_there = system.size_bytes(self._path) == RESERVE_BYTES
        self.make()

    def make(self) -> bool:
        """Reserve space, if it is not reserved yet and enough stays free for the next commit; return whether it is."""
        if not self.is_there and self.free_bytes() >= _NEEDED_MIB << 20:
            try:
                self._system.fill(self._path, RESERVE_BYTES)
                self.is_there = True
            except OSError:
                self.give_up()
        return self.is_there

    def give_up(self) -> bool:
        """Release the space; return whether there was some."""
        was_there, self.is_there = self.is_there, False
        with suppress(OSError):
            self._system.remove(self._path)
        return was_there

    def free_bytes(self) -> int:
        """The free bytes for this process in the file system; 0: unknown."""
        try:
            return self._system.free_bytes(self._path.parent)
        except OSError:
            return 0


class SqliteDatabase(Database):
    """Runs jobs on one file."""

    _ERRORS = (sqlite3.Error, OSError)

    def __init__(self, connection: sqlite3.Connection, path: Path, journal: Journal, system: System) -> None:
        """Take over a connection that no other thread uses any more; it must be in autocommit mode.

        Args:
            connection: to the file of the store.
            path: of the store.
            journal: of the same store; closed with the connection.
            system: has the file.
        """
        super().__init__(str(path))
        self._connection = connection
        self._journal = journal
        self._file = path / FILE_NAME
        self._system = system
        self._reserve = Reserve(log_of(self._file, system), system)
        self._journal_error: OSError | None = None
        self._writer = system.begin_writing(self._run, self._end, name=f"permitflow stores in {path}")

    # The methods below run in the thread.

    def _reason(self, error: Exception) -> str:
        reason = super()._reason(error)
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
            return reason
        needed = f"some {_NEEDED_MIB} MiB, {RESERVE_BYTES >> 20} of them for {RESERVE_NAME}"
        return f"{reason}: beside its rows a store needs {needed}"

    def _run(self, jobs: Sequence[Job]) -> None:
        self._carry_out(jobs)
        self._answer(jobs)
        self._see_to_room()
        if self.commits % _COMMITS_BETWEEN_LOOKS == 0:
            self._tidy()

    def _end(self) -> None:
        self._connection.close()
        self._journal.close()

    def _carry_out(self, jobs: Sequence[Job]) -> None:
        if self._journal_error is not None:
            self._refuse(jobs, self._journal_error)
            return
        if not self._reserve.make():
            # The space that it had is not for producers.
            others = [job for job in jobs if not job.makes_room]
            self._refuse(others, _no_room())
            jobs = [job for job in jobs if job.makes_room]
        if jobs:
            self._do(jobs)

    def _do(self, jobs: Sequence[Job], *, may_fold: bool = True) -> None:
        try:
            self._together(jobs)
        except Exception as error:
            self._roll_back()
            if len(jobs) > 1:
                # A failed job must not stop the others: one that deletes may make room.
                for job in jobs:
                    self._carry_out([job])
            elif _may_be_full(error) and may_fold and self._fold_into_reserve():
                self._do(jobs, may_fold=False)
            elif _may_be_full(error) and jobs[0].makes_room and self._gives_up_reserve():
                self._do(jobs)
            else:
                self._refuse(jobs, error)

    def _together(self, jobs: Sequence[Job]) -> None:
        """Run the jobs in one transaction: all or none."""
        changes = self._connection.total_changes
        self._journal.begin()
        self._connection.execute("BEGIN IMMEDIATE")
        free_bytes = self._reserve.free_bytes()
        is_scarce = free_bytes < _SCARCE_BYTES and not all(job.makes_room for job in jobs)
        used_pages = self._number("page_count") - self._number("freelist_count") if is_scarce else 0
        for job in jobs:
            job.value = job.do(self._connection)
        self._check(jobs)
        if is_scarce:
            written_bytes = (self._number("page_count") - used_pages) * self._number("page_size")
            self._require_room_to_fold(free_bytes - written_bytes)
        if is_change := self._connection.total_changes > changes:
            self._journal.count(self._connection)
        self._connection.execute("COMMIT")
        self.commits += 1
        if is_change:
            try:
                self._journal.confirm()
            except OSError as error:
                # The tables have it, but nothing would show its loss; opening the store again tells what is there.
                reason = f"its journal cannot be written ({error.strerror}), so start the exchange again"
                self._journal_error = OSError(error.errno, reason)
                self._refuse(jobs, self._journal_error)
                return
        if self._reserve.is_there:  # without it, producers' rows are still refused
            self._works()

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            _log.exception("the store %s could not undo what it could not do", self._path)

    def _tidy(self) -> None:
        while self._gives_back(_PAGES_GIVEN_BACK_AT_ONCE, above=_FREE_PAGES_KEPT) and self._writer.is_idle():
            pass

    def _gives_up_reserve(self) -> bool:
        if not self._reserve.give_up():
            return False
        _log.warning("the store %s has a full disk: only what makes room is still written", self._path)
        return True

    def _see_to_room(self) -> None:
        """Make room for acknowledgements."""
        if not self._reserve.is_there:
            self._make_reserve()
        elif self._reserve.free_bytes() < _SCARCE_BYTES:
            self._fold("PASSIVE", above=RESERVE_BYTES // 2)  # a log that keeps its blocks is written faster

    def _make_reserve(self) -> None:
        """Return freed pages to the file system, until there is space for the reserve."""
        self._fold()
        while not self._reserve.make() and self._gives_back(_PAGES_GIVEN_BACK_FOR_RESERVE, above=0):
            self._fold()

    def _require_room_to_fold(self, free_bytes: int) -> None:
        """Refuse a transaction if the file could not take the log any more once it is there.

        A log with free blocks takes rows without space on the disk.  The file does not, and from then on nothing would
        make room.
        """
        if self._grown_bytes() > max(free_bytes, RESERVE_BYTES // 2):
            raise _no_room()

    def _fold(self, way: str = "TRUNCATE", *, above: float = -inf) -> bool:
        """Fold the log back, if the file grows by more than ``above`` bytes and the disk has room; is it done?"""
        try:
            if not above < self._grown_bytes() <= self._reserve.free_bytes():
                return False
            self._connection.execute(f"PRAGMA wal_checkpoint({way})")
        except (sqlite3.Error, OSError):
            return False  # the log still has everything
        return True

    def _fold_into_reserve(self) -> bool:
        """Fold the log back; if it has taken the disk, into the reserve, which is made again where the log was."""
        if self._fold():
            return True
        try:
            log_bytes = self._system.size_bytes(log_of(self._file, self._system)) or 0
            freed_bytes = self._reserve.free_bytes() + log_bytes - self._grown_bytes()
            if not self._reserve.is_there or freed_bytes < RESERVE_BYTES // 4:
                return False
        except (sqlite3.Error, OSError):
            return False
        self._reserve.give_up()
        is_done = self._fold()
        self._reserve.make()
        return is_done

    def _grown_bytes(self) -> int:
        """How much the file will grow when the log is folded back."""
        file_bytes = self._system.size_bytes(self._file) or 0
        return self._number("page_count") * self._number("page_size") - file_bytes

    def _gives_back(self, pages: int, *, above: int) -> bool:
        """Return some free pages to the file system; return whether there were enough to do so."""
        try:
            if self._number("freelist_count") <= max(above, self._number("page_count") // 4 if above else 0):
                return False
            # Each step of the statement frees one page, and ``execute`` takes only one step.
            self._connection.executescript(f"PRAGMA incremental_vacuum({pages})")
        except sqlite3.Error as error:
            _log.warning("the store %s could not be made smaller: %s", self._path, error)
            return False
        return True

    def _number(self, pragma: str) -> int:
        (value,) = self._connection.execute(f"PRAGMA {pragma}").fetchone()
        return int(value)


def _no_room() -> OSError:
    reason = f"the disk is full, but for what makes room: rows need some {_NEEDED_MIB} MiB of space"
    return OSError(errno.ENOSPC, reason)


def _may_be_full(error: Exception) -> bool:
    """Is the disk full, or a quota used up, which SQLite reports as a disk error?"""
    if isinstance(error, OSError):
        return error.errno == errno.ENOSPC
    codes = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", None) in codes
