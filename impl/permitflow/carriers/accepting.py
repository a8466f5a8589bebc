"""Where a listener listens, and how it accepts connections.

A process without a free descriptor waits, and complains once a minute.
"""

import asyncio
import errno
import itertools
import socket
from collections.abc import AsyncGenerator, Callable, Collection
from math import inf
from typing import Any

_RETRY_SECONDS = 1.0
_ACCEPTED_AT_ONCE = 8
"""Everything else that is due has its turn after this many: accepting waits for nothing while somebody dials."""
BETWEEN_COMPLAINTS_SECONDS = 60.0


def place(host: str, port: int, kind: int) -> tuple[int, tuple[Any, ...]]:
    """Where a socket of this kind listens: its family, and the first address of the host, of IPv4 if it has one.

    Raises:
        OSError: there is no such host.
    """
    found = socket.getaddrinfo(host, port, type=kind)
    family, _, _, _, name = min(found, key=lambda each: each[0] != socket.AF_INET)
    return family, name


async def accepted(
    listener: socket.socket,
    complain: Callable[[str], None],
    holders: Callable[[], Collection[asyncio.Task[None]]] = tuple,
) -> AsyncGenerator[tuple[socket.socket, tuple[str, int]]]:
    """The connections that come, each with the peer's address.

    Without a free descriptor, new clients wait in the kernel: this tries again within a second.

    Args:
        listener: listens, and does not block.
        complain: is told why nobody can connect, once a minute at most.
        holders: tasks whose end may free a descriptor.
    """
    loop = asyncio.get_running_loop()
    complained_at = -inf
    for count in itertools.count(1):
        if count % _ACCEPTED_AT_ONCE == 0:
            await asyncio.sleep(0)
        try:
            connection, name = await loop.sock_accept(listener)
        except OSError as error:
            if error.errno == errno.ECONNABORTED:  # the client has gone
                continue
            if loop.time() - complained_at > BETWEEN_COMPLAINTS_SECONDS:
                complained_at = loop.time()
                advice = "; `ulimit -n` says how many can" if error.errno == errno.EMFILE else ""
                complain(f"{error.strerror}{advice}")
            await _end_or_pause(holders())
            continue
        yield connection, (name[0], name[1])


async def _end_or_pause(holders: Collection[asyncio.Task[None]]) -> None:
    waiting = asyncio.create_task(asyncio.sleep(_RETRY_SECONDS))
    try:
        await asyncio.wait({waiting, *holders}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
