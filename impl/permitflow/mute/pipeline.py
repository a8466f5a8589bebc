"""Sources and sinks over TCP in one process: while a sink's short write is not made up for, no source reads.

    outside sender  ->  TcpSource  ->  (decode  ->  count  ->  encode)  ->  TcpSink  ->  outside reader

A source that does not read fills the kernel's buffers, and TCP stops the outside sender.  So the bytes between both
outsides have a bound, ``Bound``, that does not depend on how long the reader stands still.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

from permitflow.errors import FrameTooLongError, InvalidParametersError, SinkStalledError
from permitflow.mute.graph import Marks, MuteGraph, Signal
from permitflow.mute.sockets import Address, Buffers, Listener, Outlet, dial, kernel_bytes, listening, sizes_of
from permitflow.stages.core.framing import Frames
from permitflow.stages.core.ports import EMPTY

Event = dict[str, object]

READ_BYTES = 16_384
"""What a source reads at once."""
LINE_BYTES = 4_096
"""The longest line; a connection with a longer one is closed."""
STALL_SECONDS = 10.0


class Lines(NamedTuple):
    """Some lines of one origin, in order."""

    origin: str
    """Who numbers them: a source, or a log."""
    first: int
    """The number of the first one."""
    lines: Sequence[bytes]


Feed = Callable[[Lines], None]
"""Takes what a source has read."""


class Reads(Protocol):
    """What can be muted."""

    def pause(self) -> None:
        """Do not read any more."""

    def resume(self) -> None:
        """Read again."""


class Closes(Protocol):
    """What has a socket or a task."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The most bytes of input that outside senders have written, and that no outside reader has received as counts.

    A word's count is longer than the word and what follows it, so each byte of input makes at least one of output.
    """

    before: int
    """In the kernel, between senders and sources."""
    inside: int
    """In the processes of the pipeline."""
    behind: int
    """In the kernel, between sinks and readers."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.before + self.inside + self.behind


def pipeline_bound(
    *,
    sources: Iterable[tuple[Buffers, Buffers]],
    sinks: Iterable[tuple[Buffers, Buffers]],
    read_bytes: int = READ_BYTES,
    line_bytes: int = LINE_BYTES,
    backlog_bytes: int = 0,
    unacknowledged: int = 0,
    boundaries: int = 0,
) -> Bound:
    """The bound of a pipeline, by the sizes of its sockets as ``sizes_of`` reads them back.

    In one process, the first rest of a sink mutes all sources at once: inside are the rest, which is made of one read,
    and the begun line of each source.  Behind a boundary to another process a mute comes before all acknowledgements of
    what was counted later, on the same connection; so no more than its unacknowledged messages, of a read each, can
    follow the one that made the sink mute.

    Args:
        sources: for each connection the sender's socket and the source's.
        sinks: for each the sink's socket and the reader's.
        read_bytes: read at once.
        line_bytes: of the longest line.
        backlog_bytes: the high mark of the sinks.
        unacknowledged: the high mark of each boundary, in messages.
        boundaries: how many there are; 0: all is in one process.
    """
    connections = [*sources]
    readers = [*sinks]
    reads = 1 + (unacknowledged + 1) * boundaries
    return Bound(
        before=sum(kernel_bytes(sender, source) for sender, source in connections),
        inside=reads * read_bytes + len(connections) * line_bytes + len(readers) * backlog_bytes,
        behind=sum(kernel_bytes(sink, reader) for sink, reader in readers),
    )


@dataclass
class _Source:
    reads: Reads
    since: float
    muted_since: float | None = None
    muted_seconds: float = 0.0
    stall: asyncio.TimerHandle | None = None


@dataclass(frozen=True, kw_only=True)
class SourceState:
    """What a source does now."""

    muted_by: Sequence[str]
    muted_share: float
    """Of the time since it was added."""


