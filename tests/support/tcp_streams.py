"""Two ends of a stream over TCP, or one end and a stranger who says whatever a test wants."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from permitflow.transports.connection import GET_STREAM
from permitflow.transports.tcp import Kind, TcpStream

__all__ = ["connected", "dialled_by_a_stranger"]


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[TcpStream, TcpStream]]:
    """A dialler and an acceptor; the call has been made."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    dialler = TcpStream(near, who="the acceptor", is_acceptor=False)
    acceptor = TcpStream(far, who="the dialler", is_acceptor=True)
    await dialler.call(Kind.GET)
    assert await acceptor.method() == GET_STREAM
    yield dialler, acceptor
    dialler.close()
    acceptor.close()


@asynccontextmanager
async def dialled_by_a_stranger() -> AsyncIterator[tuple[socket.socket, TcpStream]]:
    """Bytes as they come, and an acceptor."""
    near, far = socket.socketpair(socket.AF_UNIX)
    near.setblocking(False)
    far_inet = _Inet(far)
    acceptor = TcpStream(far_inet, who="the client", is_acceptor=True)
    yield near, acceptor
    acceptor.close()
    near.close()


class _Inet(socket.socket):
    """A socket pair knows no options of TCP."""

    def __init__(self, other: socket.socket) -> None:
        super().__init__(other.family, other.type, other.proto, other.detach())

    def setsockopt(self, *_: object) -> None:
        """Nothing to set."""
