"""Sockets whose buffers have a stated size, and whose peers are missed when their host is gone."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial

from permitflow.carriers import dialling
from permitflow.carriers.accepting import BETWEEN_COMPLAINTS_SECONDS, accepted
from permitflow.carriers.dialling import Dialling
from permitflow.errors import InvalidParametersError
from permitflow.lasting import lasting_task
from permitflow.pauses import LONGEST_SECONDS, pauses

Address = tuple[str, int]
CONNECT_SECONDS = 5.0
"""A host that does not answer is dialled again after this time."""
HANDSHAKE_SECONDS = 30.0
"""The deadline for a peer to say who it is."""
MOST_CONNECTIONS = 64
"""Connections that a listener has at a time; further ones are closed."""
_MOST_A_SECOND = 128
LARGEST_SEGMENT_BYTES = 65_536
"""What Linux hands to a connection at once: a send buffer that has any room left takes as much."""

# A host that is gone is noticed within 30 s, also where nothing is sent.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
_USER_TIMEOUT_MS = 30_000


@dataclass(frozen=True, kw_only=True)
class Buffers:
    """What to ask of the kernel for a socket.  Linux takes twice as much, for its own books, and keeps to it."""

    receive_bytes: int = 65_536
    send_bytes: int = 65_536

    def __post_init__(self) -> None:
        """Refuse what the kernel would silently replace.

        Raises:
            InvalidParametersError: a size is below 4,096.
        """
        for name in ("receive_bytes", "send_bytes"):
            if getattr(self, name) < 4_096:
                raise InvalidParametersError(name=name, value=getattr(self, name), rule="must be at least 4,096")

    def socket(self, family: int = socket.AF_INET, *, may_stand_still: bool = False) -> "socket.socket":
        """A socket with these buffers and keep-alive, before it connects or listens: then TCP agrees on its window.

        Args:
            may_stand_still: may the peer read nothing for any time?  Otherwise it must take what is sent to it within
                30 s: Linux ends a connection whose peer answers, and has no room, after the same time-out.
        """
        # Told that it is TCP, asyncio lets short messages leave at once.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_bytes)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Accepted sockets inherit all of them.  Systems other than Linux lack some.
        options = _KEEP_ALIVE if may_stand_still else {**_KEEP_ALIVE, "TCP_USER_TIMEOUT": _USER_TIMEOUT_MS}
        for name, value in options.items():
            if (option := getattr(socket, name, None)) is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made


def listening(address: Address, buffers: Buffers, *, may_stand_still: bool = False) -> socket.socket:
    """A socket that listens.

    Raises:
        OSError: the address cannot be had.
    """
    made = buffers.socket(may_stand_still=may_stand_still)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen()
    except OSError:
        made.close()
        raise
    return made


def close_listening(listener: socket.socket) -> None:
    """Listen no more."""
    if listener.fileno() >= 0:
        # The task that accepts is cancelled later; by then the descriptor's number may have another owner.
        asyncio.get_running_loop().remove_reader(listener)
        listener.close()


def peeked(connection: socket.socket) -> bytes | None:
    """A first byte that has come, and stays: None if none has, empty if the peer has left."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


async def connected(address: Address, buffers: Buffers, *, may_stand_still: bool = False) -> socket.socket:
    """A socket that is connected.

    Raises:
        OSError: nobody is there, or the host has not answered in time.
    """
    return await _dialling(address, buffers, may_stand_still).connected_at_once()


async def dialled(
    address: Address, buffers: Buffers, complain: Callable[[str], None], *, may_stand_still: bool = False
) -> AsyncGenerator[socket.socket]:
    """Connections, one whenever it is asked for, however often it takes; ``complain`` is told the first failure."""
    loop, waits = asyncio.get_running_loop(), pauses()
    while True:
        connection = await _dialling(address, buffers, may_stand_still).connected(complain)
        began = loop.time()
        yield connection
        if loop.time() > began + LONGEST_SECONDS:  # else it may be lost at once again
            waits = pauses()
        await asyncio.sleep(next(waits))


def _dialling(address: Address, buffers: Buffers, may_stand_still: bool) -> Dialling[socket.socket]:
    new_socket = partial(buffers.socket, may_stand_still=may_stand_still)
    host, port, *_ = address
    return Dialling(host, port, partial(dialling.connected, new_socket=new_socket), answer_seconds=CONNECT_SECONDS)


