"""Breadth-first exploration: all reachable states, counted as TLC counts them, and shortest counterexamples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from permitflow_model.kernel.system import Step, System

__all__ = ["Graph", "StateLimitReached", "Violation", "explore"]

S = TypeVar("S")
P = TypeVar("P")


class StateLimitReached(Exception):
    """There are more reachable states than the caller allowed."""

    def __init__(self, limit: int) -> None:
        """Name the limit that was met."""
        super().__init__(f"more than {limit:,} reachable states; raise the limit or choose smaller parameters")
        self.limit = limit


@dataclass(frozen=True)
class Violation(Generic[S]):
    """An invariant that does not hold, or a deadlock, and a shortest run that leads there."""

    invariant: str
    start: S
    steps: tuple[Step[S], ...]


@dataclass
class Graph(Generic[S]):
    """The reachable states and the labelled steps between them."""

    states: list[S] = field(default_factory=list)
    """In the order in which breadth-first search met them."""

    edges: list[tuple[int, str, int]] = field(default_factory=list)
    """(from, action, to), as indexes into ``states``; an action with several arguments may give several."""

    depth: int = 0
    """States on the longest shortest path, as TLC reports it: the initial state alone has depth 1."""

    violations: list[Violation[S]] = field(default_factory=list)
    """The first, shortest violation of each broken invariant."""

    deadlock: Violation[S] | None = None
    """The first, shortest run into a state in which nothing at all can happen, not even by the application."""


def explore(
    system: System[S, P],
    parameters: P,
    *,
    invariants: Mapping[str, Callable[[S, P], bool]] | None = None,
    max_states: int = 2_000_000,
    stop_at_violation: bool = False,
) -> Graph[S]:
    """Visit every reachable state once.

    ``invariants`` defaults to the system's own.  ``stop_at_violation`` stops where TLC does: at the first state that
    breaks an invariant, or at the first that no step leaves.

    Raises:
        StateLimitReached: there are more than ``max_states`` states.
    """
    checks = system.invariants if invariants is None else invariants
    graph: Graph[S] = Graph()
    start = system.initial(parameters)
    index: dict[S, int] = {start: 0}
    parent: list[tuple[int, Step[S]] | None] = [None]
    level = [1]
    graph.states.append(start)
    seen_broken: set[str] = set()

    def check(position: int) -> bool:
        state = graph.states[position]
        broken = [name for name, holds in checks.items() if name not in seen_broken and not holds(state, parameters)]
        for name in broken:
            seen_broken.add(name)
            graph.violations.append(Violation(name, start, _path(parent, position)))
        return bool(broken)

    if check(0) and stop_at_violation:
        return graph
    position = 0
    while position < len(graph.states):
        steps = list(system.successors(graph.states[position], parameters))
        if not steps and graph.deadlock is None:
            graph.deadlock = Violation("deadlock", start, _path(parent, position))
            if stop_at_violation:
                break
        for step in steps:
            known = index.get(step.state)
            if known is None:
                known = len(graph.states)
                if known >= max_states:
                    raise StateLimitReached(max_states)
                index[step.state] = known
                graph.states.append(step.state)
                parent.append((position, step))
                level.append(level[position] + 1)
                if check(known) and stop_at_violation:
                    graph.depth = level[known]
                    return graph
            graph.edges.append((position, step.action, known))
        position += 1
    graph.depth = level[-1]
    return graph


def _path(parent: list[tuple[int, Step[S]] | None], position: int) -> tuple[Step[S], ...]:
    steps: list[Step[S]] = []
    while (link := parent[position]) is not None:
        position, step = link
        steps.append(step)
    return tuple(reversed(steps))
