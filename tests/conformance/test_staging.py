"""The model leads the books of staged rows through its state graph: which attempt counts, and what becomes of others.

Each exchange has books of its own.  Of driver and tasks there is what Spark and the sink would do; the sink itself is
led in test_staging_sink.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from permitflow.client import StagedPart, Staging
from permitflow.errors import PreparedRowsError, StagedPartError
from permitflow.exchange.books.replay import ReplayBooks
from permitflow.exchange.books.staging import Part, PartState, Publication, StagingArea, StagingBooks
from permitflow_model.kernel.family import Members
from permitflow_model.staging import NOT_BEGUN, SYSTEM, Attempt, Parameters, Phase, State, Task
from permitflow_testing.moves import ActionRefused, Divergence, require, walk
from tests.support.staged import publish

TWO_TASKS = Parameters(tasks=2, attempts=4, faults=1)
SMALL = Parameters(tasks=1, attempts=2, exchanges=2, faults=1, expires=True)
BATCHES = Parameters(tasks=1, attempts=4, batches=2, exchanges=2, faults=2)
SEVERAL = replace(TWO_TASKS, exchanges=2, expires=True)
EXPIRING = replace(TWO_TASKS, attempts=5, expires=True)

QUERY = "copy of orders"
TIMEOUT_SECONDS = 10.0


@dataclass
class Named:
    """What is named of a task."""

    chosen: int = 0
    decided: int = 0
    late: int = 0


@dataclass
class Running:
    """An attempt at a task: its part is what the exchange knows of it."""

    task: int
    batch: int
    run: int
    part: Part | None = None
    is_lost: bool = False

    @property
    def phase(self) -> str:
        if self.part is not None:
            return self.part.state.value
        return "forgotten" if self.is_lost else "started"


class DrivenStaging:
    """The books decide what is open, late, published or forgotten; each attempt stages one row."""

    def __init__(self, parameters: Parameters, books: type[StagingBooks] = StagingBooks) -> None:
        self.parameters = parameters
        self.books = [books(TIMEOUT_SECONDS) for _ in range(parameters.exchanges)]
        self.areas = [self.added(task) for task in range(1, parameters.tasks + 1)]
        self.phase: Phase = "running"
        self.run = self.batch = 1
        self.decided = self.late = self.faults = 0
        self.tasks = [Named() for _ in range(parameters.tasks)]
        self.attempts: list[Running] = []

    def home(self, task: int) -> StagingBooks:
        return self.books[(task - 1) % self.parameters.exchanges]

    def added(self, task: int) -> StagingArea:
        """Its channel keeps nothing by permits: all that is published takes room."""
        return self.home(task).add_channel(channel(task), self.parameters.attempts, ReplayBooks(limit_rows=0))

    def restart_exchanges(self) -> None:
        """Each starts again with what its store has."""
        before = self.books
        self.books = [StagingBooks(TIMEOUT_SECONDS) for _ in before]
        for books, old in zip(self.books, before, strict=True):
            books.restore(old.published_batches)
        self.areas = [self.added(task) for task in range(1, self.parameters.tasks + 1)]
        for name, one in enumerate(self.attempts):
            if one.phase in ("open", "ended", "prepared"):
                one.part = self.home(one.task).restore_part(
                    channel(one.task), self.key(name), [1], now=0.0, is_prepared=one.phase == "prepared"
                )

    def fail(self) -> None:
        require(self.faults < self.parameters.faults)
        self.faults += 1

    def started(self, name: int) -> Running:
        require(name < len(self.attempts))
        return self.attempts[name]

    def staged(self, name: int) -> Part:
        part = self.started(name).part
        require(part is not None)
        assert part is not None
        return part

    def stated(self, name: int) -> StagedPart:
        """As its message to the driver says."""
        return StagedPart(channel(self.attempts[name].task), self.attempts[name].task, f"attempt {name}", 1)

    def key(self, name: int) -> Staging:
        one = self.attempts[name]
        return Staging(QUERY, one.batch, one.task, f"attempt {name}")

    # What Spark and the sink would do.

    def is_alive(self, task: int) -> bool:
        place = (task, self.run, self.batch)
        return any((one.task, one.run, one.batch) == place for one in self.attempts if one.phase != "forgotten")

    def start(self, task: int) -> None:
        require(self.phase == "running" and self.batch <= self.parameters.batches)
        require(len(self.attempts) < self.parameters.attempts)
        self.attempts.append(Running(task, self.batch, self.run))

    def start_attempt(self, name: int) -> None:
        require(not self.is_alive(name + 1) and not self.tasks[name].chosen)
        self.start(name + 1)

    def speculate_attempt(self, name: int) -> None:
        require(self.is_alive(name + 1) and self.faults < self.parameters.faults)
        self.start(name + 1)
        self.fail()

    def hear_attempt(self, name: int) -> None:
        one, part = self.started(name), self.staged(name)
        require(self.phase == "running" and (one.run, one.batch) == (self.run, self.batch))
        require(part.state in (PartState.ENDED, PartState.LATE) and not self.tasks[one.task - 1].chosen)
        self.tasks[one.task - 1].chosen = name + 1

    def is_ready(self, task: Named) -> bool:
        one = self.attempts[task.chosen - 1]
        return self.home(one.task).was_published(QUERY, self.batch) or one.phase == "prepared"

    def decide_batch(self) -> None:
        require(self.phase == "running" and self.batch <= self.parameters.batches)
        require(all(task.chosen for task in self.tasks))
        require(self.parameters.exchanges == 1 or all(map(self.is_ready, self.tasks)))
        self.phase = "publishing"
        if self.parameters.exchanges > 1:
            self.decided = self.batch
            for task in self.tasks:
                task.decided = task.chosen

    def order(self) -> tuple[int, list[int]]:
        """The batch, and the attempt at each task."""
        if self.phase == "recovering":
            return self.decided, [task.decided for task in self.tasks]
        return self.batch, [task.chosen for task in self.tasks]

    def is_published(self, batch: int) -> bool:
        return all(books.was_published(QUERY, batch) for books in self.books)

    def forget_decision(self) -> None:
        require(self.phase in ("publishing", "recovering") and bool(self.decided) and self.is_published(self.decided))
        self.decided = 0
        for task in self.tasks:
            task.decided = 0
        if self.phase == "recovering":
            self.phase = "running"

    def finish_batch(self) -> None:
        require(self.phase == "publishing" and not self.decided and self.is_published(self.batch))
        self.batch += 1
        self.begin()

    def restart_driver(self) -> None:
        require(self.phase == "down")
        self.run += 1
        self.begin()

    def begin(self) -> None:
        self.phase = "recovering" if self.decided else "running"
        for task in self.tasks:
            task.chosen = 0

    def crash_driver(self) -> None:
        require(self.phase in ("running", "publishing", "recovering") and self.batch <= self.parameters.batches)
        self.fail()
        if self.phase != "running":
            self.late, named = self.order()
            for task, name in zip(self.tasks, named, strict=True):
                task.late = name
        self.phase = "down"

    def done(self) -> None:
        require(self.batch > self.parameters.batches)

    # What the books decide.

    def open_attempt(self, name: int) -> None:
        one = self.started(name)
        require(one.phase == "started")
        one.part = self.home(one.task).open(channel(one.task), self.key(name), now=0.0)
        assert self.home(one.task).stage(one.part, 1, now=0.0), "there is room, or it is late"

    def end_attempt(self, name: int) -> None:
        part = self.staged(name)
        require(part.state is not PartState.LATE)
        try:
            self.home(self.attempts[name].task).end(part, now=0.0)
        except StagedPartError as error:
            raise ActionRefused(str(error)) from error

    def lose_attempt(self, name: int) -> None:
        one = self.started(name)
        require(self.faults < self.parameters.faults and not one.is_lost)
        require(one.part is None or self.home(one.task).break_off(one.part, now=0.0))
        one.is_lost = True
        self.fail()

    def discard_attempt(self, name: int) -> None:
        one = self.started(name)
        require((one.run < self.run or self.phase == "down") and self.tasks[one.task - 1].decided != name + 1)
        require(bool(self.home(one.task).discard(QUERY, one.batch, [self.stated(name)], now=0.0)))

    def expire_attempts(self, name: int) -> None:
        require(self.parameters.expires and self.faults < self.parameters.faults)
        require(bool(self.books[name].expire(now=2 * TIMEOUT_SECONDS)))
        self.fail()

    def remove_channel(self, name: int) -> None:
        """A new one has its name at once, and goes on with its numbers."""
        books, area, task = self.home(name + 1), self.areas[name], name + 1
        require(self.parameters.expires and self.faults < self.parameters.faults and bool(area.parts))
        try:
            books.require_none_prepared(channel(task), "removed", now=0.0)
        except PreparedRowsError as error:
            raise ActionRefused(str(error)) from error
        books.remove_channel(channel(task), now=0.0)
        self.areas[name] = books.add_channel(channel(task), self.parameters.attempts, area.log)
        self.fail()

    def stated_at(self, name: int, named: Sequence[int]) -> list[StagedPart]:
        return [
            self.stated(attempt - 1) for task, attempt in enumerate(named, 1) if self.home(task) is self.books[name]
        ]

    def prepare_batch(self, name: int) -> None:
        require(self.phase == "running" and self.parameters.exchanges > 1 and all(task.chosen for task in self.tasks))
        own = [task for at, task in enumerate(self.tasks, 1) if self.home(at) is self.books[name]]
        require(not all(map(self.is_ready, own)))
        books = self.books[name]
        try:
            planned = books.planning(QUERY, self.batch, self.stated_at(name, [task.chosen for task in self.tasks]))
        except StagedPartError:
            self.phase = "down"
        else:
            books.prepare(planned, now=0.0)

    def publish_at(self, name: int, batch: int, named: Sequence[int]) -> Publication:
        return publish(self.books[name], QUERY, batch, self.stated_at(name, named), now=0.0)

    def publish_batch(self, name: int) -> None:
        require(self.phase in ("publishing", "recovering"))
        try:
            self.publish_at(name, *self.order())
        except StagedPartError:
            self.phase = "down"

    def publish_late_order(self, name: int) -> None:
        require(bool(self.late))
        try:
            publication = self.publish_at(name, self.late, [task.late for task in self.tasks])
        except StagedPartError as error:
            raise ActionRefused(str(error)) from error
        require(not publication.was_published)

    def observe(self) -> State:
        for task in range(1, self.parameters.tasks + 1):
            own = [one.phase for one in self.attempts if one.task == task]
            area = self.areas[task - 1]
            staged = own.count("open") + own.count("ended") + own.count("prepared")
            assert area.staged_rows == staged, "all else is given back"
            assert area.log.next_row == own.count("published")
        return State(
            phase=self.phase,
            run=self.run,
            batch=self.batch,
            begun=len(self.attempts),
            decided=self.decided,
            late=self.late,
            faults=self.faults,
            tasks=Members(
                Task(at % self.parameters.exchanges + 1, task.chosen, task.decided, task.late)
                for at, task in enumerate(self.tasks)
            ),
            attempts=Members(
                [
                    *(Attempt(one.task, one.batch, one.run, one.phase) for one in self.attempts),  # type: ignore[arg-type]
                    *[NOT_BEGUN] * (self.parameters.attempts - len(self.attempts)),
                ]
            ),
            published=Members(books.published_batches.get(QUERY, 0) for books in self.books),
        )


def channel(task: int) -> str:
    return f"orders/{task}"


def refuse(fresh: Callable[[], DrivenStaging], state: State) -> None:
    """No attempt begins twice, and nothing is published whose rows are not all there.  A restart changes no answer."""
    driven = fresh()
    for name, one in enumerate(driven.attempts):
        books = driven.home(one.task)
        if one.phase in ("open", "ended", "prepared"):
            with pytest.raises(StagedPartError, match="has begun before"):
                books.open(channel(one.task), driven.key(name), now=0.0)
            wrong = driven.stated(name) if one.phase == "open" else driven.stated(name)._replace(rows=2)
            with pytest.raises(StagedPartError):
                publish(books, QUERY, one.batch, [wrong], now=0.0)
    assert driven.observe() == state
    if driven.phase in ("publishing", "recovering"):
        again = fresh()
        again.restart_exchanges()
        for name in range(driven.parameters.exchanges):
            assert answer(again, name) == answer(driven, name)


def answer(driven: DrivenStaging, name: int) -> object:
    """What an exchange says to the driver's order."""
    try:
        publication = driven.publish_at(name, *driven.order())
    except StagedPartError as error:
        return str(error)
    return publication.was_published, [part.staging for part in publication.published]


