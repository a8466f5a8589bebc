"""Breadth-first exploration: all reachable states, counted as TLC counts them, and shortest counterexamples.

States are packed into integers, and the outcome of an action is looked up if it was computed before in a state with the
same values of all variables that the action reads; see ``looking_up``.  Graphs return the model's own states.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from permitflow_model.kernel.looking_up import LookUp, told, truth_of
from permitflow_model.kernel.runs import table_of
from permitflow_model.kernel.system import Step, System

__all__ = ["Graph", "StateLimitReached", "Violation", "explore"]

DEADLOCK = "deadlock"
"""Stands for the name of an invariant."""

S = TypeVar("S")
P = TypeVar("P")


class StateLimitReached(Exception):
    """There are more reachable states than the caller allowed."""

    def __init__(self, limit: int) -> None:
        """Name the limit that was reached."""
        super().__init__(f"more than {limit:,} reachable states; raise the limit or choose smaller parameters")
        self.limit = limit


@dataclass(frozen=True)
class Violation(Generic[S]):
    """An invariant that does not hold, or a deadlock, and a shortest run that leads there."""

    invariant: str
    start: S
    steps: tuple[Step[S], ...]

    def __str__(self) -> str:
        """The run as a table."""
        told = "a deadlock" if self.invariant == DEADLOCK else f"{self.invariant} does not hold"
        count = len(self.steps)
        return f"{told}, after {count} step{'' if count == 1 else 's'}\n{table_of(self.start, self.steps)}"


class Graph(Generic[S]):
    """The reachable states and the labelled steps between them."""

    def __init__(self, moves: list[tuple[str, tuple[int, ...]]], unpack: Callable[[int], S], start: int) -> None:
        """The initial state alone; ``explore`` adds the others, packed, with what each move leads to."""
        self._moves = moves
        self._unpack = unpack
        self.packed = [start]
        self.sources: list[int] = []
        self.taken: list[int] = []
        self.targets: list[int] = []
        """The edges: from, by which move, to."""

        self.first_edges = [0]
        """For each state, the edge by which it was met first; nothing that counts for the initial state."""

        self.levels = [1]
        """For each state, how many states are on a shortest path to it, both ends included."""

        self.violations: list[Violation[S]] = []
        """The first, shortest violation of each broken invariant."""

        self.deadlock: Violation[S] | None = None
        """The first, shortest run into a state in which nothing can happen; ``explore`` says what counts."""

    @property
    def state_count(self) -> int:
        """The number of states; cheaper than the states themselves."""
        return len(self.packed)

    @property
    def depth(self) -> int:
        """States on the longest shortest path, as TLC reports it: the initial state alone has depth 1."""
        return self.levels[-1]

    @cached_property
    def states(self) -> list[S]:
        """In the order in which breadth-first search met them."""
        return list(map(self._unpack, self.packed))

    @cached_property
    def edges(self) -> list[tuple[int, str, int]]:
        """(from, action, to), as indexes into ``states``; an action with several arguments may give several."""
        names = [self._moves[move][0] for move in self.taken]
        return list(zip(self.sources, names, self.targets, strict=True))

    @property
    def moves(self) -> Sequence[tuple[str, tuple[int, ...]]]:
        """Names of actions with their arguments; ``taken`` refers to them by their positions."""
        return self._moves

    def step(self, edge: int) -> Step[S]:
        """The step that an edge stands for."""
        return Step(*self._moves[self.taken[edge]], self._unpack(self.packed[self.targets[edge]]))

    def path_to(self, position: int) -> tuple[Step[S], ...]:
        """A shortest run to a state."""
        steps: list[Step[S]] = []
        while position:
            edge = self.first_edges[position]
            steps.append(self.step(edge))
            position = self.sources[edge]
        return tuple(reversed(steps))

    def violation(self, invariant: str, position: int) -> Violation[S]:
        """The violation in a state, with a shortest run to it."""
        return Violation(invariant, self._unpack(self.packed[0]), self.path_to(position))


def explore(
    system: System[S, P],
    parameters: P,
    *,
    invariants: Mapping[str, Callable[[S, P], bool]] | None = None,
    at_rest: Callable[[S, P], bool] | None = None,
    max_states: int = 2_000_000,
    stop_at_violation: bool = False,
) -> Graph[S]:
    """Visit every reachable state once.

    ``invariants`` and ``at_rest`` default to the system's own.  ``stop_at_violation`` stops where TLC does: at the
    first state that breaks an invariant, or at the first deadlock.

    Without ``at_rest`` a deadlock is, as for TLC, a state that no step leaves, not even one of the application.  With
    it, the application's steps are no way out, nor are steps that change nothing: a deadlock is a state that no other
    step leaves, unless all may wait for the application there, as ``at_rest`` says.  So an application that can always
    give up hides no deadlock, and an intended end is none.

    Actions, invariants and ``at_rest`` must be functions of the state and the parameters alone.

    Raises:
        StateLimitReached: there are more than ``max_states`` states.
        ModelError: an action, an invariant or the initial state cannot be right.
    """
    conditions = system.invariants if invariants is None else invariants
    look_up = LookUp(system, parameters, conditions, most_states=max_states)
    may_rest = at_rest or system.at_rest
    rest = None if may_rest is None else _Rest(system, parameters, may_rest, look_up.moves)
    search = _Search(look_up, rest, max_states=max_states, stop_at_violation=stop_at_violation)
    search.run()
    return search.graph


class _Rest(Generic[S, P]):
    """Where the application is waited for."""

    def __init__(
        self,
        system: System[S, P],
        parameters: P,
        at_rest: Callable[[S, P], bool],
        moves: Sequence[tuple[str, tuple[int, ...]]],
    ) -> None:
        self.own = [not system.action(name).is_environment for name, _ in moves]
        """Is the move the protocol's own?"""
        self._at_rest = at_rest
        self._parameters = parameters

    def allows(self, state: S) -> bool:
        """May nothing but the application go on here?"""
        with told("at_rest", state):
            return truth_of(self._at_rest, self._parameters, state)


