"""A network between simulated hosts: sockets as the kernel makes them, with every fault that the kernel reports late.

Bytes come in order, late, and in parts.  A connection may be cut (each side hears of it at another time, or never), one
direction may fall silent or end early, a bit may be flipped, and hosts may be cut off from each other for a while, as
TCP then repeats what was lost.  Datagrams are in ``datagrams.py``.
"""

import errno
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.simulator.world import Host, World

if TYPE_CHECKING:
    import asyncio

    from tests.simulator.datagrams import DatagramSocket

Buffer: TypeAlias = bytes | bytearray | memoryview
Address: TypeAlias = tuple[str, int]

CONNECT_SECONDS = 127.0
"""As long as Linux tries."""
KEEP_ALIVE_SECONDS = 30.0
"""After which a socket with keep-alive notices that nothing comes from the other host."""
_LEAST_BUFFER_BYTES = 4_608
"""Linux grants no less."""


@dataclass(frozen=True)
class Conditions:
    """Of a network."""

    least_latency_seconds: float = 1e-4
    most_latency_seconds: float = 1e-3
    capacity_bytes: int = 1 << 16
    """Of one direction of a connection: what is written and not read."""
    short_share: float = 0.0
    """Of writes, and of reads, that move only a part of the bytes."""
    lost_share: float = 0.0
    """Of datagrams that are lost."""
    doubled_share: float = 0.0
    """Of datagrams of which a copy comes, too; some copies come seconds late."""
    altered_share: float = 0.0
    """Of datagrams in which a bit flips."""
    datagram_bytes: int = 1_200
    """The longest datagram of a stream."""
    inbox_bytes: int = 425_984
    """Of datagrams that wait for their reader.  What Linux gives who asks for more: twice ``net.core.rmem_max``."""


def flipped(content: bytes, random: Random) -> tuple[bytes, int]:
    """The same with another bit, and in which byte that is."""
    at = random.randrange(len(content))
    bit = 1 << random.randrange(8)
    return content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :], at


class _Mark(Enum):
    END = auto()
    """The writer has closed its half."""


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: "Network", writer: "SimulatedSocket", reader: "SimulatedSocket") -> None:
        self._network, self._world = network, network.world
        self.writer, self.reader = writer, reader
        self.arrived: deque[memoryview] = deque()
        self._under_way: deque[bytes | _Mark] = deque()
        self.unread_bytes = 0
        self.has_ended = False
        """Will no byte come behind those that have?"""
        self.is_silent = self.is_cut = self.is_closing = False
        self._latest = 0.0
        self.flips_next = False
        self.carried_bytes = 0

    def room(self) -> int:
        """How many bytes may be written now."""
        return 0 if self.is_closing else self._network.conditions.capacity_bytes - self.unread_bytes

    def write(self, content: bytes) -> None:
        """Carry bytes for which there is room."""
        self.unread_bytes += len(content)
        if self.flips_next:
            self.flips_next = False
            content, at = flipped(content, self._world.random)
            self._world.tell(self.reader.name, f"a bit of byte {self.carried_bytes + at} from {self.writer.name} flips")
        self.carried_bytes += len(content)
        self._send(content)

    def end(self) -> None:
        """No byte follows."""
        if not self.is_closing:
            self.is_closing = True
            self._send(_Mark.END)

    def _send(self, content: "bytes | _Mark") -> None:
        if not (self.is_silent or self.is_cut):
            network = self._network
            due = network.arrival(self.writer.host, self.reader.host)
            self._latest = max(self._latest, due)
            self._under_way.append(content)
            self._world.at(self._latest, self._arrive)

    @property
    def _heals_at(self) -> float:
        return self._network.heals_at(self.writer.host, self.reader.host)

    def _arrive(self) -> None:
        """The next one, whatever was to come when: a partition delays some, and never reorders."""
        if self.is_cut or self.is_silent:
            return
        if (heals := self._heals_at) > self._world.now:
            self._latest = max(self._latest, heals)
            self._world.at(self._latest, self._arrive)
            return
        self._take_in(self._under_way.popleft())

    def _take_in(self, content: "bytes | _Mark") -> None:
        if self.has_ended or self.reader.is_closed:
            if self.reader.is_closed and isinstance(content, bytes):
                self._network.reset(self)
            return
        if isinstance(content, bytes):
            self._world.note(b"%r>%d:" % (self._world.now, self.reader.descriptor))
            self._world.note(content)
            self.arrived.append(memoryview(content))
        else:
            self.has_ended = True
        self.reader.look()

    def end_early(self) -> None:
        """The reader sees an end that the writer did not make."""
        if not (self.is_cut or self.is_silent or self._heals_at > self._world.now):
            self._take_in(_Mark.END)
        self.is_silent = True

    def take(self, room: memoryview) -> int:
        """Move what has come into this room."""
        filled, arrived = 0, self.arrived
        while arrived and filled < len(room):
            first = arrived[0]
            part = first[: len(room) - filled]
            room[filled : filled + len(part)] = part
            filled += len(part)
            if len(part) == len(first):
                arrived.popleft()
            else:
                arrived[0] = first[len(part) :]
        self.unread_bytes -= filled
        # The writer's kernel hears of the room as late as of anything else.
        if filled and not (self.is_silent or self.is_cut):
            self._world.at(self._network.arrival(self.reader.host, self.writer.host), self.writer.look)
        return filled


