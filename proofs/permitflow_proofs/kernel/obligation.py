"""Obligations, their twins that must fail, and the results of both.

A claim is an ordinary function without arguments that makes symbols, assumes things and returns a truth value.
It is proved when it is true on every path; it is vacuous when no path returns.  Runs of a model are concrete, to show
them, or symbolic, to prove that a state can be reached.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

import z3

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.runs import Move, Run
from permitflow_model.kernel.system import Disabled, System, has_truth
from permitflow_proofs.kernel.coverage import Coverage
from permitflow_proofs.kernel.given import Given, GivenReader
from permitflow_proofs.kernel.paths import Explorer, Path
from permitflow_proofs.kernel.reading import read
from permitflow_proofs.kernel.replay import Replay
from permitflow_proofs.kernel.terms import conjunction, disjunction

S = TypeVar("S")
P = TypeVar("P")


def shortest_run(system: System[S, P], parameters: P, until: Callable[[S, P], bool]) -> Run[S, P] | None:
    """A run with the fewest steps to a state in which this holds; None if there is none."""
    graph = explore(
        system,
        parameters,
        invariants={"until": lambda state, parameters: not until(state, parameters)},
        stop_at_violation=True,
    )
    for violation in graph.violations:
        return Run(parameters, violation.start, violation.steps)
    return None


def take(system: System[S, P], parameters: P, state: S, moves: Iterable[Move]) -> S | None:
    """The state after these steps, also symbolic; None if one of them is not possible."""
    try:
        for action, arguments in moves:
            state = system.perform(action, state, parameters, *arguments)
    except Disabled:
        return None
    return state


Outcome = Literal["proved", "refuted", "unknown"]

Claim = Callable[[], bool]


@dataclass(frozen=True)
class Counterexample:
    """A counterexample: values for which a claim is false."""

    values: Mapping[str, int | bool | str]
    """Values of the symbols, by name."""

    run: Run[Any, Any] | None = None
    """A run of the model into it, if one was asked for."""

    told: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What the claim tells of itself (``Explorer.told``), with values in place of symbols."""

    def __str__(self) -> str:
        """One line, without the members of families that are not in focus."""
        shown = sorted((name, value) for name, value in self.values.items() if ".others." not in name)
        return ", ".join(f"{name}={value}" for name, value in shown)


Conjunctions = tuple[tuple[z3.BoolRef, ...], ...]

Subject = Literal["claim", "forks", "forks-twin", "premises", "twin"]


@dataclass(frozen=True)
class Question:
    """Is one of these conditions possible?  The answer that confirms Z3's claim is known."""

    about: Subject
    conjunctions: Conjunctions
    expected: Literal["sat", "unsat"]

    def to_smtlib(self) -> str:
        """The question for another solver: SMT-LIB 2.6, ending in ``(check-sat)``."""
        solver = z3.Solver()
        solver.add(disjunction([conjunction(conditions) for conditions in self.conjunctions]))
        return f"(set-logic ALL)\n{solver.to_smt2()}"


@dataclass(frozen=True)
class Finding:
    """The solver's result for a claim."""

    outcome: Outcome
    reached: int
    """Paths on which the claim was found true: 0 in a proof means that it says nothing."""

    counterexample: Counterexample | None
    pruned: Conjunctions
    """Conditions that the solver found impossible: sides of forks that were not taken."""

    violated: Conjunctions
    """The paths on which the claim is false."""

    example: tuple[z3.BoolRef, ...] | None
    """A path on which the claim was found true; None if there is none."""

    given: Given | None
    """The parameters that the claim is about; None if it is about no model."""

    coverage: Coverage | None
    """What its paths leave out; None where they were not all walked, because it is false on one."""

    def must_hold(self, about: Literal["claim", "twin"] = "claim") -> Question:
        """The question whether nothing pruned is possible and the claim is false nowhere."""
        return Question(about, (*self.pruned, *self.violated), "unsat")

    def must_fail(self, about: Literal["claim", "twin"] = "twin") -> Question:
        """The question whether the claim is false somewhere."""
        return Question(about, self.violated, "sat")

    def must_cover_all(self) -> tuple[Question, ...]:
        """The questions whether its paths leave a case out, and whether one that is left out would be noticed."""
        if self.coverage is None:
            return ()
        return (
            Question("forks", ((self.coverage.left_out,),), "unsat"),
            Question("forks-twin", ((self.coverage.twin,),), "sat"),
        )

    def must_say_something(self) -> Question:
        """The question whether its premises can be met."""
        return Question("premises", () if self.example is None else (self.example,), "sat")


