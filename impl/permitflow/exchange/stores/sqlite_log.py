"""The write-ahead log beside a store's file: the newest commits are there and nowhere else.

SQLite opens a file whose log is gone without a word, as it was when the log was last folded back into it.  So the file
itself says that it needs its log, from before the first commit to the log until all of it is in the file again.  The
log says otherwise, with its first commit: whoever folds it back, be it another program, makes a file that is complete.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from permitflow.exchange.stores.sqlite_tables import TABLES_VERSION

__all__ = ["LOG_BYTES", "NEEDS_LOG_VERSION", "PAGE_BYTES", "WriteAheadLog", "log_of"]

# Chunks are tens of kilobytes: with SQLite's 4 KiB pages, writing them takes up to three times as long.
PAGE_BYTES = 16 << 10
LOG_BYTES = 32 << 20
"""The log is folded back into the file once it is this long, and cut off if it was longer."""

NEEDS_LOG_VERSION = TABLES_VERSION + 1
"""The same tables, whose newest rows are in the log; a release that knows no such mark takes it for a newer one's."""

# https://www.sqlite.org/fileformat2.html#walformat: where the log and each page in it say to which round they belong.
_HEADER_BYTES, _HEADER_SALTS = 32, 16
_FRAME_BYTES, _FRAME_SALTS = 24 + PAGE_BYTES, 8
_SALTS_BYTES = 8


def log_of(path: Path) -> Path:
    """Where SQLite has the log of this file."""
    return path.with_name(f"{path.name}-wal")


class WriteAheadLog:
    """Has the log folded back, and the file marked.  For the one thread that uses the connection."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Take over an open file, in autocommit mode, which SQLite does not fold back by itself."""
        self._connection = connection
        self._path = log_of(path)
        self._file: BinaryIO | None = None

    def begin(self) -> None:
        """To be called before each transaction.

        Raises:
            sqlite3.Error: the file cannot be marked, so nothing may be written.
        """
        if self._file is None:
            self.fold()

    def fold(self) -> None:
        """Fold the log back, and begin a new one.

        Raises:
            sqlite3.Error: that is not possible now.  The log goes on, and still has everything.
        """
        # In this order: what is in the file never says more than what is complete there.
        self._mark(NEEDS_LOG_VERSION)
        ((_, pages, folded),) = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        if folded != pages:
            raise sqlite3.OperationalError(f"{pages - folded} pages of its log cannot be folded back")
        if self._file is None:
            self._file = self._opened()
        self._mark(TABLES_VERSION)

    def fold_if_long(self) -> None:
        """To be called after each transaction; see ``fold``."""
        if self._is_long():
            self.fold()

    def close(self) -> None:
        """Fold the log back, remove it, and close the connection."""
        if self._file is not None:
            # Where that is not possible, SQLite keeps the log.
            with suppress(sqlite3.Error):
                self.fold()
            self._file.close()
        self._connection.close()

    def _mark(self, version: int) -> None:
        """A transaction by itself, flushed as any other."""
        self._connection.execute(f"PRAGMA user_version={version}")

    def _opened(self) -> BinaryIO:
        try:
            return self._path.open("rb", buffering=0)
        except OSError as error:
            raise sqlite3.OperationalError(f"its log cannot be read: {error.strerror}") from error

    def _is_long(self) -> bool:
        """Does the last page for which it has room belong to this round?  Pages are written one after the other."""
        if self._file is None:
            return False
        last = _HEADER_BYTES + (LOG_BYTES // PAGE_BYTES - 1) * _FRAME_BYTES
        return self._salts_at(_HEADER_SALTS) == self._salts_at(last + _FRAME_SALTS)

    def _salts_at(self, position: int) -> bytes:
        assert self._file is not None, "it has begun"
        self._file.seek(position, os.SEEK_SET)
        return self._file.read(_SALTS_BYTES)
