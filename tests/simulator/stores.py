"""The real store on a simulated disk, and its writing thread as something that happens now and then."""

import contextlib
import errno
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from random import Random
from sqlite3 import Connection
from typing import Generic, TypeVar

from permitflow.exchange import SqliteStore
from permitflow.exchange.stores.system import System, Writer
from tests.simulator import sqlite_files
from tests.simulator.disk import Crashed, File, SimulatedDisk

T = TypeVar("T")
J = TypeVar("J")

Later = Callable[[Callable[[], object]], object]
"""Lets something happen later."""


class SimulatedWriter(Generic[J]):
    """A thread whose turn it is when the simulation says so; it dies with the process."""

    def __init__(
        self, run: Callable[[list[J]], object], finish: Callable[[], object], disk: SimulatedDisk, later: Later
    ) -> None:
        """Without jobs."""
        self._do, self._finish, self._disk, self._later = run, finish, disk, later
        self._jobs: list[J] = []
        self._is_awaited = False

    def put(self, job: J) -> None:
        """See ``Writer``."""
        self._jobs.append(job)
        if not self._is_awaited:
            self._is_awaited = True
            self._later(self._take_turn)

    def _take_turn(self) -> None:
        self._is_awaited = False
        self._run()

    def _run(self) -> None:
        jobs = self._jobs[:]
        self._jobs.clear()
        if jobs and not self._disk.is_dead:
            with contextlib.suppress(Crashed):
                self._do(jobs)

    def result(self, answer: Future[T]) -> T:
        """See ``Writer``."""
        self._run()
        if not answer.done():
            raise Crashed
        return answer.result()

    def is_idle(self) -> bool:
        """See ``Writer``."""
        return not self._jobs

    def close(self) -> None:
        """See ``Writer``."""
        self._run()
        self.let_go()

    def let_go(self) -> None:
        """Close the files, of a dead process too; what it was to write is not written."""
        self._jobs.clear()
        with contextlib.suppress(Crashed):
            self._finish()


class SimulatedSystem(System):
    """A machine with one disk, as a store sees it."""

    def __init__(self, disk: SimulatedDisk, root: str, later: Later, *, log_bytes: int = System.log_bytes) -> None:
        """Mount the disk.

        Args:
            disk: has all files.
            root: the name of a folder, unique in this process.
            later: gives the writing thread its turn.
            log_bytes: see ``System``.
        """
        self.disk, self.root, self.log_bytes = disk, root, log_bytes
        self.writers: list[SimulatedWriter[object]] = []
        self._later = later
        self._connections: list[Connection] = []
        self._opened: dict[int, File] = {}
        sqlite_files.mount(root, disk)

    @property
    def folder(self) -> Path:
        """Of the store."""
        return Path("/", self.root, "store")

    def connect(self, path: Path) -> Connection:
        """See ``System``."""
        connection = sqlite_files.connect(str(path))
        self._connections.append(connection)
        return connection

    def begin_writing(self, run: Callable[[list[J]], object], finish: Callable[[], object], *, name: str) -> Writer[J]:
        """See ``System``."""
        writer = SimulatedWriter(run, finish, self.disk, self._later)
        self.writers.append(writer)  # type: ignore[arg-type]
        return writer

    def make_folder(self, path: Path) -> None:
        """Folders are there."""

    def may_write(self, path: Path) -> bool:
        """See ``System``."""
        return not self.disk.faults.is_read_only

    def resolved(self, path: Path) -> Path:
        """There are no links."""
        return path

    def size_bytes(self, path: Path) -> int | None:
        """See ``System``."""
        file = self.disk.find(str(path))
        return None if file is None else file.size_bytes

    def read(self, path: Path) -> bytes | None:
        """See ``System``."""
        file = self.disk.find(str(path))
        return None if file is None else bytes(file.content)

    def open(self, path: Path, *, is_new: bool = False) -> int:
        """See ``System``."""
        file = self.disk.make(str(path)) if is_new else self._find(path)
        number = max(self._opened, default=2) + 1
        self._opened[number] = file
        return number

    def write(self, file: int, at_byte: int, content: bytes) -> None:
        """See ``System``."""
        self.disk.write(self._opened[file], at_byte, content)

    def flush(self, file: int) -> None:
        """See ``System``."""
        self.disk.flush(self._opened[file])

    def close(self, file: int) -> None:
        """See ``System``."""
        del self._opened[file]

    def fill(self, path: Path, size_bytes: int) -> None:
        """See ``System``."""
        self.disk.fill(str(path), size_bytes)

    def replace(self, old: Path, new: Path) -> None:
        """See ``System``."""
        self.disk.rename(str(old), str(new))

    def link(self, path: Path, other: Path) -> None:
        """See ``System``."""
        self.disk.name(str(other), self._find(path))

    def remove(self, path: Path) -> None:
        """See ``System``."""
        if self.disk.find(str(path)) is not None:
            self.disk.remove(str(path))

    def flush_folder(self, path: Path) -> None:
        """See ``System``."""
        self.disk.flush_names()

    def free_bytes(self, folder: Path) -> int:
        """See ``System``."""
        return self.disk.free_bytes()

    def _find(self, path: Path) -> File:
        file = self.disk.find(str(path))
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return file

    def go_on(self, *, had_power: bool) -> None:
        """Let go of what a dead process held, and start the machine again."""
        self._let_go()
        self.disk.go_on(had_power=had_power)

    def unmount(self) -> None:
        """Let go of everything."""
        self._let_go()
        sqlite_files.unmount(self.root)

    def _let_go(self) -> None:
        for writer in self.writers:
            writer.let_go()
        for connection in self._connections:
            connection.close()
        self.writers.clear()
        self._connections.clear()
        self._opened.clear()


@lru_cache(1)
def new_store() -> SimulatedDisk:
    """A disk with a new store."""
    disk = SimulatedDisk(Random(0))
    system = SimulatedSystem(disk, "new", lambda _: None)
    SqliteStore(system.folder, system).close()
    disk.flush_names()
    system.unmount()
    return disk
