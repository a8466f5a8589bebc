"""What flows through an exchange, in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from permitflow.channels.statistics import ChannelStatistics

__all__ = ["BridgeState", "BridgeStatistics", "Direction", "ReplayStatistics", "StagingStatistics", "StreamStatistics"]


class Direction(StrEnum):
    """Which way data go, seen from the exchange."""

    PUT = "put"
    """From a producer into the exchange."""
    GET = "get"
    """From the exchange to a consumer."""


class BridgeState(StrEnum):
    """What has become of a channel."""

    WAITING = "waiting"
    """Its schema is not known yet: no producer has come."""
    OPEN = "open"
    """Producers may put."""
    ENDED = "ended"
    """Its producers have ended it; some consumer has not come to the end yet."""
    SPENT = "spent"
    """It was read to its end; if it keeps its rows: all of them were acknowledged by all consumers."""
    BROKEN = "broken"
    """A producer or the consumer left it halfway."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamStatistics:
    """A snapshot of one producer's or consumer's stream."""

    stream: str
    """Its name, which both of its ends know."""
    peer: str
    """Who is at the other end: an address."""
    direction: Direction
    state: str
    """How far it has come: open, ended, closed, failed."""
    numbers: ChannelStatistics
    """As this end counts; the parameters are those that were agreed on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayStatistics:
    """A snapshot of the rows that a channel keeps."""

    next_row: int
    """The number of the next row that will come."""
    first_kept_row: int
    """The first row that some consumer has not acknowledged."""
    acknowledged: Mapping[str, int]
    """By each consumer: the first row that it still needs."""
    peak_kept_rows: int
    """The most rows that were ever kept at once, since the exchange started; never above ``row_permits``."""

    @property
    def kept_rows(self) -> int:
        """Rows that are kept now."""
        return self.next_row - self.first_kept_row


@dataclass(frozen=True, kw_only=True, slots=True)
class StagingStatistics:
    """A snapshot of what is staged for a channel."""

    limit_rows: int
    """The most rows that are here at once."""
    staged_rows: int
    """Not published: nobody sees them."""
    published_rows: int
    """Published, and beyond the row permits of the channel: consumers are slow."""
    attempts: int
    """That have rows here which are not published, or may have."""
    open_attempts: int
    """Those of them whose producers are putting now."""
    waiting_attempts: int
    """Those of them whose producers wait for room now."""
    waiting_seconds: float
    """The time in which some producer waited for room, since the exchange started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BridgeStatistics:
    """A snapshot of one channel of an exchange."""

    name: str
    state: BridgeState
    reason: str
    """Why it is spent or broken; else empty."""
    numbers: ChannelStatistics
    """Of the channel inside the exchange, between its producers and its consumer.

    Of a channel that keeps its rows: since the exchange started, taken over from producers (sent) and acknowledged by
    all consumers (consumed)."""
    producers: int
    """Streams that are putting now."""
    streams: tuple[StreamStatistics, ...]
    """Those that are open, and the last of those that are over."""
    replay: ReplayStatistics | None = None
    """Of a channel that keeps its rows."""
    staging: StagingStatistics | None = None
    """Of a channel that keeps its rows."""
