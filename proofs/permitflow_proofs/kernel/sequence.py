"""A symbolic queue in place of the model's that keeps all its items: any sequence of them, as the solver has them.

Two of them are equal if they hold equal items in the same order.  Taking an item apart gives a fresh one, and a fresh
rest: a queue that is not empty is an item and a rest, and only one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Generic, TypeVar, cast

import z3

from permitflow_model.kernel.queue import EmptyQueueError, Fifo
from permitflow_proofs.kernel.paths import Notes, current_explorer
from permitflow_proofs.kernel.queue import require_that_numbers_add_up
from permitflow_proofs.kernel.symbols import (
    Integer,
    Shape,
    Truth,
    all_of,
    any_like,
    equal,
    implies,
    integer_term,
    limit,
)

N = TypeVar("N", bound=tuple[int, ...])


_Plus = Callable[[int, int], int]

_NAMES: Counter[str] = Counter()


def _name_of_its_own(name: str) -> str:
    """To the solver, what has the same name is the same."""
    _NAMES[name] += 1
    return name if _NAMES[name] == 1 else f"{name}!{_NAMES[name]}"


@cache
def _item_sort(item_type: type[tuple[int, ...]]) -> z3.DatatypeSortRef:
    """Items as the solver sees them: tuples of integers, field by field."""
    name = _name_of_its_own(item_type.__name__)
    sort = z3.Datatype(name)
    fields = getattr(item_type, "_fields")  # noqa: B009  # a named tuple's own
    sort.declare(f"a_{name}", *((f"{name}.{field}", z3.IntSort()) for field in fields))
    return sort.create()


@cache
def _total(item_type: type[tuple[int, ...]], measure: Callable[..., int], plus: _Plus) -> z3.FuncDeclRef:
    """The sum over any items: one function for each measure and each way to add up, whatever their names."""
    name = _name_of_its_own(f"{item_type.__name__}.{measure.__name__}")
    return z3.Function(name, z3.SeqSort(_item_sort(item_type)), z3.IntSort())


class _UnknownItems:
    """Any number of unread items."""

    def __init__(self, name: str) -> None:
        self.name = name

    def term(self, sort: z3.SeqSortRef) -> z3.SeqRef:
        """The term for Z3."""
        return z3.Const(self.name, sort)


class _ItemsBetween(_UnknownItems):
    """The items with the numbers from one up to, but not including, another one."""

    def __init__(self, name: str, first: int, end: int) -> None:
        super().__init__(name)
        self._first = first
        self._end = end

    def term(self, sort: z3.SeqSortRef) -> z3.SeqRef:
        items = z3.Function(self.name, z3.IntSort(), z3.IntSort(), sort)
        return cast(z3.SeqRef, items(integer_term(self._first), integer_term(self._end)))


class SymbolicSequence(Shape, Generic[N]):
    """Items one after another, known or unknown, with the interface of the model's queue."""

    __slots__ = ("_parts", "_pattern", "_split", "_term")

    def __init__(self, pattern: N, parts: Sequence[_UnknownItems | N] = ()) -> None:
        """``pattern``: any item.  Without parts, the sequence is empty."""
        self._pattern = pattern
        self._parts = tuple(parts)
        self._split: Notes[str, tuple[N, SymbolicSequence[N]]] = Notes()
        self._term: z3.SeqRef | None = None

    @property
    def term(self) -> z3.SeqRef:
        """The term for Z3."""
        if self._term is None:
            terms = [self._part_term(part) for part in self._parts]
            self._term = z3.Concat(*terms) if len(terms) > 1 else terms[0] if terms else z3.Empty(self._sort)
        return self._term

    @property
    def _sort(self) -> z3.SeqSortRef:
        return z3.SeqSort(_item_sort(type(self._pattern)))

    def _part_term(self, part: "_UnknownItems | N") -> z3.SeqRef:
        if isinstance(part, _UnknownItems):
            return part.term(self._sort)
        make = _item_sort(type(self._pattern)).constructor(0)
        return z3.Unit(make(*(integer_term(field) for field in part)))

    # As a shape.

    def another(self, name: str) -> "SymbolicSequence[N]":
        """Any sequence of such items."""
        sort = self._sort
        declared = current_explorer().declare(
            name, lambda witness, own: str(witness.eval(z3.Const(own, sort), model_completion=True))
        )
        return SymbolicSequence(self._pattern, (_UnknownItems(declared),))

    def equation(self, other: object) -> z3.BoolRef:
        """Say that both hold equal items in the same order.

        Raises:
            TypeError: the other is no sequence of items.
        """
        return self.term == self._like(other).term

    def _like(self, other: object) -> "SymbolicSequence[N]":
        if isinstance(other, SymbolicSequence):
            return other
        if isinstance(other, tuple):
            return SymbolicSequence(self._pattern, cast("tuple[N, ...]", other))
        raise TypeError(f"expected a sequence of items, not {other!r}")

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]  # a symbolic comparison has no value yet
        return Truth(lambda: self.equation(other))

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]  # likewise
        return Truth(lambda: z3.Not(self.equation(other)))

    # As a queue.

    def is_empty(self) -> bool:
        """Is there nothing in it?"""
        return equal(self, ())

    def size(self) -> int:
        """How many items it holds."""
        return cast(int, Integer(lambda: z3.Length(self.term)))

    def head(self) -> N:
        """The oldest item.

        Raises:
            EmptyQueueError: it is empty on this path, as the model's queue would.
        """
        self._require_items()
        return self._apart("head")[0]

    def last(self) -> N:
        """The newest item.

        Raises:
            EmptyQueueError: it is empty on this path.
        """
        self._require_items()
        return self._apart("last")[0]

    def push(self, item: N) -> "SymbolicSequence[N]":
        """One more item at the end."""
        return SymbolicSequence(self._pattern, (*self._parts, item))

    def join(self, behind: "SymbolicSequence[N] | tuple[N, ...]") -> "SymbolicSequence[N]":
        """The items of both, those of the other queue last."""
        return SymbolicSequence(self._pattern, (*self._parts, *self._like(behind)._parts))

    def without_head(self) -> "SymbolicSequence[N]":
        """All but the oldest item; an empty one stays empty, as the model's does."""
        return self if self.is_empty() else self._apart("head")[1]

    def without_last(self) -> "SymbolicSequence[N]":
        """All but the newest item; an empty one stays empty, as the model's does."""
        return self if self.is_empty() else self._apart("last")[1]

    def sum_of(self, measure: Callable[[N], int], plus: Callable[[int, int], int], nothing: int) -> int:
        """The measures of all items together.

        Equal unknown items have the same sum.

        Raises:
            TypeError: it is a sum that does not add up, whatever the numbers.
        """
        require_that_numbers_add_up(f"a queue of {type(self._pattern).__name__}", plus, nothing)
        return reduce(plus, (self._sum_of_part(part, measure, plus) for part in self._parts), nothing)

    def _sum_of_part(self, part: "_UnknownItems | N", measure: Callable[[N], int], plus: _Plus) -> int:
        if not isinstance(part, _UnknownItems):
            return measure(part)
        total = _total(type(self._pattern), measure, plus)
        return cast(int, Integer(lambda: total(self._part_term(part))))

    def _require_items(self) -> None:
        if self.is_empty():
            raise EmptyQueueError(str(self.term))

    def _apart(self, end: str) -> "tuple[N, SymbolicSequence[N]]":
        """The item at one end and the others; there must be one."""
        if end not in self._split:
            item = any_like(self._pattern, end)
            rest = self.another(f"without_{end}")
            both = SymbolicSequence(self._pattern, (item,)).join(rest) if end == "head" else rest.push(item)
            limit(equal(self, both))
            self._split[end] = (item, rest)
        return self._split[end]


