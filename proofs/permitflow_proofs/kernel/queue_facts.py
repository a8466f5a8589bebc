"""Why the symbolic queue may assume what it assumes: prefix sums over an array of items.

Item ``i`` measures ``item(i)``; ``before(i)`` is the sum of the items before ``i``.  Every queue of ``n`` items is
such an array, and its sum is ``before(n)``.  The claims below are stated with the very functions whose results
``kernel/queue.py`` assumes.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law, Single, Sums, parted, sized
from permitflow_proofs.kernel.symbols import (
    any_like,
    assume,
    assuming,
    function,
    implies,
    integer,
    natural,
    predicate,
)

__all__ = ["law_obligations", "queue_obligations"]

T = TypeVar("T")
V = TypeVar("V")


def _plus(left: int, right: int) -> int:
    return left + right


class _Array:
    """A queue of ``n`` items with its prefix sums, of which the needed equations are assumed."""

    def __init__(self) -> None:
        self.n = natural("n")
        self.item = function("item")
        self.before = function("before")
        assume(self.before(0) == 0)

    def add_up(self, index: int) -> None:
        """Assume the equation of one item."""
        assume(self.before(index + 1) == self.before(index) + self.item(index))


def _empty(wrong: int = 0) -> bool:
    array = _Array()
    return sized(array.n, array.before(array.n) + wrong, 0)


def _head(wrong: int = 0) -> bool:
    array = _Array()
    assume(array.n > 0)
    array.add_up(0)
    rest = array.before(array.n) - array.before(1) + wrong
    return parted(array.before(array.n), array.item(0), rest, _plus) and sized(array.n - 1, rest, 0)


def _last(wrong: int = 0) -> bool:
    array = _Array()
    assume(array.n > 0)
    array.add_up(array.n - 1)
    rest = array.before(array.n - 1) + wrong
    return parted(array.before(array.n), array.item(array.n - 1), rest, _plus) and sized(array.n - 1, rest, 0)


def _pushed(wrong: int = 0) -> bool:
    array = _Array()
    array.add_up(array.n)
    return array.before(array.n + 1) == _plus(array.before(array.n), array.item(array.n)) + wrong


def _lawful(*, start: bool, closed: bool = True) -> bool:
    """Every segment obeys a law: by induction over its end."""
    array = _Array()
    is_lawful = predicate("is_lawful")
    low, high = natural("low"), natural("high")
    assume(is_lawful(0))
    if start:
        return is_lawful(array.before(low) - array.before(low) + (0 if closed else 1))
    assume(low <= high)
    assume(high < array.n)
    array.add_up(high)
    segment = array.before(high) - array.before(low)
    assume(is_lawful(array.item(high)))
    if closed:
        assume(
            implies(
                bool(is_lawful(segment)) and bool(is_lawful(array.item(high))), is_lawful(segment + array.item(high))
            )
        )
    return implies(is_lawful(segment), is_lawful(array.before(high + 1) - array.before(low)))


def _every(*, start: bool, forgets: bool = False) -> bool:
    """What holds for every item holds for the head and for every item of the rest: by induction over the end.

    ``whole(i)``: it holds for the items before ``i``; ``rest(i)``: likewise without the first item.
    """
    holds, whole, rest = predicate("holds"), predicate("whole"), predicate("rest")
    end = 0 if start else natural("end", 1)
    assume(bool(whole(0)) and bool(rest(1)))
    assume(whole(end + 1) == (bool(whole(end)) and (forgets or bool(holds(end)))))
    if start:
        return implies(whole(1), bool(holds(0)) and bool(rest(1)))
    assume(rest(end + 1) == (bool(rest(end)) and bool(holds(end))))
    assume(implies(whole(end), bool(holds(0)) and bool(rest(end))))
    return implies(whole(end + 1), bool(holds(0)) and bool(rest(end + 1)) and bool(holds(end)) and bool(whole(end)))


def queue_obligations() -> tuple[SymbolicObligation, ...]:
    """What ``SymbolicQueue`` assumes about sums holds for each real queue."""

    def shifted(name: str, claim: Callable[..., bool]) -> SymbolicObligation:
        return SymbolicObligation(name, claim, lambda: claim(wrong=1), "the sum is one too large")

    return (
        shifted("an empty queue sums up to nothing", _empty),
        shifted("taking the head leaves the rest of the sum", _head),
        shifted("taking the last leaves the rest of the sum", _last),
        shifted("pushing adds the item's measure", _pushed),
        SymbolicObligation(
            "a law holds for no items",
            lambda: _lawful(start=True),
            lambda: _lawful(start=True, closed=False),
            "the sum over no items is one",
        ),
        SymbolicObligation(
            "a law that holds for one more item holds for the longer segment",
            lambda: _lawful(start=False),
            lambda: _lawful(start=False, closed=False),
            "the law is not kept by adding",
        ),
        *(
            SymbolicObligation(
                f"what holds for every item holds for head, last and rest: {part}",
                lambda start=start: _every(start=start),  # type: ignore[misc]  # binds the loop's value
                lambda start=start: _every(start=start, forgets=True),  # type: ignore[misc]  # likewise
                "one item is not looked at",
            )
            for part, start in (("one item", True), ("one more item", False))
        ),
    )


class _Nothing:
    """The sums over no items."""

    def size(self) -> int:
        return 0

    def sum_of(self, measure: Callable[[Any], V], plus: Callable[[V, V], V], nothing: V) -> V:
        return nothing


class _Some:
    """The sums over some items, whatever they are."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._size = integer(f"{name}.size")
        self._sums: dict[Callable[[Any], Any], Any] = {}

    def size(self) -> int:
        return self._size

    def sum_of(self, measure: Callable[[Any], V], plus: Callable[[V, V], V], nothing: V) -> V:
        if measure not in self._sums:
            self._sums[measure] = any_like(nothing, f"{self._name}.{measure.__name__}")
        value: V = self._sums[measure]
        return value


