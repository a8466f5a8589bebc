"""One part of a trace, looked at by itself: a row group of a Parquet file, or a whole file of JSON lines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from permitflow.audit.clauses import Clause
from permitflow.audit.columns import ACTIONS, Columns, Marks, columns_of
from permitflow.audit.laws import Before, broken, due_counters, initial_counters
from permitflow.audit.summary import Summary, summaries_of
from permitflow.audit.violations import Violation
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Counters

__all__ = ["MOST_VIOLATIONS", "Part", "before_each", "boundary_violations", "joined", "look_at", "violation_at"]

MOST_VIOLATIONS = 10_000
"""Of one part that are told one by one; beyond that they are counted."""


@dataclass(frozen=True, slots=True)
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
    events = columns_of(table, parameters, source=source)
    before = before_each(events)
    found = broken(events, before)
    found[Clause.SEQUENCE] = _gaps(events)
    total = sum(int(marks.sum()) for marks in found.values())
    violations: list[Violation] = []
    for violation in _told(events, before, found):
        if len(violations) == MOST_VIOLATIONS:
            break
        violations.append(violation)
    return Part(summaries_of(events, before), violations, total - len(violations))


def before_each(events: Columns) -> Before:
    """What the ends counted before the events of a part, where that is known in the part itself."""
    counters, known = np.roll(events.counters, 1, axis=0), np.roll(events.has_counters, 1)
    starts = events.starts()
    continues = np.ones(len(events), dtype=np.bool_)
    continues[starts] = False
    # What came before the part is not known here, except before the very first event of an end.
    counters[starts] = initial_counters(events)[starts]
    known[starts] = events.sequence[starts] == 1
    # Where events are missing, the books have moved on unseen: that is one fault, not two.
    follows = ~_gaps(events)
    return Before(counters, known & follows, continues & follows)


def _gaps(events: Columns) -> Marks:
    gaps: Marks = np.diff(events.sequence, prepend=0) != 1
    gaps[events.starts()] = False
    return gaps


def _told(events: Columns, before: Before, found: Mapping[Clause, Marks]) -> Iterator[Violation]:
    for clause, marks in found.items():
        for index in np.flatnonzero(marks).tolist():
            yield violation_at(events, index, clause, before)


def violation_at(
    events: Columns, index: int, clause: Clause, before: Before | None = None, reason: str = ""
) -> Violation:
    """A clause is broken by this event."""
    (one, two, three) = events.permits[index].tolist()
    known = None
    if before is not None and before.known[index]:
        first, second, third = before.counters[index].tolist()
        known = (first, second, third)
    if not reason and clause is Clause.SEQUENCE:
        reason = f"event {int(events.sequence[index])} follows event {int(events.sequence[index - 1])}"
    return Violation(
        channel=events.channels[int(events.channel[index])],
        end=events.end_of(index),
        sequence=int(events.sequence[index]),
        clause=clause,
        action=ACTIONS[int(events.action[index])],
        rows=int(events.rows[index]),
        permits=(one, two, three),
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
    clauses = (Clause.CONSERVATION, Clause.GRANTS_BATCHED)
    return [
        violation_at(events, 0, clause, before) for clause in clauses if found[clause][0] and still_found[clause][0]
    ]


def joined(earlier: Summary, later: Summary, parameters: ChannelParameters) -> Summary:
    """Both as one.  What a lone event should have counted is only known here."""
    whole = earlier.then(later)
    if later.events > 1 or earlier.last_counters is None or later.first_sequence != earlier.last_sequence + 1:
        return whole
    before = np.array([earlier.last_counters], dtype=np.int64)
    first, second, third = due_counters(_first_event(later, parameters), before)[0].tolist()
    return replace(whole, last_due=(first, second, third))


def _before_first(counters: Counters) -> Before:
    return Before(np.array([counters], dtype=np.int64), known=np.array([True]), continues=np.array([False]))


def _first_event(summary: Summary, of: ChannelParameters) -> Columns:
    action, rows, permits, counters = summary.first
    one = np.array([0], dtype=np.int64)
    return Columns(
        channels=[summary.channel],
        channel=one,
        is_receiver=np.array([summary.end == "receiver"]),
        sequence=one + summary.first_sequence,
        action=one + action,
        rows=one + rows,
        permits=np.array([permits], dtype=np.int64),
        counters=np.array([counters or (0, 0, 0)], dtype=np.int64),
        has_counters=np.array([counters is not None]),
        total=np.array([(of.row_permits, of.barrier_permits, 1)], dtype=np.int64),
        batch=one + of.permit_batch,
        clamp=one + of.max_chunk_cost,
        splits=np.array([of.oversize == "split"]),
    )