@cache
def _items_of(item: Callable[..., object]) -> str:
    """The name of the function from two numbers to the items between them: of each kind of items its own."""
    return _name_of_its_own(f"{item.__name__}.between")


def unread_between(item: Callable[[int], N], first: int, end: int) -> SymbolicSequence[N]:
    """The items with these numbers, of which nothing is known yet."""
    return SymbolicSequence(item(first), (_ItemsBetween(_items_of(item), first, end),))


def between_size(items: SymbolicSequence[N], first: int, end: int) -> bool:
    """How many there are; none if the end comes first."""
    return all_of(
        [
            implies(first <= end, equal(items.size(), end - first)),
            implies(end <= first, equal(items, ())),
        ]
    )


def _alone(item: N) -> SymbolicSequence[N]:
    return SymbolicSequence(item, (item,))


def between_head(item: Callable[[int], N], items: SymbolicSequence[N], first: int, end: int) -> bool:
    """The oldest item, and the others."""
    return implies(first < end, equal(items, _alone(item(first)).join(unread_between(item, first + 1, end))))


def between_last(item: Callable[[int], N], items: SymbolicSequence[N], first: int, end: int) -> bool:
    """The others, and the newest item."""
    return implies(first < end, equal(items, unread_between(item, first, end - 1).push(item(end - 1))))


def items_between(item: Callable[[int], N], first: int, end: int) -> Fifo[N]:
    """The items with the numbers from ``first`` up to, but not including, ``end``: typed as the model's queue.

    Its oldest and its newest item are known by their numbers (``between_obligations`` of ``kernel/queue_facts.py``).
    """
    items = unread_between(item, first, end)
    limit(between_size(items, first, end))
    limit(between_head(item, items, first, end))
    limit(between_last(item, items, first, end))
    return cast("Fifo[N]", items)


def no_items(pattern: N) -> Fifo[N]:
    """An empty queue of such items, typed as the model's queue; ``any_like`` makes any other queue of them."""
    return cast("Fifo[N]", SymbolicSequence(pattern))