class Pipeline:
    """The sources and muters of one process, with their graph: it pauses and resumes sources as the graph says."""

    def __init__(
        self, *, stall_seconds: float = STALL_SECONDS, hear: Callable[[Event], None] = lambda event: None
    ) -> None:
        """Nothing flows yet.

        Args:
            stall_seconds: a source that is muted for longer is reported.
            hear: is called with each event: ``muted``, ``unmuted``, ``stalled``, ``opened``, ``closed``, ``lost``.
        """
        if stall_seconds <= 0:
            raise InvalidParametersError(name="stall_seconds", value=stall_seconds, rule="must be above 0")
        self.graph = MuteGraph()
        self.hear = hear
        self._stall_seconds = stall_seconds
        self._loop = asyncio.get_running_loop()
        self._sources: dict[str, _Source] = {}
        self._backlogs: dict[str, int] = {}
        self._remotes: dict[str, tuple[str, Callable[[Signal], None]]] = {}
        self._parts: list[Closes] = []
        self._drained = asyncio.Event()
        self._is_draining = False

    def chain(self, *names: str) -> None:
        """Add relays for all names that are new, and connect each with the next."""
        for name in names:
            if name not in self.graph:
                self.graph.add_relay(name)
        for upstream, downstream in pairwise(names):
            self.graph.connect(upstream, downstream)

    def own(self, part: Closes) -> None:
        """Close it with the pipeline."""
        self._parts.append(part)

    def add_source(self, name: str, downstream: str, reads: Reads) -> None:
        """Add a source that is muted at first, and is resumed at once unless a muter mutes it."""
        self._sources[name] = _Source(reads, self._loop.time())
        self.graph.add_source(name)
        self.graph.connect(name, downstream)
        if not self._is_draining:
            self.graph.start(name)
        if self.graph.is_muted(name):
            self._mute(name)
        self.settle()

    def remove_source(self, name: str) -> None:
        """Forget a source that has ended."""
        if (source := self._sources.pop(name, None)) is not None:
            if source.stall is not None:
                source.stall.cancel()
            self.graph.remove(name)

    def add_remote(self, name: str, downstream: str, send: Callable[[Signal], None]) -> None:
        """Add an upstream of another process; it is told by ``send`` who mutes, now and later."""
        self.graph.add_remote(name)
        self.graph.connect(name, downstream)
        self._remotes[name] = downstream, send
        self.settle()

    def remove_remote(self, name: str) -> None:
        """Forget an upstream of another process."""
        if self._remotes.pop(name, None) is not None:
            self.graph.remove(name)

    def report(self, muter: str, backlog: int) -> None:
        """See ``MuteGraph.report``; sources pause and resume before this returns."""
        self._backlogs[muter] = backlog
        if not backlog and not any(self._backlogs.values()):
            self._drained.set()
        if self.graph.report(muter, backlog):
            self.settle()

    def set_open(self, muter: str, is_open: bool) -> None:
        """See ``MuteGraph.set_open``."""
        if self.graph.set_open(muter, is_open):
            self.settle()

    def settle(self) -> None:
        """Deliver all signals, pause and resume sources, and tell other processes."""
        changed = self.graph.settle()
        for remote, (downstream, send) in [*self._remotes.items()]:
            for signal in self.graph.take(remote, downstream):
                send(signal)
        for name, is_muted in changed.items():
            if is_muted:
                self._mute(name)
            else:
                self._unmute(name)

    def _mute(self, name: str) -> None:
        source = self._sources[name]
        source.muted_since = self._loop.time()
        source.stall = self._loop.call_later(self._stall_seconds, self._on_stall, name)
        source.reads.pause()
        self._tell("muted", name)

    def _unmute(self, name: str) -> None:
        source = self._sources[name]
        if source.muted_since is not None:
            source.muted_seconds += self._loop.time() - source.muted_since
            source.muted_since = None
        if source.stall is not None:
            source.stall.cancel()
            source.stall = None
        source.reads.resume()
        self._tell("unmuted", name)

    def _on_stall(self, name: str) -> None:
        self._tell("stalled", name, seconds=self._stall_seconds)

    def _tell(self, event: str, source: str, **facts: object) -> None:
        muters = sorted(self.graph.muted_by(source))
        self.hear({"event": event, "source": source, "by": muters, "at_seconds": self._loop.time(), **facts})

    def state(self) -> Mapping[str, SourceState]:
        """What each source does."""
        return {name: self._state_of(name, source) for name, source in self._sources.items()}

    def _state_of(self, name: str, source: _Source) -> SourceState:
        now = self._loop.time()
        muted = source.muted_seconds + (0.0 if source.muted_since is None else now - source.muted_since)
        share = muted / (now - source.since) if now > source.since else 0.0
        return SourceState(muted_by=sorted(self.graph.muted_by(name)), muted_share=share)

    @property
    def backlogs(self) -> Mapping[str, int]:
        """What waits at each muter, as it has reported last."""
        return dict(self._backlogs)

    async def drain(self, seconds: float) -> None:
        """Read no more, and wait until nothing waits at any muter.

        Raises:
            SinkStalledError: something is left after so many seconds.
        """
        self._is_draining = True
        for name, source in [*self._sources.items()]:
            source.reads.pause()
            self.remove_source(name)
        try:
            while any(self._backlogs.values()):
                self._drained.clear()
                await asyncio.wait_for(self._drained.wait(), seconds)
        except TimeoutError:
            left = {muter: backlog for muter, backlog in self._backlogs.items() if backlog}
            raise SinkStalledError(sinks=tuple(left), left=sum(left.values()), seconds=seconds) from None

    def close(self) -> None:
        """End at once, even if sources are muted; what waits here is dropped."""
        for part in reversed(self._parts):
            part.close()
        for name in [*self._sources]:
            self.remove_source(name)


