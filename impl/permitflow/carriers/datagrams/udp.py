"""Streams over UDP: sockets, the handshake, and how an exchange is dialled.

An acceptor has one socket for all of its connections, a dialler one for each.
"""

import asyncio
import hmac
import logging
import os
import secrets
import socket
import struct
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import blake2s
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias, Unpack

from permitflow.carriers import dialling
from permitflow.carriers.accepting import place
from permitflow.carriers.addresses import Address, parsed
from permitflow.carriers.byte_stream import KIND_OF_METHOD, ByteStream, StreamOptions
from permitflow.carriers.datagrams.link import LinkFeedback
from permitflow.carriers.datagrams.link_pipe import LinkPipe
from permitflow.carriers.datagrams.packets import (
    COOKIE_BYTES,
    MOST_WINDOW,
    Accept,
    Challenge,
    Data,
    Gone,
    Hello,
    Open,
    Packet,
    decode,
    encode,
)
from permitflow.carriers.dialling import Dialling, Name
from permitflow.carriers.reaching import Destination, reached
from permitflow.errors import InvalidParametersError
from permitflow.wire.buffers import Buffer

_log = logging.getLogger(__name__)

DATAGRAM_BYTES = 1_200
"""The longest packet on a network: what every network carries in one piece (RFC 9000, 14.1)."""
LOOPBACK_DATAGRAM_BYTES = 32 << 10
"""The longest packet on the loopback, which carries all of them."""
_SOCKET_BUFFER_BYTES = 4 << 20
"""What is asked for; the kernel may give less (``net.core.rmem_max``)."""
_MOST_DATAGRAM_BYTES = 65_535
_READS_AT_ONCE = 64
"""Reads in one turn of the event loop."""
_MOST_REFUSALS_AT_ONCE = 4
"""Likewise, of packets for a connection that there is not."""
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.05, 1.0
_ANSWER_SECONDS = 5.0
"""How long a dialler waits at the last address of a name."""
_COOKIE_SECONDS = 30.0
"""A cookie is good for this long, and at most for twice as long."""
_TOKEN_BITS = 64
_LEAST_WINDOW = 8
_CLOSE_SECONDS = 2.0
"""How long a program that ends waits for its peers."""

SocketName: TypeAlias = tuple[object, ...]


def new_socket(family: int) -> socket.socket:
    """A socket for datagrams, with large buffers."""
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        made.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
    return made


def _datagram_bytes(peer: SocketName) -> int:
    host = str(peer[0]).partition("%")[0]
    return LOOPBACK_DATAGRAM_BYTES if ip_address(host).is_loopback else DATAGRAM_BYTES


