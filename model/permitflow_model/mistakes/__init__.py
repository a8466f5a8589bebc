"""Mistakes on purpose: changed actions of the models, one table per protocol, each with the clause that it breaks.

A mistake is written once, here.  Its proof must fail and the explorer must find the run
(``tests/proofs/test_mistakes.py``); the conformance kit must name it where it has a rule that is about it
(``tests/permitflow_testing/test_mistakes.py``).
A mistaken action calls the right one and changes its input or output: no guard or update is written twice.  Mistakes
that rules can make (a guard left out, one more, twice) are made by ``tools/model_mutants.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from permitflow_model.kernel.system import System

__all__ = ["Mistake", "mistaken"]

S = TypeVar("S")
P = TypeVar("P")


@dataclass(frozen=True)
class Mistake:
    """A changed action, and the clause that it breaks."""

    action: str
    perform: Callable[..., Any]
    breaks: str
    """A clause of the inductive invariant, which the action no longer keeps."""
    parameters: Any = None
    """With these the explorer finds a run into a broken invariant; None: only the inductive invariant notices it."""
    rule: str = ""
    """The rule of the conformance kit that names it; empty: the kit has none."""

    def __str__(self) -> str:
        return self.perform.__name__.replace("_", " ")


def mistaken(system: System[S, P], *mistakes: Mistake) -> System[S, P]:
    """The same system with these actions instead of its own."""
    wrong = {mistake.action: mistake.perform for mistake in mistakes}
    actions = tuple(replace(each, perform=wrong.get(each.name, each.perform)) for each in system.actions)
    return replace(system, actions=actions)
