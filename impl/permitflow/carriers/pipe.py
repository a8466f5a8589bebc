"""What a carrier reads and writes: bytes in both directions, in order and without loss, as a connected socket has."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from permitflow.wire.buffers import Buffer


class Pipe(Protocol):
    """A connection.  Nothing blocks; the event loop calls the functions that watch."""

    @property
    def is_protected(self) -> bool:
        """Does TLS notice every altered, lost or repeated byte?"""
        return False

    def why_refused(self, error: OSError) -> str | None:
        """Whether this error of a call says that the peer does not trust this end: why, and what to do."""
        return None

    def receive_into(self, space: memoryview) -> int:
        """Receive into this memory; how many bytes came, 0 if the peer sends no more.

        Raises:
            BlockingIOError: nothing has come.
            OSError: the connection is broken.
        """
        ...

    def send(self, pieces: Sequence[Buffer]) -> int:
        """Send a beginning of these pieces, as much as there is room for now; how many bytes.

        Raises:
            BlockingIOError: there is no room.
            OSError: the connection is broken.
        """
        ...

    def watch_reading(self, on_readable: Callable[[], None]) -> None:
        """Call this function, again and again, while ``receive_into`` would not raise ``BlockingIOError``."""
        ...

    def unwatch_reading(self) -> None:
        """Call it no more."""
        ...

    def watch_writing(self, on_writable: Callable[[], None]) -> None:
        """Call this function, again and again, while ``send`` would not raise ``BlockingIOError``."""
        ...

    def unwatch_writing(self) -> None:
        """Call it no more; harmless if it was never called, or the pipe is closed."""
        ...

    def shut_writing(self) -> None:
        """Tell the peer, behind all that was sent, that nothing follows.

        Raises:
            OSError: the connection is broken.
        """
        ...

    def close(self) -> None:
        """Release the connection; twice is harmless."""
        ...


PIECES_AT_ONCE = 256
"""The pieces of a message in one system call; the kernel takes up to 1,024."""


class SocketPipe(Pipe):
    """A connected socket of the kernel."""

    def __init__(self, connection: socket.socket) -> None:
        """Take ownership of the socket; needs a running event loop."""
        connection.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._socket, self._descriptor = connection, connection.fileno()

    def receive_into(self, space: memoryview) -> int:
        """See ``Pipe``."""
        return self._socket.recv_into(space)

    def send(self, pieces: Sequence[Buffer]) -> int:
        """See ``Pipe``."""
        return self._socket.sendmsg(pieces[:PIECES_AT_ONCE])

    def watch_reading(self, on_readable: Callable[[], None]) -> None:
        """See ``Pipe``."""
        self._loop.add_reader(self._descriptor, on_readable)

    def unwatch_reading(self) -> None:
        """See ``Pipe``."""
        self._loop.remove_reader(self._descriptor)

    def watch_writing(self, on_writable: Callable[[], None]) -> None:
        """See ``Pipe``."""
        self._loop.add_writer(self._descriptor, on_writable)

    def unwatch_writing(self) -> None:
        """See ``Pipe``."""
        if self._socket.fileno() >= 0:
            self._loop.remove_writer(self._descriptor)

    def shut_writing(self) -> None:
        """See ``Pipe``."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """See ``Pipe``."""
        self._socket.close()


async def sent_all(pipe: Pipe, data: Buffer) -> None:
    """Send all of it.

    Raises:
        OSError: the connection is broken.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[pipe.send((rest,)) :]
        except BlockingIOError:
            await watched(pipe.watch_writing, pipe.unwatch_writing)


async def drained(pipe: Pipe, space: memoryview) -> None:
    """Receive and drop everything until the peer sends no more.

    Raises:
        OSError: the connection is broken.
    """
    while True:
        try:
            if not pipe.receive_into(space):
                return
        except BlockingIOError:
            await watched(pipe.watch_reading, pipe.unwatch_reading)


async def watched(watch: Callable[[Callable[[], None]], None], unwatch: Callable[[], None]) -> None:
    """Wait until a function that watches has called once."""
    ready = asyncio.Event()
    watch(ready.set)
    try:
        await ready.wait()
    finally:
        unwatch()
