"""What has to be known of a part of an end's events, so that parts can be put together again.

A monoid: summaries of neighbouring parts combine into that of both, in whatever grouping.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from permitflow.audit.columns import ACTIONS, CODE, Events, Integers
from permitflow.audit.laws import Before, due_counters, kinds_of, returned_by, waiting_steps
from permitflow.protocol.recording import Counters, End

__all__ = ["Passage", "Rise", "Summary", "passage_of", "summary_of", "tokens_of"]

# Odd, so that no factor is lost when numbers wrap at 64 bits.
_RADIX = np.uint64(0x9E3779B97F4A7C15)
_ARRIVES = np.array([name == "Deliver" or name.startswith("Send") for name in ACTIONS])


@dataclass(frozen=True, slots=True)
class Rise:
    """Steps up and down: where they lead, and how low they come on the way (at most 0)."""

    total: int = 0
    lowest: int = 0

    def then(self, other: "Rise") -> "Rise":
        """These steps, then others."""
        return Rise(self.total + other.total, min(self.lowest, self.total + other.lowest))


@dataclass(frozen=True, slots=True)
class Passage:
    """Messages that passed, in order: how many, and a fingerprint of their kinds and rows."""

    messages: int = 0
    rows: int = 0
    fingerprint: int = 0

    def then(self, other: "Passage") -> "Passage":
        """These messages, then others."""
        power = pow(int(_RADIX), other.messages, 2**64)
        fingerprint = (self.fingerprint * power + other.fingerprint) % 2**64
        return Passage(self.messages + other.messages, self.rows + other.rows, fingerprint)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Neighbouring events of one end of a channel."""

    channel: str
    end: End
    events: int
    first_sequence: int
    last_sequence: int
    first: tuple[int, int, tuple[int, int, int], Counters | None]
    """The first event: action's code, rows, permits, counters."""

    last_counters: Counters | None
    last_due: Counters
    """What the last counters should have been by those before; the same, unless the end has miscounted there."""

    chunks_waiting: Rise
    barriers_waiting: Rise
    arrived: Passage
    """Messages that the sender has sent, or that were delivered to the receiver."""

    consumed: Passage
    """Of a receiver."""

    returned: tuple[int, int, int]
    """Permits that came back to the sender, or those of messages that the receiver has consumed."""

    uncounted: int
    """Events without counters: the books cannot be checked there."""

    def then(self, other: "Summary") -> "Summary":
        """These events, then those of the part that follows."""
        rows, barriers, watermarks = self.returned
        more_rows, more_barriers, more_watermarks = other.returned
        return Summary(
            channel=self.channel,
            end=self.end,
            events=self.events + other.events,
            first_sequence=self.first_sequence,
            last_sequence=other.last_sequence,
            first=self.first,
            last_counters=other.last_counters,
            last_due=other.last_due,
            chunks_waiting=self.chunks_waiting.then(other.chunks_waiting),
            barriers_waiting=self.barriers_waiting.then(other.barriers_waiting),
            arrived=self.arrived.then(other.arrived),
            consumed=self.consumed.then(other.consumed),
            returned=(rows + more_rows, barriers + more_barriers, watermarks + more_watermarks),
            uncounted=self.uncounted + other.uncounted,
        )


def summary_of(events: Events, before: Before) -> Summary:
    """Of the events of one end in one part."""
    last = len(events) - 1
    due = due_counters(events, before.counters) if before.known[last] else events.counters
    rows, barriers, watermarks = (int(column.sum()) for column in returned_by(events))
    chunks, waiting_barriers = waiting_steps(events)
    tokens = tokens_of(events)
    return Summary(
        channel=events.channel,
        end=events.end,
        events=len(events),
        first_sequence=int(events.sequence[0]),
        last_sequence=int(events.sequence[last]),
        first=(int(events.action[0]), int(events.rows[0]), events.permits_of(0), events.counters_of(0)),
        last_counters=events.counters_of(last),
        last_due=(int(due[0][last]), int(due[1][last]), int(due[2][last])),
        chunks_waiting=_rise(chunks),
        barriers_waiting=_rise(waiting_barriers),
        arrived=passage_of(tokens[_ARRIVES[events.action]]),
        consumed=passage_of(tokens[events.action == CODE["Consume"]]),
        returned=(rows, barriers, watermarks),
        uncounted=len(events) - int(events.has_counters.sum()),
    )


def tokens_of(events: Events) -> Integers:
    """A number for each message, by its kind and rows."""
    tokens: Integers = events.rows * 4 + kinds_of(events)
    return tokens


def passage_of(tokens: Integers) -> Passage:
    """Of messages by their numbers."""
    count = len(tokens)
    fingerprint = (_mixed(tokens.astype(np.uint64)) * _powers(_room_for(count))[:count][::-1]).sum(dtype=np.uint64)
    return Passage(count, int((tokens // 4).sum()), int(fingerprint))


def _room_for(count: int) -> int:
    """The next power of two: few different tables are ever made."""
    return 1 << max(count - 1, 0).bit_length()


@cache
def _powers(count: int) -> npt.NDArray[np.uint64]:
    """Of the radix, from 0 upwards."""
    factors = np.full(count, _RADIX)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _mixed(tokens: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Numbers that look random, so that small differences do not cancel out.  (The finaliser of SplitMix64.)"""
    tokens = tokens + np.uint64(0x9E3779B97F4A7C15)
    tokens = (tokens ^ (tokens >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    tokens = (tokens ^ (tokens >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return tokens ^ (tokens >> np.uint64(31))


def _rise(steps: Integers) -> Rise:
    heights = np.cumsum(steps)
    return Rise(int(heights[-1]), min(0, int(heights.min()))) if len(steps) else Rise()
