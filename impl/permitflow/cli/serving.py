"""The exchange of ``permitflow serve``: from its start to the signal that stops it; its recording, and its metrics."""

import asyncio
import gc
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from permitflow.channels.interface import stream_channels
from permitflow.cli.console import open_console
from permitflow.cli.options import StreamName
from permitflow.cli.outcomes import unusable
from permitflow.cli.output import is_special
from permitflow.cli.serve_reports import JsonLines, LiveTable, LogLines, Report
from permitflow.errors import InvalidOptionError, TraceWriteError
from permitflow.exchange.draining import drain, remainder
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.serving import traffic_through
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.metrics import ExchangeCollector
from permitflow.protocol.compression import Compression
from permitflow.protocol.flow import Parameters
from permitflow.protocol.replay import Retention
from permitflow.protocol.traffic import Statistics, each_rates_between, rates_between
from permitflow.tracing import FileTrace
from permitflow.transports.shared_memory import SameHost

# A process that is killed takes at most so many events of its recording with it.
_EVENTS_LOST_AT_MOST = 32

T = TypeVar("T")


class Style(Enum):
    """How the exchange reports what flows."""

    TEXT = "text"
    JSON = "json"
    QUIET = "quiet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The served streams and their settings, from the command's options."""

    streams: Sequence[StreamName]
    addresses: Sequence[str]
    parameters: Parameters
    retention: Retention
    consumers: Sequence[str]
    """For whom rows are kept."""
    store: Path | None
    """The folder of the store; None: rows are kept in memory."""
    kept_rows: int | None
    staging_rows: int | None
    staging_timeout_seconds: float
    drain_seconds: float
    handshake_seconds: float
    silence_seconds: float
    same_host: SameHost
    compression: Compression
    checksums: bool
    metrics_address: str | None = None
    """Where Prometheus may ask; None: nowhere."""

    @property
    def channels(self) -> list[str]:
        """The channels of all streams."""
        return [channel for stream in self.streams for channel in stream_channels(stream.name, stream.channels)]


