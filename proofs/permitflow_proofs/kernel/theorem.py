"""Theorems: obligations under one statement, and the verdict on them."""

import time
from dataclasses import dataclass

from permitflow_model.specification import reference
from permitflow_proofs.kernel.obligation import Counterexample, Examination, Obligation, Outcome

__all__ = ["ALL_PARAMETERS", "Theorem", "Verdict", "prove"]

ALL_PARAMETERS = "all parameters"


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """A statement about a model, and what has to be shown for it."""

    id: str
    """Unique in the catalogue."""

    statement: str
    """In words, for people who do not read the proofs."""

    module: str
    """The TLA+ module that it is about."""

    operator: str
    """The definition in that module that it is about."""

    obligations: tuple[Obligation, ...]
    scope: str = ALL_PARAMETERS
    """Or "bounded: " and for which parameters."""

    tool: str = "Z3"
    expected: Outcome = "proved"
    """A false statement that others made is listed too, to be refuted."""

    @property
    def reference(self) -> str:
        """File and line of the specification."""
        return reference(self.module, self.operator)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a theorem."""

    theorem: Theorem
    outcome: Outcome
    seconds: float
    """Processor time, which a busy machine changes little."""

    examinations: tuple[Examination, ...]

    @property
    def is_as_expected(self) -> bool:
        """Did it come out as the catalogue says, with all twins failing and no premise empty?"""
        return self.outcome == self.theorem.expected and all(found.could_fail for found in self.examinations)

    @property
    def obligations(self) -> int:
        """How many obligations were examined."""
        return len(self.examinations)

    @property
    def twins_refuted(self) -> int:
        """How many twins failed, as all of them must."""
        return sum(found.twin_failed for found in self.examinations)

    @property
    def counterexample(self) -> Counterexample | None:
        """Against the theorem, if it is refuted."""
        return next((found.counterexample for found in self.examinations if found.outcome == "refuted"), None)

    def problems(self) -> list[str]:
        """Why it is not as expected; empty if it is."""
        found = []
        for examination in self.examinations:
            if examination.outcome != self.theorem.expected:
                found.append(f"{examination.name}: {examination.outcome} ({examination.counterexample})")
            if examination.is_vacuous:
                found.append(f"{examination.name}: says nothing, its premises cannot be met")
            if not examination.twin_failed:
                found.append(f"{examination.name}: its twin did not fail, so the check could not have either")
        return found


def prove(theorem: Theorem) -> Verdict:
    """Examine every obligation of a theorem."""
    started = time.process_time()
    examinations = tuple(obligation.examine() for obligation in theorem.obligations)
    outcomes = {examination.outcome for examination in examinations}
    outcome: Outcome = "refuted" if "refuted" in outcomes else "unknown" if "unknown" in outcomes else "proved"
    return Verdict(
        theorem=theorem,
        outcome=outcome,
        seconds=time.process_time() - started,
        examinations=examinations,
    )
