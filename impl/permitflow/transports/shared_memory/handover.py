"""How two processes that speak over gRPC come to share memory.

The end that dials offers: it listens at a Unix socket with a random name and says the name in its first frame.  The
end that accepts connects, receives the descriptors of the memory and of its event counter, and answers with a digest
of the nonce that it found in the memory.  Only a process on this host, in this network namespace and of this user
can do that; and only the one that was told the name knows where.

The name is an abstract one: no file, nothing to remove.
"""

import array
import contextlib
import errno
import hashlib
import os
import re
import secrets
import socket
import struct

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.region import Region, create_region, open_region

__all__ = ["Listener", "Received", "connect", "is_same_user", "nonce_digest", "receive"]

_PREFIX = "permitflow-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")

_GREETING = b"permitflow same host 1"
_DESCRIPTORS = 2
_CREDENTIALS = struct.Struct("3i")

# Room for what is not inline's business; permits and notes are small, a train of small chunks is not.
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
        """Hand the descriptors to whoever has connected; None if nobody of this user has.

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