WALKS = {"small": SMALL, "two tasks": TWO_TASKS, "several exchanges": SEVERAL, "batches": BATCHES, "expiring": EXPIRING}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "small" else pytest.mark.long) for name in WALKS]
)
def test_the_books_take_every_edge_of_the_model(name: str) -> None:
    parameters = WALKS[name]
    done = walk(SYSTEM, DrivenStaging(parameters), parameters, in_each_state=refuse)
    assert done.states >= 162
    assert min(done.edges, done.refusals) > done.states


class Hoarding(StagingBooks):
    """What is displaced stays."""

    def _drop(self, part: Part, state: PartState, reason: str, now: float) -> None:
        if state is not PartState.LATE:
            super()._drop(part, state, reason, now)


class Repeating(StagingBooks):
    """It does not look whether the batch was published."""

    def was_published(self, query: str, batch: int) -> bool:
        """Never."""
        return False


class Sweeping(StagingBooks):
    """An abort takes all of its batch."""

    def discard(self, query: str, batch: int, parts: Sequence[StagedPart], now: float) -> tuple[Part, ...]:
        """Whatever it names."""
        named = [StagedPart(part.channel, *part.staging[2:], part.rows) for part in self._of_query(query)]
        return super().discard(query, batch, named, now)


class Lenient(StagingBooks):
    """What is missing is left out."""

    def planning(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Publication:
        """Of those that are there."""
        there = [each for each in parts if (each.channel, Staging(query, batch, *each[1:3])) in self._parts]
        return super().planning(query, batch, there)


class Forgetful(StagingBooks):
    """What is prepared may expire."""

    def prepare(self, planned: Publication, now: float) -> None:
        """Nothing is noted."""


class Obedient(StagingBooks):
    """A channel may be removed at any time."""

    def require_none_prepared(self, channel: str, deed: str, now: float, alternative: str = "") -> None:
        """Nothing is refused."""


@pytest.mark.parametrize("wrong", [Hoarding, Repeating, Sweeping, Lenient, Forgetful, Obedient])
def test_the_walk_notices_books_that_are_wrong(wrong: type[StagingBooks]) -> None:
    with pytest.raises(Divergence):
        walk(SYSTEM, DrivenStaging(SMALL, wrong), SMALL)
