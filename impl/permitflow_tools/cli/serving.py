"""The exchange of ``permitflow serve``: from its start to the signal that stops it; its recording, and its metrics."""

import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeVar

from permitflow.errors import InvalidOptionError, StoreError, TraceWriteError
from permitflow.exchange.access import AccessControl
from permitflow.exchange.draining import Remainder, drain, remainder
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.serving import traffic_through
from permitflow.metrics import ExchangeCollector
from permitflow.stream.traffic import Statistics, each_rates_between, rates_between
from permitflow.tracing import FileTrace
from permitflow_tools.cli.outcomes import unusable
from permitflow_tools.cli.output import is_special
from permitflow_tools.cli.serve_reports import ServeReport
from permitflow_tools.dashboard.server import serving_dashboard
from permitflow_tools.explain.page_server import READER_SECONDS, PageServer, serving

# A process that is killed takes at most this many events of its recording with it.
_EVENTS_LOST_AT_MOST = 32

T = TypeVar("T")


def all_descriptors() -> int:
    """Let this process have as many descriptors as it may; how many these are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # some systems allow less than they say
        return soft
    return hard if hard != resource.RLIM_INFINITY else sys.maxsize


@contextmanager
def new_recording(path: Path) -> Iterator[tuple[FileTrace, Callable[[], None]]]:
    """A trace in a file that was not there, and what to call when there may be something to record.

    It leaves nothing of a run that has never begun: the next one can take the same name.  Ends the command if there is
    such a file, or none can be made.
    """
    has_begun = False

    def begin() -> None:
        nonlocal has_begun
        has_begun = True

    with ExitStack() as stack:
        if not is_special(path):  # a pipe, or what a caller has open, is written to as it is
            made = Path(os.path.realpath(path))
            try:
                # In one step: of two that want the same name at the same time, one gets it.  So an empty file is none
                # to take: it may be that of a run that has recorded nothing yet.
                os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            except FileExistsError:
                unusable(f"--trace: {path} exists already, and a recording is never overwritten: name a new file")
            except OSError as error:
                unusable(f"--trace: cannot write {path}: {error.strerror or error}")

            def take_back() -> None:
                if not has_begun:
                    made.unlink(missing_ok=True)

            stack.callback(take_back)
        try:
            # A file of Parquet cannot be read if the process is killed, however little is buffered.
            buffered = {} if path.suffix == ".parquet" else {"buffered_events": _EVENTS_LOST_AT_MOST}
            trace = FileTrace(path, **buffered)
        except TraceWriteError as error:
            unusable(f"--trace: cannot write {path}: {error.reason}")
        with trace:
            yield trace, begin


class Whole(Protocol):
    """An exchange, whatever it is made of."""

    exchange: Exchange
    """The one to dial."""
    most_memory: int | None
    """As ``Limits.max_memory``, of all of it."""

    @property
    def has_failed(self) -> bool:
        """Is a part of it lost?"""
        ...

    async def begin(self, on_over: Callable[[], None]) -> None:
        """Have the channels; it calls ``on_over`` if it cannot go on."""

    async def opened(self, address: str) -> None:
        """The exchange can be dialled there."""

    @property
    def names(self) -> Collection[str]:
        """The names of its channels."""
        ...

    @property
    def most_bytes(self) -> int | None:
        """As ``Exchange.most_bytes``."""
        ...

    @property
    def before_streams_bytes(self) -> int:
        """The most bytes that handshakes and suspended streams hold."""
        ...

    async def traffic(self) -> Statistics:
        """The traffic of all channels."""
        ...

    def collector(self) -> ExchangeCollector:
        """For Prometheus."""
        ...

    async def drain(self, seconds: float) -> None:
        """Empty it, for this long at most."""

    async def stop(self) -> tuple[Statistics, Remainder]:
        """The last numbers; its streams are over."""
        ...

    async def aclose(self) -> None:
        """Leave nothing behind."""


class OneProcess:
    """An exchange that is in this process."""

    def __init__(self, exchange: Exchange, add_channels: Callable[[], object]) -> None:
        """Serve an exchange in this process; the second argument adds its channels."""
        self.exchange, self._add_channels = exchange, add_channels
        self.most_memory = exchange.admission.limits.max_memory

    @property
    def has_failed(self) -> bool:
        """See ``Whole``."""
        return False

    async def begin(self, on_over: Callable[[], None]) -> None:
        """See ``Whole``."""
        self._add_channels()

    async def opened(self, address: str) -> None:
        """See ``Whole``."""

    @property
    def names(self) -> Collection[str]:
        """See ``Whole``."""
        return self.exchange.names

    @property
    def most_bytes(self) -> int | None:
        """See ``Whole``."""
        return self.exchange.most_bytes

    @property
    def before_streams_bytes(self) -> int:
        """See ``Whole``."""
        return self.exchange.admission.memory.before_streams_bytes

    async def traffic(self) -> Statistics:
        """See ``Whole``."""
        return await traffic_through(self.exchange)

    def collector(self) -> ExchangeCollector:
        """See ``Whole``."""
        return ExchangeCollector(self.exchange)

    async def drain(self, seconds: float) -> None:
        """See ``Whole``."""
        await drain(self.exchange, seconds)

    async def stop(self) -> tuple[Statistics, Remainder]:
        """See ``Whole``."""
        return await traffic_through(self.exchange), remainder(self.exchange)

    async def aclose(self) -> None:
        """See ``Whole``."""


async def serve_until_signal(
    whole: Whole,
    addresses: Sequence[str],
    report: ServeReport,
    begin: Callable[[], None],
    *,
    drain_seconds: float,
    metrics_address: str | None,
    ui_address: str | None,
    access: AccessControl | None,
    serving: Mapping[str, Any],
) -> bool:
    """Serve until SIGINT (True), or SIGTERM or a terminal that hangs up (False).

    ``serving``: further arguments of ``ExchangeServer``.

    Raises:
        StoreError: another exchange has taken the store over; all streams were ended.
        InvalidOptionError: the address for metrics or for the page cannot be had.
        InvalidParametersError: an address needs TLS, or a file for TLS cannot be used.
        TransportError: an address cannot be had.
    """
    stopped: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    _resolve_by_signals(stopped)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(whole.aclose)
        await whole.begin(lambda: None if stopped.done() else stopped.set_result(False))
        # The channels stay as long as the process: to look for garbage among tens of thousands takes a quarter of a
        # second, in which no stream is served.
        gc.freeze()
        servers = []
        for address in addresses:
            server = ExchangeServer(whole.exchange, address, access=access, **serving)
            servers.append(await stack.enter_async_context(server))
        await whole.opened(servers[0].address)
        listening = [server.address for server in servers]
        metrics: str | None = None
        page: str | None = None
        if metrics_address is not None:
            metrics = await stack.enter_async_context(metrics_at(metrics_address, whole.collector()))
        if ui_address is not None:
            protection = serving["security"]
            board = serving_dashboard(ui_address, whole.exchange, listening, security=protection, access=access)
            page = await stack.enter_async_context(board)
        begin()
        report.listening(
            listening,
            [*whole.names],
            whole.most_bytes,
            before_streams_bytes=whole.before_streams_bytes,
            limit_bytes=whole.most_memory,
        )
        if metrics is not None:
            report.metrics(metrics)
        if page is not None:
            report.page(page)
        lost = asyncio.ensure_future(whole.exchange.until_lost())
        stack.callback(lost.cancel)
        lost.add_done_callback(lambda task: _give_up(stopped, task))
        begun = await _watch(whole, report, stopped)
        if (error := stopped.exception()) is not None:
            raise error  # nothing can be kept any more, so there is nothing to drain
        report.stopping()
        draining = asyncio.ensure_future(whole.drain(drain_seconds))
        await _watch(whole, report, draining)
        await draining
        async with asyncio.TaskGroup() as group:
            for server in servers:
                group.create_task(server.stop())
        traffic, rest = await whole.stop()
        report.stopped(rates_between(begun, traffic), rest)
    return stopped.result()


def _give_up(stopped: "asyncio.Future[bool]", lost: "asyncio.Future[StoreError]") -> None:
    if not (lost.cancelled() or stopped.done()):
        stopped.set_exception(lost.result())


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


async def _watch(whole: Whole, report: ServeReport, until: "asyncio.Future[T]") -> Statistics | None:
    """Report what flows; return what there was at first, None if nothing is shown."""
    if report.style.value is None:
        await asyncio.wait({until})
        return None
    turns, first = whole.exchange.turns, await whole.traffic()
    before = first
    while not until.done():
        await asyncio.wait({until}, timeout=report.style.value)
        now = await whole.traffic()
        await turns.all(report.show(await turns.all(each_rates_between(before, now))))
        before = now
    return first


@asynccontextmanager
async def metrics_at(address: str, collector: ExchangeCollector) -> AsyncIterator[str]:
    """Serve metrics while the block runs; the address, with the port that was chosen.  Call it in the event loop.

    Raises:
        InvalidOptionError: the address cannot be had.
    """
    from prometheus_client import CollectorRegistry, MetricsHandler, ProcessCollector

    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)  # it registers itself: memory, processor, descriptors

    class Handler(MetricsHandler):
        timeout = READER_SECONDS
        is_answering = False

        def do_GET(self) -> None:  # noqa: N802  # so http.server calls it
            try:
                super().do_GET()
            except TimeoutError:
                if self.is_answering:  # the reader takes nothing, and hears nothing else
                    raise
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "the exchange does not answer: it is busy, or ends")

        def send_response(self, code: int, message: str | None = None) -> None:
            self.is_answering = True
            super().send_response(code, message)

    # The library's own server has a thread for each reader, however many there are, and waits for them for ever.
    try:
        server = PageServer(host.strip("[]"), int(port), Handler.factory(registry))
    except OSError as error:
        reason = f"cannot be had: {error.strerror or error}"
        raise InvalidOptionError(option="--metrics-address", value=address, reason=reason) from error
    async with serving(server) as chosen:
        yield f"http://{host}:{chosen}/metrics"
