"""Sockets for datagrams between simulated hosts, whose names are their addresses, as in ``10.0.0.1``.

A datagram comes late, overtakes others, is lost, comes twice, is altered, or finds the buffer of its reader's kernel
full.  A router may give a socket another port, or refuse what it sends, and one direction may fall silent.
"""

import errno
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulator.sockets import Address, Buffer, Network, SimulatedSocket, flipped
from tests.simulator.world import Host

_COPY_SECONDS = (0.0, 0.0, 0.05, 3.0)
"""How much later the copy of a datagram may leave."""
_OVERHEAD_BYTES = 768
"""What the kernel counts for a small datagram, beside its bytes."""


@dataclass
class Direction:
    """What is wrong with all that a socket sends, or with all that comes to it."""

    is_silent: bool = False
    flips_next: bool = False


class DatagramSocket(SimulatedSocket):
    """As production code uses one."""

    def __init__(self, family: int = socket.AF_INET, host: Host | None = None, network: Network | None = None) -> None:
        """Not bound; of the host whose turn it is."""
        super().__init__(family, host, network)
        self._inbox: deque[tuple[bytes, Address]] = deque()
        self._inbox_bytes = 0
        self._target: Address | None = None
        self.sending, self.receiving = Direction(), Direction()
        self.is_refused = False
        """Does a router on the way refuse what it sends?"""
        self._refused: deque[tuple[bytes, Address]] = deque()
        """Of who is not connected: what nobody took."""

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
        return self.network.conditions.inbox_bytes

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

    def recvmsg(self, size: int, *_: int) -> tuple[bytes, list[object], int, Address]:
        """See ``socket``; of the queue of errors."""
        if not self._refused:
            raise BlockingIOError(errno.EAGAIN, "no error has come")
        content, target = self._refused.popleft()
        return content[:size], [], 0, target

    def sendmsg(
        self, pieces: Sequence[Buffer], ancdata: tuple[()] = (), flags: int = 0, address: Address | None = None
    ) -> int:
        """See ``socket``."""
        self._raise_error()
        target = address or self.getpeername()
        content = b"".join(pieces)
        size, network, world = len(content), self.network, self.host.world
        conditions, sender = network.conditions, self.getsockname()
        if world.chance(conditions.lost_share) or network.is_parted(self.host.name, target[0]):
            return size
        if self.is_refused:
            self._hear_refusal(content, target)
        elif not self.sending.is_silent:
            world.at(network.arrival(self.host, self.host), self._arrive, self._altered(content), sender, target)
            if world.chance(conditions.doubled_share):
                due = network.arrival(self.host, self.host) + world.random.choice(_COPY_SECONDS)
                world.at(due, self._arrive, content, sender, target)
        return size

    def _altered(self, content: bytes) -> bytes:
        world = self.host.world
        if self.sending.flips_next or world.chance(self.network.conditions.altered_share):
            self.sending.flips_next = False
            content, _ = flipped(content, world.random)
        return content

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
        if self.receiving.is_silent or self._inbox_bytes + size > self.network.conditions.inbox_bytes:
            return
        world = self.host.world
        if self.receiving.flips_next:
            self.receiving.flips_next = False
            content, _ = flipped(content, world.random)
        world.note(b"%r>%d:" % (world.now, self.descriptor))
        world.note(content)
        self._inbox_bytes += size
        self._inbox.append((content, sender))
        self.look()

    def move(self) -> None:
        """A router gives it another port, and drops what comes to the former one."""
        del self.network.mailboxes[self.host.name, self.port]
        self.bind((self.host.name, 30_000 + self.host.world.new_number()))

    def _arrive(self, content: bytes, sender: Address, target: Address) -> None:
        network = self.network
        if network.is_parted(self.host.name, target[0]):
            return
        box = network.mailboxes.get(target)
        if box is not None and not box.is_closed:
            box.offer_datagram(content, sender)
        elif (box is None or box.has_power) and sender == self.getsockname():
            self._hear_refusal(content, target)

    def _hear_refusal(self, content: bytes, target: Address) -> None:
        """Its host hears a little later that nobody listens there."""
        self.host.world.at(self.network.arrival(self.host, self.host), self._note_refusal, content, target)

    def _note_refusal(self, content: bytes, target: Address) -> None:
        if not self.is_closed and self._target is None:
            self._refused.append((content, target))
        self.fail(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))

    @property
    def _is_readable(self) -> bool:
        return bool(self._inbox or self._refused) or self.error is not None

    @property
    def _is_writable(self) -> bool:
        return not self.is_closed
