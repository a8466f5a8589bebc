"""Obligations about any model: inductive invariants, and statements that are checked for every case in a range.

An invariant holds at the start, and each action keeps it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Generic, TypeVar

from permitflow_model.kernel.system import Action, System
from permitflow_proofs.kernel.family import ACTING
from permitflow_proofs.kernel.given import given_in
from permitflow_proofs.kernel.obligation import Counterexample, Examination, SymbolicObligation, decide, shortest_run
from permitflow_proofs.kernel.paths import Beginning, current_explorer

S = TypeVar("S")
P = TypeVar("P")

Clause = Callable[[S, P], bool]
"""Something that holds for a state, or does not: one of the model's own invariants, or one more like them."""

Fault = Callable[[S, P], S]
"""A mistake made after a step."""

Relation = Callable[[S, S, P], bool]
"""Something that holds between the states before and after a step."""


@dataclass(frozen=True, eq=False)
class Subject(Generic[S, P]):
    """A model, with functions that make any of its parameters, states and arguments."""

    system: System[S, P]
    any_parameters: Callable[[], P]
    any_state: Callable[[P], S]
    """Any state that satisfies the inductive invariant."""

    any_arguments: Mapping[str, Callable[[P], tuple[int, ...]]] = field(default_factory=dict)
    """Arguments of those actions that have some besides the name of a member."""

    looked_at: Callable[[S, P], Any] = lambda state, _: state
    """Parts of a state that stand for all of it: members by symbolic names, where these are any."""

    acting: int = ACTING
    """The name of the member that acts: the first in focus, or a symbol for any one."""

    names: tuple[int, ...] = ()
    """What the numbers stand for with which a frame performs an action; empty: no frame gives any."""

    def protocol_actions(self) -> tuple[str, ...]:
        """The actions of the protocol, without the application's."""
        return tuple(action.name for action in self.system.actions if not action.is_environment)

    def perform(self, action: str, state: S, parameters: P) -> S:
        """Take a step with any arguments.

        Raises:
            Disabled: the action's guard is false.
        """
        arguments = self.arguments_of(action, parameters)
        with current_explorer().acting(is_one=self.system.action(action).members is not None):
            return self.system.perform(action, state, parameters, *arguments)

    def is_enabled(self, action: str, state: S, parameters: P, *arguments: int) -> bool:
        """Is it possible?  A guard looks at no member that may not be there, as a step does not."""
        with current_explorer().acting():
            return self.system.is_enabled(action, state, parameters, *arguments)

    def arguments_of(self, action: str, parameters: P) -> tuple[int, ...]:
        """Any arguments that an action may be performed with."""
        make = self.any_arguments.get(action)
        name = () if self.system.action(action).members is None else (self.acting,)
        return (*name, *(make(parameters) if make else ()))

    def induction(
        self,
        clause: Clause[S, P],
        fault: Fault[S, P],
        fault_in_words: str,
        twin_clause: Clause[S, P] | None = None,
        never: Collection[str] = (),
    ) -> tuple[SymbolicObligation, ...]:
        """The clause holds initially, and each action keeps it.

        The twins make the mistake after the step; they must violate the clause, or ``twin_clause``.  Of the actions
        that are ``never`` possible it is shown that they are not: nothing could be said of their steps.
        """
        broken = twin_clause or clause
        return (
            SymbolicObligation(
                "holds initially",
                lambda: self._initially(clause),
                lambda: self._initially(lambda state, parameters: broken(fault(state, parameters), parameters)),
                fault_in_words,
            ),
            *(
                SymbolicObligation(
                    f"kept by {step.name}",
                    step.claim,
                    step.twin,
                    step.twin_change,
                )
                for action in self.system.actions
                if action.name not in never
                for step in self.step_obligations(
                    [action.name],
                    partial(_judged, clause, action),
                    lambda _before, after, parameters: broken(fault(after, parameters), parameters),
                    fault_in_words,
                )
            ),
            *(
                SymbolicObligation(
                    f"{action} is never possible",
                    partial(self._is_possible, action, False),
                    partial(self._is_possible, action, True),
                    "it is always possible",
                )
                for action in never
            ),
        )

    def _is_possible(self, action: str, expected: bool) -> bool:
        before, arguments, parameters = self.any_call(action)
        return self.is_enabled(action, before, parameters, *arguments) is expected

    def holds_whenever_invariant(
        self, name: str, clause: Clause[S, P], twin: Clause[S, P], twin_change: str
    ) -> SymbolicObligation:
        """The inductive invariant implies the clause."""
        return SymbolicObligation(name, lambda: self.always(clause), lambda: self.always(twin), twin_change)

    def step_obligations(
        self,
        actions: Sequence[str],
        relation: Relation[S, P],
        twin: Relation[S, P],
        twin_change: str,
    ) -> tuple[SymbolicObligation, ...]:
        """Each of these actions relates the states before and after it in this way."""
        return tuple(
            SymbolicObligation(
                action,
                lambda action=action: self._related(action, relation),  # type: ignore[misc]  # binds the loop's value
                lambda action=action: self._related(action, twin),  # type: ignore[misc]  # likewise
                twin_change,
            )
            for action in actions
        )

    def comes_to(self, rest: Callable[[S], bool], unless: Callable[[P], bool] = lambda _: False) -> SymbolicObligation:
        """Where the protocol can do nothing more, it has come to such a state; the twin: never to such a state."""

        def rests(state: S, parameters: P, *, there: bool) -> bool:
            return unless(parameters) or self.system.can_move(state, parameters) or bool(rest(state)) == there

        return self.holds_whenever_invariant(
            "in every state", partial(rests, there=True), partial(rests, there=False), "nothing has"
        )

    def always(self, clause: Clause[S, P]) -> bool:
        """The clause in any state that satisfies the inductive invariant (to be called in a claim)."""
        return clause(*self.any_case())

    def any_case(self) -> tuple[S, P]:
        """Any state that satisfies the inductive invariant, with any parameters; made once for claims that begin so."""
        case: tuple[S, P] = any_beginning(self._make_case)()
        return case

    def any_step(self, action: str) -> tuple[S, S, P]:
        """Any step of an action: the states before and after it, and the parameters; likewise."""
        step: tuple[S, S, P] = any_beginning(self._make_step, action)()
        return step

    def any_call(self, action: str, arguments: tuple[int, ...] | None = None) -> tuple[S, tuple[int, ...], P]:
        """Any state, perhaps one where the action is not possible, arguments of it, and the parameters."""
        if arguments is not None:
            before, parameters = self.any_case()
            return before, self.named(arguments), parameters
        call: tuple[S, tuple[int, ...], P] = any_beginning(self._make_call, action)()
        return call

    def named(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The names for which numbers stand."""
        return tuple(self.names[number] for number in numbers) if self.names else numbers

    def _make_call(self, action: str) -> tuple[S, tuple[int, ...], P]:
        before, parameters = self.any_case()
        return before, self.arguments_of(action, parameters), parameters

    def _make_case(self) -> tuple[S, P]:
        parameters = self.any_parameters()
        return self.any_state(parameters), parameters

    def _make_step(self, action: str) -> tuple[S, S, P]:
        before, parameters = self.any_case()
        return before, self.perform(action, before, parameters), parameters

    def _initially(self, clause: Clause[S, P]) -> bool:
        parameters = self.any_parameters()
        with current_explorer().judging():
            return clause(self.system.initial(parameters), parameters)

    def _related(self, action: str, relation: Relation[S, P]) -> bool:
        return relation(*self.any_step(action))


def _judged(clause: Clause[S, P], action: Action[S, P], _before: S, after: S, parameters: P) -> bool:
    """The clause after a step."""
    with current_explorer().judging(is_judging=action.members is not None):
        return clause(after, parameters)


@cache
def any_beginning(make: Callable[..., Any], *arguments: str) -> Beginning[Any]:
    """The symbolic state with which claims begin, made once.

    Clear this cache after a change of a model's functions.
    """
    return Beginning(partial(make, *arguments))


C = TypeVar("C")


@dataclass(frozen=True)
class ExhaustiveObligation(Generic[C]):
    """A statement that holds for each of finitely many cases."""

    name: str
    cases: Callable[[], Iterable[C]]
    holds: Callable[[C], bool]
    twin: Callable[[C], bool]
    twin_change: str
    describe: Callable[[C], Mapping[str, int | bool | str]]

    def examine(self) -> Examination:
        """Go through all cases; the twin must fail in one of them."""
        cases = tuple(self.cases())
        given = given_in(cases).facts
        twin_failure: Counterexample | None = None
        for case in cases:
            if not self.holds(case):
                found = Counterexample(self.describe(case))
                return Examination(self.name, "refuted", False, twin_failure is not None, found, None, given)
            if twin_failure is None and not self.twin(case):
                twin_failure = Counterexample(self.describe(case))
        return Examination(self.name, "proved", not cases, twin_failure is not None, None, twin_failure, given)


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
    """The parameters of the run."""

    def examine(self) -> Examination:
        """Ask Z3 for a state, and the explorer for a shortest run."""
        found = decide(lambda: self.always(self.statement))
        twin = decide(lambda: self.always(self.twin), is_twin=True)
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
            given=found.given.facts if found.given else None,
            questions=(found.must_fail("claim"), twin.must_say_something(), twin.must_hold("twin")),
        )
