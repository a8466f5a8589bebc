"""Sockets for datagrams between simulated hosts, whose names are their addresses, as in ``10.0.0.1``.

A datagram comes late, overtakes others, is lost, or finds the buffer of its reader's kernel full.
"""

import errno
import socket
from collections import deque
from collections.abc import Sequence

from tests.simulator.sockets import Address, Buffer, SimulatedSocket

_BUFFER_BYTES = 425_984
"""What Linux gives who asks for more, twice ``net.core.rmem_max``."""
_OVERHEAD_BYTES = 768
"""What the kernel counts for a small datagram, beside its bytes."""


class DatagramSocket(SimulatedSocket):
    """As production code uses one."""

    def __init__(self, family: int = socket.AF_INET) -> None:
        """Not bound; of the host whose turn it is."""
        super().__init__(family)
        self._inbox: deque[tuple[bytes, Address]] = deque()
        self._inbox_bytes = 0
        self._target: Address | None = None

    # As production code calls it.

    def bind(self, address: Address) -> None:
        """See ``socket``."""
        self.port = address[1] or 30_000 + self.descriptor
        boxes, name = self.network.mailboxes, (self.host.name, self.port)
        if name in boxes and not boxes[name].is_closed:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        boxes[name] = self

    def getpeername(self) -> Address:
        """See ``socket``."""
        if self._target is None:
            raise OSError(errno.ENOTCONN, "not connected")
        return self._target

    def getsockopt(self, level: int, option: int) -> int:
        """See ``socket``; of its buffers."""
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVBUF), "nothing else is simulated"
        return _BUFFER_BYTES

    def recvfrom_into(self, buffer: memoryview) -> tuple[int, Address]:
        """See ``socket``."""
        self._raise_error()
        if not self._inbox:
            raise BlockingIOError(errno.EAGAIN, "nothing has come")
        content, sender = self._inbox.popleft()
        self._inbox_bytes -= len(content) + _OVERHEAD_BYTES
        buffer[: len(content)] = content
        return len(content), sender

    def recv_into(self, buffer: memoryview) -> int:
        """See ``socket``."""
        return self.recvfrom_into(buffer)[0]

    def recvmsg(self, *_: object) -> tuple[bytes, list[object], int, Address]:
        """See ``socket``; of the queue of errors, which stays empty: who is not connected does not hear of them."""
        raise BlockingIOError(errno.EAGAIN, "no error has come")

    def sendmsg(
        self, pieces: Sequence[Buffer], ancdata: tuple[()] = (), flags: int = 0, address: Address | None = None
    ) -> int:
        """See ``socket``."""
        self._raise_error()
        target = address or self.getpeername()
        content = b"".join(pieces)
        network = self.network
        if not (network.loses_datagram() or network.is_parted(self.host.name, target[0])):
            due = network.arrival(self.host, self.host)
            self.host.world.at(due, self._arrive, content, target)
        return len(content)

    def _raise_error(self) -> None:
        if self.is_closed:
            raise OSError(errno.EBADF, "Bad file descriptor")
        if (error := self.error) is not None:
            self.error = None
            raise error

    # As the event loop and the network call it.

    async def connect_later(self, address: Address) -> None:
        """Nothing is sent."""
        self.bind((self.host.name, 0))
        self._target = address

    def offer_datagram(self, content: bytes, sender: Address) -> None:
        """One has come."""
        if self._target is not None and self._target != sender:
            return
        size = len(content) + _OVERHEAD_BYTES
        if self._inbox_bytes + size > _BUFFER_BYTES:
            return
        world = self.host.world
        world.note(b"%r>%d:" % (world.now, self.descriptor))
        world.note(content)
        self._inbox_bytes += size
        self._inbox.append((content, sender))
        self.look()

    def _arrive(self, content: bytes, target: Address) -> None:
        network, own = self.network, self.getsockname()
        if network.is_parted(self.host.name, target[0]):
            return
        box = network.mailboxes.get(target)
        if box is None or box.is_closed:
            if self._target is not None:
                error = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
                self.host.world.at(network.arrival(self.host, self.host), self.fail, error)
        else:
            box.offer_datagram(content, own)

    @property
    def _is_readable(self) -> bool:
        return bool(self._inbox) or self.error is not None

    @property
    def _is_writable(self) -> bool:
        return not self.is_closed
