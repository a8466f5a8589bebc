"""Walk a plain Python function along every path that its symbolic conditions allow.

A symbolic condition forks where Python asks for its truth.  The function is run again for each path, with the
decisions taken so far (``trail``); or its forks stay inside one condition (``merging``).  A side that cannot be taken
is pruned: together with the violated claims the pruned conditions are the verification condition, which another solver
can check again.

A beginning that several functions share is explored once, for speed; each of them goes on from where its ways end.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import z3

from permitflow_model.kernel.system import Disabled
from permitflow_proofs.kernel.coverage import Coverage, Leaf, coverage
from permitflow_proofs.kernel.merging import Merge
from permitflow_proofs.kernel.terms import Condition
from permitflow_proofs.kernel.trail import Contradiction, Endless, Place, Trail

R = TypeVar("R")

_Reader = Callable[[z3.ModelRef, str], int | bool | str]
_Conjunctions = tuple[tuple[z3.BoolRef, ...], ...]
_Leaves = tuple[Leaf, ...]


@dataclass(frozen=True)
class Premises:
    """The parameters that a function has made, and all that it has required, of them or of other symbols."""

    parameters: tuple[object, ...] = ()
    accepted: tuple[Condition, ...] = ()
    """What all of these parameters have in common."""
    assumed: tuple[Condition, ...] = ()
    leaf: Leaf = ()
    """All that was required, what symbols stand for included, and what was decided."""


@dataclass(frozen=True)
class Path(Generic[R]):
    """One way through the function."""

    conditions: tuple[z3.BoolRef, ...]
    """The assumptions and decisions along the path."""

    result: R | None
    """What the function returned; None where it is not enabled."""

    enabled: bool
    """False: it came to an action that is not possible."""

    witness: z3.ModelRef | None
    """Values with which this path is taken; None if the solver could not tell."""

    readers: Mapping[str, _Reader]
    """How to read each symbol's value from the witness."""

    premises: "Premises"
    """What the function has required of the parameters that it made."""

    told: Mapping[str, object]
    """What the function has told of itself, symbols included, to be shown."""

    def values(self) -> dict[str, int | bool | str]:
        """Values of the symbols with which this path is taken; none if the solver could not tell."""
        if self.witness is None:
            return {}
        return {name: read(self.witness, name) for name, read in self.readers.items()}


@dataclass(frozen=True)
class Way(Generic[R]):
    """A path on which other functions go on."""

    path: Path[R]
    place: Place
    names: Mapping[str, int]
    notes: Mapping[object, Mapping[Any, Any]]


class Beginning(Generic[R]):
    """What several functions begin with: its paths are explored once."""

    def __init__(self, make: Callable[[], R]) -> None:
        """``make`` is a function as ``Explorer.paths`` takes it."""
        self.make = make

    def __call__(self) -> R:
        """What the function returns, on each of its ways; to be called first."""
        return current_explorer().begin(self)

    @cached_property
    def explored(self) -> "tuple[tuple[Way[R], ...], _Conjunctions, _Leaves, _Leaves]":
        """The ways, what the solver found impossible, the paths that end before all ways do, and those at a guard."""
        explorer = Explorer()
        ways = tuple(explorer.way_along(path) for path in explorer.paths(self.make) if path.enabled)
        gone_on = {id(way.place.leaf) for way in ways}
        ended = tuple(leaf for leaf in explorer.leaves if id(leaf) not in gone_on)
        return ways, tuple(explorer.pruned), ended, tuple(explorer.disabled)


K = TypeVar("K")
V = TypeVar("V")


