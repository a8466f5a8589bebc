"""Where the kit waits for a driver that dials."""

import asyncio
import socket
from abc import ABC, abstractmethod

from permitflow.carriers.carrier import Carrier
from permitflow.carriers.tcp import TcpStream
from permitflow.errors import AlteredMessageError, UndecodableDataError
from permitflow_testing.foreign.driver import BrokenWireRule

WHO = "your driver's end"
SILENCE_SECONDS = 600.0
"""Signs of life are not judged here: a driver may compute, and be asked nothing for long."""


class Accepted:
    """A connection of the driver's, and the method that it calls."""

    def __init__(self, method: str, carrier: Carrier) -> None:
        """``carrier`` is of this connection."""
        self.method, self.carrier = method, carrier

    async def finish(self, error: Exception | None) -> None:
        """End the stream, with success or with an error that the driver learns."""
        raise NotImplementedError

    async def close(self) -> None:
        """Hang up."""
        raise NotImplementedError


class _OverTcp(Accepted):
    carrier: TcpStream

    async def finish(self, error: Exception | None) -> None:
        await self.carrier.finish(error)

    async def close(self) -> None:
        self.carrier.close()


class Door(ABC):
    """Where the kit waits for the driver's connection."""

    address: str

    @abstractmethod
    async def accepted(self) -> Accepted:
        """The next connection, once it has said what it calls."""


class TcpDoor(Door):
    """A socket that listens."""

    def __init__(self, listener: socket.socket) -> None:
        """It does not block."""
        self._listener = listener
        self.address = "tcp://{}:{}".format(*listener.getsockname())

    async def accepted(self) -> Accepted:
        """See ``Door``."""
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        stream = TcpStream(connection, who=WHO, is_acceptor=True, silence_seconds=SILENCE_SECONDS)
        try:
            return _OverTcp(await stream.method(), stream)
        except BaseException as error:
            stream.close()
            if isinstance(error, AlteredMessageError | UndecodableDataError):
                raise BrokenWireRule(error) from error
            raise
