"""A hook that hears of the specification's actions as they happen.  Without one it costs nothing.

The recorder knows a protocol by its ``ActionTable`` only: which actions each end has, what the numbers beside an action
are called, and what an end counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, TypeAlias

from permitflow.errors import InvalidParametersError

__all__ = [
    "ENDS",
    "ActionTable",
    "End",
    "ParameterValue",
    "Recorder",
    "RecorderFactory",
    "column_of",
    "fields_of",
]

End = Literal["sender", "receiver"]

ENDS: tuple[End, End] = ("sender", "receiver")

ParameterValue: TypeAlias = str | int | float | bool | None
"""What a parameter of a channel may be in a recording."""

# What a recording says of every event; an argument or a counter has another name.
_RESERVED = frozenset({"action", "channel", "counters", "end", "position", "sequence", "time_seconds"})


@dataclass(frozen=True)
class ActionTable:
    """The names by which a protocol's runs are recorded.

    Raises:
        InvalidParametersError: two numbers would have the same name, or one that is taken.
    """

    flow: str
    """The protocol's own name."""

    actions: Mapping[End, Mapping[str, tuple[str, ...]]]
    """For each end its actions, spelt as in the specification, and of each action the names of its arguments.

    Names with the same beginning before a dot, one after the other, are parts of one thing: ``permits.rows``.
    """

    counters: Mapping[End, tuple[str, ...]]
    """What an end itself counts, after each of its actions."""

    def __post_init__(self) -> None:
        """Refuse names that cannot stand beside each other."""
        arguments = [names for of_end in self.actions.values() for names in of_end.values()]
        for names in (*arguments, *self.counters.values()):
            if len(set(names)) < len(names):
                raise InvalidParametersError(name="names", value=names, rule="must differ")
        columns, counted = set(self.argument_columns), set(self.counter_columns)
        told = {name for names in arguments for name in names}
        fields = {name for names in arguments for name, _ in fields_of(names)}
        if twice := sorted((columns & counted) | ((fields | columns | counted) & _RESERVED)):
            raise InvalidParametersError(name="names", value=", ".join(twice), rule="must not be taken otherwise")
        if len(columns) < len(told):
            raise InvalidParametersError(name="names", value=sorted(told), rule="must differ where a dot is no dot")

    @property
    def argument_columns(self) -> tuple[str, ...]:
        """The names of all actions' arguments, each once, as columns: with ``_`` for the dot."""
        of_actions = (names for end in ENDS for names in self.actions[end].values())
        return tuple(dict.fromkeys(column_of(name) for names in of_actions for name in names))

    @property
    def counter_columns(self) -> tuple[str, ...]:
        """The names of both ends' counters, each once."""
        return tuple(dict.fromkeys(name for end in ENDS for name in self.counters[end]))


def column_of(name: str) -> str:
    """How an argument is called where a dot may not stand."""
    return name.replace(".", "_")


@cache
def fields_of(names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The things that arguments are, one after the other; of how many parts each, 0 if it is one number."""
    fields, start = [], 0
    while start < len(names):
        name, dot, _ = names[start].partition(".")
        stop = start + 1
        while dot and stop < len(names) and names[stop].startswith(name + dot):
            stop += 1
        fields.append((name, stop - start if dot else 0))
        start = stop
    return tuple(fields)


class Recorder(Protocol):
    """Takes note of one action at one end of a channel, at the moment at which the state changes."""

    def __call__(self, action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
        """``action`` and what the numbers are is in the end's ``ActionTable``.

        ``counters`` are the end's own, after the action; empty if it keeps none.
        A recorder never raises: it is called in the middle of a change of state.
        """
        ...


class RecorderFactory(Protocol):
    """Opens the recorder of one end of a channel, once the two ends have agreed on the parameters."""

    def __call__(
        self, channel: str, end: End, table: ActionTable, parameters: Mapping[str, ParameterValue]
    ) -> Recorder:
        """``channel`` names one stream: both of its ends give the same name, and no other stream does."""
        ...
