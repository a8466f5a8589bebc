"""Who waits for whom at a channel, in words."""

from enum import StrEnum
from typing import NamedTuple

from permitflow.errors import printable
from permitflow.exchange.books.bridge import BridgeState
from permitflow.stream.traffic import ChannelTraffic, Rates

NOTABLE_SHARE = 0.05
"""The share of the time from which on a wait is mentioned."""


class Waiting(StrEnum):
    """What keeps rows from flowing."""

    NOBODY = "nobody"
    PRODUCERS = "producers"
    """They wait for room, so for the one that shall consume."""
    CONSUMERS = "consumers"
    """They wait for rows."""
    GATE = "gate"
    """A gate holds the channel behind its barrier."""
    CONNECTION = "connection"
    """A stream has lost its own."""
    OVER = "over"
    """The channel is broken or spent."""


class Waits(NamedTuple):
    """Who waits, and the sentence that says for whom."""

    who: Waiting
    text: str


def waits_of(rates: Rates) -> Waits:
    """Who waits for whom at a channel now."""
    traffic = rates.traffic
    match traffic.state:
        case BridgeState.BROKEN | BridgeState.SPENT:
            why = printable(traffic.reason) or "it was read to its end"
            return Waits(Waiting.OVER, f"It takes no more rows: {why}")
        case BridgeState.WAITING:
            if traffic.consumers:
                return Waits(Waiting.CONSUMERS, f"{_consumers(traffic)} for the first producer")
            return Waits(Waiting.NOBODY, "no producer has come yet")
    if rates.consumer_stopped_share >= NOTABLE_SHARE:
        return Waits(Waiting.GATE, "a gate holds it behind a barrier, and waits for its other inputs")
    if rates.blocked_share >= NOTABLE_SHARE:
        return Waits(Waiting.PRODUCERS, f"producers wait for {_whom(traffic)}")
    if traffic.suspended_streams:
        return Waits(
            Waiting.CONNECTION, f"{traffic.suspended_streams} streams have lost their connection, and wait for another"
        )
    if rates.consumer_blocked_share >= NOTABLE_SHARE:
        return Waits(Waiting.PRODUCERS, "rows wait for the consumer, and there is still room for more")
    if traffic.consumers and not (rates.rows_in_per_second or traffic.rows_held):
        whom = "the producer, which sends nothing" if traffic.producers else "a producer: none is connected"
        return Waits(Waiting.CONSUMERS, f"{_consumers(traffic)} for {whom}")
    if rates.rows_in_per_second or rates.rows_out_per_second:
        return Waits(Waiting.NOBODY, "rows flow, and nobody waits")
    return Waits(Waiting.NOBODY, "nothing moves, and nobody waits")


def _whom(traffic: ChannelTraffic) -> str:
    if traffic.kept is not None:
        name, rows = max(traffic.kept.lag_rows.items(), key=lambda item: item[1])
        return f"consumer {printable(name)!r}, which has {rows:,} rows still to acknowledge"
    if not traffic.consumers:
        return "a consumer: none is connected"
    return "the consumer, which is slower"


def _consumers(traffic: ChannelTraffic) -> str:
    return "the consumer waits" if traffic.consumers == 1 else f"{traffic.consumers} consumers wait"
