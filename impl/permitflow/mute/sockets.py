"""Sockets whose buffers have a stated size, and a writer whose short writes are seen."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass

from permitflow.errors import InvalidParametersError

Address = tuple[str, int]
RECONNECT_SECONDS = 0.1
LARGEST_SEGMENT_BYTES = 65_536
"""What Linux hands to a connection at once: a send buffer that has any room left takes as much."""


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

    def apply(self, to: socket.socket) -> socket.socket:
        """Set both sizes: before the socket connects or listens, since TCP agrees on the scale of its window then."""
        to.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)
        to.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_bytes)
        to.setblocking(False)
        return to


def listening(address: Address, buffers: Buffers) -> socket.socket:
    """A socket that listens; accepted ones inherit its buffers.

    Raises:
        OSError: the address cannot be had.
    """
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        buffers.apply(made).bind(address)
        made.listen()
    except OSError:
        made.close()
        raise
    return made


class Listener:
    """A socket that listens for as many connections as come."""

    def __init__(self, address: Address, buffers: Buffers, on_connection: Callable[[socket.socket], None]) -> None:
        """Listen; ``on_connection`` is given each connection.

        Raises:
            OSError: the address cannot be had.
        """
        self._socket, self._on_connection = listening(address, buffers), on_connection
        self.address: Address = self._socket.getsockname()
        self.sizes = sizes_of(self._socket)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        accepted.setblocking(False)
        self._on_connection(accepted)

    def close(self) -> None:
        """Listen no more."""
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()


async def connected(address: Address, buffers: Buffers) -> socket.socket:
    """A socket that is connected.

    Raises:
        OSError: nobody is there.
    """
    made = buffers.apply(socket.socket())
    try:
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


async def dial(address: Address, buffers: Buffers) -> socket.socket:
    """Connect, however often it takes."""
    while True:
        try:
            return await connected(address, buffers)
        except OSError:
            await asyncio.sleep(RECONNECT_SECONDS)


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


class Outlet:
    """Writes to a connected socket.  What the kernel does not take is the *rest*: it stays here and is written later.

    Every short write is one that leaves a rest: the kernel took less than it was given, or nothing (``EWOULDBLOCK``).
    """

    def __init__(
        self, connection: socket.socket, *, on_rest: Callable[[int], None], on_lost: Callable[[OSError], None]
    ) -> None:
        """Take a connected socket over.

        Args:
            connection: belongs to this object.
            on_rest: is called with the bytes of the rest whenever they have changed.
            on_lost: is called when the connection has failed; the rest is gone then.
        """
        self._loop = asyncio.get_running_loop()
        self._socket, self._on_rest, self._on_lost = connection, on_rest, on_lost
        self._rest = bytearray()
        self._is_closing = False
        self.short_writes = 0
        """Writes that the kernel has not taken whole."""
        self.peak_rest_bytes = 0
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def rest_bytes(self) -> int:
        """Bytes that wait here."""
        return len(self._rest)

    def write(self, data: bytes) -> None:
        """Write, in order; never waits."""
        if self._rest:
            self._rest += data
        else:
            try:
                sent = self._send(data)
            except OSError as error:
                self._lose(error)
                return
            if sent == len(data):
                return
            self._rest += memoryview(data)[sent:]
            self._loop.add_writer(self._socket.fileno(), self._on_writable)
        self.peak_rest_bytes = max(self.peak_rest_bytes, len(self._rest))
        self._on_rest(len(self._rest))

    def _send(self, data: bytes | bytearray) -> int:
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self.short_writes += 1
        return sent

    def _on_writable(self) -> None:
        try:
            del self._rest[: self._send(self._rest)]
        except OSError as error:
            self._lose(error)
            return
        if not self._rest:
            self._loop.remove_writer(self._socket.fileno())
        self._on_rest(len(self._rest))
        if self._is_closing and not self._rest:
            self.close()

    def _lose(self, error: OSError) -> None:
        self.close()
        self._on_lost(error)

    def finish(self) -> None:
        """Close once the rest is written."""
        self._is_closing = True
        if not self._rest:
            self.close()

    def close(self) -> None:
        """Close now; the rest is dropped."""
        if self._socket.fileno() >= 0:
            self._loop.remove_writer(self._socket.fileno())
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        self._rest.clear()
