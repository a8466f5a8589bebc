"""Inductive invariants of any model: they hold at the start, and each action keeps them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from permitflow_model.kernel.system import System
from permitflow_proofs.kernel.obligation import SymbolicObligation

__all__ = ["Clause", "Fault", "Relation", "Subject"]

S = TypeVar("S")
P = TypeVar("P")

Clause = Callable[[S, P], bool]
"""Something that holds for a state, or does not: one of the model's own invariants, or one more like them."""

Fault = Callable[[S, P], S]
"""A mistake made after a step."""

Relation = Callable[[S, S, P], bool]
"""Something that holds between the states before and after a step."""


@dataclass(frozen=True)
class Subject(Generic[S, P]):
    """A model, and how to make any of its parameters, states and arguments."""

    system: System[S, P]
    any_parameters: Callable[[], P]
    any_state: Callable[[P], S]
    """Any state that satisfies the inductive invariant."""

    any_arguments: Mapping[str, Callable[[P], tuple[int, ...]]] = field(default_factory=dict)
    """Of the actions that have arguments."""

    def protocol_actions(self) -> tuple[str, ...]:
        """The actions that are not the application's."""
        return tuple(action.name for action in self.system.actions if not action.is_environment)

    def perform(self, action: str, state: S, parameters: P) -> S:
        """Take a step with any arguments.

        Raises:
            Disabled: the action's guard is false.
        """
        return self.system.perform(action, state, parameters, *self.arguments_of(action, parameters))

    def arguments_of(self, action: str, parameters: P) -> tuple[int, ...]:
        """Any arguments that an action may be performed with."""
        make = self.any_arguments.get(action)
        return make(parameters) if make else ()

    def induction(
        self,
        clause: Clause[S, P],
        fault: Fault[S, P],
        fault_in_words: str,
        twin_clause: Clause[S, P] | None = None,
    ) -> tuple[SymbolicObligation, ...]:
        """The clause holds initially, and each action keeps it.

        The twins make the mistake after the step; they must violate the clause, or ``twin_clause``.
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
                for step in self.step_obligations(
                    [action.name for action in self.system.actions],
                    lambda _before, after, parameters: clause(after, parameters),
                    lambda _before, after, parameters: broken(fault(after, parameters), parameters),
                    fault_in_words,
                )
            ),
        )

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

    def always(self, clause: Clause[S, P]) -> bool:
        """The clause in any state that satisfies the inductive invariant (to be called in a claim)."""
        parameters = self.any_parameters()
        return clause(self.any_state(parameters), parameters)

    def _initially(self, clause: Clause[S, P]) -> bool:
        parameters = self.any_parameters()
        return clause(self.system.initial(parameters), parameters)

    def _related(self, action: str, relation: Relation[S, P]) -> bool:
        parameters = self.any_parameters()
        before = self.any_state(parameters)
        return relation(before, self.perform(action, before, parameters), parameters)
