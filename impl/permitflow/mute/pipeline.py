"""Sources and sinks over TCP in one process: while a sink's short write is not made up for, no source reads.

    outside sender  ->  TcpSource  ->  (decode  ->  count  ->  encode)  ->  TcpSink  ->  outside reader

A source that does not read fills the kernel's buffers, and TCP stops the outside sender.  So the bytes between both
outsides have a bound, ``Bound``, that does not depend on how long the reader stands still.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import inf
from typing import NamedTuple, Protocol

from permitflow.callables import plain_of_one
from permitflow.carriers.accepting import accepted
from permitflow.change import Change
from permitflow.errors import FrameTooLongError, InvalidParametersError, SinkStalledError
from permitflow.lasting import lasting_task
from permitflow.mute.graph import Marks, MuteGraph, Signal
from permitflow.mute.sockets import (
    HANDSHAKE_SECONDS,
    MOST_CONNECTIONS,
    Address,
    BufferedConnection,
    Buffers,
    Listener,
    close_listening,
    dialled,
    kernel_bytes,
    listening,
    peeked,
    sizes_of,
    transported,
)
from permitflow.patience import Countdown, patience
from permitflow.stages.core.framing import Frames
from permitflow.stages.core.ports import EMPTY

Event = dict[str, object]

READ_BYTES = 16_384
"""What a source reads at once."""
LINE_BYTES = 4_096
"""The longest line; a connection with a longer one is closed."""
STALL_SECONDS = 10.0
_BETWEEN_READERS_SECONDS = 0.1
_MOST_DRAIN_SECONDS = 86_400


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
    """Bytes in the kernel between senders and sources."""
    inside: int
    """Bytes in the processes of the pipeline."""
    behind: int
    """Bytes in the kernel between sinks and readers."""

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
    stall: Countdown | None = None


@dataclass(frozen=True, kw_only=True)
class SourceState:
    """What a source does now."""

    muted_by: Sequence[str]
    muted_share: float
    """The share of the time since it was added in which it was muted."""


class Pipeline:
    """The sources and muters of one process, with their graph: it pauses and resumes sources as the graph says."""

    def __init__(
        self, *, stall_seconds: float = STALL_SECONDS, hear: Callable[[Event], None] = lambda event: None
    ) -> None:
        """Nothing flows yet.

        Args:
            stall_seconds: a source that is muted for longer is reported.
            hear: is called with each event: ``muted``, ``unmuted``, ``stalled``, ``opened``, ``closed``, ``lost``,
                ``dials`` (nobody answers yet); and at most once a minute ``refused`` (too many connections),
                ``stranger`` and ``unreachable`` (no free descriptor), with the ``times`` since.
        """
        if not 0 < stall_seconds < inf:  # NaN neither
            raise InvalidParametersError(name="stall_seconds", value=stall_seconds, rule="must be above 0, and finite")
        self.graph = MuteGraph()
        self.hear = plain_of_one(hear, place="hear")
        self._stall_seconds = stall_seconds
        self._loop = asyncio.get_running_loop()
        self._sources: dict[str, _Source] = {}
        self._backlogs: dict[str, int] = {}
        self._remotes: dict[str, tuple[str, Callable[[Signal], None]]] = {}
        self._parts: list[Closes] = []
        self._reported = Change()
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
        self.settle()
        # Those that muted before it was there: nothing has changed for it, and it is told all the same.
        added = self._sources.get(name)
        if added is not None and added.muted_since is None and self.graph.is_muted(name):
            self._mute(name)

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
        self._remotes[name] = downstream, plain_of_one(send, place="add_remote(send=…)")
        self.settle()

    def remove_remote(self, name: str) -> None:
        """Forget an upstream of another process."""
        if self._remotes.pop(name, None) is not None:
            self.graph.remove(name)

    def report(self, muter: str, backlog: int) -> None:
        """See ``MuteGraph.report``; sources pause and resume before this returns."""
        self._backlogs[muter] = backlog
        self._reported.note()
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
            # What hears of an event may remove a node.
            for signal in self.graph.take(remote, downstream) if remote in self._remotes else ():
                send(signal)
        for name, is_muted in changed.items():
            if name in self._sources:
                (self._mute if is_muted else self._unmute)(name)

    def _mute(self, name: str) -> None:
        source = self._sources[name]
        source.muted_since = self._loop.time()
        source.stall = Countdown(self._stall_seconds, partial(self._on_stall, name))
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
            SinkStalledError: something is left after this many seconds.
            InvalidParametersError: ``seconds`` is not a number from 0 to a day; nothing has changed.
        """
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds <= _MOST_DRAIN_SECONDS:  # NaN neither
            raise InvalidParametersError(name="seconds", value=seconds, rule="must be a number from 0 to 86,400")
        self._is_draining = True
        for name, source in [*self._sources.items()]:
            source.reads.pause()
            self.remove_source(name)
        try:
            async with patience(seconds):
                await self._reported.until(lambda: not any(self._backlogs.values()))
        except TimeoutError:
            left = {muter: backlog for muter, backlog in self._backlogs.items() if backlog}
            if not left:  # the last was written in the same moment
                return
            raise SinkStalledError(sinks=tuple(left), left=sum(left.values()), seconds=seconds) from None

    def close(self) -> None:
        """End at once, even if sources are muted; what waits here is dropped."""
        for part in [*reversed(self._parts)]:
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
    most_connections: int = MOST_CONNECTIONS
    """Further ones are closed, unless one has gone meanwhile, or has said nothing since it came."""
    handshake_seconds: float = HANDSHAKE_SECONDS
    """A connection makes room for others that want its place after this time without a word."""

    def __post_init__(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be had.
        """
        self._listener = Listener(self.address, self.buffers, self._admit, self.pipeline.hear, source=self.name)
        self.address, self.sizes = self._listener.address, self._listener.sizes
        self.connections: dict[str, _OutsideSender] = {}
        self._admitted = self._next_line = 0
        self.pipeline.own(self)

    def emit(self, lines: list[bytes]) -> None:
        """Feed lines of a connection; the lines of all connections are numbered together."""
        first, self._next_line = self._next_line, self._next_line + len(lines)
        self.feed(Lines(self.name, first, lines))

    def _admit(self) -> "_OutsideSender | None":
        if len(self.connections) >= self.most_connections:
            silent = next((each for each in self.connections.values() if each.may_be_replaced), None)
            if silent is None:
                self._listener.tell("refused", connections=len(self.connections))
                return None
            silent.close(f"it has said nothing, and there are {self.most_connections} connections")
        self._admitted += 1
        name = f"{self.name}/{self._admitted}"
        made = self.connections[name] = _OutsideSender(self, name)
        return made

    def close(self) -> None:
        """Listen no more, and close all connections."""
        self._listener.close()
        for connection in [*self.connections.values()]:
            connection.close("the pipeline has ended")


class _OutsideSender(BufferedConnection):
    """An outside sender: TCP stops it when it is not read, and the kernel's buffers are full."""

    def __init__(self, source: TcpSource, name: str) -> None:
        self._source, self._name = source, name
        self.buffer = bytearray(source.read_bytes)
        self._frames = Frames(b"\n", source.line_bytes, allow_truncation=True)
        self._since = asyncio.get_running_loop().time()
        self._has_spoken = False

    def on_made(self, transport: asyncio.Transport) -> None:
        transport.pause_reading()
        pipeline = self._source.pipeline
        pipeline.hear({"event": "opened", "source": self._name})
        pipeline.add_source(self._name, self._source.downstream, self)

    def resume(self) -> None:
        """See ``Reads``."""
        if self.transport is not None:
            self.transport.resume_reading()

    def pause(self) -> None:
        """See ``Reads``."""
        if self.transport is not None:
            self.transport.pause_reading()

    def buffer_updated(self, nbytes: int) -> None:
        self._has_spoken = True
        self._frames.gather(bytes(self.buffer[:nbytes]))
        self._emit_all(self._whole_lines)

    def eof_received(self) -> None:
        self._emit_all(lambda: [self._frames.last()] if self._frames.holds() else [])

    def _emit_all(self, lines_of: Callable[[], list[bytes]]) -> None:
        try:
            if lines := lines_of():
                self._source.emit(lines)
        except FrameTooLongError as error:
            self.close(str(error))

    def _whole_lines(self) -> list[bytes]:
        lines: list[bytes] = []
        while (line := self._frames.next_whole()) is not EMPTY:
            lines.append(line)
        return lines

    @property
    def may_be_replaced(self) -> bool:
        """Has it gone unnoticed, or said nothing for long?"""
        if self.transport is None or self._has_spoken:
            return False
        try:
            with self.transport.get_extra_info("socket").dup() as connection:  # asyncio's own does not read
                first = peeked(connection)  # while it is muted, its words wait in the kernel
        except OSError:
            return False
        is_late = asyncio.get_running_loop().time() - self._since >= self._source.handshake_seconds
        return first == b"" or (first is None and is_late)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error or ""))

    def close(self, reason: str) -> None:
        """End it now."""
        self.break_off()
        self._end(reason)

    def _end(self, reason: str) -> None:
        """An empty reason means that the sender has ended its stream."""
        if self._source.connections.pop(self._name, None) is not None:
            self._source.pipeline.remove_source(self._name)
            self._source.pipeline.hear({"event": "closed", "source": self._name, "reason": reason})


