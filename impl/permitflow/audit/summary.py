"""Examines one part of a trace by itself: a row group of a Parquet file, or a whole file of JSON lines.

Violations inside the part are reported at once.  A summary keeps what the merge with other parts needs.  Summaries form
a monoid: those of neighbouring parts combine into that of both, in any grouping.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from operator import add
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.audit.columns import Codes, Events, Integers, Limits, Marks, events_of, numbers_at
from permitflow.audit.findings import Clause, Violation
from permitflow.audit.laws import Before, Laws, broken, due_counters, initial_counters, shifted, steps_of
from permitflow.protocol.recording import End

_Whole = TypeVar("_Whole", np.int64, np.uint64)

# Odd, so that no factor is lost when numbers wrap at 64 bits.
_RADIX = np.uint64(0x9E3779B97F4A7C15)

Moment: TypeAlias = Literal["arrived", "consumed"]
"""The moment at which a message passes an end; see ``Summary``."""

_MOMENTS: tuple[Moment, Moment] = ("arrived", "consumed")

MOST_VIOLATIONS = 10_000
"""The most violations of one part that are listed; further ones are counted."""


class Told(NamedTuple):
    """One event."""

    sequence: int
    action: int
    """Its index among all actions."""
    arguments: tuple[int, ...]
    """The arguments of all actions."""
    counters: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Rise:
    """The sum of steps up and down, and their lowest partial sum (at most 0)."""

    total: int = 0
    lowest: int = 0

    def then(self, other: "Rise") -> "Rise":
        """These steps, then others."""
        return Rise(self.total + other.total, min(self.lowest, self.total + other.lowest))


@dataclass(frozen=True, slots=True)
class Passage:
    """A sequence of messages: their number, and a fingerprint of their kinds and rows."""

    messages: int = 0
    rows: int = 0
    fingerprint: int = 0

    def then(self, other: "Passage") -> "Passage":
        """These messages, then others."""
        power = pow(int(_RADIX), self.messages, 2**64)
        fingerprint = (self.fingerprint + power * other.fingerprint) % 2**64
        return Passage(self.messages + other.messages, self.rows + other.rows, fingerprint)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The summary of neighbouring events of one end of a channel."""

    channel: str
    end: End
    events: int
    first_sequence: int
    last_sequence: int
    first: "Told"
    second: "Told | None"
    last_counters: tuple[int, ...] | None
    last_due: tuple[int, ...]
    """The right last counters, given those before; equal to the last ones unless the end has miscounted there."""
    waiting: tuple[Rise, ...]
    """The growth of each line at this end."""
    arrived: Passage
    """Messages sent by the sender, or delivered to the receiver."""
    consumed: Passage
    """Messages that the receiver has consumed."""
    returned: tuple[int, ...]
    """Amounts that the sender got back, or that the receiver owes for consumed messages."""
    uncounted: int
    """Number of events without counters: the ledger cannot be checked there."""

    def then(self, other: "Summary") -> "Summary":
        """These events, then those of the part that follows."""
        return Summary(
            channel=self.channel,
            end=self.end,
            events=self.events + other.events,
            first_sequence=self.first_sequence,
            last_sequence=other.last_sequence,
            first=self.first,
            second=self.second if self.second is not None else other.first,
            last_counters=other.last_counters,
            last_due=other.last_due,
            waiting=tuple(rise.then(more) for rise, more in zip(self.waiting, other.waiting, strict=True)),
            arrived=self.arrived.then(other.arrived),
            consumed=self.consumed.then(other.consumed),
            returned=tuple(map(add, self.returned, other.returned)),
            uncounted=self.uncounted + other.uncounted,
        )


@dataclass(slots=True)
class Part:
    """The result for one part."""

    summaries: list[Summary]
    violations: list[Violation]
    untold: int = 0
    """Violations beyond ``MOST_VIOLATIONS``."""


