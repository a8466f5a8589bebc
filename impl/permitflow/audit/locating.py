"""Finds the event at which something becomes wrong that only totals have shown.  Few parts are read again for that."""

from itertools import accumulate

import numpy as np

from permitflow.audit.clauses import Clause
from permitflow.audit.laws import is_returning, waiting_steps
from permitflow.audit.part import violation_at
from permitflow.audit.passing import Passing, first_disagreement
from permitflow.audit.sides import Side
from permitflow.audit.violations import Violation

__all__ = ["NOTHING_DUE", "first_below_zero", "first_difference", "first_return_above"]

NOTHING_DUE = "nothing"
"""How a reason ends where no message was due."""

_CLASSES = ("row", "barrier", "watermark")
_KINDS = ("chunk", "barrier", "watermark")


def first_below_zero(side: Side, line: int) -> Violation:
    """Where a chunk (0) or barrier (1) leaves the line of those that wait though none waits.

    Raises:
        TraceUnreadableError: the file has changed.
    """
    rises = [(summary.chunks_waiting, summary.barriers_waiting)[line] for _, summary in side.parts]
    heights = accumulate((rise.total for rise in rises), initial=0)
    steps = enumerate(zip(heights, rises, strict=False))
    number, height = next((number, height) for number, (height, rise) in steps if height + rise.lowest < 0)
    events = side.read(number)
    below = np.flatnonzero(height + np.cumsum(waiting_steps(events)[line]) < 0)
    if not below.size:
        raise side.changed(number)
    return violation_at(events, int(below[0]), Clause.OFFERED, reason=f"no {_KINDS[line]} waits")


def first_return_above(side: Side, limit: tuple[int, int, int]) -> Violation:
    """The first AddPermits after which the sender has got more permits of a class than were returned.

    Raises:
        TraceUnreadableError: the file has changed.
    """
    most, returned = np.array(limit), np.array([summary.returned for _, summary in side.parts], dtype=np.int64)
    # No return is below zero, or the end would be wrong by itself: what has come never becomes less.
    until = np.cumsum(returned, axis=0)
    number = int(np.flatnonzero((until > most).any(axis=1))[0])
    events = side.read(number)
    totals = (
        until[number]
        - returned[number]
        + np.cumsum(np.stack(events.permits, axis=1) * is_returning(events)[:, None], axis=0)
    )
    above = totals > most
    places = np.flatnonzero(above.any(axis=1))
    if not places.size:
        raise side.changed(number)
    index = int(places[0])
    which = int(np.flatnonzero(above[index])[0])
    reason = f"{totals[index, which]:,} {_CLASSES[which]} permits came back, {limit[which]:,} were returned"
    return violation_at(events, index, Clause.RETURNED, reason=reason)


def first_difference(due: Passing, found: Passing) -> list[Violation]:
    """The first message found that is not the one that was due; none, if there are only fewer.

    Raises:
        TraceUnreadableError: a file has changed.
    """
    number = first_disagreement(due, found)
    if number is None:
        return []
    position = found.until[number].messages
    places, here = found.part(number)
    expected = due.tokens(position, len(here))
    differs = np.flatnonzero(here[: len(expected)] != expected)
    index = int(differs[0]) if differs.size else len(expected)
    if index >= len(here):
        raise found.changed(number)
    told = NOTHING_DUE if index >= len(expected) else f"a {_named(int(expected[index]))}"
    reason = f"message {position + index + 1:,} is a {_named(int(here[index]))}, due was {told}"
    return [violation_at(found.events(number), int(places[index]), Clause.IN_ORDER, reason=reason)]


def _named(token: int) -> str:
    rows, kind = divmod(token, 4)
    return f"{_KINDS[kind]} of {rows:,} rows" if kind == 0 else _KINDS[kind]
