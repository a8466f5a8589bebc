"""The statistics of an exchange."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from permitflow.channels.statistics import ChannelStatistics
from permitflow.exchange.books.bridge import BridgeState
from permitflow.stream.compression import Codec
from permitflow.stream.traffic import ChannelTraffic, KeptRows


class Direction(StrEnum):
    """The direction of a stream's data, seen from the exchange."""

    PUT = "put"
    """From a producer into the exchange."""
    GET = "get"
    """From the exchange to a consumer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamStatistics:
    """A snapshot of one producer's or consumer's stream."""

    stream: str
    """The stream's name, which both ends know."""
    peer: str
    """The address of the other end."""
    direction: Direction
    state: str
    """The stream's state: open, ended, closed, failed."""
    numbers: ChannelStatistics
    """The counts of the exchange's end."""
    is_suspended: bool = False
    """Has it lost its connection, and waits for another one?"""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagingStatistics:
    """A snapshot of a channel's staging area."""

    limit_rows: int
    """The most rows in the area at once."""
    staged_rows: int
    """Unpublished rows, which no consumer sees."""
    published_rows: int
    """Published rows beyond the channel's window, because consumers are slow."""
    attempts: int
    """Attempts that have, or may have, unpublished rows."""
    open_attempts: int
    """Attempts whose producers are putting now."""
    waiting_attempts: int
    """Attempts whose producers wait for room now."""
    waiting_seconds: float
    """The time in which at least one producer waited for room, since the exchange started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BridgeStatistics:
    """A snapshot of one channel of an exchange."""

    name: str
    state: BridgeState
    reason: str
    """The reason why it is spent or broken; else empty."""
    numbers: ChannelStatistics
    """The counts of the channel inside the exchange, between its producers and its consumer.

    For a channel that keeps its rows, since the exchange started: sent rows were taken over from producers,
    consumed rows acknowledged by all consumers."""
    producers: int
    """The number of streams that put now."""
    streams: tuple[StreamStatistics, ...]
    """The open streams, and the latest finished ones."""
    resumes: int = 0
    """How often its streams have gone on over another connection."""
    suspended_streams: int = 0
    """Streams that have lost their connection, and wait for another one."""
    purged_rows: int = 0
    """Rows that an administrator has dropped; they are among the consumed ones."""
    expired_rows: int = 0
    """Rows that have expired before all consumers had acknowledged them; they are among the consumed ones."""
    replay: KeptRows | None = None
    """For a channel that keeps its rows; else None."""
    staging: StagingStatistics | None = None
    """For a channel that keeps its rows; else None."""


_OVER = ("closed", "failed")


def traffic_of(bridge: BridgeStatistics) -> ChannelTraffic:
    """The counts of one channel."""
    numbers = bridge.numbers
    gets = [stream for stream in bridge.streams if stream.direction is Direction.GET]
    reading = [stream.numbers for stream in gets if stream.state not in _OVER]
    # All rows of a spent channel were consumed: nobody returns its last permits, and nothing takes their room.
    is_spent = bridge.state is BridgeState.SPENT
    return ChannelTraffic(
        channel=bridge.name,
        state=bridge.state.value,
        reason=bridge.reason,
        window_rows=numbers.window_rows,
        producers=bridge.producers,
        consumers=len(reading),
        rows_in=numbers.sent_rows,
        rows_out=numbers.consumed_rows,
        rows_held=0 if is_spent else numbers.rows_held,
        peak_rows_held=numbers.peak_rows_held,
        rows_with_consumers=sum(each.rows_held for each in reading),
        byte_window=numbers.byte_window,
        bytes_held=0 if is_spent else numbers.bytes_held,
        peak_bytes_held=numbers.peak_bytes_held,
        bytes_with_consumers=sum(each.bytes_held for each in reading),
        waiting_seconds=numbers.waiting_seconds,
        consumer_waiting_seconds=sum(stream.numbers.waiting_seconds for stream in gets),
        consumer_stopped_seconds=sum(stream.numbers.stopped_seconds for stream in gets),
        resumes=bridge.resumes,
        suspended_streams=bridge.suspended_streams,
        purged_rows=bridge.purged_rows,
        expired_rows=bridge.expired_rows,
        compressed_streams=_compressed(bridge),
        kept=bridge.replay,
        gauges=numbers.gauges,
        consumer_gauges=_added_up(each.gauges for each in reading),
    )


def _added_up(gauges: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in gauges:
        found.update(each)
    return dict(found)


def _compressed(bridge: BridgeStatistics) -> dict[str, int]:
    found = Counter(stream.numbers.compression for stream in bridge.streams if stream.state not in _OVER)
    return {codec.value: found[codec.value] for codec in Codec if found[codec.value]}
