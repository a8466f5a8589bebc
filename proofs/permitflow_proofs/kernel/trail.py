"""The conditions of one path: what the function assumed, and how each of its questions was answered.

Z3 keeps the conditions of the current path; going back to the last open decision keeps earlier ones.  A side that
cannot be taken is pruned, and the pruned conditions are kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import z3

from permitflow_proofs.kernel.coverage import Leaf, Step
from permitflow_proofs.kernel.terms import (
    Condition,
    assert_all,
    identity_of,
    kind_of,
    negation,
    parts_of,
    simplified,
)

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

    asked: Condition | None = None
    """What was assumed, as it was asked for first."""


@dataclass(frozen=True)
class Place:
    """Where a walk has come to: other trails may start there."""

    conditions: tuple[z3.BoolRef, ...] = ()
    witness: z3.ModelRef | None = None
    """Values that satisfy the conditions; None: not known."""
    leaf: Leaf = ()
    known: Mapping[int, tuple[z3.BoolRef, bool]] = field(default_factory=dict)
    """The truth of conditions, by identity."""


_START = Place()


class Trail:
    """Assumptions and decisions in the order in which the function asked for them."""

    def __init__(self, max_forks: int, *places: Place) -> None:
        """Start with no conditions, or at the first of some places; allow at most this many forks on a path."""
        self.pruned: list[tuple[z3.BoolRef, ...]] = []
        """Conjunctions that the solver found impossible."""

        self.witness: z3.ModelRef | None = None
        """Values that satisfy the conditions so far; None: not known."""

        self.is_checking = True
        """Is the solver asked at each fork which sides are possible?"""

        self._solver = z3.SimpleSolver()
        self._solver.set("rlimit", _SOLVER_STEPS)
        # Otherwise Z3 handles Ctrl-C itself, answers "unknown", and Python gets no signal.
        self._solver.set("ctrl_c", False)
        self._steps: list[_Step] = []
        self._at = 0
        self._max_forks = max_forks
        self._forks = 0
        self.known: dict[int, tuple[z3.BoolRef, bool]] = {}
        """The truth of conditions, by identity."""

        self._places = list(places) or [_START]
        self._common = _shared_by([place.conditions for place in self._places])
        """With how many conditions do all places begin?  The solver is told them once."""
        assert_all(self._solver, self._start.conditions[: self._common])
        self._begin()

    @property
    def _start(self) -> Place:
        return self._places[0]

    def _begin(self) -> None:
        self._solver.push()
        assert_all(self._solver, self._start.conditions[self._common :])
        self.witness, self.known = self._start.witness, dict(self._start.known)

    def turn(self) -> bool:
        """Start at the next place, once no decision of this one is open; False: there is none."""
        if len(self._places) < 2:
            return False
        del self._places[0]
        self._solver.pop()
        self._at = 0
        self._begin()
        return True

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
        return (*self._start.conditions, *(step.condition for step in self._steps if step.condition is not None))

    def leaf(self) -> Leaf:
        """What was assumed and decided."""
        for step in self._steps:
            if step.condition is not None and step.told is None:
                step.told = _step_of(step.condition, step.has_level)
        return (*self._start.leaf, *(step.told for step in self._steps if step.told is not None))

    def assume(self, condition: Condition) -> Condition:
        """Go on only where this holds; returns the condition that was asked for here first, which has its term.

        Raises:
            Contradiction: it holds nowhere on this path.
        """
        if not self._next(condition, self._suppose):
            raise Contradiction
        step = self._steps[self._at - 1]
        if step.asked is None:
            step.asked = condition
        return step.asked

    def decide(self, condition: Condition) -> bool:
        """The truth of a condition on this path; open to the other answer if both are possible.

        Raises:
            Contradiction: the path turns out to be impossible.
        """
        return self._next(condition, self._fork)

    def knows(self, condition: Condition) -> bool:
        """Is it known here that this holds?  Asks no solver; the answer is the same when the path is walked again."""
        if self._at == len(self._steps):
            self._steps.append(_Step(self._truth_of(simplified(condition.term)) is True))
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
            term = simplified(condition.term)
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
        assert_all(self._solver, [term])
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
        assert_all(self._solver, [term])
        self.witness = witness
        known = self._note(term)
        self._steps.append(_Step(answer, term, known, is_open, other_witness, has_level=True))

    def _ask(self, *terms: z3.BoolRef) -> tuple[bool, z3.ModelRef | None]:
        """Are these possible here, and with which values?"""
        if all(self._is_witnessed(term) for term in terms) and self.witness is not None:
            return True, self.witness
        self._solver.push()
        assert_all(self._solver, terms)
        answer = self._solver.check()
        witness = self._solver.model() if answer == z3.sat else None
        self._solver.pop()
        # An unknown answer counts as possible: nothing is pruned without a proof.
        return answer != z3.unsat, witness

    def _is_witnessed(self, term: z3.BoolRef) -> bool:
        return self.witness is not None and bool(z3.is_true(self.witness.eval(term, model_completion=True)))

    def _truth_of(self, term: z3.BoolRef) -> bool | None:
        """The truth of a simplified condition where it is known on this path."""
        kind = kind_of(term)
        if kind in (z3.Z3_OP_TRUE, z3.Z3_OP_FALSE):
            return bool(kind == z3.Z3_OP_TRUE)
        atom, is_so = _atom_of(term)
        known = self.known.get(identity_of(atom))
        return None if known is None else known[1] is is_so

    def _note(self, term: z3.BoolRef) -> tuple[int, ...]:
        """Remember that a condition holds, part by part; returns the identities that were not known before."""
        noted = []
        for part in parts_of(term) if kind_of(term) == z3.Z3_OP_AND else [term]:
            atom, is_so = _atom_of(part)
            identity = identity_of(atom)
            if identity not in self.known:
                # The term is kept too: Z3 may give the identity of a forgotten term to another one.
                self.known[identity] = (atom, is_so)
                noted.append(identity)
        return tuple(noted)


def _shared_by(rows: list[tuple[z3.BoolRef, ...]]) -> int:
    """How many conditions do these begin with that are the same?"""
    first, *others = rows
    for number, condition in enumerate(first):
        if any(len(other) <= number or other[number] is not condition for other in others):
            return number
    return len(first)


def _step_of(condition: z3.BoolRef, is_decided: bool) -> Step:
    """A condition and its opposite are known by the same term."""
    term, answer = _atom_of(condition)
    return Step(identity_of(term), answer, is_decided, term)


def _atom_of(condition: z3.BoolRef) -> tuple[z3.BoolRef, bool]:
    """What a condition says of which term: that it holds, or that it does not."""
    answer = True
    while kind_of(condition) == z3.Z3_OP_NOT:
        (condition,), answer = parts_of(condition), not answer
    return condition, answer
