"""The permit flow in recordings: its actions and counters, and the steps of messages that moved together."""

from collections.abc import Iterable, Iterator
from typing import Any

from permitflow.flows.permits.parameters import ChannelParameters, Permits, held
from permitflow.flows.recording import ActionTable, Step
from permitflow.flows.seam import Entries, messages_of

_MESSAGE = ("rows", "permits.rows", "permits.barriers", "permits.watermarks")

PERMIT_ACTIONS = ActionTable(
    flow="permits",
    actions={
        "sender": dict.fromkeys(
            (
                *("OfferChunk", "OfferBarrier", "OfferWatermark", "WithdrawChunk", "WithdrawBarrier"),
                *("SendChunk", "SendBarrier", "SendWatermark", "AddPermits"),
            ),
            _MESSAGE,
        ),
        "receiver": dict.fromkeys(("Deliver", "Consume", "Flush"), _MESSAGE),
    },
    counters={
        "sender": ("row_permits", "barrier_permits", "watermark_permits"),
        "receiver": ("inbox_messages", "inbox_rows", "unreturned_permits"),
    },
)
"""Each action reports the rows of its chunk, or 0, and the permits that the message holds or, for Flush and AddPermits,
the returned permits.

The sender counts its unspent permits; the receiver counts unconsumed messages, and the row permits of consumed chunks
that it has not returned yet."""


def steps_of_sending(rows: Iterable[int], parameters: ChannelParameters, before: Permits) -> Iterator[Step]:
    """Chunks of these rows leave; ``before`` are the permits at the sender."""
    left = before.rows
    for size in rows:
        chunk = (size, cost := parameters.cost_of(size), 0, 0)
        yield "OfferChunk", chunk, before._replace(rows=left)
        left -= cost
        yield "SendChunk", chunk, before._replace(rows=left)


def steps_of_delivery(rows: Iterable[int], parameters: ChannelParameters, before: tuple[int, ...]) -> Iterator[Step]:
    """Chunks of these rows arrive; ``before`` are the receiver's counters."""
    messages, here, unreturned = before
    for size in rows:
        messages += 1
        here += size
        yield "Deliver", (size, parameters.cost_of(size), 0, 0), (messages, here, unreturned)


def steps_of_consumption(taken: Entries[Any], parameters: ChannelParameters, before: tuple[int, ...]) -> Iterator[Step]:
    """Messages are consumed; ``before`` are the receiver's counters."""
    messages, here, unreturned = before
    for message in messages_of(taken):
        permits = held(message, parameters)
        messages -= 1
        here -= message.rows
        unreturned += permits.rows
        if unreturned >= parameters.permit_batch:
            unreturned = 0
        yield "Consume", (message.rows, *permits), (messages, here, unreturned)
