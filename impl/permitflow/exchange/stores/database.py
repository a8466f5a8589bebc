"""The database of a durable store: its tables, and the one thread that accesses it.

The event loop never waits for the database: it submits jobs.  The thread commits all waiting jobs as one transaction,
so that many channels share the cost of one flush.  A job is done once it is on disk.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from permitflow.errors import StoreWriteError
from permitflow.exchange.stores.system import Writer

T = TypeVar("T")

_log = logging.getLogger(__name__)

TABLES_VERSION = 6
"""The version of the tables; it changes if an older release could not read them.  No release has written 1 to 5."""

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS channels (
        id {identity},
        name TEXT NOT NULL UNIQUE,
        log_id TEXT NOT NULL,                -- the log in which its rows are counted
        flow TEXT NOT NULL,                  -- its name
        parameters TEXT NOT NULL,            -- of the flow, as JSON
        next_row {integer} NOT NULL,
        expired_row {integer} NOT NULL,      -- all rows before it are gone, though a consumer may need them
        state TEXT NOT NULL,                 -- open, ended, broken
        reason TEXT NOT NULL                 -- why it is broken
    ) {table}
    """,
    """
    CREATE TABLE IF NOT EXISTS schemas (
        channel {integer} NOT NULL,
        number {integer} NOT NULL,           -- 0 for that of the first producer, and so on
        arrow {bytes} NOT NULL,              -- Arrow IPC
        PRIMARY KEY (channel, number)
    ) {keyed_table}
    """,
    """
    CREATE TABLE IF NOT EXISTS consumers (
        channel {integer} NOT NULL,
        name TEXT NOT NULL,
        acknowledged_row {integer} NOT NULL, -- it needs none before this one
        PRIMARY KEY (channel, name)
    ) {keyed_table}
    """,
    """
    CREATE TABLE IF NOT EXISTS producers (
        channel {integer} NOT NULL,
        name TEXT NOT NULL,
        rows {integer} NOT NULL,             -- of it that were ever taken over
        PRIMARY KEY (channel, name)
    ) {keyed_table}
    """,
    """
    CREATE TABLE IF NOT EXISTS batches (
        id {identity},
        schema {integer} NOT NULL,           -- its number among those of the channel
        arrow {bytes} NOT NULL,              -- Arrow IPC, without the schema
        checksum {integer} NOT NULL          -- CRC-32 of it
    ) {table}
    """,
    """
    CREATE TABLE IF NOT EXISTS kept (
        channel {integer} NOT NULL,
        first_row {integer} NOT NULL,
        rows {integer} NOT NULL,
        batch {integer} NOT NULL,
        taken_at {integer} NOT NULL,         -- when the channel took it over, in microseconds since 1970
        PRIMARY KEY (channel, first_row)
    ) {keyed_table}
    """,
    """
    CREATE TABLE IF NOT EXISTS barriers (
        channel {integer} NOT NULL,
        number {integer} NOT NULL,
        row {integer} NOT NULL,              -- it stands before this one
        PRIMARY KEY (channel, number)
    ) {keyed_table}
    """,
    # In the order of their beginnings.
    """
    CREATE TABLE IF NOT EXISTS parts (
        id {identity},
        channel {integer} NOT NULL,
        query TEXT NOT NULL,
        batch {integer} NOT NULL,
        partition {integer} NOT NULL,
        attempt TEXT NOT NULL,
        is_prepared {integer} NOT NULL       -- 1: it does not expire; 0: it may
    ) {table}
    """,
    "CREATE INDEX IF NOT EXISTS parts_by_key ON parts (channel, query, batch, partition, attempt)",
    """
    CREATE TABLE IF NOT EXISTS staged (
        part {integer} NOT NULL,
        position {integer} NOT NULL,
        rows {integer} NOT NULL,
        batch {integer} NOT NULL,
        PRIMARY KEY (part, position)
    ) {keyed_table}
    """,
    """
    CREATE TABLE IF NOT EXISTS published (
        query TEXT PRIMARY KEY,
        batch {integer} NOT NULL             -- the last one
    ) {keyed_table}
    """,
    """
    CREATE TABLE IF NOT EXISTS publishing (
        turn {identity},                     -- the largest belongs to the last publisher
        query TEXT NOT NULL UNIQUE
    ) {table}
    """,
)
"""In the SQL of each database: the types in braces are its own.  Not enforced, but checked when a store is opened:
``channel`` refers to ``channels``, ``batch`` of ``kept`` and ``staged`` to ``batches``, ``part`` to ``parts``."""


def wrong_version(version: int, advice: str) -> str:
    """Why tables of this version cannot be used; empty if they can."""
    if version > TABLES_VERSION:
        return f"a newer release wrote it (tables of version {version}, this one knows {TABLES_VERSION}); update"
    if version < TABLES_VERSION:
        return f"it is damaged, or from before the first release (tables of version {version}); {advice}"
    return ""


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""

    def fetchone(self) -> Any:
        """The next row, as a tuple; None: there is none."""

    def fetchall(self) -> list[Any]:
        """All further rows."""

    def __iter__(self) -> Iterator[Any]: ...


