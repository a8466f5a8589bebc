"""How ``permitflow serve`` says what flows: a live table, lines of a log, lines of JSON, or nothing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import ClassVar, Self

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from permitflow.errors import printable
from permitflow.exchange.draining import Remainder
from permitflow.exchange.statistics import BridgeStatistics, Direction, traffic_of
from permitflow.protocol.traffic import ChannelTraffic, KeptRows

__all__ = ["JsonLines", "LiveTable", "LogLines", "Report", "Traffic", "traffic_between"]

_BAR_CELLS = 8


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
        """Has no stream come yet?"""
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
            # Rows are kept until the last consumer has acknowledged them.
            "kept": None if kept is None else {**asdict(kept), "rows": max(kept.lag_rows.values())},
        }


def traffic_between(
    before: Sequence[BridgeStatistics], now: Sequence[BridgeStatistics], seconds: float
) -> list[Traffic]:
    """What every channel does now; the rate is that since ``before``, which was so many seconds ago."""
    earlier = {bridge.name: bridge.numbers.consumed_rows for bridge in before}
    found = []
    for bridge in now:
        counts = traffic_of(bridge)
        rows = counts.rows_out - earlier.get(bridge.name, 0)
        consumers = [stream for stream in bridge.streams if stream.direction is Direction.GET]
        traffic = Traffic(
            counts=counts,
            rows_per_second=rows / seconds if seconds > 0 else 0.0,
            waited_inside=bridge.numbers.back_pressure_rate,
            waited_for_consumer=consumers[-1].numbers.back_pressure_rate if consumers else 0.0,
        )
        found.append(traffic)
    return found


class Report:
    """Says the addresses, and nothing else.  A context manager that is told what happens."""

    interval_seconds: ClassVar[float | None] = None
    """How often it is shown what flows; None: never, which spares looking at thousands of channels."""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End."""

    def listening(self, addresses: Sequence[str], channels: Sequence[str]) -> None:
        """The exchange can be dialled."""
        for address in addresses:
            typer.echo(f"listening at {address}")

    def metrics(self, address: str) -> None:
        """Prometheus can ask there."""
        typer.echo(f"metrics at {address}")

    def show(self, traffic: Sequence[Traffic]) -> None:
        """Another interval has passed."""

    def stopping(self) -> None:
        """A signal asked the exchange to stop."""

    def stopped(self, traffic: Sequence[Traffic], rest: Remainder) -> None:
        """The exchange has stopped; these are the last numbers."""


class JsonLines(Report):
    """One JSON object a line, each with an ``event``."""

    interval_seconds: ClassVar[float | None] = 1.0

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._said: list[tuple[object, ...]] = []

    def listening(self, addresses: Sequence[str], channels: Sequence[str]) -> None:
        """The exchange can be dialled."""
        self._print("listening", address=addresses[0], addresses=list(addresses), channels=list(channels))

    def metrics(self, address: str) -> None:
        """Prometheus can ask there."""
        self._print("metrics", address=address)

    def show(self, traffic: Sequence[Traffic]) -> None:
        """Print the channels, if anything has changed."""
        facts = [channel.facts for channel in traffic]
        if facts != self._said:
            self._said = facts
            self._print("traffic", channels=[channel.as_json() for channel in traffic])

    def stopping(self) -> None:
        """A signal asked the exchange to stop."""
        self._print("stopping")

    def stopped(self, traffic: Sequence[Traffic], rest: Remainder) -> None:
        """Print the last numbers."""
        self._print("stopped", channels=[channel.as_json() for channel in traffic], **rest._asdict())

    def _print(self, event: str, **facts: object) -> None:
        typer.echo(json.dumps({"event": event, **facts}))


class LogLines(Report):
    """A line for each channel on which something happened."""

    interval_seconds: ClassVar[float | None] = 2.0

    def __init__(self, console: Console) -> None:
        """Print to this console."""
        self._console = console
        self._said: dict[str, tuple[object, ...]] = {}

    def listening(self, addresses: Sequence[str], channels: Sequence[str]) -> None:
        """The exchange can be dialled."""
        for address in addresses:
            self._print(f"listening at {address}")
        self._print(f"channels: {', '.join(channels)}")

    def metrics(self, address: str) -> None:
        """Prometheus can ask there."""
        self._print(f"metrics at {address}")

    def show(self, traffic: Sequence[Traffic]) -> None:
        """Print the channels on which something has changed."""
        for channel in traffic:
            name = channel.counts.channel
            if self._said.get(name) != channel.facts and not channel.is_untouched:
                self._print(_line(channel))
            self._said[name] = channel.facts

    def stopping(self) -> None:
        """A signal asked the exchange to stop."""
        self._print("stopping")

    def stopped(self, traffic: Sequence[Traffic], rest: Remainder) -> None:
        """Print what has not been said, and the sums."""
        self.show(traffic)
        self._print_sums(traffic, rest)

    def _print_sums(self, traffic: Sequence[Traffic], rest: Remainder) -> None:
        rows_in = sum(channel.counts.rows_in for channel in traffic)
        rows_out = sum(channel.counts.rows_out for channel in traffic)
        self._print(f"stopped: {rows_in:,} rows in, {rows_out:,} rows out")
        if rest.stored:
            self._print(f"kept on disk: {_by_channel(rest.stored)}")
        if rest.lost:
            self._print(f"left behind in memory, and lost: {_by_channel(rest.lost)}")

    def _print(self, line: str) -> None:
        self._console.print(printable(line), soft_wrap=True)


