"""The idle flush: no batching deadlock, and an idle channel that holds all its permits again."""

from functools import partial

from permitflow_model.permit_channel import SYSTEM, Parameters, State, is_protocol_enabled, total
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import CHANNEL, any_parameters, channel
from permitflow_proofs.permit_channel.piling import gets_stuck
from permitflow_proofs.permit_channel.stuck import is_live, largest_cost

__all__ = ["idle_theorems"]


def _flushing() -> Parameters:
    return any_parameters(flush_idle=True)


def _fits(parameters: Parameters, excess: int) -> None:
    assume(largest_cost(parameters) <= parameters.row_count + excess)


def _never_fits(nearer: int) -> bool:
    parameters = _flushing()
    assume(largest_cost(parameters) > parameters.row_count - nearer)
    return gets_stuck(parameters, 0, max(parameters.sizes))


def _whole_also_without_flush(state: State, parameters: Parameters) -> bool:
    return is_protocol_enabled(state, parameters) or state.permits == total(parameters)


def idle_theorems() -> tuple[Theorem, ...]:
    """With the idle flush."""
    return (
        Theorem(
            id="flush-idle",
            statement=(
                "If an idle receiver returns its residue: live if and only if no chunk costs more than ROW_COUNT, "
                "whatever the batches."
            ),
            module="PermitChannel",
            operator="Flush",
            obligations=(
                SymbolicObligation(
                    "if",
                    partial(is_live, _flushing, _fits, 0),
                    partial(is_live, _flushing, _fits, 1),
                    "chunks of ROW_COUNT + 1",
                ),
                SymbolicObligation(
                    "only if: a larger chunk is stuck as soon as it is offered",
                    lambda: _never_fits(0),
                    lambda: _never_fits(1),
                    "chunks of ROW_COUNT",
                ),
            ),
        ),
        Theorem(
            id="whole-when-idle",
            statement="With the idle flush, a channel in which nothing can move holds all its permits again.",
            module="PermitChannel",
            operator="WholeWhenIdle",
            obligations=(
                CHANNEL.holds_whenever_invariant(
                    "in every state", SYSTEM.invariants["WholeWhenIdle"], _whole_also_without_flush, "without the flush"
                ),
                channel(flush_idle=True).holds_whenever_invariant(
                    "with the flush on",
                    _whole_also_without_flush,
                    lambda state, _parameters: state.unreturned == 0,
                    "also while something moves",
                ),
            ),
        ),
    )
