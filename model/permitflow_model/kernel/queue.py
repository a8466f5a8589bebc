"""The one queue of all models.  Proofs bring their own implementation, which knows only lengths and totals."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Protocol, TypeVar

__all__ = ["Fifo", "Queue"]

T = TypeVar("T")
V = TypeVar("V")
P = TypeVar("P")


class Queue(Protocol[T]):
    """A first-in, first-out queue as a value: no operation changes it."""

    def is_empty(self) -> bool:
        """Is there nothing in it?"""
        ...

    def size(self) -> int:
        """How many items it holds (``len`` could not be symbolic)."""
        ...

    def head(self) -> T:
        """The oldest item; the queue must not be empty."""
        ...

    def last(self) -> T:
        """The newest item; the queue must not be empty."""
        ...

    def push(self, item: T) -> "Queue[T]":
        """The queue with one more item at its end."""
        ...

    def without_head(self) -> "Queue[T]":
        """The queue without its oldest item; it must not be empty."""
        ...

    def without_last(self) -> "Queue[T]":
        """The queue without its newest item; it must not be empty."""
        ...

    def sum_of(self, measure: Callable[[T], V], plus: Callable[[V, V], V], nothing: V) -> V:
        """The measures of all items together, oldest first; ``nothing`` for an empty queue.

        ``plus`` must be associative, and adding ``nothing`` must change nothing.
        """
        ...

    def fold(self, follow: Callable[[V, T, P], V], start: V, parameters: P) -> V:
        """Where the items lead, oldest first: each leads on from where the one before it has led."""
        ...

    def every(self, holds: Callable[[T, P], bool], parameters: P) -> bool:
        """Does it hold for every item?"""
        ...

    def __iter__(self) -> Iterator[T]:
        """Oldest first.  Invariants over concrete states use it; guards and updates do not."""
        ...


class Fifo(tuple[T, ...]):
    """The queue as a tuple: for exploration, tests and replay.  Cheap to compare and to hash."""

    __slots__ = ()

    def is_empty(self) -> bool:
        """Is there nothing in it?"""
        return not self

    def size(self) -> int:
        """How many items it holds."""
        return len(self)

    def head(self) -> T:
        """The oldest item."""
        return self[0]

    def last(self) -> T:
        """The newest item."""
        return self[-1]

    def push(self, item: T) -> "Fifo[T]":
        """The queue with one more item at its end."""
        return Fifo((*self, item))

    def without_head(self) -> "Fifo[T]":
        """The queue without its oldest item."""
        return Fifo(self[1:])

    def without_last(self) -> "Fifo[T]":
        """The queue without its newest item."""
        return Fifo(self[:-1])

    def sum_of(self, measure: Callable[[T], V], plus: Callable[[V, V], V], nothing: V) -> V:
        """The measures of all items together."""
        return reduce(plus, map(measure, self), nothing)

    def fold(self, follow: Callable[[V, T, P], V], start: V, parameters: P) -> V:
        """Where the items lead, oldest first."""
        for item in self:
            start = follow(start, item, parameters)
        return start

    def every(self, holds: Callable[[T, P], bool], parameters: P) -> bool:
        """Does it hold for every item?"""
        return all(holds(item, parameters) for item in self)

    def join(self, behind: "Fifo[T]") -> "Fifo[T]":
        """The items of both queues, those of the other one behind."""
        return Fifo((*self, *behind))