class LiveTable(LogLines):
    """A table that follows what happens, for a terminal."""

    interval_seconds: ClassVar[float | None] = 0.5

    def __init__(self, console: Console) -> None:
        """Draw on this console."""
        super().__init__(console)
        self._live = Live(console=console, auto_refresh=False)

    def listening(self, addresses: Sequence[str], channels: Sequence[str]) -> None:
        """The exchange can be dialled."""
        for address in addresses:
            self._print(f"listening at {address}")
        self._print("in flight: of all row permits; waited: the share of time that rows waited, in the exchange and")
        self._print("on their way out to the consumer; Ctrl-C stops")
        self._live.start()

    def show(self, traffic: Sequence[Traffic]) -> None:
        """Draw the table."""
        self._live.update(traffic_table(traffic), refresh=True)

    def stopped(self, traffic: Sequence[Traffic], rest: Remainder) -> None:
        """Leave the last table behind."""
        self.show(traffic)
        self._live.stop()
        self._print_sums(traffic, rest)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the terminal back, whatever happened."""
        self._live.stop()


def traffic_table(traffic: Sequence[Traffic]) -> Table:
    """All channels, one a row; narrow enough for a small terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("channel", "state", "put/get"):
        table.add_column(heading)
    for heading in ("rows in", "rows out", "rows/s", "in flight"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("waited in/out", justify="right")
    keeps_rows = any(channel.counts.kept is not None for channel in traffic)
    if keeps_rows:
        table.add_column("not acknowledged")
    compresses = any(channel.counts.compressed_streams for channel in traffic)
    if compresses:
        table.add_column("compressed")
    for channel in traffic:
        counts = channel.counts
        table.add_row(
            *(printable(counts.channel), counts.state, f"{counts.producers}/{counts.consumers}"),
            *(f"{counts.rows_in:,}", f"{counts.rows_out:,}", f"{channel.rows_per_second:,.0f}"),
            *(f"{counts.rows_held:,}", _bar(counts.rows_held, counts.row_permits)),
            f"{channel.waited_inside:.0%}/{channel.waited_for_consumer:.0%}",
            *([_behind(counts.kept, between="\n")] if keeps_rows else []),
            *([counts.compression] if compresses else []),
        )
    return table


def _behind(kept: KeptRows | None, between: str = ", ") -> str:
    return "" if kept is None else between.join(f"{printable(name)} {rows:,}" for name, rows in kept.lag_rows.items())


def _bar(part: int, whole: int) -> str:
    filled = -(-part * _BAR_CELLS // whole)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _line(channel: Traffic) -> str:
    counts = channel.counts
    state = f"{counts.state} ({counts.reason})" if counts.reason else counts.state
    return (
        f"{counts.channel} {state}: producers {counts.producers}, consumers {counts.consumers}, "
        f"{counts.rows_in:,} rows in, {_out(counts)}, {channel.rows_per_second:,.0f} rows/s, "
        f"{counts.rows_held:,} of {counts.row_permits:,} {'in flight' if counts.kept is None else 'kept'} "
        f"(peak {counts.peak_rows_held:,}), "
        f"waited inside {channel.waited_inside:.0%}, for consumer {channel.waited_for_consumer:.0%}"
        f"{f', compressed streams: {counts.compression}' if counts.compressed_streams else ''}"
    )


def _out(counts: ChannelTraffic) -> str:
    kept = counts.kept
    if kept is None:
        return f"{counts.rows_out:,} out"
    staged = f", {kept.staged_rows:,} staged" if kept.staged_rows else ""
    beyond = f", {kept.published_rows:,} published beyond the window" if kept.published_rows else ""
    return f"{counts.rows_out:,} acknowledged (still to come: {_behind(kept)}){staged}{beyond}"


def _by_channel(rows: Mapping[str, int]) -> str:
    parts = ", ".join(f"{channel} {count:,}" for channel, count in rows.items())
    return f"{sum(rows.values()):,} rows ({parts})"
