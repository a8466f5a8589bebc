"""The protocol comes to rest: every step of its own brings every permit nearer to home.

The rank counts, for each permit, how many places it still has to pass.  It falls with every action of the protocol,
so what waits is served, or stuck, after boundedly many of them.
"""

from functools import partial

from permitflow_model.permit_channel import Parameters, State, carried_by, held_by
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import CHANNEL, amount

__all__ = ["rank", "theorems"]


def rank(state: State, _parameters: Parameters) -> int:
    """How far all permits together still have to go; falls with every action of the protocol."""
    watermark = 1 if state.watermark_pending >= 0 else 0
    return (
        5 * (amount(held_by(state.waiting)) + watermark)
        + 4 * amount(held_by(state.wire))
        + 3 * amount(held_by(state.inbox))
        + 2 * state.unreturned
        + amount(carried_by(state.grants))
    )


def _rank_falls(before: State, after: State, parameters: Parameters) -> bool:
    return rank(after, parameters) < rank(before, parameters)


def _rank_falls_by_two(before: State, after: State, parameters: Parameters) -> bool:
    return rank(after, parameters) < rank(before, parameters) - 1


def _rank_is_natural(state: State, parameters: Parameters) -> bool:
    return rank(state, parameters) >= 0


def _rank_is_positive(state: State, parameters: Parameters) -> bool:
    return rank(state, parameters) > 0


def _steps_are_few(fewer: int) -> bool:
    """What a falling rank comes to: there are no more steps of the protocol than the rank was at first."""
    parameters = CHANNEL.any_parameters()
    state, steps, first = CHANNEL.any_state(parameters), natural("steps"), natural("rank_at_first")
    assume(steps + rank(state, parameters) <= first)
    return steps <= first - fewer


def theorems() -> tuple[Theorem, ...]:
    """Progress."""
    return (
        Theorem(
            id="rank-falls",
            statement=(
                "5 waiting + 4 in flight + 3 in the inbox + 2 unreturned + 1 on the way back, in permits, falls with "
                "every step of the protocol: it comes to rest."
            ),
            module="PermitChannel",
            operator="Protocol",
            obligations=(
                *CHANNEL.step_obligations(
                    CHANNEL.protocol_actions(), _rank_falls, _rank_falls_by_two, "it falls by two at least"
                ),
                CHANNEL.holds_whenever_invariant("never negative", _rank_is_natural, _rank_is_positive, "never 0"),
                SymbolicObligation(
                    "so there are no more steps than the rank was at first",
                    partial(_steps_are_few, 0),
                    partial(_steps_are_few, 1),
                    "one step fewer",
                ),
            ),
        ),
    )
