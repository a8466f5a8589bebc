"""Decides by the theorems whether two ends with their own numbers can get stuck.

The formulas of the theorems decide; with ``permitflow[proofs]`` installed, a solver proves each verdict again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from permitflow.errors import PermitflowError
from permitflow_tools.simulation.setting import (
    SimulationSetting,
    agreement,
    costs_of,
    disagreements,
    largest_cost,
    most_outstanding,
)

if TYPE_CHECKING:
    from permitflow_model.thresholds import Decision

# The most sums of sizes to examine, about ten seconds; beyond it, the question covers every size up to the largest.
_MOST_RESIDUES = 20_000_000
_WIDER = "these sizes have too many sums to try, so it is taken that every size up to the largest may come"
# So many places are few enough to count in how many ways costs may fill them.
_FEW = 1_000


ChannelVerdict = Literal[
    "live", "deadlock", "overspend", "refused", "violation", "impossible", "too large", "undecided"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result for one combination of numbers."""

    values: Mapping[str, int]
    """Rows, by the name of the axis."""
    verdict: ChannelVerdict
    reason: str
    """The reason of the verdict, in words."""
    run: tuple[str, ...] = ()
    """The actions of a shortest run into a deadlock."""
    largest_cost: int | None = None
    """The most a chunk costs here."""
    safe_max_chunk_cost: int | None = None
    """The most a chunk may cost, as the theorems say; only if decided."""
    safe_permit_batch: int | None = None
    """The largest batch with which such chunks are live, as the theorems say; only if decided."""
    states: int | None = None
    """Number of reachable states; only if explored."""
    depth: int | None = None
    """States on the longest shortest path; only if explored."""
    seconds: float = 0.0
    """Duration of the check."""

    @property
    def holds(self) -> bool:
        """Is it live, and nothing else wrong?"""
        return self.verdict == "live"


@dataclass(frozen=True)
class PairVerdict:
    """The verdict about two ends, with its grounds."""

    setting: SimulationSetting
    decision: "Decision"
    overspend: str
    """How the upstream may exceed what the downstream allows; empty if it may not."""
    refusal: str
    """Why a handshake refuses two ends that disagree; empty if it does not."""

    @property
    def verdict(self) -> ChannelVerdict:
        """The verdict in one word."""
        if not self.decision.is_live:
            return "deadlock"
        return "overspend" if self.overspend else "refused" if self.refusal else "live"


def answer_for(setting: SimulationSetting) -> PairVerdict:
    """Examine two ends.

    Raises:
        Undecided: the solver, or the model, does not confirm the formula.
    """
    agreed = agreement(setting) if disagreements(setting) else None
    refusal = agreed.message if isinstance(agreed, PermitflowError) else ""
    return PairVerdict(setting, decided(setting), overspend_of(setting), refusal)


def decided(setting: SimulationSetting) -> "Decision":
    """Whether the sender of the one and the receiver of the other can get stuck.

    Raises:
        Undecided: the solver, or the model, does not confirm the formula.
    """
    decide = _decide()
    sender, receiver, costs = setting.sender, setting.receiver, costs_of(setting)
    is_published = sender.max_chunk_cost == sender.row_permits - sender.permit_batch
    differ = sender.permit_batch != receiver.permit_batch
    # A chunk that costs as much as the batch leaves no residue; of the others, only the largest can wait for ever.
    relevant = (
        None if costs is None else tuple(cost for cost in costs if cost < receiver.permit_batch or cost == costs[-1])
    )
    is_wider = relevant is not None and len(relevant) * _most_residues(relevant, receiver.permit_batch) > _MOST_RESIDUES
    decision = decide(
        sender.row_permits,
        receiver.permit_batch,
        largest_cost(setting),
        sizes=None if is_wider else relevant,
        flush_idle=setting.flush_idle,
        permit_batch_up=sender.permit_batch if differ and is_published else None,
    )
    if decision.is_live or not is_wider:
        return decision
    return replace(decision, explanation=f"{decision.explanation}; {_WIDER}")


def _most_residues(costs: Sequence[int], permit_batch: int) -> int:
    """No more than so many sums of these costs, each as often as wanted, are below the batch."""
    smaller = [cost for cost in costs if cost < permit_batch]
    if not smaller:
        return 1
    multiples = permit_batch // math.gcd(*smaller) + 1
    places = permit_batch // min(smaller) + len(smaller)
    return min(multiples, math.comb(places, len(smaller))) if places <= _FEW else multiples


def is_proved_again() -> bool:
    """Is the solver installed that proves each verdict again?"""
    try:
        import permitflow_proofs  # noqa: F401  # that it is there
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        return False
    return True


def _decide() -> "Callable[..., Decision]":
    from permitflow_model import thresholds

    if not is_proved_again():
        return thresholds.decide
    from permitflow_proofs import decide

    return decide


def finding_of(setting: SimulationSetting, values: Mapping[str, int]) -> Finding:
    """The theorems' result for one combination of numbers."""
    from permitflow_model.thresholds import Undecided

    try:
        answer = answer_for(setting)
    except Undecided as error:
        return Finding(values=values, verdict="undecided", reason=str(error))
    decision = answer.decision
    return Finding(
        values=values,
        verdict=answer.verdict,
        reason={"overspend": answer.overspend, "refused": answer.refusal}.get(answer.verdict, decision.explanation),
        run=() if decision.run is None else tuple(step.call for step in decision.run.steps),
        largest_cost=decision.largest_cost,
        safe_max_chunk_cost=decision.safe_max_chunk_cost,
        safe_permit_batch=decision.safe_permit_batch,
    )


def overspend_of(setting: SimulationSetting) -> str:
    """How the upstream may exceed what the downstream allows; empty if it may not."""
    sender, receiver = setting.sender, setting.receiver
    if (rows := most_outstanding(setting)) > receiver.row_permits:
        return (
            f"the upstream may have {rows:,} row permits out at once, the downstream allows {receiver.row_permits:,}: "
            "permitflow's receiver refuses what exceeds them, and one that does not look holds more than it was told"
        )
    if sender.barrier_permits > receiver.barrier_permits:
        return (
            f"the upstream may have {sender.barrier_permits:,} barriers out at once, the downstream allows "
            f"{receiver.barrier_permits:,}: permitflow's receiver refuses what exceeds them"
        )
    return ""
