"""How ``permitflow serve`` says what flows: a live table, lines of a log, lines of JSON, or nothing."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import ClassVar, Self

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from permitflow.cli.traffic import Kept, Traffic
from permitflow.exchange.draining import Remainder

__all__ = ["JsonLines", "LiveTable", "LogLines", "Report", "Silence"]

_BAR_CELLS = 8


class Report:
    """Is told what happens; says the address, and nothing else.  A context manager."""

    interval_seconds: ClassVar[float] = 1.0

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


class Silence(Report):
    """Says no more."""


class JsonLines(Report):
    """One JSON object a line, each with an ``event``."""

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
            self._print("traffic", channels=[asdict(channel) for channel in traffic])

    def stopping(self) -> None:
        """A signal asked the exchange to stop."""
        self._print("stopping")

    def stopped(self, traffic: Sequence[Traffic], rest: Remainder) -> None:
        """Print the last numbers."""
        self._print("stopped", channels=[asdict(channel) for channel in traffic], **rest._asdict())

    def _print(self, event: str, **facts: object) -> None:
        typer.echo(json.dumps({"event": event, **facts}))


class LogLines(Report):
    """A line for each channel on which something happened."""

    interval_seconds: ClassVar[float] = 2.0

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
            if self._said.get(channel.channel) != channel.facts and not channel.is_untouched:
                self._print(_line(channel))
            self._said[channel.channel] = channel.facts

    def stopping(self) -> None:
        """A signal asked the exchange to stop."""
        self._print("stopping")

    def stopped(self, traffic: Sequence[Traffic], rest: Remainder) -> None:
        """Print what has not been said, and the sums."""
        self.show(traffic)
        self._print(_sums(traffic))
        for line in _left_behind(rest):
            self._print(line)

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)


class LiveTable(LogLines):
    """A table that follows what happens, for a terminal."""

    interval_seconds: ClassVar[float] = 0.5

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
        self._print(_sums(traffic))
        for line in _left_behind(rest):
            self._print(line)

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
    keeps_rows = any(channel.kept is not None for channel in traffic)
    if keeps_rows:
        table.add_column("not acknowledged")
    for channel in traffic:
        table.add_row(
            *(channel.channel, channel.state, f"{channel.producers}/{channel.consumers}"),
            *(f"{channel.rows_in:,}", f"{channel.rows_out:,}", f"{channel.rows_per_second:,.0f}"),
            *(f"{channel.in_flight:,}", _bar(channel.in_flight, channel.bound)),
            f"{channel.waited_inside:.0%}/{channel.waited_for_consumer:.0%}",
            *([_behind(channel.kept, between="\n")] if keeps_rows else []),
        )
    return table


def _behind(kept: Kept | None, between: str = ", ") -> str:
    return "" if kept is None else between.join(f"{name} {rows:,}" for name, rows in kept.behind.items())


def _bar(part: int, whole: int) -> str:
    filled = -(-part * _BAR_CELLS // whole)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _line(channel: Traffic) -> str:
    state = f"{channel.state} ({channel.reason})" if channel.reason else channel.state
    return (
        f"{channel.channel} {state}: producers {channel.producers}, consumers {channel.consumers}, "
        f"{channel.rows_in:,} rows in, {_out(channel)}, {channel.rows_per_second:,.0f} rows/s, "
        f"{channel.in_flight:,} of {channel.bound:,} {'in flight' if channel.kept is None else 'kept'} "
        f"(peak {channel.peak_in_flight:,}), "
        f"waited inside {channel.waited_inside:.0%}, for consumer {channel.waited_for_consumer:.0%}"
    )


def _out(channel: Traffic) -> str:
    kept = channel.kept
    if kept is None:
        return f"{channel.rows_out:,} out"
    staged = f", {kept.staged_rows:,} staged" if kept.staged_rows else ""
    waiting = f", {kept.published_rows:,} published and waiting" if kept.published_rows else ""
    return f"{channel.rows_out:,} acknowledged (still to come: {_behind(kept)}){staged}{waiting}"


def _sums(traffic: Sequence[Traffic]) -> str:
    rows_in, rows_out = sum(channel.rows_in for channel in traffic), sum(channel.rows_out for channel in traffic)
    return f"stopped: {rows_in:,} rows in, {rows_out:,} rows out"


def _left_behind(rest: Remainder) -> Iterator[str]:
    if rest.stored:
        yield f"kept on disk: {_by_channel(rest.stored)}"
    if rest.lost:
        yield f"left behind in memory, and lost: {_by_channel(rest.lost)}"


def _by_channel(rows: Mapping[str, int]) -> str:
    parts = ", ".join(f"{channel} {count:,}" for channel, count in rows.items())
    return f"{sum(rows.values()):,} rows ({parts})"
