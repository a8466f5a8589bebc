"""``SparkMicroBatch.tla``, action for action: a streaming query that reads one channel of an exchange; and its probes.

Read it beside the specification: first constants and variables, then the actions, then the invariants, and last the
statements that are false (``SparkMicroBatchProbes.tla``).  All numbers are rows of one channel; a row costs a permit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

AcknowledgeIn = Literal["latestOffset", "commit"]
"""The call in which rows are acknowledged."""

Phase = Literal["idle", "planned", "logged", "ready", "staged", "published", "down", "failed"]
"""What the driver can be at."""


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    row_permits: Positive
    """Row permits: the exchange takes over a producer's chunk if it keeps no more rows than this."""

    batch_cap: Positive
    """A batch has no more rows of the channel than this."""

    sizes: tuple[int, ...]
    """Chunk sizes that may be offered, in rows (for bounded exploration)."""

    horizon: Natural
    """Rows that are produced before the stream ends."""

    staging_rows: Natural = 0
    """Rows that jobs may have staged for the channel, or published beyond the row permits."""

    acknowledge_in: AcknowledgeIn = "latestOffset"

    driver_crashes: bool = False
    """May the driver crash?"""

    durable: bool = True
    """Does the exchange keep its rows when it crashes?"""

    expires: bool = False
    """May rows expire before they are acknowledged?"""

    faults: Natural = 0
    """How many faults of any kind may happen."""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if any(rows < 1 for rows in self.sizes):
            raise ValueError(f"a chunk has at least one row, but sizes are {self.sizes}")
        if not any(self.acknowledge_in == call for call in ("latestOffset", "commit")):
            raise ValueError(f"acknowledge_in must be latestOffset or commit, not {self.acknowledge_in!r}")


class Rows(NamedTuple):
    """The rows ``[start, end)`` of the channel."""

    start: int
    end: int


class Staged(NamedTuple):
    """An attempt, and the rows ``[start, end)`` that it has staged."""

    attempt: int
    """Its name; 0: nothing is staged."""
    start: int
    end: int


class State(NamedTuple):
    """The variables of the specification; rows are numbered from 0 since the channel was opened."""

    waiting: int
    """Rows of the chunk that waits for permits; 0: none waits."""
    produced: int
    """Rows that the exchange has taken over from the producer."""
    acknowledged: int
    """Rows whose permits have returned; the exchange has forgotten them."""
    lost: int
    """Rows below this and not acknowledged were lost in a crash of the exchange, or have expired."""
    phase: Phase
    """The driver's current step."""
    plan: int
    """The end of a batch that is not in the offset log yet; 0: there is none."""
    start: int
    """The last batch in the offset log: its first row ..."""
    end: int
    """... and the first row after it."""
    committed: bool
    """Is this batch in the commit log?"""
    published: bool
    """Has the sink published this batch?"""
    attempts: int
    """How many attempts have begun; the number is the name of the newest one."""
    running: bool
    """Does the newest attempt run, and the driver waits for it?"""
    late: Rows
    """Rows of an attempt that runs on although the driver no longer waits for it."""
    staged: Staged
    """The attempt that has staged last for a driver."""
    aborting: int
    """The attempt that an abort names which is on its way from a dead driver; 0: there is none."""
    output: int
    """Rows in the published table, repetitions included."""
    misplaced: int
    """The number of them in a wrong place: row n belongs at position n."""
    faults: int
    """How many faults may still happen."""


NO_ROWS = Rows(0, 0)

NOTHING_STAGED = Staged(0, 0, 0)


def initial(parameters: Parameters) -> State:
    """Nothing was produced, both logs are empty, the driver waits for rows."""
    return State(
        waiting=0,
        produced=0,
        acknowledged=0,
        lost=0,
        phase="idle",
        plan=0,
        start=0,
        end=0,
        committed=True,
        published=True,
        attempts=0,
        running=False,
        late=NO_ROWS,
        staged=NOTHING_STAGED,
        aborting=0,
        output=0,
        misplaced=0,
        faults=parameters.faults,
    )


def committed_end(state: State) -> int:
    """The end of the last committed batch: no row from here on may be lost."""
    return state.end if state.committed else state.start


def gone(state: State) -> int:
    """Rows below this take no permits."""
    return max(state.acknowledged, state.lost)


def keeps(state: State, row: int) -> bool:
    """Has the exchange kept all of its rows from this one on?"""
    return state.acknowledged <= row and state.lost <= row


# The producer.


