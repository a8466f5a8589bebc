"""What has to be known of a part of an end's events, so that parts can be put together again.

A monoid: summaries of neighbouring parts combine into that of both, in whatever grouping.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from permitflow.audit.columns import ACTIONS, Columns, Integers
from permitflow.audit.laws import Before, due_counters, returned_by, waiting_steps
from permitflow.protocol.recording import Counters, End

__all__ = ["Passage", "Rise", "Summary", "passage_of", "summaries_of", "tokens_of"]

# Odd, so that no factor is lost when numbers wrap at 64 bits.
_RADIX = np.uint64(0x9E3779B97F4A7C15)
_SENDS = [ACTIONS.index(name) for name in ("SendChunk", "SendBarrier", "SendWatermark")]
_DELIVER, _CONSUME = ACTIONS.index("Deliver"), ACTIONS.index("Consume")


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


def summaries_of(events: Columns, before: Before) -> list[Summary]:
    """A summary for each end of each channel in this part."""
    bounds = [*events.starts().tolist(), len(events)]
    steps, returned, tokens = waiting_steps(events), returned_by(events), tokens_of(events)
    due = np.where(before.known[:, None], due_counters(events, before.counters), events.counters)
    return [
        _summary(events, slice(begin, end), due[end - 1].tolist(), steps, returned, tokens)
        for begin, end in pairwise(bounds)
    ]


def _summary(
    events: Columns, part: slice, due: list[int], steps: Integers, returned: Integers, tokens: Integers
) -> Summary:
    first, last = part.start, part.stop - 1
    rows, barriers, watermarks = returned[part].sum(axis=0).tolist()
    of_first, (one, two, three) = events.counters_of(first), events.permits[first].tolist()
    arriving = np.isin(events.action[part], (*_SENDS, _DELIVER))
    return Summary(
        channel=events.channels[int(events.channel[first])],
        end=events.end_of(first),
        events=part.stop - part.start,
        first_sequence=int(events.sequence[first]),
        last_sequence=int(events.sequence[last]),
        first=(int(events.action[first]), int(events.rows[first]), (one, two, three), of_first),
        last_counters=events.counters_of(last),
        last_due=(due[0], due[1], due[2]),
        chunks_waiting=_rise(steps[0, part]),
        barriers_waiting=_rise(steps[1, part]),
        arrived=passage_of(tokens[part][arriving]),
        consumed=passage_of(tokens[part][events.action[part] == _CONSUME]),
        returned=(rows, barriers, watermarks),
        uncounted=int((~events.has_counters[part]).sum()),
    )


def tokens_of(events: Columns) -> Integers:
    """A number for each message, by its kind and rows."""
    kind = np.where(events.permits[:, 2] != 0, 2, np.where(events.permits[:, 1] != 0, 1, 0))
    tokens: Integers = events.rows * 4 + kind
    return tokens


def passage_of(tokens: Integers) -> Passage:
    """Of messages by their numbers."""
    mixed = _mixed(tokens.astype(np.uint64))
    powers = np.cumprod(np.concatenate(([np.uint64(1)], np.full(max(len(tokens) - 1, 0), _RADIX))), dtype=np.uint64)
    fingerprint = (mixed * powers[: len(tokens)][::-1]).sum(dtype=np.uint64)
    return Passage(len(tokens), int((tokens // 4).sum()), int(fingerprint))


def _mixed(tokens: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Numbers that look random, so that small differences do not cancel out.  (The finaliser of SplitMix64.)"""
    tokens = tokens + np.uint64(0x9E3779B97F4A7C15)
    tokens = (tokens ^ (tokens >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    tokens = (tokens ^ (tokens >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return tokens ^ (tokens >> np.uint64(31))


def _rise(steps: Integers) -> Rise:
    heights = np.cumsum(steps)
    return Rise(int(heights[-1]), min(0, int(heights.min()))) if len(steps) else Rise()
