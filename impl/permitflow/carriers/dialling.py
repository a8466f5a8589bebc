"""Dials a host: each address of its name in turn, and all of them again after a pause."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Generic, TypeAlias, TypeVar

from permitflow.pauses import pauses

T = TypeVar("T")
Name: TypeAlias = tuple[object, ...]
"""An address of a host, with the port."""

NEXT_ADDRESS_SECONDS = 2.0
"""Seconds to wait for one resolved address before trying the next, as where packets for IPv6 are lost."""


class Dialling(Generic[T]):
    """The attempts to reach one host, and why the last one at each address has failed."""

    def __init__(
        self,
        host: str,
        port: int,
        connect: Callable[[int, Name], Awaitable[T]],
        *,
        answer_seconds: float | None = None,
    ) -> None:
        """Nothing is dialled yet.

        Args:
            host: a name or an address.
            port: of the host.
            connect: makes a connection to an address of this family; raises OSError if nobody answers.
            answer_seconds: how long to wait for the name's last address in each attempt; None: as long as the kernel
                does.
        """
        self._host, self._port = host, port
        self._connect, self._answer_seconds = connect, answer_seconds
        self._failures: dict[object, OSError] = {}

    @property
    def why_not(self) -> str:
        """Why nobody has answered; empty before the first failure."""
        return "; ".join(dict.fromkeys(map(str, self._failures.values())))

    async def connected(self, complain: Callable[[str], None] = lambda reason: None) -> T:
        """Try until a connection is made; ``complain`` is told the reason after the first attempt in vain.

        Not asyncio's own ``create_connection``: its transport would read into a buffer of its own.
        """
        has_complained, waits = False, pauses()
        while True:
            try:
                return await self.connected_at_once()
            except OSError:
                if not has_complained:
                    complain(self.why_not)
                has_complained = True
                await asyncio.sleep(next(waits))  # the peer may be about to start

    async def connected_at_once(self) -> T:
        """Try each address of the name once.

        Raises:
            OSError: nobody answers; ``why_not`` has the reasons of all addresses.
        """
        try:
            addresses = await resolved(self._host, self._port)
            self._failures.pop(self._host, None)
        except OSError as error:
            self._failures[self._host] = error
            raise
        for family, _, _, _, name in addresses:
            is_last = name == addresses[-1][-1]
            try:
                async with asyncio.timeout(self._answer_seconds if is_last else NEXT_ADDRESS_SECONDS):
                    return await self._connect(family, name)
            except TimeoutError:
                self._failures[name] = TimeoutError(f"{name[0]} does not answer")
            except OSError as error:
                self._failures[name] = error
        raise self._failures[addresses[-1][-1]]


async def resolved(host: str, port: int) -> Sequence[tuple[int, int, int, str, Name]]:
    """The addresses of a name; an address is its own, without a thread.

    Raises:
        OSError: there is no such name.
    """
    with suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def connected(
    family: int, name: Name, new_socket: Callable[[int], socket.socket] = socket.socket
) -> socket.socket:
    """A socket that is connected to this address.

    Raises:
        OSError: nobody answers.
    """
    with ExitStack() as stack:
        made = new_socket(family)
        stack.callback(made.close)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, name)
        # The kernel gives a dialler a port of its own: some day the one that it dials, if nobody listens there.
        if made.getsockname() == made.getpeername():
            raise ConnectionRefusedError("nobody listens there: the socket was connected with itself")
        stack.pop_all()
    return made
