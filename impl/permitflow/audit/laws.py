"""The effect of each action on the ledger of its end: a table for each protocol, checked against many events at once.

The names of actions, arguments and counters are those of the protocol's ``ActionTable``.  The specification states the
same for one event at a time; tests compare the two on runs of the model.
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

Steps: TypeAlias = Mapping[str, str | int]
"""For actions: the growth of a quantity, as a number or an argument's name; with a minus sign it shrinks."""


@dataclass(frozen=True, slots=True)
class Before:
    """An end's counters before its events."""

    counters: Integers
    known: Marks
    continues: Marks
    """Is the previous event the one at the previous place?"""


@dataclass(frozen=True, kw_only=True)
class Counter:
    """A number that an end counts: its start, its changes, and its bounds."""

    start: str | int = 0
    """A limit of the channel, or a number."""
    steps: Steps
    least: int = 0
    most: str | int | None = None
    settled: Callable[[Events, Integers], Integers] | None = None
    """Maps the sum of the steps to the counter's value."""
    clause: str = Clause.CONSERVATION
    """The clause that a wrong count breaks."""


@dataclass(frozen=True)
class EventLaw:
    """A condition on a single event."""

    clause: str
    is_broken: Callable[[Events], Marks]


@dataclass(frozen=True)
class BookLaw:
    """A condition on an event at one end and on the end's counters before it."""

    clause: str
    end: End
    is_broken: Callable[[Events, Before], Marks]


@dataclass(frozen=True)
class Line:
    """A line of waiting messages at an end; its length is never negative."""

    name: str
    end: End
    steps: Steps


@dataclass(frozen=True, kw_only=True)
class Order:
    """Messages pass three places, each in the same order."""

    sent: Sequence[str]
    delivered: Sequence[str]
    consumed: Sequence[str]
    rows: str | None = None
    """The argument with the rows of a message."""
    kinds: Sequence[str] = ("message",)
    kind_of: Callable[[Events], Integers] | None = None
    """The number of the message kind of each event; None: there is one kind."""


@dataclass(frozen=True, kw_only=True)
class Returns:
    """The sender receives no more than the receiver has returned for consumed messages."""

    names: Sequence[str]
    came: Mapping[str, Sequence[str | int]]
    owed: Mapping[str, Sequence[str | int]]
    """For actions: how much of each, a number or an argument."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """Counters of the receiver for amounts not returned yet, each with the index of its name."""
    unasked: Mapping[str, int] = field(default_factory=dict)
    """Limits of the channel: what it may return besides, before all else, each with the index of its name."""


@dataclass(frozen=True, kw_only=True)
class Laws:
    """The laws for runs of one protocol."""

    table: ActionTable
    limits: Callable[[Mapping[str, ParameterValue]], Limits] = lambda _: {}
    """Computes the limits from the parameters; raises ``InvalidParametersError`` or ``TypeError``."""
    counters: Mapping[End, Sequence[Counter]] = field(default_factory=dict)
    """The counters of each end, in the table's order; none: they are not checked."""
    events: Sequence[EventLaw] = ()
    books: Sequence[BookLaw] = ()
    lines: Sequence[Line] = ()
    order: Order | None = None
    returns: Returns | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    """Short texts for the protocol's own clauses."""

    @property
    def is_empty(self) -> bool:
        """Are there no laws for the protocol?"""
        return not (self.counters or self.events or self.lines or self.order)

    def words_of(self, clause: str) -> str:
        """A clause in a few words."""
        return self.words.get(clause) or Clause(clause).words


def laws_of(table: ActionTable, channel: str) -> Laws:
    """The laws of a recorded protocol, from the module named after it; empty laws without such a module.

    Raises:
        TraceMismatchError: the laws have other actions than the recording.
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
    """The growth of a quantity at each event."""
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
    """The right counters after each event, given the counters ``before`` it."""
    due = before.copy()
    for number, counter in enumerate(laws.counters.get(events.end, ())):
        due[number] += steps_of(events, counter.steps)
        if counter.settled is not None:
            due[number] = counter.settled(events, due[number])
    return due


def initial_counters(laws: Laws, events: Events) -> Integers:
    """The counters of an end before its first event, by channel.

    Spec: Init.
    """
    counters = laws.counters.get(events.end, ())
    starts = [[_number(counter.start, limits) for limits in events.limits] for counter in counters]
    return np.array(starts, dtype=np.int64).reshape(len(events.counters), len(events.limits))


def _number(number: str | int, limits: Limits) -> int:
    return limits[number] if isinstance(number, str) else number


def broken(laws: Laws, events: Events, before: Before, due: Integers) -> dict[str, Marks]:
    """The events that break a clause, alone or with their end's counters before and after them.

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
    """The clauses that depend on earlier events."""
    counted = (counter.clause for counter in laws.counters.get(end, ()))
    return frozenset(counted) | {book.clause for book in laws.books if book.end == end}


def shifted(books: Integers) -> Integers:
    """The value at the previous place; at the first place any value."""
    moved = np.empty_like(books)
    moved[:, 1:] = books[:, :-1]
    moved[:, :1] = books[:, -1:]
    return moved


def _differs(laws: Laws, events: Events, before: Before, due: Integers) -> Marks:
    """Marks the places where a counter is wrong.

    An end that miscounts once and counts on from there has one violation, not two.
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
    """Marks numbers below zero or above ``most``."""
    # As unsigned numbers, negative ones are above all others.
    beyond: Marks = numbers.view(np.uint64) > np.asarray(most).view(np.uint64)
    return beyond
