"""What flows through an exchange, in numbers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from permitflow.channels.statistics import ChannelStatistics
from permitflow.protocol.compression import Codec
from permitflow.protocol.traffic import ChannelTraffic, KeptRows

__all__ = [
    "BridgeState",
    "BridgeStatistics",
    "Direction",
    "ReplayStatistics",
    "StagingStatistics",
    "StreamStatistics",
    "traffic_of",
]


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
    """The address of the other end."""
    direction: Direction
    state: str
    """How far it has come: open, ended, closed, failed."""
    numbers: ChannelStatistics
    """As this end counts."""


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
    """The most rows that were ever kept at once, since the exchange started; never above ``window_rows``."""

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
    """Not published: no consumer sees them."""
    published_rows: int
    """Published, and beyond the window of the channel: consumers are slow."""
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


_OVER = ("closed", "failed")


def traffic_of(bridge: BridgeStatistics) -> ChannelTraffic:
    """The counts of one channel."""
    numbers = bridge.numbers
    gets = [stream for stream in bridge.streams if stream.direction is Direction.GET]
    reading = [stream.numbers for stream in gets if stream.state not in _OVER]
    return ChannelTraffic(
        channel=bridge.name,
        state=bridge.state.value,
        reason=bridge.reason,
        window_rows=numbers.window_rows,
        producers=bridge.producers,
        consumers=len(reading),
        rows_in=numbers.sent_rows,
        rows_out=numbers.consumed_rows,
        rows_held=numbers.rows_held,
        peak_rows_held=numbers.peak_rows_held,
        rows_with_consumers=sum(each.rows_held for each in reading),
        waiting_seconds=numbers.waiting_seconds,
        consumer_waiting_seconds=sum(stream.numbers.waiting_seconds for stream in gets),
        compressed_streams=_compressed(bridge),
        kept=_kept(bridge),
        gauges=numbers.gauges,
    )


def _compressed(bridge: BridgeStatistics) -> dict[str, int]:
    found = Counter(stream.numbers.compression for stream in bridge.streams if stream.state not in _OVER)
    return {codec.value: found[codec.value] for codec in Codec if found[codec.value]}


def _kept(bridge: BridgeStatistics) -> KeptRows | None:
    if bridge.replay is None:
        return None
    return KeptRows(
        next_row=bridge.replay.next_row,
        acknowledged=bridge.replay.acknowledged,
        staged_rows=bridge.staging.staged_rows if bridge.staging else 0,
        published_rows=bridge.staging.published_rows if bridge.staging else 0,
    )
