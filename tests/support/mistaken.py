"""Mistakes made on purpose in one action of a model: is a clause of its inductive invariant still kept?"""

from dataclasses import replace
from typing import TypeVar

from permitflow_model.mistakes import Mistake, mistaken
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.obligation import decide

S = TypeVar("S")
P = TypeVar("P")


def with_mistake(mistake: Mistake, subject: Subject[S, P]) -> Subject[S, P]:
    """The same system with one action replaced."""
    return replace(subject, system=mistaken(subject.system, mistake))


def is_kept(clause: Clause[S, P], subject: Subject[S, P], action: str) -> bool:
    """Is it proved that the action keeps the clause?"""
    (obligation,) = (
        one
        for one in subject.induction(clause, lambda state, _parameters: state, "no fault")
        if one.name == f"kept by {action}"
    )
    return decide(obligation.claim).outcome == "proved"
