"""Mistakes on purpose: changed actions of the models, one table per protocol, each with the clause that it breaks.

A mistake is written once, here.  Its proof must fail and the explorer must find the run
(``tests/proofs/test_mistakes.py``); where that ends, the invariant must be broken in TLA+, too
(``tests/spec/test_mistakes.py``); the conformance kit must name it where it has a rule that is about it
(``tests/permitflow_testing/test_mistakes.py``).
A mistaken action calls the right one and changes its input or output: no guard or update is written twice.  Mistakes
that rules can make (a guard left out, one more, twice) are made by ``tools/model_mutants.py``.

Designs that were published, or are worth a run, have a TLA+ module as well, named ``…Mistakes.tla``:
there an action has the mistake's name, and the manifest says which one it takes the place of.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from permitflow_model.kernel.system import System
from permitflow_model.tla_values import camel_case, snake_case

S = TypeVar("S")
P = TypeVar("P")


@dataclass(frozen=True)
class Mistake:
    """A changed action, and the clause that it breaks."""

    action: str
    perform: Callable[..., Any]
    breaks: str
    """An invariant of the specification, which a run breaks; or a clause of the inductive one."""
    parameters: Any = None
    """With these the explorer finds a run; None: only the inductive invariant notices it."""
    rule: str = ""
    """The rule of the conformance kit that it breaks; empty: the kit has none, or the mistake is in its own table."""
    at_once: str = ""
    """The clause of the inductive invariant that the action no longer keeps; empty: that which it breaks."""

    def __str__(self) -> str:
        return self.perform.__name__.replace("_", " ")

    @property
    def name(self) -> str:
        """As an action of TLA+."""
        return camel_case(f"_{self.perform.__name__}")


@cache
def mistakes_in(module: str) -> Mapping[str, Mistake]:
    """The mistakes in the model of a TLA+ module, by their names as actions."""
    table: tuple[Mistake, ...] = import_module(f"{__name__}.{snake_case(module)}").MISTAKES
    return {mistake.name: mistake for mistake in table}


def mistaken(system: System[S, P], *mistakes: Mistake) -> System[S, P]:
    """The same system with these actions instead of its own, which keep the names of those."""
    return _changed(system, {mistake.action: {"perform": mistake.perform} for mistake in mistakes})


def named_after_mistakes(system: System[S, P], *mistakes: Mistake) -> System[S, P]:
    """The same system with these actions, by their own names: what TLC calls them."""
    changes = {mistake.action: {"perform": mistake.perform, "name": mistake.name} for mistake in mistakes}
    return _changed(system, changes)


def _changed(system: System[S, P], changes: Mapping[str, Mapping[str, Any]]) -> System[S, P]:
    actions = tuple(replace(each, **changes.get(each.name, {})) for each in system.actions)
    return replace(system, actions=actions)
