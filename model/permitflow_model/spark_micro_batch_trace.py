"""Recorded runs of a streaming query, one channel of it, as behaviours of ``SparkMicroBatch``.

There are five logs, each with its own order only:

- *source*: Spark's calls of the source: ``Restart``, ``Acknowledge``, ``PlanBatch``, ``ReportLoss``;
- *offsets* and *commits*, Spark's own logs in the checkpoint: ``WriteOffsetLog`` and ``WriteCommitLog``;
- *tasks*, batch by batch, attempt by attempt: ``RunTask``, and ``Stage`` for one that has read all its rows, or
  ``FailTask`` for one that met an error, such as rows that have expired; one that was killed has neither;
- *sink*, if it can tell: ``Publish``.

An event is a step of the model.  An event that says less than the specification, or more at once, is explained by
several steps, each of them an action of the specification, none a formula of its own:

- before the first ``Restart`` the query is down; each other one is ``CrashDriver`` and ``Restart``: a query that was
  stopped and one that was killed are the same to the exchange; between the two another program may have acknowledged in
  its place (``AcknowledgeForDriver``), as the next answer of the exchange shows;
- rows that the exchange reports are ``Offer`` and ``Produce``, or, beyond the permits,
  ``ProduceBatch``; those that it reports as expired are ``Expire``;
- an attempt with a successor is ``FailTask``, whether it had read all its rows or not;
- a commit without a recorded publication is ``Publish`` and ``WriteCommitLog``;
- a loss is ``ReportLoss``, of rows that have expired, or behind ``CrashExchange`` if the exchange may lose rows.

Rows are counted from where the query began.  Batches without rows of the channel are none of its steps.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from permitflow_model.kernel import replay
from permitflow_model.kernel.replay import RecordedStep, Refused, Starved
from permitflow_model.kernel.system import Disabled
from permitflow_model.spark_micro_batch import SYSTEM, Parameters, State, committed_end, gone, keeps

_WITHOUT_END = 2**62
_FAULTS = 1
"""The faults that may still happen: one at any time, so that worlds do not differ in how many have been."""


class QueryEvent(NamedTuple):
    """A recorded event; rows of one channel, counted from the query's first row."""

    action: str
    start: int = 0
    """First row of the batch; of ``Acknowledge``, the row acknowledged before."""
    end: int = 0
    """First row after the batch; of ``Acknowledge`` and ``ReportLoss``, the row that was named."""
    produced: int = 0
    """Rows that the exchange had then; of ``Acknowledge``, ``PlanBatch`` and ``ReportLoss``."""
    expired: int = 0
    """All rows below it had expired then, or were acknowledged; of the same events."""
    where: str = ""
    """The recorder, in words."""

    @property
    def arguments(self) -> tuple[int, ...]:
        """The rows."""
        return self.start, self.end, self.produced, self.expired

    @property
    def counters(self) -> tuple[int, ...]:
        """None."""
        return ()


class _Told(NamedTuple):
    """An event's arguments."""

    start: int
    end: int
    produced: int
    expired: int


World: TypeAlias = replay.World[State]


def query_parameters(*, row_permits: int, batch_cap: int, durable: bool, staging_rows: int = 0) -> Parameters:
    """The specification's constants for a real query."""
    return Parameters(
        row_permits=row_permits,
        batch_cap=batch_cap,
        staging_rows=staging_rows,
        sizes=(),
        horizon=_WITHOUT_END,
        driver_crashes=True,
        durable=durable,
        expires=True,
        faults=_FAULTS,
    )


# Theorems about all reachable states, which say nothing about a single run.
_UNCHECKED = ("NeverFails", "NeverStuck", "WholeWhenIdle")


