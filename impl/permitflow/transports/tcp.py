"""A stream over a TCP connection of its own, for asyncio; what it needs of gRPC is a way to end with a status.

Each message stands behind eight bytes: what follows, two letters by which a stranger is recognised, a check of the
others, and how many bytes follow.  Without the check both ends could wait for ever after an altered length, for bytes
that nobody sends.  The dialler's first message says which method it calls.  All numbers are big-endian.

What is received lies where Arrow reads it, what is sent is not copied before the kernel takes it.  Permits bound what
is on the way; the socket's buffers bound its bytes.
"""

import asyncio
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from enum import IntEnum
from struct import Struct

import pyarrow as pa

from permitflow.errors import (
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    UndecodableDataError,
)
from permitflow.transports.addresses import host_and_port
from permitflow.transports.arrow import MAX_MESSAGE_BYTES
from permitflow.transports.arrow_compression import MAX_SCHEMA_BYTES
from permitflow.transports.carrier import Buffer, Carrier, Listener, Received
from permitflow.transports.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.transports.control_codec import MOST_REQUEST_BYTES
from permitflow.transports.deadlines import HANDSHAKE_SECONDS, SILENCE_SECONDS
from permitflow.transports.heartbeat import Heartbeat
from permitflow.transports.shared_memory.ring import without
from permitflow.transports.wire_errors import NOTHING_SAID, decode_status, encode_status, stranger_who_says

__all__ = [
    "HEADER_BYTES",
    "KIND_OF_METHOD",
    "METHODS",
    "NEXT_ADDRESS_SECONDS",
    "PIECES_AT_ONCE",
    "Kind",
    "TcpStream",
    "calling",
    "header",
    "read_header",
]

_HEADER = Struct(">B2sBI")
_MARK = b"pf"
HEADER_BYTES = _HEADER.size
PIECES_AT_ONCE = 256
"""Of a message, in one call of the kernel; it takes up to 1,024."""


class Kind(IntEnum):
    """What follows."""

    MESSAGE = 0
    END = 1
    """Nothing: this half is closed, in good order."""
    STATUS = 2
    """Why the acceptor ends the stream, as JSON: what gRPC says with a status."""
    PING = 3
    """Nothing: a sign of life."""
    GET = 4
    """Nothing: the dialler calls GetStream."""
    PUT = 5
    """Nothing: the dialler calls PutStream."""
    CONTROL = 6
    """Nothing: the dialler calls Control."""


# Indexing costs a tenth of a call.
_KINDS = tuple(Kind)
METHODS = {Kind.GET: GET_STREAM, Kind.PUT: PUT_STREAM, Kind.CONTROL: CONTROL}
KIND_OF_METHOD = {method: kind for kind, method in METHODS.items()}


def header(kind: Kind, size_bytes: int = 0) -> bytes:
    """What stands before so many bytes."""
    return _HEADER.pack(kind, _MARK, _check(kind, size_bytes), size_bytes)


def _check(kind: int, size_bytes: int) -> int:
    """The exclusive or of the five bytes: another one if any bit of them is altered."""
    folded = size_bytes ^ size_bytes >> 16
    return (kind ^ folded ^ folded >> 8) & 0xFF


def read_header(data: memoryview, who: str, most_bytes: int = MAX_MESSAGE_BYTES) -> tuple[Kind, int]:
    """What follows, and how many bytes, of what ``who`` has sent; a message has at most so many.

    Raises:
        UndecodableDataError: this is no message of ours, or it is too long.
    """
    kind, mark, check, size = _HEADER.unpack_from(data)
    if mark != _MARK or check != _check(kind, size) or kind > Kind.CONTROL:
        first = bytes(data[:HEADER_BYTES])
        raise UndecodableDataError(
            what=f"what {who} says, {first!r},", reason=f"it is none of permitflow's, {stranger_who_says(first)}"
        )
    most_bytes = most_bytes if kind == Kind.MESSAGE else _STATUS_BYTES if kind == Kind.STATUS else 0
    if size > most_bytes:
        raise UndecodableDataError(what=f"a message of {size} bytes", reason=f"{most_bytes} are the most")
    return _KINDS[kind], size


