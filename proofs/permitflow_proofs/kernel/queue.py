"""A symbolic queue in place of the model's, which knows the number, the sums and the folds of its items, and no more.

It behaves like every real queue at once: taking an item gives a fresh one, with assumptions that hold for any queue
(``kernel/queue_facts.py`` proves them for arrays).  Sums and folds are all that it knows about the order of the unknown
items; pushed items are remembered.  ``kernel/sequence.py`` has a queue that keeps its items.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from operator import add
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, NoReturn, Protocol, TypeVar, cast

from permitflow_model.kernel.queue import EmptyQueueError, larger
from permitflow_proofs.kernel.paths import Notes
from permitflow_proofs.kernel.symbols import Opaque, all_of, any_like, equal, implies, integer, limit, merged, truth

T = TypeVar("T")
V = TypeVar("V")
P = TypeVar("P")


class Sums(Protocol):
    """A collection with a number of items and sums over them."""

    def size(self) -> int:
        """The number of items."""
        ...

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        """The measures of all items together."""
        ...


Law = Callable[[Sums], "int | tuple[int, ...]"]
"""A number that is never negative for one item or none; adding items keeps it so.

Or several such numbers together, which take fewer cases than the least of them.
"""

ADDING = (add, larger)
"""What adds up numbers, whatever they are; any other sum is one of which a law tells."""


def require_that_numbers_add_up(name: str, plus: Callable[[V, V], V], nothing: V) -> None:
    """Refuse a sum of which nobody has proved that it does not matter which items are added first.

    Raises:
        TypeError: it adds otherwise than ``ADDING``, or adds more than nothing to no items.
    """
    if plus not in ADDING or nothing != 0:
        what = f"sums by {plus.__name__} add up, from {nothing!r} on"
        raise TypeError(f"{name}: no law tells that {what}; add by operator.add or larger, from 0 on")


DeadEnds = Mapping[Callable[..., Any], Any]
"""For functions to fold with: a value from which no item leads to another one."""

End = Literal["head", "last"]

_Context = tuple[object, ...]


class Single(Generic[T]):
    """The sums over one item."""

    def __init__(self, item: T) -> None:
        """Take the item."""
        self._item = item

    def size(self) -> int:
        """One."""
        return 1

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        """The item's own measure."""
        return measure(self._item, *context)


def numbers_of(law: Law, sums: Sums) -> tuple[int, ...]:
    """The numbers to which a law applies."""
    numbers = law(sums)
    return numbers if isinstance(numbers, tuple) else (numbers,)


def sized(size: int, value: V, nothing: V) -> bool:
    """The assumption about a sum over ``size`` items: without items it is ``nothing``."""
    return implies(equal(size, 0), equal(value, nothing))


def parted(whole: V, ahead: V, behind: V, plus: Callable[[V, V], V]) -> bool:
    """The assumption about a sum when an item is taken away from one end."""
    return equal(plus(ahead, behind), whole)


def followed(whole: V, rest: V) -> bool:
    """The assumption about a fold when its first or last step is taken separately."""
    return equal(whole, rest)


class _Fold(NamedTuple):
    """The fold over the unknown items."""

    follow: Callable[[Any, Any, Any], Any]
    parameters: Any
    start: Any
    value: Any


