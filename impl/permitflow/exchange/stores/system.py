"""What a store on disk uses of the operating system: files, and one thread.  A simulation may take its place."""

import os
import queue
import shutil
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
J = TypeVar("J")
J_contra = TypeVar("J_contra", contravariant=True)

# The most jobs at once: the first one must not wait too long for the last.
_JOBS_AT_ONCE = 512

_JOIN_SECONDS = 60.0


class Writer(Protocol[J_contra]):
    """Runs jobs in the order of their submission, all that wait at once."""

    def put(self, job: J_contra, /) -> None:
        """Submit a job.  For any thread."""

    def result(self, answer: Future[T], /) -> T:
        """Wait for a job's answer."""

    def is_idle(self) -> bool:
        """Does no job wait?  Asked while others run."""

    def close(self) -> None:
        """Run the submitted jobs, and wait for their end."""


class WritingThread(Generic[J]):
    """A writer in a thread of its own."""

    def __init__(
        self,
        run: Callable[[list[J]], object],
        finish: Callable[[], object],
        name: str,
        beat_seconds: float | None = None,
    ) -> None:
        """Begin to wait for jobs; see ``System.begin_writing``.

        ``beat_seconds``: after so long without a job, run none; None: never.
        """
        self._do, self._finish, self._beat_seconds = run, finish, beat_seconds
        self._jobs: queue.SimpleQueue[J | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, job: J) -> None:
        """Submit a job."""
        self._jobs.put(job)

    def result(self, answer: Future[T]) -> T:
        """Wait for a job's answer."""
        return answer.result()

    def is_idle(self) -> bool:
        """Does no job wait?"""
        return self._jobs.empty()

    def close(self) -> None:
        """Run the submitted jobs, and wait for their end."""
        self._jobs.put(None)
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while (jobs := self._next()) is not None:
                self._do(jobs)
        finally:
            self._finish()

    def _next(self) -> list[J] | None:
        """Wait for a job, and return all waiting ones.  Empty: none has come for a beat; None: the end."""
        jobs: list[J] = []
        try:
            job = self._jobs.get(timeout=self._beat_seconds)
        except queue.Empty:
            return jobs
        while job is not None:
            jobs.append(job)
            if len(jobs) == _JOBS_AT_ONCE or self._jobs.empty():
                return jobs
            job = self._jobs.get()
        if not jobs:
            return None
        self._jobs.put(None)
        return jobs


class System:
    """The operating system of this machine.  Methods raise ``OSError`` unless another error is named."""

    log_bytes = 32 << 20
    """A database's log is folded back into it at this length, and truncated if it was longer."""

    def connect(self, path: Path) -> sqlite3.Connection:
        """Open a database, or make an empty one, for any thread; transactions begin and end by statements.

        Raises:
            sqlite3.Error: SQLite cannot open it.
        """
        return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)

    def begin_writing(
        self, run: Callable[[list[J]], object], finish: Callable[[], object], *, name: str
    ) -> "Writer[J]":
        """Begin to run jobs beside the event loop.

        Args:
            run: runs some jobs; called for one list at a time.
            finish: called once, after the last job.
            name: of the thread.
        """
        return WritingThread(run, finish, name)

    def make_folder(self, path: Path) -> None:
        """Make a folder for this user only, unless it is there."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def may_write(self, path: Path) -> bool:
        """May this process write to a file, or into a folder?"""
        return os.access(path, os.W_OK)

    def resolved(self, path: Path) -> Path:
        """The path of a file that may be behind links."""
        return path.resolve()

    def size_bytes(self, path: Path) -> int | None:
        """The size of a file; None: it is not there."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def read(self, path: Path) -> bytes | None:
        """The contents of a file; None: it is not there."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def open(self, path: Path, *, is_new: bool = False) -> int:
        """Open a file for ``write``, or make an empty one; return its number."""
        flags = os.O_RDWR | (os.O_CREAT | os.O_TRUNC if is_new else 0)
        return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666)

    def write(self, file: int, at_byte: int, content: bytes) -> None:
        """Write to an open file."""
        os.lseek(file, at_byte, os.SEEK_SET)
        if (written := os.write(file, content)) != len(content):
            raise OSError(f"{written} of {len(content)} bytes were written")

    def flush(self, file: int) -> None:
        """Let the contents of an open file survive a crash of the machine, and its size if that has grown."""
        getattr(os, "fdatasync", os.fsync)(file)

    def close(self, file: int) -> None:
        """Close an open file."""
        os.close(file)

    def fill(self, path: Path, size_bytes: int) -> None:
        """Make a file that takes this many bytes of the disk, which is a multiple of a MiB."""
        # Random, as some file systems compress what they store.
        path.write_bytes(os.urandom(1 << 20) * (size_bytes >> 20))

    def replace(self, old: Path, new: Path) -> None:
        """Rename a file; one that has the new name is gone."""
        old.replace(new)

    def link(self, path: Path, other: Path) -> None:
        """Give a file another name as well."""
        os.link(path, other)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def flush_folder(self, path: Path) -> None:
        """Let new names survive a crash of the machine, where a folder can be opened."""
        if hasattr(os, "O_DIRECTORY"):
            file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def free_bytes(self, folder: Path) -> int:
        """The free bytes for this process in the file system."""
        return shutil.disk_usage(folder).free
