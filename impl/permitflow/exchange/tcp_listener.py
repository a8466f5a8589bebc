"""Lets an exchange be dialled over TCP: the same handshake, frames and errors as over gRPC, for less work."""

import asyncio
import errno
import logging
import socket
from math import inf

from permitflow.errors import PermitflowError, TransportError
from permitflow.exchange.health import serve_check
from permitflow.exchange.methods import METHODS
from permitflow.exchange.registry import Exchange
from permitflow.transports.addresses import SCHEME
from permitflow.transports.connection import HEALTH_CHECK
from permitflow.transports.status import forget_frames
from permitflow.transports.tcp_client import host_and_port
from permitflow.transports.tcp_stream import TcpStream

__all__ = ["TcpListener"]

_log = logging.getLogger(__name__)

# Time for those who are told that the exchange stops to hear it.
_FAREWELL_SECONDS = 2.0
_BETWEEN_CANCELS_SECONDS = 0.2
_BACKLOG = 128
# Who is out of descriptors looks again when a stream has ended, and now and then: others may have some to spare.
_RETRY_SECONDS = 1.0
_BETWEEN_COMPLAINTS_SECONDS = 60.0


class TcpListener:
    """A socket that listens, and a task for each connection; see ``Listener``."""

    def __init__(self, exchange: Exchange, address: str) -> None:
        """See ``ExchangeServer``.

        Raises:
            InvalidParametersError: it is no address.
        """
        self._exchange = exchange
        self._host, self._port = host_and_port(address)
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._streams: set[asyncio.Task[None]] = set()
        self._has_complained_at = -inf

    @property
    def address(self) -> str:
        """Where it listens, with the port that was chosen."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{SCHEME}{host}:{self._port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            TransportError: the address cannot be had.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            self._listener = socket.create_server((self._host, self._port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise TransportError.of(what=f"cannot listen at {self.address}", cause=error) from error
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(self._listener), name=f"accepting at {self.address}")

    async def stop(self, grace_seconds: float) -> None:
        """Take no new streams, give the others some time to end, then tell them that the exchange is gone."""
        listener, self._listener = self._listener, None
        if listener is None or self._accepting is None:
            return
        self._accepting.cancel()
        await asyncio.wait({self._accepting})
        listener.close()
        await self._until_over(grace_seconds)
        self._stopping.set()
        await self._until_over(_FAREWELL_SECONDS)
        while self._streams:
            # Again, because an error that comes at the same moment may hide it: then the peer is told that first, and
            # one that does not read could hold this up for as long as it likes.
            for stream in self._streams:
                stream.cancel()
            await self._until_over(_BETWEEN_CANCELS_SECONDS)
        self._stopped.set()

    async def _until_over(self, timeout_seconds: float) -> None:
        if self._streams:
            await asyncio.wait(self._streams, timeout=timeout_seconds)

    async def wait_until_stopped(self) -> None:
        """Wait until somebody stops the server."""
        if self._listener is not None:
            await self._stopped.wait()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, name = await loop.sock_accept(listener)
            except OSError as error:
                await self._wait_for_room(error)
                continue
            stream = asyncio.create_task(self._serve(connection, f"tcp:{name[0]}:{name[1]}"))
            self._streams.add(stream)
            stream.add_done_callback(self._streams.discard)

    async def _wait_for_room(self, error: OSError) -> None:
        """Who has dialled waits in the kernel meanwhile."""
        if error.errno == errno.ECONNABORTED:  # he has gone
            return
        now = asyncio.get_running_loop().time()
        if now - self._has_complained_at > _BETWEEN_COMPLAINTS_SECONDS:
            self._has_complained_at = now
            advice = "; `ulimit -n` says how many can" if error.errno == errno.EMFILE else ""
            _log.error("nobody can connect to %s now: %s%s", self.address, error.strerror, advice)
        waiting = asyncio.create_task(asyncio.sleep(_RETRY_SECONDS))
        try:
            await asyncio.wait({waiting, *self._streams}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def _serve(self, connection: socket.socket, peer: str) -> None:
        try:
            stream = TcpStream(connection, who=f"the client at {peer}", is_acceptor=True)
        except OSError:  # he has gone already
            connection.close()
            return
        try:
            method = await stream.method()
            serve = serve_check if method == HEALTH_CHECK else METHODS[method]
            await serve(self._exchange, stream, peer=peer, stopping=self._stopping)
            await stream.finish(None)
        except PermitflowError as error:
            forget_frames(error)
            await stream.finish(error)
        except Exception as error:
            _log.exception("a stream with %s failed for a reason that is not the peer's", peer)
            await stream.finish(error)
        finally:
            stream.close()
