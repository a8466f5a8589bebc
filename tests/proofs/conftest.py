"""Each theorem is proved once in a session: by Z3, or by both solvers where a test asks for both."""

from typing import Protocol

import pytest

from permitflow_proofs import Verdict, catalogue, prove
from permitflow_proofs.kernel.theorem import Solvers


class VerdictOn(Protocol):
    """Gives the verdict on the theorem of this name."""

    def __call__(self, name: str, solvers: Solvers = "z3") -> Verdict: ...


@pytest.fixture(scope="session")
def verdict_on() -> VerdictOn:
    """The verdict on the theorem of this name, by these solvers or by both."""
    theorems = {theorem.id: theorem for theorem in catalogue()}
    known: dict[str, Verdict] = {}

    def verdict(name: str, solvers: Solvers = "z3") -> Verdict:
        if name not in known or known[name].solvers not in (solvers, "both"):
            known[name] = prove(theorems[name], solvers)
        return known[name]

    return verdict