class SimulatedSocket:
    """A socket of a simulated host, as production code uses it."""

    type, proto = socket.SOCK_STREAM, socket.IPPROTO_TCP

    def __init__(
        self, family: int = socket.AF_INET, host: Host | None = None, network: "Network | None" = None
    ) -> None:
        """Not connected; of the host whose turn it is."""
        from asyncio import get_running_loop

        self.host = host or _host_of(get_running_loop())
        self.network = network or self.host.world.network
        self.family = family
        self.descriptor = self.host.world.new_number()
        self.name = f"{self.host.name}.{self.descriptor}"
        self.incoming: Pipe | None = None
        self.outgoing: Pipe | None = None
        self.peer: SimulatedSocket | None = None
        self.is_closed = self._is_read_due = self._is_write_due = False
        self.error: OSError | None = None
        self.port = 0
        self.keeps_alive = False
        self.has_power = True
        self.waiting: deque[SimulatedSocket] = deque()
        """Of a listener: connections that nobody has accepted yet."""
        self._accepting: asyncio.Future[None] | None = None
        self.network.sockets[self.descriptor] = self

    # As production code calls it.

    def fileno(self) -> int:
        """See ``socket``."""
        return -1 if self.is_closed else self.descriptor

    def setblocking(self, flag: bool) -> None:
        """See ``socket``; it never blocks."""

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """See ``socket``; keep-alive is known."""
        if (level, option) == (socket.SOL_SOCKET, socket.SO_KEEPALIVE):
            self.keeps_alive = bool(value)

    def getsockopt(self, level: int, option: int) -> int:
        """See ``socket``; of its buffers, which have the capacity of a connection together."""
        assert level == socket.SOL_SOCKET, "nothing else is simulated"
        assert option in (socket.SO_RCVBUF, socket.SO_SNDBUF), "nothing else is simulated"
        return max(_LEAST_BUFFER_BYTES, self.network.conditions.capacity_bytes // 2)

    def bind(self, address: Address) -> None:
        """See ``socket``; a host has one address."""
        self.port = address[1] or 40_000 + self.descriptor

    def listen(self) -> None:
        """See ``socket``."""
        self.network.register(self)

    def getsockname(self) -> Address:
        """See ``socket``."""
        return (self.host.name, self.port or 30_000 + self.descriptor)

    def getpeername(self) -> Address:
        """See ``socket``."""
        if self.peer is None:
            raise OSError(errno.ENOTCONN, "not connected")
        return (self.peer.host.name, self.peer.port or 30_000 + self.peer.descriptor)

    def recv_into(self, buffer: Any) -> int:
        """See ``socket``."""
        pipe = self._connected(self.incoming)
        if pipe.arrived:
            room = memoryview(buffer).cast("B")
            if len(room) > 1 and self.network.is_short():
                room = room[: self.host.world.random.randrange(1, min(len(room), 64))]
            return pipe.take(room)
        if self.error is not None:
            raise self.error
        if pipe.has_ended:
            return 0
        raise BlockingIOError(errno.EAGAIN, "nothing has come")

    def recv(self, size: int, flags: int = 0) -> bytes:
        """See ``socket``."""
        if flags & socket.MSG_PEEK:
            pipe = self._connected(self.incoming)
            if pipe.arrived:
                return bytes(pipe.arrived[0][:size])
        buffer = bytearray(size)
        return bytes(buffer[: self.recv_into(buffer)])

    def dup(self) -> "_Duplicate":
        """See ``socket``."""
        return _Duplicate(self)

    def send(self, data: Buffer) -> int:
        """See ``socket``."""
        return self.sendmsg((data,))

    def sendmsg(self, pieces: Sequence[Buffer]) -> int:
        """See ``socket``."""
        pipe = self._connected(self.outgoing)
        if self.error is not None:
            raise self.error
        if pipe.is_closing:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        room = pipe.room()
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "full")
        content = b"".join(pieces)
        if not content:
            return 0
        if len(content) > 1 and self.network.is_short():
            room = min(room, self.host.world.random.randrange(1, len(content)))
        content = content[:room]
        pipe.write(content)
        return len(content)

    def shutdown(self, how: int) -> None:
        """See ``socket``; of the writing half."""
        pipe = self._connected(self.outgoing)
        if self.error is not None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        assert how == socket.SHUT_WR, "nothing else is simulated"
        pipe.end()

    def close(self) -> None:
        """See ``socket``.  Bytes that nobody has read make the kernel reset the connection."""
        if self.is_closed:
            return
        self.is_closed = True
        self.host.remove_reader(self.descriptor)
        self.host.remove_writer(self.descriptor)
        self.network.close(self)

    def _connected(self, pipe: Pipe | None) -> Pipe:
        if self.is_closed:
            raise OSError(errno.EBADF, "Bad file descriptor")
        if pipe is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return pipe

    # As the event loop calls it.

    async def connect_later(self, address: Address) -> None:
        """Connect to a listener."""
        made = self.host.create_future()
        self.network.connect(self, address, made)
        await made

    async def accept_later(self) -> "tuple[SimulatedSocket, Address]":
        """The next connection."""
        while not self.waiting:
            if self.is_closed:
                raise OSError(errno.EBADF, "Bad file descriptor")
            self._accepting = self.host.create_future()
            await self._accepting
        accepted = self.waiting.popleft()
        return accepted, accepted.getpeername()

    def offer(self, connection: "SimulatedSocket") -> None:
        """Of a listener: somebody has connected."""
        self.waiting.append(connection)
        if self._accepting is not None and not self._accepting.done():
            self._accepting.set_result(None)

    def fail(self, error: OSError) -> None:
        """The kernel knows that the connection is lost."""
        if not self.is_closed and self.error is None:
            self.error = error
            self.look()

    @property
    def _is_readable(self) -> bool:
        pipe = self.incoming
        return pipe is not None and (bool(pipe.arrived) or pipe.has_ended or self.error is not None)

    @property
    def _is_writable(self) -> bool:
        pipe = self.outgoing
        return pipe is not None and (self.error is not None or pipe.room() > 0)

    def look(self) -> None:
        """Wake those who wait for what is possible now."""
        host = self.host
        if not self._is_read_due and host.reader_of(self.descriptor) is not None and self._is_readable:
            self._is_read_due = True
            host.schedule(self._wake_reader)
        if not self._is_write_due and host.writer_of(self.descriptor) is not None and self._is_writable:
            self._is_write_due = True
            host.schedule(self._wake_writer)

    def _wake_reader(self) -> None:
        self._is_read_due = False
        handle = self.host.reader_of(self.descriptor)
        if handle is not None and self._is_readable:
            handle.context.run(handle.callback, *handle.arguments)
            self.look()

    def _wake_writer(self) -> None:
        self._is_write_due = False
        handle = self.host.writer_of(self.descriptor)
        if handle is not None and self._is_writable:
            handle.context.run(handle.callback, *handle.arguments)
            self.look()


