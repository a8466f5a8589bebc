"""The real store on a machine whose writer stands still before and behind each flush that counts.

A thread writes; the test that goes on meanwhile may kill it, or do something to the disk.
"""

import errno
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from random import Random
from typing import Final, Literal, TypeAlias, TypeVar

from permitflow.exchange.stores.database import Job
from permitflow.exchange.stores.sqlite_journal import JOURNAL_NAME
from permitflow.exchange.stores.system import Writer
from tests.simulator.disk import Crashed, File, SimulatedDisk
from tests.simulator.stores import SimulatedSystem

T = TypeVar("T")
J = TypeVar("J")

Point: TypeAlias = Literal["opening", "written", "flushed", "noted", "sure"]
"""Where the writer stands still: when it has read what is there, before it flushes a log to which it has written,
before it writes the journal, before it flushes that, and behind that."""

# The most that is written to a log but pages.
_HEADER_BYTES: Final = 32
_LIMIT_SECONDS: Final = 20


class Steps:
    """Something that runs in a thread, and stands still where it is told to."""

    def __init__(self, run: Callable[[], object]) -> None:
        """It begins with the first ``until``."""
        self._run = run
        self._awaited: Sequence[Point] = ()
        self._goes, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._is_over = False
        self._at: Point | None = None
        self.error: BaseException | None = None

    def _work(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error
        self._at, self._is_over = None, True
        self._stands.release()

    def until(self, *points: Point) -> Point | None:
        """Let it go on to one of these points, and return which; None: it has ended."""
        if not self._is_over:
            self._awaited = points
            if self._thread.ident is None:
                self._thread.start()
            else:
                self._goes.release()
            assert self._stands.acquire(timeout=_LIMIT_SECONDS), f"the writer has not come to {points or 'its end'}"
        return self._at

    def reach(self, point: Point) -> None:
        """It is there; for its own thread."""
        if threading.current_thread() is self._thread and point in self._awaited:
            self._at = point
            self._stands.release()
            self._goes.acquire()


class SteppedDisk(SimulatedDisk):
    """One on which the writer's steps can be told apart."""

    def __init__(self) -> None:
        """Empty, and nobody writes on it."""
        super().__init__(Random(0))
        self.steps: Steps | None = None
        self.has_room = True
        """For the log?"""

    def write(self, file: File, at: int, data: bytes) -> None:
        """See ``SimulatedDisk``."""
        if _is_journal(file):
            self._reach("flushed")
        elif not self.has_room and file.name.endswith("-wal") and len(data) > _HEADER_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(file, at, data)

    def flush(self, file: File) -> None:
        """See ``SimulatedDisk``."""
        # SQLite flushes the beginning of a log before it writes the first commit.
        if file.name.endswith("-wal") and any(len(data or b"") > _HEADER_BYTES for _, data in file.written):
            self._reach("written")
        elif _is_journal(file):
            self._reach("noted")
        super().flush(file)
        if _is_journal(file):
            self._reach("sure")

    def _reach(self, point: Point) -> None:
        if self.steps is not None:
            self.steps.reach(point)
        if self.is_dead:
            raise Crashed


def _is_journal(file: File) -> bool:
    return JOURNAL_NAME in file.name


class SteppedWriter(Writer[J]):
    """Its turn comes when the model says so."""

    def __init__(self, run: Callable[[list[J]], object], finish: Callable[[], object]) -> None:
        """Without jobs."""
        self._run, self._finish = run, finish
        self.jobs: list[J] = []

    def put(self, job: J) -> None:
        """See ``Writer``."""
        self.jobs.append(job)

    def result(self, answer: Future[T]) -> T:
        """Nobody waits for an answer: it is looked at later."""
        return answer  # type: ignore[return-value]

    def is_idle(self) -> bool:
        """See ``Writer``."""
        return not self.jobs

    def take(self) -> None:
        """Run all that wait."""
        jobs, self.jobs = self.jobs, []
        self._run(jobs)

    def close(self) -> None:
        """See ``Writer``."""
        assert not self.jobs
        self._finish()

    def let_go(self) -> None:
        """Close the files of a dead process."""
        with suppress(Crashed):
            self._finish()


class SteppedSystem(SimulatedSystem):
    """A machine with one disk and such a writer."""

    def begin_writing(self, run: Callable[[list[J]], object], finish: Callable[[], object], *, name: str) -> Writer[J]:
        """See ``System``."""
        writer = SteppedWriter(run, finish)
        self.writers.append(writer)  # type: ignore[arg-type]  # it lets go in the same way
        return writer

    @property
    def writer(self) -> SteppedWriter[Job] | None:
        """That of the process, once the store is open."""
        return self.writers[0] if self.writers else None  # type: ignore[return-value]  # likewise