class DatabaseConnection(Protocol):
    """Runs statements of SQL within a transaction; a question mark stands for each value."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Rows:
        """Run a statement."""

    def executemany(self, statement: str, values: Iterable[Sequence[Any]], /) -> object:
        """Run a statement once for each of these."""


Load: TypeAlias = Callable[[DatabaseConnection], T]
"""Reads all that a database has; raises ``ValueError`` where that is damaged."""


Check: TypeAlias = Callable[[], None]
"""Raises if what a job has written is wrong."""


@dataclass(slots=True)
class Job:
    """A part of a transaction."""

    do: Callable[[Any], object]
    answer: "asyncio.Future[Any] | Future[Any]"
    makes_room: bool
    is_urgent: bool = False
    """An event loop stands still until it is done."""
    value: Any = None
    error: BaseException | None = None


class Database(ABC):
    """Runs jobs in the order of their submission, many in one transaction.  For one event loop."""

    _ERRORS: ClassVar[tuple[type[Exception], ...]]
    """The database's own: senders get ``StoreWriteError`` for them."""

    def __init__(self, path: str) -> None:
        """Begin without a thread; ``_writer`` is for the subclass to set.

        Args:
            path: of the store, for messages.
        """
        self._path = path
        self._is_closed = self._is_failing = False
        self.commits = 0
        """The number of transactions so far; concurrent jobs share one."""
        self._writer: Writer[Job]

    def submit(self, do: Callable[[Any], T], *, makes_room: bool = False) -> "asyncio.Future[T]":
        """Submit a job; its result arrives once it is on disk.

        A caller that stops waiting does not stop the job.

        Args:
            do: reads and writes, in the database's thread, within a transaction that it must not end; it gets the
                connection.  It is called once more if the first transaction had to be undone, so it must leave no
                traces anywhere else.  If it returns a ``Check``, that is called before the commit: a count of changed
                rows may be known only then.
            makes_room: it deletes rows, or lets others do so: on a full disk it may use the reserve.

        Raises:
            StoreWriteError: later, by the answer: it could not be done, and nothing of it was.
            RuntimeError: the database is closed.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(Job(do, answer, makes_room))
        return answer

    def done(self, do: Callable[[Any], T]) -> T:
        """Submit a job, and wait for it without an event loop; see ``submit``."""
        answer: Future[T] = Future()
        self._put(Job(do, answer, makes_room=False, is_urgent=True))
        return self._writer.result(answer)

    @property
    def is_closed(self) -> bool:
        """Does it take no more jobs?"""
        return self._is_closed

    def _put(self, job: Job) -> None:
        if self._is_closed:
            raise RuntimeError(f"the store {self._path} is closed")
        self._writer.put(job)

    def close(self) -> None:
        """Run the submitted jobs, then let go of the database.  Closing twice is harmless."""
        if not self._is_closed:
            self._is_closed = True
            self._writer.close()

    # The methods below run in the thread.

    @abstractmethod
    def _run(self, jobs: Sequence[Job]) -> None:
        """Run these jobs, and answer them."""

    @staticmethod
    def _check(jobs: Sequence[Job]) -> None:
        """Check what these jobs have written, at the end of their transaction."""
        for job in jobs:
            if callable(job.value):
                job.value()
                job.value = None

    def _refuse(self, jobs: Sequence[Job], error: Exception) -> None:
        for job in jobs:
            job.error = self._told(error)

    def _told(self, error: Exception) -> Exception:
        if not isinstance(error, self._ERRORS):
            return error
        reason = self._reason(error)
        if not self._is_failing:
            # Producers try again and again; one message is enough for the operator.
            self._is_failing = True
            _log.error("the store %s cannot be written: %s", self._path, reason)
        told = StoreWriteError(path=self._path, reason=reason)
        told.__cause__ = error
        return told

    def _reason(self, error: Exception) -> str:
        return getattr(error, "strerror", None) or str(error)

    def _works(self) -> None:
        """Note that a transaction was done."""
        if self._is_failing:
            self._is_failing = False
            _log.warning("the store %s can be written again", self._path)

    @staticmethod
    def _answer(jobs: Sequence[Job]) -> None:
        _tell([job for job in jobs if isinstance(job.answer, Future)])
        loops = {job.answer.get_loop() for job in jobs if isinstance(job.answer, asyncio.Future)}
        for loop in loops:  # one at most
            with suppress(RuntimeError):  # the loop is closed: no caller waits any more
                loop.call_soon_threadsafe(_tell, [job for job in jobs if isinstance(job.answer, asyncio.Future)])


def _tell(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.answer.done():
            continue  # the caller has stopped waiting
        if job.error is None:
            job.answer.set_result(job.value)
        else:
            job.answer.set_exception(job.error)
