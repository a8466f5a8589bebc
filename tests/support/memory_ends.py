"""Both ends of a ring in one process."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from permitflow.transports.shared_memory.handover import Listener, connect, receive
from permitflow.transports.shared_memory.ring import RingReader, RingWriter

__all__ = ["SMALL_RING_BYTES", "MemoryEnds", "memory_ends"]

SMALL_RING_BYTES = 256 << 10


class MemoryEnds(NamedTuple):
    """What both ends have after the handover."""

    writer_socket: socket.socket
    writer: RingWriter
    reader_socket: socket.socket
    reader: RingReader

    def close(self) -> None:
        """Give everything back."""
        for end in self:
            end.close()


@contextmanager
def memory_ends(capacity_bytes: int = SMALL_RING_BYTES, *, offerer_writes: bool = True) -> Iterator[MemoryEnds]:
    """Offer, and accept; at the end of the block everything is closed.

    Args:
        capacity_bytes: of the ring.
        offerer_writes: does the end that offers write (Put), or read (Get)?
    """
    ends = _handed_over(capacity_bytes, offerer_writes)
    try:
        yield ends
    finally:
        ends.close()


def _handed_over(capacity_bytes: int, offerer_writes: bool) -> MemoryEnds:
    listener = Listener(capacity_bytes, writes=offerer_writes)
    try:
        connection = connect(listener.name)
        offerer, acceptor = listener.accept(), receive(connection, writes=not offerer_writes)
        assert offerer is not None
        assert acceptor is not None
        counter = listener.take_counter()
    finally:
        listener.close()
    if offerer_writes:
        writer, reader = RingWriter(listener.region, counter), RingReader(acceptor.region, acceptor.counter)
        return MemoryEnds(offerer, writer, acceptor.socket, reader)
    writer, reader = RingWriter(acceptor.region, acceptor.counter), RingReader(listener.region, counter)
    return MemoryEnds(acceptor.socket, writer, offerer, reader)
