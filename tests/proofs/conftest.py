"""Each theorem is proved once in a session, by both solvers."""

from collections.abc import Callable
from functools import cache

import pytest

from permitflow_proofs import Verdict, catalogue, prove


@pytest.fixture(scope="session")
def verdict_on() -> Callable[[str], Verdict]:
    """The verdict on the theorem of this name."""
    theorems = {theorem.id: theorem for theorem in catalogue()}

    @cache
    def verdict(name: str) -> Verdict:
        return prove(theorems[name], "both")

    return verdict
