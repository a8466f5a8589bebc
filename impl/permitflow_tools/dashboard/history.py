"""What an exchange's channels did in the last ten minutes: sampled in its event loop, and bounded."""

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic, time
from typing import NamedTuple

from permitflow.errors import printable
from permitflow.exchange.books.bridge import BridgeState
from permitflow.exchange.registry import Exchange
from permitflow.stream.control import MOST_CHANNELS
from permitflow.stream.traffic import ChannelTraffic, Rates, Statistics, rates_between

SAMPLE_SECONDS = 2.0
HISTORY_SECONDS = 600.0
FIGURES_OF_A_SAMPLE = ("rows_in_per_second", "rows_out_per_second", "filled", "blocked_share", "consumer_blocked_share")
"""Figures of each channel; ``filled``: the share of its window that is taken, in rows or bytes, whichever is more."""
_SAMPLES = round(HISTORY_SECONDS / SAMPLE_SECONDS)
_MOST_EVENTS = 200


class HistoryEntry(NamedTuple):
    """Something that happened to a channel."""

    at_seconds: float
    """Since 1970."""
    channel: str
    text: str
    is_bad: bool


class History:
    """Samples of the first ``MOST_CHANNELS`` channels, 6 KB of each.  For the event loop of the exchange."""

    def __init__(self, exchange: Exchange) -> None:
        """Nothing is sampled yet."""
        self._exchange = exchange
        self._before: Statistics | None = None
        self._rates: dict[str, Rates] = {}
        self._samples: dict[str, array[float]] = {}
        self._events: deque[HistoryEntry] = deque(maxlen=_MOST_EVENTS)
        self.taken = 0
        """How many samples there were."""
        self.at_seconds = time()
        """When the last one was taken, since 1970."""

    async def follow(self) -> None:
        """Take samples until cancelled."""
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def sample(self) -> None:
        """Take one; other work of the loop goes on meanwhile."""
        exchange = self._exchange
        now = monotonic()
        seen = await exchange.turns.all(islice(exchange.each_statistics(), MOST_CHANNELS))
        statistics = Statistics(now, tuple(seen))
        self.at_seconds = time()
        if self._before is not None:
            self._events.extend(_events(self._before, statistics, self.at_seconds))
        rates = rates_between(self._before, statistics)
        self._before = statistics
        self._rates = {each.traffic.channel: each for each in rates}
        self._samples = {name: self._samples.get(name) or array("f") for name in self._rates}
        for name, each in self._rates.items():
            samples = self._samples[name]
            samples.extend(_figures(each))
            del samples[: -_SAMPLES * len(FIGURES_OF_A_SAMPLE)]
        self.taken += 1

    @property
    def rates(self) -> dict[str, Rates]:
        """The rates of each channel, at the last sample."""
        return self._rates

    def since(self, taken: int, channel: str) -> list[list[float]]:
        """A channel's samples but the first ``taken`` ones, as far as they are kept: of each, its figures in order."""
        width = len(FIGURES_OF_A_SAMPLE)
        samples = self._samples[channel]
        count = max(0, min(self.taken - taken, len(samples) // width))
        first = len(samples) // width - count
        found = range(first * width, len(samples), width)
        return [[round(value, 3) for value in samples[at : at + width]] for at in found]

    def events(self, sees: Callable[[str], bool]) -> list[HistoryEntry]:
        """What happened to the channels of which somebody may know, the newest first."""
        return [event for event in reversed(self._events) if sees(event.channel)]


def _figures(rates: Rates) -> tuple[float, ...]:
    return (
        rates.rows_in_per_second,
        rates.rows_out_per_second,
        filled_share(rates.traffic),
        rates.blocked_share,
        rates.consumer_blocked_share,
    )


def filled_share(traffic: ChannelTraffic) -> float:
    """The share of a channel's window that is taken, in rows or in bytes, whichever is more."""
    rows = traffic.rows_held / traffic.window_rows if traffic.window_rows else 0.0
    return max(rows, traffic.bytes_held / traffic.byte_window if traffic.byte_window else 0.0)


def _events(before: Statistics, now: Statistics, at_seconds: float) -> Iterator[HistoryEntry]:
    earlier = {traffic.channel: traffic for traffic in before.channels}
    for traffic in now.channels:
        old = earlier.pop(traffic.channel, None)
        if old is None:
            yield HistoryEntry(at_seconds, traffic.channel, "was added", False)
            continue
        if traffic.state != old.state:
            why = f": {printable(traffic.reason)}" if traffic.reason else ""
            text = f"was {old.state}, is {traffic.state}{why}"
            yield HistoryEntry(at_seconds, traffic.channel, text, traffic.state == BridgeState.BROKEN)
        if traffic.suspended_streams > old.suspended_streams:
            yield HistoryEntry(at_seconds, traffic.channel, "a stream has lost its connection", True)
        if traffic.resumes > old.resumes:
            yield HistoryEntry(at_seconds, traffic.channel, "a stream goes on over another connection", False)
    for name in earlier:
        yield HistoryEntry(at_seconds, name, "was removed", False)
