"""Whether two processes share memory, and how they come to it.

The end that dials offers: it listens at a Unix socket with a random name and says the name in its first frame.  The
end that accepts connects, receives the descriptors of the memory and of its event counter, and answers with a digest
of the nonce that it found in the memory.  Only a process on this host, in this network namespace and of this user
can do that; and only the one that was told the name knows where.

The name is an abstract one: no file, nothing to remove.  Each end knows why memory is not shared.
"""

import array
import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import re
import secrets
import socket
import struct
from collections.abc import Callable
from typing import TypeVar

from permitflow.errors import PermitflowError, SameHostError, UndecodableDataError
from permitflow.protocol.frames import SameHostAnswer, SameHostOffer
from permitflow.transports.shared_memory import SameHost
from permitflow.transports.shared_memory.region import (
    RING_BYTES,
    Region,
    create_region,
    forget_in_children,
    open_region,
    why_impossible,
)
from permitflow.transports.shared_memory.ring import Ring, ring_end

__all__ = [
    "NO_OFFER",
    "Listener",
    "Offer",
    "Received",
    "accepted",
    "connect",
    "is_same_user",
    "nonce_digest",
    "receive",
]

_PREFIX = "permitflow-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")

_GREETING = b"permitflow same host 1"
_DESCRIPTORS = 2
_CREDENTIALS = struct.Struct("3i")

# Room for what is not inline's business; permits and notes are small, small chunks that travel together are not.
_SOCKET_BUFFER_BYTES = 1 << 20


def nonce_digest(nonce: bytes) -> bytes:
    """The answer that proves that a nonce was read."""
    return hashlib.sha256(b"permitflow same host\0" + nonce).digest()


class Listener:
    """The offer of the end that dials: memory, its counter, and a socket at which the peer can fetch them."""

    def __init__(self, capacity_bytes: int, *, writes: bool) -> None:
        """Listen.

        Args:
            capacity_bytes: of the ring.
            writes: does this end write the ring's messages, or read them?

        Raises:
            OSError: the system refuses: limits, no such call.
        """
        self.name = _PREFIX + secrets.token_hex(16)
        with contextlib.ExitStack() as undo:
            self.region, memory = create_region(capacity_bytes, writable=writes)
            undo.callback(os.close, memory)
            self._counter = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            undo.callback(os.close, self._counter)
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            undo.callback(self.socket.close)
            self.socket.bind("\0" + self.name)
            # Room for visitors of other users, who are sent away: the peer is not to find the queue full of them.
            self.socket.listen()
            self.socket.setblocking(False)
            undo.pop_all()
        self._memory = memory

    def accept(self) -> socket.socket | None:
        """Hand the descriptors to a process that has connected; None if none of this user has.

        Raises:
            OSError: this end was closed, or the system refuses: it has no descriptor to spare.
        """
        try:
            peer, _ = self.socket.accept()
        except BlockingIOError:
            return None
        try:
            if is_same_user(peer):
                peer.setblocking(False)
                socket.send_fds(peer, [_GREETING], [self._memory, self._counter])
                return _prepared(peer)
        except OSError:
            # It has hung up: as good as nobody.
            pass
        peer.close()
        return None

    def take_counter(self) -> int:
        """The event counter's descriptor, which is the caller's from now on."""
        counter, self._counter = self._counter, -1
        return counter

    def close(self) -> None:
        """Offer nothing any more; the memory stays mapped.  Closing twice is harmless."""
        self.socket.close()
        for descriptor in (self._memory, self._counter):
            if descriptor >= 0:
                os.close(descriptor)
        self._memory = self._counter = -1


class Received:
    """What the accepting end has received."""

    def __init__(self, connection: socket.socket, region: Region, counter: int) -> None:
        """Everything belongs to this object."""
        self.socket = connection
        self.region = region
        self.counter = counter

    def close(self) -> None:
        """Give everything back: it was not used."""
        self.socket.close()
        os.close(self.counter)


