"""Theorems for all parameters, and decisions for given numbers.

``catalogue`` lists the theorems, ``prove`` examines one, ``prove_catalogue`` many at once, by one solver or two;
``decide`` answers for concrete numbers, ``safe_max_chunk_cost`` gives the largest safe chunk.
"""

from permitflow_proofs.catalogue import catalogue
from permitflow_proofs.kernel.theorem import Theorem, TheoremVerdict, prove
from permitflow_proofs.permit_channel.decision import Decision, Undecided, decide, safe_max_chunk_cost
from permitflow_proofs.proving import prove_catalogue

__all__ = [
    "Decision",
    "Theorem",
    "TheoremVerdict",
    "Undecided",
    "catalogue",
    "decide",
    "prove",
    "prove_catalogue",
    "safe_max_chunk_cost",
]
