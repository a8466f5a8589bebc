"""``SparkMicroBatch.tla``, action for action: what must hold, and the whole as one system.

Read it beside the specification: first ``spark_micro_batch_state``, then ``spark_micro_batch_actions``, then this.  All
numbers are rows of one channel; a row costs a permit.
"""

from itertools import pairwise

from permitflow_model.kernel.system import System
from permitflow_model.spark_micro_batch_actions import ACTIONS, committed_end, keeps
from permitflow_model.spark_micro_batch_state import (
    NO_ROWS,
    PHASES,
    AcknowledgeIn,
    Parameters,
    Phase,
    Rows,
    Sink,
    State,
    initial,
)

__all__ = [
    "NO_ROWS",
    "PHASES",
    "SYSTEM",
    "AcknowledgeIn",
    "Parameters",
    "Phase",
    "Rows",
    "Sink",
    "State",
    "committed_end",
    "initial",
    "is_protocol_enabled",
    "is_stuck",
    "keeps",
]


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
    )
    return all(low <= high for line in lines for low, high in pairwise(line))


def bounded(state: State, parameters: Parameters) -> bool:
    """The exchange keeps no more rows than there are permits, and room for staged rows."""
    return state.produced - state.acknowledged <= parameters.row_count + parameters.staging_rows


def acknowledged_is_committed(state: State, _parameters: Parameters) -> bool:
    """Nothing is forgotten before the commit log has its batch."""
    return state.acknowledged <= committed_end(state)


def published_once_in_order(state: State, _parameters: Parameters) -> bool:
    """The table holds each row of the published batches once, in order, and nothing else."""
    return state.misplaced == 0 and state.output == (state.end if state.published else state.start)


def committed_is_published(state: State, _parameters: Parameters) -> bool:
    """The commit log has no batch that the table has not."""
    return not state.committed or state.published


def batch_capped(state: State, parameters: Parameters) -> bool:
    """No batch has more rows than the cap allows."""
    return state.end - state.start <= parameters.batch_cap and state.plan - state.end <= parameters.batch_cap


def never_fails(state: State, parameters: Parameters) -> bool:
    """An exchange that keeps its rows never lets the query fail."""
    return not parameters.durable or state.phase != "failed"


def is_protocol_enabled(state: State, parameters: Parameters) -> bool:
    """Can exchange, driver or sink move without the producer, and without a fault?"""
    return any(
        SYSTEM.is_enabled(action.name, state, parameters) for action in SYSTEM.actions if not action.is_environment
    )


def is_stuck(state: State, parameters: Parameters) -> bool:
    """The producer waits, and nothing that exchange, driver and sink can do will ever change that."""
    if state.waiting == 0 or state.phase == "failed":
        return False
    return not is_protocol_enabled(state, parameters)


def never_stuck(state: State, parameters: Parameters) -> bool:
    """A producer that waits can still be served."""
    return not is_stuck(state, parameters)


def whole_when_idle(state: State, parameters: Parameters) -> bool:
    """When nothing can move, the permits of all rows that were read have returned: the tail of a stream, too."""
    if state.phase == "failed" or is_protocol_enabled(state, parameters):
        return True
    return state.acknowledged == state.end


SYSTEM: System[State, Parameters] = System(
    module="SparkMicroBatch",
    initial=initial,
    actions=ACTIONS,
    invariants={
        "TypeOK": type_ok,
        "Bounded": bounded,
        "AcknowledgedIsCommitted": acknowledged_is_committed,
        "PublishedOnceInOrder": published_once_in_order,
        "CommittedIsPublished": committed_is_published,
        "BatchCapped": batch_capped,
        "NeverFails": never_fails,
        "NeverStuck": never_stuck,
        "WholeWhenIdle": whole_when_idle,
    },
)