class _Search(Generic[S, P]):
    """One exploration."""

    def __init__(
        self, look_up: LookUp[S, P], rest: _Rest[S, P] | None, *, max_states: int, stop_at_violation: bool
    ) -> None:
        self.graph = Graph(look_up.moves, look_up.packing.unpack, look_up.start)
        self._look_up = look_up
        self._rest = rest
        self._repackings = look_up.repackings
        self._max_states = max_states
        self._stops = stop_at_violation
        self._identity = look_up.packing.identity
        self._positions = {look_up.start & self._identity: 0}

    def run(self) -> None:
        """Visit all states, or stop at the first violation if asked to."""
        graph = self.graph
        if self._is_broken(0) and self._stops:
            return
        position = 0
        while position < len(graph.packed):
            steps = self._look_up.steps(graph.packed[position])
            if self._repackings != self._look_up.repackings:
                self._keep_up()
            if graph.deadlock is None and self._is_stuck(position, steps):
                graph.deadlock = graph.violation(DEADLOCK, position)
                if self._stops:
                    return
            if self._take(position, steps):
                return
            position += 1

    def _is_stuck(self, position: int, steps: list[tuple[int, int]]) -> bool:
        if self._rest is None:
            return not steps
        packed = self.graph.packed[position]
        own = self._rest.own
        if any(own[move] and (target ^ packed) & self._identity for move, target in steps):
            return False
        return not self._rest.allows(self._look_up.packing.unpack(packed))

    def _take(self, position: int, steps: list[tuple[int, int]]) -> bool:
        """Record all steps out of a state; return whether one of them ends the search."""
        graph, positions, identity = self.graph, self._positions, self._identity
        repackings = self._repackings
        for move, packed in steps:
            target = positions.get(packed & identity)
            is_new = target is None
            if target is None:
                target = self._add(packed if self._repackings == repackings else self._look_up.packing.again(packed))
                graph.first_edges.append(len(graph.sources))
                graph.levels.append(graph.levels[position] + 1)
            graph.sources.append(position)
            graph.taken.append(move)
            graph.targets.append(target)
            if is_new and self._is_broken(target) and self._stops:
                return True
        return False

    def _add(self, packed: int) -> int:
        position = len(self.graph.packed)
        if position >= self._max_states:
            raise StateLimitReached(self._max_states)
        self._positions[packed & self._identity] = position
        self.graph.packed.append(packed)
        return position

    def _is_broken(self, position: int) -> bool:
        """Record the invariants that are broken for the first time; return whether there are any."""
        broken = self._look_up.broken(self.graph.packed[position])
        if self._repackings != self._look_up.repackings:
            self._keep_up()
        for name in broken:
            self._look_up.drop(name)
            self.graph.violations.append(self.graph.violation(name, position))
        return bool(broken)

    def _keep_up(self) -> None:
        """Pack all states as they are packed now."""
        self._repackings = self._look_up.repackings
        self.graph.packed[:] = map(self._look_up.packing.again, self.graph.packed)
