"""What flows through each channel of an exchange, as people want to see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from permitflow.exchange.statistics import BridgeStatistics, Direction

__all__ = ["Kept", "Traffic", "traffic_between"]

_OVER = ("closed", "failed")


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The rows that a channel keeps, at one moment."""

    next_row: int
    """The number of the next row that will come."""

    rows: int
    """Rows that some consumer has not acknowledged."""

    acknowledged: Mapping[str, int]
    """By each consumer: the first row that it still needs."""

    staged_rows: int
    """Rows that nobody sees yet."""

    published_rows: int
    """Rows that are published, and wait for room in the channel."""

    @property
    def behind(self) -> dict[str, int]:
        """How many rows each consumer has still to acknowledge."""
        return {name: self.next_row - row for name, row in self.acknowledged.items()}


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """One channel, at one moment."""

    channel: str
    state: str
    reason: str
    """Why it is over; else empty."""

    producers: int
    consumers: int

    rows_in: int
    """Rows that producers have put into the channel."""

    rows_out: int
    """Rows that have left for the consumer; if they are kept: that all consumers have acknowledged."""

    rows_per_second: float
    """Rows out, since the last look."""

    in_flight: int
    """Row permits that are away from the channel's sender now."""

    bound: int
    """All row permits: ``in_flight`` is never above it."""

    peak_in_flight: int
    """The most that ``in_flight`` ever was."""

    waited_inside: float
    """The share of the time in which rows from producers waited for permits of the channel."""

    waited_for_consumer: float
    """The share of the time in which rows for the consumer waited for its permits; 0 without a consumer."""

    kept: Kept | None
    """None: rows are gone once they were read."""

    @property
    def is_untouched(self) -> bool:
        """Has nobody come yet?"""
        return self.state == "waiting" and not (self.producers or self.consumers or self.rows_in)

    @property
    def facts(self) -> tuple[object, ...]:
        """What only changes when something happens."""
        return self.state, self.producers, self.consumers, self.rows_in, self.rows_out, self.kept


def traffic_between(
    before: Sequence[BridgeStatistics], now: Sequence[BridgeStatistics], seconds: float
) -> list[Traffic]:
    """What every channel does now; the rate is that since ``before``, which was so many seconds ago."""
    earlier = {bridge.name: bridge.numbers.consumed_rows for bridge in before}
    return [_traffic(bridge, earlier.get(bridge.name, 0), seconds) for bridge in now]


def _traffic(bridge: BridgeStatistics, rows_out_before: int, seconds: float) -> Traffic:
    numbers = bridge.numbers
    consumers = [stream for stream in bridge.streams if stream.direction is Direction.GET]
    return Traffic(
        channel=bridge.name,
        state=bridge.state.value,
        reason=bridge.reason,
        producers=bridge.producers,
        consumers=sum(stream.state not in _OVER for stream in consumers),
        rows_in=numbers.sent_rows,
        rows_out=numbers.consumed_rows,
        rows_per_second=(numbers.consumed_rows - rows_out_before) / seconds if seconds > 0 else 0.0,
        in_flight=numbers.parameters.row_permits - numbers.row_permits_here,
        bound=numbers.parameters.row_permits,
        peak_in_flight=numbers.peak_permits_outstanding,
        waited_inside=numbers.back_pressure_rate,
        waited_for_consumer=consumers[-1].numbers.back_pressure_rate if consumers else 0.0,
        kept=_kept(bridge),
    )


def _kept(bridge: BridgeStatistics) -> Kept | None:
    if bridge.replay is None:
        return None
    return Kept(
        next_row=bridge.replay.next_row,
        rows=bridge.replay.kept_rows,
        acknowledged=dict(bridge.replay.acknowledged),
        staged_rows=0 if bridge.staging is None else bridge.staging.staged_rows,
        published_rows=0 if bridge.staging is None else bridge.staging.published_rows,
    )
