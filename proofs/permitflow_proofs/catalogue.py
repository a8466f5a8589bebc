"""All theorems, in the order in which they build on each other."""

from permitflow_proofs import spark_micro_batch
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel import inductive, oversize, progress, refinement, stuck

__all__ = ["catalogue"]

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
    spark_micro_batch.theorems,
    spark_micro_batch.threshold_theorems,
    spark_micro_batch.progress_theorems,
)


def catalogue() -> tuple[Theorem, ...]:
    """Every theorem, each with the obligations that make it one."""
    return tuple(theorem for topic in _TOPICS for theorem in topic())
