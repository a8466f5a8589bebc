"""What flows through each channel of an exchange, as ``permitflow serve`` shows it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from permitflow.exchange.statistics import BridgeStatistics, Direction, traffic_of
from permitflow.protocol.traffic import ChannelTraffic

__all__ = ["Traffic", "traffic_between"]


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """One channel, at one moment."""

    counts: ChannelTraffic

    rows_per_second: float
    """Rows out, since the last look."""

    waited_inside: float
    """The share of the time in which rows from producers waited for permits of the channel."""

    waited_for_consumer: float
    """The share of the time in which rows for the consumer waited for its permits; 0 without a consumer."""

    @property
    def is_untouched(self) -> bool:
        """Has nobody come yet?"""
        counts = self.counts
        return counts.state == "waiting" and not (counts.producers or counts.consumers or counts.rows_in)

    @property
    def facts(self) -> tuple[object, ...]:
        """What only changes when something happens."""
        counts = self.counts
        return counts.state, counts.producers, counts.consumers, counts.rows_in, counts.rows_out, counts.kept

    def as_json(self) -> dict[str, object]:
        """All numbers, ready for JSON."""
        counts, kept = self.counts, self.counts.kept
        same = ("channel", "state", "reason", "producers", "consumers", "rows_in", "rows_out")
        return {
            **{name: getattr(counts, name) for name in same},
            "rows_per_second": self.rows_per_second,
            "in_flight": counts.rows_held,
            "bound": counts.row_permits,
            "peak_in_flight": counts.peak_rows_held,
            "waited_inside": self.waited_inside,
            "waited_for_consumer": self.waited_for_consumer,
            "compressed_streams": dict(counts.compressed_streams),
            # Rows are kept for whoever is the last to acknowledge them.
            "kept": None if kept is None else {**asdict(kept), "rows": max(kept.lag_rows.values())},
        }


def traffic_between(
    before: Sequence[BridgeStatistics], now: Sequence[BridgeStatistics], seconds: float
) -> list[Traffic]:
    """What every channel does now; the rate is that since ``before``, which was so many seconds ago."""
    earlier = {bridge.name: bridge.numbers.consumed_rows for bridge in before}
    return [_traffic(bridge, earlier.get(bridge.name, 0), seconds) for bridge in now]


def _traffic(bridge: BridgeStatistics, rows_out_before: int, seconds: float) -> Traffic:
    counts = traffic_of(bridge)
    consumers = [stream for stream in bridge.streams if stream.direction is Direction.GET]
    return Traffic(
        counts=counts,
        rows_per_second=(counts.rows_out - rows_out_before) / seconds if seconds > 0 else 0.0,
        waited_inside=bridge.numbers.back_pressure_rate,
        waited_for_consumer=consumers[-1].numbers.back_pressure_rate if consumers else 0.0,
    )
