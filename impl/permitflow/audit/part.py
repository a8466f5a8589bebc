"""One part of a trace, looked at by itself: a row group of a Parquet file, or a whole file of JSON lines."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from permitflow.audit.clauses import Clause
from permitflow.audit.columns import ACTIONS, Events, Marks, events_of
from permitflow.audit.laws import Before, broken, due_counters, shifted
from permitflow.audit.summary import Summary, summaries_of
from permitflow.audit.violations import Violation
from permitflow.protocol.parameters import ChannelParameters

__all__ = ["MOST_VIOLATIONS", "Part", "before_each", "look_at", "violation_at"]

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
        gaps = _gaps(events)
        before = before_each(events, gaps)
        due = due_counters(events, before.counters)
        found = broken(events, before, due)
        found[Clause.SEQUENCE] = gaps
        for clause, marks in found.items():
            _tell(part, events, before, clause, marks)
        part.summaries += summaries_of(events, before, due)
    return part


def _tell(part: Part, events: Events, before: Before, clause: Clause, marks: Marks) -> None:
    if not marks.any():
        return
    places = np.flatnonzero(marks)
    told = places[: MOST_VIOLATIONS - len(part.violations)].tolist()
    part.violations += [violation_at(events, place, clause, before) for place in told]
    part.untold += len(places) - len(told)


def before_each(events: Events, gaps: Marks) -> Before:
    """What an end counted before its events, where that is known in the part itself."""
    starts = events.starts
    before, known = shifted(events.counters), np.roll(events.has_counters, 1)
    # What came before the part is not known here, except before the very first event of an end.
    for column, initial in zip(before, events.limits.initial_counters(events.end), strict=True):
        column[starts] = initial
    known[starts] = events.sequence[starts] == 1
    # Where events are missing, the books have moved on unseen: that is one fault, not two.
    continues = ~gaps
    known &= continues
    continues[starts] = False
    return Before(before, known, continues)


def _gaps(events: Events) -> Marks:
    gaps = np.empty(len(events), dtype=np.bool_)
    np.not_equal(events.sequence[1:], events.sequence[:-1] + 1, out=gaps[1:])
    gaps[events.starts] = False
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
        channel=events.channel_of(index),
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
