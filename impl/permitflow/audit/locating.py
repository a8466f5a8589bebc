"""Finds the event at which something becomes wrong that only totals have shown."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from permitflow.audit.clauses import Clause
from permitflow.audit.columns import ACTIONS, Codes, Events, Integers
from permitflow.audit.laws import returned_by, waiting_steps
from permitflow.audit.part import violation_at
from permitflow.audit.summary import tokens_of
from permitflow.audit.violations import Violation

__all__ = ["NOTHING_DUE", "Reading", "first_below_zero", "first_difference", "first_return_above"]

Reading: TypeAlias = Callable[[], Iterator[Events]]
"""Reads the events of one end of one channel, part by part."""

NOTHING_DUE = "nothing"
"""How a reason ends where no message was due."""

_CLASSES = ("row", "barrier", "watermark")
_KINDS = ("chunk", "barrier", "watermark")


def first_below_zero(read: Reading, row: int) -> Violation:
    """Where a chunk (0) or barrier (1) leaves the line of those that wait though none waits."""
    height = 0
    for events in read():
        heights = height + np.cumsum(waiting_steps(events)[row])
        if (below := np.flatnonzero(heights < 0)).size:
            return violation_at(events, int(below[0]), Clause.OFFERED, reason=f"no {_KINDS[row]} waits")
        height = int(heights[-1]) if len(events) else height
    raise AssertionError("the totals and the events differ: was the file changed meanwhile?")


def first_return_above(read: Reading, limit: tuple[int, int, int]) -> Violation:
    """The first AddPermits after which the sender has got more permits of a class than were returned."""
    came: Integers = np.zeros(3, dtype=np.int64)
    for events in read():
        totals = came + np.cumsum(np.stack(returned_by(events), axis=1), axis=0)
        above = totals > np.array(limit)
        if (places := np.flatnonzero(above.any(axis=1))).size:
            index = int(places[0])
            which = int(np.flatnonzero(above[index])[0])
            reason = f"{totals[index, which]:,} {_CLASSES[which]} permits came back, {limit[which]:,} were returned"
            return violation_at(events, index, Clause.RETURNED, reason=reason)
        came = totals[-1] if len(events) else came
    raise AssertionError("the totals and the events differ: was the file changed meanwhile?")


def first_difference(read_first: Reading, read_second: Reading, first: str, second: str) -> list[Violation]:
    """The first message of the second reading that is not the one of the first; none, if it only has fewer.

    Args:
        read_first: holds what is due.
        read_second: holds what must be its beginning.
        first: how the actions begin that count in the first reading.
        second: the same of the second.
    """
    due, position = _Tokens(read_first, first), 0
    for events in read_second():
        places = _places(events, second)
        here = tokens_of(events)[places]
        expected = due.next(len(here))
        differs = np.flatnonzero(here[: len(expected)] != expected)
        if differs.size or len(here) > len(expected):
            index = int(differs[0]) if differs.size else len(expected)
            told = NOTHING_DUE if index >= len(expected) else f"a {_named(int(expected[index]))}"
            reason = f"message {position + index + 1:,} is a {_named(int(here[index]))}, due was {told}"
            return [violation_at(events, int(places[index]), Clause.IN_ORDER, reason=reason)]
        position += len(here)
    return []


class _Tokens:
    """Hands out the messages of a reading in portions of any size."""

    def __init__(self, read: Reading, prefix: str) -> None:
        self._parts = read()
        self._prefix = prefix
        self._rest: Integers = np.zeros(0, dtype=np.int64)

    def next(self, count: int) -> Integers:
        """The next ``count`` messages, or all that are left."""
        gathered = [self._rest]
        missing = count - len(self._rest)
        while missing > 0 and (events := next(self._parts, None)) is not None:
            gathered.append(tokens_of(events)[_places(events, self._prefix)])
            missing -= len(gathered[-1])
        together = np.concatenate(gathered)
        self._rest = together[count:]
        return together[:count]


def _places(events: Events, prefix: str) -> Codes:
    codes = [code for code, name in enumerate(ACTIONS) if name.startswith(prefix)]
    return np.flatnonzero(np.isin(events.action, codes))


def _named(token: int) -> str:
    rows, kind = divmod(token, 4)
    return f"{_KINDS[kind]} of {rows:,} rows" if kind == 0 else _KINDS[kind]
