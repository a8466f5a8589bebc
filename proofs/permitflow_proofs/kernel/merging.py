"""Evaluate a function over symbols into one condition, with its forks inside.

All answers to its questions are tried, and checked only where the function raises.  An assumption holds only in the
cases in which the function makes it.  When a path is walked again, only the cases with such side effects are run, which
is faster.  A merge within another merge is evaluated anew in each case of the outer one, and is one condition there.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress

import z3

from permitflow_model.kernel.system import Disabled
from permitflow_proofs.kernel.terms import Condition, built_truth, conjunction, disjunction, identity_of, negation


class LeftOut(Exception):
    """The cases that were looked at are not all."""


class GuardOfOneCase(Exception):
    """An action is not possible in a case of a merge, and the whole path would count as one on which it is not."""


_WHOLE = 1 << 4_096
"""All cases of a merge, of which each question takes half; none asks so many."""

_Case = tuple[tuple[tuple[Condition, bool], ...], Condition | bool]


class Merge:
    """One function's cases."""

    def __init__(self, start: int, given: Condition | None = None) -> None:
        """``start``: how many steps the path had taken before; ``given``: only where this holds is anything asked."""
        self.start = start
        self.condition: Condition = _Cases(())
        self._given = given
        self._left_out = _WHOLE
        self._answers: list[tuple[Condition, bool]] = []
        self._at = 0
        self._effective: list[tuple[tuple[bool, ...], bool]] = []
        self._has_effects = False

    def run(self, function: Callable[[], Condition | bool], is_excluded: Callable[[], bool]) -> None:
        """Evaluate the function in every case.

        Contradictory answers may make the function raise; ``is_excluded`` must confirm that they are contradictory.

        Raises:
            GuardOfOneCase: it performs an action that is not possible in one of several cases.
            LeftOut: not every question was answered both ways: a mistake of this class.
        """
        cases: list[_Case] = []
        while True:
            self._at, self._has_effects = 0, False
            has_failed = False
            try:
                result = function()
            except Exception as error:
                if not is_excluded():
                    if isinstance(error, Disabled) and self.answered():
                        raise GuardOfOneCase("ask whether an action is enabled before it is performed") from error
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
        """Evaluate it in the cases that make symbols or assume something: the others change nothing, and take time."""
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
        given = [] if self._given is None else [self._given.term]
        return [*given, *_answered(self._answers[: self._at])]

    def note_effect(self) -> None:
        """This case makes a symbol or assumes something."""
        self._has_effects = True

    def qualified(self, condition: Condition) -> Condition:
        """A condition that is assumed in this case only."""
        given = () if self._given is None else ((self._given, True),)
        return _Implication((*given, *self._answers[: self._at]), condition)

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
            self._term = conjunction(_parts(self._cases, 0)) if self._cases else z3.BoolVal(False)
        return self._term


def _parts(cases: Sequence[_Case], begun: int) -> list[z3.BoolRef]:
    """What is to hold of cases that begin alike, behind this many answers; those that go on alike are one branch."""
    if len(cases) == 1:
        ((answers, result),) = cases
        return [*_answered(answers[begun:]), _outcome(result)]
    branches: dict[int, list[_Case]] = {}
    for case in cases:
        branches.setdefault(id(case[0][begun]), []).append(case)
    return _one_of(
        [[*_answered(branch[0][0][begun : begun + 1]), *_parts(branch, begun + 1)] for branch in branches.values()]
    )


def _one_of(cases: Sequence[Sequence[z3.BoolRef]]) -> list[z3.BoolRef]:
    if len(cases) == 1:
        return list(cases[0])
    # The common part of all cases is separate, so that it is known on the path.
    known = [[(identity_of(part), part) for part in case] for case in cases]
    shared = set.intersection(*({identity for identity, _ in case} for case in known))
    common = [part for identity, part in known[0] if identity in shared]
    others = [conjunction([part for identity, part in case if identity not in shared]) for case in known]
    return [*common, disjunction(others)]


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
