"""The agreement of two processes to share memory.

The end that dials offers: it listens at a Unix socket with a random name, and its first frame contains the name.  The
end that accepts connects, receives the descriptors of the memory and of its event counter, and answers with a digest
of the nonce in the memory.  Only a process on this host, in this network namespace and of this user can do that, and
only the peer knows the name.

The name is an abstract one, without a file.  Each end knows the reason when memory is not shared.
"""

import array
import asyncio
import errno
import hashlib
import logging
import os
import re
import secrets
import socket
import struct
from typing import NamedTuple

from permitflow.carriers.shared_memory import SameHost
from permitflow.carriers.shared_memory.region import (
    RING_BYTES,
    Region,
    create_region,
    forget_in_children,
    open_region,
    why_impossible,
)
from permitflow.carriers.shared_memory.ring import Ring, ring_end
from permitflow.errors import PermitflowError, SameHostError, UndecodableDataError
from permitflow.stream.frames import SameHostAnswer, SameHostOffer

_log = logging.getLogger(__name__)

NO_OFFER = "the peer does not offer to share memory"

# The dialer, which listens, hands over in the next turn of its event loop; on a crowded machine that takes a while.
_HANDOVER_SECONDS = 10.0
_RETRY_SECONDS = 0.05

_PREFIX = "permitflow-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")

_GREETING = b"permitflow same host 2"
_DESCRIPTORS = 2
_CREDENTIALS = struct.Struct("3i")

# Permits and notes are small, but small chunks that travel together need room.
_SOCKET_BUFFER_BYTES = 1 << 20


def nonce_digest(nonce: bytes) -> bytes:
    """The digest that proves that the peer has read the nonce."""
    return hashlib.sha256(b"permitflow same host\0" + nonce).digest()


class Offer:
    """The dialing end's offer to share memory, and its outcome; needs a running event loop.

    The first process of this user that connects receives the descriptors.  Then the socket is closed, so that all other
    visitors are refused.
    """

    def __init__(self, policy: SameHost, *, writes: bool, who: str) -> None:
        """Prepare the memory and listen, unless that is switched off or impossible here.

        Args:
            policy: of this end.
            writes: whether this end sends the data.
            who: the peer's name in errors and in the log.

        Raises:
            SameHostError: the policy is ``REQUIRE``, and this end cannot offer.
        """
        self._policy, self._writes, self._who = policy, writes, who
        self._loop = asyncio.get_running_loop()
        self._region: Region | None = None
        self._memory = self._counter = -1
        self._listener: socket.socket | None = None
        self._connection: socket.socket | None = None
        self.frame: SameHostOffer | None = None
        """The offer in the first frame; None without one."""
        self.reason = "it is switched off at this end" if policy is SameHost.NEVER else why_impossible()
        """Why memory is not shared; empty while it may be."""
        if not self.reason:
            try:
                self.frame = SameHostOffer(self._listen(), policy is SameHost.REQUIRE)
            except (OSError, ValueError, MemoryError) as error:
                self.forget()
                self.reason = f"this system refuses: {_message(error)}"
        if self.reason:
            self._refuse()
        forget_in_children(self)

    def _listen(self) -> str:
        """Prepare what is to be shared, and listen; return the name of the socket.

        Raises:
            OSError: the system has reached a limit, or lacks a call.
        """
        name = _PREFIX + secrets.token_hex(16)
        self._region, self._memory = create_region(RING_BYTES, writable=self._writes)
        self._counter = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + name)
        # The queue has room for connections of other users, so that they do not keep the peer out.
        self._listener.listen()
        self._listener.setblocking(False)
        self._watch()
        return name

    def _refuse(self) -> None:
        _log.info("no shared memory with %s: %s", self._who, self.reason)
        if self._policy is SameHost.REQUIRE:
            raise SameHostError(who=self._who, reason=self.reason)

    def _watch(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener.fileno(), self._on_visitor, self._listener)

    def _stop_listening(self) -> None:
        """Refuse all visitors from now on."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._loop.remove_reader(listener.fileno())
            listener.close()

    def _on_visitor(self, listener: socket.socket) -> None:
        try:
            visitor, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # the connection waits in the kernel
                self._loop.remove_reader(listener.fileno())
                self._loop.call_later(_RETRY_SECONDS, self._watch)
                return
            _log.info("no shared memory with %s: its connection was not accepted: %s", self._who, _message(error))
            self._stop_listening()
            return
        try:
            if is_same_user(visitor):
                visitor.setblocking(False)
                socket.send_fds(visitor, [_GREETING], [self._memory, self._counter])
                self._connection = _prepared(visitor)
                self._stop_listening()
                return
        except OSError:
            pass  # the process has hung up
        visitor.close()

    def settle(self, answer: SameHostAnswer | None) -> tuple[socket.socket, Ring] | None:
        """The ends of socket and ring, which the caller closes, if the peer has agreed; otherwise note the reason.

        Raises:
            SameHostError: the policy is ``REQUIRE``, and the peer has not agreed.
            UndecodableDataError: the peer's proof is wrong.
        """
        if self._region is None:
            return None
        connection, region = self._connection, self._region
        if answer is None or not answer.proof:
            self.reason = "the peer cannot share memory" if answer is None else answer.refusal
            self.close()
            self._refuse()
            return None
        if connection is None or answer.proof != nonce_digest(region.nonce):
            raise UndecodableDataError(what=f"the proof of {self._who} that it shares memory", reason="it is wrong")
        ring = ring_end(region, self._counter, writes=self._writes)
        self._connection, self._counter = None, -1
        self.close()
        return connection, ring

    def close(self) -> None:
        """Close everything that is not shared.  Closing twice is harmless."""
        self._stop_listening()
        self.forget()

    def forget(self) -> None:
        """As ``close``, in the child of a fork, which must not change what its parent's loop watches."""
        for end in (self._listener, self._connection):
            if end is not None:
                end.close()
        for descriptor in (self._memory, self._counter):
            if descriptor >= 0:
                os.close(descriptor)
        self._region = self._listener = self._connection = None
        self._memory = self._counter = -1