_STATUS_BYTES = 64 << 10
# What the dialler of each method may send.  A Put is as short as a Get; chunks come after the agreement.
_FRAMES_BYTES = MAX_SCHEMA_BYTES + (128 << 10)  # a schema and all that is beside it
_MOST_BYTES = {Kind.GET: _FRAMES_BYTES, Kind.PUT: _FRAMES_BYTES, Kind.CONTROL: MOST_REQUEST_BYTES + (1 << 10)}
_SCRATCH_BYTES = 16 << 10  # headers and small messages; larger ones are received where they stay
_READS_AT_ONCE = 8  # for one turn of the event loop
_MOST_AHEAD = 64  # of messages that nobody hears yet; the kernel keeps the rest, and then the peer waits
_MESSAGE = Kind.MESSAGE  # reading an enumeration's attribute costs more than comparing it
_VERDICT_SECONDS = 1.0  # to read what a peer has said before it hung up
_FAREWELL_SECONDS = 1.0  # to read the last word and hang up: a connection that is closed before may lose it


class TcpStream(Carrier):
    """A stream over a socket of its own."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        who: str,
        is_acceptor: bool,
        silence_seconds: float = SILENCE_SECONDS,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        """Take a connected socket over.

        Args:
            connection: belongs to this object.
            who: is at the other end, in words for an error.
            is_acceptor: was this end dialled?
            silence_seconds: a peer that gives no sign of life for longer is gone.
            handshake_seconds: of an acceptor: the time that its dialler has to say what it wants.
        """
        self._loop = asyncio.get_running_loop()
        self._socket, self._who, self._is_acceptor = connection, who, is_acceptor
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._listener: Listener | None = None
        # What comes.
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._body: memoryview | None = None
        self._scratch_filled = self._body_filled = 0
        self._kind = Kind.MESSAGE
        self._most_bytes = 0 if is_acceptor else MAX_MESSAGE_BYTES
        self._inbox: deque[tuple[Kind, Received]] = deque()
        self._is_watching = self._is_paused = self._has_end_come = self._has_ended = False
        self._method: asyncio.Future[str] = self._loop.create_future()
        # What leaves; signs of life do so in another thread.
        self._sending, self._ping_rest = threading.Lock(), b""
        self._rest: Sequence[Buffer] = ()
        self._is_within_message = self._is_closing_half = False
        self._awaits_agreement = False  # does the dialler, before it sends chunks?
        # The end.
        self._failure: PermitflowError | None = None
        self._is_broken = False  # can nothing be read and written any more?
        self._is_wrong = self._has_told_failure = False  # is what has come none of ours?
        self._silence_seconds, self._handshake_seconds = silence_seconds, handshake_seconds
        self._late = self._loop.call_later(handshake_seconds, self._on_late) if is_acceptor else None
        self._heartbeat = Heartbeat(self._loop, ping=self._ping, give_up=self._give_up, silence_seconds=silence_seconds)
        self._watch()

    # Reading.

    async def method(self) -> str:
        """Which method the dialler calls.

        Raises:
            UndecodableDataError: it says something else.
            PeerGoneError: it is gone, or does not say it in time.
        """
        return await self._method

    def listen(self, listener: Listener) -> None:
        """See ``Carrier``."""
        self._listener = listener
        self._watch()  # it may have come to a stop before anybody listened
        self._loop.call_soon(self._tell)

    def pause(self) -> None:
        """See ``Carrier``."""
        self._is_paused = True
        self._unwatch()

    def resume(self) -> None:
        """See ``Carrier``."""
        self._is_paused = False
        self._watch()
        self._loop.call_soon(self._tell)

    def _watch(self) -> None:
        if not self._is_watching and not self._is_paused and self._failure is None:
            self._is_watching = self._heartbeat.is_listening = True
            self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def _unwatch(self) -> None:
        if self._is_watching:
            self._is_watching = self._heartbeat.is_listening = False
            self._loop.remove_reader(self._socket.fileno())

    def _on_readable(self) -> None:
        try:
            self._receive()
        except BlockingIOError:
            pass
        except PermitflowError as error:
            self._refuse(error)
        except MemoryError as error:
            self._fail(self._gone(str(error)))
        except OSError as error:
            self._break_reading(str(error))
        self._tell()

    def _receive(self) -> None:
        for _ in range(_READS_AT_ONCE):
            body = self._body
            space = self._scratch[self._scratch_filled :] if body is None else body[self._body_filled :]
            count = self._socket.recv_into(space)
            if not count:
                self._break_reading("its connection was closed before the end")
                return
            self._heartbeat.has_sign = True
            if body is None:
                self._scratch_filled += count
                self._parse()
            else:
                self._body_filled += count
                if self._body_filled == len(body):
                    self._body = None
                    self._note(self._kind, body.toreadonly())
            if count < len(space):
                return

    def _parse(self) -> None:
        start, end = 0, self._scratch_filled
        while end - start >= HEADER_BYTES and self._body is None:
            kind, size = read_header(self._scratch[start:], self._who, self._most_bytes)
            start += HEADER_BYTES
            here = self._scratch[start : min(end, start + size)]
            start += len(here)
            if len(here) == size:
                self._note(kind, bytes(here))
                continue
            self._kind, self._body, self._body_filled = kind, memoryview(pa.allocate_buffer(size)).cast("B"), len(here)
            self._body[: len(here)] = here
        self._scratch_filled = end - start
        if end > start:
            self._scratch[: end - start] = bytes(self._scratch[start:end])

    def _note(self, kind: Kind, payload: Received) -> None:
        """Something has come, and is whole."""
        if kind is Kind.PING:
            return
        if self._is_acceptor and not self._method.done():
            self._note_method(kind)
            return
        if self._late is not None:
            self._late.cancel()
        self._inbox.append((kind, payload))
        self._has_end_come |= kind is Kind.END
        if self._listener is None and len(self._inbox) >= _MOST_AHEAD:
            self._unwatch()

    def _note_method(self, kind: Kind) -> None:
        if kind not in METHODS:
            raise UndecodableDataError(what="the beginning of a stream", reason=f"{kind.name} calls no method")
        self._most_bytes, self._awaits_agreement = _MOST_BYTES[kind], kind is Kind.PUT
        if kind is Kind.CONTROL and self._late is not None:  # a control client may take its time
            self._late.cancel()
        self._method.set_result(METHODS[kind])

    def _on_late(self) -> None:
        reason = f"it has not said within {self._handshake_seconds:g} s what it wants"
        self._fail(PeerTimeoutError(who=self._who, reason=reason))
        self._tell()

    def _tell(self) -> None:
        """Let the listener hear what has come."""
        inbox = self._inbox
        while inbox and self._listener is not None and not self._is_paused:
            kind, payload = inbox.popleft()
            if kind is _MESSAGE and not self._has_ended:
                self._listener.on_message(payload, bool(inbox) and inbox[0][0] is _MESSAGE)
            elif kind is Kind.END and not self._has_ended:
                self._has_ended = True
                self._listener.on_end()
            elif kind is Kind.STATUS and not self._is_acceptor:
                inbox.clear()
                self._fail(decode_status(bytes(payload), who=self._who))
            else:
                inbox.clear()
                self._refuse(UndecodableDataError(what="a message", reason=f"{kind.name} may not come here"))
        listener = self._listener
        if self._failure is not None and listener is not None and not inbox and not self._has_told_failure:
            self._has_told_failure = True
            if not self.takes_last_words:
                self._listener = None
            listener.on_error(self._failure)

    # Writing.

    def call(self, kind: Kind) -> None:
        """Say which method is called."""
        self._send([header(kind)])

    def write(self, message: Sequence[Buffer]) -> bool:
        """See ``Carrier``."""
        size = sum(map(len, message))
        if self._awaits_agreement:  # which this is
            self._awaits_agreement, self._most_bytes = False, MAX_MESSAGE_BYTES
        return self._send([header(_MESSAGE, size) + message[0], *message[1:]], HEADER_BYTES + size)

    @property
    def takes_last_words(self) -> bool:
        """See ``Carrier``; an acceptor says why by ``finish``."""
        return self._is_wrong and not self._is_broken and not self._is_acceptor

    def half_close(self) -> None:
        """See ``Carrier``; an acceptor says so by ``finish``, when all is over."""
        if self._rest:
            self._is_closing_half = True
        elif not self._is_acceptor:
            self._send([header(Kind.END)])

    def _send(self, pieces: Sequence[Buffer], size: int = -1) -> bool:
        """Write; the rest when the socket takes more.  Says whether there is none.  Quicker if the size is known."""
        assert not self._rest, "the carrier was full"
        if self._is_broken:
            return False
        try:
            self._rest = self._sent(pieces, size)
        except OSError as error:
            self._on_unwritable(error)
            return False
        if self._rest:
            self._loop.add_writer(self._socket.fileno(), self._on_writable)
        return not self._rest

    def _sent(self, pieces: Sequence[Buffer], size: int = -1) -> Sequence[Buffer]:
        """Write as much as the socket takes now; the rest."""
        with self._sending:
            if self._ping_rest:
                pieces, self._ping_rest, size = [self._ping_rest, *pieces], b"", -1
            self._is_within_message = True  # until all has been taken; after an error, too
            try:
                while pieces:
                    sent = self._socket.sendmsg(pieces[:PIECES_AT_ONCE])
                    pieces = () if sent == size else without(pieces, sent)
            except BlockingIOError:
                pass
            self._is_within_message = bool(pieces)
            return pieces

    def _on_writable(self) -> None:
        try:
            self._rest = self._sent(self._rest)
        except OSError as error:
            self._on_unwritable(error)
            return
        if self._rest:
            return
        self._loop.remove_writer(self._socket.fileno())
        if self._is_closing_half:
            self.half_close()
        elif self._listener is not None:
            self._listener.on_writable()

    def _on_unwritable(self, error: OSError) -> None:
        """The peer reads no more; why is among what it has said, or shows in its silence."""
        self._loop.remove_writer(self._socket.fileno())
        self._loop.call_later(_VERDICT_SECONDS, self._on_no_verdict, str(error))

    def _on_no_verdict(self, reason: str) -> None:
        self._break(reason)
        self._tell()

    def _ping(self) -> None:
        """Give a sign of life, in another thread, unless what is being written is one."""
        if self._sending.acquire(blocking=False):
            try:
                if not self._is_within_message:
                    ping = self._ping_rest or header(Kind.PING)
                    self._ping_rest = ping[self._socket.send(ping) :]
            except OSError:
                pass  # the next read or write hears of it
            finally:
                self._sending.release()

    # The end.

    async def finish(self, error: Exception | None) -> None:
        """Of an acceptor: all is over, well or with an error that the peer is told.

        Not within a message that was given up, whose rest it would be taken for: the peer gets ``PeerGoneError`` then.
        """
        await self.stop()
        if self._is_broken or self._rest:
            self.close()
            return
        told = b"" if error is None else encode_status(error)
        last = header(Kind.STATUS, len(told)) + told if error is not None else header(Kind.END)
        with self._sending:
            self._is_within_message = True  # no sign of life is given in between
            last = self._ping_rest + last
        with suppress(OSError):
            async with asyncio.timeout(self._silence_seconds):
                await self._loop.sock_sendall(self._socket, last)
            self._socket.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(_FAREWELL_SECONDS):
                while await self._loop.sock_recv_into(self._socket, self._scratch):
                    pass

    def _give_up(self, silent_seconds: float) -> None:
        self._fail(self._gone(f"it has given no sign of life for {silent_seconds:.0f} s"))
        self._tell()

    def _gone(self, reason: str) -> PeerGoneError:
        is_known = self._is_acceptor or self._heartbeat.has_heard
        return PeerGoneError(who=self._who, reason=reason if is_known else f"{reason}; {NOTHING_SAID}")

    def _break_reading(self, reason: str) -> None:
        if self._has_end_come:  # nothing is missing
            self._unwatch()
        else:
            self._break(reason)

    def _break(self, reason: str) -> None:
        self._is_broken = True
        self._fail(self._gone(reason))

    def _refuse(self, error: PermitflowError) -> None:
        """What comes is wrong, and so nothing more is heard, but the end of it after last words."""
        self._is_wrong = True
        self._fail(error)
        if self.takes_last_words:
            self._is_watching = True
            self._loop.add_reader(self._socket.fileno(), self._skip)

    def _skip(self) -> None:
        """Forget what comes.  Left unread, it would make the kernel reset the connection, and last words be lost."""
        try:
            if self._socket.recv_into(self._scratch):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._unwatch()
        if self._listener is not None:
            self._listener.on_end()

    def _fail(self, error: PermitflowError) -> None:
        self._failure = self._failure or error
        self._body = None  # whose rest will not come
        self._unwatch()
        if not self._method.done():
            self._method.set_exception(self._failure)
            self._method.exception()  # perhaps nobody asks

    async def stop(self) -> None:
        """See ``Carrier``."""
        self._listener = None
        self._unwatch()
        if self._rest and self._socket.fileno() >= 0:
            self._loop.remove_writer(self._socket.fileno())
        if self._late is not None:
            self._late.cancel()
        if not self._is_acceptor:  # which has still to say why
            self.close()

    def close(self) -> None:
        """Hang up.  Closing twice is harmless."""
        self._break("this end was closed")
        if self._late is not None:
            self._late.cancel()
        self._heartbeat.stop()
        if self._socket.fileno() >= 0:
            self._loop.remove_writer(self._socket.fileno())
        self._listener = None
        self._socket.close()


_RETRY_SECONDS = 0.05
NEXT_ADDRESS_SECONDS = 2.0
"""Seconds to wait for one resolved address before trying the next, as where packets for IPv6 are lost."""


@asynccontextmanager
async def calling(
    address: str, method: str, who: str, timeout_seconds: float | None, silence_seconds: float = SILENCE_SECONDS
) -> AsyncIterator[TcpStream]:
    """A stream of one method of the exchange at this address.

    Args:
        address: as in ``tcp://host:port``.
        method: its full name.
        who: is there, in words for an error.
        timeout_seconds: how long to try again; None: each address is tried once.
        silence_seconds: a peer that gives no sign of life for longer is gone.

    Raises:
        InvalidParametersError: it is no address.
        PeerTimeoutError: nobody answers there.
        PeerGoneError: nobody has answered there, and that was not to be tried again.
    """
    host, port = host_and_port(address)
    failures: dict[object, OSError] = {}
    try:
        async with asyncio.timeout(timeout_seconds):
            while (connection := await _connected(host, port, failures)) is None:
                if timeout_seconds is None:
                    why = "; ".join(dict.fromkeys(map(str, failures.values())))
                    raise PeerGoneError(who=who, reason=f"{why}; is an exchange running there (permitflow serve)?")
                # As gRPC does: the exchange may be about to start.
                await asyncio.sleep(_RETRY_SECONDS)
    except TimeoutError:
        why = f" ({'; '.join(map(str, failures.values()))})" if failures else ""
        reason = f"no connection within {timeout_seconds:g} s{why}; is an exchange running there (permitflow serve)?"
        raise PeerTimeoutError(who=who, reason=reason) from None
    stream = TcpStream(connection, who=who, is_acceptor=False, silence_seconds=silence_seconds)
    try:
        stream.call(KIND_OF_METHOD[method])
        yield stream
    finally:
        stream.close()


async def _connected(host: str, port: int, failures: dict[object, OSError]) -> socket.socket | None:
    """Tries each address that the name has; notes what it last heard of each.

    Not asyncio's own ``create_connection``: its transport would read what ``TcpStream`` wants where it stays.
    """
    loop = asyncio.get_running_loop()
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
    return None


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
