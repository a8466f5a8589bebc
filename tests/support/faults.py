"""Mistakes made on purpose in one action of a model: which clauses of its inductive invariant break?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from permitflow_model.kernel.explore import explore
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


def broken_by(
    fault: Fault, subject: Subject[S, P], invariant: Mapping[str, Clause[S, P]], parameters: P, max_states: int = 50_000
) -> set[str]:
    """The invariants that the explorer finds broken first, with this fault; the proof of its clause must fail, too.

    Without the fault the catalogue's theorems prove that each action keeps each clause.
    """
    faulty = with_fault(fault, subject)
    assert not is_kept(invariant[fault.breaks], faulty, fault.action)
    graph = explore(faulty.system, parameters, stop_at_violation=True, max_states=max_states)
    return {violation.invariant for violation in graph.violations}
