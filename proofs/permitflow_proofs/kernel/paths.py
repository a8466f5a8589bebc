"""Walk a plain Python function along every path that its symbolic conditions allow.

A symbolic condition forks where Python asks for its truth.  The function is run again for each path, with the
decisions taken so far; Z3 keeps the conditions of the common beginning.  A side that cannot be taken is pruned,
and the pruned conditions are kept: together with the violated claims they are the verification condition, which
another solver can check again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import z3

from permitflow_model.kernel.system import Disabled

__all__ = ["Condition", "Contradiction", "Explorer", "Path", "TooManyPaths", "current_explorer"]

R = TypeVar("R")

# Z3 counts its own steps, so that a slow machine gives the same answer as a fast one.
_SOLVER_STEPS = 30_000_000


class Contradiction(BaseException):
    """This path contradicts an assumption: it does not exist.

    No ``Exception``, so that nothing in a model can swallow it.
    """


class Condition(Protocol):
    """A condition whose term is built when it is needed: a path that is walked again needs none."""

    @property
    def term(self) -> z3.BoolRef:
        """The condition for Z3."""
        ...


class TooManyPaths(Exception):
    """The function forks without end: some loop depends on a symbolic condition."""

    def __init__(self, limit: int) -> None:
        """Name the limit that was met."""
        super().__init__(f"more than {limit:,} paths; a loop seems to depend on a symbolic condition")
        self.limit = limit


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

    readers: Mapping[str, Callable[[z3.ModelRef, str], int | bool | str]]
    """How to read each symbol's value from the witness."""

    def values(self) -> dict[str, int | bool | str]:
        """Values of the symbols with which this path is taken; none if the solver could not tell."""
        if self.witness is None:
            return {}
        return {name: read(self.witness, name) for name, read in self.readers.items()}


@dataclass
class _Step:
    """One question or assumption of the function, and what it was told."""

    answer: bool
    condition: z3.BoolRef | None = None
    """What this step adds to the path's conditions, if the answer is yes; None: it follows from those before."""

    known: tuple[int, ...] = ()
    """Under which identities the answer was noted."""

    is_open: bool = False
    """Is the other answer still to be explored?"""

    other_witness: z3.ModelRef | None = None
    has_level: bool = False
    """Does it have a level of the solver's stack?"""


class _Merge:
    """The forks inside one condition: all answers are tried, none is checked."""

    def __init__(self) -> None:
        self.has_more = True
        self._answers: list[tuple[Condition, bool]] = []
        self._at = 0

    def start(self) -> None:
        self._at = 0

    def answer(self, condition: Condition) -> bool:
        if self._at == len(self._answers):
            self._answers.append((condition, True))
        _, answer = self._answers[self._at]
        # The same question, but built from this call's symbols.
        self._answers[self._at] = (condition, answer)
        self._at += 1
        return answer

    def answers(self) -> tuple[tuple[Condition, bool], ...]:
        return tuple(self._answers)

    def turn(self) -> None:
        while self._answers:
            condition, answer = self._answers.pop()
            if answer:
                self._answers.append((condition, False))
                return
        self.has_more = False

    def given_so_far(self, condition: Condition) -> Condition:
        return _Disjunction([(self._answers_before(), condition)], given=True)

    def _answers_before(self) -> tuple[tuple[Condition, bool], ...]:
        return tuple(self._answers[: self._at])


