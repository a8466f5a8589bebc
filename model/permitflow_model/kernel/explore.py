"""Breadth-first exploration: all reachable states, counted as TLC counts them, and shortest counterexamples."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from permitflow_model.kernel.runs import Move, table_of
from permitflow_model.kernel.system import Action, Disabled, ModelError, Step, System, shown

__all__ = ["Graph", "MemoryLimitReached", "StateLimitReached", "Violation", "explore"]

DEADLOCK = "deadlock"
"""Stands for the name of an invariant."""

_LOOKED_AGAIN = 10
"""States whose steps are taken twice: an action that changes its state, or throws dice, shows at once."""

_MEMORY_EVERY = 256
"""States from one look at the memory to the next."""

_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""What Linux says of control groups of version 2, and of version 1, to a process in a container."""

_MOST_ARGUMENTS = 100_000
"""Of an action, since each is tried in each state."""

_ALONE = "; let it depend on state and parameters alone"

S = TypeVar("S")
P = TypeVar("P")


class StateLimitReached(Exception):
    """There are more reachable states than the caller allowed."""

    def __init__(self, limit: int, most_varied: str = "") -> None:
        """Name the limit that was reached, and the variable that has the most values until then."""
        super().__init__(f"more than {limit:,} reachable states; raise the limit or choose smaller parameters")
        self.limit = limit
        self.most_varied = most_varied


class MemoryLimitReached(StateLimitReached):
    """The states take more memory than the caller, or this machine, allows."""

    def __init__(self, states: int, most_bytes: int) -> None:
        """Say how many states there were."""
        super().__init__(states)
        self.args = (
            f"{states:,} states and all else in this process take more than {most_bytes / (1 << 30):,.1f} GiB of "
            "memory; choose smaller parameters, or smaller states",
        )


def _most_bytes() -> int:
    """Three quarters of the memory of this machine, or of the container if that may have less."""
    if not hasattr(os, "sysconf"):
        return 0
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # there is none, or it says "max"
            limits.append(int(Path(file).read_text("ascii")))
    return min(limits) * 3 // 4


