"""The states around a run: what a page needs so that its reader can choose the next step.

The model computes all of it beforehand.  A page holds a bounded number of states, the nearest first.  So it works
without a network and without the model, and computes no rule of a protocol.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from permitflow_model.kernel.system import Action, Step, System
from permitflow_tools.explain.document import POSSIBLE
from permitflow_tools.explain.look import Document, Look, argument

MOST_STATES = 1_000
"""States that the page of one run holds: some 100 kB."""


class Surroundings:
    """States of one system as a page shows them; several graphs share them, so that each text is there once."""

    def __init__(self, look: Look) -> None:
        """Nothing is known yet; ``graph`` adds states."""
        self._look = look
        self._actions = {action.name: number for number, action in enumerate(look.system.actions)}
        self._names: list[str] = []
        self._views = _Numbered()
        self._texts = _Numbered()
        self._moves = _Numbered()
        self._reasons = _Numbered()
        self._rows = _Numbered()

    @property
    def never_taken(self) -> list[int]:
        """Actions that no step is, as indexes into those of the system."""
        taken = {move[0] for move in self._moves.values}
        return [number for number in self._actions.values() if number not in taken]

    @property
    def never_changed(self) -> list[str]:
        """Variables that have one value in all states."""
        columns = zip(*(view[0] for view in self._views.values), strict=True)
        return [name for name, column in zip(self._names, columns, strict=True) if len(set(column)) == 1]

    def document(self) -> Document:
        """The tables that the graphs refer to."""
        return {
            # Of each state: the values of its variables, as indexes of texts; and what the look adds.
            "views": self._views.values,
            "viewTexts": self._texts.values,
            # An index into the actions, and the arguments.
            "moves": self._moves.values,
            # For each action the index of its reason, -1 if it is possible.
            "reasonRows": self._rows.values,
            "reasonTexts": self._reasons.values,
        }

    def graph(
        self,
        parameters: Any,
        start: Any,
        steps: Sequence[Step[Any]] = (),
        *,
        most: int = MOST_STATES,
        system: System[Any, Any] | None = None,
    ) -> Document:
        """The states nearest to a run, at most this many, and the steps between them: of the look's system, or another.

        A state has all of its steps, or None where the page would need more states for them.  ``run`` is the run
        itself, as a list of moves and targets in turn.
        """
        system = system or self._look.system
        numbers = {start: 0}
        states = [start]

        def number_of(state: Any) -> int:
            if state not in numbers:
                numbers[state] = len(states)
                states.append(state)
            return numbers[state]

        run = [part for step in steps for part in (self._move(step), number_of(step.state))]
        ways: list[list[int] | None] = []
        rows = []
        for state in states:  # the list grows meanwhile
            found = list(system.successors(state, parameters))
            rows.append(self._row(state, parameters, {step.action for step in found}))
            more = {step.state for step in found if step.state not in numbers}
            is_complete = len(states) + len(more) <= most
            ways.append(
                [p for step in found for p in (self._move(step), number_of(step.state))] if is_complete else None
            )
        return {
            "states": [self._view(state) for state in states],
            "steps": ways,
            "reasons": rows,
            "stuck": [n for n, state in enumerate(states) if self._look.is_stuck(state, parameters, system)],
            "run": run,
        }

    def _move(self, step: Step[Any]) -> int:
        return self._moves.number([self._actions[step.action], *map(argument, step.arguments)])

    def _view(self, state: Any) -> int:
        told = self._look.variables(state)
        self._names = [*told]
        texts = [self._texts.number(text) for text in told.values()]
        return self._views.number([texts, *self._look.in_places(state)])

    def _row(self, state: Any, parameters: Any, possible: set[str]) -> int:
        return self._rows.number(
            [
                POSSIBLE if action.name in possible else self._reasons.number(self._reason(action, state, parameters))
                for action in self._look.system.actions
            ]
        )

    def _reason(self, action: Action[Any, Any], state: Any, parameters: Any) -> str:
        """Nobody needs to be told why the application cannot do something."""
        arguments = next(iter(action.arguments(parameters)), None)
        if action.is_environment or arguments is None:
            return ""
        guard = self._look.false_guard(action.name, state, parameters, *arguments)
        return guard.sentence if guard else ""


class _Numbered:
    """Values, each once, by the order in which they came."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, value: Any) -> int:
        key = _frozen(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def _frozen(value: Any) -> Hashable:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
