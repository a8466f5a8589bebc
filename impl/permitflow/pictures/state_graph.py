"""The reachable states of a small channel, and the steps between them."""

from collections.abc import Sequence
from dataclasses import dataclass

from permitflow_model.kernel.explore import explore
from permitflow_model.permit_channel import SYSTEM, Parameters, State, is_stuck

__all__ = ["MOST_STATES", "Edge", "StateGraph", "reachable"]

MOST_STATES = 500
"""Beyond, a picture shows nothing any more."""


@dataclass(frozen=True)
class Edge:
    """A step."""

    source: int
    action: str
    arguments: tuple[int, ...]
    target: int

    @property
    def label(self) -> str:
        """The action with its arguments."""
        return (
            f"{self.action}({', '.join(f'{number:,}' for number in self.arguments)})" if self.arguments else self.action
        )


@dataclass(frozen=True)
class StateGraph:
    """States are numbered in the order in which breadth-first search met them; 0 is the beginning."""

    parameters: Parameters
    states: Sequence[State]
    edges: Sequence[Edge]
    """In the order of their sources."""

    stuck: frozenset[int]
    """States in which somebody waits and nothing can ever change that."""

    arrivals: Sequence[int]
    """Of each state but the first, the edge by which a shortest way enters it; -1 for the first."""

    depths: Sequence[int]
    """Of each state, the steps of a shortest way to it."""


def reachable(parameters: Parameters, *, most: int = MOST_STATES) -> StateGraph:
    """Find all states.

    Raises:
        StateLimitReached: there are more than ``most``.
    """
    states = explore(SYSTEM, parameters, invariants={}, max_states=most).states
    numbers = {state: number for number, state in enumerate(states)}
    edges = [
        Edge(source, step.action, step.arguments, numbers[step.state])
        for source, state in enumerate(states)
        for step in SYSTEM.successors(state, parameters)
    ]
    arrivals = [-1] * len(states)
    depths = [0] * len(states)
    # Edges come in the order of their sources, so the first to reach a state ends a shortest way.
    for number, edge in enumerate(edges):
        if edge.target and arrivals[edge.target] < 0:
            arrivals[edge.target] = number
            depths[edge.target] = depths[edge.source] + 1
    stuck = frozenset(number for number, state in enumerate(states) if is_stuck(state, parameters))
    return StateGraph(parameters, states, edges, stuck, arrivals, depths)
