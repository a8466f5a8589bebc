"""What each action does to the books of its end, for many events at once.

The specification says the same of one event at a time; tests hold the two together, by runs of the model.
"""

from dataclasses import dataclass

import numpy as np

from permitflow.audit.clauses import Clause
from permitflow.audit.columns import ACTIONS, CODE, Codes, Events, Integers, Marks

__all__ = ["Before", "Books", "broken", "due_counters", "kinds_of", "returned_by", "waiting_steps"]

_CHUNK, _BARRIER, _WATERMARK, _ANY = range(4)


def _table(entries: dict[str, int], otherwise: int = 0) -> Integers:
    """A number for each action."""
    return np.array([entries.get(name, otherwise) for name in ACTIONS], dtype=np.int64)


_SPENT = _table({"SendChunk": -1, "SendBarrier": -1, "SendWatermark": -1, "AddPermits": 1})
_ARRIVED = _table({"Deliver": 1, "Consume": -1})
_RETURNED = _table({"AddPermits": 1, "Consume": 1})
_CHUNKS_WAITING = _table({"OfferChunk": 1, "SendChunk": -1, "WithdrawChunk": -1})
_BARRIERS_WAITING = _table({"OfferBarrier": 1, "SendBarrier": -1, "WithdrawBarrier": -1})
_KIND = _table(
    {
        **dict.fromkeys(("OfferChunk", "WithdrawChunk", "SendChunk"), _CHUNK),
        **dict.fromkeys(("OfferBarrier", "WithdrawBarrier", "SendBarrier"), _BARRIER),
        **dict.fromkeys(("OfferWatermark", "SendWatermark"), _WATERMARK),
    },
    otherwise=_ANY,
)
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
        spent = _SPENT[events.action]
        first, second, third = (count + spent * of for count, of in zip(before, events.permits, strict=True))
        return first, second, third
    messages, rows, residue = before
    arrived = _ARRIVED[events.action]
    residue = residue + (arrived < 0) * events.permits[0]
    returns = (residue >= events.parameters.permit_batch) | (events.action == CODE["Flush"])
    return messages + arrived, rows + arrived * events.rows, residue * ~returns


def broken(events: Events, before: Before) -> dict[Clause, Marks]:
    """The events that break a clause by what they are and by what their end counts before and after them."""
    first, second, third = _differs(events, before)
    found = {Clause.COST: _cost(events), Clause.BOUNDED: _bounded(events)}
    if events.end == "sender":
        return {**found, Clause.CONSERVATION: first | second | third}
    return {
        **found,
        Clause.CONSERVATION: first | second,
        Clause.GRANTS_BATCHED: third | _flushes_wrongly(events, before),
    }


def _differs(events: Events, before: Before) -> tuple[Marks, Marks, Marks]:
    """Counters that are not what they must be.

    An end that miscounts once and goes on as if it had not is at fault once, not twice.
    """
    due = due_counters(events, before.counters)
    comparable = events.has_counters & before.known
    first, second, third = (comparable & (is_ != must) for is_, must in zip(events.counters, due, strict=True))
    if not (first | second | third).any():
        return first, second, third
    as_if_right = due_counters(events, _shifted(due))
    excused = (
        before.continues & np.roll(marks, 1) & (is_ == must)
        for marks, is_, must in zip((first, second, third), events.counters, as_if_right, strict=True)
    )
    first, second, third = (marks & ~excuse for marks, excuse in zip((first, second, third), excused, strict=True))
    return first, second, third


def _shifted(books: Books) -> Books:
    first, second, third = (np.roll(column, 1) for column in books)
    return first, second, third


def _cost(events: Events) -> Marks:
    rows, barriers, watermarks = events.permits
    kind = kinds_of(events)
    is_chunk = kind == _CHUNK
    of_chunk = np.minimum(np.maximum(events.rows, 1), events.parameters.max_chunk_cost)
    is_due = (rows == of_chunk * is_chunk) & (barriers == (kind == _BARRIER)) & (watermarks == (kind == _WATERMARK))
    is_due &= (events.rows == 0) | (is_chunk & (events.rows > 0))
    is_return = ((rows | barriers | watermarks) >= 0) & ((rows + barriers + watermarks) > 0)
    wrong: Marks = ~np.where(_IS_RETURN[events.action], is_return, is_due)
    return wrong


def _bounded(events: Events) -> Marks:
    if events.end == "sender":
        parts = [(of < 0) | (of > most) for of, most in zip(events.counters, events.total, strict=True)]
    else:
        parts = [of < 0 for of in events.counters]
        if events.parameters.oversize == "split":
            parts.append(events.counters[1] > events.parameters.row_permits)
    wrong: Marks = events.has_counters & np.logical_or.reduce(parts)
    return wrong


def _flushes_wrongly(events: Events, before: Before) -> Marks:
    inbox, _, residue = before.counters
    wrong: Marks = (events.action == CODE["Flush"]) & before.known & ((events.permits[0] != residue) | (inbox != 0))
    return wrong


def waiting_steps(events: Events) -> tuple[Integers, Integers]:
    """By how many more chunks, and barriers, wait after each event.

    Spec: the variables waiting and barrierWaiting.
    """
    return _CHUNKS_WAITING[events.action], _BARRIERS_WAITING[events.action]


def returned_by(events: Events) -> Books:
    """Permits that come to the sender (AddPermits), and those of consumed messages at the receiver."""
    counts = _RETURNED[events.action]
    rows, barriers, watermarks = (counts * column for column in events.permits)
    return rows, barriers, watermarks


def kinds_of(events: Events) -> Codes:
    """What each event is about: 0 a chunk, 1 a barrier, 2 a watermark; of the receiver, the permits tell."""
    if events.end == "sender":
        return _KIND[events.action]
    _, barriers, watermarks = events.permits
    kinds: Codes = np.where(watermarks != 0, _WATERMARK, (barriers != 0).astype(np.int64))
    return kinds
