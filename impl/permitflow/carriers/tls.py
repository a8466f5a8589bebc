"""TLS over a connected socket: the pipe of a ``TcpStream``, and why a handshake fails, in words that say what to do."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from permitflow.carriers.addresses import parsed
from permitflow.carriers.dialling import Dialling, connected
from permitflow.carriers.pipe import SocketPipe, drained, sent_all, watched
from permitflow.carriers.security import NEEDS_TLS, SYSTEM, Security
from permitflow.carriers.tls_files import client_context, new_client_context
from permitflow.errors import TlsError
from permitflow.wire.buffers import Buffer

_RECORD_BYTES = (16 << 10) + 256
"""A whole record of TLS, encrypted."""
_READ_BYTES = 64 << 10
"""The most of one system call."""
_WRITE_BYTES = 63 << 10
"""The same before encryption, after which it fits into one packet of the loopback, 65,483 bytes; 64 KiB do not."""
_FAREWELL_SECONDS = 1.0


class TlsPipe(SocketPipe):
    """A connected socket of the kernel, encrypted.

    OpenSSL reads and writes memory, because it would ask the kernel for two short reads a record.  It must not do both
    at the same time, and signs of life leave in another thread: hence the lock, which is held for as long as a system
    call that does not wait.
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, *, server_name: str | None) -> None:
        """Take ownership of the socket; ``handshake`` follows.

        Args:
            connection: a TCP connection.
            context: certificates, and those who are trusted.
            server_name: of a client: the name that must be in the peer's certificate; None: this end is the server.
        """
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(connection)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self._lock = threading.Lock()
        self._encrypted = memoryview(b"")
        """What the socket has not taken yet."""
        self._encrypted_bytes = 0
        """Of what was to be sent, so many bytes are in it."""
        self._has_more = False
        """Something may have come that nobody has asked for yet: the kernel does not report it."""
        self._on_readable: Callable[[], None] | None = None
        self._again: asyncio.Handle | None = None

    async def handshake(self) -> None:
        """Agree on keys.

        Raises:
            ssl.SSLError: the peer or its certificate is not accepted, or it says so of this end.
            OSError: the connection was lost.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await sent_all(SocketPipe(self._socket), self._outgoing.read())
                with suppress(BlockingIOError):
                    self._fill(_RECORD_BYTES)
                    continue
                await watched(self.watch_reading, self.unwatch_reading)
            except ssl.SSLError:
                with suppress(OSError):  # the peer learns why, if there is room
                    self._socket.send(self._outgoing.read())
                raise
            else:
                await sent_all(SocketPipe(self._socket), self._outgoing.read())
                self._has_more = True
                return

    def _fill(self, most_bytes: int) -> None:
        """Receive what has come, encrypted; OpenSSL keeps as much memory for as long as the connection is there.

        Raises:
            BlockingIOError: nothing has.
            OSError: the connection is broken.
        """
        if data := self._socket.recv(most_bytes):
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    @property
    def is_protected(self) -> bool:
        """See ``Pipe``."""
        return True

    def why_refused(self, error: OSError) -> str | None:
        """See ``Pipe``: a server refuses a client's certificate after the client's part of the handshake.

        Anything else that is wrong later on was altered on the way, and the connection is lost.
        """
        reason = (getattr(error, "reason", None) or "") if isinstance(error, ssl.SSLError) else ""
        return _words(error) if any(part in reason for part in _OF_CERTIFICATES) else None

    def names(self) -> tuple[str, ...]:
        """The names in the peer's certificate, which was checked: the alternative ones, and then the common one."""
        return names_in(self._tls.getpeercert())

    def receive_into(self, space: memoryview) -> int:
        """See ``Pipe``.

        Raises:
            ssl.SSLError: the peer has sent an alert, or what came was altered.
        """
        filled = 0
        with self._lock:
            try:
                while filled < len(space):
                    try:
                        count = cast("int", self._tls.read(len(space) - filled, space[filled:]))
                    except ssl.SSLWantReadError:
                        self._fill(min(max(len(space) - filled, _RECORD_BYTES), _READ_BYTES))
                        continue
                    except ssl.SSLEOFError:
                        count = 0
                    if not count:
                        return filled  # the kernel goes on to report the end
                    filled += count
            except BlockingIOError:
                self._has_more = False
                if not filled:
                    raise
                return filled
        self._has_more = True
        return filled

    def send(self, pieces: Sequence[Buffer]) -> int:
        """See ``Pipe``.  What did not find room is encrypted already: it must come again, with or without more."""
        sent = 0
        with self._lock:
            try:
                for part in _parts(pieces, self._encrypted_bytes or _WRITE_BYTES):
                    if not self._encrypted_bytes:
                        self._encrypt(part)
                    while self._encrypted:
                        self._encrypted = self._encrypted[self._socket.send(self._encrypted) :]
                    sent += self._encrypted_bytes
                    self._encrypted_bytes = 0
            except BlockingIOError:
                if not sent:
                    raise
        return sent

    def _encrypt(self, part: Buffer) -> None:
        rest = memoryview(part)
        self._encrypted_bytes = len(rest)
        while rest:
            rest = rest[self._tls.write(rest) :]  # a record
        self._encrypted = memoryview(self._outgoing.read())

    def watch_reading(self, on_readable: Callable[[], None]) -> None:
        """See ``Pipe``."""
        self._on_readable = on_readable
        super().watch_reading(self._read)
        self._read_rest_later()

    def unwatch_reading(self) -> None:
        """See ``Pipe``."""
        self._on_readable = None
        super().unwatch_reading()

    def _read(self) -> None:
        if (on_readable := self._on_readable) is not None:
            on_readable()
            self._read_rest_later()

    def _read_rest_later(self) -> None:
        if self._has_more and self._on_readable is not None and self._again is None:
            self._again = self._loop.call_soon(self._read_rest)

    def _read_rest(self) -> None:
        self._again = None
        if self._has_more:
            self._read()

    async def farewell(self, last_word: bytes) -> None:
        """Let the peer read the alert of a failed handshake, which closing at once may lose; then close.

        ``last_word``: for a peer that speaks no TLS, and gets no alert.
        """
        try:
            with suppress(OSError, TimeoutError):
                self._socket.send(last_word)
                self.shut_writing()
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await drained(SocketPipe(self._socket), memoryview(bytearray(_READ_BYTES)))
        finally:
            self.close()

    def close(self) -> None:
        """See ``Pipe``."""
        self._on_readable = None
        with self._lock:
            super().close()


