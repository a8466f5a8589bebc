"""Walk a plain Python function along every path that its symbolic conditions allow.

A symbolic condition forks where Python asks for its truth.  The function is run again for each path, with the
decisions taken so far.  A side that cannot be taken is pruned, and the pruned conditions are kept: together with the
violated claims they are the verification condition, which another solver can check again.

The trail: Z3 keeps the conditions of the current path; going back to the last open decision keeps earlier ones.

Merging evaluates a function over symbols into one condition, with its forks inside: all answers to its questions are
tried, and checked only where the function raises.  An assumption holds only in the cases in which the function makes
it.  When a path is walked again, only the cases with such side effects are run.  A merge within another merge is
evaluated anew in each case of the outer one, and is one condition there.

A beginning that several functions share is explored once; each of them goes on from where its ways end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, cast

import z3

from permitflow_model.kernel.system import Disabled
from permitflow_proofs.kernel.coverage import Coverage, Leaf, Step, coverage

# Terms of known sorts, by Z3's own constructors: the operators of its Python classes look at each operand's sort, which
# takes three times as long.

_CONTEXT = z3.main_ctx()


def built_truth(make: Callable[..., object], *terms: z3.ExprRef) -> z3.BoolRef:
    """The condition that a constructor makes of so many terms."""
    return z3.BoolRef(make(_CONTEXT.ref(), *(term.ast for term in terms)), _CONTEXT)


def built_number(make: Callable[..., object], *terms: z3.ExprRef) -> z3.ArithRef:
    """The number that a constructor makes of so many terms."""
    return z3.ArithRef(make(_CONTEXT.ref(), *(term.ast for term in terms)), _CONTEXT)


def array(*terms: z3.ExprRef) -> tuple[int, object]:
    """Terms for a constructor that takes any number of them."""
    return len(terms), (z3.Ast * len(terms))(*(term.ast for term in terms))


def conjunction(terms: Sequence[z3.BoolRef]) -> z3.BoolRef:
    """All of them; true for none."""
    if len(terms) < 2:
        return terms[0] if terms else z3.BoolVal(True)
    return z3.BoolRef(z3.Z3_mk_and(_CONTEXT.ref(), *array(*terms)), _CONTEXT)


def disjunction(terms: Sequence[z3.BoolRef]) -> z3.BoolRef:
    """At least one of them; false for none."""
    if len(terms) < 2:
        return terms[0] if terms else z3.BoolVal(False)
    return z3.BoolRef(z3.Z3_mk_or(_CONTEXT.ref(), *array(*terms)), _CONTEXT)


def negation(term: z3.BoolRef) -> z3.BoolRef:
    """The opposite."""
    return built_truth(z3.Z3_mk_not, term)


def _identity(term: z3.ExprRef) -> int:
    """The same for equal terms, as long as one of them is kept."""
    return cast(int, term.ast.value)


# Z3 counts its own steps, so that a slow machine gives the same answer as a fast one.
_SOLVER_STEPS = 30_000_000


class Contradiction(BaseException):
    """This path contradicts an assumption: it does not exist.

    No ``Exception``, so that nothing in a model can swallow it.
    """


class Endless(Exception):
    """The function forks without end: some loop depends on a symbolic condition."""

    def __init__(self, met: str) -> None:
        """Name the limit that was reached."""
        super().__init__(f"{met}; a loop seems to depend on a symbolic condition")


class LeftOut(Exception):
    """The cases that were looked at are not all."""


class Condition(Protocol):
    """A condition whose term is built when it is needed: a path that is walked again needs none."""

    @property
    def term(self) -> z3.BoolRef:
        """The condition for Z3."""
        ...


@dataclass
class _Step:
    """One question or assumption of the function, and the answer."""

    answer: bool
    condition: z3.BoolRef | None = None
    """What this step adds to the path's conditions, if the answer is yes; None: it follows from those before."""

    known: tuple[int, ...] = ()
    """The identities under which the answer was stored."""

    is_open: bool = False
    """Is the other answer still to be explored?"""

    other_witness: z3.ModelRef | None = None
    has_level: bool = False
    """Does it have a level of the solver's stack?  So has what was decided."""

    told: Step | None = None
    """What it adds to a leaf; made once."""


