"""Live or not, for given numbers: the formula decides, and the solver proves the verdict again."""

from collections.abc import Mapping, Sequence

from permitflow_model import thresholds
from permitflow_model.permit_channel import never_stuck
from permitflow_model.thresholds import Decision, Undecided, safe_max_chunk_cost
from permitflow_proofs.kernel import obligation
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.permit_channel.arbitrary import any_parameters, any_state

__all__ = ["Decision", "Undecided", "decide", "safe_max_chunk_cost"]

# The catalogue's theorems cover these too, and save half a second for each answer.
_BESIDE_THE_POINT: Mapping[str, int | bool] = {"tags": 1, "waiters": 1, "withdrawals": False, "watermarks": False}


def decide(
    row_permits: int,
    permit_batch: int,
    max_chunk_cost: int | None = None,
    *,
    sizes: Sequence[int] | None = None,
    flush_idle: bool = False,
    permit_batch_up: int | None = None,
) -> Decision:
    """As ``thresholds.decide``; of a live channel, Z3 proves it for these numbers.

    Raises:
        ValueError: a number is out of its range.
        Undecided: the solver gave up, or does not confirm the formula.
    """
    decision = thresholds.decide(
        row_permits,
        permit_batch,
        max_chunk_cost,
        sizes=sizes,
        flush_idle=flush_idle,
        permit_batch_up=permit_batch_up,
    )
    if decision.is_live:
        residue = decision.largest_residue
        _prove_live(row_permits, permit_batch, decision.largest_cost, residue, flush_idle=flush_idle)
    return decision


def _prove_live(row_permits: int, permit_batch: int, largest: int, residue: int, *, flush_idle: bool) -> None:
    def claim() -> bool:
        parameters = any_parameters(
            row_permits=row_permits,
            permit_batch=permit_batch,
            max_chunk_cost=largest,
            flush_idle=flush_idle,
            **_BESIDE_THE_POINT,
        )
        state = any_state(parameters)
        assume(state.unreturned <= residue)
        return never_stuck(state, parameters)

    found = obligation.decide(claim)
    if found.outcome != "proved" or found.reached == 0:
        raise Undecided(f"the solver says {found.outcome} where the theorem says live ({found.counterexample})")
