"""A process that receives metrics and shows them: ``python -m examples.jobs.monitor SETTINGS``, the settings as JSON.

It reports its addresses as ``ready``, and all that it knows as ``final`` when SIGTERM or Ctrl-C ends it.  Its page is
at ``/``; ``/state.json`` is what it knows.
"""

import asyncio
import json
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from time import monotonic_ns, time_ns

from permitflow.errors import InvalidOptionError, TransportError
from permitflow_tools.explain.page_server import PageHandler, PageServer, serving

from ..child_process import Address, address_of, report, run_process, text_of, until_asked_to_end
from .collecting import SAMPLE_NS, Collector, MonitorState
from .metrics_core import MOST_PACKET_BYTES, SECOND_NS, packet_period_ns
from .page import page_of, parts_of
from .settings import ProcessSettings

PACKETS_AT_ONCE = 64
"""Then the event loop has a turn."""
MOST_WAITING_PACKETS = 4_096
"""Which are taken before the state is said; who floods the socket cannot put it off for longer."""

# Linux' names of what else it tells about a packet; Python has none for them.
_SO_RXQ_OVFL = 40
_SO_TIMESTAMPNS = 35
_ANCILLARY_BYTES = 256

Page = tuple[str, Callable[[MonitorState], str]]
PAGES: Mapping[str, Page] = {
    "/": ("text/html", lambda state: page_of(state, is_live=True)),
    "/live.json": ("application/json", lambda state: json.dumps(parts_of(state))),
    "/state.json": ("application/json", json.dumps),
}
"""By path: the type, and the text."""


@dataclass(frozen=True, kw_only=True)
class MonitorSettings(ProcessSettings):
    """Where the monitor listens, what it can take, and what it is told of the others."""

    udp: str = "127.0.0.1:0"
    page: str = "127.0.0.1:0"
    packets_per_second: int = 200
    """What all senders together promise not to exceed."""
    senders: int = 8
    sources: Sequence[str] = ()
    """Whose packets are taken; none: anybody's."""
    queue_capacity: int = 0
    """The capacity of the master's queue, to stand beside the figure; 0: unknown."""
    resend_seconds: float = 0.0
    """After how long clients send again, to stand beside the figure; 0: unknown."""
    lose: float = 0.0
    """The share of packets that is lost on purpose, after they were measured against the limit."""
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            InvalidOptionError: a number or an address cannot be so.
        """
        packet_period_ns(self.packets_per_second, self.senders)
        for address in (self.udp, self.page):
            address_of(address)
        if not 0 <= self.lose <= 1:  # NaN neither
            raise InvalidOptionError(option="lose", value=self.lose, reason="must be a share, from 0 to 1")


class PacketSocket:
    """A UDP socket that says when packets arrived, and how many it had no room for, as far as the kernel tells."""

    def __init__(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be had.
        """
        family, kind, protocol, _, found = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        self._socket = socket.socket(family, kind, protocol)
        self.overflowed = 0
        try:
            self._socket.setblocking(False)
            if sys.platform == "linux":
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
            self._socket.bind(found)
        except OSError:
            self._socket.close()
            raise
        host, port = self._socket.getsockname()[:2]
        self.address: Address = host, port

    def fileno(self) -> int:
        """For an event loop."""
        return self._socket.fileno()

    def read(self, most: int) -> Iterator[tuple[bytes, int]]:
        """Up to this many packets that have arrived, and when, in nanoseconds of the wall clock.

        A packet that is too long is cut after one byte too many.
        """
        for _ in range(most):
            try:
                content, told, _, _ = self._socket.recvmsg(MOST_PACKET_BYTES + 1, _ANCILLARY_BYTES)
            except BlockingIOError:
                return
            at_ns = time_ns()
            for _, kind, value in told:
                if kind == _SO_TIMESTAMPNS:
                    seconds, nanoseconds = struct.unpack("qq", value)
                    at_ns = seconds * SECOND_NS + nanoseconds
                elif kind == _SO_RXQ_OVFL:
                    self.overflowed = struct.unpack("I", value)[0]
            yield content, at_ns

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


class Monitor:
    """Receives packets, and knows what they tell."""

    def __init__(self, settings: MonitorSettings) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be had.
        """
        self._settings = settings
        self._chance, self._lost = Random(settings.seed), 0
        self._collector = Collector(settings.packets_per_second, monotonic_ns(), settings.sources)
        self._socket = PacketSocket(address_of(settings.udp))
        self.address = self._socket.address

    def read(self, most: int = PACKETS_AT_ONCE) -> None:
        """Take what has arrived, up to this many packets."""
        for content, at_ns in self._socket.read(most):
            self._collector.arrive(at_ns)
            if self._chance.random() < self._settings.lose:
                self._lost += 1
            else:
                self._collector.take(content, monotonic_ns())
        self._collector.overflowed = self._socket.overflowed

    def state(self) -> MonitorState:
        """All that it knows, also of what has just arrived."""
        self.read(MOST_WAITING_PACKETS)
        state = self._collector.state(monotonic_ns())
        return MonitorState(
            **state,
            lost_on_purpose=self._lost,
            bounds={
                "queue_capacity": self._settings.queue_capacity,
                "resend_seconds": self._settings.resend_seconds,
            },
        )

    async def watch(self) -> None:
        """Read packets, and take samples, until this is cancelled."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._socket, self.read)
        try:
            while True:
                self._collector.sample(monotonic_ns(), time_ns())
                await asyncio.sleep(SAMPLE_NS / SECOND_NS)
        finally:
            loop.remove_reader(self._socket)

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


class _Server(PageServer):
    def __init__(self, address: Address, state: Callable[[], MonitorState]) -> None:
        self._state = state
        super().__init__(*address, _Handler)

    async def state(self) -> MonitorState:
        return self._state()


class _Handler(PageHandler):
    server: _Server

    def do_GET(self) -> None:  # noqa: N802  # so http.server calls it
        page = PAGES.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND, explain=f"there are {', '.join(PAGES)}")
            return
        kind, text_of = page
        self.send(HTTPStatus.OK, kind, text_of(self.server.asked(self.server.state())).encode())


@asynccontextmanager
async def serving_pages(address: Address, state: Callable[[], MonitorState]) -> AsyncIterator[str]:
    """Serve the page while the block runs; its address.  ``state`` is called in this event loop.

    Raises:
        OSError: the address cannot be had.
    """
    async with serving(_Server(address, state)) as port:
        yield f"http://{address[0]}:{port}/"


async def run_monitor(settings: MonitorSettings) -> None:
    """Run until this process is asked to end.

    Raises:
        OSError: an address cannot be had.
    """
    with closing(Monitor(settings)) as monitor:

        async def watch() -> None:
            async with serving_pages(address_of(settings.page), monitor.state) as page:
                report("ready", udp=text_of(monitor.address), page=page)  # SIGTERM may follow at once
                await monitor.watch()

        await until_asked_to_end(watch())
        report("final", **monitor.state())


async def main() -> None:
    """Run a monitor until it is asked to end.

    Raises:
        TransportError: an address cannot be had.
    """
    settings = MonitorSettings.from_command_line()
    try:
        await run_monitor(settings)
    except OSError as error:
        what = f"cannot listen at {settings.udp} over UDP, or at {settings.page}"
        raise TransportError.of(what=what, cause=error) from error


if __name__ == "__main__":
    run_process(main())