class Trail:
    """Assumptions and decisions in the order in which the function asked for them."""

    def __init__(self, max_forks: int, start: "Way[Any] | None" = None) -> None:
        """Start with no conditions, or where a way has led; allow at most so many forks on a path."""
        self.pruned: list[tuple[z3.BoolRef, ...]] = []
        """Conjunctions that the solver found impossible."""

        self.witness: z3.ModelRef | None = start.path.witness if start else None
        """Values that satisfy the conditions so far; None: not known."""

        self.is_checking = True
        """Is the solver asked at each fork which sides are possible?"""

        self._solver = z3.SimpleSolver()
        self._solver.set("rlimit", _SOLVER_STEPS)
        # Otherwise Z3 handles Ctrl-C itself, answers "unknown", and Python gets no signal.
        self._solver.set("ctrl_c", False)
        self._start = start.path.conditions if start else ()
        self._start_leaf = start.leaf if start else ()
        self._solver.add(*self._start)
        self._steps: list[_Step] = []
        self._at = 0
        self._max_forks = max_forks
        self._forks = 0
        self.known: dict[int, tuple[z3.BoolRef, bool]] = dict(start.known) if start else {}
        """The truth of conditions, by identity."""

    def rewind(self) -> None:
        """Walk again from the start; answers are the same until the trail ends."""
        self._at = 0

    @property
    def position(self) -> int:
        """How many steps this walk has taken."""
        return self._at

    def __len__(self) -> int:
        return len(self._steps)

    def conditions(self) -> tuple[z3.BoolRef, ...]:
        """The assumptions and decisions."""
        return (*self._start, *(step.condition for step in self._steps if step.condition is not None))

    def leaf(self) -> Leaf:
        """What was assumed and decided."""
        for step in self._steps:
            if step.condition is not None and step.told is None:
                step.told = _step_of(step.condition, step.has_level)
        return (*self._start_leaf, *(step.told for step in self._steps if step.told is not None))

    def assume(self, condition: Condition) -> None:
        """Go on only where this holds.

        Raises:
            Contradiction: it holds nowhere on this path.
        """
        if not self._next(condition, self._suppose):
            raise Contradiction

    def decide(self, condition: Condition) -> bool:
        """The truth of a condition on this path; open to the other answer if both are possible.

        Raises:
            Contradiction: the path turns out to be impossible.
        """
        return self._next(condition, self._fork)

    def knows(self, condition: Condition) -> bool:
        """Is it known here that this holds?  Asks no solver; the answer is the same when the path is walked again."""
        if self._at == len(self._steps):
            self._steps.append(_Step(self._truth_of(z3.simplify(condition.term)) is True))
        self._at += 1
        return self._steps[self._at - 1].answer

    def is_possible(self) -> bool:
        """Can the conditions hold?  If so, there is a witness, unless the solver cannot tell."""
        if self.witness is not None:
            return True
        possible, self.witness = self._ask()
        return possible

    def excludes(self, terms: list[z3.BoolRef]) -> bool:
        """Are these conditions impossible together here?  Then they are kept as such."""
        possible, _ = self._ask(*terms)
        if not possible:
            self.pruned.append((*self.conditions(), *terms))
        return not possible

    def prune(self) -> None:
        """Keep the path's conditions as impossible."""
        self.pruned.append(self.conditions())

    def backtrack(self) -> bool:
        """Give the last open decision its other answer, and forget what came after; False: none is open."""
        while self._steps:
            step = self._steps.pop()
            for identity in step.known:
                del self.known[identity]
            if step.has_level:
                self._forks -= 1
                self._solver.pop()
            if step.is_open and step.condition is not None:
                self._push(negation(step.condition), step.other_witness, answer=False)
                return True
        return False

    def _next(self, condition: Condition, make: Callable[[z3.BoolRef], None]) -> bool:
        """The next answer: as on the last walk, or a new one."""
        if self._at == len(self._steps):
            term = z3.simplify(condition.term)
            known = self._truth_of(term)
            if known is None:
                make(term)
            else:
                if not known or make == self._fork:
                    self.pruned.append((*self.conditions(), negation(condition.term) if known else condition.term))
                self._steps.append(_Step(known))
        step = self._steps[self._at]
        self._at += 1
        return step.answer

    def _suppose(self, term: z3.BoolRef) -> None:
        self._solver.add(term)
        if not self._is_witnessed(term):
            self.witness = None
        self._steps.append(_Step(True, condition=term, known=self._note(term)))

    def _fork(self, term: z3.BoolRef) -> None:
        if not self.is_checking:
            self._push(term, None, answer=True, is_open=True)
            return
        opposite = negation(term)
        yes, yes_witness = self._ask(term)
        no, no_witness = self._ask(opposite)
        if yes and no:
            self._push(term, yes_witness, answer=True, is_open=True, other_witness=no_witness)
            return
        for possible, side in ((yes, term), (no, opposite)):
            if not possible:
                self.pruned.append((*self.conditions(), side))
        if not yes and not no:
            raise Contradiction
        self.witness = yes_witness if yes else no_witness
        self._steps.append(_Step(yes, known=self._note(term if yes else opposite)))

    def _push(
        self,
        term: z3.BoolRef,
        witness: z3.ModelRef | None,
        *,
        answer: bool,
        is_open: bool = False,
        other_witness: z3.ModelRef | None = None,
    ) -> None:
        self._forks += 1
        if self._forks > self._max_forks:
            raise Endless(f"more than {self._max_forks:,} forks on one path")
        self._solver.push()
        self._solver.add(term)
        self.witness = witness
        known = self._note(term)
        self._steps.append(_Step(answer, term, known, is_open, other_witness, has_level=True))

    def _ask(self, *terms: z3.BoolRef) -> tuple[bool, z3.ModelRef | None]:
        """Are these possible here, and with which values?"""
        if all(self._is_witnessed(term) for term in terms) and self.witness is not None:
            return True, self.witness
        self._solver.push()
        self._solver.add(*terms)
        answer = self._solver.check()
        witness = self._solver.model() if answer == z3.sat else None
        self._solver.pop()
        # An unknown answer counts as possible: nothing is pruned without a proof.
        return answer != z3.unsat, witness

    def _is_witnessed(self, term: z3.BoolRef) -> bool:
        return self.witness is not None and bool(z3.is_true(self.witness.eval(term, model_completion=True)))

    def _truth_of(self, term: z3.BoolRef) -> bool | None:
        """The truth of a simplified condition where it is known on this path."""
        kind = term.decl().kind()
        if kind in (z3.Z3_OP_TRUE, z3.Z3_OP_FALSE):
            return bool(kind == z3.Z3_OP_TRUE)
        is_negated = bool(kind == z3.Z3_OP_NOT)
        known = self.known.get(_identity(term.arg(0) if is_negated else term))
        return None if known is None else known[1] is not is_negated

    def _note(self, term: z3.BoolRef) -> tuple[int, ...]:
        """Remember that a condition holds, part by part; returns the identities that were not known before."""
        noted = []
        for part in term.children() if z3.is_and(term) else [term]:
            is_negated = bool(z3.is_not(part))
            atom = part.arg(0) if is_negated else part
            identity = _identity(atom)
            if identity not in self.known:
                # The term is kept too: Z3 may give the identity of a forgotten term to another one.
                self.known[identity] = (atom, not is_negated)
                noted.append(identity)
        return tuple(noted)