class _Unknown(Generic[T]):
    """The items that were not read."""

    def __init__(
        self, name: str, any_item: Callable[[str], T], laws: tuple[Law, ...], dead_ends: DeadEnds, size: int
    ) -> None:
        self.name = name
        self.items = size
        self._any_item = any_item
        self._laws = laws
        self._lawful: dict[tuple[object, object], Any] = {}
        """What is nothing, for each measure of which laws tell, with its way to add up."""
        self._is_obeying = False
        self._dead_ends = dead_ends
        self._sums: Notes[tuple[object, ...], tuple[_Context, Any]] = Notes()
        """With their contexts: a sum is known again by the identity of its context, which must not be reused."""
        self._folds: Notes[int, _Fold] = Notes()
        self._every: Notes[tuple[Callable[[T, Any], bool], int], tuple[Any, bool]] = Notes()
        self._parts: Notes[End, tuple[T, _Unknown[T]]] = Notes()
        self._whole: tuple[_Unknown[T], End, T] | None = None

    def obey(self) -> None:
        """Assume the laws, which may ask for the least of several numbers."""
        if self._laws:
            self._is_obeying = True
            try:
                limit(merged(lambda: all_of([number >= 0 for law in self._laws for number in numbers_of(law, self)])))
            finally:
                self._is_obeying = False

    def size(self) -> int:
        return self.items

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        key = (measure, plus, *map(id, context))
        if self._is_obeying:
            self._lawful[measure, plus] = nothing
        elif not self._is_lawful(measure, plus, nothing):
            require_that_numbers_add_up(self.name, plus, nothing)
        if key not in self._sums:
            value = any_like(nothing, f"{self.name}.{measure.__name__}")
            self._sums[key] = (context, value)
            limit(sized(self.items, value, nothing))
            if self._whole is not None:
                whole, end, taken = self._whole
                total = whole.sum_of(measure, plus, nothing, *context)
                limit(merged(lambda: _is_parted(total, end, measure(taken, *context), value, plus, nothing)))
        return cast(V, self._sums[key][1])

    def _is_lawful(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V) -> bool:
        if (measure, plus) not in self._lawful:
            return False
        known = self._lawful[measure, plus]
        return known is nothing or bool(known == nothing)

    def fold(self, follow: Callable[[V, T, P], V], start: V, parameters: P) -> V:
        for fold in self._folds.values():
            if fold.follow is follow and fold.parameters is parameters and fold.start is start:
                return cast(V, fold.value)
        value = any_like(start, f"{self.name}.{follow.__name__}")
        limit(sized(self.items, value, start))
        if follow in self._dead_ends:
            limit(implies(equal(start, self._dead_ends[follow]), equal(value, start)))
        # From the same start they lead to the same value.
        for fold in self._folds.values():
            if fold.follow is follow and fold.parameters is parameters:
                limit(implies(equal(fold.start, start), equal(fold.value, value)))
        fold = self._folds[len(self._folds)] = _Fold(follow, parameters, start, value)
        for end in self._parts:
            self._relate(fold, end)
        return value

    def _relate(self, fold: _Fold, end: End) -> None:
        """The same fold, with the item at this end as a separate step."""
        follow, parameters, start, value = fold
        item, rest = self._parts[end]
        if end == "head":
            first = any_like(start, f"{self.name}.{follow.__name__}.first")
            limit(merged(lambda: equal(first, follow(start, item, parameters))))
            limit(followed(value, rest.fold(follow, first, parameters)))
        else:
            before = rest.fold(follow, start, parameters)
            limit(merged(lambda: followed(value, follow(before, item, parameters))))

    def every(self, holds: Callable[[T, P], bool], parameters: P) -> bool:
        key = (holds, id(parameters))
        if key not in self._every:
            answer = truth(f"{self.name}.every.{holds.__name__}")
            self._every[key] = (parameters, answer)
            limit(implies(equal(self.items, 0), answer))
            if self._whole is not None:
                limit(implies(self._whole[0].every(holds, parameters), answer))
        return self._every[key][1]

    def part(self, end: End) -> "tuple[T, _Unknown[T]]":
        """An item at one end and the others; there must be one."""
        if end not in self._parts:
            item = self._any_item(f"{self.name}.{end}")
            name = f"{self.name}.without_{end}"
            rest = _Unknown(name, self._any_item, self._laws, self._dead_ends, self.items - 1)
            rest._whole = (self, end, item)
            self._parts[end] = (item, rest)
            holder: _Unknown[T] | None = self
            while holder is not None:  # what holds of all items of a whole holds of those of its parts
                for (holds, _), (parameters, answer) in holder._every.items():
                    # Without a fork: inside a condition that is merged, a part that is known asks nothing.
                    limit(implies(answer, merged(partial(holds, item, parameters))))
                holder = None if holder._whole is None else holder._whole[0]
            rest.obey()
            for fold in self._folds.values():
                self._relate(fold, end)
        return self._parts[end]


def _is_parted(whole: V, end: End, taken: V, rest: V, plus: Callable[[V, V], V], nothing: V) -> bool:
    """``taken``: the measure of the item that was taken away."""
    if end == "head":
        return parted(whole, plus(nothing, taken), rest, plus)
    return parted(whole, rest, taken, plus)


