"""The staging books beside the model of a streaming query: whatever crashes, the same rows are published."""

import pickle
from dataclasses import dataclass, field

import pytest

from permitflow.client import StagedPart, Staging
from permitflow.errors import StagedPartError
from permitflow.exchange.books.replay import ReplayBooks
from permitflow.exchange.books.staging import Part, PartState, StagingBooks
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Step
from permitflow_model.spark_micro_batch import NO_ROWS, SYSTEM, Parameters, Rows, State
from tests.support.staged import publish

PARAMETERS = {
    "batches of one": Parameters(row_permits=2, batch_cap=1, sizes=(1,), horizon=4, driver_crashes=True, faults=2),
    "whole windows": Parameters(row_permits=2, batch_cap=2, sizes=(1, 2), horizon=4, driver_crashes=True, faults=1),
}


@dataclass
class Sink:
    """A query that writes into a channel, and the rows that can be read there."""

    books: StagingBooks = field(default_factory=StagingBooks)
    log: ReplayBooks = field(default_factory=lambda: ReplayBooks(limit_rows=1))
    batch: int = -1
    attempts: int = 0
    running: Part | None = None
    late: Part | None = None
    done: Part | None = None
    """The attempt whose message the driver has."""
    aborting: Part | None = None
    """The one that an abort names which is on its way from a driver that has died."""
    rows_of: dict[str, Rows] = field(default_factory=dict)
    """What an attempt has read."""
    table: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.area = self.books.add_channel("table", 10, self.log)

    def take(self, step: Step[State]) -> None:
        """Do what the model has just done."""
        if step.action in ACTIONS:
            getattr(self, ACTIONS[step.action])(step.state)

    def write_offset_log(self, _state: State) -> None:
        self.batch += 1

    def run_task(self, state: State) -> None:
        self.attempts += 1
        staging = Staging("query", self.batch, 0, f"attempt {self.attempts}")
        self.rows_of[staging.attempt] = Rows(state.start, state.end)
        self.running = self.books.open("table", staging, now=0.0)
        assert self.books.stage(self.running, state.end - state.start, now=0.0)

    def stage(self, _state: State) -> None:
        assert self.running is not None
        self.books.end(self.running, now=0.0)
        self.done, self.running = self.running, None

    def publish(self, _state: State) -> None:
        assert self.done is not None
        at = self.done.staging
        rows = self.rows_of[at.attempt]
        publication = publish(
            self.books,
            at.query,
            self.batch,
            [StagedPart("table", at.partition, at.attempt, rows.end - rows.start)],
            now=0.0,
        )
        for part in publication.published:
            self.table += range(*self.rows_of[part.staging.attempt])

    def fail_task(self, _state: State) -> None:
        if self.running is not None:
            self.books.break_off(self.running, now=0.0)
            self.running = None

    def crash_driver(self, state: State) -> None:
        self.fail_task(state)
        if self.done is not None and state.aborting:
            self.aborting = self.done

    def write_commit_log(self, _state: State) -> None:
        self.done = None

    def abandon_task(self, _state: State) -> None:
        self.late, self.running = self.running, None

    def stage_late(self, _state: State) -> None:
        assert self.late is not None
        self.books.end(self.late, now=0.0)
        self.late = None

    def abort_late(self, _state: State) -> None:
        """The driver that has died names the attempt that it knew."""
        assert self.aborting is not None
        self.abort(self.aborting)
        self.aborting = None

    def abort(self, part: Part) -> None:
        at = part.staging
        parts = [StagedPart("table", at.partition, at.attempt, part.rows)]
        self.books.discard("query", at.batch, parts, now=0.0)

    def compare(self, state: State) -> None:
        """What the model says of the table and of what is staged."""
        assert self.table == list(range(state.output))
        assert self.log.next_row == state.output, "what is published belongs to the channel at once"
        assert state.misplaced == 0
        last = self.books.published_batches.get("query", -1)
        assert last == (self.batch if state.published else self.batch - 1)
        assert (self.running is not None, self.late is not None) == (state.running, state.late != NO_ROWS)
        if state.phase == "staged":
            assert self.done is not None
            assert state.published or self.done.state is PartState.ENDED
            assert self.rows_of[self.done.staging.attempt] == Rows(state.staged.start, state.staged.end)
        assert all(part.staging.batch > last for part in self.area.parts), "of a published batch nothing is staged"


ACTIONS = {
    "WriteOffsetLog": "write_offset_log",
    "RunTask": "run_task",
    "Stage": "stage",
    "Publish": "publish",
    "FailTask": "fail_task",
    "CrashDriver": "crash_driver",
    "WriteCommitLog": "write_commit_log",
    "AbandonTask": "abandon_task",
    "StageLate": "stage_late",
    "AbortLate": "abort_late",
}


def walk(sink: Sink, parameters: Parameters) -> tuple[int, int]:
    """Take every step from every state; how many states and steps there were."""
    begin = SYSTEM.initial(parameters)
    kept = {begin: pickle.dumps(sink)}
    todo, steps = [begin], 0
    while todo:
        state = todo.pop()
        refuse(pickle.loads(kept[state]), state)
        for step in SYSTEM.successors(state, parameters):
            copy: Sink = pickle.loads(kept[state])
            copy.take(step)
            copy.compare(step.state)
            steps += 1
            if step.state not in kept:
                kept[step.state] = pickle.dumps(copy)
                todo.append(step.state)
    return len(kept), steps


def refuse(sink: Sink, state: State) -> None:
    """What is not there as a whole cannot be published; what is published, or about to be, cannot be changed."""
    for part in filter(None, (sink.running, sink.late)):
        rows = sink.rows_of[part.staging.attempt]
        stated = [StagedPart("table", 0, part.staging.attempt, rows.end - rows.start)]
        if part.staging.batch <= sink.books.published_batches.get("query", -1):
            assert publish(sink.books, "query", part.staging.batch, stated, now=0.0).was_published
        else:
            with pytest.raises(StagedPartError):
                publish(sink.books, "query", part.staging.batch, stated, now=0.0)
    sink.compare(state)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_books_take_every_step_of_the_model(name: str) -> None:
    graph = explore(SYSTEM, PARAMETERS[name])
    states, steps = walk(Sink(), PARAMETERS[name])
    assert (states, steps) == (len(graph.states), len(graph.edges))
    assert states > 500


class Sweeping(Sink):
    """An abort takes everything of its batch, also what the next driver has staged."""

    def abort(self, part: Part) -> None:
        batch = part.staging.batch
        same = [other for other in self.area.parts if other.staging.batch == batch]
        parts = [StagedPart("table", 0, other.staging.attempt, other.rows) for other in same]
        self.books.discard("query", batch, parts, now=0.0)


def test_the_walk_notices_a_sink_that_is_wrong() -> None:
    with pytest.raises(AssertionError, match="forgotten"):
        walk(Sweeping(), PARAMETERS["batches of one"])
