"""The look of a system in pictures, pages and tables: its variables, or a look of its own in ``looks``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, NamedTuple, TypeAlias

from permitflow_model.kernel.system import Action, Step, System, shown
from permitflow_model.mistakes import mistakes_in
from permitflow_model.tla_values import camel_case, format_value, state_to_tla
from permitflow_tools.explain.specification import FalseGuard, Specification, false_guard

# A drawing's measures, in pixels.
DRAWING_WIDTH = 1080
MARGIN = 28
BAR_AT = 306
BAR_WIDTH = 440
BAR_HEIGHT = 24

MOST_ITEMS = 60
"""Items of a queue that are shown."""

MOST_ARGUMENTS = 20
"""The most arguments to try for an action: an application's actions may have many, which are refused alike."""

MOST_CHANGES = 120
"""Characters that a drawing has room for beside a step."""

_EMPTY = frozenset({"0", "-1", "FALSE", "none", "\u27e8\u27e9"})

COMMON_WORDS: Mapping[str, Callable[..., str]] = {
    "state.waiting.size() < parameters.waiters": lambda size, most: f"{size:,} wait, and no more than {most:,} may",
    "parameters.withdrawals": lambda: "a message that waits here is never withdrawn",
    "not state.waiting.is_empty()": lambda: "nothing waits",
    "not state.wire.is_empty()": lambda: "nothing is on the wire",
    "not state.inbox.is_empty()": lambda: "the inbox is empty",
}
"""Words for guards that several protocols have."""

Document: TypeAlias = dict[str, object]
"""An object for ``json``."""


def call(action: str, arguments: Sequence[object]) -> str:
    """An action with its arguments, if it has any."""
    told = ", ".join(f"{each:,}" if isinstance(each, int) else each for each in map(argument, arguments))
    return f"{action}({told})" if told else action


def argument(value: object) -> int | str:
    """An argument of an action as a page holds it: a number, or the text of anything else."""
    return value if type(value) is int and abs(value) < 1 << 53 else shown(value, str)


class Fact(NamedTuple):
    """A parameter as it is shown."""

    name: str
    """The name of the constant in the specification."""
    value: str
    remark: str
    """The specification's comment on it."""


