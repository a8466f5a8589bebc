"""How large a batch may be: who gets stuck, by the call in which rows are acknowledged, in both directions."""

from collections.abc import Callable
from functools import partial

from permitflow_model.spark_micro_batch import SYSTEM, Parameters, State, is_stuck, never_stuck
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.runs import Move, take
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.spark_micro_batch.arbitrary import any_parameters, any_state, largest_chunk
from permitflow_proofs.spark_micro_batch.runs import BATCH_DONE, filled, filling, unacknowledged, unacknowledging

__all__ = ["threshold_theorems"]


def _in_latest_offset() -> Parameters:
    return any_parameters(acknowledge_in="latestOffset")


def _without_staging() -> Parameters:
    """Nobody publishes batches into the channel: they would come beside the permits."""
    return any_parameters(acknowledge_in="latestOffset", staging_rows=0)


def _in_commit() -> Parameters:
    """Acknowledged in ``commit``; the driver does not crash, and the exchange keeps its rows."""
    return any_parameters(acknowledge_in="commit", driver_crashes=False, durable=True)


def _in_commit_with_crashes() -> Parameters:
    return any_parameters(acknowledge_in="commit", driver_crashes=True)


def _gets_stuck(parameters: Parameters, state: State, moves: tuple[Move, ...]) -> bool:
    """These steps are possible, and then the largest chunk is stuck."""
    after = take(SYSTEM, parameters, state, [*moves, ("Offer", (largest_chunk(parameters),))])
    return after is not None and is_stuck(after, parameters)


def _is_live(excess: int) -> bool:
    parameters = _in_latest_offset()
    assume(largest_chunk(parameters) <= parameters.row_count + excess)
    return never_stuck(any_state(parameters), parameters)


def _never_fits(nearer: int) -> bool:
    parameters = _in_latest_offset()
    assume(largest_chunk(parameters) > parameters.row_count - nearer)
    assume(largest_chunk(parameters) <= parameters.horizon)
    return _gets_stuck(parameters, SYSTEM.initial(parameters), ())


def _is_live_in_commit(excess: int) -> bool:
    parameters = _in_commit()
    assume(parameters.batch_cap <= parameters.row_count - largest_chunk(parameters) + excess)
    return never_stuck(any_state(parameters), parameters)


def _is_stuck_in_commit(nearer: int) -> bool:
    """One batch takes so many rows that the largest chunk does not fit beside it."""
    parameters = _in_commit()
    largest = largest_chunk(parameters)
    assume(parameters.batch_cap > parameters.row_count - largest - nearer)
    too_many = max(0, parameters.row_count - largest + 1)
    assume(parameters.horizon >= too_many + largest)
    return _gets_stuck(parameters, filled(parameters, too_many), BATCH_DONE if too_many > 0 else ())


def _is_stuck_after_crashes(fewer: int) -> bool:
    """So many rows were never acknowledged that the largest chunk does not fit."""
    parameters = _in_commit_with_crashes()
    largest = largest_chunk(parameters)
    too_many = max(0, parameters.row_count - largest + 1)
    assume(parameters.horizon >= too_many + largest)
    assume(parameters.faults >= too_many)
    return _gets_stuck(parameters, unacknowledged(parameters, too_many - fewer, parameters.faults - too_many), ())


def _is_full_batch_running(state: State, parameters: Parameters) -> bool:
    return state.running and state.end - state.start == parameters.batch_cap


def _has_two_batches(state: State, parameters: Parameters) -> bool:
    """A full batch runs, and a full one waits."""
    return _is_full_batch_running(state, parameters) and state.produced - state.end >= parameters.batch_cap


def _two_batches_fit(fewer: int) -> bool:
    parameters = _without_staging()
    state = any_state(parameters)
    return not _has_two_batches(state, parameters) or 2 * parameters.batch_cap <= parameters.row_count - fewer


def _two_batches_come(excess: int) -> bool:
    parameters = _without_staging()
    rows = 2 * parameters.batch_cap
    assume(rows <= parameters.row_count + excess)
    moves: list[Move] = [("PlanBatch", ()), ("WriteOffsetLog", ()), ("RunTask", ())]
    after = take(SYSTEM, parameters, filled(parameters, rows), moves)
    return after is not None and _has_two_batches(after, parameters) and SYSTEM.invariants["Bounded"](after, parameters)


def _obligation(name: str, claim: Callable[[int], bool], twin_change: str) -> SymbolicObligation:
    return SymbolicObligation(name, partial(claim, 0), partial(claim, 1), twin_change)


def threshold_theorems() -> tuple[Theorem, ...]:
    """Thresholds."""
    return (
        Theorem(
            id="spark-live",
            statement=(
                "Acknowledging in latestOffset: no producer is ever stuck, whatever the cap and whatever crashes, if "
                "and only if no chunk is larger than ROW_COUNT."
            ),
            module="SparkMicroBatch",
            operator="NeverStuck",
            obligations=(
                _obligation("if", _is_live, "chunks of ROW_COUNT + 1"),
                _obligation("only if: a larger chunk is stuck as soon as it is offered", _never_fits, "of ROW_COUNT"),
            ),
        ),
        Theorem(
            id="spark-commit-threshold",
            statement=(
                "Acknowledging in commit, while neither driver nor exchange crash: live if and only if the batch cap "
                "is at most ROW_COUNT - the largest chunk."
            ),
            module="SparkMicroBatch",
            operator="Acknowledge",
            obligations=(
                _obligation("if", _is_live_in_commit, "by one more"),
                *filling(_in_commit),
                _obligation(
                    "only if: beyond, one batch leaves no room for the largest chunk, and is never acknowledged",
                    _is_stuck_in_commit,
                    "also at the threshold",
                ),
            ),
        ),
        Theorem(
            id="spark-commit-crash",
            statement=(
                "Acknowledging in commit, if the driver may crash: no cap is small enough. Crashes between offset log "
                "and commit skip calls, until no chunk fits."
            ),
            module="SparkMicroBatch",
            operator="CrashDriver",
            obligations=(
                *unacknowledging(_in_commit_with_crashes),
                _obligation(
                    "the largest chunk is stuck behind rows that are committed, and not acknowledged",
                    _is_stuck_after_crashes,
                    "behind one row less",
                ),
            ),
        ),
        Theorem(
            id="spark-double-buffer",
            statement=(
                "A full batch of what producers hand over can wait while a full batch runs if and only if the batch "
                "cap is at most half of ROW_COUNT."
            ),
            module="SparkMicroBatch",
            operator="PlanBatch",
            obligations=(
                _obligation("only if", _two_batches_fit, "half of ROW_COUNT - 1"),
                *filling(_without_staging),
                _obligation("if", _two_batches_come, "half of ROW_COUNT + 1"),
            ),
        ),
    )
