"""Which states of the model's graph simulated runs reach: of a channel so small that all of them are known."""

from collections.abc import Callable
from typing import Any, TypeAlias

from permitflow import ChannelParameters
from permitflow_model.kernel.explore import explore
from permitflow_model.permit_channel import SYSTEM, Parameters, State
from permitflow_testing.subjects.permits import model_of

COVERED = ChannelParameters(row_permits=2, permit_batch=1, max_chunk_cost=2, barrier_permits=1)
"""A share of the schedules has these."""
SIZES = (1, 2)
WAITERS = 1

Key: TypeAlias = tuple[Any, ...]


def key_of(parameters: object) -> Callable[[State], Key] | None:
    """Gives a state a form that does not depend on how queues are kept; None: they are of another channel."""
    return _key if isinstance(parameters, Parameters) and _is_covered(parameters) else None


def _is_covered(parameters: Parameters) -> bool:
    return (
        parameters.row_permits == COVERED.row_permits == parameters.initial_permits
        and parameters.max_chunk_cost == COVERED.max_chunk_cost
        and parameters.barrier_permits == COVERED.barrier_permits
    )


def _key(state: State) -> Key:
    return (
        tuple(state.waiting),
        state.watermark_pending,
        state.newest_watermark,
        state.permits,
        tuple(state.wire),
        tuple(state.inbox),
        state.unreturned,
        tuple(state.grants),
    )


def all_states() -> set[Key]:
    """Those that the model has, with one message that waits at most."""
    return {_key(state) for state in explore(SYSTEM, model_of(COVERED, sizes=SIZES, waiters=WAITERS)).states}
