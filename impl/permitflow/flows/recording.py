"""A hook that is called for each action of the specification.  Without a recorder it costs nothing.

The recorder uses a protocol's ``ActionTable`` only: the actions of each end, the names of an action's numbers, and the
counters of an end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, TypeAlias

from permitflow.errors import InvalidParametersError

End = Literal["sender", "receiver"]

ENDS: tuple[End, End] = ("sender", "receiver")

ParameterValue: TypeAlias = str | int | float | bool | None
"""The values that a channel's parameter may have in a recording."""

# The columns of every event; an argument or a counter needs another name.
_RESERVED = frozenset({"action", "channel", "counters", "end", "position", "sequence", "time_seconds"})


@dataclass(frozen=True)
class ActionTable:
    """The names of actions, arguments and counters in recordings of a protocol.

    Raises:
        InvalidParametersError: two numbers have the same name, or a reserved one.
    """

    flow: str
    """The protocol's name."""
    actions: Mapping[End, Mapping[str, tuple[str, ...]]]
    """The actions of each end, spelt as in the specification, and the names of each action's arguments.

    Adjacent names with the same prefix before a dot are fields of one argument: ``permits.rows``.
    """
    counters: Mapping[End, tuple[str, ...]]
    """The counters of each end, reported after each of its actions."""

    def __post_init__(self) -> None:
        """Refuse names that collide."""
        arguments = [names for of_end in self.actions.values() for names in of_end.values()]
        for names in (*arguments, *self.counters.values()):
            if len(set(names)) < len(names):
                raise InvalidParametersError(name="names", value=names, rule="must differ")
        columns, counted = set(self.argument_columns), set(self.counter_columns)
        told = {name for names in arguments for name in names}
        fields = {name for names in arguments for name, _ in fields_of(names)}
        if twice := sorted((columns & counted) | ((fields | columns | counted) & _RESERVED)):
            raise InvalidParametersError(
                name="names", value=", ".join(twice), rule="must not be used twice or be reserved"
            )
        if len(columns) < len(told):
            raise InvalidParametersError(name="names", value=sorted(told), rule="must still differ with _ for each dot")

    @property
    def argument_columns(self) -> tuple[str, ...]:
        """The names of all actions' arguments, without duplicates, as columns: with ``_`` for the dot."""
        of_actions = (names for end in ENDS for names in self.actions[end].values())
        return tuple(dict.fromkeys(column_of(name) for names in of_actions for name in names))

    @property
    def counter_columns(self) -> tuple[str, ...]:
        """The names of both ends' counters, without duplicates."""
        return tuple(dict.fromkeys(name for end in ENDS for name in self.counters[end]))


def column_of(name: str) -> str:
    """The column name of an argument: with ``_`` for the dot."""
    return name.replace(".", "_")


@cache
def fields_of(names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The arguments in order, each with its number of fields; 0: a single number."""
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
    """Records one action at one end of a channel, at the moment of the state change."""

    def __call__(self, action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
        """The end's ``ActionTable`` names ``action`` and the numbers.

        ``counters`` are the end's counters after the action; empty if it has none.
        A recorder never raises: it is called in the middle of a state change.
        """
        ...


Step: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...]]
"""One action with its arguments, and the end's counters after it."""


def record_run(record: Recorder, steps: Iterable[Step]) -> None:
    """Record messages that an end has moved together: the specification moves them one by one, in these steps."""
    for step in steps:
        record(*step)


class RecorderFactory(Protocol):
    """Opens the recorder of one end of a channel, once the two ends have agreed on the parameters."""

    def __call__(
        self, channel: str, end: End, table: ActionTable, parameters: Mapping[str, ParameterValue]
    ) -> Recorder:
        """``channel`` names one stream: both of its ends give the same name, and no other stream does."""
        ...
