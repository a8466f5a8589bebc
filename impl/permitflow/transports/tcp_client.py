"""Dials an exchange over TCP, for asyncio."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from permitflow.errors import InvalidParametersError, PeerTimeoutError
from permitflow.transports.addresses import SCHEME
from permitflow.transports.tcp_framing import KIND_OF_METHOD
from permitflow.transports.tcp_stream import TcpStream

__all__ = ["NEXT_ADDRESS_SECONDS", "calling", "host_and_port"]

_RETRY_SECONDS = 0.05
NEXT_ADDRESS_SECONDS = 2.0
"""So long an address may be silent that is not the last one of its name, as where packets for IPv6 are lost."""


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of ``tcp://host:port``.

    Raises:
        InvalidParametersError: it is none.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # as for whoever looks the name up
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
    failures: dict[object, OSError] = {}
    try:
        async with asyncio.timeout(timeout_seconds):
            connection = await _connected(host, port, failures)
    except TimeoutError:
        why = f" ({'; '.join(map(str, failures.values()))})" if failures else ""
        reason = f"no connection within {timeout_seconds:g} s{why}; is an exchange running there (permitflow serve)?"
        raise PeerTimeoutError(who=who, reason=reason) from None
    stream = TcpStream(connection, who=who, is_acceptor=False)
    try:
        await stream.call(KIND_OF_METHOD[method])
        yield stream
    finally:
        stream.close()


async def _connected(host: str, port: int, failures: dict[object, OSError]) -> socket.socket:
    """Tries each address that the name has, again and again; notes what it last heard of each.

    Not asyncio's own ``create_connection``: its transport would read what ``TcpStream`` wants where it stays.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            failures.pop(host, None)
        except OSError as error:
            addresses, failures[host] = [], error
        for family, kind, protocol, _, name in addresses:
            patience_seconds = None if name == addresses[-1][-1] else NEXT_ADDRESS_SECONDS
            try:
                async with asyncio.timeout(patience_seconds):
                    return await _dialled(loop, family, kind, protocol, name)
            except TimeoutError:
                failures[name] = TimeoutError(f"{name[0]} does not answer")
            except OSError as error:
                failures[name] = error
        # As gRPC does: the exchange may be about to start.
        await asyncio.sleep(_RETRY_SECONDS)


async def _dialled(
    loop: asyncio.AbstractEventLoop, family: int, kind: int, protocol: int, name: tuple[object, ...]
) -> socket.socket:
    connection = socket.socket(family, kind, protocol)
    try:
        connection.setblocking(False)
        await loop.sock_connect(connection, name)
    except BaseException:
        connection.close()
        raise
    return connection
