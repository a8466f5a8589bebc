"""The two ends of a ring: one puts messages in, the other hands out views of them.

Space comes back through an event counter of the kernel: the reader adds what it returns, the writer takes the sum.
It is exact, wakes a writer that waits, and orders the reader's last look before the writer's next use.
"""

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from permitflow.transports.shared_memory.region import Region
from permitflow.transports.shared_memory.space import HeldSpace, Place, Tenure, WriterSpace

__all__ = ["BULK_BYTES", "Part", "Ring", "RingReader", "RingWriter", "ring_end"]

Part: TypeAlias = bytes | memoryview | pa.Buffer
"""A piece of a message."""

BULK_BYTES = 4096
"""The first piece of at least this size is what a message is aligned for: what precedes it are frames."""


class RingWriter:
    """Puts messages into a ring.  For one thread."""

    def __init__(self, region: Region, counter: int) -> None:
        """``counter``: the descriptor of the event counter, which now belongs to this object."""
        self._ring = region.ring
        # Arrow's buffers say that they hold signed bytes, and are copied only into memory that says the same.
        self._signed = region.ring.cast("b")
        self._space = WriterSpace(region.capacity_bytes)
        self.counter = counter

    @property
    def capacity_bytes(self) -> int:
        """Of the ring."""
        return self._space.capacity_bytes

    def put(self, parts: Sequence[Part], size: int) -> Place | None:
        """Copy a message in; None if there is no room for it now.

        Raises:
            UndecodableDataError: the reader returned more than it had.
        """
        self.collect()
        place = self._space.take(size, _lead(parts))
        if place is None:
            return None
        at = place.offset
        ring, signed, arrow = self._ring, self._signed, pa.Buffer
        for part in parts:
            end = at + len(part)
            if isinstance(part, arrow):
                signed[at:end] = part
            else:
                ring[at:end] = part if isinstance(part, bytes) else part.cast("B")
            at = end
        return place

    def collect(self) -> bool:
        """Take what the reader has returned; was it anything?"""
        if not self._space.taken_bytes:
            return False
        try:
            self._space.give_back(os.eventfd_read(self.counter))
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Give memory and descriptor back: who keeps the stream keeps neither.  Closing twice is harmless."""
        self._ring = self._signed = memoryview(b"")
        counter, self.counter = self.counter, -1
        if counter >= 0:
            os.close(counter)

    def forget(self) -> None:
        """As ``close``, in the child of a fork."""
        self.close()


class RingReader:
    """Hands out views of what the peer has put into a ring."""

    def __init__(self, region: Region, counter: int) -> None:
        """``counter``: the descriptor of the event counter, which now belongs to this object."""
        # Keeps the mapping, as long as anybody holds a view of it.
        self._memory = pa.py_buffer(region.ring)
        self._space = HeldSpace(region.capacity_bytes, partial(os.eventfd_write, counter))
        self._counter = counter

    def view(self, place: Place) -> memoryview:
        """The message at a place.  Its space returns when nobody refers to the view or a part of it any more.

        Raises:
            UndecodableDataError: the note is wrong.
        """
        owner = _Owner(self._memory, self._space, self._space.hold(place))
        return memoryview(pa.foreign_buffer(self._memory.address + place.offset, place.size, owner)).cast("B")

    def close(self) -> None:
        """Return nothing any more.  Views stay valid, as long as they are held.  Closing twice is harmless."""
        self._space.close()
        self._memory = pa.py_buffer(b"")
        self._close_counter()

    def forget(self) -> None:
        """As ``close``, in the child of a fork."""
        self._space.forget()
        self._close_counter()

    def _close_counter(self) -> None:
        counter, self._counter = self._counter, -1
        if counter >= 0:
            os.close(counter)


Ring: TypeAlias = RingWriter | RingReader
"""One end."""


def ring_end(region: Region, counter: int, *, writes: bool) -> Ring:
    """The end of a ring that this process has; ``counter`` as for both."""
    return RingWriter(region, counter) if writes else RingReader(region, counter)


class _Owner:
    """What Arrow refers to while it refers to a message in the ring."""

    __slots__ = ("_memory", "_space", "_tenure")

    def __init__(self, memory: pa.Buffer, space: HeldSpace, tenure: Tenure) -> None:
        self._memory = memory
        self._space = space
        self._tenure = tenure

    def __del__(self) -> None:
        # When the interpreter ends, parts of it may be gone; then so is the peer's interest.
        with contextlib.suppress(AttributeError, TypeError, OSError):
            self._space.end(self._tenure)


def _lead(parts: Sequence[Part]) -> int:
    """The bytes before the bulk."""
    lead = 0
    for part in parts:
        if len(part) >= BULK_BYTES:
            return lead
        lead += len(part)
    return 0