class Look:
    """The default look: a system's variables and their changes."""

    has_actors: ClassVar[bool] = False
    """Does a table say whose move each action is?"""
    footnote: ClassVar[str] = "The table shows the variables of the specification; what a step has changed is marked."
    text_of: ClassVar[str] = "in the specification"
    """Where the text of an action stands."""
    of_a_node: ClassVar[str] = "The number in a circle is that of the state"
    strange_steps: ClassVar[str] = (
        "Something was recorded that is not an action of the specification, so the steps from there on are not shown."
    )

    def __init__(
        self,
        system: System[Any, Any],
        *,
        words: Mapping[str, Callable[..., str]] | None = None,
        beginning: str = "The beginning.",
        at_rest: str = "everything has come to its end",
    ) -> None:
        """``words`` are those for guards, by the model's own text; those for comparisons are told the two sides."""
        self.system = system
        self.words = {**COMMON_WORDS, **(words or {})}
        self.beginning = beginning
        self.at_rest = at_rest

    @cached_property
    def specification(self) -> Specification:
        """Its text."""
        return Specification(self.system.module)

    def false_guard(self, action: str, state: Any, parameters: Any, *arguments: int) -> FalseGuard | None:
        """The first guard of an action that is false in this state, or None if the action is possible."""
        return false_guard(self.system, self.words, action, state, parameters, *arguments)

    def refusal(self, action: Action[Any, Any], state: Any, parameters: Any) -> FalseGuard | None:
        """Why an action is impossible with any arguments; None if it is possible, or may have no arguments."""
        possible = list(islice(action.arguments(parameters), MOST_ARGUMENTS))
        if any(self.system.is_enabled(action.name, state, parameters, *arguments) for arguments in possible):
            return None
        return self.false_guard(action.name, state, parameters, *possible[0]) if possible else None

    def absent_actions(self, parameters: Any) -> frozenset[str]:
        """Actions that no run with these parameters has: nobody needs to be told that they are impossible."""
        return frozenset()

    def absent_variables(self, parameters: Any) -> frozenset[str]:
        """Variables that never change with these parameters, by their names in the specification."""
        return frozenset()

    def refusals(self, state: Any, parameters: Any) -> list[FalseGuard]:
        """The false guard of each impossible action of the protocol."""
        absent = self.absent_actions(parameters)
        own = (each for each in self.system.actions if not each.is_environment and each.name not in absent)
        return [guard for guard in (self.refusal(action, state, parameters) for action in own) if guard]

    def is_stuck(self, state: Any, parameters: Any, system: System[Any, Any] | None = None) -> bool:
        """Does something wait for ever, in this system or in one with mistaken actions?"""
        never_stuck = (system or self.system).invariants.get("NeverStuck")
        return never_stuck is not None and not never_stuck(state, parameters)

    def actor(self, action: str) -> str:
        """Whose move an action is."""
        of = self.system.action(self._right(action))
        return "application" if of.is_environment else of.end or "protocol"

    def _right(self, action: str) -> str:
        """The action of the model in whose place a mistake of this name is, or the action itself."""
        known = {each.name for each in self.system.actions}
        return action if action in known else mistakes_in(self.system.module)[action].action

    def event(self, action: str, arguments: Sequence[int]) -> str:
        """A recorded action in words."""
        return call(action, arguments)

    # A state in words.

    def value(self, value: Any) -> str:
        """A value as in the specification, shortened."""
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, str):
            return f'"{value}"'
        if hasattr(value, "_asdict"):
            return ", ".join(f"{name} {self.value(part)}" for name, part in value._asdict().items() if part) or "none"
        if isinstance(value, tuple | frozenset):
            items = [*map(self.value, self._in_order(value) if isinstance(value, frozenset) else value)]
            more = [f"\u2026 {len(items) - MOST_ITEMS:,} more"] if len(items) > MOST_ITEMS else []
            return f"\u27e8{', '.join(items[:MOST_ITEMS] + more)}\u27e9"
        return f"{value:,}" if isinstance(value, int) and abs(value) > 9_999 else str(value)

    def _in_order(self, items: frozenset[Any]) -> list[Any]:
        by_text = sorted(items, key=self.value)
        try:
            return sorted(by_text)
        except TypeError:  # they are of several kinds, or have no order
            return by_text

    def parts(self, state: Any) -> Sequence[Any]:
        """The values of the variables."""
        return tuple(state)

    def variables(self, state: Any) -> dict[str, str]:
        """Each variable by its name in the specification."""
        return {camel_case(name): self.value(value) for name, value in zip(state._fields, state, strict=True)}

    def in_brief(self, state: Any) -> str:
        """Only the variables that hold something."""
        shown = {name: text for name, text in self.variables(state).items() if text not in _EMPTY}
        return "\n".join(f"{name} = {text}" for name, text in shown.items())

    def row(self, state: Any) -> dict[str, str]:
        """A row of a table, by column; by default each variable in TLC's spelling."""
        return {name: format_value(value) for name, value in state_to_tla(state).items()}

    def as_json(self, state: Any) -> dict[str, object]:
        """For programs."""
        return dict(self.row(state))

    # A page on which the reader chooses the next step.

    def is_explorable(self, parameters: Any) -> bool:
        """Can a page show each state by itself?"""
        return True

    def in_places(self, state: Any) -> list[object]:
        """What a page needs of a state beside its variables, to draw it."""
        return []

    # Parameters.

    def facts(self, parameters: Any, *, is_recorded: bool = False, has_every_size: bool = False) -> list[Fact]:
        """The relevant parameters; for a recorded run, those that the user chose."""
        if is_recorded:
            return []
        return [self.fact(each.name, self.value(getattr(parameters, each.name))) for each in fields(parameters)]

    def fact(self, name: str, value: str) -> Fact:
        """A parameter, with what the specification says about its constant."""
        spelt = camel_case(name)
        constant = spelt[0].upper() + spelt[1:]
        return Fact(constant, value, self.specification.remarks().get(constant, ""))

    def in_numbers(self, parameters: Any) -> str:
        """The system with its parameters, for titles."""
        told = ", ".join(f"{fact.name} {fact.value}" for fact in self.facts(parameters))
        return f"{self.system.module} with {told}"

    # The page and the drawing of a run.

    def document(self, parameters: Any, states: Sequence[Any], steps: Sequence[Step[Any]]) -> Document:
        """Further data for the page of a run: each variable in each state, as the index of a text."""
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(text, len(numbers)) for text in self.variables(state).values()] for state in states]
        return {"valueTexts": list(numbers), "values": rows, "beginning": self.beginning}

    def legend(self, parameters: Any, y: float) -> list[str]:
        """The legend of the drawing's colours."""
        return []

    def changes(self, before: Any, state: Any) -> str:
        """What a step has changed, in one line."""
        old = self.variables(before)
        new = self.variables(state)
        return ", ".join(f"{name} {old[name]} \u2192 {new[name]}" for name in new if old[name] != new[name])

    notes_at: ClassVar[int] = BAR_AT
    """Where the notes on a state begin."""

    def drawn(self, parameters: Any, state: Any, y: float) -> Iterator[str]:
        """A state in the drawing, if it is more than its notes."""
        yield from ()

    def notes(self, parameters: Any, before: Any, state: Any) -> list[tuple[str, str]]:
        """Lines beside a state: what has changed since the one before; each with its class."""
        text = self.changes(before, state)
        return [(text if len(text) <= MOST_CHANGES else f"{text[: MOST_CHANGES - 1]}\u2026", "muted")]

    # A state graph.

    never_stuck: ClassVar[str] = "from each state on, every waiting message can still be sent"

    def node(self, number: int, state: Any, parameters: Any) -> tuple[str, float]:
        """The text in a state's circle, and how full it is drawn, from 0 to 1."""
        return f"{number}", 0.0

    def node_kinds(self, parameters: Any) -> list[tuple[str, str, float]]:
        """Kinds of states: in words, as a class, and how full."""
        return []

    def graph_document(self, parameters: Any, states: Sequence[Any]) -> Document:
        """Further data for the page of a state graph."""
        return {"places": {}}
