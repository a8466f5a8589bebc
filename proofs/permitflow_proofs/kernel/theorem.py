"""Theorems: obligations under one statement, and the verdict on them, by one solver or two."""

import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from permitflow_model.manifest import reference
from permitflow_proofs.kernel import second_solver
from permitflow_proofs.kernel.given import given_of_all
from permitflow_proofs.kernel.obligation import Counterexample, Examination, Obligation, Outcome, Subject

Solvers = Literal["z3", "cvc5", "both"]
"""Which solvers decide.  Z3 always walks through the model; with ``cvc5`` none of its answers there is trusted."""


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """A statement about a model, with its obligations."""

    id: str
    """Unique in the catalogue."""

    statement: str
    """In words, for readers who do not read the proofs."""

    module: str
    """The TLA+ module that it is about."""

    operator: str
    """The definition in that module that it is about."""

    obligations: tuple[Obligation, ...]
    is_promise: bool = False
    """May users rely on it?  Else it is a lemma, which other theorems need."""

    rows: tuple[tuple[str, str, str, str], ...] = ()
    """The rows of a frame, one for each action: its name, where it is possible, what it changes, and how."""

    tool: str = "Z3"
    expected: Outcome = "proved"
    """False statements from other sources are listed too, to be refuted."""

    @property
    def reference(self) -> str:
        """File and line of the specification."""
        return reference(self.module, self.operator)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The second solver's answer to one question."""

    obligation: str
    about: Subject
    expected: str
    given: str

    @property
    def is_as_expected(self) -> bool:
        """Does it confirm what Z3 claims?"""
        return self.given == self.expected


@dataclass(frozen=True, kw_only=True)
class Examined:
    """The result of one obligation; can be sent from one process to another."""

    examination: Examination
    seconds: float
    """Processor time of the examination."""

    answers: tuple[Answer, ...] = ()
    """The answers of the second solver, if it was asked."""

    answer_seconds: float = 0


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """One solver's result for a theorem."""

    solver: str
    """Or the explorer."""

    outcome: Outcome
    seconds: float
    """Processor time, which a busy machine changes little."""

    problems: tuple[str, ...]
    """The reason why it is not as expected; empty if it is."""


@dataclass(frozen=True, kw_only=True)
class TheoremVerdict:
    """The result of a theorem."""

    theorem: Theorem
    examined: tuple[Examined, ...]
    solvers: Solvers = "z3"

    @property
    def opinions(self) -> tuple[Opinion, ...]:
        """One for each solver that was asked.  No solver checks the explorer's obligations."""
        answers = [answer for one in self.examined for answer in one.answers]
        if not answers:
            return (self._first(),)
        return (self._second(answers),) if self.solvers == "cvc5" else (self._first(), self._second(answers))

    @property
    def given(self) -> str:
        """The parameters that it is about, as its obligations were examined: what is fixed, and what is assumed."""
        return given_of_all(found.given for found in self.examinations)

    @property
    def outcome(self) -> Outcome:
        """The result of all solvers; unknown if they disagree."""
        outcomes = {opinion.outcome for opinion in self.opinions}
        return outcomes.pop() if len(outcomes) == 1 else "unknown"

    @property
    def is_as_expected(self) -> bool:
        """Is the result as in the catalogue, with all twins failing and no premise empty?"""
        return not self.problems()

    @property
    def seconds(self) -> float:
        """Processor time of all solvers."""
        return sum(opinion.seconds for opinion in self.opinions)

    @property
    def examinations(self) -> tuple[Examination, ...]:
        """The result of each obligation."""
        return tuple(one.examination for one in self.examined)

    @property
    def obligations(self) -> int:
        """How many obligations were examined."""
        return len(self.examined)

    @property
    def twins_refuted(self) -> int:
        """How many twins failed, as all of them must."""
        return sum(found.twin_failed for found in self.examinations)

    @property
    def counterexample(self) -> Counterexample | None:
        """A counterexample to the theorem, if it is refuted."""
        return next((found.counterexample for found in self.examinations if found.outcome == "refuted"), None)

    def problems(self) -> list[str]:
        """The reason why it is not as expected; empty if it is."""
        return [problem for opinion in self.opinions for problem in opinion.problems]

    def _first(self) -> Opinion:
        outcomes = {found.outcome for found in self.examinations}
        return Opinion(
            solver=self.theorem.tool,
            outcome="refuted" if "refuted" in outcomes else "unknown" if "unknown" in outcomes else "proved",
            seconds=sum(one.seconds for one in self.examined),
            problems=tuple(self._found_wrong()),
        )

    def _found_wrong(self) -> Iterable[str]:
        for found in self.examinations:
            if found.outcome != self.theorem.expected:
                yield f"{found.name}: {found.outcome} ({found.counterexample})"
            if found.is_vacuous:
                yield f"{found.name}: says nothing, its premises cannot be met"
            if not found.covers_all:
                yield f"{found.name}: its paths leave a case out, or it would not be noticed if they did"
            if not found.twin_failed:
                yield f"{found.name}: its twin did not fail, so the check could not have either"

    def _second(self, answers: list[Answer]) -> Opinion:
        wrong = [answer for answer in answers if not answer.is_as_expected]
        return Opinion(
            solver=second_solver.NAME,
            outcome=_outcome_of([answer for answer in wrong if answer.about == "claim"], self.theorem.expected),
            seconds=sum(one.answer_seconds for one in self.examined),
            problems=tuple(
                f"{answer.obligation}: {second_solver.NAME} says {answer.given or 'nothing'} to the {answer.about}, "
                f"not {answer.expected}"
                for answer in wrong
            ),
        )


def _outcome_of(wrong_claims: list[Answer], expected: Outcome) -> Outcome:
    if not wrong_claims:
        return expected
    given = {answer.given for answer in wrong_claims}
    return "refuted" if given == {"sat"} else "proved" if given == {"unsat"} else "unknown"


@contextmanager
def _cycles_collected_later() -> Iterator[None]:
    """Let Python look for unreachable cycles only afterwards.

    An examination keeps very many small objects and makes few cycles, so that the search costs much and frees little.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def examine(obligation: Obligation, solvers: Solvers = "z3") -> Examined:
    """Examine one obligation, also by the second solver if asked to.

    Raises:
        ModuleNotFoundError: cvc5 is wanted, and not installed.
    """
    started = time.process_time()
    with _cycles_collected_later():
        examination = obligation.examine()
    examined = time.process_time()
    answers = []
    for question in examination.questions if solvers != "z3" else ():
        given = second_solver.answer(question.to_smtlib())
        answers.append(
            Answer(obligation=obligation.name, about=question.about, expected=question.expected, given=given)
        )
    return Examined(
        # Z3's terms cannot leave this process.
        examination=replace(examination, questions=()),
        seconds=examined - started,
        answers=tuple(answers),
        answer_seconds=time.process_time() - examined,
    )


def prove(theorem: Theorem, solvers: Solvers = "z3") -> TheoremVerdict:
    """Examine every obligation of a theorem.

    Raises:
        ModuleNotFoundError: cvc5 is wanted, and not installed.
    """
    examined = tuple(examine(obligation, solvers) for obligation in theorem.obligations)
    return TheoremVerdict(theorem=theorem, examined=examined, solvers=solvers)