def _taken_bytes() -> int:
    """The most memory that this process has had; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


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

    def __init__(self, moves: Sequence[Move], start: S) -> None:
        """The initial state alone; ``explore`` adds the others, with what each move leads to."""
        self.moves = moves
        """Names of actions with their arguments; ``taken`` refers to them by their positions."""

        self.states = [start]
        """In the order in which breadth-first search met them."""

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
        """The number of states."""
        return len(self.states)

    @property
    def depth(self) -> int:
        """States on the longest shortest path, as TLC reports it: the initial state alone has depth 1."""
        return self.levels[-1]

    @cached_property
    def edges(self) -> list[tuple[int, str, int]]:
        """(from, action, to), as indexes into ``states``; an action with several arguments may give several."""
        names = [self.moves[move][0] for move in self.taken]
        return list(zip(self.sources, names, self.targets, strict=True))

    def step(self, edge: int) -> Step[S]:
        """The step that an edge stands for."""
        return Step(*self.moves[self.taken[edge]], self.states[self.targets[edge]])

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
        return Violation(invariant, self.states[0], self.path_to(position))


def explore(
    system: System[S, P],
    parameters: P,
    *,
    invariants: Mapping[str, Callable[[S, P], bool]] | None = None,
    at_rest: Callable[[S, P], bool] | None = None,
    max_states: int = 2_000_000,
    max_bytes: int | None = None,
    stop_at_violation: bool = False,
) -> Graph[S]:
    """Visit every reachable state once.

    ``max_bytes`` of memory are the most that the process may take; by default, three quarters of what the machine
    or the container has.

    ``invariants`` and ``at_rest`` default to the system's own.  ``stop_at_violation`` stops where TLC does: at the
    first state that breaks an invariant, or at the first deadlock.

    Without ``at_rest`` a deadlock is, as for TLC, a state that no step leaves, not even one of the application.  With
    it, the application's steps are no way out, nor are steps that change nothing: a deadlock is a state that no other
    step leaves, unless all may wait for the application there, as ``at_rest`` says.  So an application that can always
    give up hides no deadlock, and an intended end is none.

    Raises:
        StateLimitReached: there are more than ``max_states`` states; its notes are what was found until then.
        MemoryLimitReached: they take more than ``max_bytes``.
        ModelError: an action, an invariant or the initial state cannot be right.
    """
    search = _Search(
        system,
        parameters,
        system.invariants if invariants is None else invariants,
        at_rest or system.at_rest,
        max_states=max_states,
        max_bytes=_most_bytes() if max_bytes is None else max_bytes,
        stop_at_violation=stop_at_violation,
    )
    try:
        search.run()
    except StateLimitReached as error:
        for found in (*search.graph.violations, *filter(None, [search.graph.deadlock])):
            error.add_note(f"found until then: {found}")
        raise
    return search.graph


class _Search(Generic[S, P]):
    """One exploration."""

    def __init__(
        self,
        system: System[S, P],
        parameters: P,
        invariants: Mapping[str, Callable[[S, P], bool]],
        at_rest: Callable[[S, P], bool] | None,
        *,
        max_states: int,
        max_bytes: int,
        stop_at_violation: bool,
    ) -> None:
        self._moves = [(action, each) for action in system.actions for each in _arguments(action, parameters)]
        self._parameters = parameters
        self._invariants = dict(invariants)
        """The invariants that have held so far."""
        self._at_rest = at_rest
        self._max_states, self._max_bytes = max_states, max_bytes
        self._stops = stop_at_violation
        start = _initial(system, parameters)
        self.graph = Graph([(action.name, arguments) for action, arguments in self._moves], start)
        self._positions = {start: 0}

    def run(self) -> None:
        """Visit all states, or stop at the first violation if asked to."""
        graph = self.graph
        if self._is_broken(0) and self._stops:
            return
        for position, state in enumerate(graph.states):  # the list grows meanwhile
            told = shown(state) if position < _LOOKED_AGAIN else ""
            steps = self._steps(state)
            if graph.deadlock is None and self._is_stuck(state, steps):
                graph.deadlock = graph.violation(DEADLOCK, position)
                if self._stops:
                    return
            if self._take(position, steps):
                return
            if position < _LOOKED_AGAIN:
                self._look_again(position, state, steps, told)

    def _steps(self, state: S) -> list[tuple[int, S]]:
        """All moves out of a state, each with the state it leads to."""
        parameters = self._parameters
        steps = []
        for move, (action, arguments) in enumerate(self._moves):
            try:
                after = action.perform(state, parameters, *arguments)
            except Disabled:
                continue
            except BaseException as error:
                action.fail(_said(error), state, arguments, error)
            steps.append((move, action.require_state(after, state, arguments)))
        return steps

    def _look_again(self, position: int, state: S, steps: Sequence[tuple[int, S]], told: str) -> None:
        """Require that the actions left the state as it was told, and do the same once more; invariants likewise."""
        # From Python 3.14 on a tuple remembers its hash, so it is found whatever became of its values.
        if shown(state) != told or self._positions.get(state) != position:
            raise ModelError(
                f"an action changes the state that it is given, to {shown(state)}; let it return a new one"
            )
        before, again = dict(steps), dict(self._steps(state))
        for move, (action, arguments) in enumerate(self._moves):
            try:
                is_same = (move in before) == (move in again) and before.get(move) == again.get(move)
            except Exception as error:
                action.fail(_unhashable(before[move], error), state, arguments, error)
            if not is_same:
                different = _difference(before.get(move), again.get(move))
                action.fail(f"it does something else when it is tried again{different}{_ALONE}", state, arguments)
        self._ask_again([state])

    def _ask_again(self, states: Sequence[S]) -> None:
        """Require that the invariants that have held in these states still do."""
        for state in states:
            for name, holds in self._invariants.items():
                if not truth_of(holds, state, self._parameters, "invariant", name):
                    told = "it held, and does not when it is asked again"
                    raise ModelError(f"invariant {name!r} in state {shown(state)}: {told}{_ALONE}")

    def _is_stuck(self, state: S, steps: Sequence[tuple[int, S]]) -> bool:
        if self._at_rest is None:
            return not steps
        if any(after != state and not self._moves[move][0].is_environment for move, after in steps):
            return False
        return not truth_of(self._at_rest, state, self._parameters, "at_rest")

    def _take(self, position: int, steps: Sequence[tuple[int, S]]) -> bool:
        """Record all steps out of a state; return whether one of them ends the search."""
        graph = self.graph
        for move, after in steps:
            try:
                target = self._positions.get(after)
            except Exception as error:  # of the state's own values: they are hashed and compared
                action, arguments = self._moves[move]
                action.fail(_unhashable(after, error), graph.states[position], arguments, error)
            is_new = target is None
            if target is None:
                target = self._add(after)
                graph.first_edges.append(len(graph.sources))
                graph.levels.append(graph.levels[position] + 1)
            graph.sources.append(position)
            graph.taken.append(move)
            graph.targets.append(target)
            if is_new and self._is_broken(target) and self._stops:
                return True
        return False

    def _add(self, state: S) -> int:
        position = len(self.graph.states)
        if position >= self._max_states:
            raise StateLimitReached(self._max_states, _most_varied(self.graph.states))
        if position % _MEMORY_EVERY == 0 and _taken_bytes() > self._max_bytes:
            raise MemoryLimitReached(position, self._max_bytes)
        self._positions[state] = position
        self.graph.states.append(state)
        return position

    def _is_broken(self, position: int) -> bool:
        """Record the invariants that are broken for the first time; return whether there are any."""
        state, parameters = self.graph.states[position], self._parameters
        broken = [
            name
            for name, holds in self._invariants.items()
            if not truth_of(holds, state, parameters, "invariant", name)
        ]
        if broken:
            self._ask_again(self.graph.states[: min(position, _LOOKED_AGAIN)])
        for name in broken:
            del self._invariants[name]
            self.graph.violations.append(self.graph.violation(name, position))
        return bool(broken)


def truth_of(condition: Callable[[S, P], object], state: S, parameters: P, kind: str, name: str = "") -> bool:
    """Does a condition hold in this state?  ``kind`` and ``name`` say for complaints which condition it is.

    Raises:
        ModelError: it fails, or says something else than True or False.
    """
    try:
        holds = condition(state, parameters)
    except Disabled:
        said, cause = "`require` refuses, which is for actions; return whether it holds", None
    except BaseException as error:
        said, cause = _said(error), error
    else:
        if isinstance(holds, bool):
            return holds
        said, cause = f"it returned {shown(holds)}; return whether it holds, as True or False", None
    place = f"{kind} {name!r}" if name else kind
    raise ModelError(f"{place} in state {shown(state)}: {said}") from cause


def _most_varied(states: Sequence[object]) -> str:
    """The variable with the most values, and how many; empty if these states have no names for theirs."""
    names = getattr(states[0], "_fields", ())
    counts = {name: len({getattr(state, name) for state in states}) for name in names}
    name = max(counts, key=counts.__getitem__, default="")
    return f"{name} has {counts[name]:,} values" if name else ""


def _initial(system: System[S, P], parameters: P) -> S:
    with _named("the initial state"):
        start = system.initial(parameters)
        if start is None or isinstance(start, type):
            raise ModelError(f"it is {shown(start)}; return a state")
        try:
            hash(start)
        except Exception as error:
            raise ModelError(_unhashable(start, error)) from None
    return start


def _arguments(action: Action[S, P], parameters: P) -> list[tuple[int, ...]]:
    """The arguments of an action, each a tuple."""
    with _named(f"the arguments of action {action.name!r}"):
        found = list(islice(action.arguments(parameters), _MOST_ARGUMENTS + 1))
        if len(found) > _MOST_ARGUMENTS:
            raise ModelError(f"there are more than {_MOST_ARGUMENTS:,}; name those that matter")
        if strange := [each for each in found if not isinstance(each, tuple)]:
            raise ModelError(f"each must be a tuple, as in [(1,), (2,)], not {strange[0]!r}")
    return found


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Name the place of what goes wrong in the text of a model."""
    try:
        yield
    except BaseException as error:
        raise ModelError(f"{place}: {_said(error)}") from (None if isinstance(error, ModelError) else error)