def _parts(pieces: Sequence[Buffer], most_bytes: int) -> Iterator[Buffer]:
    """The same bytes in parts: large pieces are not copied, small ones share a part.

    Args:
        pieces: what is to be sent.
        most_bytes: of the first part.
    """
    small: list[Buffer] = []
    size = 0
    for piece in pieces:
        view = memoryview(piece).cast("B")
        while len(view):
            part, view = view[: most_bytes - size], view[most_bytes - size :]
            size += len(part)
            small.append(part)
            if size == most_bytes:
                yield small[0] if len(small) == 1 else b"".join(small)
                small, size, most_bytes = [], 0, _WRITE_BYTES
    if small:
        yield small[0] if len(small) == 1 else b"".join(small)


async def begun(
    connection: socket.socket,
    security: Security,
    host: str,
    *,
    who: str,
    seconds: float,
    context: ssl.SSLContext | None = None,
) -> TlsPipe:
    """TLS over a connection that this client has made; it is closed after an error.

    Args:
        connection: over TCP.
        security: has a CA.
        host: that was dialled.
        who: the peer, in words for an error.
        seconds: the longest wait.
        context: another one than that of ``security``.

    Raises:
        TlsError: the peer is not trusted, does not trust this client, or speaks no TLS.
        OSError: it has hung up.
        TimeoutError: it does not answer.
    """
    name = security.server_name or host
    pipe = None
    try:
        pipe = TlsPipe(connection, context or client_context(security).current(), server_name=name)
        async with asyncio.timeout(seconds):
            await pipe.handshake()
    except BaseException as error:
        (pipe or connection).close()
        if (reason := why_refused(error, security, name)) is not None:
            raise TlsError(who=who, reason=reason) from None
        raise
    return pipe


