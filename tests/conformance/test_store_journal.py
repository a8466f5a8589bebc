"""The model leads the writer of a real store through its state graph, on a simulated disk.

The writer stands still before and behind each flush that counts.  Meanwhile the model's actions are done to it: it is
killed, the machine loses power, a flush fails, nothing more can be written, somebody takes files away.  After each
action it is read from the disk which commits and which records of the journal are there, and which would be after a
power failure.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import cache, lru_cache, partial
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar, cast
from zlib import crc32

import pytest

from permitflow.errors import StoreUnusableError, StoreWriteError
from permitflow.exchange.stores.database import DatabaseConnection
from permitflow.exchange.stores.sqlite_database import FILE_NAME, SqliteDatabase, open_database
from permitflow.exchange.stores.sqlite_journal import JOURNAL_NAME
from permitflow.exchange.stores.system import Writer
from permitflow_model.store_journal import DAMAGED, SYSTEM, Parameters, Phase, Slots, State
from permitflow_testing.moves import Divergence, Lockstep, Walk, require, walk
from tests.simulator import sqlite_files
from tests.simulator.disk import SimulatedDisk
from tests.simulator.stepped import Point, SteppedDisk, SteppedSystem, Steps
from tests.simulator.stores import SimulatedSystem, new_store
from tests.support.replayed import Replayed

J = TypeVar("J")

SLOT_BYTES = 4 << 10
PAGE_BYTES = 16 << 10
DATABASE = (FILE_NAME, f"{FILE_NAME}-wal")
COMMITS = 3
NOTHING_FAILS = Parameters(commits=1, faults=0, losses=0)

_roots = count()


class Found(NamedTuple):
    """What a process would find that opens the store now."""

    log: int
    slots: Slots


@lru_cache(64)
def commits_in(*files: tuple[str, bytes]) -> int:
    """The number of the last commit in a database and its log, as SQLite finds it."""
    disk, root = SimulatedDisk(Random(0)), f"found{next(_roots)}"
    for name, content in files:
        disk.leave(f"/{root}/{name}", content)
    sqlite_files.mount(root, disk)
    with closing(sqlite_files.connect(f"/{root}/{FILE_NAME}")) as connection:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        number = _number(connection)
    sqlite_files.unmount(root)
    return number


def _number(connection: DatabaseConnection) -> int:
    (number,) = connection.execute("SELECT number FROM commits").fetchone()
    return int(number)


def _noted(slot: bytes) -> int:
    """The number of the commit in a slot of the journal."""
    checksum, body = slot[:4], slot[4:]
    return int(json.loads(body)[1]) if crc32(body) == int.from_bytes(checksum, "big") else DAMAGED


def found_on(disk: SimulatedDisk, system: SimulatedSystem, *, flushed: bool = False) -> Found:
    """What is there, or would be after a power failure."""
    contents = disk.contents(flushed=flushed)
    files = {name: contents.get(f"{system.folder}/{name}") for name in (*DATABASE, JOURNAL_NAME)}
    journal = files.pop(JOURNAL_NAME) or b""
    commits = commits_in(*((name, content) for name, content in files.items() if content is not None))
    return Found(commits, Slots(_noted(journal[:SLOT_BYTES]), _noted(journal[SLOT_BYTES:])))


def _commit(connection: DatabaseConnection) -> int:
    """Write something; the tables that are compared have the same after each commit of this number."""
    number = _number(connection) + 1
    connection.execute("INSERT INTO published VALUES (?, ?)", (f"query {number}", number))
    connection.execute("INSERT INTO batches VALUES (NULL, 0, ?, 0)", (os.urandom(PAGE_BYTES),))
    return number


@cache
def copies() -> tuple[Mapping[str, bytes], ...]:
    """The files of a store after each of its first commits, by their names."""
    found = []
    for number in range(COMMITS + 1):
        disk = SimulatedDisk(Random(0))
        system = SimulatedSystem(disk, f"copied{next(_roots)}", lambda do: do())
        disk.take_over(new_store(), system.root)
        database, _ = open_database(system.folder, _number, system)
        for _ in range(number):
            database.done(_commit)
        database.close()
        found.append({Path(name).name: content for name, content in disk.contents(flushed=True).items()})
        system.unmount()
    return tuple(found)


class DrivenStore:
    """A store on a disk, and the process that writes it, if there is one."""

    def __init__(self, parameters: Parameters, system: type[SteppedSystem] = SteppedSystem) -> None:
        """A new store, before it is opened for the first time."""
        self.parameters = parameters
        self.disk = SteppedDisk()
        self.system = system(self.disk, f"led{next(_roots)}", lambda _: None)
        self.disk.take_over(new_store(), self.system.root)
        self._folder = str(self.system.folder)
        self._seen_at, self._seen = -1, dict[bool, Found]()
        self.phase: Phase = "down"
        self.confirmed = self.faults = self.losses = 0
        self.steps = Steps(lambda: None)
        self.database: SqliteDatabase | None = None
        self.told = 0
        """The commits that those were told who asked what is there."""
        self.answers: Sequence[Future[int]] = []
        """Those to what the writer took last."""
        self.is_early = False
        """Does a sender wait until the store is opened?"""

    def begin(self) -> None:
        """Open it."""
        self._begin_to_open()
        for go_on in (self.settle_store, self.note_commit, self.flush_note, self.confirm_writes):
            go_on()

    # What is there.

    def _name(self, file: str) -> str:
        return f"{self._folder}/{file}"

    def _found(self, *, flushed: bool = False) -> Found:
        # Most moves that are tried are refused, and change nothing.
        if self._seen_at != self.disk.operations:
            self._seen_at, self._seen = self.disk.operations, {}
        if flushed not in self._seen:
            self._seen[flushed] = found_on(self.disk, self.system, flushed=flushed)
        return self._seen[flushed]

    @property
    def _waits(self) -> bool:
        return self.is_early or bool(self.system.writer and self.system.writer.jobs)

    def observe(self) -> State:
        found, kept = self._found(), self._found(flushed=True)
        return State(
            phase=self.phase,
            waits=self._waits,
            log=found.log,
            kept=kept.log,
            slots=found.slots,
            slots_kept=kept.slots,
            confirmed=self.confirmed,
            faults=self.faults,
            losses=self.losses,
        )

    # The process.

    def _is_in(self, *phases: Phase) -> bool:
        return self.phase in phases

    def _fail(self) -> None:
        require(self.faults < self.parameters.faults)
        self.faults += 1

    def _run(self, run: Callable[[], object]) -> None:
        self.disk.steps = self.steps = Steps(run)

    def _go_on_to(self, *points: Point) -> None:
        found = self.steps.until(*points)
        if found not in (points or (None,)):
            raise Divergence(f"it has ended before it was {', '.join(map(repr, points))}: {self.steps.error}")

    def _open(self) -> None:
        self.database, self.told = open_database(self.system.folder, self._load, self.system)

    def _load(self, connection: DatabaseConnection) -> int:
        self.steps.reach("opening")
        return _number(connection)

    def _begin_to_open(self) -> None:
        self._run(self._open)
        self._go_on_to("opening")
        self.phase = "opening"

    def _opens(self) -> bool:
        """Would the store open?  It is tried with a copy of what is there."""
        copied = SimulatedDisk(Random(0))
        system = SimulatedSystem(copied, f"tried{next(_roots)}", lambda do: do())
        copied.take_over(self.disk, system.root)
        try:
            open_database(system.folder, _number, system)[0].close()
        except StoreUnusableError:
            assert found_on(copied, system) == self._found(), "a store that is refused stays as it is"
            return False
        finally:
            system.unmount()
        return True

    def _end(self, *, dies: bool = True) -> None:
        """The process ends; a machine that goes on keeps what it has written."""
        if dies:
            self.disk.crash()
            self.steps.until()
        self.system.go_on(had_power=True)
        self.phase, self.is_early, self.database, self.answers = "down", False, None, []

    def _write(self) -> None:
        """Let the writer take what waits."""
        assert self.system.writer is not None
        self.answers = [cast("Future[int]", job.answer) for job in self.system.writer.jobs]
        self._run(self.system.writer.take)

    def _are_refused(self) -> None:
        """It has ended, and the senders of what it took know."""
        self._go_on_to()
        for answer in self.answers:
            assert isinstance(answer.exception(), StoreWriteError), "the senders are not told that it failed"

    def end(self) -> None:
        """Let go of everything."""
        self.disk.crash()
        self.steps.until()
        self.system.unmount()

    # Actions.

    def done(self) -> None:
        is_over = self._is_in("idle", "failed") and not self._waits and self._found().log == self.parameters.commits
        require(is_over or self._is_in("refused"))

    def submit(self) -> None:
        require(self._is_in("idle", "failed", "written", "flushed", "noted", "sure") and not self._waits)
        require(self._found().log < self.parameters.commits)
        if self.database is None:
            self.is_early = True
        else:
            self.database.done(_commit)

    def fail_flush(self) -> None:
        require(self._is_in("written"))
        self._fail()
        self.disk.faults.failing_flushes = 1.0
        self._are_refused()
        self.disk.faults.failing_flushes = 0.0
        self.phase = "failed"

    def fail_journal(self) -> None:
        require(self._is_in("flushed", "noted"))
        self._fail()
        self.disk.faults.failing_writes = self.disk.faults.failing_flushes = 1.0
        if self.database is None:
            self._go_on_to()
            assert isinstance(self.steps.error, StoreUnusableError), "the store is opened, though its journal failed"
        else:
            self._are_refused()
            self._write()
            self._are_refused()
        self.disk.faults.failing_writes = self.disk.faults.failing_flushes = 0.0
        self.phase, self.is_early = "stopped", False

    def stop_store(self) -> None:
        require(self._is_in("stopped") or (self._is_in("idle", "failed") and not self._waits))
        if self.database is not None:
            self.database.close()
        self._end(dies=False)

    def kill_store(self) -> None:
        require(not self._is_in("down", "refused"))
        self._fail()
        self._end()

    def refuse_writes(self, commit: int) -> None:
        found = self._found()
        require(self._is_in("idle", "failed") and self._waits and max(found.slots) <= commit <= found.log)
        self._fail()
        # On a full disk the log is folded back, and with it goes what a failed flush has left; not on a read-only one.
        self.disk.faults.is_read_only = commit > max(found.slots)
        self.disk.has_room = False
        self._write()
        self._are_refused()
        self.disk.has_room, self.disk.faults.is_read_only = True, False
        if commit == max(found.slots):
            self.phase = "idle"

    def fail_power(self, commit: int, slot: int) -> None:
        found, kept = self._found(), self._found(flushed=True)
        require(not self._is_in("refused") and kept.log <= commit <= found.log)
        require(slot == 0 or found.slots != kept.slots)
        self._fail()
        left = self.disk.contents(flushed=commit == kept.log)
        journal = self.disk.contents(flushed=slot != 1)[self._name(JOURNAL_NAME)]
        if slot == 2:
            journal = _damaged(journal, is_even=found.slots.even != kept.slots.even)
        self._end(dies=not self._is_in("down"))
        for name in DATABASE:
            self.disk.leave(self._name(name), left.get(self._name(name)))
        self.disk.leave(self._name(JOURNAL_NAME), journal)

    def _lose(self) -> None:
        require(self._is_in("down") and self.losses < self.parameters.losses)
        self.losses += 1

    def lose_log(self, commit: int) -> None:
        require(self._is_in("down") and commit < self._found().log)
        self._lose()
        for name in DATABASE:
            self.disk.leave(self._name(name), copies()[commit].get(name))

    def damage_journal(self) -> None:
        slots = self._found().slots
        require(max(slots) != DAMAGED)
        self._lose()
        journal = self.disk.contents(flushed=False)[self._name(JOURNAL_NAME)]
        self.disk.leave(self._name(JOURNAL_NAME), _damaged(journal, is_even=slots.even > slots.odd))

    def write_commit(self) -> None:
        require(self._is_in("idle", "failed") and self._waits)
        self._write()
        self._go_on_to("written")
        self.phase = "written"

    def flush_commit(self) -> None:
        require(self._is_in("written"))
        self._go_on_to("flushed")
        self.phase = "flushed"

    def note_commit(self) -> None:
        require(self._is_in("flushed"))
        self._go_on_to("noted")
        self.phase = "noted"

    def flush_note(self) -> None:
        require(self._is_in("noted"))
        self._go_on_to("sure")
        self.phase = "sure"

    def confirm_writes(self) -> None:
        require(self._is_in("sure"))
        assert not any(answer.done() for answer in self.answers), "somebody was told before the journal was flushed"
        self._go_on_to()
        assert self.database is not None
        self.confirmed = max([self.told, *(answer.result() for answer in self.answers)])
        if self.is_early:
            self.database.done(_commit)
        self.phase, self.is_early = "idle", False

    def open_store(self) -> None:
        require(self._is_in("down") and self._opens())
        self._begin_to_open()

    def settle_store(self) -> None:
        require(self._is_in("opening"))
        self._go_on_to("flushed")
        self.phase = "flushed"

    def refuse_store(self) -> None:
        require(self._is_in("down") and not self._opens())
        self.phase = "refused"


def _damaged(journal: bytes, *, is_even: bool) -> bytes:
    slot = bytes(SLOT_BYTES)
    return slot + journal[SLOT_BYTES:] if is_even else journal[:SLOT_BYTES] + slot


def walked(parameters: Parameters) -> Walk:
    return walk(SYSTEM, Replayed(partial(DrivenStore, parameters)), parameters)


@pytest.mark.parametrize(
    "parameters",
    [
        Parameters(commits=1, faults=1, losses=0),
        Parameters(commits=1, faults=0, losses=1),
        pytest.param(Parameters(commits=COMMITS, faults=2, losses=0), marks=pytest.mark.long),
        pytest.param(Parameters(commits=2, faults=1, losses=2), marks=pytest.mark.long),
    ],
    ids=["a fault", "a loss", "two faults", "a fault and two losses"],
)
def test_a_real_writer_takes_every_edge_of_the_model(parameters: Parameters) -> None:
    done = walked(parameters)
    assert min(done.states, done.edges, done.refusals) > 20


def _without_folding(action: int, first: str | None, *_: object) -> int:
    is_folding = (action, first) == (sqlite3.SQLITE_PRAGMA, "wal_checkpoint")
    return sqlite3.SQLITE_IGNORE if is_folding else sqlite3.SQLITE_OK


class Unsettled(SteppedSystem):
    """What a killed process has left is not written once more."""

    def connect(self, path: Path) -> sqlite3.Connection:
        """See ``System``."""
        connection = super().connect(path)
        connection.set_authorizer(_without_folding)
        return connection


class Unsynchronized(SteppedSystem):
    """SQLite flushes nothing at a commit."""

    connection: sqlite3.Connection

    def connect(self, path: Path) -> sqlite3.Connection:
        """See ``System``."""
        self.connection = super().connect(path)
        return self.connection

    def begin_writing(self, run: Callable[[list[J]], object], finish: Callable[[], object], *, name: str) -> Writer[J]:
        """See ``System``."""
        self.connection.execute("PRAGMA synchronous=OFF")
        return super().begin_writing(run, finish, name=name)


class Unflushed(SteppedSystem):
    """The journal is written, and not flushed."""

    def flush(self, file: int) -> None:
        """See ``System``."""


@pytest.mark.parametrize(
    ("system", "actions", "told"),
    [
        (Unflushed, (), "ended before it was 'noted'"),
        (Unsynchronized, ("Submit", "WriteCommit"), "ended before it was 'written'"),
        (
            Unsettled,
            ("Submit", "WriteCommit", "KillStore", "OpenStore", "SettleStore"),
            "after SettleStore.*\n  kept: expected 1, found 0",
        ),
    ],
    ids=["the journal", "a commit", "what it opens"],
)
def test_a_writer_that_flushes_less_is_noticed(system: type[SteppedSystem], actions: Sequence[str], told: str) -> None:
    with pytest.raises(Divergence, match=told):
        lead(system, actions)


def lead(system: type[SteppedSystem], actions: Sequence[str]) -> None:
    parameters = Parameters(commits=1, faults=2, losses=0)
    run = Lockstep(SYSTEM, Replayed(partial(DrivenStore, parameters, system)), parameters)
    for action in actions:
        run.do(action)


class Full(SteppedSystem):
    """When a killed process has left a log, the disk is full."""

    def connect(self, path: Path) -> sqlite3.Connection:
        """See ``System``."""
        if self.size_bytes(path.with_name(DATABASE[1])):
            self.disk.faults.capacity_bytes = self.disk.used_bytes()
        return super().connect(path)


def test_what_a_failed_flush_has_left_is_kept_on_a_full_disk() -> None:
    """A flush alone would write nothing: the kernel has told of the failure once."""
    lead(Full, ("Submit", "WriteCommit", "FailFlush", "KillStore", "OpenStore", "SettleStore", "NoteCommit"))
