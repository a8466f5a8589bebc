"""Examines one part of a trace by itself: a row group of a Parquet file, or a whole file of JSON lines.

Violations inside the part are reported at once; its edges are checked when the parts before and after are known.
Summaries form a monoid: those of neighbouring parts combine into that of both, in any grouping.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.flows.recording import End
from permitflow_tools.audit.columns import Events, Integers, Places, events_of
from permitflow_tools.audit.findings import Violation
from permitflow_tools.audit.laws import Laws, check, steps_of

# Odd, so that no factor is lost when numbers wrap at 64 bits.
_RADIX = np.uint64(0x9E3779B97F4A7C15)

Moment: TypeAlias = Literal["arrived", "consumed"]
"""The moment at which a message passes an end; see ``Summary``."""

MOST_VIOLATIONS = 10_000
"""The most violations of one part that are listed; further ones are counted."""


class Rise(NamedTuple):
    """The sum of steps up and down, and their lowest partial sum (at most 0)."""

    total: int = 0
    lowest: int = 0

    def then(self, other: "Rise") -> "Rise":
        """These steps, then others."""
        return Rise(self.total + other.total, min(self.lowest, self.total + other.lowest))


class Passage(NamedTuple):
    """A sequence of messages: their number, and a fingerprint of their kinds and rows."""

    messages: int = 0
    rows: int = 0
    fingerprint: int = 0

    def then(self, other: "Passage") -> "Passage":
        """These messages, then others."""
        power = pow(int(_RADIX), self.messages, 2**64)
        fingerprint = (self.fingerprint + power * other.fingerprint) % 2**64
        return Passage(self.messages + other.messages, self.rows + other.rows, fingerprint)


class Summary(NamedTuple):
    """The summary of neighbouring events of one end of a channel."""

    channel: str
    end: End
    rises: tuple[Rise, ...]
    """One for each of ``Laws.sums``."""
    events: int = 0
    uncounted: int = 0
    """Number of events without counters: the ledger cannot be checked there."""
    counters: tuple[int, ...] | None = None
    """The last counters."""
    arrived: Passage = Passage()
    """Messages sent by the sender, or delivered to the receiver."""
    consumed: Passage = Passage()
    """Messages that the receiver has consumed."""

    def then(self, other: "Summary") -> "Summary":
        """These events, then those of the part that follows."""
        return Summary(
            self.channel,
            self.end,
            rises=tuple(rise.then(more) for rise, more in zip(self.rises, other.rises, strict=True)),
            events=self.events + other.events,
            uncounted=self.uncounted + other.uncounted,
            counters=other.counters,
            arrived=self.arrived.then(other.arrived),
            consumed=self.consumed.then(other.consumed),
        )


@dataclass(slots=True)
class Part:
    """The result for one part."""

    summaries: list[Summary] = field(default_factory=list)
    edges: list[Events] = field(default_factory=list)
    """Of each end: its first and last events, in all channels."""
    violations: list[Violation] = field(default_factory=list)
    """Those of all other events."""
    untold: int = 0
    """Violations beyond ``MOST_VIOLATIONS``."""


def look_at(table: pa.Table, laws: Laws, parameters: Mapping[str, object], *, source: str) -> Part:
    """Examine events with the columns of a trace.

    Raises:
        TraceUnreadableError: the table is no trace.
    """
    part = Part()
    for events in events_of(table, laws.table, parameters, source=source):
        most = MOST_VIOLATIONS - len(part.violations)
        violations, untold = check(laws, events).violations(~events.openings, most=most)
        part.violations += violations
        part.untold += untold
        part.edges.append(events.edges())
        part.summaries += _summaries_of(laws, events)
    return part


def _summaries_of(laws: Laws, events: Events) -> list[Summary]:
    """The summaries of one end's events in one part, channel by channel."""
    rises = [_rises(steps_of(events, steps), events) for steps in laws.sums(events.end)]
    tokens = tokens_of(laws, events)
    places = [places_of(laws, events, moment) for moment in ("arrived", "consumed")]
    passages = [_passages_of(tokens.take(each), np.searchsorted(each, events.borders)) for each in places]
    uncounted = np.add.reduceat(~events.has_counters, events.starts, dtype=np.int64)
    return [
        Summary(
            channel,
            events.end,
            rises=tuple(rise[number] for rise in rises),
            events=int(events.borders[number + 1] - events.borders[number]),
            uncounted=int(uncounted[number]),
            counters=events.counters_of(int(events.lasts[number])),
            arrived=passages[0][number],
            consumed=passages[1][number],
        )
        for number, channel in enumerate(events.channels)
    ]


def _rises(steps: Integers, events: Events) -> list[Rise]:
    heights = np.cumsum(steps)
    reached = heights.take(events.lasts)
    began = np.concatenate([[0], reached[:-1]])
    lowest = np.minimum(np.minimum.reduceat(heights, events.starts) - began, 0)
    return [Rise(*rise) for rise in zip((reached - began).tolist(), lowest.tolist(), strict=True)]


def places_of(laws: Laws, events: Events, moment: Moment) -> Places:
    """The places of the events at which messages pass the end at this moment."""
    order, is_sender = laws.order, events.end == "sender"
    if order is None or (is_sender and moment == "consumed"):
        return np.zeros(0, dtype=np.intp)
    arrived = order.sent if is_sender else order.delivered
    return np.flatnonzero(events.is_any(arrived if moment == "arrived" else order.consumed))


def tokens_of(laws: Laws, events: Events) -> Integers:
    """A number for the message of each event, made from its kind and rows."""
    order = laws.order
    if order is None or order.rows is None:
        tokens = np.zeros(len(events), dtype=np.int64)
    else:
        tokens = events.arguments[order.rows] << 2
    if order is not None and order.kind_of is not None:
        tokens += order.kind_of(events)
    return tokens


def passage_of(tokens: Integers) -> Passage:
    """The passage of messages, given their tokens."""
    (passage,) = _passages_of(tokens, np.array([0, len(tokens)]))
    return passage


def _passages_of(tokens: Integers, borders: Places) -> list[Passage]:
    """The passages of messages, given their tokens, from each border to the next."""
    messages = np.diff(borders)
    is_some = messages > 0
    factors = _powers(_room_for(int(messages.max(initial=0))))
    if len(messages) == 1:
        factors = factors[: len(tokens)]
    else:
        factors = factors.take(np.arange(len(tokens)) - np.repeat(borders[:-1], messages))
    mixed = _mixed(tokens.view(np.uint64))
    mixed *= factors
    rows, fingerprints = np.zeros(len(messages), dtype=np.int64), np.zeros(len(messages), dtype=np.uint64)
    rows[is_some] = np.add.reduceat(tokens >> 2, borders[:-1][is_some])
    fingerprints[is_some] = np.add.reduceat(mixed, borders[:-1][is_some])
    numbers = (messages.tolist(), rows.tolist(), fingerprints.tolist())
    return [Passage(*passage) for passage in zip(*numbers, strict=True)]


def _room_for(count: int) -> int:
    """The next power of two, so that few different tables are made."""
    return 1 << max(count - 1, 0).bit_length()


@cache
def _powers(count: int) -> npt.NDArray[np.uint64]:
    """Powers of the radix, from exponent 0 upwards."""
    factors = np.full(count, _RADIX)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _mixed(tokens: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash numbers so that small differences do not cancel out.  (The finaliser of SplitMix64.)"""
    mixed: npt.NDArray[np.uint64] = tokens + np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