def names_in(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names in a certificate as ``getpeercert`` tells it: the alternative ones, and then the common one."""
    found = certificate or {}
    alternatives = [str(value) for _, value in found.get("subjectAltName", ())]
    subject = [value for part in found.get("subject", ()) for key, value in part if key == "commonName"]
    return (*alternatives, *map(str, subject))


def speaks_no_tls(error: BaseException) -> bool:
    """Whether a handshake has failed because the peer's first bytes are none of TLS."""
    return isinstance(error, ssl.SSLError) and error.reason in _PLAIN


def why_refused(error: BaseException, security: Security, name: str) -> str | None:
    """Why a client and an exchange cannot begin TLS; None: the error does not say, as if the peer has hung up."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error, security, name)
    return _words(error)


def _words(error: BaseException) -> str | None:
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    reason = error.reason or ""
    for part, words in _ALERTS.items():
        if part in reason:
            return words
    return f"{reason.lower().replace('_', ' ') or error}"


_WANTED = "CERTIFICATE_REQUIRED"
_OF_CERTIFICATES = (
    _WANTED,
    "ALERT_UNKNOWN_CA",
    "CERTIFICATE_EXPIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "UNSUPPORTED_CERTIFICATE",
)
_PLAIN = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
_EXPIRED, _NOT_YET = 10, 9
_OTHER_HOST = (62, 64)
_OTHER_CA = (2, 18, 19, 20, 21)
_ALERTS = {
    _WANTED: "it wants a certificate of this client: give certificate and key (--tls-cert, --tls-key)",
    "ALERT_UNKNOWN_CA": (
        "it does not trust the CA of this client's certificate: take one that its --tls-client-ca trusts"
    ),
    "CERTIFICATE_EXPIRED": "this client's certificate has expired: renew it",
    "BAD_CERTIFICATE": "it does not accept this client's certificate: is that valid already, by the exchange's clock?",
    "CERTIFICATE_UNKNOWN": "it does not accept this client's certificate",
    "UNSUPPORTED_CERTIFICATE": "it does not accept this client's certificate: is it one of a server only?",
    "PROTOCOL_VERSION": "it does not speak TLS 1.3",
    "HANDSHAKE_FAILURE": "the two have no cipher in common",
    "WRONG_VERSION_NUMBER": (
        "it speaks no TLS at this address: start the exchange with a certificate (permitflow serve --tls-cert), or, on "
        "the loopback only, dial without a CA"
    ),
}


def _distrust(error: ssl.SSLCertVerificationError, security: Security, name: str) -> str:
    if error.verify_code == _EXPIRED:
        return "its certificate has expired: renew it there, if this machine's clock is right"
    if error.verify_code == _NOT_YET:
        return "its certificate is not valid yet: is one of the two clocks wrong?"
    if error.verify_code in _OTHER_HOST:
        return (
            f"its certificate is not for {name!r}: dial a name that is in it, or say which one it has "
            "(server_name, --tls-server-name)"
        )
    if error.verify_code in _OTHER_CA:
        trusted = "this system trusts" if security.ca == SYSTEM else f"is in {security.ca}"
        return f"its certificate is not signed by a CA that {trusted}: give the CA that has signed it (ca, --tls-ca)"
    return f"its certificate is not accepted: {error.verify_message}"


async def diagnosed(address: str, security: Security | None, *, who: str, seconds: float) -> TlsError | None:
    """Why gRPC has found no connection, if that is for TLS: gRPC says it in words of its own, or not at all.

    Args:
        address: of the exchange.
        security: of the client; None, or without a CA: it dials without TLS.
        who: the peer, in words for an error.
        seconds: the longest wait.
    """
    _, host, port = parsed(address)
    uses_tls = security is not None and security.ca is not None
    pipe = None
    try:
        async with asyncio.timeout(seconds):
            connection = await Dialling(host, port, connected).connected_at_once()
            if security is not None and uses_tls:
                context = new_client_context(security)
                context.set_alpn_protocols(["h2"])  # gRPC hangs up on others
                pipe = await begun(connection, security, host, who=who, seconds=seconds, context=context)
                return TlsError(who=who, reason=await _why_hung_up(pipe, security))
            pipe = TlsPipe(connection, _unchecked(), server_name=host)
            await pipe.handshake()
    except TlsError as error:
        return error
    except ssl.SSLError as error:
        return TlsError(who=who, reason=NEEDS_TLS) if not uses_tls and "ALERT" in (error.reason or "") else None
    except (OSError, TimeoutError):
        return None
    finally:
        if pipe is not None:
            pipe.close()
    return TlsError(who=who, reason=NEEDS_TLS)


async def _why_hung_up(pipe: TlsPipe, security: Security) -> str:
    """A server refuses a client's certificate after the client's part of the handshake, gRPC's without an alert."""
    try:
        await drained(pipe, memoryview(bytearray(_READ_BYTES)))
    except OSError as error:
        if (reason := pipe.why_refused(error)) is not None:
            return reason
    if security.certificate is None:
        return (
            f"it hangs up after its part of the handshake, and this client has shown no certificate: {_ALERTS[_WANTED]}"
        )
    return (
        "it hangs up once it has seen this client's certificate: has that expired, is it not valid yet, or was it "
        "signed by a CA that is not in the exchange's --tls-client-ca?"
    )


def _unchecked() -> ssl.SSLContext:
    """A context to find out whether the peer speaks TLS at all; nothing is sent to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
