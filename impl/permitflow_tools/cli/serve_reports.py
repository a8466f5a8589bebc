"""How ``permitflow serve`` reports what flows: a live table, lines of a log, lines of JSON, or nothing."""

import json
import logging
import os
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Self, TextIO

import typer
from rich.live import Live

from permitflow.errors import printable
from permitflow.exchange.draining import Remainder
from permitflow.stream.traffic import ChannelTraffic, Rates, lag_in_words, some
from permitflow_tools.cli.console import open_console
from permitflow_tools.cli.traffic_table import gauges_in_words, in_doubt_in_words, traffic_table
from permitflow_tools.parameters.quantities import size_text

_log = logging.getLogger(__name__)


class Style(Enum):
    """The form of the reports, and the seconds between two; QUIET spares looking at thousands of channels."""

    QUIET = None
    """The addresses, and nothing else."""
    JSON = 1.0
    """One object a line, each with an ``event``."""
    LOG = 2.0
    """A line for each channel on which something happened."""
    TABLE = 0.5
    """A table that follows what happens, for a terminal."""


_SHOWN_CHANNELS = 5

_LEGEND = (
    "held: rows that take room in a channel; blocked: the share of time that rows waited for room, and",
    "on their way out for a consumer; Ctrl-C stops",
)


class ServeReport:
    """Says what happens to an exchange, with a method for each thing; a context manager.

    An output that cannot be written any more (a full disk, a terminal or a reader that has gone) ends the reports, and
    not the exchange; a terminal that hangs up sends SIGHUP, too, on which the exchange drains.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        """What is to be printed; else a table on a terminal, or lines of a log."""
        self._console = open_console()
        as_text = Style.TABLE if self._console.is_terminal else Style.LOG
        self.style = Style.JSON if as_json else Style.QUIET if quiet else as_text
        # What is said on the same terminal comes above the table; what goes to a file or a pipe goes on to do so.
        self._live = Live(console=self._console, auto_refresh=False, redirect_stderr=os.isatty(2))
        self._shown: dict[str, tuple[object, ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def listening(
        self,
        addresses: Sequence[str],
        channels: Sequence[str],
        most_bytes: int | None,
        *,
        before_streams_bytes: int,
        limit_bytes: int | None,
    ) -> None:
        """The exchange can be dialled.

        Args:
            addresses: where.
            channels: their names.
            most_bytes: that these hold at most, as in ``Exchange.most_bytes``.
            before_streams_bytes: what handshakes, waiting calls and suspended streams hold at most.
            limit_bytes: what everything may hold; None: no limit.
        """
        facts = {
            "address": addresses[0],
            "addresses": [*addresses],
            "channels": [*channels],
            "most_bytes": most_bytes,
            "before_streams_bytes": before_streams_bytes,
            "max_memory": limit_bytes,
        }
        bound = (
            "memory: kept rows are bounded by their number, and all else by the byte window"
            if most_bytes is None
            else f"memory: at most {size_text(most_bytes)} of chunks, with a producer and a consumer of each channel"
        )
        limit = "no limit in all: --max-memory" if limit_bytes is None else f"at most {size_text(limit_bytes)} in all"
        bound += f"; {size_text(before_streams_bytes)} of handshakes, waiting calls and suspended streams; {limit}"
        log, table = [f"channels: {', '.join(channels)}", bound], [bound, *_LEGEND]
        more = {Style.LOG: log, Style.TABLE: table}.get(self.style, ())
        with self._outlived():
            self._say("listening", facts, *(f"listening at {address}" for address in addresses), *more)
            if self.style is Style.TABLE:
                self._live.start()

    def metrics(self, address: str) -> None:
        """Prometheus can ask there."""
        with self._outlived():
            self._say("metrics", {"address": address}, f"metrics at {address}")

    def page(self, address: str) -> None:
        """A browser can look there."""
        with self._outlived():
            self._say("ui", {"address": address}, f"page at {address}")

    def show(self, flows: Sequence[Rates]) -> Iterator[None]:
        """Another interval has passed.  Between two of these steps the caller may do something else."""
        with self._outlived():
            sys.stdout.flush()  # it may have become known meanwhile that nothing can be written
            if self.style is Style.TABLE:
                self._live.update(traffic_table(flows, width=self._console.width), refresh=True)
            elif self.style is not Style.QUIET:
                yield from self._show_changed(flows)

    def _show_changed(self, flows: Sequence[Rates]) -> Iterator[None]:
        changed: list[Rates] = []
        for flow in flows:
            name, facts = flow.traffic.channel, _facts(flow.traffic)
            if self._shown.get(name) != facts:
                changed.append(flow)
            self._shown[name] = facts
            yield
        if self.style is Style.LOG:
            for flow in changed:
                if not _is_untouched(flow.traffic):
                    self._print(_line(flow))
                yield
        elif changed:
            channels: list[str] = []
            for flow in flows:
                channels.append(json.dumps(flow.as_json()))
                yield
            typer.echo(f'{{"event": "traffic", "channels": [{", ".join(channels)}]}}')

    def process_lost(self, number: int, end: str, channels: Sequence[str]) -> None:
        """One of several processes has ended by itself, and what was in its channels is lost."""
        self._say_as_json("process lost", {"process": number, "end": end, "channels": [*channels]})
        words = "process %d of the exchange has ended (%s), and what was in its channels is lost: %s; the others go on"
        _log.error(words, number, end, in_words(channels))

    def process_started(self, number: int) -> None:
        """It serves its channels again, as broken ones."""
        self._say_as_json("process started", {"process": number})
        advice = "its channels are broken until you reset them (permitflow channel reset STREAM --broken)"
        _log.warning("process %d of the exchange was started again: %s", number, advice)

    def processes_given_up(self, reason: str) -> None:
        """None is started any more, and the exchange ends."""
        self._say_as_json("processes given up", {"reason": reason})
        _log.error("%s, and one is lost again: the exchange ends; find out why, and start it again", reason)

    def _say_as_json(self, event: str, facts: Mapping[str, object]) -> None:
        if self.style is Style.JSON:
            with self._outlived():
                self._say(event, facts)

    def stopping(self) -> None:
        """A signal asked the exchange to stop."""
        with self._outlived():
            self._say("stopping", {}, *([] if self.style is Style.QUIET else ["stopping"]))

    def stopped(self, flows: Sequence[Rates], rest: Remainder) -> None:
        """The exchange has stopped; these are the last numbers, with rates over all the time that it was watched."""
        if self.style is not Style.JSON:
            deque(self.show(flows), maxlen=0)
        if self.style is Style.QUIET:
            return
        with self._outlived():
            self._live.stop()
            self._sum_up(flows, rest)

    def _sum_up(self, flows: Sequence[Rates], rest: Remainder) -> None:
        rows_in = sum(flow.traffic.rows_in for flow in flows)
        rows_out = sum(flow.traffic.rows_out for flow in flows)
        lines = [f"stopped: {rows_in:,} rows in, {rows_out:,} rows out"]
        lines += [f"kept on disk: {_by_channel(rest.stored)}"] if rest.stored else []
        lines += [f"left behind in memory, and lost: {_by_channel(rest.lost)}"] if rest.lost else []
        self._say("stopped", {"channels": [flow.as_json() for flow in flows], **rest._asdict()}, *lines)

    @contextmanager
    def _outlived(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.style = Style.QUIET
            _give_up(sys.stdout)
            words = "standard output cannot be written any more, so nothing more is reported; no stream ends by that"
            try:
                typer.echo(f"warning: {words}: {error.strerror or error}", err=True)
            except OSError:
                _give_up(sys.stderr)

    def _say(self, event: str, facts: Mapping[str, object], *lines: str) -> None:
        if self.style is Style.JSON:
            typer.echo(json.dumps({"event": event, **facts}))
        else:
            self._print(*lines)

    def _print(self, *lines: str) -> None:
        for line in lines:
            self._console.print(printable(line), soft_wrap=True)


def in_words(channels: Collection[str]) -> str:
    """The first channels of a part of an exchange, and how many more there are."""
    return some(map(printable, channels), len(channels), most=_SHOWN_CHANNELS) or "it has no channel"


def dropped_as_json(lines: int) -> str:
    """The line about so many that are missing on standard output."""
    return json.dumps({"event": "dropped", "lines": lines}) + "\n"


def _give_up(stream: TextIO) -> None:
    """What is written there, and what still waits to be, goes nowhere from now on."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _facts(traffic: ChannelTraffic) -> tuple[object, ...]:
    """What only changes when something happens."""
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
        f"{f', streams without a connection {traffic.suspended_streams}' if traffic.suspended_streams else ''}"
        f"{f', compressed streams: {traffic.compression}' if traffic.compressed_streams else ''}"
    )


def _out(traffic: ChannelTraffic) -> str:
    kept = traffic.kept
    if kept is None:
        return f"{traffic.rows_out:,} out"
    staged = f", {kept.staged_rows:,} staged" if kept.staged_rows else ""
    staged += f" ({in_doubt})" if (in_doubt := in_doubt_in_words(traffic)) else ""
    beyond = f", {kept.published_rows:,} published beyond the window" if kept.published_rows else ""
    expired = f", {traffic.expired_rows:,} expired" if traffic.expired_rows else ""
    acknowledged = traffic.rows_out - traffic.expired_rows
    return f"{acknowledged:,} acknowledged (still to come: {lag_in_words(kept.lag_rows)}){expired}{staged}{beyond}"


def _by_channel(rows: Mapping[str, int]) -> str:
    parts = ", ".join(f"{channel} {count:,}" for channel, count in rows.items())
    return f"{sum(rows.values()):,} rows ({parts})"
