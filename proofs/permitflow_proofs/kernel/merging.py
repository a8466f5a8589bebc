"""Evaluate a function over symbols into one condition, with its forks inside.

All answers to its questions are tried, and checked only where the function raises.  What it assumes on the way is
assumed of the cases in which it does so.  When a path is walked again, only the cases with such side effects are run.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress

import z3

from permitflow_proofs.kernel.formulas import conjunction, disjunction, negation
from permitflow_proofs.kernel.trail import Condition

__all__ = ["Merge"]

_Case = tuple[tuple[tuple[Condition, bool], ...], Condition | bool]


class Merge:
    """One function's cases."""

    def __init__(self, start: int) -> None:
        """``start``: how many steps the path had taken before."""
        self.start = start
        self.condition: Condition = _Cases(())
        self._answers: list[tuple[Condition, bool]] = []
        self._at = 0
        self._effective: list[tuple[tuple[bool, ...], bool]] = []
        self._has_effects = False

    def run(self, function: Callable[[], Condition | bool], excludes: Callable[[list[z3.BoolRef]], bool]) -> None:
        """Evaluate the function in every case.

        Answers that contradict each other may lead it astray; ``excludes`` must confirm that they do.
        """
        cases: list[_Case] = []
        while True:
            self._at, self._has_effects = 0, False
            has_failed = False
            try:
                result = function()
            except Exception:
                if not excludes(_answered(self._answers)):
                    raise
                has_failed = True
            if not has_failed and result is not False:
                cases.append((tuple(self._answers), result))
            if self._has_effects:
                self._effective.append((tuple(answer for _, answer in self._answers), has_failed))
            if not self._turn():
                break
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
    # What all cases have in common stands apart, so that it is known on the path.
    in_each = [{part.get_id() for part in case} for case in cases]
    shared = set.intersection(*in_each)
    common = [part for part in cases[0] if part.get_id() in shared]
    others = [conjunction([part for part in case if part.get_id() not in shared]) for case in cases]
    return conjunction([*common, disjunction(others)])


class _Implication:
    """A condition that is assumed in one case only."""

    def __init__(self, answers: Sequence[tuple[Condition, bool]], condition: Condition) -> None:
        self._answers = answers
        self._condition = condition

    @property
    def term(self) -> z3.BoolRef:
        return z3.Implies(conjunction(_answered(self._answers)), self._condition.term)


def _outcome(result: Condition | bool) -> z3.BoolRef:
    return z3.BoolVal(result) if isinstance(result, bool) else result.term
