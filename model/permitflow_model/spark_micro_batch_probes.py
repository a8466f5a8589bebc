"""``SparkMicroBatchProbes.tla``: statements that are false, each for a reason worth knowing."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from permitflow_model.spark_micro_batch import NO_ROWS, SYSTEM, Parameters, State

__all__ = ["PROBES"]


def _is_full_batch_running(state: State, parameters: Parameters) -> bool:
    return state.running and state.end - state.start == parameters.batch_cap


_PROBES: Mapping[str, Callable[[State, Parameters], bool]] = {
    "ProducerNeverWaitsProbe": lambda state, parameters: (
        state.waiting == 0 or state.produced + state.waiting - state.acknowledged <= parameters.row_count
    ),
    "NeverBeyondTheWindowProbe": lambda state, parameters: state.produced - state.acknowledged <= parameters.row_count,
    "NeverPublishedBeforeProbe": lambda state, _: not (state.phase == "staged" and state.published),
    "NoLateAttemptProbe": lambda state, _: (
        state.phase != "staged" or state.late == NO_ROWS or state.late.start == state.start
    ),
    "CrashAlwaysHarmsProbe": lambda state, _: (
        state.lost <= state.acknowledged or state.phase != "idle" or state.lost > state.end
    ),
    "NeverFailsProbe": lambda state, _: state.phase != "failed",
    "NoFullBatchWaitsProbe": lambda state, parameters: (
        not _is_full_batch_running(state, parameters) or state.produced - state.end < parameters.batch_cap
    ),
}

PROBES = replace(SYSTEM, module="SparkMicroBatchProbes", invariants={**SYSTEM.invariants, **_PROBES})
"""The query with its probes beside its invariants."""
