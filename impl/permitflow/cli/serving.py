"""The exchange of ``permitflow serve``: from its start to the signal that stops it."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from enum import Enum
from time import monotonic

from permitflow.channels.names import stream_channels
from permitflow.cli.console import open_console
from permitflow.cli.options import StreamName
from permitflow.cli.serve_reports import JsonLines, LiveTable, LogLines, Report, Silence
from permitflow.cli.traffic import Traffic, traffic_between
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.parameters import ChannelParameters
from permitflow.tracing import FileTrace
from permitflow.transports.shared_memory.policy import SameHost

__all__ = ["Style", "run_exchange"]

# Time for streams to end by themselves once the exchange was asked to stop.
GRACE_SECONDS = 3.0


class Style(Enum):
    """How the exchange says what flows."""

    TEXT = "text"
    JSON = "json"
    QUIET = "quiet"


def run_exchange(
    streams: Sequence[StreamName],
    address: str,
    parameters: ChannelParameters,
    recording: FileTrace | None,
    style: Style,
    same_host: SameHost = SameHost.AUTO,
) -> bool:
    """Serve until a signal; say whether it was Ctrl-C.

    Raises:
        TraceWriteError: not everything could be recorded.
        TransportError: the address cannot be had.
    """
    with ExitStack() as stack:
        if recording is not None:
            stack.enter_context(recording)
        record = None if recording is None else recording.recorder
        exchange = Exchange(parameters=parameters, record=record, same_host=same_host)
        report = stack.enter_context(_report(style))
        return asyncio.run(_serve(exchange, streams, address, report))


def _report(style: Style) -> Report:
    if style is Style.JSON:
        return JsonLines()
    if style is Style.QUIET:
        return Silence()
    console = open_console()
    return LiveTable(console) if console.is_terminal else LogLines(console)


async def _serve(exchange: Exchange, streams: Sequence[StreamName], address: str, report: Report) -> bool:
    """Serve until SIGINT (True) or SIGTERM (False)."""
    stopped: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    _resolve_by_signals(stopped)
    for stream in streams:
        for channel in stream_channels(stream.name, stream.channels):
            exchange.add_channel(channel)
    async with ExchangeServer(exchange, address) as server:
        report.listening(server.address, [bridge.name for bridge in exchange.statistics()])
        await _watch(exchange, report, stopped)
        report.stopping()
        await server.stop(GRACE_SECONDS)
    report.stopped(_now(exchange))
    return stopped.result()


def _resolve_by_signals(stopped: "asyncio.Future[bool]") -> None:
    loop = asyncio.get_running_loop()

    def stop(is_interrupt: bool) -> None:
        if not stopped.done():
            stopped.set_result(is_interrupt)
        # A second signal does what it does to any program: whoever repeats it does not want to wait.
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)

    loop.add_signal_handler(signal.SIGINT, stop, True)
    loop.add_signal_handler(signal.SIGTERM, stop, False)


async def _watch(exchange: Exchange, report: Report, stopped: "asyncio.Future[bool]") -> None:
    before, since = exchange.statistics(), monotonic()
    while not stopped.done():
        await asyncio.wait({stopped}, timeout=report.interval_seconds)
        now, at = exchange.statistics(), monotonic()
        report.show(traffic_between(before, now, at - since))
        before, since = now, at


def _now(exchange: Exchange) -> list[Traffic]:
    statistics = exchange.statistics()
    return traffic_between(statistics, statistics, 0.0)
