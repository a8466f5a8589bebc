"""When a channel can get stuck, and when never: the exact thresholds, in both directions.

Live means: in no state that satisfies the inductive invariant does anybody wait while the protocol cannot move.
The converse is shown by runs with symbolic parameters (``piling.py``).
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.permit_channel import (
    Parameters,
    cost_of,
    is_stuck,
    never_stuck,
)
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume, merged, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import any_parameters, any_state
from permitflow_proofs.permit_channel.piling import gets_stuck, piling

__all__ = ["Premise", "is_live", "largest_cost", "live_below", "published", "theorems"]

Premise = Callable[[Parameters, int], None]
"""Assumes something about parameters; the number is 0, or by how much the twin oversteps."""


def largest_cost(parameters: Parameters) -> int:
    """The most that a chunk costs."""
    cost = natural("largest_cost", 1)
    assume(merged(lambda: cost == cost_of(max(parameters.sizes), parameters)))
    return cost


def published() -> Parameters:
    """Any parameters of the published protocol."""
    return any_parameters(flush_idle=False)


def live_below(parameters: Parameters, largest_residue: int) -> bool:
    """Is nobody ever stuck, if the receiver never keeps back more than this?  (To be called in a claim.)"""
    state = any_state(parameters)
    assume(state.unreturned <= largest_residue)
    return never_stuck(state, parameters)


def is_live(make: Callable[[], Parameters], premise: Premise, too_far: int) -> bool:
    """The premise leaves nobody stuck, in any state."""
    parameters = make()
    premise(parameters, too_far)
    return never_stuck(any_state(parameters), parameters)


def _is_reached(premise: Premise, too_near: int) -> bool:
    """Beyond the threshold: the residue that makes the most expensive chunk wait stays below BATCH, and sticks."""
    parameters = published()
    premise(parameters, too_near)
    needed = max(0, parameters.row_count - largest_cost(parameters) + 1)
    return needed < parameters.batch and gets_stuck(parameters, needed, max(parameters.sizes))


def _both_directions(if_live: Premise, if_stuck: Premise) -> tuple[SymbolicObligation, ...]:
    return (
        SymbolicObligation(
            "if", partial(is_live, published, if_live, 0), partial(is_live, published, if_live, 1), "by one more"
        ),
        *piling(published),
        SymbolicObligation(
            "only if: beyond, the most expensive chunk is stuck behind a pile of others",
            partial(_is_reached, if_stuck, 0),
            partial(_is_reached, if_stuck, 1),
            "also at the threshold",
        ),
    )


# The premises.  The receiver returns rows when it holds at least BATCH.


def _costs_at_most_clamp(parameters: Parameters, excess: int) -> None:
    # The twin must overstep the exact threshold, which is one above.
    assume(largest_cost(parameters) <= parameters.row_count - parameters.batch + 2 * excess)


def _costs_at_most(parameters: Parameters, excess: int) -> None:
    assume(largest_cost(parameters) <= parameters.row_count - parameters.batch + 1 + excess)


def _costs_more(parameters: Parameters, nearer: int) -> None:
    assume(largest_cost(parameters) > parameters.row_count - parameters.batch + 1 - nearer)


# "More than BATCH" is "at least BATCH + 1".


def _strict(parameters: Parameters) -> int:
    batch = natural("strict_batch")
    assume(parameters.batch == batch + 1)
    return batch


def _strict_costs_at_most(parameters: Parameters, excess: int) -> None:
    assume(largest_cost(parameters) <= parameters.row_count - _strict(parameters) + excess)


def _strict_costs_more(parameters: Parameters, nearer: int) -> None:
    assume(largest_cost(parameters) > parameters.row_count - _strict(parameters) - nearer)


def _strictness(wrong: int) -> bool:
    held, batch = natural("held_by_receiver"), natural("strict_batch")
    return (held > batch) == (held >= batch + 1 + wrong)


# The sender clamps by its own batch.


def _clamped_by(parameters: Parameters) -> int:
    batch_up = natural("batch_up")
    assume(parameters.clamp == parameters.row_count - batch_up)
    return batch_up


def _batches_match(parameters: Parameters, excess: int) -> None:
    assume(parameters.batch <= _clamped_by(parameters) + 1 + excess)


def _batches_differ(parameters: Parameters, nearer: int) -> None:
    assume(parameters.batch > _clamped_by(parameters) + 1 - nearer)
    assume(max(parameters.sizes) >= parameters.clamp)


# Barriers.


def _barrier_is_never_stuck(lost: int) -> bool:
    parameters = any_parameters()
    state = any_state(parameters)
    if state.waiting.is_empty() or state.waiting.head().kind != "barrier":
        return True
    permits = state.permits._replace(barriers=state.permits.barriers - lost)
    return not is_stuck(state._replace(permits=permits), parameters)


# What the decision for given numbers uses.


def _is_live_with_residue(too_far: int) -> bool:
    parameters = published()
    residue = natural("largest_residue")
    assume(largest_cost(parameters) <= parameters.row_count - residue + too_far)
    return live_below(parameters, residue)


def _thresholds() -> tuple[Theorem, ...]:
    return (
        Theorem(
            id="never-stuck",
            statement="Nobody is ever stuck if no chunk costs more than ROW_COUNT - BATCH.",
            module="PermitChannel",
            operator="NeverStuck",
            obligations=(
                SymbolicObligation(
                    "in every state",
                    partial(is_live, published, _costs_at_most_clamp, 0),
                    partial(is_live, published, _costs_at_most_clamp, 1),
                    "ROW_COUNT - BATCH + 2",
                ),
            ),
        ),
        Theorem(
            id="threshold",
            statement=(
                "The exact threshold (rows return when at least BATCH are held): live if and only if no chunk may cost "
                "more than ROW_COUNT - BATCH + 1."
            ),
            module="PermitChannel",
            operator="NeverStuck",
            obligations=_both_directions(_costs_at_most, _costs_more),
        ),
        Theorem(
            id="threshold-strict",
            statement=(
                "If rows return only when more than BATCH are held, the published clamp is exact: live if and only if "
                "no chunk may cost more than ROW_COUNT - BATCH."
            ),
            module="PermitChannel",
            operator="Consume",
            obligations=(
                SymbolicObligation(
                    "more than BATCH is at least BATCH + 1",
                    lambda: _strictness(0),
                    lambda: _strictness(1),
                    "at least BATCH + 2",
                ),
                *_both_directions(_strict_costs_at_most, _strict_costs_more),
            ),
        ),
        Theorem(
            id="mismatched-batches",
            statement=(
                "A sender that clamps at ROW_COUNT - batch_up and a receiver that returns by batch_down are live "
                "if and only if batch_down <= batch_up + 1."
            ),
            module="PermitChannel",
            operator="Cost",
            obligations=_both_directions(_batches_match, _batches_differ),
        ),
        Theorem(
            id="largest-residue",
            statement="If the receiver keeps back at most a permits, chunks of up to ROW_COUNT - a are never stuck.",
            module="PermitChannel",
            operator="Stuck",
            obligations=(
                SymbolicObligation(
                    "in every state",
                    lambda: _is_live_with_residue(0),
                    lambda: _is_live_with_residue(1),
                    "one permit more",
                ),
            ),
        ),
    )


def theorems() -> tuple[Theorem, ...]:
    """Who can get stuck."""
    return (
        *_thresholds(),
        Theorem(
            id="barrier-never-stuck",
            statement=(
                "A barrier at the head of the line is never stuck: one barrier permit is enough. "
                "Behind a chunk it is live where chunks are."
            ),
            module="PermitChannel",
            operator="SendBarrier",
            obligations=(
                SymbolicObligation(
                    "in every state",
                    lambda: _barrier_is_never_stuck(0),
                    lambda: _barrier_is_never_stuck(1),
                    "a barrier permit has been lost",
                ),
            ),
        ),
    )
