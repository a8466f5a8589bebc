"""One part of a trace, looked at by itself: a row group of a Parquet file, or a whole file of JSON lines."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from permitflow.audit.clauses import Clause
from permitflow.audit.columns import ACTIONS, Events, Integers, Marks, events_of, initial_counters
from permitflow.audit.laws import Before, broken, due_counters
from permitflow.audit.summary import Summary, summary_of
from permitflow.audit.violations import Violation
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Counters

__all__ = ["MOST_VIOLATIONS", "Part", "before_each", "boundary_violations", "joined", "look_at", "violation_at"]

MOST_VIOLATIONS = 10_000
"""Of one part that are told one by one; beyond that they are counted."""


@dataclass(slots=True)
class Part:
    """What is known of a part."""

    summaries: list[Summary]
    violations: list[Violation]
    untold: int = 0
    """Violations beyond ``MOST_VIOLATIONS``."""


def look_at(table: pa.Table, parameters: Mapping[str, ChannelParameters], *, source: str) -> Part:
    """Look at events with the columns of a trace.

    Raises:
        TraceUnreadableError: it is no trace.
    """
    part = Part([], [])
    for events in events_of(table, parameters, source=source):
        before = before_each(events)
        found = broken(events, before)
        found[Clause.SEQUENCE] = _gaps(events)
        for clause, marks in found.items():
            places = np.flatnonzero(marks)
            told = places[: MOST_VIOLATIONS - len(part.violations)].tolist()
            part.violations += [violation_at(events, place, clause, before) for place in told]
            part.untold += len(places) - len(told)
        part.summaries.append(summary_of(events, before))
    return part


def before_each(events: Events) -> Before:
    """What an end counted before its events, where that is known in the part itself."""
    first, second, third = (np.roll(column, 1) for column in events.counters)
    known = np.roll(events.has_counters, 1)
    # What came before the part is not known here, except before the very first event of an end.
    first[0], second[0], third[0] = initial_counters(events.end, events.parameters)
    known[0] = events.sequence[0] == 1
    # Where events are missing, the books have moved on unseen: that is one fault, not two.
    follows = ~_gaps(events)
    continues = follows.copy()
    continues[0] = False
    return Before((first, second, third), known & follows, continues)


def _gaps(events: Events) -> Marks:
    gaps: Marks = np.diff(events.sequence, prepend=events.sequence[0] - 1) != 1
    return gaps


def violation_at(
    events: Events, index: int, clause: Clause, before: Before | None = None, reason: str = ""
) -> Violation:
    """A clause is broken by this event."""
    known = None
    if before is not None and before.known[index]:
        first, second, third = (int(column[index]) for column in before.counters)
        known = (first, second, third)
    if not reason and clause is Clause.SEQUENCE:
        reason = f"event {int(events.sequence[index])} follows event {int(events.sequence[index - 1])}"
    return Violation(
        channel=events.channel,
        end=events.end,
        sequence=int(events.sequence[index]),
        clause=clause,
        action=ACTIONS[int(events.action[index])],
        rows=int(events.rows[index]),
        permits=events.permits_of(index),
        before=known,
        after=events.counters_of(index),
        reason=reason or clause.words,
    )


def boundary_violations(earlier: Summary | None, later: Summary, parameters: ChannelParameters) -> list[Violation]:
    """What the first event of a part breaks because of what came before it; None: it is the end's first part."""
    events = _first_event(later, parameters)
    due = 1 if earlier is None else earlier.last_sequence + 1
    if later.first_sequence != due:
        reason = f"event {due} is missing, event {later.first_sequence} comes instead"
        return [violation_at(events, 0, Clause.SEQUENCE, reason=reason)]
    if earlier is None or earlier.last_counters is None:
        return []
    before = _before_first(earlier.last_counters)
    found, still_found = broken(events, before), broken(events, _before_first(earlier.last_due))
    # The other clauses do not ask what was before.
    clauses = {Clause.CONSERVATION, Clause.GRANTS_BATCHED} & found.keys()
    return [violation_at(events, 0, clause, before) for clause in clauses if (found[clause] & still_found[clause])[0]]


def joined(earlier: Summary, later: Summary, parameters: ChannelParameters) -> Summary:
    """Both as one.  What a lone event should have counted is only known here."""
    whole = earlier.then(later)
    if later.events > 1 or earlier.last_counters is None or later.first_sequence != earlier.last_sequence + 1:
        return whole
    first, second, third = due_counters(_first_event(later, parameters), _one_each(earlier.last_counters))
    return replace(whole, last_due=(int(first[0]), int(second[0]), int(third[0])))


def _before_first(counters: Counters) -> Before:
    return Before(_one_each(counters), known=np.array([True]), continues=np.array([False]))


def _one_each(numbers: tuple[int, int, int]) -> tuple[Integers, Integers, Integers]:
    first, second, third = (np.array([number], dtype=np.int64) for number in numbers)
    return first, second, third


def _first_event(summary: Summary, parameters: ChannelParameters) -> Events:
    action, rows, permits, counters = summary.first
    return Events(
        channel=summary.channel,
        end=summary.end,
        parameters=parameters,
        sequence=np.array([summary.first_sequence], dtype=np.int64),
        action=np.array([action]),
        rows=np.array([rows], dtype=np.int64),
        permits=_one_each(permits),
        counters=_one_each(counters or (0, 0, 0)),
        has_counters=np.array([counters is not None]),
    )
