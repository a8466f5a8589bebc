"""Metrics of a process, over UDP to the monitor: counted in memory, sent as totals, at a limited rate."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import monotonic_ns

from permitflow.carriers.addresses import parsed
from permitflow.errors import InvalidOptionError

from .metrics_core import SECOND_NS, Reporter, packet_period_ns, require_source

LAST_PACKETS = 8
"""The last totals are sent so often: of packets that are lost at random, one in three, eight in a row are rare."""
LAST_SECONDS = 3.0
"""And no longer than this."""


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """Where metrics go, whose they are, and how fast."""

    monitor: str = ""
    """``host:port`` over UDP; empty: nowhere."""
    source: str = ""
    """The name of the process."""
    incarnation: int = 1
    """The number of its start."""
    packets_per_second: int = 200
    """What the monitor can take from all together, in any window of a second."""
    senders: int = 8
    """How many processes send to it at a time."""

    def __post_init__(self) -> None:
        """Refuse what cannot be sent.

        Raises:
            InvalidOptionError: a name or a number cannot be so.
            InvalidParametersError: neither can the address.
        """
        packet_period_ns(self.packets_per_second, self.senders)
        if self.monitor:
            require_source(self.source)
            parsed(self.monitor)


class Metrics:
    """What a process counts; another task sends it."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._changed = asyncio.Event()

    @property
    def totals(self) -> Mapping[str, int]:
        """All that it has counted."""
        return self._reporter.totals

    def count(self, name: str, by: int = 1) -> None:
        """Add to a total.

        Raises:
            InvalidOptionError: a packet cannot have this name.
        """
        self._reporter.count(name, by)
        self._changed.set()

    def gauge(self, name: str, value: float) -> None:
        """Say how something is now.

        Raises:
            InvalidOptionError: a packet cannot have this name.
        """
        self._reporter.gauge(name, value)
        self._changed.set()

    def took_result(self, source: str, incarnation: int) -> None:
        """Count a result of another process, for the case that it is killed before it can say so itself."""
        self._reporter.took_result(source, incarnation)
        self._changed.set()

    async def send(self, to: socket.socket) -> None:
        """Send packets whenever one may leave and has something to say, until this is cancelled."""
        while True:
            await self._may_send()
            self._send_one(to)

    async def send_last(self, to: socket.socket) -> None:
        """Send the last totals again and again: nobody answers, and some of the packets may be lost."""
        for _ in range(LAST_PACKETS * self._reporter.accounts):
            await self._may_leave()
            self._send_one(to)

    async def _may_leave(self) -> None:
        # A timer may be early by less than the clock's resolution: then it sleeps again.
        while (wait_ns := self._reporter.may_leave_ns - monotonic_ns()) > 0:  # noqa: ASYNC110  # nobody sets an event
            await asyncio.sleep(wait_ns / SECOND_NS)

    async def _may_send(self) -> None:
        await self._may_leave()
        while (wait_ns := self._reporter.due_ns() - monotonic_ns()) > 0:
            # What changes meanwhile is due at once.
            self._changed.clear()
            # Python 3.11's wait_for would forget a cancellation that comes together with the change.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ns / SECOND_NS):
                    await self._changed.wait()

    def _send_one(self, to: socket.socket) -> None:
        # Without a monitor, or with a full buffer, the packet is lost as any may be: the next one has it all.
        with suppress(OSError):
            to.send(self._reporter.packet(monotonic_ns()))
        self._reporter.has_left(monotonic_ns())


@asynccontextmanager
async def sending_metrics(settings: MetricsSettings) -> AsyncIterator[Metrics]:
    """Send what is counted in this block; at its end, also by cancellation, the last totals.

    Raises:
        InvalidOptionError: the address is unknown.
    """
    period_ns = packet_period_ns(settings.packets_per_second, settings.senders)
    metrics = Metrics(Reporter(settings.source or "nobody", settings.incarnation, period_ns, monotonic_ns()))
    if not settings.monitor:
        yield metrics
        return
    _, host, port = parsed(settings.monitor)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        reason = f"is unknown ({error.strerror})"
        raise InvalidOptionError(option="monitor", value=settings.monitor, reason=reason) from error
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as to:
        to.setblocking(False)
        to.connect(address)
        sending = asyncio.create_task(metrics.send(to))
        try:
            yield metrics
        finally:
            sending.cancel()
            await asyncio.wait({sending})
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await metrics.send_last(to)