def offer(state: State, parameters: Parameters, rows: int) -> State:
    """The producer wants to hand over a chunk."""
    require(state.waiting == 0)
    require(state.produced + rows <= parameters.horizon)
    return state._replace(waiting=rows)


def produce(state: State, parameters: Parameters) -> State:
    """The exchange takes the chunk over; its kept rows stay within the permits."""
    require(state.waiting > 0)
    require(state.produced + state.waiting - gone(state) <= parameters.row_permits)
    return state._replace(produced=state.produced + state.waiting, waiting=0)


def produce_batch(state: State, parameters: Parameters, rows: int) -> State:
    """A job publishes a batch that it has staged for the channel: its rows belong to the channel at once, all together.

    The permits need not be there; rows beyond them take the room of the next staged batch.
    """
    require(state.produced + state.waiting + rows <= parameters.horizon)
    beyond = max(0, state.produced - gone(state) - parameters.row_permits)
    require(rows + beyond <= parameters.staging_rows)
    return state._replace(produced=state.produced + rows)


# The driver.


def plan_batch(state: State, parameters: Parameters) -> State:
    """``latestOffset`` finds new rows: they are the next batch, as many of them as the cap allows."""
    require(state.phase == "idle")
    require(state.produced > state.end)
    require(keeps(state, state.end))
    if parameters.acknowledge_in == "latestOffset":
        require(state.acknowledged == state.end)
    return state._replace(plan=min(state.end + parameters.batch_cap, state.produced), phase="planned")


def write_offset_log(state: State, parameters: Parameters) -> State:
    """From now on this batch has these rows, in every attempt."""
    require(state.phase == "planned")
    return state._replace(
        start=state.end,
        end=state.plan,
        committed=False,
        published=False,
        plan=0,
        phase="logged" if parameters.acknowledge_in == "commit" else "ready",
    )


def acknowledge(state: State, parameters: Parameters) -> State:
    """Permits return.

    ``latestOffset(start)`` is called at each trigger, new rows or not; ``commit`` only once the next batch is in the
    offset log, and not for a batch that is run again after a crash.
    """
    if parameters.acknowledge_in == "commit":
        require(state.phase == "logged")
        return state._replace(acknowledged=state.start, phase="ready")
    require(state.phase == "idle")
    require(state.acknowledged < state.end)
    return state._replace(acknowledged=state.end)


def run_task(state: State, _parameters: Parameters) -> State:
    """A task reads the rows of the batch, in an attempt whose name is unique, also after a restart of the driver."""
    require(state.phase == "ready")
    require(not state.running)
    require(keeps(state, state.start))
    return state._replace(attempts=state.attempts + 1, running=True)


def stage(state: State, _parameters: Parameters) -> State:
    """The task has read its rows and staged them under its name, and the driver knows the name."""
    require(state.phase == "ready")
    require(state.running)
    require(keeps(state, state.start))
    staged = Staged(state.attempts, state.start, state.end)
    return state._replace(staged=staged, running=False, phase="staged")


def publish(state: State, _parameters: Parameters) -> State:
    """The sink makes the rows of the attempt that the driver names part of the table, unless it has done so before."""
    require(state.phase == "staged")
    require(state.staged.attempt == state.attempts)
    after = state._replace(published=True, phase="published")
    if state.published:
        return after
    rows = state.staged.end - state.staged.start
    return after._replace(
        output=state.output + rows,
        misplaced=state.misplaced if state.staged.start == state.output else state.misplaced + rows,
    )


def write_commit_log(state: State, _parameters: Parameters) -> State:
    """The batch is done; the rest of its staged data is removed."""
    require(state.phase == "published")
    return state._replace(committed=True, staged=NOTHING_STAGED, phase="idle")


def restart(state: State, _parameters: Parameters) -> State:
    """The driver starts again, and runs the last batch again if it is not in the commit log."""
    require(state.phase == "down")
    return state._replace(phase="idle" if state.committed else "ready")


def report_loss(state: State, _parameters: Parameters) -> State:
    """Needed rows are lost: the query fails and says so instead of going on without them."""
    require(state.phase == "idle" or state.phase == "ready")
    require(not keeps(state, committed_end(state)))
    return state._replace(phase="failed", running=False)


# Faults.


def _with_a_fault(state: State) -> State:
    require(state.faults > 0)
    return state._replace(faults=state.faults - 1)


def fail_task(state: State, _parameters: Parameters) -> State:
    """An attempt fails; another one follows."""
    require(state.running)
    return _with_a_fault(state)._replace(running=False)


