"""Theorems about the permit channel: conservation, threshold, progress and refinement."""

from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel import frames, inductive, oversize, progress, refinement, stuck

_TOPICS = (
    inductive.theorems,
    inductive.bound_theorems,
    inductive.order_theorems,
    refinement.theorems,
    oversize.theorems,
    stuck.theorems,
    stuck.cost_set_theorems,
    stuck.idle_theorems,
    progress.theorems,
    progress.delivery_theorems,
    progress.response_theorems,
    inductive.grant_theorems,
    inductive.statements_of_2014,
    frames.theorems,
)


def theorems() -> tuple[Theorem, ...]:
    """All of them, in the order in which they build on each other."""
    return tuple(theorem for topic in _TOPICS for theorem in topic())
