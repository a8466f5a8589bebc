"""The way from one worker to the next: a boundary, which keeps what is not acknowledged, and the inlet behind it.

    worker 1:  source -> decode -> Boundary ══ TCP ══> Inlet -> count -> encode -> sink  : worker 2

Both ways go over one connection.  Down go lines; up go acknowledgements and signals, in the order in which they arose:
a mute is always ahead of the acknowledgement of what was counted after it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from permitflow.mute.graph import Marks, Signal
from permitflow.mute.messages import (
    Kind,
    Peer,
    data_body,
    number_body,
    read_data,
    read_number,
    read_signal,
    signal_body,
)
from permitflow.mute.pipeline import Feed, Lines, Pipeline
from permitflow.mute.saving import Saving
from permitflow.mute.sockets import Address, Buffers, dial, listening, sizes_of

UNACKNOWLEDGED = Marks(high_mark=256, low_mark=128)
"""Messages at a boundary that mute, and unmute; Wallaroo's are 16,383 and 16,383."""


@dataclass(kw_only=True)
class Boundary:
    """Sends lines to the next worker, and mutes while too many are not acknowledged, or nobody is there.

    After a lost connection it sends again what was not acknowledged.
    """

    pipeline: Pipeline
    name: str
    address: Address
    buffers: Buffers = field(default_factory=Buffers)
    marks: Marks = UNACKNOWLEDGED
    on_safe: Callable[[str, int], None] = lambda origin, next_line: None
    """Is called when the lines of an origin before this number are safe."""

    def __post_init__(self) -> None:
        """Begin to connect."""
        graph = self.pipeline.graph
        graph.add_muter(self.name, self.marks)
        self._remote = f"{self.name} far end"
        graph.add_relay(self._remote)
        graph.connect(self.name, self._remote)
        self.pipeline.set_open(self.name, False)
        self._unacknowledged: deque[tuple[int, Lines]] = deque()
        self._last = 0
        self._peer: Peer | None = None
        self._early: list[Signal] | None = None
        self._connecting = asyncio.create_task(self._connect())
        self.pipeline.own(self)

    async def _connect(self) -> None:
        made = await dial(self.address, self.buffers)
        # Until the welcome has come, its signals are only part of those that hold.
        self._early = []
        self._peer = Peer(made, on_message=self._on_message, on_lost=self._on_lost)
        self._peer.send(Kind.HELLO, self.name.encode())
        for number, lines in self._unacknowledged:
            self._peer.send(Kind.DATA, data_body(number, lines))

    def send(self, lines: Lines) -> None:
        """Send, or keep until there is a connection; never waits."""
        self._last += 1
        self._unacknowledged.append((self._last, lines))
        if self._peer is not None:
            self._peer.send(Kind.DATA, data_body(self._last, lines))
        self.pipeline.report(self.name, len(self._unacknowledged))

    def _on_message(self, kind: Kind, body: bytes) -> None:
        match kind:
            case Kind.SIGNAL if self._early is not None:
                self._early.append(read_signal(body))
            case Kind.SIGNAL:
                self.pipeline.graph.receive(self.name, self._remote, read_signal(body))
                self.pipeline.settle()
            case Kind.WELCOME if self._early is not None:
                self._begin(body.decode(), self._early)
            case Kind.ACKNOWLEDGE:
                self._on_acknowledged(read_number(body))
            case _:
                assert self._peer is not None
                self._peer.close()
                self._on_lost(f"it has said {kind.name}, which does not belong here")

    def _begin(self, peer: str, signals: list[Signal]) -> None:
        """A worker is there: those that mute now take the place of those behind the former connection."""
        graph, self._early = self.pipeline.graph, None
        graph.disconnect(self.name, self._remote)
        graph.connect(self.name, self._remote)
        for signal in signals:
            graph.receive(self.name, self._remote, signal)
        self.pipeline.settle()
        self.pipeline.hear({"event": "opened", "boundary": self.name, "to": peer})
        self.pipeline.set_open(self.name, True)

    def _on_acknowledged(self, number: int) -> None:
        safe: dict[str, int] = {}
        while self._unacknowledged and self._unacknowledged[0][0] <= number:
            _, lines = self._unacknowledged.popleft()
            safe[lines.origin] = lines.first + len(lines.lines)
        for origin, next_line in safe.items():
            self.on_safe(origin, next_line)
        self.pipeline.report(self.name, len(self._unacknowledged))

    def _on_lost(self, reason: str) -> None:
        self._peer, self._early = None, None
        self.pipeline.hear({"event": "lost", "boundary": self.name, "reason": reason})
        self.pipeline.set_open(self.name, False)
        self._connecting = asyncio.create_task(self._connect())

    def close(self) -> None:
        """End the connection now; what is not acknowledged is dropped."""
        self._connecting.cancel()
        if self._peer is not None:
            self._peer.close()


