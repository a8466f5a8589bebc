"""How ``permitflow serve`` reports what flows: a live table, lines of a log, lines of JSON, or nothing."""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self

import typer
from rich.console import Console
from rich.live import Live

from permitflow.cli.traffic_table import gauges_in_words, lag_in_words, traffic_table
from permitflow.errors import printable
from permitflow.exchange.draining import Remainder
from permitflow.protocol.traffic import ChannelTraffic, Rates


class Report:
    """Prints the addresses, and nothing else.  A context manager with a method for each thing that happens."""

    interval_seconds: ClassVar[float | None] = None
    """How often it is shown what flows; None: never, which spares looking at thousands of channels."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    def listening(self, addresses: Sequence[str], channels: Sequence[str]) -> None:
        """The exchange can be dialled."""
        for address in addresses:
            typer.echo(f"listening at {address}")

    def metrics(self, address: str) -> None:
        """Prometheus can ask there."""
        typer.echo(f"metrics at {address}")

    def show(self, flows: Sequence[Rates]) -> Iterator[None]:
        """Another interval has passed.  Between two of these steps the caller may do something else."""
        yield from ()

    def stopping(self) -> None:
        """A signal asked the exchange to stop."""

    def stopped(self, flows: Sequence[Rates], rest: Remainder) -> None:
        """The exchange has stopped; these are the last numbers, with rates over all the time that it was watched."""


class JsonLines(Report):
    """One JSON object a line, each with an ``event``."""

    interval_seconds: ClassVar[float | None] = 1.0

    def __init__(self) -> None:
        self._shown: list[tuple[object, ...]] = []

    def listening(self, addresses: Sequence[str], channels: Sequence[str]) -> None:
        """The exchange can be dialled."""
        self._print("listening", address=addresses[0], addresses=list(addresses), channels=list(channels))

    def metrics(self, address: str) -> None:
        """Prometheus can ask there."""
        self._print("metrics", address=address)

    def show(self, flows: Sequence[Rates]) -> Iterator[None]:
        """Print the channels, if anything has changed."""
        facts = []
        for flow in flows:
            facts.append(_facts(flow))
            yield
        if facts == self._shown:
            return
        self._shown, channels = facts, []
        for flow in flows:
            channels.append(json.dumps(flow.as_json()))
            yield
        typer.echo(f'{{"event": "traffic", "channels": [{", ".join(channels)}]}}')

    def stopping(self) -> None:
        """A signal asked the exchange to stop."""
        self._print("stopping")

    def stopped(self, flows: Sequence[Rates], rest: Remainder) -> None:
        """Print the last numbers."""
        self._print("stopped", channels=[flow.as_json() for flow in flows], **rest._asdict())

    def _print(self, event: str, **facts: object) -> None:
        typer.echo(json.dumps({"event": event, **facts}))


class LogLines(Report):
    """A line for each channel on which something happened."""

    interval_seconds: ClassVar[float | None] = 2.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, tuple[object, ...]] = {}

    def listening(self, addresses: Sequence[str], channels: Sequence[str]) -> None:
        """The exchange can be dialled."""
        for address in addresses:
            self._print(f"listening at {address}")
        self._print(f"channels: {', '.join(channels)}")

    def metrics(self, address: str) -> None:
        """Prometheus can ask there."""
        self._print(f"metrics at {address}")

    def show(self, flows: Sequence[Rates]) -> Iterator[None]:
        """Print the channels on which something has changed."""
        for flow in flows:
            name, facts = flow.traffic.channel, _facts(flow)
            if self._shown.get(name) != facts and not _is_untouched(flow.traffic):
                self._print(_line(flow))
            self._shown[name] = facts
            yield

    def stopping(self) -> None:
        """A signal asked the exchange to stop."""
        self._print("stopping")

    def stopped(self, flows: Sequence[Rates], rest: Remainder) -> None:
        """Print the events not shown yet, and the sums."""
        deque(self.show(flows), maxlen=0)
        self._print_sums(flows, rest)

    def _print_sums(self, flows: Sequence[Rates], rest: Remainder) -> None:
        rows_in = sum(flow.traffic.rows_in for flow in flows)
        rows_out = sum(flow.traffic.rows_out for flow in flows)
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
        super().__init__(console)
        self._live = Live(console=console, auto_refresh=False)

    def listening(self, addresses: Sequence[str], channels: Sequence[str]) -> None:
        """The exchange can be dialled."""
        for address in addresses:
            self._print(f"listening at {address}")
        self._print("held: rows that take room in a channel; blocked: the share of time that rows waited for room, and")
        self._print("on their way out for a consumer; Ctrl-C stops")
        self._live.start()

    def show(self, flows: Sequence[Rates]) -> Iterator[None]:
        """Draw the table."""
        self._live.update(traffic_table(flows), refresh=True)
        yield

    def stopped(self, flows: Sequence[Rates], rest: Remainder) -> None:
        """Leave the last table behind."""
        deque(self.show(flows), maxlen=0)
        self._live.stop()
        self._print_sums(flows, rest)

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def _facts(flow: Rates) -> tuple[object, ...]:
    """What only changes when something happens."""
    traffic = flow.traffic
    return traffic.state, traffic.producers, traffic.consumers, traffic.rows_in, traffic.rows_out, traffic.kept


def _is_untouched(traffic: ChannelTraffic) -> bool:
    """Has no stream come yet?"""
    return traffic.state == "waiting" and not (traffic.producers or traffic.consumers or traffic.rows_in)


def _line(flow: Rates) -> str:
    traffic = flow.traffic
    state = f"{traffic.state} ({traffic.reason})" if traffic.reason else traffic.state
    window = "" if traffic.window_rows is None else f" of {traffic.window_rows:,}"
    return (
        f"{traffic.channel} {state}: producers {traffic.producers}, consumers {traffic.consumers}, "
        f"{traffic.rows_in:,} rows in, {_out(traffic)}, {flow.rows_out_per_second:,.0f} rows/s out, "
        f"{traffic.rows_held:,}{window} held (peak {traffic.peak_rows_held:,}), "
        f"blocked in {flow.blocked_share:.0%}, out {flow.consumer_blocked_share:.0%}"
        f"{f', stopped {flow.consumer_stopped_share:.0%}' if traffic.consumer_stopped_seconds else ''}"
        f"{f', {gauges_in_words(traffic)}' if traffic.gauges else ''}"
        f"{f', compressed streams: {traffic.compression}' if traffic.compressed_streams else ''}"
    )


def _out(traffic: ChannelTraffic) -> str:
    kept = traffic.kept
    if kept is None:
        return f"{traffic.rows_out:,} out"
    staged = f", {kept.staged_rows:,} staged" if kept.staged_rows else ""
    beyond = f", {kept.published_rows:,} published beyond the window" if kept.published_rows else ""
    return f"{traffic.rows_out:,} acknowledged (still to come: {lag_in_words(kept)}){staged}{beyond}"


def _by_channel(rows: Mapping[str, int]) -> str:
    parts = ", ".join(f"{channel} {count:,}" for channel, count in rows.items())
    return f"{sum(rows.values()):,} rows ({parts})"
