"""What each action does to the books of its end, for many events at once.

The specification says the same of one event at a time; ``tests/impl/audit`` holds the two together, step by step of
whole state graphs.
"""

from dataclasses import dataclass

import numpy as np

from permitflow.audit.clauses import Clause
from permitflow.audit.columns import ACTIONS, Columns, Integers, Marks

__all__ = ["Before", "broken", "due_counters", "initial_counters", "returned_by", "waiting_steps"]

_CODE = {name: code for code, name in enumerate(ACTIONS)}
_ADD, _DELIVER, _CONSUME, _FLUSH = (_CODE[name] for name in ("AddPermits", "Deliver", "Consume", "Flush"))
_SENDS = [_CODE[name] for name in ("SendChunk", "SendBarrier", "SendWatermark")]
_CHUNKS = {"OfferChunk": 1, "SendChunk": -1, "WithdrawChunk": -1}
_BARRIERS = {"OfferBarrier": 1, "SendBarrier": -1, "WithdrawBarrier": -1}
# The class of the message: 0 chunk, 1 barrier, 2 watermark; -1: any, see the permits.
_KIND = np.array([0, 1, 2, 0, 1, 0, 1, 2, -1, -1, -1, -1])


@dataclass(frozen=True, slots=True)
class Before:
    """What the ends counted before the events."""

    counters: Integers
    """n by 3."""

    known: Marks
    continues: Marks
    """Is the event before, of the same end, the one at the place before?"""


def initial_counters(events: Columns) -> Integers:
    """What an end counts before its first event: the sender has all permits, the receiver nothing.

    Spec: Init.
    """
    return np.where(events.is_receiver[:, None], 0, events.total)


def due_counters(events: Columns, before: Integers) -> Integers:
    """n by 3: what the ends must count after the events, if they counted ``before``.

    Spec: the updates of permits by SendChunk, SendBarrier, SendWatermark, AddPermits; of inbox by Deliver, Consume; of
    unreturned by Consume, Flush.
    """
    action = events.action
    spent = np.where(action == _ADD, 1, np.where(np.isin(action, _SENDS), -1, 0))
    of_sender = before + spent[:, None] * events.permits
    arrived = np.where(action == _DELIVER, 1, np.where(action == _CONSUME, -1, 0))
    residue = before[:, 2] + np.where(action == _CONSUME, events.permits[:, 0], 0)
    residue = np.where((residue >= events.batch) | (action == _FLUSH), 0, residue)
    of_receiver = np.stack((before[:, 0] + arrived, before[:, 1] + arrived * events.rows, residue), axis=1)
    due: Integers = np.where(events.is_receiver[:, None], of_receiver, of_sender)
    return due


def broken(events: Columns, before: Before) -> dict[Clause, Marks]:
    """The events that break a clause by what they are and by what their end counts before and after them."""
    differs = _differs(events, before)
    residue_differs = differs[:, 2] & events.is_receiver
    return {
        Clause.COST: _cost(events),
        Clause.BOUNDED: _bounded(events),
        Clause.CONSERVATION: differs[:, :2].any(axis=1) | (differs[:, 2] & ~events.is_receiver),
        Clause.GRANTS_BATCHED: residue_differs | _flushes_wrongly(events, before),
    }


def _differs(events: Columns, before: Before) -> Marks:
    """n by 3: counters that are not what they must be.

    An end that miscounts once and goes on as if it had not is at fault once, not twice.
    """
    due = due_counters(events, before.counters)
    comparable = (events.has_counters & before.known)[:, None]
    differs = comparable & (events.counters != due)
    as_if_right = due_counters(events, np.roll(due, 1, axis=0))
    excused = before.continues[:, None] & np.roll(differs, 1, axis=0) & (events.counters == as_if_right)
    marks: Marks = differs & ~excused
    return marks


def _cost(events: Columns) -> Marks:
    rows, barriers, watermarks = events.permits.T
    kind = _kinds(events)
    chunk_cost = np.minimum(np.maximum(events.rows, 1), events.clamp)
    is_due = (rows == np.where(kind == 0, chunk_cost, 0)) & (barriers == (kind == 1)) & (watermarks == (kind == 2))
    is_due &= np.where(kind == 0, events.rows >= 0, events.rows == 0)
    is_return = (events.permits >= 0).all(axis=1) & (rows + barriers + watermarks >= 1)
    wrong: Marks = ~np.where(np.isin(events.action, (_ADD, _FLUSH)), is_return, is_due)
    return wrong


def _bounded(events: Columns) -> Marks:
    of_sender = ((events.counters < 0) | (events.counters > events.total)).any(axis=1)
    messages, rows, residue = events.counters.T
    of_receiver = (messages < 0) | (rows < 0) | (residue < 0) | (events.splits & (rows > events.total[:, 0]))
    wrong: Marks = events.has_counters & np.where(events.is_receiver, of_receiver, of_sender)
    return wrong


def _flushes_wrongly(events: Columns, before: Before) -> Marks:
    inbox, residue = before.counters[:, 0], before.counters[:, 2]
    wrong: Marks = ((events.permits[:, 0] != residue) | (inbox != 0)) & (events.action == _FLUSH) & before.known
    return wrong


def waiting_steps(events: Columns) -> Integers:
    """2 by n: by how many more chunks, and barriers, wait after each event.

    Spec: the variables waiting and barrierWaiting.
    """
    steps = [[table.get(name, 0) for name in ACTIONS] for table in (_CHUNKS, _BARRIERS)]
    taken: Integers = np.array(steps, dtype=np.int64)[:, events.action]
    return taken


def returned_by(events: Columns) -> Integers:
    """n by 3: permits that come to the sender (AddPermits), and those of consumed messages at the receiver."""
    counts = (events.action == _ADD) | (events.action == _CONSUME)
    returned: Integers = np.where(counts[:, None], events.permits, 0)
    return returned


def _kinds(events: Columns) -> Integers:
    told = _KIND[events.action]
    # The receiver's actions do not name the kind; its permits do.
    seen = np.where(events.permits[:, 2] != 0, 2, np.where(events.permits[:, 1] != 0, 1, 0))
    kinds: Integers = np.where(told >= 0, told, seen)
    return kinds
