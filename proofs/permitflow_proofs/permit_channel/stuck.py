"""When a channel can get stuck, and when never: the exact thresholds, in both directions.

Live means: in no state that satisfies the inductive invariant does anybody wait while the protocol cannot move.
The converse is shown by runs with symbolic parameters: one-row chunks are piled up at the receiver, below its batch,
until the largest chunk no longer fits into what is left.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from permitflow_model.permit_channel import SYSTEM, Parameters, State, is_stuck, never_stuck
from permitflow_proofs.kernel.exhaustive import ExhaustiveObligation
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.runs import Move, shortest_run, take
from permitflow_proofs.kernel.symbols import assume, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import any_parameters, any_state
from permitflow_proofs.permit_channel.residues import stuck_residue

__all__ = ["live_below", "theorems"]

_THERE_AND_CONSUMED: tuple[Move, ...] = (("SendChunk", ()), ("Deliver", ()), ("Consume", ()))


def live_below(parameters: Parameters, largest_residue: int) -> bool:
    """Is nobody ever stuck, if the receiver never keeps back more than this?  (To be called in a claim.)"""
    state = any_state(parameters)
    assume(state.unreturned <= largest_residue)
    return never_stuck(state, parameters)


def _live(excess: int, *, flush_idle: bool = False) -> bool:
    """Chunks cost at most ROW_COUNT - BATCH + excess (with the idle flush: at most ROW_COUNT + excess)."""
    parameters = any_parameters(flush_idle=flush_idle)
    room = parameters.row_count if flush_idle else parameters.row_count - parameters.batch
    assume(parameters.clamp <= room + excess)
    return never_stuck(any_state(parameters), parameters)


def _live_strict(excess: int) -> bool:
    """The receiver returns when it holds more than BATCH: the same as "at least BATCH + 1"."""
    parameters = any_parameters(flush_idle=False)
    batch = natural("strict_batch")
    assume(parameters.batch == batch + 1)
    assume(parameters.clamp <= parameters.row_count - batch + excess)
    return never_stuck(any_state(parameters), parameters)


def _live_mismatched(slack: int) -> bool:
    """The sender clamps at ROW_COUNT - batch_up, the receiver returns with BATCH = batch_down."""
    parameters = any_parameters(flush_idle=False)
    batch_up = natural("batch_up")
    assume(parameters.clamp == parameters.row_count - batch_up)
    assume(parameters.batch <= batch_up + 1 + slack)
    return never_stuck(any_state(parameters), parameters)


def _live_with_residue(slack: int) -> bool:
    parameters = any_parameters(flush_idle=False)
    residue = natural("largest_residue")
    assume(parameters.clamp <= parameters.row_count - residue + slack)
    return live_below(parameters, residue)


# The converse: a run into a stuck state, for every choice of parameters beyond the threshold.


def _at_rest(parameters: Parameters, residue: int) -> State:
    """The receiver keeps ``residue`` permits back, the sender has all others, nothing is under way."""
    start = SYSTEM.initial(parameters)
    return start._replace(permits=start.permits._replace(rows=parameters.row_count - residue), unreturned=residue)


def _starts_at_rest(wrong: int) -> bool:
    parameters = any_parameters(flush_idle=False)
    rest, start = _at_rest(parameters, wrong), SYSTEM.initial(parameters)
    return rest.unreturned == start.unreturned and rest.permits.rows == start.permits.rows


def _piles_up(wrong: int) -> bool:
    """One more chunk of one row: offered, sent, delivered, consumed; and its permit is kept back."""
    parameters = any_parameters(flush_idle=False)
    residue = natural("residue")
    assume(max(parameters.sizes) >= 1)
    assume(residue + 1 < parameters.batch)
    assume(residue + 1 <= parameters.row_count)
    after = take(SYSTEM, parameters, _at_rest(parameters, residue), [("OfferChunk", (1,)), *_THERE_AND_CONSUMED])
    if after is None:
        return False
    expected = _at_rest(parameters, residue + 1 + wrong)
    return (
        after.unreturned == expected.unreturned
        and after.permits.rows == expected.permits.rows
        and after.waiting.is_empty()
        and after.wire.is_empty()
        and after.inbox.is_empty()
        and after.grants.is_empty()
    )


def _ends_stuck(parameters: Parameters, residue: int) -> bool:
    """With so much kept back, a chunk of the largest cost waits for ever."""
    assume(max(parameters.sizes) >= parameters.clamp)
    assume(residue >= 0)
    after = take(SYSTEM, parameters, _at_rest(parameters, residue), [("OfferChunk", (parameters.clamp,))])
    return after is not None and is_stuck(after, parameters)


def _needed_residue(parameters: Parameters) -> int:
    """The smallest residue with which the largest chunk no longer fits."""
    return max(0, parameters.row_count - parameters.clamp + 1)


def _reaches_stuck(excess: int) -> bool:
    """Chunks may cost ROW_COUNT - BATCH + excess or more: the needed residue stays below BATCH, and it sticks."""
    parameters = any_parameters(flush_idle=False)
    assume(parameters.clamp >= parameters.row_count - parameters.batch + excess)
    residue = _needed_residue(parameters)
    return residue < parameters.batch and _ends_stuck(parameters, residue)


def _strict_reaches_stuck(excess: int) -> bool:
    parameters = any_parameters(flush_idle=False)
    batch = natural("strict_batch")
    assume(parameters.batch == batch + 1)
    assume(parameters.clamp >= parameters.row_count - batch + excess)
    residue = _needed_residue(parameters)
    return residue < parameters.batch and _ends_stuck(parameters, residue)


def _mismatched_reaches_stuck(slack: int) -> bool:
    parameters = any_parameters(flush_idle=False)
    batch_up = natural("batch_up")
    assume(parameters.clamp == parameters.row_count - batch_up)
    assume(parameters.batch >= batch_up + slack)
    residue = _needed_residue(parameters)
    return residue < parameters.batch and _ends_stuck(parameters, residue)


def _flushing_reaches_stuck(excess: int) -> bool:
    parameters = any_parameters(flush_idle=True)
    assume(parameters.clamp >= parameters.row_count + excess)
    return _ends_stuck(parameters, 0)


_PILING = (
    SymbolicObligation(
        "the channel starts at rest with residue 0",
        lambda: _starts_at_rest(0),
        lambda: _starts_at_rest(1),
        "it starts with residue 1",
    ),
    SymbolicObligation(
        "from residue a, a one-row chunk leads to residue a + 1",
        lambda: _piles_up(0),
        lambda: _piles_up(1),
        "it leads to residue a + 2",
    ),
)


class _Case(NamedTuple):
    row_count: int
    batch: int
    sizes: tuple[int, ...]


def _cases() -> Iterator[_Case]:
    for row_count in range(1, 7):
        for batch in range(1, row_count + 1):
            for count in (1, 2, 3):
                for sizes in combinations(range(1, row_count + 2), count):
                    yield _Case(row_count, batch, sizes)


def _explorer_finds_stuck(case: _Case) -> bool:
    parameters = Parameters(row_count=case.row_count, batch=case.batch, clamp=max(case.sizes), sizes=case.sizes)
    return shortest_run(SYSTEM, parameters, is_stuck) is not None


def _rule_is_exact(case: _Case) -> bool:
    return (stuck_residue(case.row_count, case.batch, case.sizes) is not None) == _explorer_finds_stuck(case)


def _threshold_is_exact_for_sets(case: _Case) -> bool:
    return (max(case.sizes) > case.row_count - case.batch + 1) == _explorer_finds_stuck(case)


def theorems() -> tuple[Theorem, ...]:
    """Who can get stuck."""
    return (
        Theorem(
            id="never-stuck",
            statement="Nobody is ever stuck if no chunk costs more than ROW_COUNT - BATCH.",
            module="PermitChannel",
            operator="NeverStuck",
            obligations=(
                SymbolicObligation("in every state", lambda: _live(0), lambda: _live(2), "ROW_COUNT - BATCH + 2"),
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
            obligations=(
                SymbolicObligation("if", lambda: _live(1), lambda: _live(2), "one permit more"),
                *_PILING,
                SymbolicObligation(
                    "only if: with the residue piled up, a chunk of ROW_COUNT - BATCH + 2 or more is stuck",
                    lambda: _reaches_stuck(2),
                    lambda: _reaches_stuck(1),
                    "ROW_COUNT - BATCH + 1",
                ),
            ),
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
                SymbolicObligation("if", lambda: _live_strict(0), lambda: _live_strict(1), "one permit more"),
                *_PILING,
                SymbolicObligation(
                    "only if", lambda: _strict_reaches_stuck(1), lambda: _strict_reaches_stuck(0), "one permit fewer"
                ),
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
            obligations=(
                SymbolicObligation("if", lambda: _live_mismatched(0), lambda: _live_mismatched(1), "batch_up + 2"),
                *_PILING,
                SymbolicObligation(
                    "only if",
                    lambda: _mismatched_reaches_stuck(2),
                    lambda: _mismatched_reaches_stuck(1),
                    "batch_down = batch_up + 1",
                ),
            ),
        ),
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
                    lambda: _live(0, flush_idle=True),
                    lambda: _live(1, flush_idle=True),
                    "chunks of ROW_COUNT + 1",
                ),
                SymbolicObligation(
                    "only if",
                    lambda: _flushing_reaches_stuck(1),
                    lambda: _flushing_reaches_stuck(0),
                    "chunks of ROW_COUNT",
                ),
            ),
        ),
        Theorem(
            id="largest-residue",
            statement="If the receiver keeps back at most a permits, chunks of up to ROW_COUNT - a are never stuck.",
            module="PermitChannel",
            operator="Stuck",
            obligations=(
                SymbolicObligation(
                    "in every state", lambda: _live_with_residue(0), lambda: _live_with_residue(1), "one permit more"
                ),
            ),
        ),
        Theorem(
            id="sets-of-sizes",
            statement=(
                "For a set of costs: stuck if and only if some sum a of them, all partial sums below BATCH, and some "
                "cost c have c > ROW_COUNT - a."
            ),
            module="PermitChannel",
            operator="Stuck",
            scope="bounded: ROW_COUNT <= 6, every BATCH, every set of one to three costs up to ROW_COUNT + 1",
            tool="explorer",
            obligations=(
                ExhaustiveObligation(
                    "the rule agrees with the explorer",
                    _cases,
                    _rule_is_exact,
                    _threshold_is_exact_for_sets,
                    "the threshold for all costs up to the largest",
                    lambda case: {"row_count": case.row_count, "batch": case.batch, "sizes": str(case.sizes)},
                ),
            ),
        ),
    )
