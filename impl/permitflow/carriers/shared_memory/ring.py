"""The two ends of a ring: one puts messages in, the other hands out views of them.

Space in the ring is a credit in bytes.  The writer spends some for each message.  The reader returns exactly this
amount, in the order of the messages, when the views of the oldest message are gone.  Space returns through an event
counter of the kernel: the reader adds to it, the writer takes the sum.  The counter is exact, wakes a waiting writer,
and orders the reader's last access before the writer's next one.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from permitflow.carriers.shared_memory.region import Region
from permitflow.errors import UndecodableDataError
from permitflow.wire.buffers import Buffer

ALIGNMENT_BYTES = 64
"""The alignment of a message's large part: Arrow's kernels want it, and no two messages share a cache line."""


class RingSlot(NamedTuple):
    """The position of a message in the ring, in bytes."""

    offset: int
    size: int
    space: int
    """The size, and the skipped bytes before the message."""


class WriterSpace:
    """The writer's ledger: the free space of the ring.

    It wraps around as early as it can, so that the stream touches no more of the ring than it needs at once: its
    permits then bound its memory and its share of the cache.  It touches more when a message finds no room: at the
    beginning when it would wrap, or behind the newest message after it has wrapped.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.taken_bytes = 0
        """Taken and not returned yet."""
        self._head = 0
        self._touched = 0

    def take(self, size: int, lead: int = 0) -> RingSlot | None:
        """Take space for a message whose byte number ``lead`` is to be aligned; None without room.

        Without room, later messages wrap around further on, so that the next one need not wait.
        """
        place = self._place(size, lead)
        if place is None:
            self._touched = min(self.capacity_bytes, self._touched + size)
        return place

    def _place(self, size: int, lead: int) -> RingSlot | None:
        # An empty ring starts at its beginning.
        head = self._head if self.taken_bytes else 0
        offset = head + -(head + lead) % ALIGNMENT_BYTES
        onward = RingSlot(offset, size, size + offset - head if self.taken_bytes else size)
        if offset + size <= self._touched or not head:
            return self._taken(onward)
        offset = -lead % ALIGNMENT_BYTES
        wrapped = RingSlot(offset, size, size + self.capacity_bytes - head + offset)
        return self._taken(wrapped) or self._taken(onward)

    def _taken(self, place: RingSlot) -> RingSlot | None:
        end = place.offset + place.size
        if end > self.capacity_bytes or self.taken_bytes + place.space > self.capacity_bytes:
            return None
        self.taken_bytes += place.space
        self._head = end
        self._touched = max(self._touched, end)
        return place

    def give_back(self, returned: int) -> None:
        """Note space that the reader has returned, in bytes.

        Raises:
            UndecodableDataError: the reader has returned more than it had.
        """
        if returned > self.taken_bytes:
            reason = f"it returned {returned} bytes, but had only {self.taken_bytes}"
            raise UndecodableDataError(what="the space that the reader of the ring returned", reason=reason)
        self.taken_bytes -= returned


class Tenure:
    """One message in the ring, from its arrival until its last view is gone."""

    __slots__ = ("is_over", "place")

    def __init__(self, place: RingSlot) -> None:
        self.place = place
        self.is_over = False


class HeldSpace:
    """The reader's ledger: the messages that still have views.  Tenures may end in any thread and in any order."""

    def __init__(self, capacity_bytes: int, give_back: Callable[[int], object]) -> None:
        """Begin with no message.

        Args:
            capacity_bytes: of the ring.
            give_back: returns this many bytes to the writer; runs in the thread that ends a tenure.
        """
        self.capacity_bytes = capacity_bytes
        self._give_back: Callable[[int], object] | None = give_back
        self._held: deque[Tenure] = deque()
        self._lock = threading.Lock()

    def hold(self, place: RingSlot) -> Tenure:
        """Begin the tenure of a message that the writer has announced.

        Raises:
            UndecodableDataError: it is not inside the ring, or overwrites a message that still has views.
        """
        if not 0 < place.size <= place.space or place.offset + place.size > self.capacity_bytes:
            raise UndecodableDataError(
                what=str(place), reason=f"it is not inside a ring of {self.capacity_bytes} bytes"
            )
        oldest, newest = self._bounds()
        if oldest is not None and newest is not None and not _is_between(place, newest, oldest):
            raise UndecodableDataError(what=str(place), reason=f"it overwrites held views, {oldest} to {newest}")
        tenure = Tenure(place)
        self._held.append(tenure)
        return tenure

    def _bounds(self) -> tuple[RingSlot | None, RingSlot | None]:
        # Another thread may end the oldest tenure meanwhile; then more is free than these bounds show.
        try:
            return self._held[0].place, self._held[-1].place
        except IndexError:
            return None, None

    def end(self, tenure: Tenure) -> None:
        """End a tenure, and return the space before the oldest remaining one.

        Never waits: the garbage collector may call it in the middle of another call of it.
        """
        tenure.is_over = True
        # A thread that finds the lock taken relies on its holder to look again.
        while self._is_oldest_over() and self._lock.acquire(blocking=False):
            try:
                self._reclaim()
            finally:
                self._lock.release()

    def _is_oldest_over(self) -> bool:
        try:
            return self._held[0].is_over
        except IndexError:
            return False

    def _reclaim(self) -> None:
        space = 0
        while self._is_oldest_over():
            space += self._held.popleft().place.space
        if space and self._give_back is not None:
            self._give_back(space)

    def close(self) -> None:
        """Return no more space."""
        with self._lock:
            self._give_back = None

    def forget(self) -> None:
        """As ``close``, in the child of a fork, where the thread that holds the lock may not exist."""
        self._give_back = None


