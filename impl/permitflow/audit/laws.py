"""What each action does to the books of its end, for many events at once.

The specification says the same of one event at a time; tests hold the two together, by runs of the model.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from permitflow.audit.clauses import Clause
from permitflow.audit.columns import ACTIONS, CODE, Codes, Events, Integers, Marks
from permitflow.audit.limits import PerEvent

__all__ = ["Before", "Books", "broken", "due_counters", "is_returning", "kinds_of", "shifted", "waiting_steps"]

_CHUNK, _BARRIER, _WATERMARK, _ANY = range(4)


def _table(entries: dict[str, int], otherwise: int = 0) -> Integers:
    """A number for each action."""
    return np.array([entries.get(name, otherwise) for name in ACTIONS], dtype=np.int64)


_SPENT = _table({"SendChunk": -1, "SendBarrier": -1, "SendWatermark": -1, "AddPermits": 1})
_ARRIVED = _table({"Deliver": 1, "Consume": -1})
_RETURNS = _table({"AddPermits": 1, "Consume": 1}).astype(np.bool_)
_CHUNKS_WAITING = _table({"OfferChunk": 1, "SendChunk": -1, "WithdrawChunk": -1})
_BARRIERS_WAITING = _table({"OfferBarrier": 1, "SendBarrier": -1, "WithdrawBarrier": -1})
_KIND = _table(
    {
        **dict.fromkeys(("OfferChunk", "WithdrawChunk", "SendChunk"), _CHUNK),
        **dict.fromkeys(("OfferBarrier", "WithdrawBarrier", "SendBarrier"), _BARRIER),
        **dict.fromkeys(("OfferWatermark", "SendWatermark"), _WATERMARK),
    },
    otherwise=_ANY,
).astype(np.int8)
_IS_RETURN = _table({"AddPermits": 1, "Flush": 1}).astype(np.bool_)

Books = tuple[Integers, Integers, Integers]
"""Three counters of an end, event by event."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an end counted before its events."""

    counters: Books
    known: Marks
    continues: Marks
    """Is the event before the one at the place before?"""


def due_counters(events: Events, before: Books) -> Books:
    """What an end must count after its events, if it counted ``before``.

    Spec: the updates of permits by SendChunk, SendBarrier, SendWatermark, AddPermits; of inbox by Deliver, Consume; of
    unreturned by Consume, Flush.
    """
    if events.end == "sender":
        spent = _SPENT.take(events.action)
        first, second, third = (count + spent * of for count, of in zip(before, events.permits, strict=True))
        return first, second, third
    messages, rows, residue = before
    arrived = _ARRIVED.take(events.action)
    residue = residue + (arrived < 0) * events.permits[0]
    returns = (residue >= events.limits.permit_batch) | (events.action == CODE["Flush"])
    return messages + arrived, rows + arrived * events.rows, residue * ~returns


def broken(events: Events, before: Before, due: Books) -> dict[Clause, Marks]:
    """The events that break a clause by what they are and by what their end counts before and after them.

    ``due`` are the ``due_counters``.
    """
    first, second, third = _differs(events, before, due)
    found = {Clause.COST: _cost(events), Clause.BOUNDED: _bounded(events)}
    if events.end == "sender":
        return {**found, Clause.CONSERVATION: first | second | third}
    return {
        **found,
        Clause.CONSERVATION: first | second,
        Clause.GRANTS_BATCHED: third | _flushes_wrongly(events, before),
    }


def shifted(books: Books) -> Books:
    """What stands at the place before; at the first place anything."""
    first, second, third = (np.roll(column, 1) for column in books)
    return first, second, third


def _differs(events: Events, before: Before, due: Books) -> tuple[Marks, Marks, Marks]:
    """Counters that are not what they must be.

    An end that miscounts once and goes on as if it had not is at fault once, not twice.
    """
    comparable = events.has_counters & before.known
    first, second, third = (comparable & (is_ != must) for is_, must in zip(events.counters, due, strict=True))
    if not (first | second | third).any():
        return first, second, third
    as_if_right = due_counters(events, shifted(due))
    excused = (
        before.continues & np.roll(marks, 1) & (is_ == must)
        for marks, is_, must in zip((first, second, third), events.counters, as_if_right, strict=True)
    )
    first, second, third = (marks & ~excuse for marks, excuse in zip((first, second, third), excused, strict=True))
    return first, second, third


def _cost(events: Events) -> Marks:
    rows, barriers, watermarks = events.permits
    kind = kinds_of(events)
    is_chunk = kind == _CHUNK
    of_chunk = np.minimum(np.maximum(events.rows, 1), events.limits.max_chunk_cost)
    of_chunk *= is_chunk
    wrong: Marks = (rows != of_chunk) | (barriers != (kind == _BARRIER)) | (watermarks != (kind == _WATERMARK))
    # Only chunks have rows.
    wrong |= (events.rows != 0) & ~is_chunk
    wrong |= events.rows < 0
    returns = np.flatnonzero(_IS_RETURN.take(events.action))
    rows, barriers, watermarks = (column.take(returns) for column in events.permits)
    wrong[returns] = ((rows | barriers | watermarks) < 0) | ((rows + barriers + watermarks) <= 0)
    return wrong


def _bounded(events: Events) -> Marks:
    if events.end == "sender":
        parts = [_outside(of, most) for of, most in zip(events.counters, events.limits.total, strict=True)]
    else:
        messages, rows, residue = events.counters
        parts = [messages < 0, _outside(rows, events.limits.most_inbox_rows), residue < 0]
    wrong: Marks = events.has_counters & np.logical_or.reduce(parts)
    return wrong


def _outside(numbers: Integers, most: PerEvent) -> Marks:
    """Below zero, or above ``most``."""
    # Without their signs, numbers below zero are above all others.
    outside: Marks = numbers.view(np.uint64) > most.view(np.uint64)
    return outside


def _flushes_wrongly(events: Events, before: Before) -> Marks:
    inbox, _, residue = before.counters
    wrong: Marks = (events.action == CODE["Flush"]) & before.known & ((events.permits[0] != residue) | (inbox != 0))
    return wrong


def waiting_steps(events: Events) -> tuple[Integers, Integers]:
    """By how many more chunks, and barriers, wait after each event.

    Spec: the variables waiting and barrierWaiting.
    """
    return _CHUNKS_WAITING.take(events.action), _BARRIERS_WAITING.take(events.action)


def is_returning(events: Events) -> Marks:
    """Where permits come back to the sender (AddPermits), or the receiver owes them for a message (Consume)."""
    marks: Marks = _RETURNS.take(events.action)
    return marks


def kinds_of(events: Events, places: Codes | None = None) -> npt.NDArray[np.int8]:
    """What each event, or each at these places, is about: 0 a chunk, 1 a barrier, 2 a watermark.

    Of the receiver, the permits tell.
    """
    if events.end == "sender":
        return _KIND.take(events.action if places is None else events.action.take(places))
    _, barriers, watermarks = events.permits
    if places is not None:
        barriers, watermarks = barriers.take(places), watermarks.take(places)
    kinds: npt.NDArray[np.int8] = np.maximum(
        (barriers != 0) * np.int8(_BARRIER), (watermarks != 0) * np.int8(_WATERMARK)
    )
    return kinds
