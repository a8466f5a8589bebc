"""The way from one worker to the next: a boundary, which keeps what is not acknowledged, and the inlet behind it.

    worker 1:  source -> decode -> Boundary ══ TCP ══> Inlet -> count -> encode -> sink  : worker 2

Both ways go over one connection.  Down go lines; up go acknowledgements and signals, in the order in which they arose:
a mute is always ahead of the acknowledgement of what was counted after it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from permitflow.lasting import lasting_task
from permitflow.mute.graph import Marks
from permitflow.mute.messages import (
    LinkMessageKind,
    Peer,
    data_body,
    in_messages,
    number_body,
    read_data,
    read_number,
    read_signal,
    signal_body,
)
from permitflow.mute.pipeline import Feed, Lines, Pipeline
from permitflow.mute.saving import Saving
from permitflow.mute.sockets import (
    HANDSHAKE_SECONDS,
    MOST_CONNECTIONS,
    Address,
    Buffers,
    Listener,
    dialled,
    transported,
)

UNACKNOWLEDGED = Marks(high_mark=256, low_mark=128)
"""Messages at a boundary that mute, and unmute; Wallaroo's are 16,383 and 16,383."""


@dataclass(kw_only=True)
class Dialling:
    """The dialling end of a connection that is made again whenever it is lost."""

    pipeline: Pipeline
    name: str
    address: Address
    buffers: Buffers = field(default_factory=Buffers)

    handshake_seconds: float = HANDSHAKE_SECONDS
    """The deadline for the peer's first answer, where the protocol has one."""

    _word: ClassVar[str]
    """What events call it."""
    _expects: ClassVar[tuple[LinkMessageKind, ...]]
    """What the peer may say at first."""
    _has_handshake: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Begin to connect."""
        self._peer: Peer | None = None
        self._keeping = lasting_task(self._keep_connected(), name=f"{self.name} stays connected")
        self.pipeline.own(self)

    async def _keep_connected(self) -> None:
        async for made in dialled(self.address, self.buffers, self._complain):
            peer = Peer(
                expects=self._expects,
                on_message=self._on_message,
                on_lost=self._on_lost,
                on_open=self._take_over,
                handshake_seconds=self.handshake_seconds if self._has_handshake else None,
            )
            await transported(peer, made)
            await peer.lost.wait()

    def _complain(self, reason: str) -> None:
        self.pipeline.hear({"event": "dials", self._word: self.name, "at": list(self.address), "reason": reason})

    def _take_over(self, peer: Peer) -> None:
        self._peer = peer
        self._on_open()

    def _on_open(self) -> None:
        """There is a new connection."""

    def _on_message(self, kind: LinkMessageKind, body: bytes) -> None:
        """An expected message has come."""

    def _on_lost(self, reason: str) -> None:
        self._peer = None
        self.pipeline.hear({"event": "lost", self._word: self.name, "reason": reason})

    def _say(self, kind: LinkMessageKind, body: bytes) -> None:
        """Write a message; without a connection it is dropped."""
        if self._peer is not None:
            self._peer.send(kind, body)

    def close(self) -> None:
        """End the connection now; what is not acknowledged is dropped."""
        self._keeping.cancel()
        if self._peer is not None:
            self._peer.close()


@dataclass(kw_only=True)
class Sender(Dialling):
    """Numbers its messages, keeps those that are not acknowledged, and mutes while they are too many.

    It mutes without a connection, too; a new one gets again what was not acknowledged.
    """

    marks: Marks = UNACKNOWLEDGED

    _word: ClassVar[str] = "sink"
    _expects: ClassVar[tuple[LinkMessageKind, ...]] = (LinkMessageKind.ACKNOWLEDGE,)

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
            self._say(LinkMessageKind.DATA, data_body(number, lines))

    def _begin(self, **facts: object) -> None:
        self.pipeline.hear({"event": "opened", self._word: self.name, **facts})
        self.pipeline.set_open(self.name, True)

    def send(self, lines: Lines) -> None:
        """Send, or keep until there is a connection; never waits.

        Raises:
            InvalidParametersError: a line is too long for a message.
        """
        for portion in [*in_messages(lines)]:  # all of them, or none
            self._last += 1
            self._unacknowledged.append((self._last, portion))
            self._say(LinkMessageKind.DATA, data_body(self._last, portion))
        self.pipeline.report(self.name, len(self._unacknowledged))

    def _on_message(self, kind: LinkMessageKind, body: bytes) -> None:
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
    _expects: ClassVar[tuple[LinkMessageKind, ...]] = (LinkMessageKind.WELCOME, LinkMessageKind.SIGNAL)
    _has_handshake: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Begin to connect."""
        super().__post_init__()
        self._remote = f"{self.name} far end"
        self.pipeline.chain(self.name, self._remote)

    def _on_open(self) -> None:
        # Who mutes now is told before the welcome; until then this boundary mutes in their place.
        self.pipeline.graph.reconnect(self.name, self._remote)
        self.pipeline.settle()
        self._say(LinkMessageKind.HELLO, self.name.encode())
        self._send_again()

    def _on_message(self, kind: LinkMessageKind, body: bytes) -> None:
        match kind:
            case LinkMessageKind.SIGNAL:
                self.pipeline.graph.receive(self.name, self._remote, read_signal(body))
                self.pipeline.settle()
            case LinkMessageKind.WELCOME:
                if self._peer is not None:
                    self._peer.expect(LinkMessageKind.SIGNAL, LinkMessageKind.ACKNOWLEDGE)
                self._begin(to=body.decode())
            case _:
                super()._on_message(kind, body)

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
    most_connections: int = MOST_CONNECTIONS
    """Further ones are closed."""
    handshake_seconds: float = HANDSHAKE_SECONDS
    """The deadline for a boundary to say its name."""

    def __post_init__(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be had.
        """
        self._listener = Listener(self.address, self.buffers, self._admit, self.pipeline.hear, inlet=self.name)
        self.address, self.sizes = self._listener.address, self._listener.sizes
        self.pipeline.chain(self.name, self.downstream)
        self._connections: dict[str, _Upstream] = {}
        self._accepted = 0
        self.saving.on_saved.append(self._acknowledge)
        self.pipeline.own(self)

    def _admit(self) -> Peer | None:
        if len(self._connections) >= self.most_connections:
            self._listener.tell("refused", connections=len(self._connections))
            return None
        self._accepted += 1
        name = f"{self.name}/{self._accepted}"
        peer = Peer(
            expects=(LinkMessageKind.HELLO,),
            on_message=lambda kind, body: self._on_message(name, kind, body),
            on_lost=lambda reason: self._on_lost(name, reason),
            handshake_seconds=self.handshake_seconds,
        )
        self._connections[name] = _Upstream(peer)
        return peer

    def _on_message(self, name: str, kind: LinkMessageKind, body: bytes) -> None:
        upstream = self._connections[name]
        if kind is LinkMessageKind.DATA:
            upstream.received, lines = read_data(body)
            self.feed(lines)
            return
        caller = body.decode()
        upstream.is_known = True
        upstream.peer.expect(LinkMessageKind.DATA)
        self.pipeline.add_remote(
            name, self.name, lambda signal: upstream.peer.send(LinkMessageKind.SIGNAL, signal_body(signal))
        )
        upstream.peer.send(LinkMessageKind.WELCOME, self.name.encode())
        self.pipeline.hear({"event": "opened", "inlet": name, "from": caller})

    def _acknowledge(self) -> None:
        for upstream in [*self._connections.values()]:
            upstream.acknowledge()

    def _on_lost(self, name: str, reason: str) -> None:
        if self._connections.pop(name).is_known:
            self.pipeline.remove_remote(name)
            self.pipeline.hear({"event": "lost", "inlet": name, "reason": reason})
        else:
            self._listener.tell("stranger", reason=reason)

    def close(self) -> None:
        """Listen no more, and close all connections."""
        self._listener.close()
        for name, upstream in [*self._connections.items()]:
            upstream.peer.close()
            self._on_lost(name, "the pipeline has ended")


@dataclass
class _Upstream:
    """A boundary of another worker."""

    peer: Peer
    is_known: bool = False
    """Has it said its name?"""
    received: int = 0
    acknowledged: int = 0

    def acknowledge(self) -> None:
        """Say that all is safe that has come."""
        if self.received > self.acknowledged:
            self.acknowledged = self.received
            self.peer.send(LinkMessageKind.ACKNOWLEDGE, number_body(self.received))
