"""A run that is long enough to mean something, and what it comes to."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from permitflow.errors import InvalidParametersError, OverspendError
from permitflow.simulation.channel import Channel, Totals, Whereabouts
from permitflow.simulation.setting import Setting

__all__ = [
    "LEAST_CHUNKS",
    "MOST_MESSAGES",
    "Figures",
    "Progress",
    "RunLength",
    "SimulatedRun",
    "Stuck",
    "run_length",
    "simulate",
]

Progress = Callable[[float], None]
"""Told now and then which share of a run is done, from 0 to 1."""

LEAST_CHUNKS = 2_000
LEAST_WINDOWS = 10
# A few minutes.
MOST_MESSAGES = 20_000_000
_EVENTS_PER_REPORT = 8_192
# Before the first back-pressure a window has to fill; where that takes for ever, so many windows are enough.
_MOST_WINDOWS_TO_FILL = 20


@dataclass(frozen=True)
class RunLength:
    """How much is consumed, in rows: first to get into the swing, then to measure."""

    warm_up_rows: int
    measured_rows: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured after the warm-up."""

    seconds: float
    rows: int
    chunks: int
    throughput: float
    """Rows consumed a second."""
    utilisation: float
    """Throughput as a share of what the slowest of producer, link and consumer can do; 0 if nothing is slow."""
    link_utilisation: float | None
    """Throughput as a share of what fits onto the wire; None if there is no limit."""
    back_pressure: float
    """Share of the time during which the producer waited for permits."""
    whereabouts: Whereabouts
    """Mean number of row permits at each place."""
    latency_p50_seconds: float
    """From the offer of a chunk until it was consumed: half of them took at most this."""
    latency_p99_seconds: float
    grants_per_row: float
    """Messages that return permits, for each row."""


@dataclass(frozen=True, kw_only=True)
class Stuck:
    """A state after which nothing will ever happen."""

    seconds: float
    chunks: int
    """Consumed before."""
    waiting_cost: int
    """Row permits that the oldest waiting chunk needs."""
    whereabouts: Whereabouts


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    """How a run went: it has figures, or it got stuck, or the receiver refused what it got."""

    setting: Setting
    seed: int
    length: RunLength
    peak_rows: int
    """The most rows that were ever in the channel at once."""
    figures: Figures | None = None
    stuck: Stuck | None = None
    refusal: OverspendError | None = None

    @property
    def verdict(self) -> Literal["flows", "deadlock", "overspend"]:
        """In a word."""
        if self.stuck is not None:
            return "deadlock"
        return "flows" if self.refusal is None else "overspend"


def run_length(setting: Setting, *, least_chunks: int = LEAST_CHUNKS, least_windows: int = LEAST_WINDOWS) -> RunLength:
    """How long a run must be for its figures to be those of a steady state.

    The warm-up: two windows, and until the window has filled up if it ever does.  Measured are whole windows, because
    a channel that its window holds back repeats itself after each.
    """
    window, mean = setting.sender.row_permits, setting.chunks.mean
    behind = min(setting.link_rate, setting.consumer_rate)
    faster = setting.producer_rate - behind if behind < math.inf else 0.0
    until_full = window if faster == math.inf else window * behind / faster if faster > 0 else 0.0
    warm_up = max(2 * window, min(until_full, _MOST_WINDOWS_TO_FILL * window), 50 * mean)
    cost = setting.constant_cost
    period = window - window % cost if cost is not None and cost <= window else window
    windows = max(least_windows, math.ceil(least_chunks * mean / period))
    return RunLength(math.ceil(warm_up), windows * period)


def simulate(
    setting: Setting, *, seed: int = 0, length: RunLength | None = None, on_progress: Progress | None = None
) -> SimulatedRun:
    """Run a channel until its figures mean something.

    Raises:
        InvalidParametersError: nothing in the setting takes any time, or the run would take too much of ours.
    """
    if not setting.takes_time:
        raise InvalidParametersError(
            name="producer_rate",
            value=setting.producer_rate,
            rule="or another rate must be finite where there is no round-trip time: else nothing takes time",
        )
    length = length or run_length(setting)
    _require_feasible(setting, length)
    channel = Channel(setting, Random(seed))
    figures = refusal = None
    try:
        figures = _measured(channel, length, on_progress)
    except OverspendError as error:
        refusal = error
    return SimulatedRun(
        setting=setting,
        seed=seed,
        length=length,
        peak_rows=channel.peak_rows,
        figures=figures,
        stuck=_stuck(channel) if figures is None and refusal is None else None,
        refusal=refusal,
    )


def _require_feasible(setting: Setting, length: RunLength) -> None:
    rows_of_message = min(max(setting.chunks.mean, 1.0), setting.sender.max_chunk_cost)
    messages = (length.warm_up_rows + length.measured_rows) / rows_of_message
    if messages > MOST_MESSAGES:
        rule = f"must be smaller, or messages larger: a meaningful run has {messages:,.0f} of them, at most "
        raise InvalidParametersError(
            name="row_permits", value=setting.sender.row_permits, rule=f"{rule}{MOST_MESSAGES:,} are simulated"
        )


def _measured(channel: Channel, length: RunLength, on_progress: Progress | None) -> Figures | None:
    """None if the channel gets stuck before the end."""
    end = length.warm_up_rows + length.measured_rows

    def report() -> None:
        if on_progress is not None:
            on_progress(min(1.0, channel.rows_consumed / end))

    if not _consume(channel, length.warm_up_rows, report):
        return None
    before = channel.totals()
    if not _consume(channel, end, report):
        return None
    after = channel.totals()
    return _figures(channel.setting, before, after, channel.latencies[before.chunks : after.chunks])


def _consume(channel: Channel, rows: int, report: Callable[[], None]) -> bool:
    """Let things happen until so many rows were consumed; False if they never will be."""
    while True:
        for _ in range(_EVENTS_PER_REPORT):
            if not channel.step():
                return False
            if channel.rows_consumed >= rows:
                return True
        report()


def _figures(setting: Setting, before: Totals, after: Totals, latencies: Sequence[float]) -> Figures:
    seconds, rows = after.seconds - before.seconds, after.rows - before.rows
    permit_seconds = zip(before.permit_seconds, after.permit_seconds, strict=True)
    throughput = rows / seconds
    ordered = sorted(latencies)
    return Figures(
        seconds=seconds,
        rows=rows,
        chunks=after.chunks - before.chunks,
        throughput=throughput,
        utilisation=throughput / setting.bottleneck_rate,
        link_utilisation=None if math.isinf(setting.link_rate) else throughput / setting.link_rate,
        back_pressure=(after.blocked_seconds - before.blocked_seconds) / seconds,
        whereabouts=Whereabouts(*((late - early) / seconds for early, late in permit_seconds)),
        latency_p50_seconds=_quantile(ordered, 0.5),
        latency_p99_seconds=_quantile(ordered, 0.99),
        grants_per_row=(after.grants - before.grants) / rows,
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that is at least as large as this share of all."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def _stuck(channel: Channel) -> Stuck:
    return Stuck(
        seconds=channel.now,
        chunks=channel.totals().chunks,
        waiting_cost=channel.sender.waiting_chunks[0].cost,
        whereabouts=channel.whereabouts,
    )