class SymbolicQueue(Opaque, Generic[T]):
    """Any queue: unknown items, then those that were pushed since."""

    __slots__ = ("_pushed", "_unknown")

    def __init__(self, unknown: _Unknown[T], pushed: tuple[T, ...] = ()) -> None:
        """Use ``any_queue``; this is for the operations below."""
        self._unknown = unknown
        self._pushed = pushed

    @classmethod
    def any_queue(
        cls,
        name: str,
        any_item: Callable[[str], T],
        laws: tuple[Law, ...] = (),
        dead_ends: DeadEnds = MappingProxyType({}),
    ) -> "SymbolicQueue[T]":
        """Any queue of such items.

        A caller that gives laws or dead ends must prove them (``law_obligations`` and ``dead_end_obligations`` in
        ``kernel/queue_facts.py``).
        """
        size = integer(f"{name}.size")
        limit(size >= 0)
        unknown = _Unknown(name, any_item, laws, dead_ends, size)
        unknown.obey()
        return cls(unknown)

    @property
    def pushed(self) -> tuple[T, ...]:
        """The items that were pushed since and are still here."""
        return self._pushed

    def over(self, kind: "type[SymbolicQueue[T]]") -> "SymbolicQueue[T]":
        """The same queue, as one of another kind."""
        return kind(self._unknown, self._pushed)

    def is_empty(self) -> bool:
        """Is there nothing in it?"""
        return not self._pushed and equal(self._unknown.items, 0)

    def size(self) -> int:
        """How many items it holds."""
        return self._unknown.items + len(self._pushed)

    def head(self) -> T:
        """The oldest item.

        Raises:
            EmptyQueueError: the queue is empty on this path, as the model's queue would.
        """
        if self._has_unknown():
            return self._unknown.part("head")[0]
        if not self._pushed:
            raise EmptyQueueError(self._unknown.name)
        return self._pushed[0]

    def last(self) -> T:
        """The newest item.

        Raises:
            EmptyQueueError: the queue is empty on this path.
        """
        if self._pushed:
            return self._pushed[-1]
        self._require_unknown()
        return self._unknown.part("last")[0]

    def push(self, item: T) -> "SymbolicQueue[T]":
        """The queue with one more item at its end."""
        return SymbolicQueue(self._unknown, (*self._pushed, item))

    def without_head(self) -> "SymbolicQueue[T]":
        """The queue without its oldest item; an empty one stays empty, as the model's does."""
        if self._has_unknown():
            return SymbolicQueue(self._unknown.part("head")[1], self._pushed)
        return SymbolicQueue(self._unknown, self._pushed[1:])

    def without_last(self) -> "SymbolicQueue[T]":
        """The queue without its newest item; an empty one stays empty, as the model's does."""
        if self._pushed:
            return SymbolicQueue(self._unknown, self._pushed[:-1])
        if not self._has_unknown():
            return self
        return SymbolicQueue(self._unknown.part("last")[1])

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        """The measures of all items together, oldest first."""
        total = self._unknown.sum_of(measure, plus, nothing, *context)
        measures = (measure(item, *context) for item in self._pushed)
        return reduce(plus, (one for one in measures if one is not nothing), total)

    def fold(self, follow: Callable[[V, T, P], V], start: V, parameters: P) -> V:
        """Where the items lead, oldest first."""
        value = self._unknown.fold(follow, start, parameters)
        for item in self._pushed:
            value = follow(value, item, parameters)
        return value

    def every(self, holds: Callable[[T, P], bool], parameters: P) -> bool:
        """Does it hold for every item?  Does not fork: the next question must have an answer in all cases."""
        unknown = self._unknown.every(holds, parameters)
        return all_of([*(merged(partial(holds, item, parameters)) for item in self._pushed), unknown])

    def is_surely(self, other: object, same: Callable[[T, T], bool]) -> bool:
        """Does it hold the same unknown items as another one, and then the same pushed ones?  If not, it still may."""
        if not isinstance(other, SymbolicQueue) or self._unknown is not other._unknown:
            return False
        return len(self._pushed) == len(other._pushed) and all_of(map(same, self._pushed, other._pushed))

    def __iter__(self) -> Iterator[T]:
        """Refused: unknown items cannot be listed.

        Raises:
            TypeError: always; ask ``sum_of`` or ``every`` instead.
        """
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(f"the items of {self._unknown.name} cannot be listed; ask sum_of or every")

    def _has_unknown(self) -> bool:
        return bool(self._unknown.items > 0)

    def _require_unknown(self) -> None:
        if not self._has_unknown():
            raise EmptyQueueError(self._unknown.name)