class Sink(Protocol):
    """Takes counts as text."""

    def write(self, data: bytes) -> None:
        """Take whole lines; never waits."""


@dataclass(kw_only=True)
class TcpSink(BufferedConnection):
    """Writes to an outside reader; mutes while there is none, and while the kernel does not take all that it writes.

    It connects to its reader, or with ``listens`` waits for one at a time to connect.  A reader that is lost is looked
    for again; so is one that closes its half: a sink reads its socket, and drops what a reader says.  What was written
    to the lost one and not read is gone with it.
    """

    pipeline: Pipeline
    name: str
    address: Address
    buffers: Buffers = field(default_factory=Buffers)
    high_mark: int = 0
    """It mutes with more bytes than this to write, and unmutes when all of them are written."""
    listens: bool = False
    """Is ``address`` our own?"""
    on_open: Callable[[], None] = lambda: None
    """Is called when a reader is there, before the sources may read: to write what it must know of earlier."""

    def __post_init__(self) -> None:
        """Begin to connect, or to listen.

        Raises:
            OSError: the address cannot be had.
        """
        self._listening = listening(self.address, self.buffers, may_stand_still=True) if self.listens else None
        if self._listening is not None:
            self.address = self._listening.getsockname()
        self.pipeline.graph.add_muter(self.name, Marks(high_mark=self.high_mark))
        self.pipeline.set_open(self.name, False)
        self.buffer = bytearray(1_024)
        self._left = Change()
        self.sizes = self.buffers
        """The sizes of the socket's buffers, as the kernel has set them; valid once it is connected."""
        self.short_writes = 0
        """Writes that the kernel has not taken whole, on all connections."""
        self.peak_rest_bytes = 0
        self._serving = lasting_task(self._serve(), name=f"{self.name} has a reader")
        self.pipeline.own(self)

    async def _serve(self) -> None:
        async for connection in self._connections():
            if peeked(connection) == b"":  # it has gone already, as one that only looks whether anybody listens
                connection.close()
                continue
            self.sizes = sizes_of(connection)
            await transported(self, connection)
            await self._left.until(lambda: self.transport is None)
            if self.listens:
                await asyncio.sleep(_BETWEEN_READERS_SECONDS)  # those who come and go cause no storm of events

    async def _connections(self) -> AsyncGenerator[socket.socket]:
        if self._listening is None:
            async for connection in dialled(self.address, self.buffers, self._complain, may_stand_still=True):
                yield connection
        else:
            async for connection, _ in accepted(self._listening, self._complain):
                yield connection

    def _complain(self, reason: str) -> None:
        event = "unreachable" if self.listens else "dials"
        self.pipeline.hear({"event": event, "sink": self.name, "at": list(self.address), "reason": reason})

    def on_made(self, transport: asyncio.Transport) -> None:
        """See ``BufferedConnection``."""
        transport.set_write_buffer_limits(high=0)
        self.pipeline.hear({"event": "opened", "sink": self.name})
        self.on_open()
        self.pipeline.set_open(self.name, True)

    def connection_lost(self, error: Exception | None) -> None:
        """See ``asyncio``."""
        if self.transport is None:  # it was closed here
            return
        self.transport = None
        self.pipeline.hear({"event": "lost", "sink": self.name, "reason": str(error or "it has left")})
        self.pipeline.set_open(self.name, False)
        self.pipeline.report(self.name, 0)
        self._left.note()

    def eof_received(self) -> None:
        """See ``asyncio``: what waits here is for nobody."""
        self.break_off()

    def pause_writing(self) -> None:
        """See ``asyncio``: a short write."""
        self.short_writes += 1

    def resume_writing(self) -> None:
        """See ``asyncio``: all is written."""
        self.pipeline.report(self.name, 0)

    def write(self, data: bytes) -> None:
        """See ``Sink``; without a reader the data are dropped, as those that a lost reader has not read."""
        if (transport := self.open_transport) is not None:
            transport.write(data)
            self.peak_rest_bytes = max(self.peak_rest_bytes, self.rest_bytes)
            self.pipeline.report(self.name, self.rest_bytes)

    def close(self) -> None:
        """Close it now."""
        self._serving.cancel()
        if self._listening is not None:
            close_listening(self._listening)
        self.break_off()
        self.transport = None