def connect(name: str) -> socket.socket:
    """Connect to the socket that a peer has named; it does not block.

    Raises:
        UndecodableDataError: that is no name of such a socket.
        OSError: nobody listens: it is another host, another network namespace, or too late.
        PermissionError: somebody else's process listens.
    """
    if _NAME.fullmatch(name) is None:
        raise UndecodableDataError(what="the name of a Unix socket", reason=f"{name[:80]!r} is none of ours")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect("\0" + name)
        _require_same_user(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def receive(connection: socket.socket, *, writes: bool) -> Received | None:
    """Take the memory that the peer hands over; None if it has not yet.  The socket stays the caller's until then.

    Raises:
        UndecodableDataError: what came is not what was agreed.
        OSError: it cannot be mapped here.
    """
    try:
        greeting, descriptors = _receive_descriptors(connection)
    except BlockingIOError:
        return None
    try:
        if greeting != _GREETING or len(descriptors) != _DESCRIPTORS:
            reason = f"{greeting!r} with {len(descriptors)} descriptors"
            raise UndecodableDataError(what="what the Unix socket hands over", reason=reason)
        memory, counter = descriptors
        _require_counter(counter)
        region = open_region(memory, writable=writes)
        descriptors = [memory]
        return Received(_prepared(connection), region, counter)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _receive_descriptors(connection: socket.socket) -> tuple[bytes, list[int]]:
    # Python's recv_fds cannot close them on exec at once; and whatever has come must be closed.
    room = socket.CMSG_SPACE(4 * _DESCRIPTORS)
    greeting, ancillary, _, _ = connection.recvmsg(len(_GREETING), room, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return greeting, list(descriptors)


def _require_counter(descriptor: int) -> None:
    """A read or write of anything else might block, or do harm."""
    kind = os.readlink(f"/proc/self/fd/{descriptor}")
    if kind != "anon_inode:[eventfd]":
        raise UndecodableDataError(what="the event counter that the peer offers", reason=f"it is {kind}")
    os.set_blocking(descriptor, False)


def is_same_user(connection: socket.socket) -> bool:
    """Does the process at the other end belong to the user of this one?"""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())


def _require_same_user(connection: socket.socket) -> None:
    if not is_same_user(connection):
        raise PermissionError(errno.EACCES, "the peer's process belongs to another user")


def _prepared(connection: socket.socket) -> socket.socket:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
    return connection


_log = logging.getLogger(__name__)

L = TypeVar("L")

NO_OFFER = "the peer does not offer to share memory"

# The dialer hands over as soon as its event loop, or a thread that does nothing else, has its turn.
_HANDOVER_SECONDS = 2.0
_RETRY_SECONDS = 0.05


class Offer:
    """The end that dials: what it offers, and what has become of that.  For one thread at a time."""

    def __init__(self, policy: SameHost, *, writes: bool, who: str, capacity_bytes: int = RING_BYTES) -> None:
        """Prepare the memory, unless that is switched off or impossible here.

        Args:
            policy: of this end.
            writes: is this end the one that sends data?
            who: the peer in words, for errors and for the log.
            capacity_bytes: of the ring.

        Raises:
            SameHostError: this end insists, and cannot even offer.
        """
        self._policy = policy
        self._who = who
        self.reason = "it is switched off at this end" if policy is SameHost.NEVER else why_impossible()
        """Why no memory is shared; empty while it may be."""
        self._writes = writes
        self._connection: socket.socket | None = None
        self.listener: Listener | None = None
        if not self.reason:
            try:
                self.listener = Listener(capacity_bytes, writes=writes)
            except (OSError, ValueError, MemoryError) as error:
                self.reason = f"this system refuses: {_words(error)}"
        if self.reason:
            self._refuse()
        forget_in_children(self)

    @property
    def frame(self) -> SameHostOffer | None:
        """What the first frame says; None if nothing is offered."""
        if self.listener is None:
            return None
        return SameHostOffer(self.listener.name, self._policy is SameHost.REQUIRE)

    def _refuse(self) -> None:
        _log.info("no shared memory with %s: %s", self._who, self.reason)
        if self._policy is SameHost.REQUIRE:
            raise SameHostError(who=self._who, reason=self.reason)

    @property
    def awaits_visitor(self) -> bool:
        """Is the listener's socket to be watched?"""
        return self.listener is not None and self.listener.socket.fileno() >= 0

    def serve(self) -> float | None:
        """Hand over to the first visitor of this user, if it has connected; watch the socket again in how many seconds?

        More than 0 while this process has no descriptor to spare.  If None, the watcher stops watching, and then calls
        ``turn_away``: it would be told of the next visitor, to which nothing is given, again and again.
        """
        if self.listener is None or not self.awaits_visitor:
            return None
        try:
            self._connection = self.listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # the visitor waits in the kernel meanwhile
                return _RETRY_SECONDS
            _log.info("no shared memory with %s: its visit cannot be received: %s", self._who, _words(error))
            return None
        return 0.0 if self._connection is None else None

    def turn_away(self) -> None:
        """Hang up on all others who have connected, and listen no more.  Nobody watches the socket any more."""
        if self.listener is not None:
            self.listener.socket.close()

    def settle(self, answer: SameHostAnswer | None, make: Callable[[socket.socket, Ring], L]) -> L | None:
        """Make the link that the peer has agreed to, or note why there is none.

        Raises:
            SameHostError: this end insists.
            UndecodableDataError: the peer says that it has the memory, and cannot prove it.
        """
        if self.listener is not None and answer is not None and answer.proof:
            return self._link(self.listener, answer.proof, make)
        if self.listener is not None:
            self.reason = "the peer does not know how to share memory" if answer is None else answer.refusal
            self.close()
            self._refuse()
        return None

    def _link(self, listener: Listener, proof: bytes, make: Callable[[socket.socket, Ring], L]) -> L:
        connection = self._connection
        if connection is None or proof != nonce_digest(listener.region.nonce):
            raise UndecodableDataError(what=f"the proof of {self._who} that it shares memory", reason="it is wrong")
        self._connection = None
        link = make(connection, ring_end(listener.region, listener.take_counter(), writes=self._writes))
        self.close()
        return link

    def forget(self) -> None:
        """In the child of a fork."""
        self.close()

    def close(self) -> None:
        """Withdraw what is not in use.  Closing twice is harmless."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def accepted(name: str, *, writes: bool) -> Received | str:
    """Accept an offer; what was received, or why that was impossible.

    Args:
        name: under which the memory can be fetched.
        writes: is this end the one that sends data?
    """
    try:
        connection = connect(name)
    except ConnectionRefusedError:
        return "nobody listens there: another host, a container with a network of its own, or another visitor was first"
    except (OSError, PermitflowError) as error:
        return _words(error)
    try:
        async with asyncio.timeout(_HANDOVER_SECONDS):
            return await _received(connection, writes=writes)
    except TimeoutError:
        reason = "the memory was not handed over in time"
    except (OSError, ValueError, MemoryError, PermitflowError) as error:
        reason = _words(error)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return reason


def _words(error: Exception) -> str:
    """Without the number that the operating system has for it."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def _received(connection: socket.socket, *, writes: bool) -> Received:
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_reader(connection.fileno(), came.set)
    try:
        while (received := receive(connection, writes=writes)) is None:
            await came.wait()
            came.clear()
        return received
    finally:
        loop.remove_reader(connection.fileno())
