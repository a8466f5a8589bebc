"""What becomes of everything that was offered: where the protocol can do nothing more, all of it has been consumed.

``rank-falls`` says that the protocol comes to rest, and ``bounded-response`` when; this says where.
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.permit_channel import NO_WATERMARK, Parameters, State, is_protocol_enabled
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import any_parameters
from permitflow_proofs.permit_channel.ordering import NUMBERED
from permitflow_proofs.permit_channel.stuck import largest_cost

__all__ = ["delivery_theorems"]


def _nothing_under_way(state: State) -> bool:
    return state.wire.is_empty() and state.inbox.is_empty() and state.grants.is_empty()


def _all_consumed(state: State) -> bool:
    return (
        state.waiting.is_empty()
        and state.watermark_pending == NO_WATERMARK
        and state.newest_watermark == "heard"
        and _nothing_under_way(state)
        and state.consumed == state.offered
    )


def _at_rest(parameters: Parameters, holds: Callable[[State], bool]) -> bool:
    """Does it hold in every state in which the protocol can do nothing?"""
    state = NUMBERED.any_state(parameters)
    return is_protocol_enabled(state, parameters) or holds(state)


def _delivers(excess: int) -> bool:
    parameters = any_parameters(flush_idle=False)
    assume(largest_cost(parameters) <= parameters.row_count - parameters.batch + 1 + excess)
    return _at_rest(parameters, _all_consumed)


def _delivers_flushing(excess: int) -> bool:
    parameters = any_parameters(flush_idle=True)
    assume(largest_cost(parameters) <= parameters.row_count + excess)
    return _at_rest(parameters, _all_consumed)


def delivery_theorems() -> tuple[Theorem, ...]:
    """Delivery."""
    return (
        Theorem(
            id="all-delivered",
            statement=(
                "Where the protocol can do nothing more, nothing is under way; and in a live channel every chunk and "
                "barrier that was offered has been consumed, and the newest watermark."
            ),
            module="PermitChannel",
            operator="EveryChunkDelivered",
            obligations=(
                SymbolicObligation(
                    "nothing is under way, live or not",
                    lambda: _at_rest(any_parameters(), _nothing_under_way),
                    lambda: _at_rest(any_parameters(), _all_consumed),
                    "and nothing waits",
                ),
                SymbolicObligation(
                    "all is consumed if chunks cost at most ROW_COUNT - BATCH + 1",
                    partial(_delivers, 0),
                    partial(_delivers, 1),
                    "one more",
                ),
                SymbolicObligation(
                    "all is consumed if chunks cost at most ROW_COUNT, with the idle flush",
                    partial(_delivers_flushing, 0),
                    partial(_delivers_flushing, 1),
                    "one more",
                ),
            ),
        ),
    )
