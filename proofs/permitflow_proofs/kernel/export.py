"""Verification conditions for another solver, as SMT-LIB.

The condition of an obligation holds together everything that Z3 claimed on the way: each side of a fork that it
pruned, and each path on which the claim would be false.  A second solver that finds it unsatisfiable confirms all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from permitflow_proofs.kernel.obligation import SymbolicObligation, decide
from permitflow_proofs.kernel.theorem import Theorem

__all__ = ["Script", "export"]


@dataclass(frozen=True)
class Script:
    """One question to a solver, and the answer that confirms ours."""

    theorem: str
    obligation: str
    is_twin: bool
    text: str
    """SMT-LIB 2.6, ending in ``(check-sat)``."""

    expected: Literal["sat", "unsat"]


def export(theorem: Theorem) -> Iterator[Script]:
    """What Z3 proved of a theorem, and how it refuted the twins; nothing for what the explorer checked."""
    for obligation in theorem.obligations:
        if isinstance(obligation, SymbolicObligation):
            for is_twin, claim in ((False, obligation.claim), (True, obligation.twin)):
                text = decide(claim).to_smtlib()
                yield Script(theorem.id, obligation.name, is_twin, text, "sat" if is_twin else "unsat")
