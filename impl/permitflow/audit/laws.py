"""What each action does to the books of its end: a protocol brings it as a table, and many events are held against it.

The names are those of the protocol's ``ActionTable``: of actions, arguments and counters.  The specification says the
same of one event at a time; tests hold the two together, by runs of the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

import numpy as np

from permitflow.audit.columns import Events, Integers, Limits, Marks, PerEvent
from permitflow.audit.findings import Clause
from permitflow.errors import TraceMismatchError
from permitflow.protocol.recording import ActionTable, End, ParameterValue

__all__ = [
    "Before",
    "BookLaw",
    "Counter",
    "EventLaw",
    "Laws",
    "Line",
    "Order",
    "Returns",
    "Steps",
    "broken",
    "by_books",
    "due_counters",
    "initial_counters",
    "laws_of",
    "outside",
    "shifted",
    "steps_of",
]

Steps: TypeAlias = Mapping[str, str | int]
"""For actions: by how much something grows, a number or the name of an argument; a minus before it: it shrinks."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an end counted before its events."""

    counters: Integers
    known: Marks
    continues: Marks
    """Is the event before the one at the place before?"""


@dataclass(frozen=True, kw_only=True)
class Counter:
    """A number that an end counts: where it starts, what changes it, and between which bounds it stays."""

    start: str | int = 0
    """A limit of the channel, or a number."""

    steps: Steps
    least: int = 0
    most: str | int | None = None
    settled: Callable[[Events, Integers], Integers] | None = None
    """Of what the steps come to: what is counted then."""

    clause: str = Clause.CONSERVATION
    """What is broken if something else is counted."""


@dataclass(frozen=True)
class EventLaw:
    """What an event must be, whatever was before."""

    clause: str
    is_broken: Callable[[Events], Marks]


@dataclass(frozen=True)
class BookLaw:
    """What an event at one end must be, after what the end counted before."""

    clause: str
    end: End
    is_broken: Callable[[Events, Before], Marks]


@dataclass(frozen=True)
class Line:
    """What waits at an end: never less than nothing."""

    name: str
    end: End
    steps: Steps


@dataclass(frozen=True, kw_only=True)
class Order:
    """Messages pass three places, at each of them in the same order."""

    sent: Sequence[str]
    delivered: Sequence[str]
    consumed: Sequence[str]
    rows: str | None = None
    """The argument that tells the rows of a message."""

    kinds: Sequence[str] = ("message",)
    kind_of: Callable[[Events], Integers] | None = None
    """Which kind of message each of these events is about, by its number; None: there is one kind."""


@dataclass(frozen=True, kw_only=True)
class Returns:
    """What comes back to the sender is no more than the receiver has returned for what was consumed."""

    names: Sequence[str]
    came: Mapping[str, Sequence[str | int]]
    owed: Mapping[str, Sequence[str | int]]
    """For actions: how much of each, a number or an argument."""

    kept: Mapping[str, int] = field(default_factory=dict)
    """Counters of the receiver that were not returned yet, and which of the names they are of."""


@dataclass(frozen=True, kw_only=True)
class Laws:
    """What an audit holds runs of one protocol against."""

    table: ActionTable
    limits: Callable[[Mapping[str, ParameterValue]], Limits] = lambda _: {}
    """The numbers that parameters come to; raises ``InvalidParametersError`` or ``TypeError``."""

    counters: Mapping[End, Sequence[Counter]] = field(default_factory=dict)
    """Of each end, in the table's order; none: they are not checked."""

    events: Sequence[EventLaw] = ()
    books: Sequence[BookLaw] = ()
    lines: Sequence[Line] = ()
    order: Order | None = None
    returns: Returns | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    """Clauses of its own in a few words."""

    @property
    def is_empty(self) -> bool:
        """Is nothing known of the protocol?"""
        return not (self.counters or self.events or self.lines or self.order)

    def words_of(self, clause: str) -> str:
        """A clause in a few words."""
        return self.words.get(clause) or Clause(clause).words


def laws_of(table: ActionTable, channel: str) -> Laws:
    """The laws of a recorded protocol: in the module that is named after it; without one there are none.

    Raises:
        TraceMismatchError: the laws are about other actions.
    """
    laws = _laws_named(table.flow.replace("-", "_"))
    if laws is None:
        return Laws(table=table)
    if laws.table != table:
        raise TraceMismatchError(channel=channel, reason=f"it tells other things than the audit knows of {table.flow}")
    return laws


