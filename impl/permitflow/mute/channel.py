"""The way from one worker to the next: a boundary, which keeps what is not acknowledged, and the inlet behind it.

    worker 1:  source -> decode -> Boundary ══ TCP ══> Inlet -> count -> encode -> sink  : worker 2

Both ways go over one connection.  Down go lines; up go acknowledgements and signals, in the order in which they arose:
a mute is always ahead of the acknowledgement of what was counted after it.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

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
from permitflow.mute.sockets import Address, Buffers, Listener, dial

UNACKNOWLEDGED = Marks(high_mark=256, low_mark=128)
"""Messages at a boundary that mute, and unmute; Wallaroo's are 16,383 and 16,383."""


@dataclass(kw_only=True)
class Dialling:
    """The dialling end of a connection that is made again whenever it is lost."""

    pipeline: Pipeline
    name: str
    address: Address
    buffers: Buffers = field(default_factory=Buffers)

    _word: ClassVar[str]
    """What events call it."""

    def __post_init__(self) -> None:
        """Begin to connect."""
        self._peer: Peer | None = None
        self._connecting = asyncio.create_task(self._connect())
        self.pipeline.own(self)

    async def _connect(self) -> None:
        made = await dial(self.address, self.buffers)
        self._peer = Peer(made, on_message=self._on_message, on_lost=self._on_lost)
        self._on_open()

    def _on_open(self) -> None:
        """There is a new connection."""

    def _on_message(self, kind: Kind, body: bytes) -> None:
        """A message has come: by default, one that does not belong here."""
        if self._peer is not None:
            self._peer.close()
            self._on_lost(f"it has said {kind.name}, which does not belong here")

    def _on_lost(self, reason: str) -> None:
        self._peer = None
        self.pipeline.hear({"event": "lost", self._word: self.name, "reason": reason})
        self._connecting = asyncio.create_task(self._connect())

    def _say(self, kind: Kind, body: bytes) -> None:
        """Write a message; without a connection it is dropped."""
        if self._peer is not None:
            self._peer.send(kind, body)

    def close(self) -> None:
        """End the connection now; what is not acknowledged is dropped."""
        self._connecting.cancel()
        if self._peer is not None:
            self._peer.close()


@dataclass(kw_only=True)
class Sender(Dialling):
    """Numbers its messages, keeps those that are not acknowledged, and mutes while they are too many.

    Without a connection it mutes, too; a new one gets again what was not acknowledged.
    """

    marks: Marks = UNACKNOWLEDGED

    _word: ClassVar[str] = "sink"

    def __post_init__(self) -> None:
        """Begin to connect."""
        self.pipeline.graph.add_muter(self.name, self.marks)
        self.pipeline.set_open(self.name, False)
        self._unacknowledged: deque[tuple[int, Lines]] = deque()
        self._last = 0
        super().__post_init__()

    def _on_open(self) -> None:
        self._send_again()
        self._begin()

    def _send_again(self) -> None:
        for number, lines in self._unacknowledged:
            self._say(Kind.DATA, data_body(number, lines))

    def _begin(self, **facts: object) -> None:
        self.pipeline.hear({"event": "opened", self._word: self.name, **facts})
        self.pipeline.set_open(self.name, True)

    def send(self, lines: Lines) -> None:
        """Send, or keep until there is a connection; never waits."""
        self._last += 1
        self._unacknowledged.append((self._last, lines))
        self._say(Kind.DATA, data_body(self._last, lines))
        self.pipeline.report(self.name, len(self._unacknowledged))

    def _on_message(self, kind: Kind, body: bytes) -> None:
        if kind is not Kind.ACKNOWLEDGE:
            super()._on_message(kind, body)
            return
        number, safe = read_number(body), dict[str, int]()
        while self._unacknowledged and self._unacknowledged[0][0] <= number:
            _, lines = self._unacknowledged.popleft()
            safe[lines.origin] = lines.first + len(lines.lines)
        self._on_safe(safe)
        self.pipeline.report(self.name, len(self._unacknowledged))

    def _on_safe(self, next_lines: Mapping[str, int]) -> None:
        """The lines of each origin before this number are safe."""

    def _on_lost(self, reason: str) -> None:
        super()._on_lost(reason)
        self.pipeline.set_open(self.name, False)


@dataclass(kw_only=True)
class Boundary(Sender):
    """Sends lines to the next worker, and mutes while too many are not acknowledged, or nobody is there.

    After a lost connection it sends again what was not acknowledged.
    """

    on_safe: Callable[[str, int], None] = lambda origin, next_line: None
    """Is called when the lines of an origin before this number are safe."""

    _word: ClassVar[str] = "boundary"

    def __post_init__(self) -> None:
        """Begin to connect."""
        super().__post_init__()
        self._remote = f"{self.name} far end"
        self.pipeline.chain(self.name, self._remote)
        self._early: list[Signal] | None = None

    def _on_open(self) -> None:
        # Until the welcome has come, its signals are only part of those that hold.
        self._early = []
        self._say(Kind.HELLO, self.name.encode())
        self._send_again()

    def _on_message(self, kind: Kind, body: bytes) -> None:
        match kind:
            case Kind.SIGNAL if self._early is not None:
                self._early.append(read_signal(body))
            case Kind.SIGNAL:
                self.pipeline.graph.receive(self.name, self._remote, read_signal(body))
                self.pipeline.settle()
            case Kind.WELCOME if self._early is not None:
                self._welcome(body.decode(), self._early)
            case _:
                super()._on_message(kind, body)

    def _welcome(self, peer: str, signals: list[Signal]) -> None:
        """A worker is there: those that mute now take the place of those behind the former connection."""
        graph, self._early = self.pipeline.graph, None
        graph.disconnect(self.name, self._remote)
        graph.connect(self.name, self._remote)
        for signal in signals:
            graph.receive(self.name, self._remote, signal)
        self.pipeline.settle()
        self._begin(to=peer)

    def _on_safe(self, next_lines: Mapping[str, int]) -> None:
        for origin, next_line in next_lines.items():
            self.on_safe(origin, next_line)


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
        self._listener = Listener(self.address, self.buffers, self._on_connection)
        self.address, self.sizes = self._listener.address, self._listener.sizes
        self.pipeline.chain(self.name, self.downstream)
        self._connections: dict[str, _Upstream] = {}
        self._accepted = 0
        self.saving.on_saved.append(self._acknowledge)
        self.pipeline.own(self)

    def _on_connection(self, accepted: socket.socket) -> None:
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
        self._listener.close()
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
