"""Mistakes made on purpose in one action of a model: is a clause still kept, and what run breaks an invariant?"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

from permitflow_model import mistakes
from permitflow_model.kernel.explore import Violation, explore
from permitflow_model.kernel.system import System
from permitflow_model.mistakes import Mistake, mistaken
from permitflow_model.registry import systems
from permitflow_model.tla_values import camel_case
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.obligation import decide

S = TypeVar("S")
P = TypeVar("P")


def with_mistake(mistake: Mistake, subject: Subject[S, P]) -> Subject[S, P]:
    """The same system with one action replaced."""
    return replace(subject, system=mistaken(subject.system, mistake))


def verdict_on(clause: Clause[S, P], subject: Subject[S, P], action: str) -> str:
    """Is it proved that the action keeps the clause, or refuted?"""
    (obligation,) = (
        one
        for one in subject.induction(clause, lambda state, _parameters: state, "no fault")
        if one.name == f"kept by {action}"
    )
    return decide(obligation.claim).outcome


def system_with(protocol: str) -> System[Any, Any]:
    """The system of the model whose file has this name."""
    return systems()[camel_case(f"_{protocol}")].system


def run_into(system: System[S, P], mistake: Mistake) -> Violation[S] | None:
    """A shortest run of the mistaken system that breaks the mistake's invariant; any, if the specification has none."""
    wrong = mistaken(system, mistake)
    own = {name: holds for name, holds in wrong.invariants.items() if name == mistake.breaks}
    graph = explore(
        wrong,
        mistake.parameters,
        invariants=own or None,
        at_rest=lambda _state, _parameters: True,
        max_states=50_000,
        stop_at_violation=True,
    )
    return graph.violations[0] if graph.violations else None


@cache
def tables() -> Mapping[str, tuple[Mistake, ...]]:
    """All mistakes, by the names of their models' files."""
    names = [module.name for module in iter_modules(mistakes.__path__)]
    return {name: import_module(f"{mistakes.__name__}.{name}").MISTAKES for name in names}


def is_seen_in_tla(protocol: str, mistake: Mistake) -> bool:
    """Can TLC tell by a state alone that the invariant is broken?

    ``NeverStuck`` asks what can happen next, by the mistaken actions.  A graph of stages is no constant of TLA+.
    """
    is_stated = mistake.breaks in system_with(protocol).invariants and mistake.breaks != "NeverStuck"
    return is_stated and mistake.parameters is not None and protocol != "stage_graph"
