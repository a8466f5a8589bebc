"""Dials an exchange over TCP, for asyncio."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from permitflow.errors import InvalidParametersError, PeerTimeoutError
from permitflow.transports.tcp_framing import KIND_OF_METHOD, SCHEME
from permitflow.transports.tcp_stream import TcpStream

__all__ = ["calling", "host_and_port"]

_RETRY_SECONDS = 0.05


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of ``tcp://host:port``.

    Raises:
        InvalidParametersError: it is none.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not address.startswith(SCHEME) or host is None or port is None:
        raise InvalidParametersError(name="address", value=address, rule=f"must be {SCHEME}host:port")
    return host, port


@asynccontextmanager
async def calling(address: str, method: str, who: str, timeout_seconds: float) -> AsyncIterator[TcpStream]:
    """A stream of one method of the exchange at this address.

    Raises:
        InvalidParametersError: it is no address.
        PeerTimeoutError: nobody answers there.
    """
    host, port = host_and_port(address)
    failures: list[OSError] = []
    try:
        async with asyncio.timeout(timeout_seconds):
            connection = await _connected(host, port, failures)
    except TimeoutError:
        why = f" ({failures[-1]})" if failures else ""
        reason = f"no connection within {timeout_seconds:g} s{why}; is an exchange running there (permitflow serve)?"
        raise PeerTimeoutError(who=who, reason=reason) from None
    stream = TcpStream(connection, who=who, is_acceptor=False)
    try:
        await stream.call(KIND_OF_METHOD[method])
        yield stream
    finally:
        stream.close()


async def _connected(host: str, port: int, failures: list[OSError]) -> socket.socket:
    """Tries again and again; notes why it could not, so far."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            for family, kind, protocol, _, name in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                connection = socket.socket(family, kind, protocol)
                connection.setblocking(False)
                try:
                    await loop.sock_connect(connection, name)
                except BaseException:
                    connection.close()
                    raise
                return connection
        except OSError as error:
            # As gRPC does: the exchange may be about to start.
            failures[:] = [error]
            await asyncio.sleep(_RETRY_SECONDS)
