"""Where parts meet: what the first event of a part breaks because of what came before it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from permitflow.audit.clauses import Clause
from permitflow.audit.columns import Events, Integers
from permitflow.audit.laws import Before, Books, broken, due_counters
from permitflow.audit.limits import limits_of
from permitflow.audit.part import violation_at
from permitflow.audit.summary import Summary
from permitflow.audit.violations import Violation
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Counters

__all__ = ["Boundary", "boundary_violations", "joined"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A part of an end's events, and what came before it."""

    earlier: Summary | None
    """All parts before as one; None: it is the end's first part."""

    later: Summary
    parameters: ChannelParameters


def boundary_violations(boundaries: Sequence[Boundary]) -> list[Violation]:
    """What the first events of parts break because of what came before them; the parts are of one end each."""
    found = [violation for boundary in boundaries for violation in _gap(boundary)]
    for end in ("sender", "receiver"):
        met = [boundary for boundary in boundaries if boundary.later.end == end and _meets(boundary)]
        found += _books(met)
    return found


def _due_sequence(boundary: Boundary) -> int:
    return 1 if boundary.earlier is None else boundary.earlier.last_sequence + 1


def _gap(boundary: Boundary) -> list[Violation]:
    """The first event is not the one that was due."""
    due, sequence = _due_sequence(boundary), boundary.later.first_sequence
    if sequence == due:
        return []
    reason = f"event {due} is missing, event {sequence} comes instead"
    return [violation_at(_first_events([boundary]), 0, Clause.SEQUENCE, reason=reason)]


def _meets(boundary: Boundary) -> bool:
    """Can the books be carried over?"""
    earlier = boundary.earlier
    if earlier is None or earlier.last_counters is None:
        return False
    return boundary.later.first_sequence == _due_sequence(boundary)


def _books(boundaries: Sequence[Boundary]) -> list[Violation]:
    if not boundaries:
        return []
    events = _first_events(boundaries)
    earlier = [boundary.earlier for boundary in boundaries if boundary.earlier is not None]
    before = _before([each.last_counters for each in earlier if each.last_counters is not None])
    as_if_right = _before([each.last_due for each in earlier])
    found = broken(events, before, due_counters(events, before.counters))
    still_found = broken(events, as_if_right, due_counters(events, as_if_right.counters))
    # The other clauses do not ask what was before.
    return [
        violation_at(events, index, clause, before)
        for clause in (Clause.CONSERVATION, Clause.GRANTS_BATCHED)
        if clause in found
        for index in np.flatnonzero(found[clause] & still_found[clause]).tolist()
    ]


def joined(earlier: Summary, later: Summary, parameters: ChannelParameters) -> Summary:
    """Both as one.  What a lone event should have counted is only known here."""
    whole = earlier.then(later)
    if later.events > 1 or earlier.last_counters is None or later.first_sequence != earlier.last_sequence + 1:
        return whole
    event = _first_events([Boundary(earlier, later, parameters)])
    first, second, third = due_counters(event, _columns([earlier.last_counters]))
    return replace(whole, last_due=(int(first[0]), int(second[0]), int(third[0])))


def _before(counters: Sequence[Counters]) -> Before:
    count = len(counters)
    return Before(_columns(counters), known=np.ones(count, np.bool_), continues=np.zeros(count, np.bool_))


def _columns(triples: Sequence[tuple[int, int, int]]) -> Books:
    first, second, third = np.array(triples, dtype=np.int64).T
    return first, second, third


def _first_events(boundaries: Sequence[Boundary]) -> Events:
    """The first event of each later part, as if each were of a channel of its own."""
    summaries = [boundary.later for boundary in boundaries]
    action, rows, permits, counters = zip(*(summary.first for summary in summaries), strict=True)
    return Events(
        end=summaries[0].end,
        channels=[summary.channel for summary in summaries],
        borders=np.arange(len(summaries) + 1),
        limits=limits_of([boundary.parameters for boundary in boundaries]),
        sequence=_column([summary.first_sequence for summary in summaries]),
        action=np.array(action, dtype=np.int8),
        rows=_column(rows),
        permits=_columns(permits),
        counters=_columns([counted or (0, 0, 0) for counted in counters]),
        has_counters=np.array([counted is not None for counted in counters]),
    )


def _column(numbers: Sequence[int]) -> Integers:
    return np.array(numbers, dtype=np.int64)
