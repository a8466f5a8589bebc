"""Obligations that are checked for every case in a stated range, by running the model."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from permitflow_model.kernel.system import System
from permitflow_proofs.kernel.induction import Clause
from permitflow_proofs.kernel.obligation import Counterexample, Examination, decide
from permitflow_proofs.kernel.runs import shortest_run

__all__ = ["ExhaustiveObligation", "Refutation"]

C = TypeVar("C")


@dataclass(frozen=True)
class ExhaustiveObligation(Generic[C]):
    """Something that holds for each of finitely many cases."""

    name: str
    cases: Callable[[], Iterable[C]]
    holds: Callable[[C], bool]
    twin: Callable[[C], bool]
    twin_change: str
    describe: Callable[[C], Mapping[str, int | bool | str]]

    def examine(self) -> Examination:
        """Go through all cases; the twin must fail in one of them."""
        count = 0
        twin_failure: Counterexample | None = None
        for case in self.cases():
            count += 1
            if not self.holds(case):
                return Examination(
                    self.name, "refuted", False, twin_failure is not None, Counterexample(self.describe(case)), None
                )
            if twin_failure is None and not self.twin(case):
                twin_failure = Counterexample(self.describe(case))
        return Examination(self.name, "proved", count == 0, twin_failure is not None, None, twin_failure)


@dataclass(frozen=True)
class Refutation(Generic[S, P]):
    """A false statement about all states: to be refuted, with a run of the model into a state where it is false.

    Its twin is a true statement, which must not be refuted.
    """

    name: str
    statement: Clause[S, P]
    twin: Clause[S, P]
    twin_change: str
    always: Callable[[Clause[S, P]], bool]
    """Evaluates a statement in any state that satisfies the inductive invariant."""

    system: System[S, P]
    parameters: P
    """Of the run."""

    def examine(self) -> Examination:
        """Ask Z3 for a state, and the explorer for a shortest run."""
        found = decide(lambda: self.always(self.statement))
        twin = decide(lambda: self.always(self.twin))
        run: Any = shortest_run(
            self.system, self.parameters, lambda state, parameters: not self.statement(state, parameters)
        )
        counterexample = None
        if found.counterexample is not None and run is not None:
            counterexample = Counterexample(found.counterexample.values, run)
        return Examination(
            name=self.name,
            outcome="refuted" if counterexample is not None else "unknown",
            is_vacuous=False,
            twin_failed=twin.outcome == "proved" and twin.reached > 0,
            counterexample=counterexample,
            twin_counterexample=None,
            questions=(found.must_fail("claim"), twin.must_say_something(), twin.must_hold("twin")),
        )
