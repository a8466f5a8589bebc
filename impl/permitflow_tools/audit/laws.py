"""The effect of each action on the ledger of its end: a table for each protocol, checked against many events at once.

The names of actions, arguments and counters are those of the protocol's ``ActionTable``.  The specification states the
same for one event at a time; tests compare the two on runs of the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np

from permitflow.errors import TraceMismatchError
from permitflow.flows.recording import ActionTable, End
from permitflow_tools.audit.columns import Events, Integers, Limit, Marks
from permitflow_tools.audit.findings import Clause, Violation

Steps: TypeAlias = Mapping[str, str | int]
"""For actions: the growth of a quantity, as a number or an argument's name; with a minus sign it shrinks."""


class Before(NamedTuple):
    """An end's counters before its events."""

    counters: Integers
    known: Marks


@dataclass(frozen=True, kw_only=True)
class Counter:
    """A number that an end counts: its start, its changes, and its bounds, of which 0 is the lower one."""

    start: Limit = 0
    steps: Steps
    most: Limit | None = None
    settled: Callable[[Events, Integers], Integers] | None = None
    """Maps the sum of the steps to the counter's value."""
    clause: str = Clause.CONSERVATION
    """The clause that a wrong count breaks."""


@dataclass(frozen=True)
class Rule:
    """A condition on an event and on its end's counters before it."""

    clause: str
    is_broken: Callable[[Events, Before], Marks]
    end: End | None = None
    """None: at both ends."""


@dataclass(frozen=True)
class Line:
    """A line of messages waiting at the sender; its length is never negative."""

    name: str
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
class Return:
    """The sender receives no more of something than the receiver has returned for consumed messages."""

    name: str
    came: Steps
    """How it lessens what may still come to the sender."""
    owed: Steps
    """How it grows at the receiver."""
    kept: str | None = None
    """The receiver's counter of what is not returned yet."""
    unasked: Limit = 0
    """What the receiver may return besides, before all else."""


@dataclass(frozen=True, kw_only=True)
class Laws:
    """The laws for runs of one protocol."""

    table: ActionTable
    parameters: Callable[..., object] | None = None
    """Checks and completes the recorded parameters; raises ``InvalidParametersError`` or ``TypeError``."""
    counters: Mapping[End, Sequence[Counter]] = field(default_factory=dict)
    """The counters of each end, in the table's order; none: they are not checked."""
    rules: Sequence[Rule] = ()
    lines: Sequence[Line] = ()
    order: Order | None = None
    returns: Sequence[Return] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    """Short texts for the protocol's own clauses."""

    @property
    def is_empty(self) -> bool:
        """Are there no laws for the protocol?"""
        return not (self.counters or self.rules or self.lines or self.order)

    def words_of(self, clause: str) -> str:
        """A clause in a few words."""
        return self.words.get(clause) or Clause(clause).words

    def sums(self, end: End) -> list[Steps]:
        """What is summed up over all events of an end: at the sender the lines, at both ends the returns."""
        if end == "sender":
            return [*(line.steps for line in self.lines), *(each.came for each in self.returns)]
        return [each.owed for each in self.returns]


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


class Checked(NamedTuple):
    """Events, and those of them that break a clause."""

    laws: Laws
    events: Events
    before: Before
    broken: Mapping[str, Marks]

    def violations(self, where: Marks, *, most: int | None = None) -> tuple[list[Violation], int]:
        """The violations at these places, and the number of further ones."""
        found = [(clause, np.flatnonzero(marks & where).tolist()) for clause, marks in self.broken.items()]
        told = (
            violation_at(self.laws, self.events, place, clause, self._reason(clause, place), self.before)
            for clause, places in found
            for place in places
        )
        listed = list(islice(told, most))
        return listed, sum(len(places) for _, places in found) - len(listed)

    def _reason(self, clause: str, place: int) -> str:
        if clause != Clause.SEQUENCE:
            return self.laws.words_of(clause)
        sequence = self.events.sequence
        due = 1 if place in self.events.starts else sequence[place - 1] + 1
        return f"event {due} is missing, event {sequence[place]} comes instead"


def violation_at(
    laws: Laws, events: Events, index: int, clause: str, reason: str, before: Before | None = None
) -> Violation:
    """The violation of a clause by this event."""
    return Violation(
        channel=events.channel_of(index),
        end=events.end,
        sequence=int(events.sequence[index]),
        clause=clause,
        action=events.action_of(index),
        arguments=events.arguments_of(index),
        before=tuple(before.counters[:, index].tolist()) if before is not None and before.known[index] else None,
        after=events.counters_of(index),
        reason=reason,
    )


def check(laws: Laws, events: Events) -> Checked:
    """Hold events against each clause.  Whether an opening event is right, only the part before it may show."""
    starts, sequence = events.starts, events.sequence
    gaps = np.empty(len(events), dtype=np.bool_)
    np.not_equal(sequence[1:], sequence[:-1] + 1, out=gaps[1:])
    gaps[starts] = sequence[starts] != 1
    counted = laws.counters.get(events.end, ())
    counters, known = _shifted(events.counters), np.roll(events.has_counters, 1)
    known[starts] = bool(counted)
    # After missing events the counters are unknown: the gap is one violation, not two.
    known &= ~gaps
    for number, counter in enumerate(counted):  # Spec: Init.
        counters[number, starts] = events.limits(counter.start)
    before = Before(counters, known)
    broken: dict[str, Marks] = {Clause.SEQUENCE: gaps}

    def add(clause: str, marks: Marks) -> None:
        broken[clause] = broken[clause] | marks if clause in broken else marks

    if counted:
        differs = _differs(counted, events, before)
        for number, counter in enumerate(counted):
            add(counter.clause, differs[number])
            add(Clause.BOUNDED, events.has_counters & _exceeds(events, counter.most, events.counters[number]))
    for rule in laws.rules:
        if rule.end in (None, events.end):
            add(rule.clause, rule.is_broken(events, before))
    return Checked(laws, events, before, broken)


def _differs(counted: Sequence[Counter], events: Events, before: Before) -> Marks:
    """Marks the places where a counter is wrong.

    An end that miscounts once and counts on from there has one violation, not two.
    """
    due = _due(counted, events, before.counters)
    differs: Marks = (events.counters != due) & (events.has_counters & before.known)
    if differs.any():
        as_if_right = _due(counted, events, _shifted(due))
        follows = before.known & (events.sequence > 1)
        differs &= ~(follows & np.roll(differs, 1, axis=1) & (events.counters == as_if_right))
    return differs


def _due(counted: Sequence[Counter], events: Events, before: Integers) -> Integers:
    """The right counters after each event, given the counters ``before`` it."""
    due = before.copy()
    for number, counter in enumerate(counted):
        due[number] += steps_of(events, counter.steps)
        if counter.settled is not None:
            due[number] = counter.settled(events, due[number])
    return due


def _shifted(counters: Integers) -> Integers:
    """The value at the previous place; at the first place any value."""
    return np.roll(counters, 1, axis=1)


def _exceeds(events: Events, most: Limit | None, numbers: Integers) -> Marks:
    """Marks numbers below zero or above ``most``."""
    if most is None:
        below: Marks = numbers < 0
        return below
    # As unsigned numbers, negative ones are above all others.
    beyond: Marks = numbers.view(np.uint64) > events.limit(most).view(np.uint64)
    return beyond