def _window(made: socket.socket, datagram_bytes: int) -> int:
    """The datagrams that the kernel keeps for a reader that is not running: half of its buffer, with what they cost."""
    buffer_bytes = made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return max(_LEAST_WINDOW, min(_MOST_USED_WINDOW, buffer_bytes // 2 // (2 * datagram_bytes)))


_MOST_USED_WINDOW = 512
assert _MOST_USED_WINDOW <= MOST_WINDOW


class UdpStream(ByteStream):
    """A stream over a link of its own."""

    def __init__(self, pipe: LinkPipe, **options: Unpack[StreamOptions]) -> None:
        """Take a pipe over; the options are those of ``ByteStream``."""
        self._link = pipe
        super().__init__(pipe, **options)
        pipe.hear_signs(self._hear)

    def _ping(self) -> None:
        """See ``ByteStream``."""
        self._link.give_sign()

    def _is_listening(self) -> bool:
        """Packets are read even if the application reads nothing."""
        return True


class _Endpoint(ABC):
    """A socket: reads its packets, and sends those of its connections."""

    def __init__(self, made: socket.socket, dropped: Counter[str] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = made
        self._space = memoryview(bytearray(_MOST_DATAGRAM_BYTES))
        self._touched: dict[LinkPipe, None] = {}  # in their order
        self._is_blocked = False
        self.dropped = Counter[str]() if dropped is None else dropped
        """Packets that were not for this end, by the reason."""
        self._loop.add_reader(made.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        receive, space, now = self._socket.recvfrom_into, self._space, self._loop.time()
        for count in range(_READS_AT_ONCE):
            try:
                size, sender = receive(space)
            except BlockingIOError:
                if not count:
                    self._read_errors()
                break
            except OSError:  # what a host tells about an earlier packet
                self._on_refusal()
                continue
            packet = decode(space[:size])
            if packet is None:
                self.dropped["malformed"] += 1
            else:
                self._take(packet, sender, now)
        touched, self._touched = self._touched, {}
        for pipe in touched:
            if not pipe.over.is_set():
                pipe.end_turn()

    @abstractmethod
    def _take(self, packet: Packet, sender: SocketName, now: float) -> None:
        """Process a packet."""

    @abstractmethod
    def _on_refusal(self) -> None:
        """A host has told that nobody listens there."""

    @abstractmethod
    def _read_errors(self) -> None:
        """The socket is readable, but there is no packet: take what is there, or the loop would call back for ever."""

    @abstractmethod
    def _pipes(self) -> Sequence[LinkPipe]:
        """All connections."""

    def _pass_on(self, pipe: LinkPipe, packet: Data | LinkFeedback | Gone, now: float) -> None:
        if isinstance(packet, Data):
            pipe.take_data(packet, now)
        elif isinstance(packet, LinkFeedback):
            pipe.take_feedback(packet, now)
        else:
            pipe.take_gone()
        self._touched[pipe] = None

    def _sent(self, pieces: Sequence[Buffer], peer: SocketName | None) -> bool:
        """Send a packet; False: the socket has no room.  What else may go wrong, the network may do as well."""
        try:
            if peer is None:
                self._socket.sendmsg(pieces)
            else:
                self._socket.sendmsg(pieces, (), 0, peer)
        except BlockingIOError:
            self._loop.call_soon_threadsafe(self._wait_for_room)
            return False
        except OSError as error:
            _log.debug("a packet to %s was not sent: %s", peer, error)
        return True

    def _wait_for_room(self) -> None:
        if not self._is_blocked and self._socket.fileno() >= 0:
            self._is_blocked = True
            self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        self._is_blocked = False
        self._loop.remove_writer(self._socket.fileno())
        for pipe in self._pipes():
            pipe.unblock()

    def _release(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()


class _Dialled(_Endpoint):
    """The socket of a dialler: connected, for one connection."""

    def __init__(self, made: socket.socket, accepted: Accept, window: int) -> None:
        super().__init__(made)
        self._connection = accepted.connection
        self.pipe = LinkPipe(
            connection=accepted.connection,
            window=window,
            peer_window=accepted.window,
            datagram_bytes=_datagram_bytes(made.getpeername()),
            transmit=partial(self._sent, peer=None),
            on_over=self._release,
        )

    def _pipes(self) -> Sequence[LinkPipe]:
        return (self.pipe,)

    def _take(self, packet: Packet, sender: SocketName, now: float) -> None:
        match packet:
            case Data(_, LinkFeedback(connection)) | LinkFeedback(connection) | Gone(connection) if (
                connection == self._connection
            ):
                self._pass_on(self.pipe, packet, now)
            case _:
                self.dropped["of another connection"] += 1

    def _on_refusal(self) -> None:
        self.pipe.take_refusal()
        self._touched[self.pipe] = None

    def _read_errors(self) -> None:
        """A connected socket has no queue of errors, unless it is asked to."""


async def _met(made: socket.socket, window: int) -> Accept:
    """Say hello, and bring the cookie, as often as it takes.

    Raises:
        OSError: nobody listens there.
    """
    loop = asyncio.get_running_loop()
    token = secrets.randbits(_TOKEN_BITS)
    asked, retry_seconds = encode(Hello(token)), _FIRST_RETRY_SECONDS
    while True:
        with suppress(BlockingIOError):
            made.send(asked)
        with suppress(TimeoutError):
            async with asyncio.timeout(retry_seconds):
                while True:
                    match decode(await loop.sock_recv(made, _MOST_DATAGRAM_BYTES)):
                        case Accept(answered) as accept if answered == token:
                            return accept
                        case Challenge(answered, cookie) if answered == token:
                            asked = encode(Open(token, cookie, window))
                            made.send(asked)
        retry_seconds = min(2 * retry_seconds, _LAST_RETRY_SECONDS)


async def _connected(family: int, name: Name) -> _Dialled:
    """A connection to this address.

    Raises:
        OSError: nobody listens there.
    """
    made = await dialling.connected(family, name, new_socket)
    try:
        window = _window(made, _datagram_bytes(made.getpeername()))
        return _Dialled(made, await _met(made, window), window)
    except BaseException:
        made.close()
        raise


@asynccontextmanager
async def calling(to: Destination) -> AsyncIterator[UdpStream]:
    """As ``carriers.calling``, for an address as in ``udp://host:port``; there is no TLS over UDP."""
    where, security = parsed(to.address), to.security
    if security is not None and security.ca is not None:
        rule = "must be one of gRPC or TCP: there is no TLS over UDP"
        raise InvalidParametersError(name="address", value=to.address, rule=rule)
    token = None if security is None else security.token_for(where)
    dialled = await reached(Dialling(where.host, where.port, _connected, answer_seconds=_ANSWER_SECONDS), to)
    stream = UdpStream(dialled.pipe, who=to.who, is_acceptor=False, silence_seconds=to.silence_seconds)
    try:
        stream.call(KIND_OF_METHOD[to.method], token)
        yield stream
        stream.close()
        await dialled.pipe.over.wait()
    finally:
        stream.close()
        dialled.pipe.abandon()


class _Cookies:
    """What a dialler must send back, to show that it receives at its address; nothing is kept for it."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)

    def bake(self, who: object, at_seconds: float) -> bytes:
        """The cookie for a dialler."""
        text = f"{who}, {at_seconds // _COOKIE_SECONDS}"
        return blake2s(text.encode(), digest_size=COOKIE_BYTES, key=self._secret).digest()

    def knows(self, cookie: bytes, who: object, at_seconds: float) -> bool:
        """Was it baked for this dialler, and not long ago?"""
        moments = (at_seconds, at_seconds - _COOKIE_SECONDS)
        return any(hmac.compare_digest(cookie, self.bake(who, moment)) for moment in moments)


class _Opened(NamedTuple):
    """What an OPEN was answered with; it may come again as long as its cookie is good."""

    accept: Accept
    until_seconds: float


class UdpAcceptor(_Endpoint):
    """The socket of an exchange: all of its connections."""

    def __init__(
        self,
        address: Address,
        on_connection: Callable[[LinkPipe, SocketName], None],
        *,
        most_connections: int,
        dropped: Counter[str] | None = None,
    ) -> None:
        """Listen.

        Args:
            address: where.
            on_connection: called with each new connection, and its dialler's address.
            most_connections: a dialler that asks for one more gets no answer.
            dropped: counts the packets that are dropped, by the reason; None: a counter of its own.

        Raises:
            OSError: this end cannot listen there.
        """
        family, name = place(address.host, address.port, socket.SOCK_DGRAM)
        made = new_socket(family)
        try:
            made.bind(name)
            _ask_for_errors(made)
        except BaseException:
            made.close()
            raise
        super().__init__(made, dropped)
        self._on_connection, self._most_connections = on_connection, most_connections
        self._cookies = _Cookies()
        self._connections: dict[int, tuple[LinkPipe, SocketName]] = {}
        self._opened: dict[object, _Opened] = {}
        self._opened_in_order: deque[object] = deque()
        self._is_accepting = True
        self._refused, self._refused_at = 0, 0.0
        self._over = asyncio.Event()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._socket.getsockname()[1])

    def _pipes(self) -> Sequence[LinkPipe]:
        return [pipe for pipe, _ in self._connections.values()]

    def _may_refuse(self, now: float) -> bool:
        """A few times in a turn of the event loop: a flood gets no flood of answers.  Who has got none asks again."""
        self._refused = self._refused + 1 if now == self._refused_at else 1
        self._refused_at = now
        return self._refused <= _MOST_REFUSALS_AT_ONCE

    def _take(self, packet: Packet, sender: SocketName, now: float) -> None:
        match packet:
            case Data(_, LinkFeedback(connection)) | LinkFeedback(connection) | Gone(connection):
                pipe, peer = self._connections.get(connection, (None, None))
                if pipe is not None and peer == sender:
                    self._pass_on(pipe, packet, now)
                    return
                self.dropped["of no connection"] += 1
                if not isinstance(packet, Gone) and self._may_refuse(now):  # a Gone could be answered by another one
                    self._sent((encode(Gone(connection)),), sender)
            case Hello(token) if self._is_accepting:
                self._sent((encode(Challenge(token, self._cookies.bake((sender, token), now))),), sender)
            case Open(token, cookie) if self._cookies.knows(cookie, (sender, token), now):
                self._open(packet, sender, now)
            case _:
                self.dropped["out of place"] += 1

    def _open(self, asked: Open, sender: SocketName, now: float) -> None:
        """Make a connection, or tell again which one was made."""
        self._forget_opened(now)
        key = (sender, asked.token)
        if key not in self._opened:
            if not self._is_accepting or len(self._connections) >= self._most_connections:
                self.dropped["one connection too many"] += 1
                return
            connection = secrets.randbits(_TOKEN_BITS)
            datagram_bytes = _datagram_bytes(sender)
            window = _window(self._socket, datagram_bytes)
            pipe = LinkPipe(
                connection=connection,
                window=window,
                peer_window=asked.window,
                datagram_bytes=datagram_bytes,
                transmit=partial(self._sent, peer=sender),
                on_over=partial(self._forget, connection),
            )
            self._connections[connection] = pipe, sender
            self._opened[key] = _Opened(Accept(asked.token, connection, window), now + 2 * _COOKIE_SECONDS)
            self._opened_in_order.append(key)
            self._on_connection(pipe, sender)
        accept = self._opened[key].accept
        if accept.connection in self._connections:
            self._sent((encode(accept),), sender)

    def _forget_opened(self, now: float) -> None:
        keys = self._opened_in_order
        while keys and self._opened[keys[0]].until_seconds < now:
            del self._opened[keys.popleft()]

    def _forget(self, connection: int) -> None:
        del self._connections[connection]
        if not self._connections:
            self._over.set()

    def _on_refusal(self) -> None:
        self._read_errors()

    def _read_errors(self) -> None:
        """Find out which connections they are about: the kernel returns the packets that were refused.

        A write that comes in between is told of the error, too, and then no read is: only the queue has it.
        """
        with suppress(OSError):
            while True:
                data, _, _, sender = self._socket.recvmsg(_MOST_DATAGRAM_BYTES, 0, _MSG_ERRQUEUE)
                if len(data) < _REFUSED.size:
                    continue
                (connection,) = _REFUSED.unpack_from(data)
                pipe, peer = self._connections.get(connection, (None, None))
                if pipe is not None and peer == sender:
                    pipe.take_refusal()
                    self._touched[pipe] = None

    def refuse_all(self) -> None:
        """Accept no more connections; those that there are go on."""
        self._is_accepting = False

    async def close(self) -> None:
        """Release the socket once the peers have all that was sent to them, at most after ``_CLOSE_SECONDS``."""
        self.refuse_all()
        for pipe in self._pipes():
            pipe.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._connections:
                    self._over.clear()
                    await self._over.wait()
        for pipe in self._pipes():
            pipe.abandon()
        self._release()


_MSG_ERRQUEUE = 0x2000  # of Linux, as the options below
_IP_RECVERR, _IPV6_RECVERR = 11, 25
_REFUSED = struct.Struct(">12xQ")


def _ask_for_errors(made: socket.socket) -> None:
    """Learn that a peer's host has no such peer any more; elsewhere than on Linux, its silence tells."""
    with suppress(OSError):
        if made.family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
        else:
            made.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
