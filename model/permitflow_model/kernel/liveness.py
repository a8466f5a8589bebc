"""Does something that has begun come to its end?  Decided on the graph of all states, under weak fairness.

``premise ~> conclusion`` holds if in every run each state with the premise is followed by one with the conclusion, or
is one.  A run may stand still, and may go round for ever; what it must not do is to ignore a fair action that stays
possible.  So a counterexample is a *lasso*: a way to a loop on which the conclusion never holds, and on which each fair
action happens, or is impossible somewhere.

Such a loop lies in a strongly connected component of the states without the conclusion, and if a part of a component
has one, so has the whole component: it is enough to look at each of them once.

Source: Lichtenstein and Pnueli, "Checking That Finite State Concurrent Programs Satisfy Their Linear Specification",
POPL 1985; Tarjan, "Depth-First Search and Linear Graph Algorithms", 1972; fairness as in TLA+: WF_vars(A) is about
steps that change the state.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from permitflow_model.kernel.explore import Graph, explore, truth_of
from permitflow_model.kernel.runs import table_of
from permitflow_model.kernel.system import LeadsTo, ModelError, Step, System

__all__ = ["Lasso", "check_liveness", "counterexample"]

S = TypeVar("S")
P = TypeVar("P")

Unit: TypeAlias = tuple[str, tuple[int, ...]]
"""What fairness is about: an action, with whatever arguments; of a family, an action of one member."""


@dataclass(frozen=True)
class Lasso(Generic[S]):
    """A run in which the premise holds at some time, and the conclusion never from then on."""

    promise: str
    start: S
    steps: tuple[Step[S], ...]
    """Into the loop."""
    loop: tuple[Step[S], ...]
    """For ever again; empty: the run stands still, and no fair action is possible."""

    def __str__(self) -> str:
        """The run as a table."""
        begin = len(self.steps)
        after = f"{begin} step{'' if begin == 1 else 's'}"
        end = f"for ever steps {begin + 1} to {begin + len(self.loop)}" if self.loop else "nothing has to happen"
        return f"{self.promise} does not hold: after {after}, {end}\n{table_of(self.start, self.steps, self.loop)}"


class _Edge(NamedTuple):
    number: int
    """In the graph."""
    target: int
    unit: Unit | None
    """The fair unit that takes it, if it is fair, and if the step changes something."""


def check_liveness(
    system: System[S, P],
    parameters: P,
    *,
    fair: Collection[str] | None = None,
    max_states: int = 2_000_000,
) -> dict[str, Lasso[S] | None]:
    """Examine all that the system promises (``System.leads_to``): for each a counterexample, or None if it holds.

    Args:
        system: the model.
        parameters: of the model.
        fair: names of the actions that are weakly fair; by default those that say so (``Action.is_fair``).
        max_states: the most states.

    Raises:
        StateLimitReached: there are more states.
        ModelError: the text of the model cannot be right, or an action in ``fair`` is unknown.
    """
    graph = explore(system, parameters, invariants={}, max_states=max_states)
    return {
        name: counterexample(system, parameters, graph, promise, name=name, fair=fair)
        for name, promise in system.leads_to.items()
    }


def counterexample(
    system: System[S, P],
    parameters: P,
    graph: Graph[S],
    promise: LeadsTo[S, P],
    *,
    name: str = "the promise",
    fair: Collection[str] | None = None,
) -> Lasso[S] | None:
    """A run that breaks a promise, with a shortest way to its loop; None if the promise holds.

    Args:
        system: the model.
        parameters: of the model.
        graph: all of its states, by ``explore`` without ``stop_at_violation``.
        promise: what leads to what.
        name: of the promise, for complaints.
        fair: names of the actions that are weakly fair; by default those that say so (``Action.is_fair``).

    Raises:
        ModelError: a condition fails, or an action in ``fair`` is unknown.
    """
    return _Check(system, parameters, graph, promise, name, fair).lasso()


class _Check(Generic[S, P]):
    """One promise on one graph; states are positions in the graph."""

    def __init__(
        self,
        system: System[S, P],
        parameters: P,
        graph: Graph[S],
        promise: LeadsTo[S, P],
        name: str,
        fair: Collection[str] | None,
    ) -> None:
        known = [action.name for action in system.actions]
        if strange := [each for each in fair or () if each not in known]:
            raise ModelError(f"fair names an action {strange[0]!r}, and the model has {', '.join(known)}")
        self._graph = graph
        self._name = name
        by_member = {action.name: action.members is not None for action in system.actions}
        chosen = {action.name for action in system.actions if action.is_fair} if fair is None else set(fair)
        units = [
            (each, arguments[:1] if by_member[each] else ()) if each in chosen else None
            for each, arguments in graph.moves
        ]
        self._units = set(filter(None, units))
        self._out: list[list[_Edge]] = [[] for _ in graph.states]
        for number, (source, move, target) in enumerate(zip(graph.sources, graph.taken, graph.targets, strict=True)):
            self._out[source].append(_Edge(number, target, units[move] if source != target else None))

        def holds(part: str, condition: Callable[[S, P], bool], state: S) -> bool:
            return truth_of(condition, state, parameters, f"the {part} of", name)

        states = graph.states
        self._open = [not holds("conclusion", promise.conclusion, state) for state in states]
        """Does the conclusion not hold?"""
        self._begins = [
            position
            for position, state in enumerate(states)
            if self._open[position] and holds("premise", promise.premise, state)
        ]

    def lasso(self) -> Lasso[S] | None:
        """A way to a loop, and the loop."""
        distances, ways = self._pending()
        fair = [component for component in self._components(distances) if self._is_fair(component)]
        if not fair:
            return None
        _, entrance = min((distances[position], position) for component in fair for position in component)
        loop = self._loop(entrance, next(component for component in fair if entrance in component))
        way: list[int] = []
        position = entrance
        while (edge := ways[position]) is not None:
            way.append(edge)
            position = self._graph.sources[edge]
        steps = (*self._graph.path_to(position), *map(self._graph.step, reversed(way)))
        return Lasso(self._name, self._graph.states[0], steps, tuple(map(self._graph.step, loop)))

    def _pending(self) -> tuple[dict[int, int], dict[int, int | None]]:
        """The states in which the premise has held and the conclusion not since: how far, and by which edge."""
        distances = {position: self._graph.levels[position] - 1 for position in self._begins}
        ways: dict[int, int | None] = dict.fromkeys(self._begins)
        queue = sorted((distance, position) for position, distance in distances.items())
        while queue:
            distance, position = heappop(queue)
            if distance > distances[position]:
                continue
            for edge in self._out[position]:
                if self._open[edge.target] and distance + 1 < distances.get(edge.target, distance + 2):
                    distances[edge.target], ways[edge.target] = distance + 1, edge.number
                    heappush(queue, (distance + 1, edge.target))
        return distances, ways

    def _components(self, pending: Mapping[int, int]) -> Iterator[set[int]]:
        """The strongly connected components of these states; Tarjan's algorithm, without recursion."""
        numbers: dict[int, int] = {}
        lowest: dict[int, int] = {}
        stack: list[int] = []
        done: set[int] = set()
        calls: list[tuple[int, Iterator[int]]] = []

        def enter(position: int) -> None:
            numbers[position] = lowest[position] = len(numbers)
            stack.append(position)
            calls.append((position, (edge.target for edge in self._out[position] if edge.target in pending)))

        for root in pending:
            if root not in numbers:
                enter(root)
            while calls:
                position, targets = calls[-1]
                if (target := next(targets, None)) is not None:
                    if target not in numbers:
                        enter(target)
                    elif target not in done:
                        lowest[position] = min(lowest[position], numbers[target])
                    continue
                calls.pop()
                if calls:
                    before = calls[-1][0]
                    lowest[before] = min(lowest[before], lowest[position])
                if lowest[position] == numbers[position]:
                    component = {stack.pop()}
                    while position not in component:
                        component.add(stack.pop())
                    done |= component
                    yield component

    def _is_fair(self, component: Collection[int]) -> bool:
        return all(any(self._serves(unit, position, component) for position in component) for unit in self._units)

    def _serves(self, unit: Unit, position: int, component: Collection[int]) -> bool:
        """Is the unit impossible here, or does it take a step that stays in the component?"""
        edges = [edge for edge in self._out[position] if edge.unit == unit]
        return not edges or any(edge.target in component for edge in edges)

    def _loop(self, entrance: int, component: Collection[int]) -> list[int]:
        """Edges from the entrance back to it, on which each fair unit is served; none if it is served at rest."""
        loop: list[int] = []
        position = entrance
        waiting = set(self._units)
        while waiting := {unit for unit in waiting if self._is_possible(unit, position)}:
            unit = min(waiting)
            way = self._way(position, component, partial(self._is_served, unit))
            loop += [edge.number for edge in way]
            waiting -= {unit, *(edge.unit for edge in way)}
            position = way[-1].target
        if position != entrance:
            loop += [edge.number for edge in self._way(position, component, lambda edge: edge.target == entrance)]
        return loop

    def _is_served(self, unit: Unit, edge: _Edge) -> bool:
        return edge.unit == unit or not self._is_possible(unit, edge.target)

    def _is_possible(self, unit: Unit, position: int) -> bool:
        return any(edge.unit == unit for edge in self._out[position])

    def _way(self, start: int, component: Collection[int], ends: Callable[[_Edge], bool]) -> list[_Edge]:
        """A shortest way within the component whose last edge is one that ``ends`` it."""
        came: dict[int, tuple[int, _Edge] | None] = {start: None}
        queue = deque([start])
        while queue:
            position = queue.popleft()
            for edge in self._out[position]:
                if edge.target not in component:
                    continue
                if ends(edge):
                    way = [edge]
                    while (before := came[position]) is not None:
                        position = before[0]
                        way.append(before[1])
                    return way[::-1]
                if edge.target not in came:
                    came[edge.target] = (position, edge)
                    queue.append(edge.target)
        raise AssertionError("a component is strongly connected, and this one is fair")