def abandon_task(state: State, _parameters: Parameters) -> State:
    """The driver gives up an attempt, or starts a faster one; the attempt runs on."""
    require(state.running)
    require(state.late == NO_ROWS)
    return _with_a_fault(state)._replace(running=False, late=Rows(state.start, state.end))


def stage_late(state: State, _parameters: Parameters) -> State:
    """An abandoned attempt has staged its rows, in a place of its own."""
    require(state.late != NO_ROWS)
    return state._replace(late=NO_ROWS)


def abort_late(state: State, _parameters: Parameters) -> State:
    """The abort of a dead driver arrives: perhaps after its batch was published, or when the next one has staged it.

    It removes the attempt that it names.
    """
    require(state.aborting != 0)
    if state.staged.attempt == state.aborting:
        return state._replace(staged=NOTHING_STAGED, aborting=0)
    return state._replace(aborting=0)


def acknowledge_for_driver(state: State, parameters: Parameters) -> State:
    """The query was stopped: a program that knows the commit log acknowledges in the driver's place.

    If this comes when the query runs again, it equals ``acknowledge`` there, or changes nothing.
    """
    require(state.phase == "down")
    require(parameters.acknowledge_in == "latestOffset")
    require(state.acknowledged < committed_end(state))
    return state._replace(acknowledged=committed_end(state))


def crash_driver(state: State, parameters: Parameters) -> State:
    """The driver dies, and forgets everything that is in no log.

    Its last word may be an abort of the attempt that it knew to be staged; of two such words, the earlier one is lost.
    """
    require(parameters.driver_crashes)
    require(state.phase != "down")
    require(state.phase != "failed")
    aborting = state.attempts if state.phase == "staged" or state.phase == "published" else state.aborting
    return _with_a_fault(state)._replace(phase="down", plan=0, running=False, aborting=aborting)


def crash_exchange(state: State, parameters: Parameters) -> State:
    """An exchange that keeps its rows in memory crashes: what it had is lost."""
    require(not parameters.durable)
    require(state.produced > gone(state))
    return _with_a_fault(state)._replace(lost=state.produced)


def expire(state: State, parameters: Parameters, row: int) -> State:
    """Rows have been there for too long, or take too many bytes: they are gone, and their permits return.

    What the query has acknowledged does not change: else it would never hear of its loss.
    """
    require(parameters.expires)
    require(gone(state) < row)
    require(row <= state.produced)
    return state._replace(lost=row)


def done(state: State, parameters: Parameters) -> State:
    """All rows were read, or the query has failed: the end of the run."""
    if state.phase != "failed":
        require(state.phase == "idle")
        require(state.end == parameters.horizon)
    return state


ACTIONS: tuple[Action[State, Parameters], ...] = (
    Action("Offer", offer, lambda parameters: [(rows,) for rows in parameters.sizes], is_environment=True),
    Action(
        "ProduceBatch", produce_batch, lambda parameters: [(rows,) for rows in parameters.sizes], is_environment=True
    ),
    Action("FailTask", fail_task, is_environment=True),
    Action("AbandonTask", abandon_task, is_environment=True),
    Action("StageLate", stage_late, is_environment=True),
    Action("AbortLate", abort_late, is_environment=True),
    Action("AcknowledgeForDriver", acknowledge_for_driver, is_environment=True),
    Action("CrashDriver", crash_driver, is_environment=True),
    Action("CrashExchange", crash_exchange, is_environment=True),
    Action(
        "Expire",
        expire,
        lambda parameters: [(row,) for row in range(1, parameters.horizon + 1)] if parameters.expires else [],
        is_environment=True,
    ),
    Action("Done", done, is_environment=True),
    Action("Produce", produce),
    Action("PlanBatch", plan_batch),
    Action("WriteOffsetLog", write_offset_log),
    Action("Acknowledge", acknowledge),
    Action("RunTask", run_task),
    Action("Stage", stage),
    Action("Publish", publish),
    Action("WriteCommitLog", write_commit_log),
    Action("Restart", restart),
    Action("ReportLoss", report_loss),
)


def type_ok(state: State, _parameters: Parameters) -> bool:
    """Every variable is in its range."""
    least_plan, most_plan = (state.end + 1, state.produced) if state.phase == "planned" else (0, 0)
    # In order, each at most the next one.
    lines: tuple[tuple[int, ...], ...] = (
        (least_plan, state.plan, most_plan),
        (0, state.waiting),
        (0, state.output),
        (0, state.misplaced),
        (0, state.faults),
        (0, state.acknowledged, state.produced),
        (0, state.lost, state.produced),
        (0, state.start, state.end, state.produced),
        (0, state.late.start, state.late.end, state.end),
        (0, state.staged.start, state.staged.end, state.end),
        (0, state.staged.attempt, state.attempts),
        (0, state.aborting, state.attempts),
    )
    return all(low <= high for line in lines for low, high in pairwise(line))