class Notes(Mapping[K, V]):
    """What a symbolic value knows on the path that is being walked, in the order in which it was noted."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self._owner = object()

    def __getitem__(self, key: K) -> V:
        return self._noted()[key]

    def __setitem__(self, key: K, value: V) -> None:
        # Anew: other paths go on from the notes before.
        current_explorer().notes[self._owner] = {**self._noted(), key: value}

    def __iter__(self) -> Iterator[K]:
        return iter(self._noted())

    def __len__(self) -> int:
        return len(self._noted())

    def _noted(self) -> Mapping[K, V]:
        return current_explorer().notes.get(self._owner, _NOTHING)


_NOTHING: Mapping[Any, Any] = MappingProxyType({})

_CURRENT: ContextVar["Explorer"] = ContextVar("explorer")


def current_explorer() -> "Explorer":
    """The explorer that is running the calling code.

    Raises:
        RuntimeError: no explorer is; symbolic values live in explored functions only.
    """
    try:
        return _CURRENT.get()
    except LookupError:
        raise RuntimeError("symbolic values can only be used inside a function that an Explorer runs") from None


class Explorer:
    """One exploration of one function."""

    def __init__(self, *, max_paths: int = 20_000, max_forks: int = 1_000) -> None:
        """Prepare an exploration of at most this many paths, with at most this many forks on each."""
        self._max_paths = max_paths
        self._max_forks = max_forks
        self._trail = Trail(max_forks)
        self._beginning: Beginning[Any] | None = None
        self._ways: list[Way[Any]] = []
        """The one that is gone on from, and those to come."""
        self._has_begun = False
        self.notes: dict[object, Mapping[Any, Any]] = {}
        """What is known of symbolic values, on this path."""
        self.told: dict[str, object] = {}
        """What a claim tells of itself on this path, symbols included: shown where the claim is false."""
        self._names: dict[str, int] = {}
        self._readers: dict[str, _Reader] = {}
        self._merging: list[Merge] = []
        """The merges that are being evaluated, the outermost first."""
        self._is_known = False
        """Was the outermost of them evaluated on an earlier path, too?"""
        self._merges: list[Merge] = []
        self._merges_met = 0
        self.leaves: list[Leaf] = []
        """All paths to their ends."""
        self.disabled: list[Leaf] = []
        """Those that end at a guard."""
        self.is_supposing = False
        """Is something evaluated only to be assumed?"""
        self.is_acting = False
        """Is a step taken?"""
        self.is_one_acting = False
        """Does one member take it?"""
        self.is_judging = False
        """Is a clause, which is about each member, asked after a step of one?"""
        self.is_of_model = False
        """Does a function of the model run, or a clause that is to be shown?  They assume nothing."""
        self._parameters: list[object] = []
        self._accepted: list[Condition] = []
        self._is_accepting = False
        """Are parameters made?"""
        self._assumed: list[Condition] = []

    @property
    def has_parameters(self) -> bool:
        """Has the claim made parameters of a model, of which its given tells?"""
        return bool(self._parameters)

    @property
    def is_merging(self) -> bool:
        """Is a condition evaluated whose forks stay inside?"""
        return bool(self._merging)

    @property
    def is_checking(self) -> bool:
        """Is the solver asked at each fork which sides are possible?  Not within ``assuming``."""
        return self._trail.is_checking

    @property
    def pruned(self) -> list[tuple[z3.BoolRef, ...]]:
        """Conjunctions that the solver found impossible."""
        return self._trail.pruned

    # Used by symbolic values, while the function runs.

    def note_effect(self) -> None:
        """What is done now must be done again whenever the path is walked again, also within merges."""
        for merge in self._merging:
            merge.note_effect()

    def declare(self, name: str, read: _Reader) -> str:
        """A name that no other symbol of this path has; the same one whenever the path is walked again.

        ``read(witness, declared name)`` will be asked for the symbol's value.
        """
        self.note_effect()
        count = self._names.get(name, 0) + 1
        self._names[name] = count
        declared = name if count == 1 else f"{name}!{count}"
        self._readers[declared] = read
        return declared

    def stand_for(self, name: str, symbol: object) -> Any:
        """What stands for any value of this name: its symbol."""
        return symbol

    def assume(self, condition: Condition) -> None:
        """Go on only where this holds.

        Raises:
            Contradiction: it holds nowhere on this path.
        """
        (self._accepted if self._is_accepting else self._assumed).append(self._require(condition))

    def limit(self, condition: Condition) -> None:
        """Go on only where this holds, as ``assume``; it says what a symbol stands for, and is no premise.

        Raises:
            Contradiction: it holds nowhere on this path.
        """
        required = self._require(condition)
        if self._is_accepting:
            self._accepted.append(required)

    def _require(self, condition: Condition) -> Condition:
        for merge in reversed(self._merging):
            merge.note_effect()
            condition = merge.qualified(condition)
        return self._trail.assume(condition)

    def about(self, make: Callable[[], R]) -> R:
        """Make parameters, which all that follows is about; what they have in common is no premise."""
        self._is_accepting = True
        try:
            parameters = make()
        finally:
            self._is_accepting = False
        self._parameters.append(parameters)
        return parameters

    def decide(self, condition: Condition) -> bool:
        """Fork: the truth of a condition on this path.

        Raises:
            Contradiction: the path turns out to be impossible.
        """
        if self._merging:
            return self._merging[-1].answer(condition)
        return self._trail.decide(condition)

    def knows(self, condition: Condition) -> bool:
        """Is it known on this path that this holds?"""
        return self._trail.knows(condition)

    def suppose(self, function: Callable[[], Condition | bool]) -> None:
        """Go on only where a function returns true; its forks stay inside.

        Raises:
            Contradiction: it does so nowhere on this path.
        """
        self.is_supposing = True
        try:
            condition = self.merge(function)
        finally:
            self.is_supposing = False
        self.assume(condition)

    def merge(self, function: Callable[[], Condition | bool], given: Condition | None = None) -> Condition:
        """What a function returns, as one condition: its forks stay inside.  It may do anything where this is false."""
        if self._merging:
            merge = Merge(self._trail.position, given)
            with self._evaluating(merge):
                merge.run(function, self._excludes)
            return merge.condition
        self._is_known = self._merges_met < len(self._merges)
        if not self._is_known:
            self._merges.append(Merge(self._trail.position, given))
        merge = self._merges[self._merges_met]
        self._merges_met += 1
        with self._evaluating(merge):
            if self._is_known:
                merge.run_again(function)
            else:
                merge.run(function, self._excludes)
        return merge.condition

    @contextmanager
    def _evaluating(self, merge: Merge) -> Iterator[None]:
        self._merging.append(merge)
        try:
            yield
        finally:
            self._merging.pop()

    def _excludes(self) -> bool:
        """Do the answers that were given in all merges contradict each other?  Once found out, they do so again."""
        return self._is_known or self._trail.excludes([term for merge in self._merging for term in merge.answered()])

    def begin(self, beginning: Beginning[R]) -> R:
        """What a beginning returns, on the way that is gone on from if the function begins with it.

        Raises:
            Contradiction: it has no way.
        """
        if self._has_begun or (self._beginning is None and (self._names or len(self._trail))):
            return beginning.make()
        self._has_begun = True
        if self._beginning is None:
            self._beginning = beginning
            ways, pruned, ended, disabled = beginning.explored
            self._ways = list(ways)
            self.leaves.extend(ended)
            self.disabled.extend(disabled)
            self._trail = Trail(self._max_forks, *(way.place for way in ways))
            self._trail.pruned.extend(pruned)
            self._start_walk()
        if not self._ways:
            raise Contradiction
        return cast(R, self._ways[0].path.result)

    def _start_walk(self) -> None:
        self._trail.rewind()
        way = self._ways[0] if self._ways else None
        self._names = dict(way.names) if way else {}
        self._readers = dict(way.path.readers) if way else {}
        self.notes = dict(way.notes) if way else {}
        self.told = {}
        premises = way.path.premises if way else Premises()
        self._parameters, self._accepted = list(premises.parameters), list(premises.accepted)
        self._assumed = list(premises.assumed)
        self._merges_met = 0

    def way_along(self, path: Path[R]) -> Way[R]:
        """The path that was walked last, for others to go on."""
        place = Place(path.conditions, path.witness, self.leaves[-1], dict(self._trail.known))
        return Way(path, place, dict(self._names), dict(self.notes))

    @contextmanager
    def acting(self, *, is_one: bool = False) -> Iterator[None]:
        """What follows is a step; ``is_one``: of the member that acts, and it names no other one."""
        self.is_acting, self.is_one_acting, self.is_of_model = True, is_one, True
        try:
            yield
        finally:
            self.is_acting = self.is_one_acting = self.is_of_model = False

    @contextmanager
    def judging(self, *, is_judging: bool = False) -> Iterator[None]:
        """A clause is asked; ``is_judging``: after a step of one member.

        Then it looks up none, because that would be the one that acted.
        """
        before, self.is_judging, self.is_of_model = self.is_judging, is_judging, True
        try:
            yield
        finally:
            self.is_judging, self.is_of_model = before, False

    @contextmanager
    def assuming(self, *refusals: type[Exception]) -> Iterator[None]:
        """Fork without asking the solver: what follows is assumed, and its false sides end by themselves.

        An exception of the given types means that the assumption is not met.
        """
        before, self._trail.is_checking = self._trail.is_checking, False
        try:
            yield
        except refusals as refusal:
            raise Contradiction from refusal
        finally:
            self._trail.is_checking = before

    def need_symbols(self) -> None:
        """What follows knows symbols, and no numbers in their place."""

    # Used by callers of an exploration.

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """What follows makes its symbols here."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def coverage(self) -> Coverage:
        """Do the paths cover everything?  To be asked once there are no more."""
        return coverage(self.leaves)

    def paths(self, function: Callable[[], R]) -> Iterator[Path[R]]:
        """All feasible paths of a function without arguments, which must be deterministic.

        Raises:
            Endless: there are more paths, or more forks on one, than this explorer's limit.
        """
        for _ in range(self._max_paths):
            path = self._walk(function)
            self.leaves.append(self._trail.leaf() if path is None else path.premises.leaf)
            if path is not None:
                if not path.enabled:
                    self.disabled.append(self.leaves[-1])
                yield path
            if not self._trail.backtrack() and not self._turn_to_next_way():
                return
            # Merges after the decision that now changes belong to another path.
            while self._merges and self._merges[-1].start >= len(self._trail):
                self._merges.pop()
        raise Endless(f"more than {self._max_paths:,} paths")

    def _turn_to_next_way(self) -> bool:
        """Is there one?"""
        del self._ways[:1]
        return self._trail.turn()

    def _walk(self, function: Callable[[], R]) -> Path[R] | None:
        self._start_walk()
        self._has_begun = False
        result, enabled = None, True
        try:
            with self.as_current():
                result = function()
        except Disabled as guard:
            if not guard.action:
                return None  # the claim's own, which is an assumption
            enabled = False
        except Contradiction:
            return None
        except Exception:
            # Where forks are not checked, a run can raise before it is found to be impossible.
            if self._trail.is_possible():
                raise
        if not self._trail.is_possible():
            self._trail.prune()
            return None
        accepted, assumed = tuple(self._accepted), tuple(self._assumed)
        premises = Premises(tuple(self._parameters), accepted, assumed, self._trail.leaf())
        return Path(self._trail.conditions(), result, enabled, self._trail.witness, self._readers, premises, self.told)