def look_at(table: pa.Table, laws: Laws, limits: Mapping[str, Limits], *, source: str) -> Part:
    """Examine events with the columns of a trace.

    Raises:
        TraceUnreadableError: the table is no trace.
    """
    part = Part([], [])
    for events in events_of(table, laws.table, limits, source=source):
        gaps = _gaps(events)
        before = _before_each(laws, events, gaps)
        due = due_counters(laws, events, before.counters)
        found = broken(laws, events, before, due)
        found[Clause.SEQUENCE] = gaps
        for clause, marks in found.items():
            _tell(part, laws, events, before, clause, marks)
        part.summaries += _summaries_of(laws, events, before, due)
    return part


def _tell(part: Part, laws: Laws, events: Events, before: Before, clause: str, marks: Marks) -> None:
    if not marks.any():
        return
    places = np.flatnonzero(marks)
    told = places[: MOST_VIOLATIONS - len(part.violations)].tolist()
    part.violations += [violation_at(laws, events, place, clause, before) for place in told]
    part.untold += len(places) - len(told)


def _before_each(laws: Laws, events: Events, gaps: Marks) -> Before:
    """An end's counters before its events, where the part itself shows them."""
    starts = events.starts
    before, known = shifted(events.counters), np.roll(events.has_counters, 1)
    # The counters before the part are unknown here, except before the very first event of an end.
    if laws.counters:
        before[:, starts] = initial_counters(laws, events)
    known[starts] = (events.sequence[starts] == 1) & bool(laws.counters)
    # After missing events the counters are unknown as well: the gap is one violation, not two.
    continues = ~gaps
    known &= continues
    continues[starts] = False
    return Before(before, known, continues)


def _gaps(events: Events) -> Marks:
    gaps = np.empty(len(events), dtype=np.bool_)
    np.not_equal(events.sequence[1:], events.sequence[:-1] + 1, out=gaps[1:])
    gaps[events.starts] = False
    return gaps


def violation_at(
    laws: Laws, events: Events, index: int, clause: str, before: Before | None = None, reason: str = ""
) -> Violation:
    """The violation of a clause by this event."""
    known = None
    if before is not None and before.known[index]:
        known = numbers_at(before.counters, index)
    if not reason and clause == Clause.SEQUENCE:
        reason = f"event {int(events.sequence[index])} follows event {int(events.sequence[index - 1])}"
    return Violation(
        channel=events.channel_of(index),
        end=events.end,
        sequence=int(events.sequence[index]),
        clause=clause,
        action=events.action_of(index),
        arguments=events.arguments_of(index),
        before=known,
        after=events.counters_of(index),
        reason=reason or laws.words_of(clause),
    )


def _summaries_of(laws: Laws, events: Events, before: Before, due: Integers) -> list[Summary]:
    """The summaries of one end's events in one part, channel by channel; ``due`` are the ``due_counters``."""
    firsts, lasts = events.starts.tolist(), events.lasts.tolist()
    lines = [line for line in laws.lines if line.end == events.end]
    waiting = list(zip(*(_rises(steps_of(events, line.steps), events) for line in lines), strict=True))
    tokens = tokens_of(laws, events)
    arrived, consumed = (_passages(events, tokens, places_of(laws, events, moment)) for moment in _MOMENTS)
    returned = _returned(laws, events)
    uncounted = _uncounted(events)
    return [
        Summary(
            channel=channel,
            end=events.end,
            events=last + 1 - first,
            first_sequence=int(events.sequence[first]),
            last_sequence=int(events.sequence[last]),
            first=_told(events, first),
            second=_told(events, first + 1) if first < last else None,
            last_counters=events.counters_of(last),
            last_due=numbers_at(due if before.known[last] else events.counters, last),
            waiting=waiting[number] if waiting else (),
            arrived=arrived[number],
            consumed=consumed[number],
            returned=returned[number],
            uncounted=uncounted[number],
        )
        for number, (channel, first, last) in enumerate(zip(events.channels, firsts, lasts, strict=True))
    ]


def _told(events: Events, index: int) -> Told:
    arguments = tuple(int(column[index]) for column in events.arguments.values())
    return Told(int(events.sequence[index]), int(events.action[index]), arguments, events.counters_of(index))


