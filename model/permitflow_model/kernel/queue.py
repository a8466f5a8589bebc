"""The queues of all models.  Proofs bring their own implementation, which knows only lengths and totals.

One is a tuple, for exploration; the other is for long runs: the cost of a step, and of a sum over it, does not grow
with its length.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, reduce
from operator import and_
from typing import Generic, Protocol, TypeVar, cast

T = TypeVar("T")
V = TypeVar("V")
P = TypeVar("P")


def larger(left: int, right: int) -> int:
    """The larger of two numbers: added up with it, the measures of items give the largest one."""
    return left if left >= right else right


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

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        """The measures of all items together, oldest first; ``nothing`` for an empty queue.

        ``measure(item, *context)`` is one item's; ``plus`` must be associative, and adding ``nothing`` must change
        nothing.
        """
        ...

    def fold(self, follow: Callable[[V, T, P], V], start: V, parameters: P) -> V:
        """Fold over the items, oldest first: each step starts from the result of the one before."""
        ...

    def every(self, holds: Callable[[T, P], bool], parameters: P) -> bool:
        """Does it hold for every item?"""
        ...

    def __iter__(self) -> Iterator[T]:
        """Oldest first.  Invariants over concrete states use it; guards and updates do not."""
        ...


class EmptyQueueError(IndexError):
    """An action asks for an item of a queue that may be empty where it does so: its guard forgets that."""

    def __init__(self, name: str = "the queue") -> None:
        """``name`` is that of the queue."""
        super().__init__(f"{name} is empty; an action that takes its head requires that it is not")


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
        """The oldest item.

        Raises:
            EmptyQueueError: there is none.
        """
        try:
            return self[0]
        except IndexError:
            raise EmptyQueueError from None

    def last(self) -> T:
        """The newest item.

        Raises:
            EmptyQueueError: there is none.
        """
        try:
            return self[-1]
        except IndexError:
            raise EmptyQueueError from None

    def push(self, item: T) -> "Fifo[T]":
        """The queue with one more item at its end."""
        return Fifo((*self, item))

    def without_head(self) -> "Fifo[T]":
        """The queue without its oldest item."""
        return Fifo(self[1:])

    def without_last(self) -> "Fifo[T]":
        """The queue without its newest item."""
        return Fifo(self[:-1])

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        """The measures of all items together."""
        if context:
            return reduce(plus, [measure(item, *context) for item in self], nothing)
        if not self:
            return nothing
        try:
            total: V = _sum_of(self, measure, plus)
        except TypeError:  # symbols, in a proof, have no hash
            return reduce(plus, map(measure, self))
        return total

    def fold(self, follow: Callable[[V, T, P], V], start: V, parameters: P) -> V:
        """Where the items lead, oldest first."""
        for item in self:
            start = follow(start, item, parameters)
        return start

    def every(self, holds: Callable[[T, P], bool], parameters: P) -> bool:
        """Does it hold for every item?"""
        for item in self:  # noqa: SIM110 - `all` takes twice the time
            if not holds(item, parameters):
                return False
        return True

    def join(self, behind: "Fifo[T]") -> "Fifo[T]":
        """The items of both queues, those of the other queue last."""
        return Fifo((*self, *behind))


@lru_cache(maxsize=1 << 16)
def _sum_of(queue: Fifo[T], measure: Callable[..., V], plus: Callable[[V, V], V]) -> V:
    """A queue has the same content in many states, and several invariants ask for the same sum."""
    return reduce(plus, map(measure, queue))


class _Cell(Generic[T]):
    """An item on a stack of items.  It remembers the sums over itself and everything below."""

    __slots__ = ("below", "item", "sums")

    def __init__(self, item: T, below: "_Cell[T] | None") -> None:
        self.item = item
        self.below = below
        self.sums: dict[object, tuple[object, object]] = {}


class SummedFifo(Generic[T]):
    """A queue as two stacks: the front with the oldest item on top, the back with the newest on top.

    The back is turned over when the front is used up, so every operation takes constant time on average as long as
    old versions of the queue are not used again.
    """

    __slots__ = ("_back", "_front", "_size", "_sums")

    def __init__(self, front: _Cell[T] | None = None, back: _Cell[T] | None = None, size: int = 0) -> None:
        """Without arguments: an empty queue."""
        if front is None and back is not None:
            front, back = _turned(back), None
        self._front = front
        self._back = back
        self._size = size
        # Most steps leave most queues as they are, and several invariants ask for the same sum.
        self._sums: dict[object, object] = {}

    def is_empty(self) -> bool:
        """Is there nothing in it?"""
        return self._size == 0

    def size(self) -> int:
        """How many items it holds."""
        return self._size

    def head(self) -> T:
        """The oldest item."""
        return _top(self._front).item

    def last(self) -> T:
        """The newest item."""
        return _top(self._with_back()._back).item

    def push(self, item: T) -> "SummedFifo[T]":
        """The queue with one more item at its end."""
        if self._size == 0:
            return SummedFifo(_Cell(item, None), None, 1)  # at the front at once: most queues hold one item or none
        return SummedFifo(self._front, _Cell(item, self._back), self._size + 1)

    def preceded_by(self, item: T) -> "SummedFifo[T]":
        """The queue with an item before its oldest one."""
        return SummedFifo(_Cell(item, self._front), self._back, self._size + 1)

    def without_head(self) -> "SummedFifo[T]":
        """The queue without its oldest item."""
        return SummedFifo(_top(self._front).below, self._back, self._size - 1)

    def without_last(self) -> "SummedFifo[T]":
        """The queue without its newest item."""
        queue = self._with_back()
        return SummedFifo(queue._front, _top(queue._back).below, queue._size - 1)

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        """The measures of all items together, oldest first."""
        if self._size < 2:
            return measure(_top(self._front).item, *context) if self._size else nothing
        key = (measure, plus, *context) if context else (measure, plus)
        try:
            return cast("V", self._sums[key])  # only `measure` writes under its key
        except KeyError:
            of_item = (lambda item: measure(item, *context)) if context else measure
            total = self._sums[key] = self._sum_of(key, of_item, plus, nothing)
            return total

    def _sum_of(self, key: object, measure: Callable[[T], V], plus: Callable[[V, V], V], nothing: V) -> V:
        if self._front is None:
            return _fold(self._back, key, None, measure, plus, nothing)
        # On the front stack the newest item is at the bottom.
        front = _fold(self._front, key, None, measure, lambda newer, older: plus(older, newer), nothing)
        if self._back is None:
            return front
        return plus(front, _fold(self._back, key, None, measure, plus, nothing))

    def fold(self, follow: Callable[[V, T, P], V], start: V, parameters: P) -> V:
        """Where the items lead, oldest first; takes time in proportion to their number."""
        for item in self:
            start = follow(start, item, parameters)
        return start

    def every(self, holds: Callable[[T, P], bool], parameters: P) -> bool:
        """Does it hold for every item?"""
        for stack in (self._front, self._back):
            if stack is None:
                continue
            known = stack.sums.get(holds)
            if known is not None and known[0] is parameters:
                all_hold = cast("bool", known[1])
            else:
                all_hold = _fold(stack, holds, parameters, lambda item: holds(item, parameters), and_, True)
            if not all_hold:
                return False
        return True

    def __iter__(self) -> Iterator[T]:
        """Oldest first."""
        stack = self._front
        while stack is not None:
            yield stack.item
            stack = stack.below
        if self._back is not None:
            yield from reversed(list(_items(self._back)))

    def __eq__(self, other: object) -> bool:
        """Queues are equal if they hold equal items in the same order, whatever their kind."""
        if not isinstance(other, SummedFifo | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """As the tuple of its items."""
        return hash(tuple(self))

    def __reduce__(self) -> "tuple[type[SummedFifo[T]], tuple[()], tuple[T, ...]]":
        """As the tuple of its items: a copy of the stacks, each item in the one before, could be too deep."""
        return SummedFifo, (), tuple(self)

    def __setstate__(self, items: tuple[T, ...]) -> None:
        """The items of a queue that is made anew."""
        queue: SummedFifo[T] = SummedFifo()
        for item in items:
            queue = queue.push(item)
        self._front, self._back, self._size = queue._front, queue._back, queue._size

    def __repr__(self) -> str:
        """As the tuple of its items."""
        return f"SummedFifo{tuple(self)!r}"

    def _with_back(self) -> "SummedFifo[T]":
        if self._back is not None:
            return self
        # A queue never has only a back: the constructor would turn it over again.
        queue: SummedFifo[T] = SummedFifo(size=self._size)
        queue._back = _turned(self._front)
        return queue


def _top(stack: _Cell[T] | None) -> _Cell[T]:
    if stack is None:
        raise EmptyQueueError
    return stack


def _items(stack: _Cell[T] | None) -> Iterator[T]:
    while stack is not None:
        yield stack.item
        stack = stack.below


def _turned(stack: _Cell[T] | None) -> _Cell[T] | None:
    turned: _Cell[T] | None = None
    for item in _items(stack):
        turned = _Cell(item, turned)
    return turned


def _fold(
    stack: _Cell[T] | None,
    key: object,
    owner: object,
    measure: Callable[[T], V],
    plus: Callable[[V, V], V],
    nothing: V,
) -> V:
    """Sum a stack from its bottom, and remember each partial sum; ``owner`` tells sums under the same key apart."""
    if stack is None:
        return nothing
    # Usually the sum of the whole stack, or of all its items but the newest, is known already.
    known = stack.sums.get(key)
    if known is not None and known[0] is owner:
        return cast("V", known[1])  # only `measure` writes under its key
    unsummed: list[_Cell[T]] = []
    total = nothing
    while stack is not None:
        known = stack.sums.get(key)
        if known is not None and known[0] is owner:
            total = cast("V", known[1])
            break
        unsummed.append(stack)
        stack = stack.below
    while unsummed:
        cell = unsummed.pop()
        total = plus(total, measure(cell.item))
        cell.sums[key] = (owner, total)
    return total
