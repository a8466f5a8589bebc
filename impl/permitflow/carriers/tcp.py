"""Streams over TCP: a socket of the kernel for each, and how an exchange is dialled."""

import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Unpack

from permitflow.carriers.addresses import parsed
from permitflow.carriers.byte_stream import KIND_OF_METHOD, ByteStream, StreamMessageKind, StreamOptions
from permitflow.carriers.deadlines import HANDSHAKE_SECONDS
from permitflow.carriers.dialling import Dialling, connected
from permitflow.carriers.framing import header
from permitflow.carriers.pipe import SocketPipe
from permitflow.carriers.reaching import Destination, reached
from permitflow.carriers.security import Security
from permitflow.carriers.tls import TlsPipe, begun
from permitflow.errors import PeerGoneError, PeerTimeoutError
from permitflow.wire.buffers import Buffer
from permitflow.wire.wire_errors import SILENT


class TcpStream(ByteStream):
    """A stream over a socket of its own."""

    def __init__(self, connection: socket.socket | TlsPipe, **options: Unpack[StreamOptions]) -> None:
        """Take a connected socket over, or one with TLS; the options are those of ``ByteStream``."""
        if isinstance(connection, TlsPipe):
            pipe: SocketPipe = connection
        else:
            # A signal behind data leaves at once: otherwise the kernel holds it until the peer has acknowledged these.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pipe = SocketPipe(connection)
        # Signs of life leave in another thread.
        self._sending, self._ping_rest = threading.Lock(), b""
        self._is_within_message = False
        super().__init__(pipe, **options)

    def _sent(self, pieces: Sequence[Buffer]) -> Sequence[Buffer]:
        with self._sending:
            if self._ping_rest:
                pieces, self._ping_rest = [self._ping_rest, *pieces], b""
            self._is_within_message = True  # until the socket has taken all of it; after an error, for ever
            rest = super()._sent(pieces)
            self._is_within_message = bool(rest)
            return rest

    def _ping(self) -> None:
        """Give a sign of life, in another thread, unless a message is being written."""
        if self._sending.acquire(blocking=False):
            try:
                if not self._is_within_message:
                    ping = self._ping_rest or header(StreamMessageKind.PING)
                    self._ping_rest = ping  # TLS has encrypted it, even if there is no room
                    self._ping_rest = ping[self._pipe.send((ping,)) :]
            except OSError:
                pass  # the next read or write reports it
            finally:
                self._sending.release()

    def _before_last(self) -> bytes:
        with self._sending:
            self._is_within_message = True  # no sign of life is given in between
            return self._ping_rest


@asynccontextmanager
async def calling(to: Destination) -> AsyncIterator[TcpStream]:
    """As ``carriers.calling``, for an address as in ``tcp://host:port``."""
    where, security = parsed(to.address), to.security
    token = None if security is None else security.token_for(where)
    connection = await reached(Dialling(where.host, where.port, connected), to)
    over = (
        connection
        if security is None or security.ca is None
        else await _protected(connection, security, where.host, to)
    )
    stream = TcpStream(over, who=to.who, is_acceptor=False, silence_seconds=to.silence_seconds)
    try:
        stream.call(KIND_OF_METHOD[to.method], token)
        yield stream
    finally:
        stream.close()


async def _protected(connection: socket.socket, security: Security, host: str, to: Destination) -> TlsPipe:
    seconds = HANDSHAKE_SECONDS if to.timeout_seconds is None else min(to.timeout_seconds, HANDSHAKE_SECONDS)
    try:
        return await begun(connection, security, host, who=to.who, seconds=seconds)
    except TimeoutError:
        raise PeerTimeoutError(who=to.who, reason=f"no TLS handshake within {seconds:g} s; {SILENT}") from None
    except OSError as error:
        raise PeerGoneError(who=to.who, reason=f"it hung up during the TLS handshake ({error})") from None