def bounded(state: State, parameters: Parameters) -> bool:
    """The exchange keeps no more rows than there are permits, and room for staged rows."""
    return state.produced - gone(state) <= parameters.row_permits + parameters.staging_rows


def acknowledged_is_committed(state: State, _parameters: Parameters) -> bool:
    """The exchange forgets no row before the commit log has its batch."""
    return state.acknowledged <= committed_end(state)


def published_once_in_order(state: State, _parameters: Parameters) -> bool:
    """The table holds each row of the published batches once, in order, and nothing else."""
    return state.misplaced == 0 and state.output == (state.end if state.published else state.start)


def to_publish_is_staged(state: State, _parameters: Parameters) -> bool:
    """What the driver is about to publish is there: no abort of another driver has removed it."""
    return state.phase != "staged" or state.staged == Staged(state.attempts, state.start, state.end)


def committed_is_published(state: State, _parameters: Parameters) -> bool:
    """The table has every batch of the commit log."""
    return not state.committed or state.published


def batch_capped(state: State, parameters: Parameters) -> bool:
    """No batch has more rows than the cap allows."""
    return state.end - state.start <= parameters.batch_cap and state.plan - state.end <= parameters.batch_cap


def never_fails(state: State, parameters: Parameters) -> bool:
    """An exchange that keeps its rows never lets the query fail, unless they expire."""
    return not parameters.durable or parameters.expires or state.phase != "failed"


def is_stuck(state: State, parameters: Parameters) -> bool:
    """The producer waits, and no sequence of steps of exchange, driver and sink can ever change that."""
    if state.waiting == 0 or state.phase == "failed":
        return False
    return not SYSTEM.can_move(state, parameters)


def never_stuck(state: State, parameters: Parameters) -> bool:
    """A producer that waits can still be served."""
    return not is_stuck(state, parameters)


def whole_when_idle(state: State, parameters: Parameters) -> bool:
    """When nothing can move, the permits of all read rows have returned, also those of the stream's last rows."""
    if state.phase == "failed" or SYSTEM.can_move(state, parameters):
        return True
    return state.acknowledged == state.end


def _is_full_batch_running(state: State, parameters: Parameters) -> bool:
    return state.running and state.end - state.start == parameters.batch_cap


_PROBES: Mapping[str, Callable[[State, Parameters], bool]] = {
    "ProducerNeverWaitsProbe": lambda state, parameters: (
        state.waiting == 0 or state.produced + state.waiting - state.acknowledged <= parameters.row_permits
    ),
    "NeverBeyondTheWindowProbe": lambda state, parameters: (
        state.produced - state.acknowledged <= parameters.row_permits
    ),
    "NeverPublishedBeforeProbe": lambda state, _: not (state.phase == "staged" and state.published),
    "NoLateAttemptProbe": lambda state, _: (
        state.phase != "staged" or state.late == NO_ROWS or state.late.start == state.start
    ),
    "NoAbortWhileStagedProbe": lambda state, _: state.phase != "staged" or state.aborting == 0,
    "CrashAlwaysHarmsProbe": lambda state, _: (
        state.lost <= state.acknowledged or state.phase != "idle" or state.lost > state.end
    ),
    "NeverFailsProbe": lambda state, _: state.phase != "failed",
    "NoFullBatchWaitsProbe": lambda state, parameters: (
        not _is_full_batch_running(state, parameters) or state.produced - state.end < parameters.batch_cap
    ),
}

SYSTEM: System[State, Parameters] = System(
    module="SparkMicroBatch",
    initial=initial,
    actions=ACTIONS,
    invariants={
        "TypeOK": type_ok,
        "Bounded": bounded,
        "AcknowledgedIsCommitted": acknowledged_is_committed,
        "PublishedOnceInOrder": published_once_in_order,
        "ToPublishIsStaged": to_publish_is_staged,
        "CommittedIsPublished": committed_is_published,
        "BatchCapped": batch_capped,
        "NeverFails": never_fails,
        "NeverStuck": never_stuck,
        "WholeWhenIdle": whole_when_idle,
    },
    probes=_PROBES,
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    probes="SparkMicroBatchProbes",
    theorems="permitflow_proofs.spark_micro_batch:theorems",
)