@dataclass(frozen=True)
class _Disjunction:
    """One of several cases holds; or, if ``given``, the result holds in the only case."""

    cases: Sequence[tuple[tuple[tuple[Condition, bool], ...], Condition | bool]]
    given: bool = False

    @property
    def term(self) -> z3.BoolRef:
        terms = []
        for answers, result in self.cases:
            conditions = [known.term if answer else z3.Not(known.term) for known, answer in answers]
            outcome = z3.BoolVal(True) if result is True else result.term
            if self.given:
                return z3.Implies(z3.And(conditions), outcome)
            terms.append(z3.And([*conditions, outcome]))
        return z3.Or(terms)


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
    """The state of one exploration: conditions, decisions, pruned sides, fresh names."""

    def __init__(self, *, max_paths: int = 20_000) -> None:
        """Prepare an exploration of at most ``max_paths`` paths."""
        self.pruned: list[tuple[z3.BoolRef, ...]] = []
        """Conjunctions that the solver found impossible."""

        self._max_paths = max_paths
        self._solver = z3.SimpleSolver()
        self._solver.set("rlimit", _SOLVER_STEPS)
        self._steps: list[_Step] = []
        self._at = 0
        self._known: dict[int, tuple[z3.BoolRef, bool]] = {}
        self._names: dict[str, int] = {}
        self._readers: dict[str, Callable[[z3.ModelRef, str], int | bool | str]] = {}
        self._witness: z3.ModelRef | None = None
        self._assuming = False
        self._merging: _Merge | None = None

    # Used by symbolic values, while the function runs.

    def declare(self, name: str, read: Callable[[z3.ModelRef, str], int | bool | str]) -> str:
        """A name that no other symbol of this path has; the same one whenever the path is walked again.

        ``read(witness, declared name)`` will be asked for the symbol's value.
        """
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
            condition = self._merging.given_so_far(condition)
        if not self._next(condition, self._suppose):
            raise Contradiction

    def decide(self, condition: Condition) -> bool:
        """Fork: the truth of a condition on this path.

        Raises:
            Contradiction: the path turns out to be impossible.
        """
        if self._merging is not None:
            return self._merging.answer(condition)
        return self._next(condition, self._fork)

    def merge(self, function: Callable[[], Condition | bool]) -> Condition:
        """What a function returns, as one condition: its forks stay inside.

        For plain functions over symbols.  The forks are not pruned, so the function must bear impossible answers.
        """
        if self._merging is not None:
            raise RuntimeError("merge does not nest")
        cases: list[tuple[tuple[tuple[Condition, bool], ...], Condition | bool]] = []
        merge = self._merging = _Merge()
        try:
            while merge.has_more:
                merge.start()
                result = function()
                if result is not False:
                    cases.append((merge.answers(), result))
                merge.turn()
        finally:
            self._merging = None
        return _Disjunction(cases)

    @contextmanager
    def assuming(self, *refusals: type[Exception]) -> Iterator[None]:
        """Fork without asking the solver: what follows is assumed, and its false sides end by themselves.

        An exception of the given types means that the assumption is not met.
        """
        before, self._assuming = self._assuming, True
        try:
            yield
        except refusals as refusal:
            raise Contradiction from refusal
        finally:
            self._assuming = before

    # Used by whoever wants to know.

    def paths(self, function: Callable[[], R]) -> Iterator[Path[R]]:
        """All feasible paths of a function without arguments, which must be deterministic.

        Raises:
            TooManyPaths: there are more than this explorer's limit.
        """
        for _ in range(self._max_paths):
            path = self._walk(function)
            if path is not None:
                yield path
            if not self._backtrack():
                return
        raise TooManyPaths(self._max_paths)

    def _walk(self, function: Callable[[], R]) -> Path[R] | None:
        self._at = 0
        self._names.clear()
        self._readers = {}
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
            if self._is_possible():
                raise
        finally:
            _CURRENT.reset(token)
        if not self._is_possible():
            self.pruned.append(self._conditions())
            return None
        return Path(self._conditions(), result, enabled, self._witness, self._readers)

    def _next(self, condition: Condition, make: Callable[[z3.BoolRef], _Step]) -> bool:
        """The next answer: as on the last walk, or a new one."""
        if self._at == len(self._steps):
            term = z3.simplify(condition.term)
            known = self._truth_of(term)
            self._steps.append(make(term) if known is None else _Step(known))
        step = self._steps[self._at]
        self._at += 1
        return step.answer

    def _suppose(self, term: z3.BoolRef) -> _Step:
        self._solver.add(term)
        if not self._is_witnessed(term):
            self._witness = None
        return _Step(True, condition=term, known=self._note_all(term))

    def _fork(self, term: z3.BoolRef) -> _Step:
        if self._assuming:
            return self._branch(term, None, None)
        yes, yes_witness = self._possibility(term)
        no, no_witness = self._possibility(z3.Not(term))
        if yes and no:
            return self._branch(term, yes_witness, no_witness)
        if not yes:
            self.pruned.append((*self._conditions(), term))
        if not no:
            self.pruned.append((*self._conditions(), z3.Not(term)))
        if not yes and not no:
            raise Contradiction
        self._witness = yes_witness if yes else no_witness
        return _Step(yes, known=self._note(term, yes))

    def _branch(self, term: z3.BoolRef, yes: z3.ModelRef | None, no: z3.ModelRef | None) -> _Step:
        self._solver.push()
        self._solver.add(term)
        self._witness = yes
        return _Step(
            True,
            condition=term,
            known=self._note(term, True),
            is_open=True,
            other_witness=no,
            has_level=True,
        )

    def _backtrack(self) -> bool:
        while self._steps:
            step = self._steps.pop()
            for identity in step.known:
                del self._known[identity]
            if step.has_level:
                self._solver.pop()
            if step.is_open and step.condition is not None:
                refusal = z3.Not(step.condition)
                self._solver.push()
                self._solver.add(refusal)
                self._witness = step.other_witness
                known = self._note(step.condition, False)
                self._steps.append(_Step(False, condition=refusal, known=known, has_level=True))
                return True
        return False

    def _possibility(self, term: z3.BoolRef) -> tuple[bool, z3.ModelRef | None]:
        if self._is_witnessed(term):
            return True, self._witness
        self._solver.push()
        self._solver.add(term)
        answer = self._solver.check()
        witness = self._solver.model() if answer == z3.sat else None
        self._solver.pop()
        # What the solver cannot tell counts as possible: nothing is pruned without a proof.
        return answer != z3.unsat, witness

    def _is_possible(self) -> bool:
        if self._witness is None:
            answer = self._solver.check()
            self._witness = self._solver.model() if answer == z3.sat else None
            return answer != z3.unsat
        return True

    def _is_witnessed(self, term: z3.BoolRef) -> bool:
        return self._witness is not None and bool(z3.is_true(self._witness.eval(term, model_completion=True)))

    def _truth_of(self, term: z3.BoolRef) -> bool | None:
        """The truth of a simplified condition where it is known on this path."""
        kind = term.decl().kind()
        if kind in (z3.Z3_OP_TRUE, z3.Z3_OP_FALSE):
            return bool(kind == z3.Z3_OP_TRUE)
        negated = bool(kind == z3.Z3_OP_NOT)
        known = self._known.get((term.arg(0) if negated else term).get_id())
        return None if known is None else known[1] is not negated

    def _note_all(self, term: z3.BoolRef) -> tuple[int, ...]:
        """Remember that a condition holds, and each part of it if it is a conjunction."""
        parts = term.children() if z3.is_and(term) else [term]
        return tuple(identity for part in parts for identity in self._note(part, True))

    def _note(self, term: z3.BoolRef, value: bool) -> tuple[int, ...]:
        """Remember an answer, and return its identity; nothing if it is remembered already."""
        if z3.is_not(term):
            term, value = term.arg(0), not value
        identity: int = term.get_id()
        if identity in self._known:
            return ()
        # The term is kept too: Z3 may give the identity of a forgotten term to another one.
        self._known[identity] = (term, value)
        return (identity,)

    def _conditions(self) -> tuple[z3.BoolRef, ...]:
        return tuple(step.condition for step in self._steps if step.condition is not None)
