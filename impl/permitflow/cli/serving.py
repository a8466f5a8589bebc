"""The exchange of ``permitflow serve``: from its start to the signal that stops it."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from time import monotonic
from typing import TypeVar

from permitflow.channels.names import stream_channels
from permitflow.cli.console import open_console
from permitflow.cli.metrics import metrics_at
from permitflow.cli.options import StreamName
from permitflow.cli.recording import NewRecording
from permitflow.cli.serve_reports import JsonLines, LiveTable, LogLines, Report, Silence
from permitflow.cli.traffic import Traffic, traffic_between
from permitflow.exchange.draining import drain, remainder
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.protocol.compression import Compression
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports.shared_memory import SameHost

__all__ = ["Plan", "Style", "run_exchange"]

T = TypeVar("T")


class Style(Enum):
    """How the exchange says what flows."""

    TEXT = "text"
    JSON = "json"
    QUIET = "quiet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is to be served, and how; as the options of the command say it."""

    streams: Sequence[StreamName]
    addresses: Sequence[str]
    parameters: ChannelParameters
    retention: Retention
    consumers: Sequence[str]
    """For whom rows are kept."""
    store: Path | None
    """The folder of the store; None: rows are kept in memory."""
    staging_rows: int | None
    staging_timeout_seconds: float
    drain_seconds: float
    same_host: SameHost
    compression: Compression
    metrics_address: str | None = None
    """Where Prometheus may ask; None: nowhere."""

    @property
    def channels(self) -> list[str]:
        """The channels of all streams."""
        return [channel for stream in self.streams for channel in stream_channels(stream.name, stream.channels)]


def run_exchange(plan: Plan, recording: NewRecording | None, style: Style) -> bool:
    """Serve until a signal; say whether it was Ctrl-C.

    Raises:
        InvalidOptionError: the address for metrics cannot be had.
        StoreError: the store cannot be used, or holds something else than what is to be served.
        TraceWriteError: not everything could be recorded.
        TransportError: an address cannot be had.
    """
    with ExitStack() as stack:
        if recording is not None:
            stack.enter_context(recording)
        record = None if recording is None else recording.trace.recorder
        store = None if plan.store is None else stack.enter_context(SqliteStore(plan.store))
        exchange = Exchange(
            parameters=plan.parameters,
            record=record,
            same_host=plan.same_host,
            compression=plan.compression,
            store=store,
            staging_timeout_seconds=plan.staging_timeout_seconds,
        )
        report = stack.enter_context(_report(style))
        return asyncio.run(_serve(plan, exchange, store, report, recording))


def _report(style: Style) -> Report:
    if style is Style.JSON:
        return JsonLines()
    if style is Style.QUIET:
        return Silence()
    console = open_console()
    return LiveTable(console) if console.is_terminal else LogLines(console)


async def _serve(
    plan: Plan, exchange: Exchange, store: SqliteStore | None, report: Report, recording: NewRecording | None
) -> bool:
    """Serve until SIGINT (True), or SIGTERM or a terminal that hangs up (False)."""
    stopped: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    _resolve_by_signals(stopped)
    _add_channels(plan, exchange, store)
    async with AsyncExitStack() as stack:
        servers = []
        for address in plan.addresses:
            servers.append(await stack.enter_async_context(ExchangeServer(exchange, address)))
            if recording is not None:
                recording.begin()
        report.listening([server.address for server in servers], plan.channels)
        if plan.metrics_address is not None:
            report.metrics(stack.enter_context(metrics_at(plan.metrics_address, exchange)))
        await _watch(exchange, report, stopped)
        report.stopping()
        draining = asyncio.ensure_future(drain(exchange, plan.drain_seconds))
        await _watch(exchange, report, draining)
        await draining
        async with asyncio.TaskGroup() as group:
            for server in servers:
                group.create_task(server.stop())
    report.stopped(_now(exchange), remainder(exchange))
    return stopped.result()


def _add_channels(plan: Plan, exchange: Exchange, store: SqliteStore | None) -> None:
    if store is not None:
        # All of it, before the first channel is written down.
        store.require_fitting(plan.channels, parameters=plan.parameters, consumers=plan.consumers)
    exchange.add_channels(
        plan.channels, retention=plan.retention, consumers=plan.consumers, staging_rows=plan.staging_rows
    )


def _resolve_by_signals(stopped: "asyncio.Future[bool]") -> None:
    loop = asyncio.get_running_loop()

    def stop(is_interrupt: bool) -> None:
        if not stopped.done():
            stopped.set_result(is_interrupt)
        # A second signal does what it does to any program: whoever repeats it does not want to wait.
        for number in heeded:
            loop.remove_signal_handler(number)

    # A process that was started to ignore one goes on to do so: Ctrl-C in the background of a script, or as by nohup.
    inherited = [number for number in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    heeded = [signal.SIGTERM, *inherited]
    for number in heeded:
        loop.add_signal_handler(number, stop, number is signal.SIGINT)


async def _watch(exchange: Exchange, report: Report, until: "asyncio.Future[T]") -> None:
    if report.interval_seconds is None:
        await asyncio.wait({until})
        return
    before, since = exchange.statistics(), monotonic()
    while not until.done():
        await asyncio.wait({until}, timeout=report.interval_seconds)
        now, at = exchange.statistics(), monotonic()
        report.show(traffic_between(before, now, at - since))
        before, since = now, at


def _now(exchange: Exchange) -> list[Traffic]:
    statistics = exchange.statistics()
    return traffic_between(statistics, statistics, 0.0)