def _is_between(place: RingSlot, newest: RingSlot, oldest: RingSlot) -> bool:
    """Whether it lies behind the newest message and before the oldest, around the ring."""
    head, end = newest.offset + newest.size, place.offset + place.size
    if newest.offset >= oldest.offset:
        return place.offset >= head or end <= oldest.offset
    return head <= place.offset and end <= oldest.offset


BULK_BYTES = 4096
"""A message is aligned for its first piece of at least this size; the smaller pieces before it are frames."""


class RingWriter:
    """Puts messages into a ring.  For one thread."""

    def __init__(self, region: Region, counter: int) -> None:
        """``counter``: the descriptor of the event counter; this object closes it."""
        self._ring = region.ring
        self._space = WriterSpace(region.capacity_bytes)
        self.counter = counter

    @property
    def capacity_bytes(self) -> int:
        """The size of the ring."""
        return self._space.capacity_bytes

    def put(self, parts: Sequence[Buffer], size: int) -> RingSlot | None:
        """Copy a message into the ring; None without room.

        Raises:
            UndecodableDataError: the reader has returned more space than it had.
        """
        self.collect()
        place = self._space.take(size, _lead(parts))
        if place is None:
            return None
        at = place.offset
        ring = self._ring
        for part in parts:
            end = at + len(part)
            # Arrow's buffers have signed bytes.
            ring[at:end] = part if isinstance(part, bytes) else memoryview(part).cast("B")
            at = end
        return place

    def collect(self) -> bool:
        """Take back the space that the reader has returned; False if there was none."""
        if not self._space.taken_bytes:
            return False
        try:
            self._space.give_back(os.eventfd_read(self.counter))
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Release memory and descriptor: a reference to the stream keeps neither.  Closing twice is harmless."""
        self._ring = memoryview(b"")
        counter, self.counter = self.counter, -1
        if counter >= 0:
            os.close(counter)

    def forget(self) -> None:
        """As ``close``, in the child of a fork."""
        self.close()


class RingReader:
    """Hands out views of the peer's messages in a ring."""

    def __init__(self, region: Region, counter: int) -> None:
        """``counter``: the descriptor of the event counter; this object closes it."""
        # Keeps the mapping while a view of it exists.
        self._memory = pa.py_buffer(region.ring)
        self._space = HeldSpace(region.capacity_bytes, partial(os.eventfd_write, counter))
        self._counter = counter

    def view(self, place: RingSlot) -> memoryview:
        """The message at a place.  Its space returns when the view and all slices of it are gone.

        Raises:
            UndecodableDataError: the place is wrong.
        """
        owner = _Owner(self._memory, self._space, self._space.hold(place))
        return memoryview(pa.foreign_buffer(self._memory.address + place.offset, place.size, owner)).cast("B")

    def close(self) -> None:
        """Return no more space.  Views stay valid.  Closing twice is harmless."""
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
"""One end of a ring."""


def ring_end(region: Region, counter: int, *, writes: bool) -> Ring:
    """This process's end of a ring; it closes ``counter``."""
    return RingWriter(region, counter) if writes else RingReader(region, counter)


class _Owner:
    """Ends a tenure when Arrow's last reference to the message is gone."""

    __slots__ = ("_memory", "_space", "_tenure")

    def __init__(self, memory: pa.Buffer, space: HeldSpace, tenure: Tenure) -> None:
        self._memory = memory
        self._space = space
        self._tenure = tenure

    def __del__(self) -> None:
        # While the interpreter shuts down, modules may be gone; the space does not matter then.
        with contextlib.suppress(AttributeError, TypeError, OSError):
            self._space.end(self._tenure)


def _lead(parts: Sequence[Buffer]) -> int:
    """The bytes before the first piece of at least ``BULK_BYTES``."""
    lead = 0
    for part in parts:
        if len(part) >= BULK_BYTES:
            return lead
        lead += len(part)
    return 0