def _said(error: BaseException) -> str:
    """What the text of a model has raised, which cannot be right whatever it is; only an interrupt is its user's."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    return f"{error}" if isinstance(error, ModelError) else f"{type(error).__name__}: {error}".removesuffix(": ")


def _difference(first: object, second: object) -> str:
    """What to say of two states that should be equal: which value differs; nothing of one that was refused."""
    if first is None or second is None:
        return ""
    place, before, after = "it", shown(first), shown(second)
    if isinstance(first, tuple) and isinstance(second, tuple):
        for name, one, other in zip(getattr(first, "_fields", ()), first, second, strict=False):
            if one != other:
                place, before, after = name, shown(one), shown(other)
                break
    advice = "; use values that equal others of the same content: NaN and plain objects do not"
    return f": {place} would be {before}, and then {after}{advice if before == after else ''}"


def _unhashable(state: object, error: Exception) -> str:
    """What to say of a state that cannot be hashed or compared: which of its values cannot."""
    for name, value in zip(getattr(state, "_fields", ()), state if isinstance(state, tuple) else (), strict=False):
        try:
            hash(value)
        except Exception as reason:
            return (
                f"{name} would be {shown(value)}: {reason}; use values that cannot change, as tuples, frozensets and "
                "kernel.queue.Fifo"
            )
    said = f"which cannot be hashed and compared ({_said(error)})"
    return f"it would be {shown(state)}, {said}; use values that cannot change"
