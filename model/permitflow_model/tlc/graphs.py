"""Are two state graphs the same: initial states, states, labelled steps?

Equal graphs make the model and the specification one text.  Fairness is not in the graph, so it is not compared.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from permitflow_model.kernel.explore import Graph
from permitflow_model.tla_values import format_state, state_to_tla

S = TypeVar("S")

Edge: TypeAlias = tuple[str, str, str]
"""From, action, to: states by their canonical text."""


@dataclass(frozen=True)
class LabelledGraph:
    """States by their canonical text, and the steps between them by the name of their action.

    A step that changes nothing is a step like any other (``OfferWatermark`` where one is pending already).
    """

    initial: frozenset[str]
    states: frozenset[str]
    edges: frozenset[Edge]


def graph_of_model(graph: Graph[S]) -> LabelledGraph:
    """The graph that the explorer found, in the terms of TLA+.

    Raises:
        TypeError: a value of the model has no counterpart in TLA+.
    """
    texts = [format_state(state_to_tla(state)) for state in graph.states]
    return LabelledGraph(
        initial=frozenset(texts[:1]),
        states=frozenset(texts),
        edges=frozenset((texts[source], action, texts[target]) for source, action, target in graph.edges),
    )


def first_difference(
    left: LabelledGraph, right: LabelledGraph, *, left_name: str = "the model", right_name: str = "TLC"
) -> str | None:
    """Say how the graphs differ, with the difference nearest to an initial state; None if they are equal."""
    if left == right:
        return None
    for ours, theirs, name, other in (
        (left.initial, right.initial, left_name, right_name),
        (right.initial, left.initial, right_name, left_name),
    ):
        if missing := sorted(ours - theirs):
            return f"{name} starts in a state in which {other} does not:\n{missing[0]}"
    left_steps, right_steps = _steps(left), _steps(right)
    for state in _breadth_first(left.initial, left_steps):
        if extra := sorted(left_steps[state] - right_steps[state]):
            return _describe(state, extra[0], left_name, right_name)
        if extra := sorted(right_steps[state] - left_steps[state]):
            return _describe(state, extra[0], right_name, left_name)
    # All reachable states and steps are equal: one of the graphs has unreachable ones.
    stray = min((left.states ^ right.states) or {edge[0] for edge in left.edges ^ right.edges})
    name = left_name if stray in left.states else right_name
    return f"no step reaches this state, of which {name} knows:\n{stray}"


def _steps(graph: LabelledGraph) -> defaultdict[str, set[tuple[str, str]]]:
    steps: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for source, action, target in graph.edges:
        steps[source].add((action, target))
    return steps


def _breadth_first(initial: frozenset[str], steps: defaultdict[str, set[tuple[str, str]]]) -> Iterator[str]:
    seen = set(initial)
    queue = deque(sorted(initial))
    while queue:
        state = queue.popleft()
        yield state
        for _, target in sorted(steps[state]):
            if target not in seen:
                seen.add(target)
                queue.append(target)


def _describe(source: str, step: tuple[str, str], having: str, lacking: str) -> str:
    action, target = step
    changed = [line for line in target.splitlines() if line not in source.splitlines()]
    return (
        f"{having} has a step {action} that {lacking} has not, from\n{source}\n"
        f"to the same state with\n{chr(10).join(changed) or 'nothing changed'}"
    )
