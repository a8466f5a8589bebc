"""The protocol comes to rest: every step of its own brings every permit nearer to home.

The rank counts, for each permit, how many places it still has to pass.  It falls with every action of the protocol,
so what waits is served, or stuck, after boundedly many of them.
"""

from collections.abc import Iterator
from functools import cache

from permitflow_model.kernel.explore import explore
from permitflow_model.permit_channel import SYSTEM, Parameters, State, carried_by, held_by
from permitflow_proofs.kernel.exhaustive import ExhaustiveObligation
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import CHANNEL, amount, any_parameters, any_state

__all__ = ["rank", "rank_bound", "theorems"]


def rank(state: State, parameters: Parameters) -> int:
    """How far all permits together still have to go; falls with every action of the protocol."""
    barrier = 1 if state.barrier_waiting else 0
    watermark = 1 if state.watermark_pending >= 0 else 0
    return (
        5 * (amount(held_by(state.waiting)) + barrier + watermark)
        + 4 * amount(held_by(state.wire))
        + 3 * amount(held_by(state.inbox))
        + 2 * state.unreturned
        + amount(carried_by(state.grants))
    )


def rank_bound(parameters: Parameters) -> int:
    """The largest rank that a state can have when one chunk waits."""
    return 5 * (parameters.clamp + 2) + 4 * (parameters.row_count + parameters.barrier_permits + 1)


def _rank_falls(before: State, after: State, parameters: Parameters) -> bool:
    return rank(after, parameters) < rank(before, parameters)


def _rank_falls_by_more(before: State, after: State, parameters: Parameters) -> bool:
    return rank(after, parameters) < rank(before, parameters) - 4 * parameters.clamp


def _rank_is_natural(state: State, parameters: Parameters) -> bool:
    return rank(state, parameters) >= 0


def _rank_is_positive(state: State, parameters: Parameters) -> bool:
    return rank(state, parameters) > 0


def _rank_is_bounded(slack: int) -> bool:
    parameters = any_parameters(waiters=1)
    state = any_state(parameters)
    if not state.waiting.is_empty():
        # The one chunk that waits is all that the queue sums up: look at it, and at what is left.
        assume(amount(held_by(state.waiting.without_head())) >= 0)
    return rank(state, parameters) <= rank_bound(parameters) - slack


# The exact response on small channels.


def _tight(row_count: int, batch: int) -> Parameters:
    largest = row_count - batch + 1
    return Parameters(row_count=row_count, batch=batch, clamp=largest, sizes=tuple(range(1, largest + 1)))


def _cases() -> Iterator[Parameters]:
    for row_count in range(1, 6):
        for batch in range(1, row_count + 1):
            yield _tight(row_count, batch)


@cache
def longest_wait(parameters: Parameters) -> int:
    """The most protocol steps, over all reachable states, until the chunk that waits has been sent."""

    @cache
    def steps(state: State) -> int:
        found = 0
        for step in SYSTEM.successors(state, parameters):
            if not SYSTEM.action(step.action).is_environment:
                found = max(found, 1 + (0 if step.action == "SendChunk" else steps(step.state)))
        return found

    return max(steps(state) for state in explore(SYSTEM, parameters).states if not state.waiting.is_empty())


def _response_is_exact(parameters: Parameters) -> bool:
    return longest_wait(parameters) == 2 * parameters.row_count + parameters.row_count // parameters.batch + 1


def _response_is_shorter(parameters: Parameters) -> bool:
    return longest_wait(parameters) < 2 * parameters.row_count + parameters.row_count // parameters.batch + 1


def theorems() -> tuple[Theorem, ...]:
    """Progress, and the response it gives."""
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
                    CHANNEL.protocol_actions(), _rank_falls, _rank_falls_by_more, "it falls by more than any step moves"
                ),
                CHANNEL.holds_whenever_invariant("never negative", _rank_is_natural, _rank_is_positive, "never 0"),
            ),
        ),
        Theorem(
            id="bounded-response",
            statement=(
                "A channel that is not stuck serves the waiting chunk within 5 (C + 2) + 4 (R + barrier permits + 1) "
                "steps of the protocol; C is the clamp, R is ROW_COUNT."
            ),
            module="PermitChannel",
            operator="SendChunk",
            obligations=(
                SymbolicObligation(
                    "no rank is higher",
                    lambda: _rank_is_bounded(0),
                    lambda: _rank_is_bounded(5),
                    "the bound is five lower",
                ),
            ),
        ),
        Theorem(
            id="exact-response",
            statement=(
                "At the tight clamp R - BATCH + 1 a chunk that waits is sent within exactly 2 R + floor(R / BATCH) + 1 "
                "steps of the protocol."
            ),
            module="PermitChannel",
            operator="SendChunk",
            scope="bounded: R <= 5, every BATCH, every chunk size",
            tool="explorer",
            obligations=(
                ExhaustiveObligation(
                    "longest run of protocol steps to SendChunk",
                    _cases,
                    _response_is_exact,
                    _response_is_shorter,
                    "one step fewer",
                    lambda case: {"row_count": case.row_count, "batch": case.batch},
                ),
            ),
        ),
    )