def _step_of(condition: z3.BoolRef, is_decided: bool) -> Step:
    """A condition and its opposite are known by the same term."""
    term, answer = condition, True
    while z3.is_not(term):
        term, answer = term.arg(0), not answer
    return Step(_identity(term), answer, is_decided, term)


_WHOLE = 1 << 4_096
"""All cases of a merge, of which each question takes half; none asks so many."""

_Case = tuple[tuple[tuple[Condition, bool], ...], Condition | bool]


class Merge:
    """One function's cases."""

    def __init__(self, start: int) -> None:
        """``start``: how many steps the path had taken before."""
        self.start = start
        self.condition: Condition = _Cases(())
        self._left_out = _WHOLE
        self._answers: list[tuple[Condition, bool]] = []
        self._at = 0
        self._effective: list[tuple[tuple[bool, ...], bool]] = []
        self._has_effects = False

    def run(self, function: Callable[[], Condition | bool], is_excluded: Callable[[], bool]) -> None:
        """Evaluate the function in every case.

        Contradictory answers may make the function raise; ``is_excluded`` must confirm that they are contradictory.

        Raises:
            LeftOut: not every question was answered both ways: a mistake of this class.
        """
        cases: list[_Case] = []
        while True:
            self._at, self._has_effects = 0, False
            has_failed = False
            try:
                result = function()
            except Exception:
                if not is_excluded():
                    raise
                has_failed = True
            # With each answer a case is half of what it was.
            self._left_out -= _WHOLE >> len(self._answers)
            if not has_failed and result is not False:
                cases.append((tuple(self._answers), result))
            if self._has_effects:
                self._effective.append((tuple(answer for _, answer in self._answers), has_failed))
            if not self._turn():
                break
        if self._left_out:
            raise LeftOut("a merge left cases out, or met one twice")
        self.condition = _Cases(cases)

    def run_again(self, function: Callable[[], Condition | bool]) -> None:
        """Evaluate it in the cases that make symbols or assume something."""
        for answers, has_failed in self._effective:
            # These conditions are never built: the path has been here before.
            self._answers = [(self.condition, answer) for answer in answers]
            self._at = 0
            with suppress(Exception) if has_failed else nullcontext():
                function()

    def answer(self, condition: Condition) -> bool:
        """The next answer in this case."""
        if self._at == len(self._answers):
            self._answers.append((condition, True))
        elif self._has_effects:
            # The same question, but from this evaluation's own symbols.
            self._answers[self._at] = (condition, self._answers[self._at][1])
        self._at += 1
        return self._answers[self._at - 1][1]

    def answered(self) -> list[z3.BoolRef]:
        """The answers in this case so far."""
        return _answered(self._answers[: self._at])

    def note_effect(self) -> None:
        """This case makes a symbol or assumes something."""
        self._has_effects = True

    def qualified(self, condition: Condition) -> Condition:
        """A condition that is assumed in this case only."""
        return _Implication(tuple(self._answers[: self._at]), condition)

    def _turn(self) -> bool:
        while self._answers:
            condition, answer = self._answers.pop()
            if answer:
                self._answers.append((condition, False))
                return True
        return False