def decide(claim: Claim, *, is_twin: bool = False) -> Finding:
    """Is the claim true on all its paths?  Stops at the first on which it is not.

    ``is_twin``: what is given is not told.
    """
    explorer = Explorer()
    reached = 0
    uncertain = False
    counterexample: Counterexample | None = None
    violated: list[tuple[z3.BoolRef, ...]] = []
    example: tuple[z3.BoolRef, ...] | None = None
    given: Given | None = None
    reader = GivenReader()
    walked: list[Path[bool]] = []
    for path in explorer.paths(lambda: _holds(claim)):
        if not path.enabled:
            continue
        if not is_twin:
            before, given = given, reader.read(path.premises)
            if given is not before:
                _require_one_given(before, given)
        if path.result:
            if path.witness is not None:
                reached += 1
                example = example or path.conditions
                walked.append(path)
            continue
        violated.append(path.conditions)
        if path.witness is None:
            uncertain = True
            continue
        counterexample = Counterexample(path.values(), told=read(path.told, path.witness))
        break
    outcome: Outcome = "refuted" if counterexample else "unknown" if uncertain else "proved"
    if outcome == "proved" and not is_twin:
        Replay(claim).require_same(walked)
    covered = None if counterexample else explorer.coverage()
    given = reader.given(None if counterexample else explorer.disabled)
    return Finding(outcome, reached, counterexample, tuple(explorer.pruned), tuple(violated), example, given, covered)


def _holds(claim: Claim) -> bool:
    """Does it hold on this path?

    Raises:
        TypeError: it returns something else than a truth value, which Python may take for true.
    """
    held = claim()
    if not has_truth(held):
        raise TypeError(f"a claim must return whether it holds, not {held!r}")
    return bool(held)


def _require_one_given(before: Given | None, after: Given | None) -> None:
    """A premise that forks is another one on each path: it could not be told.

    Raises:
        ValueError: it does.
    """
    if before is not None and (after is None or before.facts != after.facts):
        one, other = (", ".join(given.facts if given else ()) or "nothing" for given in (before, after))
        raise ValueError(
            f"a claim assumes {one} of the parameters on one path, and {other} on "
            "another one; assume its condition merged, so that it does not fork"
        )


@dataclass(frozen=True)
class Examination:
    """The results of one obligation and its twin."""

    name: str
    outcome: Outcome
    is_vacuous: bool
    """Are the premises impossible, or the action never enabled?"""

    twin_failed: bool
    """Did the twin have the opposite result, as it must?"""

    counterexample: Counterexample | None
    """A counterexample to the obligation itself."""

    twin_counterexample: Counterexample | None
    """A counterexample to the twin, which is expected."""

    given: tuple[str, ...] | None = None
    """What is given of the parameters, in words; empty: nothing, they are any that the model accepts; None: it is about
    no model."""

    covers_all: bool = True
    """Do its paths cover all cases, and would one that is left out be noticed?"""

    questions: tuple[Question, ...] = field(default=(), repr=False, compare=False)
    """Questions for another solver; none for findings of the explorer.  Bound to this process."""

    @property
    def could_fail(self) -> bool:
        """Does the outcome mean anything?"""
        return self.twin_failed and not self.is_vacuous


class Obligation(Protocol):
    """One statement to show."""

    @property
    def name(self) -> str:
        """The claim, in a few words."""
        ...

    @property
    def twin_change(self) -> str:
        """The mistake in the twin."""
        ...

    def examine(self) -> Examination:
        """Try to prove it, and to refute its twin."""
        ...


@dataclass(frozen=True)
class SymbolicObligation:
    """An obligation for all values, discharged by Z3."""

    name: str
    claim: Claim
    twin: Claim
    """The same with a mistake in the statement or in a step: it must be refuted."""

    twin_change: str

    def examine(self) -> Examination:
        """Prove it, check that it is not vacuous, refute the twin."""
        found = decide(self.claim)
        twin = decide(self.twin, is_twin=True)
        return Examination(
            name=self.name,
            outcome=found.outcome,
            is_vacuous=found.outcome == "proved" and found.reached == 0,
            twin_failed=twin.outcome == "refuted",
            counterexample=found.counterexample,
            twin_counterexample=twin.counterexample,
            given=found.given.facts if found.given else None,
            covers_all=found.coverage is None or found.coverage.is_complete,
            questions=(found.must_hold(), *found.must_cover_all(), found.must_say_something(), twin.must_fail()),
        )
