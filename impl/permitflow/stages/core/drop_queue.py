"""A bounded queue whose strategy says what gives way when it is full; no I/O."""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from permitflow.callables import plain_of_one
from permitflow.errors import BufferOverflowError
from permitflow.stages.core.parameters import require_at_least, require_choice

T = TypeVar("T")


class Overflow(Enum):
    """What gives way when an element comes and the buffer is full."""

    BLOCK = "block"
    """Nothing: no more elements are asked for until there is room."""
    DROP_OLDEST = "drop_oldest"
    """The oldest buffered element (Akka: dropHead)."""
    DROP_YOUNGEST_BUFFERED = "drop_youngest_buffered"
    """The youngest element that is already buffered; the new one takes its place (Akka: dropTail)."""
    DROP_INCOMING = "drop_incoming"
    """The new element (Akka: dropNew)."""
    CLEAR = "clear"
    """All buffered elements (Akka: dropBuffer)."""
    FAIL = "fail"
    """The stream: it fails with ``BufferOverflowError``, and all buffered elements are dropped."""


class DropQueue(Generic[T]):
    """A queue of at most ``capacity`` elements, oldest first."""

    def __init__(self, capacity: int, overflow: Overflow, *, when_dropped: Callable[[T], object] | None = None) -> None:
        """``when_dropped`` is called with each element that gives way.

        Raises:
            InvalidParametersError: ``capacity`` is below 1; or below 0, where the strategy is ``BLOCK``.
        """
        require_choice(Overflow, overflow=overflow)
        require_at_least(0 if overflow is Overflow.BLOCK else 1, capacity=capacity)
        self.capacity = capacity
        self.overflow = overflow
        self.dropped = 0
        """Elements that gave way since the queue was made."""
        if when_dropped is not None:
            when_dropped = plain_of_one(when_dropped, place="when_dropped", hint="let it put the element into a queue")
        self._when_dropped = when_dropped
        self._elements: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._elements)

    @property
    def is_full(self) -> bool:
        """Does the next element need another one to give way?"""
        return len(self._elements) >= self.capacity

    def offer(self, element: T) -> bool:
        """Add an element; if the queue is full, as its strategy says.

        Returns:
            Is the element in the queue?  False if it was dropped, or, for ``BLOCK``, refused.

        Raises:
            BufferOverflowError: the queue is full, and its strategy is ``FAIL``; it is now empty.

        Spec: Arrive of DropQueue.
        """
        elements = self._elements
        if len(elements) >= self.capacity:
            match self.overflow:
                case Overflow.BLOCK:
                    return False
                case Overflow.DROP_INCOMING:
                    self._drop(element)
                    return False
                case Overflow.DROP_OLDEST:
                    self._drop(elements.popleft())
                case Overflow.DROP_YOUNGEST_BUFFERED:
                    self._drop(elements.pop())
                case Overflow.CLEAR:
                    self._clear()
                case Overflow.FAIL:
                    self._clear()
                    self._drop(element)
                    raise BufferOverflowError(capacity=self.capacity)
        elements.append(element)
        return True

    def _clear(self) -> None:
        while self._elements:
            self._drop(self._elements.popleft())

    def _drop(self, element: T) -> None:
        self.dropped += 1
        if self._when_dropped is not None:
            self._when_dropped(element)

    def take(self) -> T:
        """Remove and return the oldest element.

        Raises:
            IndexError: the queue is empty.

        Spec: Serve of DropQueue.
        """
        return self._elements.popleft()