def _rises(steps: Integers, events: Events) -> list[Rise]:
    heights = np.cumsum(steps)
    reached = heights.take(events.lasts)
    began = np.concatenate([[0], reached[:-1]])
    lowest = np.minimum(np.minimum.reduceat(heights, events.starts) - began, 0)
    return [Rise(*rise) for rise in zip((reached - began).tolist(), lowest.tolist(), strict=True)]


def returns_at(laws: Laws, events: Events) -> Integers:
    """Amounts that the sender gets back, or the receiver owes, at each event; a row for each name."""
    if laws.returns is None:
        return np.zeros((0, len(events)), dtype=np.int64)
    told = laws.returns.came if events.end == "sender" else laws.returns.owed
    return np.stack(
        [
            steps_of(events, {action: of_action[number] for action, of_action in told.items()})
            for number in range(len(laws.returns.names))
        ]
    )


def _returned(laws: Laws, events: Events) -> list[tuple[int, ...]]:
    # Every channel has events, so no sum is empty.
    sums = np.add.reduceat(returns_at(laws, events), events.starts, axis=1)
    return [tuple(of_channel) for of_channel in sums.T.tolist()]


def _uncounted(events: Events) -> list[int]:
    if events.has_counters.all():
        return [0] * len(events.channels)
    counts: list[int] = np.add.reduceat((~events.has_counters).astype(np.int64), events.starts).tolist()
    return counts


def _passages(events: Events, tokens: Integers, places: Codes) -> list[Passage]:
    """The passages of the messages at these places, channel by channel."""
    return _passages_of(tokens.take(places), _borders(places, events))


def _borders(places: Codes, events: Events) -> Codes:
    """The borders between channels as indices into ``places``, from 0 to their number."""
    return np.searchsorted(places, events.borders)


def _sums(numbers: npt.NDArray[_Whole], borders: Codes) -> npt.NDArray[_Whole]:
    """The sum of the numbers from each border to the next, modulo 2^64."""
    sums = np.zeros(len(borders) - 1, dtype=numbers.dtype)
    is_some = np.diff(borders) > 0
    if is_some.any():
        sums[is_some] = np.add.reduceat(numbers, borders[:-1][is_some])
    return sums


def places_of(laws: Laws, events: Events, moment: Moment) -> Codes:
    """The places of the events at which messages pass the end at this moment."""
    order, is_sender = laws.order, events.end == "sender"
    if order is None or (is_sender and moment == "consumed"):
        return np.zeros(0, dtype=np.intp)
    arrived = order.sent if is_sender else order.delivered
    return np.flatnonzero(events.is_any(arrived if moment == "arrived" else order.consumed))


def tokens_of(laws: Laws, events: Events) -> Integers:
    """A number for the message of each event, made from its kind and rows."""
    order = laws.order
    if order is None:
        return np.zeros(len(events), dtype=np.int64)
    rows = np.zeros(len(events), dtype=np.int64) if order.rows is None else events.arguments[order.rows]
    tokens: Integers = rows << 2
    if order.kind_of is not None:
        tokens += order.kind_of(events)
    return tokens


def passage_of(tokens: Integers) -> Passage:
    """The passage of messages, given their tokens."""
    (passage,) = _passages_of(tokens, np.array([0, len(tokens)]))
    return passage


def _passages_of(tokens: Integers, borders: Codes) -> list[Passage]:
    """The passages of messages, given their tokens, from each border to the next."""
    if not tokens.size:
        return [Passage()] * (len(borders) - 1)
    messages = np.diff(borders)
    factors = _powers(_room_for(int(messages.max(initial=0))))
    if len(messages) == 1:
        factors = factors[: len(tokens)]
    else:
        factors = factors.take(np.arange(len(tokens)) - np.repeat(borders[:-1], messages))
    mixed = _mixed(tokens.view(np.uint64))
    mixed *= factors
    fingerprints = _sums(mixed, borders)
    rows = _sums(tokens >> 2, borders)
    return [Passage(*passage) for passage in zip(messages.tolist(), rows.tolist(), fingerprints.tolist(), strict=True)]


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
