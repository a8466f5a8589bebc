"""The actions of ``SparkMicroBatch.tla``: the same names, the same order, each one function."""

from permitflow_model.kernel.system import Action, require
from permitflow_model.spark_micro_batch_state import NO_ROWS, Parameters, Rows, State

__all__ = ["ACTIONS", "committed_end", "keeps"]


def committed_end(state: State) -> int:
    """What would be lost for ever if it were lost now: the rows from here on."""
    return state.end if state.committed else state.start


def keeps(state: State, row: int) -> bool:
    """The exchange still has all rows from this one on that it ever had."""
    return state.acknowledged <= row and state.lost <= row


# The producer.


def offer(state: State, parameters: Parameters, rows: int) -> State:
    """The producer wants to hand over a chunk."""
    require(state.waiting == 0)
    require(state.produced + rows <= parameters.horizon)
    return state._replace(waiting=rows)


def produce(state: State, parameters: Parameters) -> State:
    """The exchange takes the chunk over; what it keeps stays within the permits."""
    require(state.waiting > 0)
    require(state.produced + state.waiting - state.acknowledged <= parameters.row_count)
    require(state.lost <= state.acknowledged)
    return state._replace(produced=state.produced + state.waiting, waiting=0)


def produce_batch(state: State, parameters: Parameters, rows: int) -> State:
    """A job publishes a batch that it has staged for the channel: its rows belong to the channel at once, all together.

    The permits need not be there; what is kept beyond them takes the room of the next batch that is to be staged.
    """
    require(state.produced + state.waiting + rows <= parameters.horizon)
    beyond = max(0, state.produced - state.acknowledged - parameters.row_count)
    require(rows + beyond <= parameters.staging_rows)
    require(state.lost <= state.acknowledged)
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
    """From now on this batch has these rows, whoever runs it."""
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
    if parameters.acknowledge_in == "latestOffset":
        require(state.phase == "idle")
    else:
        require(state.phase == "staged")
    require(state.acknowledged < state.end)
    return state._replace(acknowledged=state.end)


def run_task(state: State, _parameters: Parameters) -> State:
    """A task reads the rows of the batch."""
    require(state.phase == "ready")
    require(not state.running)
    require(keeps(state, state.start))
    return state._replace(running=True)


def stage(state: State, _parameters: Parameters) -> State:
    """The task has read and staged its rows, and the driver knows."""
    require(state.phase == "ready")
    require(state.running)
    require(keeps(state, state.start))
    return state._replace(staged=Rows(state.start, state.end), running=False, phase="staged")


def publish(state: State, parameters: Parameters) -> State:
    """The sink makes what is staged part of the table, unless it has done so before."""
    require(state.phase == "staged")
    if parameters.acknowledge_in == "read":
        require(state.acknowledged >= state.end)
    after = state._replace(published=True, phase="published")
    if state.published and parameters.sink != "again":
        return after
    rows = state.staged.end - state.staged.start
    return after._replace(
        output=state.output + rows,
        misplaced=state.misplaced if state.staged.start == state.output else state.misplaced + rows,
    )


def write_commit_log(state: State, _parameters: Parameters) -> State:
    """The batch is done; what is left of its staged data is removed."""
    require(state.phase == "published")
    return state._replace(committed=True, staged=NO_ROWS, phase="idle")


def restart(state: State, _parameters: Parameters) -> State:
    """The driver starts again, and runs the last batch again if it is not in the commit log."""
    require(state.phase == "down")
    return state._replace(phase="idle" if state.committed else "ready")


def report_loss(state: State, _parameters: Parameters) -> State:
    """Rows that are needed are gone: the query fails and says so, rather than go on without them."""
    require(state.phase == "idle" or state.phase == "ready")
    require(not keeps(state, committed_end(state)))
    return state._replace(phase="failed", running=False)


# What goes wrong.


def _with_a_fault(state: State) -> State:
    require(state.faults > 0)
    return state._replace(faults=state.faults - 1)


def fail_task(state: State, _parameters: Parameters) -> State:
    """An attempt fails; another one follows."""
    require(state.running)
    return _with_a_fault(state)._replace(running=False)


def abandon_task(state: State, _parameters: Parameters) -> State:
    """The driver takes an attempt for dead, or starts a faster one; it runs on."""
    require(state.running)
    require(state.late == NO_ROWS)
    return _with_a_fault(state)._replace(running=False, late=Rows(state.start, state.end))


def stage_late(state: State, parameters: Parameters) -> State:
    """An attempt that nobody waits for has staged its rows: in a place of its own, or in the one that all share."""
    require(state.late != NO_ROWS)
    if parameters.sink == "shared":
        return state._replace(late=NO_ROWS, staged=state.late)
    return state._replace(late=NO_ROWS)


def abort_late(state: State, _parameters: Parameters) -> State:
    """An abort arrives late: of a batch that was published meanwhile, or from a driver that has died since.

    It names the attempts that it gives up, so it never removes what is to be published.
    """
    require(state.staged != NO_ROWS)
    require(state.phase != "staged")
    return state._replace(staged=NO_ROWS)


def acknowledge_for_driver(state: State, parameters: Parameters) -> State:
    """The query was stopped: whoever was told what the commit log has acknowledges it in the driver's place.

    If the word comes when the query runs again, it is what ``acknowledge`` says there, or nothing new.
    """
    require(state.phase == "down")
    require(parameters.acknowledge_in == "latestOffset")
    require(state.acknowledged < committed_end(state))
    return state._replace(acknowledged=committed_end(state))


def crash_driver(state: State, parameters: Parameters) -> State:
    """The driver dies, and with it what is in no log."""
    require(parameters.driver_crashes)
    require(state.phase != "down")
    require(state.phase != "failed")
    return _with_a_fault(state)._replace(phase="down", plan=0, running=False)


def crash_exchange(state: State, parameters: Parameters) -> State:
    """An exchange that keeps its rows in memory crashes: what was not acknowledged is gone."""
    require(not parameters.durable)
    require(state.produced > state.acknowledged)
    return _with_a_fault(state)._replace(lost=state.produced)


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