def _answered(answers: Sequence[tuple[Condition, bool]]) -> list[z3.BoolRef]:
    return [condition.term if answer else negation(condition.term) for condition, answer in answers]


class _Cases:
    """One of several cases holds."""

    def __init__(self, cases: Sequence[_Case]) -> None:
        self._cases = cases
        self._term: z3.BoolRef | None = None

    @property
    def term(self) -> z3.BoolRef:
        if self._term is None:
            self._term = _one_of([[*_answered(answers), _outcome(result)] for answers, result in self._cases])
        return self._term


def _one_of(cases: Sequence[Sequence[z3.BoolRef]]) -> z3.BoolRef:
    if not cases:
        return z3.BoolVal(False)
    # The common part of all cases is separate, so that it is known on the path.
    known = [[(_identity(part), part) for part in case] for case in cases]
    shared = set.intersection(*({identity for identity, _ in case} for case in known))
    common = [part for identity, part in known[0] if identity in shared]
    others = [conjunction([part for identity, part in case if identity not in shared]) for case in known]
    return conjunction([*common, disjunction(others)])


class _Implication:
    """A condition that is assumed in one case only."""

    def __init__(self, answers: Sequence[tuple[Condition, bool]], condition: Condition) -> None:
        self._answers = answers
        self._condition = condition

    @property
    def term(self) -> z3.BoolRef:
        return built_truth(z3.Z3_mk_implies, conjunction(_answered(self._answers)), self._condition.term)


def _outcome(result: Condition | bool) -> z3.BoolRef:
    return z3.BoolVal(result) if isinstance(result, bool) else result.term


R = TypeVar("R")

_Reader = Callable[[z3.ModelRef, str], int | bool | str]


