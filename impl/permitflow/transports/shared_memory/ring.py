"""The two ends of a ring: one puts messages in, the other hands out views of them.

Space is a second class of tokens, in bytes.  The writer takes some for each message; the reader returns exactly what
was taken, in the order of the messages, once the oldest of them is not looked at any more.  Space comes back through an
event counter of the kernel: the reader adds what it returns, the writer takes the sum.  It is exact, wakes a writer
that waits, and orders the reader's last look before the writer's next use.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.region import Region

__all__ = [
    "ALIGNMENT_BYTES",
    "BULK_BYTES",
    "HeldSpace",
    "Part",
    "Place",
    "Ring",
    "RingReader",
    "RingWriter",
    "Tenure",
    "WriterSpace",
    "ring_end",
    "without",
]

ALIGNMENT_BYTES = 64
"""Where the bulk of a message begins: Arrow's kernels want it, and two messages never share a cache line."""


class Place(NamedTuple):
    """Where in the ring one message lies; all in bytes."""

    offset: int
    size: int
    space: int
    """Taken for it: its size and what was skipped before it."""


class WriterSpace:
    """The writer's view: what is free for the next message.

    It goes around as early as it can, so that no more of the ring is ever used than was needed at once: the memory
    that a stream takes, and what it drives out of the cache, follow from its permits.  What was needed shows twice:
    where the beginning is not free when it would go around, and where it has gone around and what follows is not free.
    """

    def __init__(self, capacity_bytes: int) -> None:
        """Everything is free."""
        self.capacity_bytes = capacity_bytes
        self.taken_bytes = 0
        """Not returned yet."""
        self._head = 0
        self._touched = 0

    def take(self, size: int, lead: int = 0) -> Place | None:
        """Take space for a message whose byte number ``lead`` is to be aligned; None if that much is not free now.

        Then the ring is gone around later from now on, so that the next one need not wait.
        """
        place = self._place(size, lead)
        if place is None:
            self._touched = min(self.capacity_bytes, self._touched + size)
        return place

    def _place(self, size: int, lead: int) -> Place | None:
        # Where nothing is taken, nothing is skipped either.
        head = self._head if self.taken_bytes else 0
        offset = head + -(head + lead) % ALIGNMENT_BYTES
        onward = Place(offset, size, size + offset - head if self.taken_bytes else size)
        if offset + size <= self._touched or not head:
            return self._taken(onward)
        offset = -lead % ALIGNMENT_BYTES
        around = Place(offset, size, size + self.capacity_bytes - head + offset)
        return self._taken(around) or self._taken(onward)

    def _taken(self, place: Place) -> Place | None:
        end = place.offset + place.size
        if end > self.capacity_bytes or self.taken_bytes + place.space > self.capacity_bytes:
            return None
        self.taken_bytes += place.space
        self._head = end
        self._touched = max(self._touched, end)
        return place

    def give_back(self, returned: int) -> None:
        """Note what the reader has returned.

        Raises:
            UndecodableDataError: that is more than was taken.
        """
        if returned > self.taken_bytes:
            reason = f"{returned} bytes were returned, but only {self.taken_bytes} were taken"
            raise UndecodableDataError(what="what the reader of the ring says", reason=reason)
        self.taken_bytes -= returned


class Tenure:
    """One message in the ring, as long as somebody may look at it."""

    __slots__ = ("is_over", "place")

    def __init__(self, place: Place) -> None:
        """It begins."""
        self.place = place
        self.is_over = False


class HeldSpace:
    """The reader's view: which messages are still looked at.  Tenures may end in any thread, in any order."""

    def __init__(self, capacity_bytes: int, give_back: Callable[[int], object]) -> None:
        """Nothing is held.

        Args:
            capacity_bytes: of the ring.
            give_back: returns so many bytes to the writer; called in whatever thread ends a tenure.
        """
        self.capacity_bytes = capacity_bytes
        self._give_back: Callable[[int], object] | None = give_back
        self._held: deque[Tenure] = deque()
        self._lock = threading.Lock()

    def hold(self, place: Place) -> Tenure:
        """Begin the tenure of the message that the writer has announced.

        Raises:
            UndecodableDataError: it is not inside the ring, or overwrites what is still looked at.
        """
        if not 0 < place.size <= place.space or place.offset + place.size > self.capacity_bytes:
            raise UndecodableDataError(
                what=str(place), reason=f"it is not inside a ring of {self.capacity_bytes} bytes"
            )
        oldest, newest = self._bounds()
        if oldest is not None and newest is not None and not _is_between(place, newest, oldest):
            raise UndecodableDataError(what=str(place), reason=f"it overwrites what is held, {oldest} to {newest}")
        tenure = Tenure(place)
        self._held.append(tenure)
        return tenure

    def _bounds(self) -> tuple[Place | None, Place | None]:
        # Another thread may end the oldest tenure meanwhile: then more is free than this says.
        try:
            return self._held[0].place, self._held[-1].place
        except IndexError:
            return None, None

    def end(self, tenure: Tenure) -> None:
        """End a tenure, and give back what precedes the oldest one that is left.

        Never waits: it may run inside the garbage collector, on top of a call of itself.
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
        """Give nothing back any more."""
        with self._lock:
            self._give_back = None

    def forget(self) -> None:
        """As ``close``, in the child of a fork, where perhaps no thread is left to release the lock."""
        self._give_back = None


def _is_between(place: Place, newest: Place, oldest: Place) -> bool:
    """Does it lie behind the newest message and before the oldest, going around?"""
    head, end = newest.offset + newest.size, place.offset + place.size
    if newest.offset >= oldest.offset:
        return place.offset >= head or end <= oldest.offset
    return head <= place.offset and end <= oldest.offset


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
        """Give memory and descriptor back: a stream that is kept keeps neither.  Closing twice is harmless."""
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
        """The message at a place.  Its space returns when the view and all parts of it are gone.

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


P = TypeVar("P", bound=Part)


def without(parts: Sequence[P], count: int) -> Sequence[P | memoryview]:
    """What is left of a message in parts after so many bytes."""
    for position, part in enumerate(parts):
        if count < len(part):
            return [memoryview(part).cast("B")[count:], *parts[position + 1 :]]
        count -= len(part)
    return ()
