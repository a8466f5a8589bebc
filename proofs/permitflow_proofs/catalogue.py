"""All theorems, in the order in which they build on each other."""

from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel import (
    bounds,
    cost_sets,
    delivery,
    grants,
    idle,
    inductive,
    ordering,
    oversize,
    progress,
    refinement,
    response,
    statements,
    stuck,
)
from permitflow_proofs.spark_micro_batch import inductive as spark_inductive
from permitflow_proofs.spark_micro_batch import progress as spark_progress
from permitflow_proofs.spark_micro_batch import thresholds as spark_thresholds

__all__ = ["catalogue"]

_TOPICS = (
    inductive.theorems,
    bounds.bound_theorems,
    ordering.order_theorems,
    refinement.theorems,
    oversize.theorems,
    stuck.theorems,
    cost_sets.cost_set_theorems,
    idle.idle_theorems,
    progress.theorems,
    delivery.delivery_theorems,
    response.response_theorems,
    grants.grant_theorems,
    statements.statements_of_2014,
    spark_inductive.theorems,
    spark_thresholds.threshold_theorems,
    spark_progress.progress_theorems,
)


def catalogue() -> tuple[Theorem, ...]:
    """Every theorem, each with the obligations that make it one."""
    return tuple(theorem for topic in _TOPICS for theorem in topic())
