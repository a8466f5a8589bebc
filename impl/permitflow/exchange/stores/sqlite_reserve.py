"""Disk space that is set apart for acknowledgements: on a full disk they must be written, since they make room."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

__all__ = ["RESERVE_BYTES", "RESERVE_NAME", "Reserve"]

RESERVE_NAME = "permitflow.reserve"

# Half of it is for the file, which grows when the log is folded back; the other half is for the log, to which an
# acknowledgement adds some eight pages of 16 KiB.
RESERVE_BYTES = 4 << 20


class Reserve:
    """A file that takes space, and is removed when the space is needed.  For the one thread that writes."""

    def __init__(self, log: Path) -> None:
        """Set space apart, if there is some, where the log of the store lies."""
        self._path = log.with_name(RESERVE_NAME)
        self.is_there = self._path.exists() and self._path.stat().st_size == RESERVE_BYTES
        self.make()

    def make(self) -> bool:
        """Set space apart, unless it is already; is it?  Some must stay free, or the next commit would need it."""
        if not self.is_there and self.free_bytes() >= RESERVE_BYTES * 5 // 4:
            try:
                # Random, as some file systems compress what they store.
                self._path.write_bytes(os.urandom(1 << 20) * (RESERVE_BYTES >> 20))
                self.is_there = True
            except OSError:
                self.give_up()
        return self.is_there

    def give_up(self) -> bool:
        """Let the space be used; was there some?"""
        was_there, self.is_there = self.is_there, False
        with suppress(OSError):
            self._path.unlink()
        return was_there

    def free_bytes(self) -> int:
        """What the file system has left for this process; 0: nothing is known of it."""
        try:
            return shutil.disk_usage(self._path.parent).free
        except OSError:
            return 0