@dataclass(kw_only=True)
class TcpSource:
    """Listens, and reads lines from each connection; each is a source of its own."""

    pipeline: Pipeline
    name: str
    feed: Feed
    downstream: str
    """The next node of the graph."""
    address: Address = ("127.0.0.1", 0)
    buffers: Buffers = field(default_factory=Buffers)
    read_bytes: int = READ_BYTES
    line_bytes: int = LINE_BYTES
    most_connections: int = 64
    """Further ones are closed."""

    def __post_init__(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be had.
        """
        self._listener = Listener(self.address, self.buffers, self._on_connection)
        self.address, self.sizes = self._listener.address, self._listener.sizes
        self.connections: dict[str, _Connection] = {}
        self._accepted = self._next_line = 0
        self.pipeline.own(self)

    def emit(self, lines: list[bytes]) -> None:
        """Feed lines of a connection; the lines of all connections are numbered together."""
        first, self._next_line = self._next_line, self._next_line + len(lines)
        self.feed(Lines(self.name, first, lines))

    def _on_connection(self, accepted: socket.socket) -> None:
        if len(self.connections) >= self.most_connections:
            accepted.close()
            self.pipeline.hear({"event": "refused", "source": self.name, "connections": len(self.connections)})
            return
        self._accepted += 1
        name = f"{self.name}/{self._accepted}"
        self.connections[name] = _Connection(self, name, accepted)
        self.pipeline.hear({"event": "opened", "source": name})
        self.pipeline.add_source(name, self.downstream, self.connections[name])

    def close(self) -> None:
        """Listen no more, and close all connections."""
        self._listener.close()
        for connection in [*self.connections.values()]:
            connection.close("the pipeline has ended")


class _Connection:
    """One outside sender."""

    def __init__(self, source: TcpSource, name: str, connection: socket.socket) -> None:
        self._source, self._name, self._socket = source, name, connection
        self._frames = Frames(b"\n", source.line_bytes, allow_truncation=True)
        self._loop = asyncio.get_running_loop()

    def resume(self) -> None:
        """See ``Reads``."""
        self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def pause(self) -> None:
        """See ``Reads``: TCP stops the sender when the kernel's buffers are full."""
        self._loop.remove_reader(self._socket.fileno())

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(self._source.read_bytes)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        try:
            if data:
                self._frames.gather(data)
                self._emit(self._whole_lines())
            else:
                self._emit([self._frames.last()] if self._frames.holds() else [])
                self.close("")
        except FrameTooLongError as error:
            self.close(str(error))

    def _whole_lines(self) -> list[bytes]:
        lines: list[bytes] = []
        while (line := self._frames.next_whole()) is not EMPTY:
            lines.append(line)
        return lines

    def _emit(self, lines: list[bytes]) -> None:
        if lines:
            self._source.emit(lines)

    def close(self, reason: str) -> None:
        """End it; an empty reason means that the sender has ended its stream."""
        if self._source.connections.pop(self._name, None) is None:
            return
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._source.pipeline.remove_source(self._name)
        self._source.pipeline.hear({"event": "closed", "source": self._name, "reason": reason})


class Sink(Protocol):
    """Takes counts as text."""

    def write(self, data: bytes) -> None:
        """Take whole lines; never waits."""


@dataclass(kw_only=True)
class TcpSink:
    """Writes to an outside reader; mutes while there is none, and while it has more to write than its marks allow.

    It connects to its reader, or with ``listens`` waits for one at a time to connect.  A reader that is lost is looked
    for again.  What was written to the lost one and not read is gone with it.
    """

    pipeline: Pipeline
    name: str
    address: Address
    buffers: Buffers = field(default_factory=Buffers)
    marks: Marks = field(default_factory=Marks)
    listens: bool = False
    """Is ``address`` our own?"""
    on_open: Callable[[], None] = lambda: None
    """Is called when a reader is there, before the sources may read: to write what it must know of earlier."""

    def __post_init__(self) -> None:
        """Begin to connect, or to listen.

        Raises:
            OSError: the address cannot be had.
        """
        self._listening = listening(self.address, self.buffers) if self.listens else None
        if self._listening is not None:
            self.address = self._listening.getsockname()
        self.pipeline.graph.add_muter(self.name, self.marks)
        self.pipeline.set_open(self.name, False)
        self._outlet: Outlet | None = None
        self.sizes = self.buffers
        """Of the socket, as the kernel has set them; valid once it is connected."""
        self.peak_rest_bytes = 0
        self._connecting = asyncio.create_task(self._connect())
        self.pipeline.own(self)

    async def _connect(self) -> None:
        if self._listening is not None:
            made, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        else:
            made = await dial(self.address, self.buffers)
        self.sizes = sizes_of(made)
        self._outlet = Outlet(made, on_rest=self._on_rest, on_lost=self._on_lost)
        self.pipeline.hear({"event": "opened", "sink": self.name})
        self.on_open()
        self.pipeline.set_open(self.name, True)

    def _on_rest(self, rest_bytes: int) -> None:
        self.peak_rest_bytes = max(self.peak_rest_bytes, rest_bytes)
        self.pipeline.report(self.name, rest_bytes)

    def _on_lost(self, error: OSError) -> None:
        self._outlet = None
        self.pipeline.hear({"event": "lost", "sink": self.name, "reason": str(error)})
        self.pipeline.set_open(self.name, False)
        self.pipeline.report(self.name, 0)
        self._connecting = asyncio.create_task(self._connect())

    def write(self, data: bytes) -> None:
        """See ``Sink``; without a reader the data are dropped, as those that a lost reader has not read."""
        if self._outlet is not None:
            self._outlet.write(data)

    @property
    def short_writes(self) -> int:
        """Writes that the kernel has not taken whole, on this connection."""
        return 0 if self._outlet is None else self._outlet.short_writes

    def close(self) -> None:
        """Close it now."""
        self._connecting.cancel()
        if self._listening is not None:
            self._listening.close()
        if self._outlet is not None:
            self._outlet.close()
