"""Mistakes made on purpose in one action of a model: which clauses of its inductive invariant break?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.obligation import decide

S = TypeVar("S")
P = TypeVar("P")


@dataclass(frozen=True)
class Fault:
    """A faulty action, and the clause that it breaks."""

    action: str
    perform: Callable[..., Any]
    breaks: str

    def __str__(self) -> str:
        return self.perform.__name__


def with_fault(fault: Fault, subject: Subject[S, P]) -> Subject[S, P]:
    """The same system with one action replaced."""
    actions = tuple(
        replace(action, perform=fault.perform) if action.name == fault.action else action
        for action in subject.system.actions
    )
    return replace(subject, system=replace(subject.system, actions=actions))


def is_kept(clause: Clause[S, P], subject: Subject[S, P], action: str) -> bool:
    """Is it proved that the action keeps the clause?"""
    (obligation,) = (
        one
        for one in subject.induction(clause, lambda state, _parameters: state, "no fault")
        if one.name == f"kept by {action}"
    )
    return decide(obligation.claim).outcome == "proved"


def refuted_clauses(invariant: Mapping[str, Clause[S, P]], subject: Subject[S, P], action: str) -> set[str]:
    """The clauses that the action does not keep."""
    return {name for name, clause in invariant.items() if not is_kept(clause, subject, action)}