class _NewRecording:
    """A trace in a file that was not there; a context manager that closes it.

    Of a run that has never begun it leaves nothing: the next one can take the same name.
    """

    def __init__(self, path: Path) -> None:
        """Make the file, or end the command: there is one, or none can be made."""
        self._made: Path | None = None
        self._has_begun = False
        if not is_special(path):  # a pipe, or what a caller has open, is written to as it is
            self._made = Path(os.path.realpath(path))
            try:
                # In one step: of two that want the same name at the same time, one gets it.  So an empty file is none
                # to take: it may be that of a run that has recorded nothing yet.
                os.close(os.open(self._made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            except FileExistsError:
                unusable(f"--trace: {path} exists already, and a recording is never overwritten: name a new file")
            except OSError as error:
                unusable(f"--trace: cannot write {path}: {error.strerror or error}")
        try:
            # A file of Parquet cannot be read if the process is killed, however little is buffered.
            buffered = {} if path.suffix == ".parquet" else {"buffered_events": _EVENTS_LOST_AT_MOST}
            self.trace = FileTrace(path, **buffered)
        except TraceWriteError as error:
            self._take_back()
            unusable(f"--trace: cannot write {path}: {error.reason}")

    def begin(self) -> None:
        """From now on there may be something to record."""
        self._has_begun = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.trace.__exit__(kind, error, traceback)
        finally:
            if not self._has_begun:
                self._take_back()

    def _take_back(self) -> None:
        if self._made is not None:
            self._made.unlink(missing_ok=True)


def run_exchange(plan: Plan, trace: Path | None, style: Style) -> bool:
    """Serve until a signal, and record into this new file; say whether it was Ctrl-C, or end the command.

    Raises:
        InvalidOptionError: the address for metrics cannot be had.
        StoreError: the store cannot be used, or holds other channels than those to serve.
        TraceWriteError: not everything could be recorded.
        TransportError: an address cannot be had.
    """
    with ExitStack() as stack:
        recording = None if trace is None else stack.enter_context(_NewRecording(trace))
        record = None if recording is None else recording.trace.recorder
        store = None if plan.store is None else stack.enter_context(SqliteStore(plan.store))
        exchange = Exchange(
            parameters=plan.parameters,
            record=record,
            same_host=plan.same_host,
            compression=plan.compression,
            checksums=plan.checksums,
            store=store,
            staging_timeout_seconds=plan.staging_timeout_seconds,
        )
        report = stack.enter_context(_report(style))
        return asyncio.run(_serve(plan, exchange, store, report, recording))


def _report(style: Style) -> Report:
    if style is Style.JSON:
        return JsonLines()
    if style is Style.QUIET:
        return Report()
    console = open_console()
    return LiveTable(console) if console.is_terminal else LogLines(console)


async def _serve(
    plan: Plan, exchange: Exchange, store: SqliteStore | None, report: Report, recording: _NewRecording | None
) -> bool:
    """Serve until SIGINT (True), or SIGTERM or a terminal that hangs up (False)."""
    stopped: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    _resolve_by_signals(stopped)
    if store is not None:
        # All of it, before the first channel is written down.
        store.require_fitting(plan.channels, parameters=plan.parameters, consumers=plan.consumers)
    exchange.add_channels(
        plan.channels,
        retention=plan.retention,
        consumers=plan.consumers,
        kept_rows=plan.kept_rows,
        staging_rows=plan.staging_rows,
    )
    # The channels stay as long as the process: to look for garbage among tens of thousands takes a quarter of a second,
    # in which no stream is served.
    gc.freeze()
    async with AsyncExitStack() as stack:
        servers = []
        for address in plan.addresses:
            server = ExchangeServer(
                exchange, address, handshake_seconds=plan.handshake_seconds, silence_seconds=plan.silence_seconds
            )
            servers.append(await stack.enter_async_context(server))
            if recording is not None:
                recording.begin()
        report.listening([server.address for server in servers], plan.channels)
        if plan.metrics_address is not None:
            report.metrics(stack.enter_context(metrics_at(plan.metrics_address, exchange)))
        begun = await _watch(exchange, report, stopped)
        report.stopping()
        draining = asyncio.ensure_future(drain(exchange, plan.drain_seconds))
        await _watch(exchange, report, draining)
        await draining
        async with asyncio.TaskGroup() as group:
            for server in servers:
                group.create_task(server.stop())
    report.stopped(rates_between(begun, await traffic_through(exchange)), remainder(exchange))
    return stopped.result()


def _resolve_by_signals(stopped: "asyncio.Future[bool]") -> None:
    loop = asyncio.get_running_loop()

    def stop(is_interrupt: bool) -> None:
        if not stopped.done():
            stopped.set_result(is_interrupt)
        # A second signal does what it does to any program: a user who repeats it does not want to wait.
        for number in heeded:
            loop.remove_signal_handler(number)

    # A process that was started to ignore one goes on to do so: Ctrl-C in the background of a script, or as by nohup.
    inherited = [number for number in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    heeded = [signal.SIGTERM, *inherited]
    for number in heeded:
        loop.add_signal_handler(number, stop, number is signal.SIGINT)


async def _watch(exchange: Exchange, report: Report, until: "asyncio.Future[T]") -> Statistics | None:
    """Report what flows; return what there was at first, None if nothing is shown."""
    if report.interval_seconds is None:
        await asyncio.wait({until})
        return None
    first = before = await traffic_through(exchange)
    while not until.done():
        await asyncio.wait({until}, timeout=report.interval_seconds)
        now = await traffic_through(exchange)
        await exchange.turns.all(report.show(await exchange.turns.all(each_rates_between(before, now))))
        before = now
    return first


@contextmanager
def metrics_at(address: str, exchange: Exchange) -> Iterator[str]:
    """Serve metrics while the block runs; the address, with the port that was chosen.  Call it in the event loop.

    Raises:
        InvalidOptionError: the address cannot be had.
    """
    from prometheus_client import CollectorRegistry, start_http_server

    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(ExchangeCollector(exchange))
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        reason = f"cannot be had: {error.strerror or error}"
        raise InvalidOptionError(option="--metrics-address", value=address, reason=reason) from error
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
