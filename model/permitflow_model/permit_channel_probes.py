"""``PermitChannelProbes.tla``: statements that are false, each for a reason worth knowing."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from permitflow_model.permit_channel import (
    SYSTEM,
    Parameters,
    State,
    held,
    in_channel,
    is_protocol_enabled,
    row_bound_of,
    sum_permits,
    total,
)

__all__ = ["PROBES"]

Probe = Callable[[State, Parameters], bool]


def _rows(state: State) -> int:
    return sum(message.rows for message in in_channel(state))


def _is_blocked(state: State) -> bool:
    if state.waiting.is_empty():
        return False
    head = state.waiting.head()
    return head.kind == "chunk" and head.cost > state.permits.rows


def _barrier_waits(state: State) -> bool:
    return any(message.kind == "barrier" for message in state.waiting)


def _is_everywhere(state: State) -> bool:
    queues = (state.wire, state.inbox, state.grants)
    return state.permits.rows > 0 and state.unreturned > 0 and not any(queue.is_empty() for queue in queues)


def _most_rows(parameters: Parameters) -> int:
    return row_bound_of(parameters.row_count, parameters.clamp, max(parameters.sizes, default=0))


def _returned_rows(state: State) -> int:
    return sum_permits(state.grants).rows


def _rows_in_flight(state: State) -> int:
    return sum_permits(map(held, state.wire)).rows


_PROBES: Mapping[str, Probe] = {
    "SenderNeverWaitsProbe": lambda state, _: not _is_blocked(state),
    "PermitsNeverUsedUpProbe": lambda state, _: state.permits.rows > 0,
    "NeverTwoInInboxProbe": lambda state, _: state.inbox.size() < 2,
    "GrantNeverAboveBatchProbe": lambda state, parameters: all(
        grant.rows <= parameters.batch for grant in state.grants
    ),
    "PermitsNeverEverywhereProbe": lambda state, _: not _is_everywhere(state),
    "WholeWithoutFlushProbe": lambda state, parameters: (
        is_protocol_enabled(state, parameters) or state.permits == total(parameters)
    ),
    "RowCountNeverExceededProbe": lambda state, parameters: _rows(state) <= parameters.row_count,
    "RowBoundNeverReachedProbe": lambda state, parameters: _rows(state) < _most_rows(parameters),
    "EmptyChunkFreeProbe": lambda state, _: sum_permits(map(held, in_channel(state))).rows <= _rows(state),
    "BarrierNeverWaitsForRowsProbe": lambda state, _: (
        not _barrier_waits(state) or state.permits.barriers == 0 or not _is_blocked(state)
    ),
    "BarrierNeverStuckProbe": lambda state, parameters: (
        not _barrier_waits(state) or is_protocol_enabled(state, parameters)
    ),
    "WatermarkNeverConflatedProbe": lambda state, _: state.watermark_pending < 0 or state.permits.watermarks == 1,
    "MailWrongSignProbe": lambda state, parameters: (
        state.permits.rows + _returned_rows(state) == parameters.row_count + _rows_in_flight(state)
    ),
    "MailWithoutPendingProbe": lambda state, parameters: (
        state.permits.rows + _returned_rows(state) + _rows_in_flight(state) == parameters.row_count
    ),
}

PROBES = replace(SYSTEM, module="PermitChannelProbes", invariants={**SYSTEM.invariants, **_PROBES})
"""The permit channel with its probes beside its invariants."""
