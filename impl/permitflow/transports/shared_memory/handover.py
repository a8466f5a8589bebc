"""The agreement of two processes to share memory.

The end that dials offers: it listens at a Unix socket with a random name, and its first frame contains the name.  The
end that accepts connects, receives the descriptors of the memory and of its event counter, and answers with a digest
of the nonce in the memory.  Only a process on this host, in this network namespace and of this user can do that, and
only the peer knows the name.

The name is an abstract one, without a file.  Each end knows the reason when memory is not shared.
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

_PREFIX = "permitflow-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")

_GREETING = b"permitflow same host 1"
_DESCRIPTORS = 2
_CREDENTIALS = struct.Struct("3i")

# Permits and notes are small, but small chunks that travel together need room.
_SOCKET_BUFFER_BYTES = 1 << 20


def nonce_digest(nonce: bytes) -> bytes:
    """The digest that proves that the peer has read the nonce."""
    return hashlib.sha256(b"permitflow same host\0" + nonce).digest()


class Listener:
    """Memory, its event counter, and a socket at which the peer receives their descriptors."""

    def __init__(self, capacity_bytes: int, *, writes: bool) -> None:
        """Listen.

        Args:
            capacity_bytes: of the ring.
            writes: whether this end writes into the ring; otherwise it reads.

        Raises:
            OSError: the system has reached a limit, or lacks a call.
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
            # The queue has room for connections of other users, so that they do not keep the peer out.
            self.socket.listen()
            self.socket.setblocking(False)
            undo.pop_all()
        self._memory = memory

    def accept(self) -> socket.socket | None:
        """Hand the descriptors to a connected process of this user; None if there is none.

        Raises:
            OSError: this end is closed, or the system has no descriptor left.
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
            pass  # the process has hung up
        peer.close()
        return None

    def take_counter(self) -> int:
        """The event counter's descriptor; the caller closes it."""
        counter, self._counter = self._counter, -1
        return counter

    def close(self) -> None:
        """Withdraw the offer; the memory stays mapped.  Closing twice is harmless."""
        self.socket.close()
        for descriptor in (self._memory, self._counter):
            if descriptor >= 0:
                os.close(descriptor)
        self._memory = self._counter = -1


class Received:
    """The socket, memory and event counter that the accepting end has received."""

    def __init__(self, connection: socket.socket, region: Region, counter: int) -> None:
        self.socket = connection
        self.region = region
        self.counter = counter

    def close(self) -> None:
        """Release the socket and the counter, unused."""
        self.socket.close()
        os.close(self.counter)