class Listener:
    """A socket that listens, and makes a protocol of each connection; what strangers do is told seldom."""

    def __init__(
        self,
        address: Address,
        buffers: Buffers,
        make: Callable[[], asyncio.BaseProtocol | None],
        hear: Callable[[dict[str, object]], None],
        **facts: object,
    ) -> None:
        """Listen.

        Args:
            address: port 0 takes any that is free.
            buffers: of the connections.
            make: a protocol for a connection; None: it is closed.
            hear: is called with events, of which a stranger can cause no more than one a minute.
            facts: belong to each event.

        Raises:
            OSError: the address cannot be had.
        """
        self._loop = asyncio.get_running_loop()
        self._socket = listening(address, buffers)
        self._make, self._hear, self._facts = make, hear, facts
        self._untold: dict[str, int] = {}
        self._quiet: dict[str, asyncio.TimerHandle] = {}
        self.address: Address = self._socket.getsockname()
        self.sizes = sizes_of(self._socket)
        self._accepting = lasting_task(self._accept(), name=f"accepting at {self.address}")

    async def _accept(self) -> None:
        began, count = self._loop.time(), 0
        async for connection, _ in accepted(self._socket, lambda reason: self.tell("unreachable", reason=reason)):
            if (protocol := self._make()) is None:
                connection.close()
            else:
                await transported(protocol, connection)
            count += 1
            if count >= _MOST_A_SECOND:  # those who come and go cause no storm of events
                await asyncio.sleep(began + 1 - self._loop.time())
                began, count = self._loop.time(), 0

    def tell(self, event: str, **facts: object) -> None:
        """Report an event that strangers can cause: the first one at once, then once a minute with their number."""
        self._untold[event] = self._untold.get(event, 0) + 1
        if event not in self._quiet:
            self._quiet[event] = self._loop.call_later(BETWEEN_COMPLAINTS_SECONDS, self._end_quiet, event, facts)
            self._hear({"event": event, **self._facts, "times": self._untold.pop(event), **facts})

    def _end_quiet(self, event: str, facts: dict[str, object]) -> None:
        del self._quiet[event]
        if times := self._untold.pop(event, 0):
            self._hear({"event": event, **self._facts, "times": times, **facts})

    def close(self) -> None:
        """Listen no more."""
        self._accepting.cancel()
        for timer in self._quiet.values():
            timer.cancel()
        close_listening(self._socket)


class BufferedConnection(asyncio.BufferedProtocol):
    """A protocol that is told of its connection, and what comes is read into one buffer of a stated size."""

    transport: asyncio.Transport | None = None
    """None before there is a connection."""
    buffer: bytearray | memoryview

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio``."""
        assert isinstance(transport, asyncio.Transport)  # it is TCP
        self.transport = transport
        self.on_made(transport)

    def on_made(self, transport: asyncio.Transport) -> None:
        """There is a connection."""

    @property
    def open_transport(self) -> asyncio.Transport | None:
        """None also once the connection has ended."""
        return None if self.transport is None or self.transport.is_closing() else self.transport

    @property
    def rest_bytes(self) -> int:
        """Bytes that were written, and that the kernel has not taken."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def break_off(self) -> None:
        """End the connection now, if there is one."""
        if self.transport is not None:
            self.transport.abort()

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """See ``asyncio``."""
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See ``asyncio``; what comes is dropped."""


async def transported(protocol: asyncio.BaseProtocol, connection: socket.socket) -> None:
    """Give a connected socket to a protocol, which hears of it even if the peer has gone already."""
    await asyncio.get_running_loop().create_connection(lambda: protocol, sock=connection)


def sizes_of(of: socket.socket) -> Buffers:
    """What the kernel has made of the wishes."""
    return Buffers(
        receive_bytes=of.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
        send_bytes=of.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
    )


def kernel_bytes(sender: Buffers, receiver: Buffers) -> int:
    """The most bytes that two connected sockets hold, in one direction, by their sizes as read back.

    The send buffer, the receive buffer, and a last segment: the kernel asks whether there is room, not whether there is
    enough.  A segment is at most half of the peer's window.
    """
    segment = min(LARGEST_SEGMENT_BYTES, receiver.receive_bytes // 2)
    return sender.send_bytes + receiver.receive_bytes + segment