class _Duplicate:
    """Another descriptor of a socket."""

    def __init__(self, of: SimulatedSocket) -> None:
        self.recv = of.recv

    def __enter__(self) -> "_Duplicate":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _host_of(loop: object) -> Host:
    assert isinstance(loop, Host), "a simulated socket belongs to a simulated host"
    return loop


class Network:
    """All sockets, and what is wrong between hosts."""

    def __init__(self, world: World, conditions: Conditions) -> None:
        """Without faults."""
        self.world, self.conditions = world, conditions
        world.network = self
        self.sockets: dict[int, SimulatedSocket] = {}
        self.listeners: dict[Address, SimulatedSocket] = {}
        self.mailboxes: dict[Address, DatagramSocket] = {}
        self.connections: list[tuple[SimulatedSocket, SimulatedSocket]] = []
        """Dialler and acceptor of each that was made, in this order."""
        self._heals: dict[frozenset[str], float] = {}

    def listen(self, address: Address) -> SimulatedSocket:
        """A listening socket of the host whose turn it is."""
        listener = SimulatedSocket(network=self)
        listener.port = address[1]
        self.register(listener, address[0])
        return listener

    def register(self, listener: SimulatedSocket, name: str = "") -> None:
        """A bound socket listens from now on."""
        address = name or listener.host.name, listener.port
        if address in self.listeners and not self.listeners[address].is_closed:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self.listeners[address] = listener

    def is_short(self) -> bool:
        """Does a write or a read move only a part?"""
        return self.world.chance(self.conditions.short_share)

    def is_parted(self, one: str, other: str) -> bool:
        """Does nothing pass between these two now?"""
        return bool(self._heals) and self._heals.get(frozenset((one, other)), 0.0) > self.world.now

    def heals_at(self, one: Host, other: Host) -> float:
        """When these two reach each other again; in the past, if they do."""
        return self._heals.get(frozenset((one.name, other.name)), 0.0) if self._heals else 0.0

    def arrival(self, one: Host, other: Host) -> float:
        """When something that leaves now arrives."""
        least, most = self.conditions.least_latency_seconds, self.conditions.most_latency_seconds
        latency = least + (most - least) * self.world.random.random()
        now = self.world.now
        return (max(now, self.heals_at(one, other)) if self._heals else now) + latency

    def connect(self, dialler: SimulatedSocket, address: Address, made: "asyncio.Future[None]") -> None:
        """Bring the request to the listener, if anybody listens there."""
        world, (name, _) = self.world, address

        def settle(error: OSError | None) -> None:
            if not made.done() and dialler.host.is_running_now:
                if error is None:
                    made.set_result(None)
                else:
                    made.set_exception(error)

        def ask() -> None:
            heals = max(
                (when for pair, when in self._heals.items() if pair == frozenset((dialler.host.name, name))), default=0
            )
            if heals > world.now:
                world.at(heals + self.conditions.most_latency_seconds, ask)
                return
            if made.done():
                return
            listener = self.listeners.get(address)
            if listener is None or listener.is_closed:
                error = ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {name}")
                world.after(self.conditions.most_latency_seconds, settle, error)
                return
            acceptor = SimulatedSocket(host=listener.host, network=self)
            acceptor.port, acceptor.keeps_alive = address[1], listener.keeps_alive
            dialler.outgoing = acceptor.incoming = Pipe(self, dialler, acceptor)
            acceptor.outgoing = dialler.incoming = Pipe(self, acceptor, dialler)
            dialler.peer, acceptor.peer = acceptor, dialler
            self.connections.append((dialler, acceptor))
            world.tell(dialler.name, f"connects with {acceptor.name}")
            listener.offer(acceptor)
            world.at(self.arrival(acceptor.host, dialler.host), settle, None)

        world.at(self.arrival(dialler.host, dialler.host), ask)
        world.after(CONNECT_SECONDS, settle, TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def close(self, end: SimulatedSocket) -> None:
        """The kernel closes one end."""
        if self.listeners.get((end.host.name, end.port)) is end:
            for waiting in end.waiting:
                waiting.close()
        if end.outgoing is not None and end.incoming is not None:
            if end.incoming.arrived:
                self.reset(end.incoming)
            else:
                end.outgoing.end()

    def reset(self, pipe: Pipe) -> None:
        """The reader's kernel tells the writer that nobody reads any more."""
        if not (pipe.is_cut or pipe.is_silent):
            error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            self.world.at(self.arrival(pipe.reader.host, pipe.writer.host), pipe.writer.fail, error)

    # Faults.

    def open_connections(self) -> list[tuple[SimulatedSocket, SimulatedSocket]]:
        """Those that are not closed or lost, in the order in which they were made."""
        return [
            (dialler, acceptor)
            for dialler, acceptor in self.connections
            if not (dialler.is_closed or acceptor.is_closed or dialler.error or acceptor.error)
            and dialler.outgoing is not None
            and not (dialler.outgoing.is_cut or dialler.outgoing.is_silent)
        ]

    def open_mailboxes(self, host: Host) -> "list[DatagramSocket]":
        """This process's sockets for datagrams, in the order in which they were bound."""
        return [box for box in self.mailboxes.values() if box.host is host and not box.is_closed]

    def cut(
        self, ends: tuple[SimulatedSocket, SimulatedSocket], notice_seconds: tuple[float | None, float | None]
    ) -> None:
        """Lose a connection with all that is under way; each end hears of it after so long, or never."""
        for end, seconds in zip(ends, notice_seconds, strict=True):
            assert end.outgoing is not None, "it is connected"
            end.outgoing.is_cut = True
            told = "never" if seconds is None else f"after {seconds:g} s"
            self.world.tell(end.name, f"loses its connection, and hears of it {told}")
            if seconds is not None:
                error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
                self.world.after(seconds, end.fail, error)
            else:
                self._miss(end)

    def part(self, one: str, other: str, seconds: float) -> None:
        """Let nothing pass between two hosts for so long; what is under way comes late."""
        self.world.tell(one, f"is cut off from {other} for {seconds:g} s")
        pair = frozenset((one, other))
        self._heals[pair] = max(self._heals.get(pair, 0.0), self.world.now + seconds)
        if seconds > KEEP_ALIVE_SECONDS:
            self.world.after(KEEP_ALIVE_SECONDS, self._miss_parted, one, other)

    def silence(self, ends: tuple[SimulatedSocket, SimulatedSocket], pipe: Pipe) -> None:
        """Let nothing pass in one direction of a connection any more, without a word."""
        self.world.tell(pipe.writer.name, f"silence towards {pipe.reader.name}")
        pipe.is_silent = True
        for end in ends:
            self._miss(end)

    def end_early(self, ends: tuple[SimulatedSocket, SimulatedSocket], pipe: Pipe) -> None:
        """Let one end see an end that the other has not made, and nothing behind it."""
        self.world.tell(pipe.writer.name, f"half-close towards {pipe.reader.name}")
        pipe.end_early()
        for end in ends:
            self._miss(end)

    def _miss(self, end: SimulatedSocket) -> None:
        """Keep-alive notices later that nothing comes any more."""
        if end.keeps_alive:
            self.world.after(KEEP_ALIVE_SECONDS, end.fail, TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def _miss_parted(self, one: str, other: str) -> None:
        if self.is_parted(one, other):
            for dialler, acceptor in self.connections:
                if {dialler.host.name, acceptor.host.name} == {one, other}:
                    for end in (dialler, acceptor):
                        if end.keeps_alive:
                            end.fail(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def look_at(self, descriptor: int) -> None:
        """A host waits for this socket now."""
        if (found := self.sockets.get(descriptor)) is not None:
            found.look()

    def crash(self, host: Host, *, is_power: bool) -> None:
        """End a process.  Its kernel closes its connections, unless it has lost its power: then nobody hears of it."""
        own = [each for each in self.sockets.values() if each.host is host and not each.is_closed]
        host.crash()
        for each in own:
            if is_power:
                each.is_closed, each.has_power = True, False
                for pipe in (each.incoming, each.outgoing):
                    if pipe is not None:
                        pipe.is_silent = True
                if each.peer is not None:
                    self._miss(each.peer)
            else:
                each.close()
