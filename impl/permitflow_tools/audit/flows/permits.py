"""The laws of permits, for many events at once.

Spec: the updates of permits, inbox and unreturned; Cost, Held, Bounded, GrantsBatched.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from permitflow.flows.permits.parameters import ChannelParameters, Oversize
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow_tools.audit.columns import Events, Integers, Limit, Marks
from permitflow_tools.audit.findings import Clause
from permitflow_tools.audit.laws import Before, Counter, Laws, Line, Order, Return, Rule

COST = "Cost"
"""A message holds its cost in permits of one class; a return has at least one permit, and no class is negative.

Spec: Cost, Held.
"""

BATCHED = "GrantsBatched"
"""The receiver returns row permits once they make up a batch, and a residue only when idle.

Spec: GrantsBatched, Consume, Flush.
"""

_AT_SENDER: Mapping[str, tuple[Limit, Limit]] = {
    "permits.rows": ("initial_permits", "row_permits"),
    "permits.barriers": ("barrier_permits", "barrier_permits"),
    "permits.watermarks": (1, 1),
}
"""How many permits of each class the sender has at first, and at most."""

_SENDS = ("SendChunk", "SendBarrier", "SendWatermark")
_NO_BOUND = int(np.iinfo(np.int64).max)


def _most_inbox_rows(of: ChannelParameters) -> int:
    """Chunks above ``max_chunk_cost`` that are admitted whole have more rows than permits."""
    return of.row_permits if of.oversize is Oversize.SPLIT else _NO_BOUND


def _withheld(of: ChannelParameters) -> int:
    return of.row_permits - of.initial_permits


def _return(kind: str, **of_receiver: Any) -> Return:
    permits = f"permits.{kind}s"
    return Return(name=f"{kind} permits", came={"AddPermits": f"-{permits}"}, owed={"Consume": permits}, **of_receiver)


def _unreturned(events: Events, collected: Integers) -> Integers:
    """The unreturned permits: a complete batch is returned at once, a residue by Flush."""
    kept: Integers = collected * ((collected < events.limit("permit_batch")) & ~events.is_any(["Flush"]))
    return kept


def _flushes_wrongly(events: Events, before: Before) -> Marks:
    inbox, _, residue = before.counters
    is_wrong = (events.arguments["permits.rows"] != residue) | (inbox != 0)
    wrong: Marks = events.is_any(["Flush"]) & before.known & is_wrong
    return wrong


def _costs_wrongly(events: Events, _before: Before) -> Marks:
    rows, barriers, watermarks = (events.arguments[name] for name in _AT_SENDER)
    is_chunk, is_barrier, is_watermark = _about(events)
    size = events.arguments["rows"]
    of_chunk = np.maximum(size, 1)
    np.minimum(of_chunk, events.limit("max_chunk_cost"), out=of_chunk)
    wrong: Marks = is_chunk & (rows != of_chunk)
    # Only chunks have rows.
    wrong |= ~is_chunk & ((rows | size) != 0)
    wrong |= size < 0
    wrong |= barriers != is_barrier.astype(np.int64)
    wrong |= watermarks != is_watermark.astype(np.int64)
    returns = np.flatnonzero(events.is_any(["AddPermits", "Flush"]))
    rows, barriers, watermarks = (events.arguments[name].take(returns) for name in _AT_SENDER)
    wrong[returns] = ((rows | barriers | watermarks) < 0) | ((rows + barriers + watermarks) <= 0)
    return wrong


def _kind_of(events: Events) -> Integers:
    """The kind of message: 0 a chunk, 1 a barrier, 2 a watermark."""
    _, is_barrier, is_watermark = _about(events)
    return is_barrier + 2 * is_watermark.astype(np.int64)


def _about(events: Events) -> tuple[Marks, Marks, Marks]:
    """Marks the events about chunks, barriers and watermarks; at the receiver, by their permits."""
    if events.end == "sender":
        return (
            events.is_any(["OfferChunk", "WithdrawChunk", "SendChunk"]),
            events.is_any(["OfferBarrier", "WithdrawBarrier", "SendBarrier"]),
            events.is_any(["OfferWatermark", "SendWatermark"]),
        )
    is_watermark = events.arguments["permits.watermarks"] != 0
    is_barrier = (events.arguments["permits.barriers"] != 0) & ~is_watermark
    return ~(is_barrier | is_watermark), is_barrier, is_watermark


LAWS = Laws(
    table=PERMIT_ACTIONS,
    parameters=ChannelParameters,
    counters={
        "sender": [
            Counter(start=start, most=most, steps={**dict.fromkeys(_SENDS, f"-{permits}"), "AddPermits": permits})
            for permits, (start, most) in _AT_SENDER.items()
        ],
        "receiver": [
            Counter(steps={"Deliver": 1, "Consume": -1}),
            Counter(steps={"Deliver": "rows", "Consume": "-rows"}, most=_most_inbox_rows),
            Counter(steps={"Consume": "permits.rows"}, settled=_unreturned, clause=BATCHED),
        ],
    },
    rules=[Rule(COST, _costs_wrongly), Rule(BATCHED, _flushes_wrongly, "receiver")],
    lines=[
        Line("chunk", {"OfferChunk": 1, "SendChunk": -1, "WithdrawChunk": -1}),
        Line("barrier", {"OfferBarrier": 1, "SendBarrier": -1, "WithdrawBarrier": -1}),
    ],
    order=Order(
        sent=_SENDS,
        delivered=["Deliver"],
        consumed=["Consume"],
        rows="rows",
        kinds=("chunk", "barrier", "watermark"),
        kind_of=_kind_of,
    ),
    returns=[_return("row", kept="unreturned_permits", unasked=_withheld), _return("barrier"), _return("watermark")],
    words={
        COST: "a message holds what it costs",
        BATCHED: "permits are returned in batches, a residue only when idle",
        Clause.BOUNDED: "nobody has or spends more permits than there are",
        Clause.RETURNED: "no permits arrive that were not returned",
    },
)
