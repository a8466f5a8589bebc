"""A mark in the file of a store: the newest commits are in its log, and nowhere else.

SQLite opens a file whose log is gone without a word, as it was when the log was last folded back into it.  So the file
says that there is more, and in such a way that a complete one never says so, whatever happens on the way:

1. A commit that writes the first page again, unmarked, is flushed to the log.
2. Then the first page is marked, in the file itself.
3. Whoever folds the log back, be it SQLite while it closes, or another program, writes the first page unmarked: it does
   so, and flushes it, before the log is begun again or removed.

With its log a marked file reads as an unmarked one, since pages of the log count.  So SQLite sees the mark only where a
commit that was flushed is not to be found.  Nothing ever has to be taken back, so no full disk and no crash can leave a
mark behind.  That there is none proves nothing: to mark is tried, and no more.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from permitflow.exchange.stores.sqlite_tables import TABLES_VERSION

__all__ = ["CLOSING", "LogMark", "identity_of", "says_more_is_in_the_log"]

# https://www.sqlite.org/fileformat2.html#the_database_header
_VERSION_AT = 60
_PLAIN = TABLES_VERSION.to_bytes(4, "big")
# "Log" and the version of the tables: a release that does not know the mark takes it for that of a newer one's tables,
# and refuses them, too.
_MARK = b"Log" + TABLES_VERSION.to_bytes(1, "big")

CLOSING = threading.Lock()
"""To be held where a file is closed or opened: whoever closes it gives up all locks that his process has on it."""
if hasattr(os, "register_at_fork"):  # a child has none of the threads that could release it
    os.register_at_fork(before=CLOSING.acquire, after_in_parent=CLOSING.release, after_in_child=CLOSING.release)


def identity_of(path: Path) -> tuple[int, int] | None:
    """Which file is at this path; None: nothing can be said of it."""
    with suppress(OSError):
        return _identity(path.stat())
    return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def says_more_is_in_the_log(version: int) -> bool:
    """Is this ``user_version`` the mark?"""
    return version.to_bytes(4, "big", signed=True).startswith(b"Log")


class LogMark:
    """Marks a file.  For whoever has it locked, and the one thread that writes.

    Whatever cannot be done is left: a store without a mark is as good as ever.
    """

    def __init__(self, path: Path, identity: tuple[int, int] | None) -> None:
        """Open the file beside SQLite, which must have it open until ``close`` is called.

        Args:
            path: of the file.
            identity: of the file that SQLite has opened there; another one may have taken its place.
        """
        self._file: int | None = None
        if identity is None or not hasattr(os, "pwrite"):  # on Windows, SQLite's lock would keep this process out, too
            return
        with suppress(OSError):
            file = os.open(path, os.O_RDWR)
            if _identity(os.fstat(file)) == identity:
                self._file = file
            else:
                os.close(file)

    def is_due(self) -> bool:
        """Is the file unmarked, so that the next commit should be one of ``marking``?"""
        with suppress(OSError):
            return self._file is not None and os.pread(self._file, len(_PLAIN), _VERSION_AT) == _PLAIN
        return False

    @contextmanager
    def marking(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Commit in this block what was written before: then the file says that its log has more.

        Raises:
            sqlite3.Error: the log has no room for the first page; the transaction must be undone.
        """
        # As it is: with that, it is in the log.
        connection.execute(f"PRAGMA user_version={TABLES_VERSION}")
        # If the log is long by then, SQLite would fold it back at once; nothing in the file tells whether it did.
        (pages,) = connection.execute("PRAGMA wal_autocheckpoint").fetchone()
        connection.execute("PRAGMA wal_autocheckpoint=0")
        try:
            yield
            self._mark()
        finally:
            connection.execute(f"PRAGMA wal_autocheckpoint={pages}")

    def close(self) -> None:
        """Close the file: after SQLite has closed it, for this would take the lock from it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _mark(self) -> None:
        with suppress(OSError):
            if self._file is not None:
                os.pwrite(self._file, _MARK, _VERSION_AT)