@dataclass(frozen=True)
class Premises:
    """The parameters that a function has made, and all that it has assumed, of them or of other symbols."""

    parameters: tuple[object, ...] = ()
    assumed: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Path(Generic[R]):
    """One way through the function."""

    conditions: tuple[z3.BoolRef, ...]
    """The assumptions and decisions along the path."""

    result: R | None
    """What the function returned; None where an action was disabled."""

    enabled: bool
    """False: the function raised ``Disabled``."""

    witness: z3.ModelRef | None
    """Values with which this path is taken; None if the solver could not tell."""

    readers: Mapping[str, _Reader]
    """How to read each symbol's value from the witness."""

    premises: "Premises"
    """What the function has assumed of the parameters that it made."""

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
    leaf: Leaf
    known: Mapping[int, tuple[z3.BoolRef, bool]]
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
    def explored(self) -> "tuple[tuple[Way[R], ...], tuple[tuple[z3.BoolRef, ...], ...], tuple[Leaf, ...]]":
        """The ways, conjunctions that the solver found impossible, and the paths that end before all ways do."""
        explorer = Explorer()
        ways = tuple(explorer.way_along(path) for path in explorer.paths(self.make) if path.enabled)
        gone_on = {id(way.leaf) for way in ways}
        return ways, tuple(explorer.pruned), tuple(leaf for leaf in explorer.leaves if id(leaf) not in gone_on)


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
        """Prepare an exploration of at most so many paths, with at most so many forks on each."""
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
        self.is_supposing = False
        """Is something evaluated only to be assumed?"""
        self._parameters: list[object] = []
        self._assumed: list[Condition] = []

    @property
    def has_parameters(self) -> bool:
        """Has the claim made parameters of a model, of which its given tells?"""
        return bool(self._parameters)

    @property
    def is_checking(self) -> bool:
        """Is the solver asked at each fork which sides are possible?  Not within ``assuming``."""
        return self._trail.is_checking

    @property
    def pruned(self) -> list[tuple[z3.BoolRef, ...]]:
        """Conjunctions that the solver found impossible."""
        return self._trail.pruned

    # Used by symbolic values, while the function runs.

    def declare(self, name: str, read: _Reader) -> str:
        """A name that no other symbol of this path has; the same one whenever the path is walked again.

        ``read(witness, declared name)`` will be asked for the symbol's value.
        """
        for merge in self._merging:
            merge.note_effect()
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
        self._assumed.append(self._require(condition))

    def limit(self, condition: Condition) -> None:
        """Go on only where this holds, as ``assume``; it says what a symbol stands for, and is no premise.

        Raises:
            Contradiction: it holds nowhere on this path.
        """
        self._require(condition)

    def _require(self, condition: Condition) -> Condition:
        for merge in reversed(self._merging):
            merge.note_effect()
            condition = merge.qualified(condition)
        self._trail.assume(condition)
        return condition

    def about(self, make: Callable[[], R]) -> R:
        """Make parameters, which all that follows is about; what they have in common is no premise."""
        before = len(self._assumed)
        parameters = make()
        del self._assumed[before:]
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

    def merge(self, function: Callable[[], Condition | bool]) -> Condition:
        """What a function returns, as one condition: its forks stay inside."""
        if self._merging:
            merge = Merge(self._trail.position)
            with self._evaluating(merge):
                merge.run(function, self._excludes)
            return merge.condition
        self._is_known = self._merges_met < len(self._merges)
        if not self._is_known:
            self._merges.append(Merge(self._trail.position))
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
            ways, pruned, ended = beginning.explored
            self._ways = list(ways)
            self.leaves.extend(ended)
            self._trail = Trail(self._max_forks, *ways[:1])
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
        self._parameters = list(way.path.premises.parameters) if way else []
        self._assumed = list(way.path.premises.assumed) if way else []
        self._merges_met = 0

    def way_along(self, path: Path[R]) -> Way[R]:
        """The path that was walked last, for others to go on."""
        return Way(path, self.leaves[-1], dict(self._trail.known), dict(self._names), dict(self.notes))

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

    # Used by callers of an exploration.

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
            self.leaves.append(self._trail.leaf())
            if path is not None:
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
        pruned = self._trail.pruned
        self._trail = Trail(self._max_forks, *self._ways[:1])
        self._trail.pruned = pruned
        return bool(self._ways)

    def _walk(self, function: Callable[[], R]) -> Path[R] | None:
        self._start_walk()
        self._has_begun = False
        token = _CURRENT.set(self)
        result, enabled = None, True
        try:
            result = function()
        except Disabled:
            enabled = False
        except Contradiction:
            return None
        except Exception:
            # Where forks are not checked, a run can raise before it is found to be impossible.
            if self._trail.is_possible():
                raise
        finally:
            _CURRENT.reset(token)
        if not self._trail.is_possible():
            self._trail.prune()
            return None
        premises = Premises(tuple(self._parameters), tuple(self._assumed))
        return Path(self._trail.conditions(), result, enabled, self._trail.witness, self._readers, premises, self.told)