@dataclass(kw_only=True)
class Inlet:
    """Listens for boundaries, and feeds what they send.

    It reads on while sources are muted: what is in flight still arrives, and the boundaries hear of the mute.
    """

    pipeline: Pipeline
    name: str
    feed: Feed
    downstream: str
    """The next node of the graph."""
    saving: Saving
    """What ``feed`` takes is acknowledged when it is saved."""
    address: Address = ("127.0.0.1", 0)
    buffers: Buffers = field(default_factory=Buffers)

    def __post_init__(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be had.
        """
        self._loop = asyncio.get_running_loop()
        self._socket = listening(self.address, self.buffers)
        self.address = self._socket.getsockname()
        self.sizes = sizes_of(self._socket)
        self.pipeline.chain(self.name, self.downstream)
        self._connections: dict[str, _Upstream] = {}
        self._accepted = 0
        self.saving.on_saved.append(self._acknowledge)
        self._loop.add_reader(self._socket.fileno(), self._on_connection)
        self.pipeline.own(self)

    def _on_connection(self) -> None:
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        self._accepted += 1
        name = f"{self.name}/{self._accepted}"
        upstream = _Upstream()
        upstream.peer = Peer(
            accepted,
            on_message=lambda kind, body: self._on_message(name, kind, body),
            on_lost=lambda reason: self._on_lost(name, reason),
        )
        self._connections[name] = upstream

    def _on_message(self, name: str, kind: Kind, body: bytes) -> None:
        upstream = self._connections[name]
        match kind:
            case Kind.HELLO if not upstream.is_known:
                upstream.is_known = True
                self.pipeline.add_remote(
                    name, self.name, lambda signal: upstream.peer.send(Kind.SIGNAL, signal_body(signal))
                )
                upstream.peer.send(Kind.WELCOME, self.name.encode())
                self.pipeline.hear({"event": "opened", "inlet": name, "from": body.decode()})
            case Kind.DATA if upstream.is_known:
                upstream.received, lines = read_data(body)
                self.feed(lines)
            case _:
                upstream.peer.close()
                self._on_lost(name, f"it has said {kind.name}, which does not belong here")

    def _acknowledge(self) -> None:
        for upstream in self._connections.values():
            upstream.acknowledge()

    def _on_lost(self, name: str, reason: str) -> None:
        del self._connections[name]
        self.pipeline.remove_remote(name)
        self.pipeline.hear({"event": "lost", "inlet": name, "reason": reason})

    def close(self) -> None:
        """Listen no more, and close all connections."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        for name, upstream in [*self._connections.items()]:
            upstream.peer.close()
            self._on_lost(name, "the pipeline has ended")


class _Upstream:
    """A boundary of another worker."""

    peer: Peer

    def __init__(self) -> None:
        self.is_known = False
        """Has it said its name?"""
        self.received = self._acknowledged = 0

    def acknowledge(self) -> None:
        """Say that all is safe that has come."""
        if self.received > self._acknowledged:
            self._acknowledged = self.received
            self.peer.send(Kind.ACKNOWLEDGE, number_body(self.received))