class HandedOver(NamedTuple):
    """What the accepting end has received."""

    socket: socket.socket
    region: Region
    counter: int
    """The descriptor of the event counter."""

    def close(self) -> None:
        """Release the socket and the counter, unused."""
        self.socket.close()
        os.close(self.counter)


async def accepted(name: str, *, writes: bool) -> HandedOver | str:
    """Accept an offer: the received memory, or the reason for a refusal.

    Args:
        name: of the peer's Unix socket.
        writes: whether this end sends the data.
    """
    if _NAME.fullmatch(name) is None:
        return f"the name of a Unix socket, {name[:80]!r}, is not {_PREFIX!r} with 32 hexadecimal digits"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect("\0" + name)
        if is_same_user(connection):
            async with asyncio.timeout(_HANDOVER_SECONDS):
                return await _received(connection, writes=writes)
        reason = "the peer's process belongs to another user"
    except ConnectionRefusedError:
        reason = (
            "no process listens there: another host, a container with its own network, or another process was first"
        )
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


async def _received(connection: socket.socket, *, writes: bool) -> HandedOver:
    """Receive the peer's memory.

    Raises:
        UndecodableDataError: the peer has sent other data or descriptors.
        OSError: the memory cannot be mapped.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection.fileno())
    greeting, descriptors = _receive_descriptors(connection)
    try:
        if greeting != _GREETING or len(descriptors) != _DESCRIPTORS:
            reason = f"{greeting!r} with {len(descriptors)} descriptors"
            raise UndecodableDataError(what="the first message over the Unix socket", reason=reason)
        memory, counter = descriptors
        _require_counter(counter)
        region = open_region(memory, writable=writes)
        descriptors = [memory]
        return HandedOver(_prepared(connection), region, counter)
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


def _prepared(connection: socket.socket) -> socket.socket:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
    return connection
