"""What an exchange tells about its channels to those who ask from outside."""

from collections import Counter
from collections.abc import Sequence
from time import monotonic

from permitflow.exchange.registry import Exchange
from permitflow.exchange.statistics import BridgeStatistics, Direction
from permitflow.protocol.compression import Codec
from permitflow.protocol.traffic import ChannelTraffic, KeptRows, Statistics

__all__ = ["statistics_of", "traffic_of"]

_OVER = ("closed", "failed")


def statistics_of(exchange: Exchange, names: Sequence[str] = ()) -> Statistics:
    """Of these channels in this order, or of all.

    Raises:
        UnknownChannelError: there is no such channel.
    """
    return Statistics(monotonic(), tuple(traffic_of(bridge) for bridge in exchange.statistics(names)))


def traffic_of(bridge: BridgeStatistics) -> ChannelTraffic:
    """The counts of one channel."""
    numbers = bridge.numbers
    gets = [stream for stream in bridge.streams if stream.direction is Direction.GET]
    reading = [stream.numbers for stream in gets if stream.state not in _OVER]
    return ChannelTraffic(
        channel=bridge.name,
        state=bridge.state.value,
        reason=bridge.reason,
        row_permits=numbers.parameters.row_permits,
        producers=bridge.producers,
        consumers=len(reading),
        rows_in=numbers.sent_rows,
        rows_out=numbers.consumed_rows,
        rows_held=numbers.parameters.row_permits - numbers.row_permits_here,
        peak_rows_held=numbers.peak_permits_outstanding,
        rows_with_consumers=sum(each.parameters.row_permits - each.row_permits_here for each in reading),
        waiting_seconds=numbers.waiting_seconds,
        consumer_waiting_seconds=sum(stream.numbers.waiting_seconds for stream in gets),
        compressed_streams=_compressed(bridge),
        kept=_kept(bridge),
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
