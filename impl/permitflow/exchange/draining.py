"""Emptying an exchange before it stops."""

import asyncio
from itertools import chain
from time import monotonic
from typing import NamedTuple

from permitflow.exchange.books.bridge import BridgeState
from permitflow.exchange.health import Phase
from permitflow.exchange.registry import Exchange
from permitflow.stream.traffic import ChannelTraffic

# A look at thousands of channels takes time, and the consumers that empty them need the event loop more than this wait:
# it rests nine times as long as a look takes.
_LOOK_EVERY_SECONDS = 0.05
_SECONDS_BETWEEN_FOR_EACH_OF_LOOKING = 9


class Remainder(NamedTuple):
    """Rows that no consumer had taken, or acknowledged, when the exchange stopped."""

    stored: dict[str, int]
    """Rows on disk, by channel: the next exchange has them."""
    lost: dict[str, int]
    """Rows that were in memory only, by channel."""


async def drain(exchange: Exchange, timeout_seconds: float) -> None:
    """Refuse new producers, and wait until waiting can save no more rows.

    Named producers are sent away at once, because they can continue later.  Until the timeout, other producers may
    finish, and consumers may take rows that are in memory only; rows on disk need no waiting.
    """
    exchange.readiness.enter(Phase.DRAINING)
    until = monotonic() + timeout_seconds
    waits_for: str | None = None
    while (began := monotonic()) < until:
        waits_for = _worth_waiting(exchange, waits_for)
        if waits_for is None:
            return
        now = monotonic()
        pause_seconds = max(_LOOK_EVERY_SECONDS, _SECONDS_BETWEEN_FOR_EACH_OF_LOOKING * (now - began))
        await asyncio.sleep(max(0.0, min(pause_seconds, until - now)))


def _worth_waiting(exchange: Exchange, before: str | None) -> str | None:
    """A channel to wait for: the one before while it qualifies, else any other; None: no channel does."""
    names = exchange.names
    first = [] if before is None or before not in names else [before]
    others = (name for name in names if name != before)
    found = (name for name in chain(first, others) if _is_worth_waiting(exchange.statistics([name])[0], exchange))
    return next(found, None)


def _is_worth_waiting(channel: ChannelTraffic, exchange: Exchange) -> bool:
    # A broken channel's rows are incomplete: they need no saving.
    needs_no_time = exchange.is_durable if channel.kept is not None else channel.state == BridgeState.BROKEN
    if _rows_of(channel) and not needs_no_time:
        return True
    # A consumer may follow a channel that keeps its rows for ever: do not wait for it.
    return bool(channel.producers or (channel.kept is None and channel.consumers))


def remainder(exchange: Exchange) -> Remainder:
    """The rows left in an exchange that has stopped."""
    left = Remainder({}, {})
    for channel in exchange.statistics():
        if rows := _rows_of(channel):
            (left.stored if channel.kept is not None and exchange.is_durable else left.lost)[channel.channel] = rows
    return left


def _rows_of(channel: ChannelTraffic) -> int:
    return channel.rows_in - channel.rows_out if channel.kept is None else channel.kept.kept_rows
