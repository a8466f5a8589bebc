"""A query comes to rest, and where it does, all that was produced is published and acknowledged."""

from functools import partial

from permitflow_model.spark_micro_batch import SYSTEM, Parameters, State, committed_end, is_protocol_enabled
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.spark_micro_batch.arbitrary import QUERY, any_parameters, any_state, largest_chunk, query

__all__ = ["rank", "progress_theorems"]

_STILL_TO_DO = {
    "down": 22,
    "idle": 20,
    "planned": 18,
    "logged": 14,
    "ready": 12,
    "staged": 8,
    "published": 6,
    "failed": 0,
}
"""For each phase, how far its batch still has to go; two for each step, as an acknowledgement may come between."""

_BATCH = 16
"""A batch that is committed brings the driver from published back to idle, which weighs 14 more."""


def rank(state: State, _parameters: Parameters) -> int:
    """How much is still to do; falls with every step of exchange, driver and sink."""
    phase = next(weight for phase, weight in _STILL_TO_DO.items() if state.phase == phase)
    task = -2 if state.running else 0
    acknowledgement = 1 if state.acknowledged < state.end else 0
    rows = _BATCH * (state.produced - committed_end(state)) + (_BATCH + 1) * state.waiting
    return rows + phase + task + acknowledgement


def _falls(before: State, after: State, parameters: Parameters) -> bool:
    return rank(after, parameters) < rank(before, parameters)


def _falls_by_far_more(before: State, after: State, parameters: Parameters) -> bool:
    return rank(after, parameters) < rank(before, parameters) - 20 - _BATCH * (before.end - before.start)


def _natural(state: State, parameters: Parameters) -> bool:
    return rank(state, parameters) >= 0


def _positive(state: State, parameters: Parameters) -> bool:
    return rank(state, parameters) > 0


def _is_drained(state: State) -> bool:
    return state.waiting == 0 and state.produced == state.acknowledged == state.end == state.output


def _drains(excess: int) -> bool:
    parameters = any_parameters(acknowledge_in="latestOffset")
    assume(largest_chunk(parameters) <= parameters.row_count + excess)
    state = any_state(parameters)
    return is_protocol_enabled(state, parameters) or state.phase == "failed" or _is_drained(state)


def _whole_in_any_call(state: State, parameters: Parameters) -> bool:
    return is_protocol_enabled(state, parameters) or state.phase == "failed" or state.acknowledged == state.start


def progress_theorems() -> tuple[Theorem, ...]:
    """Progress."""
    return (
        Theorem(
            id="spark-rank-falls",
            statement=(
                "What is still to do, rows and steps of their batch, falls with every step of exchange, driver and "
                "sink: between faults, a query comes to rest."
            ),
            module="SparkMicroBatch",
            operator="Protocol",
            obligations=(
                *QUERY.step_obligations(QUERY.protocol_actions(), _falls, _falls_by_far_more, "it falls by far more"),
                QUERY.holds_whenever_invariant("never negative", _natural, _positive, "never 0"),
            ),
        ),
        Theorem(
            id="spark-whole-when-idle",
            statement=(
                "Acknowledging in latestOffset: where a query can do nothing more, the permits of all rows that it has "
                "read have returned, the tail of the stream included."
            ),
            module="SparkMicroBatch",
            operator="WholeWhenIdle",
            obligations=(
                query(acknowledge_in="latestOffset").holds_whenever_invariant(
                    "in every state", SYSTEM.invariants["WholeWhenIdle"], _whole_in_any_call, "but for the last batch"
                ),
            ),
        ),
        Theorem(
            id="spark-drained",
            statement=(
                "Acknowledging in latestOffset: where a query can do nothing more, and has not failed, all rows that "
                "were offered are published and acknowledged, if no chunk is larger than ROW_COUNT."
            ),
            module="SparkMicroBatch",
            operator="Drained",
            obligations=(SymbolicObligation("in every state", partial(_drains, 0), partial(_drains, 1), "by one row"),),
        ),
    )
