"""Walk a plain Python function along every path that its symbolic conditions allow.

A symbolic condition forks where Python asks for its truth.  The function is run again for each path, with the
decisions taken so far.  A side that cannot be taken is pruned, and the pruned conditions are kept: together with the
violated claims they are the verification condition, which another solver can check again.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

import z3

from permitflow_model.kernel.system import Disabled
from permitflow_proofs.kernel.merging import Merge
from permitflow_proofs.kernel.trail import Condition, Contradiction, Endless, Trail

__all__ = ["Explorer", "Path", "current_explorer"]

R = TypeVar("R")

_Reader = Callable[[z3.ModelRef, str], int | bool | str]


@dataclass(frozen=True)
class Path(Generic[R]):
    """One way through the function."""

    conditions: tuple[z3.BoolRef, ...]
    """What was assumed and decided along the way."""

    result: R | None
    """What the function returned; None where an action was disabled."""

    enabled: bool
    """False: the function raised ``Disabled``."""

    witness: z3.ModelRef | None
    """Values with which this path is taken; None if the solver could not tell."""

    readers: Mapping[str, _Reader]
    """How to read each symbol's value from the witness."""

    def values(self) -> dict[str, int | bool | str]:
        """Values of the symbols with which this path is taken; none if the solver could not tell."""
        if self.witness is None:
            return {}
        return {name: read(self.witness, name) for name, read in self.readers.items()}


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


@dataclass(frozen=True)
class _Certain:
    value: bool

    @property
    def term(self) -> z3.BoolRef:
        return z3.BoolVal(self.value)


class Explorer:
    """One exploration of one function."""

    def __init__(self, *, max_paths: int = 20_000, max_forks: int = 1_000) -> None:
        """Prepare an exploration of at most so many paths, with at most so many forks on each."""
        self._max_paths = max_paths
        self._trail = Trail(max_forks)
        self._names: dict[str, int] = {}
        self._readers: dict[str, _Reader] = {}
        self._merging: Merge | None = None
        self._merges: list[Merge] = []
        self._merges_met = 0

    @property
    def pruned(self) -> list[tuple[z3.BoolRef, ...]]:
        """Conjunctions that the solver found impossible."""
        return self._trail.pruned

    # Used by symbolic values, while the function runs.

    def declare(self, name: str, read: _Reader) -> str:
        """A name that no other symbol of this path has; the same one whenever the path is walked again.

        ``read(witness, declared name)`` will be asked for the symbol's value.
        """
        if self._merging is not None:
            self._merging.note_effect()
        count = self._names.get(name, 0) + 1
        self._names[name] = count
        declared = name if count == 1 else f"{name}!{count}"
        self._readers[declared] = read
        return declared

    def assume(self, condition: Condition) -> None:
        """Go on only where this holds.

        Raises:
            Contradiction: it holds nowhere on this path.
        """
        if self._merging is not None:
            self._merging.note_effect()
            condition = self._merging.qualified(condition)
        self._trail.assume(condition)

    def decide(self, condition: Condition) -> bool:
        """Fork: the truth of a condition on this path.

        Raises:
            Contradiction: the path turns out to be impossible.
        """
        if self._merging is not None:
            return self._merging.answer(condition)
        return self._trail.decide(condition)

    def merge(self, function: Callable[[], Condition | bool]) -> Condition:
        """What a function returns, as one condition: its forks stay inside."""
        if self._merging is not None:
            # The forks of the inner function become cases of the outer one.
            result = function()
            return _Certain(result) if isinstance(result, bool) else result
        is_known = self._merges_met < len(self._merges)
        if not is_known:
            self._merges.append(Merge(self._trail.position))
        merge = self._merging = self._merges[self._merges_met]
        self._merges_met += 1
        try:
            if is_known:
                merge.run_again(function)
            else:
                merge.run(function, self._trail.excludes)
        finally:
            self._merging = None
        return merge.condition

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

    # Used by whoever wants to know.

    def paths(self, function: Callable[[], R]) -> Iterator[Path[R]]:
        """All feasible paths of a function without arguments, which must be deterministic.

        Raises:
            Endless: there are more paths, or more forks on one, than this explorer's limit.
        """
        for _ in range(self._max_paths):
            path = self._walk(function)
            if path is not None:
                yield path
            if not self._trail.backtrack():
                return
            # What was merged after the decision that is now taken otherwise belongs to another path.
            while self._merges and self._merges[-1].start >= len(self._trail):
                self._merges.pop()
        raise Endless(f"more than {self._max_paths:,} paths")

    def _walk(self, function: Callable[[], R]) -> Path[R] | None:
        self._trail.rewind()
        self._names = {}
        self._readers = {}
        self._merges_met = 0
        token = _CURRENT.set(self)
        result, enabled = None, True
        try:
            result = function()
        except Disabled:
            enabled = False
        except Contradiction:
            return None
        except Exception:
            # Where forks are not checked, a run can go astray before it is found to be impossible.
            if self._trail.is_possible():
                raise
        finally:
            _CURRENT.reset(token)
        if not self._trail.is_possible():
            self._trail.prune()
            return None
        return Path(self._trail.conditions(), result, enabled, self._trail.witness, self._readers)