class SparkMicroBatchReplay(replay.StepByStep[State, Parameters]):
    """Explains recorded events by steps of ``SparkMicroBatch``."""

    def __init__(self, parameters: Parameters) -> None:
        """For a source that acknowledges in ``latestOffset`` and a sink that publishes once."""
        super().__init__(SYSTEM, parameters, unchecked=_UNCHECKED)
        self._explain: dict[str, Callable[[State, _Told], Sequence[State]]] = {
            "Restart": self._restart,
            "Acknowledge": self._acknowledge,
            "PlanBatch": self._plan_batch,
            "ReportLoss": self._report_loss,
            "WriteOffsetLog": self._write_offset_log,
            "RunTask": self._run_task,
            "Stage": self._stage,
            "FailTask": self._fail_task,
            "Publish": self._publish,
            "WriteCommitLog": self._write_commit_log,
        }

    @property
    def actions(self) -> frozenset[str]:
        """The events that recorders may write."""
        return frozenset(self._explain)

    def start(self) -> World:
        """Where every run begins: the query is down."""
        return World(SYSTEM.initial(self.parameters)._replace(phase="down"))

    def explain(self, world: World, event: RecordedStep) -> Sequence[World]:
        """All worlds to which the event may lead.

        Raises:
            Refused: no behaviour has this event here.
            Starved: something else has to happen first.
        """
        if event.action not in self._explain:
            raise Refused(f"nobody records the action {event.action!r}")
        following = self._explain[event.action](world.state, _Told(*event.arguments))
        return [World(state._replace(faults=_FAULTS)) for state in following]

    def _step(self, state: State, name: str, *arguments: int, cap: int | None = None) -> State:
        parameters = self.parameters if cap is None else replace(self.parameters, batch_cap=cap)
        return SYSTEM.perform(name, state._replace(faults=_FAULTS), parameters, *arguments)

    # Events of the source.

    def _restart(self, state: State, _told: _Told) -> Sequence[State]:
        if state.phase == "failed":
            return (state,)
        down = state if state.phase == "down" else self._step(state, "CrashDriver")
        begun = [self._step(down, "Restart")]
        with suppress(Disabled):
            begun.append(self._step(self._step(down, "AcknowledgeForDriver"), "Restart"))
        return begun

    def _acknowledge(self, state: State, told: _Told) -> Sequence[State]:
        row = told.end
        if told.start > state.acknowledged:
            raise Refused(
                f"the exchange has forgotten the rows up to {told.start} already, though only those up to "
                f"{state.acknowledged} were acknowledged in latestOffset"
            )
        if row != state.acknowledged:
            try:
                state = self._step(state, "Acknowledge")
            except Disabled:
                raise Starved(f"rows up to {row} are acknowledged, but {_where_the_driver_is(state)}") from None
        if row != state.acknowledged:
            raise Starved(f"rows up to {row} are acknowledged, but the last batch ends at row {state.end}")
        return (self._as_told(state, told),)

    def _plan_batch(self, state: State, told: _Told) -> Sequence[State]:
        if told.start != state.end:
            raise Starved(f"a batch from row {told.start} is planned, but the last one ends at row {state.end}")
        state = self._as_told(state, told)
        rows = told.end - told.start
        try:
            state = self._step(state, "PlanBatch", cap=max(1, min(rows, self.parameters.batch_cap)))
        except Disabled:
            if state.phase == "idle" and state.acknowledged < state.end:
                raise Refused(
                    f"a batch from row {state.end} is planned, but only the rows up to {state.acknowledged} have been "
                    f"acknowledged, though the commit log has all up to {state.end}"
                ) from None
            raise Starved(f"a batch is planned, but {_where_the_driver_is(state)}") from None
        if state.plan != told.end:
            raise Refused(f"a batch up to row {told.end} is planned, but it may end at row {state.plan} at most")
        return (state,)

    def _report_loss(self, state: State, told: _Told) -> Sequence[State]:
        if state.phase == "failed":
            return (state,)
        if told.expired:
            state = self._as_told(state, told)
        try:
            if keeps(state, committed_end(state)):
                state = self._step(state, "CrashExchange")
            return (self._step(state, "ReportLoss"),)
        except Disabled:
            raise Starved("no rows are lost that the query needs") from None

    def _as_told(self, state: State, told: _Told) -> State:
        """The exchange has this many rows, and this many have expired: perhaps in turns, as either makes room."""
        if told.expired > told.produced:
            raise Refused(f"rows up to {told.expired} have expired, and the exchange has had only {told.produced}")
        while (first_kept := gone(state)) < told.expired:
            within = min(told.produced, first_kept + self.parameters.row_permits)
            state = self._produced(state, max(within, state.produced))
            try:
                state = self._step(state, "Expire", min(told.expired, state.produced))
            except Disabled:
                raise Refused(f"rows up to {told.expired} have expired in an exchange that lets none expire") from None
        return self._produced(state, told.produced)

    def _produced(self, state: State, rows: int) -> State:
        """The exchange has this many rows."""
        if rows < state.produced:
            raise Refused(f"the exchange has {rows} rows, and had {state.produced} before")
        if rows == state.produced:
            return state
        first_kept = gone(state)
        within = min(rows, first_kept + self.parameters.row_permits)
        try:
            if within > state.produced:
                state = self._step(self._step(state, "Offer", within - state.produced), "Produce")
            return state if rows == state.produced else self._step(state, "ProduceBatch", rows - state.produced)
        except Disabled:
            staging_rows = self.parameters.staging_rows
            beyond = f", and room for {staging_rows} staged rows" if staging_rows else ""
            raise Refused(
                f"the exchange keeps {rows - first_kept} rows, and has {self.parameters.row_permits} permits{beyond}"
            ) from None

    # Events of the logs, the tasks and the sink.

    def _write_offset_log(self, state: State, told: _Told) -> Sequence[State]:
        if (told.start, told.end) != (state.end, state.plan):
            raise Starved(f"no batch of rows [{told.start}, {told.end}) is planned")
        return (self._of_batch(state, told, "WriteOffsetLog", state.end, state.plan),)

    def _run_task(self, state: State, told: _Told) -> Sequence[State]:
        if state.running:
            state = self._step(state, "FailTask")
        return (self._of_batch(state, told, "RunTask", state.start, state.end),)

    def _stage(self, state: State, told: _Told) -> Sequence[State]:
        staged = self._of_batch(state, told, "Stage", state.start, state.end)
        # It has read its rows; only the sink knows whether it staged them.
        return (staged, self._step(state, "FailTask"))

    def _fail_task(self, state: State, told: _Told) -> Sequence[State]:
        return (self._of_batch(state, told, "FailTask", state.start, state.end),)

    def _publish(self, state: State, told: _Told) -> Sequence[State]:
        return (self._of_batch(state, told, "Publish", state.start, state.end),)

    def _write_commit_log(self, state: State, told: _Told) -> Sequence[State]:
        if state.phase == "staged":
            state = self._of_batch(state, told, "Publish", state.start, state.end)
        return (self._of_batch(state, told, "WriteCommitLog", state.start, state.end),)

    def _of_batch(self, state: State, told: _Told, name: str, start: int, end: int) -> State:
        if (told.start, told.end) != (start, end):
            raise Starved(f"it is of rows [{told.start}, {told.end}), but the batch is [{start}, {end})")
        try:
            return self._step(state, name)
        except Disabled:
            raise Starved(_where_the_driver_is(state)) from None


def _where_the_driver_is(state: State) -> str:
    batch = f"batch [{state.start}, {state.end})"
    running = " and runs" if state.running else ""
    return {
        "idle": f"the driver is idle: {batch} is in the commit log",
        "planned": f"the batch up to row {state.plan} is not in the offset log yet",
        "ready": f"{batch} is in the offset log{running}, but not in the commit log",
        "staged": f"{batch} is staged, but not published",
        "published": f"{batch} is published, but not in the commit log",
        "failed": "the query has failed",
    }.get(state.phase, f"the driver is {state.phase}")