@cache
def _laws_named(name: str) -> Laws | None:
    module = f"{__package__}.flows.{name}"
    if not name.isidentifier() or find_spec(module) is None:
        return None
    laws: Laws = import_module(module).LAWS
    return laws


def steps_of(events: Events, steps: Steps) -> Integers:
    """By how much something grows at each event."""
    parts: dict[str, tuple[list[str], list[str]]] = {}
    for action, step in steps.items():
        name = str(step)
        up, down = parts.setdefault(name.lstrip("-"), ([], []))
        (down if name.startswith("-") else up).append(action)
    grown: list[Integers] = []
    for name, (up, down) in parts.items():
        signs = np.subtract(events.is_any(up).view(np.int8), events.is_any(down).view(np.int8)).astype(np.int64)
        signs *= int(name) if name.isdecimal() else events.arguments[name]
        grown.append(signs)
    return sum(grown[1:], start=grown[0]) if grown else np.zeros(len(events), dtype=np.int64)


def due_counters(laws: Laws, events: Events, before: Integers) -> Integers:
    """What an end must count after its events, if it counted ``before``."""
    due = before.copy()
    for number, counter in enumerate(laws.counters.get(events.end, ())):
        due[number] += steps_of(events, counter.steps)
        if counter.settled is not None:
            due[number] = counter.settled(events, due[number])
    return due


def initial_counters(laws: Laws, events: Events) -> Integers:
    """What an end counts before its first event, by channel.

    Spec: Init.
    """
    counters = laws.counters.get(events.end, ())
    starts = [[_number(counter.start, limits) for limits in events.limits] for counter in counters]
    return np.array(starts, dtype=np.int64).reshape(len(events.counters), len(events.limits))


def _number(number: str | int, limits: Limits) -> int:
    return limits[number] if isinstance(number, str) else number


def broken(laws: Laws, events: Events, before: Before, due: Integers) -> dict[str, Marks]:
    """The events that break a clause by what they are and by what their end counts before and after them.

    ``due`` are the ``due_counters``.
    """
    found: dict[str, Marks] = {}

    def add(clause: str, marks: Marks) -> None:
        found[clause] = found[clause] | marks if clause in found else marks

    for law in laws.events:
        add(law.clause, law.is_broken(events))
    counters = laws.counters.get(events.end, ())
    if counters:
        differs = _differs(laws, events, before, due)
        for number, counter in enumerate(counters):
            add(counter.clause, differs[number])
            add(Clause.BOUNDED, events.has_counters & _exceeds(events, counter, events.counters[number]))
    for book in laws.books:
        if book.end == events.end:
            add(book.clause, book.is_broken(events, before))
    return found


def by_books(laws: Laws, end: End) -> frozenset[str]:
    """The clauses that ask what was before."""
    counted = (counter.clause for counter in laws.counters.get(end, ()))
    return frozenset(counted) | {book.clause for book in laws.books if book.end == end}


def shifted(books: Integers) -> Integers:
    """What stands at the place before; at the first place anything."""
    moved = np.empty_like(books)
    moved[:, 1:] = books[:, :-1]
    moved[:, :1] = books[:, -1:]
    return moved


def _differs(laws: Laws, events: Events, before: Before, due: Integers) -> Marks:
    """Where each of the counters is not what it must be.

    An end that miscounts once and goes on as if it had not is at fault once, not twice.
    """
    differs: Marks = (events.counters != due) & (events.has_counters & before.known)
    if not differs.any():
        return differs
    as_if_right = due_counters(laws, events, shifted(due))
    differs &= ~(before.continues & np.roll(differs, 1, axis=1) & (events.counters == as_if_right))
    return differs


def _exceeds(events: Events, counter: Counter, numbers: Integers) -> Marks:
    if counter.most is None:
        below: Marks = numbers < counter.least
        return below
    most = events.limit(counter.most) if isinstance(counter.most, str) else np.array(counter.most, dtype=np.int64)
    return outside(numbers - counter.least if counter.least else numbers, most - counter.least)


def outside(numbers: Integers, most: PerEvent) -> Marks:
    """Below zero, or above ``most``."""
    # Without their signs, numbers below zero are above all others.
    beyond: Marks = numbers.view(np.uint64) > np.asarray(most).view(np.uint64)
    return beyond
