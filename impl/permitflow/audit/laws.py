"""What each action does to the books of its end, for many events at once.

The specification says the same of one event at a time; tests hold the two together, by runs of the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from permitflow.audit.columns import CODE, Events, Integers, Marks, PerEvent
from permitflow.audit.findings import Clause

__all__ = [
    "SENDS",
    "Before",
    "broken",
    "due_counters",
    "is_any",
    "is_returning",
    "kinds_of",
    "shifted",
    "waiting_steps",
]

SENDS = ("SendChunk", "SendBarrier", "SendWatermark")


@dataclass(frozen=True, slots=True)
class Before:
    """What an end counted before its events."""

    counters: Integers
    known: Marks
    continues: Marks
    """Is the event before the one at the place before?"""


def due_counters(events: Events, before: Integers) -> Integers:
    """What an end must count after its events, if it counted ``before``.

    Spec: the updates of permits by SendChunk, SendBarrier, SendWatermark, AddPermits; of inbox by Deliver, Consume; of
    unreturned by Consume, Flush.
    """
    if events.end == "sender":
        due = events.permits * _steps(events, up=("AddPermits",), down=SENDS)
        due += before
        return due
    due = before.copy()
    messages, rows, residue = due
    arrived = _steps(events, up=("Deliver",), down=("Consume",))
    messages += arrived
    rows += arrived * events.rows
    residue += is_any(events, "Consume") * events.permits[0]
    residue *= (residue < events.limits.permit_batch) & ~is_any(events, "Flush")
    return due


def is_any(events: Events, *actions: str) -> Marks:
    """The events that are one of these actions."""
    # Short numbers are compared many at once.
    marks: Marks = events.action == CODE[actions[0]]
    for name in actions[1:]:
        marks |= events.action == CODE[name]
    return marks


def _steps(events: Events, *, up: Sequence[str], down: Sequence[str]) -> Integers:
    """1 for some actions, -1 for others, 0 for the rest."""
    return np.subtract(is_any(events, *up).view(np.int8), is_any(events, *down).view(np.int8)).astype(np.int64)


def broken(events: Events, before: Before, due: Integers) -> dict[Clause, Marks]:
    """The events that break a clause by what they are and by what their end counts before and after them.

    ``due`` are the ``due_counters``.
    """
    differs = _differs(events, before, due)
    unconserved: Marks = np.logical_or.reduce(differs if events.end == "sender" else differs[:2])
    found = {Clause.COST: _cost(events), Clause.BOUNDED: _bounded(events), Clause.CONSERVATION: unconserved}
    if events.end == "receiver":
        found[Clause.GRANTS_BATCHED] = differs[2] | _flushes_wrongly(events, before)
    return found


def shifted(books: Integers) -> Integers:
    """What stands at the place before; at the first place anything."""
    moved = np.empty_like(books)
    moved[:, 1:] = books[:, :-1]
    moved[:, :1] = books[:, -1:]
    return moved


def _differs(events: Events, before: Before, due: Integers) -> Marks:
    """Where each of the three counters is not what it must be.

    An end that miscounts once and goes on as if it had not is at fault once, not twice.
    """
    differs: Marks = (events.counters != due) & (events.has_counters & before.known)
    if not differs.any():
        return differs
    as_if_right = due_counters(events, shifted(due))
    differs &= ~(before.continues & np.roll(differs, 1, axis=1) & (events.counters == as_if_right))
    return differs


def _cost(events: Events) -> Marks:
    rows, barriers, watermarks = events.permits
    is_chunk, is_barrier, is_watermark = _about(events)
    of_chunk = np.maximum(events.rows, 1)
    np.minimum(of_chunk, events.limits.max_chunk_cost, out=of_chunk)
    wrong: Marks = is_chunk & (rows != of_chunk)
    # Only chunks have rows.
    wrong |= ~is_chunk & ((rows | events.rows) != 0)
    wrong |= events.rows < 0
    wrong |= _is_not(barriers, is_barrier)
    wrong |= _is_not(watermarks, is_watermark)
    returns = np.flatnonzero(is_any(events, "AddPermits", "Flush"))
    rows, barriers, watermarks = (column.take(returns) for column in events.permits)
    wrong[returns] = ((rows | barriers | watermarks) < 0) | ((rows + barriers + watermarks) <= 0)
    return wrong


def _is_not(permits: Integers, due: Marks) -> Marks:
    """Not 1 where one is due, or not 0 elsewhere."""
    wrong: Marks = permits != due.astype(np.int64)
    return wrong


def _bounded(events: Events) -> Marks:
    first, second, third = events.counters
    if events.end == "sender":
        rows, barriers, watermarks = events.limits.total
        wrong = _outside(first, rows) | _outside(second, barriers) | _outside(third, watermarks)
    else:
        wrong = (first < 0) | _outside(second, events.limits.most_inbox_rows) | (third < 0)
    return events.has_counters & wrong


def _outside(numbers: Integers, most: PerEvent) -> Marks:
    """Below zero, or above ``most``."""
    # Without their signs, numbers below zero are above all others.
    outside: Marks = numbers.view(np.uint64) > most.view(np.uint64)
    return outside


def _flushes_wrongly(events: Events, before: Before) -> Marks:
    inbox, _, residue = before.counters
    wrong: Marks = is_any(events, "Flush") & before.known & ((events.permits[0] != residue) | (inbox != 0))
    return wrong


def waiting_steps(events: Events) -> tuple[Integers, Integers]:
    """By how many more chunks, and barriers, wait after each event.

    Spec: the variable waiting.
    """
    return (
        _steps(events, up=("OfferChunk",), down=("SendChunk", "WithdrawChunk")),
        _steps(events, up=("OfferBarrier",), down=("SendBarrier", "WithdrawBarrier")),
    )


def is_returning(events: Events) -> Marks:
    """Where permits come back to the sender (AddPermits), or the receiver owes them for a message (Consume)."""
    return is_any(events, "AddPermits", "Consume")


def kinds_of(events: Events) -> npt.NDArray[np.int8]:
    """What each event that sends, delivers or consumes is about: 0 a chunk, 1 a barrier, 2 a watermark."""
    _, is_barrier, is_watermark = _about(events)
    return is_barrier.view(np.int8) + 2 * is_watermark.view(np.int8)


def _about(events: Events) -> tuple[Marks, Marks, Marks]:
    """Which events are about chunks, barriers and watermarks; of the receiver, the permits tell."""
    if events.end == "sender":
        return (
            is_any(events, "OfferChunk", "WithdrawChunk", "SendChunk"),
            is_any(events, "OfferBarrier", "WithdrawBarrier", "SendBarrier"),
            is_any(events, "OfferWatermark", "SendWatermark"),
        )
    _, barriers, watermarks = events.permits
    is_watermark = watermarks != 0
    is_barrier = (barriers != 0) & ~is_watermark
    return ~(is_barrier | is_watermark), is_barrier, is_watermark