class _Both:
    """The sums over two lots of items together."""

    def __init__(self, left: Sums, right: Sums) -> None:
        self._left = left
        self._right = right

    def size(self) -> int:
        return self._left.size() + self._right.size()

    def sum_of(self, measure: Callable[[Any], V], plus: Callable[[V, V], V], nothing: V) -> V:
        return plus(self._left.sum_of(measure, plus, nothing), self._right.sum_of(measure, plus, nothing))


def _never_negative(law: Law, sums: Sums) -> bool:
    return law(sums) >= 0


def _exactly_one(law: Law, sums: Sums) -> bool:
    return law(sums) == 1


def _kept_by_adding(law: Law, holds: Callable[[Law, Sums], bool]) -> bool:
    left, right = _Some("left"), _Some("right")
    with assuming():
        assume(holds(law, left))
        assume(holds(law, right))
    return holds(law, _Both(left, right))


def law_obligations(
    name: str, law: Callable[[], Law], lawful_item: Callable[[], Any], any_item: Callable[[], Any]
) -> tuple[SymbolicObligation, ...]:
    """A queue of lawful items may assume this law for its sums.

    ``law`` makes it, with its symbols; ``any_item`` makes items that are not known to be lawful.
    """
    return (
        SymbolicObligation(
            f"{name}: for no items",
            lambda: _never_negative(law(), _Nothing()),
            lambda: _exactly_one(law(), _Nothing()),
            "exactly one instead of never negative",
        ),
        SymbolicObligation(
            f"{name}: kept by adding",
            lambda: _kept_by_adding(law(), _never_negative),
            lambda: _kept_by_adding(law(), _exactly_one),
            "exactly one instead of never negative",
        ),
        SymbolicObligation(
            f"{name}: for each item",
            lambda: _never_negative(law(), Single(lawful_item())),
            lambda: _never_negative(law(), Single(any_item())),
            "the item is not known to be in its range",
        ),
    )