def connect(name: str) -> socket.socket:
    """A non-blocking connection to the socket that the peer has named.

    Raises:
        UndecodableDataError: the name has another form.
        OSError: no process listens: another host, another network namespace, or too late.
        PermissionError: a process of another user listens.
    """
    if _NAME.fullmatch(name) is None:
        reason = f"{name[:80]!r} is not {_PREFIX!r} with 32 hexadecimal digits"
        raise UndecodableDataError(what="the name of a Unix socket", reason=reason)
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
    """Receive the peer's memory; None if it has not come yet: then the caller still owns the socket.

    Raises:
        UndecodableDataError: the peer has sent other data or descriptors.
        OSError: the memory cannot be mapped.
    """
    try:
        greeting, descriptors = _receive_descriptors(connection)
    except BlockingIOError:
        return None
    try:
        if greeting != _GREETING or len(descriptors) != _DESCRIPTORS:
            reason = f"{greeting!r} with {len(descriptors)} descriptors"
            raise UndecodableDataError(what="the first message over the Unix socket", reason=reason)
        memory, counter = descriptors
        _require_counter(counter)
        region = open_region(memory, writable=writes)
        descriptors = [memory]
        return Received(_prepared(connection), region, counter)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _receive_descriptors(connection: socket.socket) -> tuple[bytes, list[int]]:
    # socket.recv_fds cannot set close-on-exec; and every descriptor that has come must be closed.
    room = socket.CMSG_SPACE(4 * _DESCRIPTORS)
    greeting, ancillary, _, _ = connection.recvmsg(len(_GREETING), room, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return greeting, list(descriptors)


def _require_counter(descriptor: int) -> None:
    """Refuse another kind of file: a read or write of it might block, or do harm."""
    kind = os.readlink(f"/proc/self/fd/{descriptor}")
    if kind != "anon_inode:[eventfd]":
        raise UndecodableDataError(what="the event counter that the peer offers", reason=f"it is {kind}")
    os.set_blocking(descriptor, False)


def is_same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end belongs to the same user."""
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

# The dialer hands over in the next turn of its event loop.
_HANDOVER_SECONDS = 2.0
_RETRY_SECONDS = 0.05


class Offer:
    """The dialing end's offer to share memory, and its outcome.  For one thread at a time."""

    def __init__(self, policy: SameHost, *, writes: bool, who: str) -> None:
        """Prepare the memory, unless that is switched off or impossible here.

        Args:
            policy: of this end.
            writes: whether this end sends the data.
            who: the peer's name in errors and in the log.

        Raises:
            SameHostError: the policy is ``REQUIRE``, and this end cannot offer.
        """
        self._policy = policy
        self._who = who
        self.reason = "it is switched off at this end" if policy is SameHost.NEVER else why_impossible()
        """Why memory is not shared; empty while it may be."""
        self._writes = writes
        self._connection: socket.socket | None = None
        self.listener: Listener | None = None
        if not self.reason:
            try:
                self.listener = Listener(RING_BYTES, writes=writes)
            except (OSError, ValueError, MemoryError) as error:
                self.reason = f"this system refuses: {_message(error)}"
        if self.reason:
            self._refuse()
        forget_in_children(self)

    @property
    def frame(self) -> SameHostOffer | None:
        """The offer in the first frame; None without one."""
        if self.listener is None:
            return None
        return SameHostOffer(self.listener.name, self._policy is SameHost.REQUIRE)

    def _refuse(self) -> None:
        _log.info("no shared memory with %s: %s", self._who, self.reason)
        if self._policy is SameHost.REQUIRE:
            raise SameHostError(who=self._who, reason=self.reason)

    @property
    def awaits_visitor(self) -> bool:
        """Whether the caller must watch the listener's socket."""
        return self.listener is not None and self.listener.socket.fileno() >= 0

    def serve(self) -> float | None:
        """Hand over to the first process of this user that connects.

        Returns the seconds until the caller watches the socket again: more than 0 while this process has no descriptor
        left.  After None the caller stops watching and calls ``turn_away``; otherwise each further connection would
        wake it.
        """
        if self.listener is None or not self.awaits_visitor:
            return None
        try:
            self._connection = self.listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # the connection waits in the kernel
                return _RETRY_SECONDS
            _log.info("no shared memory with %s: its connection was not accepted: %s", self._who, _message(error))
            return None
        return 0.0 if self._connection is None else None

    def turn_away(self) -> None:
        """Close the socket and all other connections to it; call it once the socket is not watched."""
        if self.listener is not None:
            self.listener.socket.close()

    def settle(self, answer: SameHostAnswer | None, make: Callable[[socket.socket, Ring], L]) -> L | None:
        """Make the link if the peer has agreed; otherwise note the reason.

        Raises:
            SameHostError: the policy is ``REQUIRE``, and the peer has not agreed.
            UndecodableDataError: the peer's proof is wrong.
        """
        if self.listener is not None and answer is not None and answer.proof:
            return self._link(self.listener, answer.proof, make)
        if self.listener is not None:
            self.reason = "the peer cannot share memory" if answer is None else answer.refusal
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
        """Close the offer in the child of a fork."""
        self.close()

    def close(self) -> None:
        """Close the listener and the unused connection.  Closing twice is harmless."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def accepted(name: str, *, writes: bool) -> Received | str:
    """Accept an offer: the received memory, or the reason for a refusal.

    Args:
        name: of the peer's Unix socket.
        writes: whether this end sends the data.
    """
    try:
        connection = connect(name)
    except ConnectionRefusedError:
        return "no process listens there: another host, a container with its own network, or another process was first"
    except (OSError, PermitflowError) as error:
        return _message(error)
    try:
        async with asyncio.timeout(_HANDOVER_SECONDS):
            return await _received(connection, writes=writes)
    except TimeoutError:
        reason = "the memory was not handed over in time"
    except (OSError, ValueError, MemoryError, PermitflowError) as error:
        reason = _message(error)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return reason


def _message(error: Exception) -> str:
    """The error's text without the operating system's number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def _received(connection: socket.socket, *, writes: bool) -> Received:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection.fileno(), readable.set)
    try:
        while (received := receive(connection, writes=writes)) is None:
            await readable.wait()
            readable.clear()
        return received
    finally:
        loop.remove_reader(connection.fileno())
