"""Runs of a model: concrete ones to show, symbolic ones to prove that something can be reached."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled, Step, System

__all__ = ["Move", "Run", "replay", "shortest_run", "take"]

S = TypeVar("S")
P = TypeVar("P")

Move = tuple[str, tuple[int, ...]]
"""An action's name and its arguments."""


@dataclass(frozen=True)
class Run(Generic[S, P]):
    """A behaviour of the model, step by step."""

    parameters: P
    start: S
    steps: tuple[Step[S], ...]

    @property
    def end(self) -> S:
        """The state that the last step leads to."""
        return self.steps[-1].state if self.steps else self.start


def replay(system: System[S, P], parameters: P, moves: Iterable[Move]) -> Run[S, P]:
    """Take these steps from the initial state.

    Raises:
        Disabled: the model does not allow one of them.
    """
    start = state = system.initial(parameters)
    steps = []
    for action, arguments in moves:
        state = system.perform(action, state, parameters, *arguments)
        steps.append(Step(action, arguments, state))
    return Run(parameters, start, tuple(steps))


def shortest_run(system: System[S, P], parameters: P, until: Callable[[S, P], bool]) -> Run[S, P] | None:
    """A run with the fewest steps to a state in which this holds; None if there is none."""
    graph = explore(
        system,
        parameters,
        invariants={"until": lambda state, parameters: not until(state, parameters)},
        stop_at_violation=True,
    )
    for violation in graph.violations:
        return Run(parameters, violation.start, violation.steps)
    return None


def take(system: System[S, P], parameters: P, state: S, moves: Iterable[Move]) -> S | None:
    """Where these steps lead, also symbolically; None where one of them is not possible."""
    try:
        for action, arguments in moves:
            state = system.perform(action, state, parameters, *arguments)
    except Disabled:
        return None
    return state
