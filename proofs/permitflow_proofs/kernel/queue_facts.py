"""Proves what the symbolic queue assumes, laws of sums and dead ends of folds: they hold for every array of items.

A statement that holds for no items, and for one more item if it holds before, holds for every queue.

Item ``i`` measures ``item(i)``; ``sum(low, high)`` adds up the items from ``low`` up to, but not including, ``high``,
oldest first.  Every queue of ``n`` items is such an array, and its sum is ``sum(0, n)``.  The only facts about ``plus``
are that it is associative, and that adding ``nothing`` changes nothing: both are proved of numbers, and of each sum of
which a law tells.  The claims below use the same functions whose results ``kernel/queue.py`` assumes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import ADDING, Law, Single, Sums, followed, numbers_of, parted, sized
from permitflow_proofs.kernel.sequence import N, between_head, between_last, between_size, unread_between
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_like,
    assume,
    assuming,
    equal,
    function,
    implies,
    integer,
    limit,
    natural,
    operation,
    predicate,
)

T = TypeVar("T")
V = TypeVar("V")
P = TypeVar("P")


class _Nothing:
    """The sums over no items."""

    def size(self) -> int:
        return 0

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        return nothing


class _Asked(NamedTuple):
    """A sum that was asked for."""

    measure: Callable[..., Any]
    plus: Callable[[Any, Any], Any]
    nothing: Any
    context: tuple[object, ...]

    def of(self, sums: Sums) -> Any:
        return sums.sum_of(self.measure, self.plus, self.nothing, *self.context)


class _Some:
    """The sums over some items, whatever they are."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._size = integer(f"{name}.size")
        limit(self._size >= 0)
        self._sums: dict[tuple[object, ...], Any] = {}
        self.asked: list[_Asked] = []

    def size(self) -> int:
        return self._size

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        key = (measure, plus, *map(id, context))
        if key not in self._sums:
            self._sums[key] = any_like(nothing, f"{self._name}.{measure.__name__}")
            limit(sized(self._size, self._sums[key], nothing))
            self.asked.append(_Asked(measure, plus, nothing, context))
        value: V = self._sums[key]
        return value


class _Both:
    """The sums over two groups of items together."""

    def __init__(self, left: Sums, right: Sums) -> None:
        self._left = left
        self._right = right

    def size(self) -> int:
        return self._left.size() + self._right.size()

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        left = self._left.sum_of(measure, plus, nothing, *context)
        return plus(left, self._right.sum_of(measure, plus, nothing, *context))


def _never_negative(law: Law, sums: Sums) -> bool:
    return all_of([number >= 0 for number in numbers_of(law, sums)])


def _exactly_one(law: Law, sums: Sums) -> bool:
    return all_of([number == 1 for number in numbers_of(law, sums)])


def _kept_by_adding(law: Law, holds: Callable[[Law, Sums], bool]) -> bool:
    left, right = _Some("left"), _Some("right")
    with assuming():
        assume(_never_negative(law, left))
        assume(_never_negative(law, right))
    return holds(law, _Both(left, right))


def _adds_up(law: Law, beside: tuple[Law, ...], *, wrong: bool) -> bool:
    """It does not matter which of three sums are added first, and what is nothing adds nothing."""
    three = [_Some(name) for name in ("one", "two", "three")]
    with assuming():
        for sums in three:
            assume(_never_negative(law, sums))
        asked = tuple(three[0].asked)
        for sums in three:
            assume(all_of([_never_negative(other, sums) for other in beside]))
    return all_of([_is_added_up(each.plus, each.nothing, *map(each.of, three), wrong=wrong) for each in asked])


def _is_added_up(plus: Callable[[V, V], V], nothing: V, *sums: V, wrong: bool) -> bool:
    one, two, three = sums
    whole = plus(one, three) if wrong else plus(plus(one, two), three)
    adds_nothing = (equal(plus(one, nothing), one), equal(plus(nothing, one), one))
    return all_of((equal(whole, plus(one, plus(two, three))), *adds_nothing))


def law_obligations(
    name: str,
    law: Law,
    lawful_item: Callable[[], Any],
    any_item: Callable[[], Any] | None = None,
    beside: tuple[Law, ...] = (),
) -> tuple[SymbolicObligation, ...]:
    """A queue of lawful items may assume this law for its sums, and that these add up.

    ``any_item`` makes items that are not known to be lawful, and need not obey; None: every item obeys.  ``beside``:
    other laws of the same queues, without which its sums do not add up.
    """
    return made_law_obligations(name, lambda: law, lawful_item, any_item, beside)


def made_law_obligations(
    name: str,
    law: Callable[[], Law],
    lawful_item: Callable[[], Any],
    any_item: Callable[[], Any] | None = None,
    beside: tuple[Law, ...] = (),
) -> tuple[SymbolicObligation, ...]:
    """As ``law_obligations``, of a law that has symbols: ``law`` makes it."""
    too_much = "exactly one instead of never negative"
    return (
        SymbolicObligation(
            f"{name}: for no items",
            lambda: _never_negative(law(), _Nothing()),
            lambda: _exactly_one(law(), _Nothing()),
            too_much,
        ),
        SymbolicObligation(
            f"{name}: kept by adding",
            lambda: _kept_by_adding(law(), _never_negative),
            lambda: _kept_by_adding(law(), _exactly_one),
            too_much,
        ),
        SymbolicObligation(
            f"{name}: adds up",
            lambda: _adds_up(law(), beside, wrong=False),
            lambda: _adds_up(law(), beside, wrong=True),
            "one of three is left out",
        ),
        SymbolicObligation(
            f"{name}: for each item",
            lambda: _never_negative(law(), Single(lawful_item())),
            lambda: (
                _never_negative(law(), Single(any_item())) if any_item else _exactly_one(law(), Single(lawful_item()))
            ),
            "the item is not known to be in its range" if any_item else too_much,
        ),
    )


def dead_end_obligation(
    follow: Callable[[V, T, P], V],
    dead_end: V,
    lawful_item: Callable[[P], T],
    any_item: Callable[[], T],
    any_parameters: Callable[[], P],
) -> SymbolicObligation:
    """A queue of lawful items may assume that this value is a dead end of the fold."""

    def leads_nowhere(make: Callable[[P], T]) -> bool:
        parameters = any_parameters()
        return equal(follow(dead_end, make(parameters), parameters), dead_end)

    return SymbolicObligation(
        f"{dead_end} is a dead end of {follow.__name__}",
        lambda: leads_nowhere(lawful_item),
        lambda: leads_nowhere(lambda _parameters: any_item()),
        "the item is not known to be in its range",
    )


def between_obligations(item: Callable[[int], N]) -> tuple[SymbolicObligation, ...]:
    """What ``items_between`` assumes: by induction over the end, from how such items are defined.

    Without items it is empty, and up to ``end + 1`` there is one more behind those up to ``end``.
    """

    def begins(*, wrong: int = 0) -> bool:
        first = integer("first")
        items = unread_between(item, first, first)
        assume(equal(items, ()))
        return between_size(items, first, first + wrong)

    def goes_on(*, wrong: int = 0) -> bool:
        first, end = integer("first"), integer("end")
        assume(first < end)
        items, longer = unread_between(item, first, end), unread_between(item, first, end + 1)
        assume(all_of([between_size(items, first, end), between_head(item, items, first, end)]))
        for begun, start in ((longer, first), (unread_between(item, first + 1, end + 1), first + 1)):
            assume(between_last(item, begun, start, end + 1))
        return all_of(
            [between_size(longer, first, end + 1 + wrong), between_head(item, longer, first, end + 1 + wrong)]
        )

    def begins_with_one(*, wrong: int = 0) -> bool:
        first = integer("first")
        none, one = unread_between(item, first, first), unread_between(item, first, first + 1)
        assume(all_of([equal(none, ()), equal(unread_between(item, first + 1, first + 1), ())]))
        assume(between_last(item, one, first, first + 1))
        return all_of([between_size(one, first, first + 1), between_head(item, one, first, first + 1 + wrong)])

    return tuple(
        SymbolicObligation(f"items between numbers: {name}", claim, partial(claim, wrong=1), "the end is one larger")
        for name, claim in (("none", begins), ("one", begins_with_one), ("one more", goes_on))
    )


class _Array:
    """Items and their sums, with the needed equations assumed."""

    def __init__(self) -> None:
        self.item = function("item")
        self.sum = operation("sum")
        self.plus = operation("plus")
        self.nothing = integer("nothing")

    def start(self, low: int) -> None:
        """Assume the sum over no items."""
        assume(self.sum(low, low) == self.nothing)

    def add_up(self, low: int, high: int) -> None:
        """Assume the equation of one item more."""
        assume(self.sum(low, high + 1) == self.plus(self.sum(low, high), self.item(high)))

    def head(self) -> int:
        """The sum over the first item."""
        return self.plus(self.nothing, self.item(0))


def _empty(wrong: int = 0) -> bool:
    array = _Array()
    low, size = natural("low"), natural("size")
    array.start(low)
    return sized(size, array.sum(low, low + size) + wrong, array.nothing)


def _pushed(wrong: int = 0) -> bool:
    array = _Array()
    n = natural("n")
    array.add_up(0, n)
    return array.sum(0, n + 1) == array.plus(array.sum(0, n), array.item(n)) + wrong


def _last(wrong: int = 0) -> bool:
    array = _Array()
    n = natural("n", 1)
    array.add_up(0, n - 1)
    return parted(array.sum(0, n), array.sum(0, n - 1) + wrong, array.item(n - 1), array.plus)


def _head_alone(wrong: int = 0) -> bool:
    """By induction over the number of items: one item."""
    array = _Array()
    array.start(0)
    array.start(1)
    array.add_up(0, 0)
    assume(array.plus(array.head(), array.nothing) == array.head())
    return parted(array.sum(0, 1), array.head(), array.sum(1, 1) + wrong, array.plus)


def _head(wrong: int = 0) -> bool:
    """One item more."""
    array = _Array()
    n = natural("n", 1)
    rest, newest, plus = array.sum(1, n), array.item(n), array.plus
    array.add_up(0, n)
    array.add_up(1, n)
    assume(plus(plus(array.head(), rest), newest) == plus(array.head(), plus(rest, newest)))
    assume(parted(array.sum(0, n), array.head(), rest, plus))
    return parted(array.sum(0, n + 1), array.head(), array.sum(1, n + 1) + wrong, plus)


def _lawful(*, start: bool, closed: bool = True) -> bool:
    """Every segment obeys a law: by induction over its end."""
    array = _Array()
    is_lawful = predicate("is_lawful")
    low = natural("low")
    assume(is_lawful(array.nothing))
    if start:
        array.start(low)
        return is_lawful(array.sum(low, low) + (0 if closed else 1))
    high = natural("high")
    assume(low <= high)
    array.add_up(low, high)
    segment, newest = array.sum(low, high), array.item(high)
    assume(is_lawful(newest))
    if closed:
        assume(implies(bool(is_lawful(segment)) and bool(is_lawful(newest)), is_lawful(array.plus(segment, newest))))
    return implies(is_lawful(segment), is_lawful(array.sum(low, high + 1)))


class _Way:
    """Two folds over the items of an array: all of them, and those after the first, from its result."""

    def __init__(self) -> None:
        self.follow = operation("follow")
        self.whole, self.rest = function("whole"), function("rest")
        self.start = integer("start")
        assume(self.whole(0) == self.start)
        assume(self.rest(1) == self.follow(self.start, 0))

    def go_on(self, end: int) -> None:
        """Assume the equations of one item more."""
        assume(self.whole(end + 1) == self.follow(self.whole(end), end))
        assume(self.rest(end + 1) == self.follow(self.rest(end), end))


def _way_of_the_head(*, start: bool, wrong: int = 0) -> bool:
    """By induction over the end."""
    way = _Way()
    if start:
        assume(way.whole(1) == way.follow(way.whole(0), 0))
        return followed(way.whole(1), way.rest(1) + wrong)
    end = natural("end", 1)
    way.go_on(end)
    assume(followed(way.whole(end), way.rest(end)))
    return followed(way.whole(end + 1), way.rest(end + 1) + wrong)


def _way_of_the_last(wrong: int = 0) -> bool:
    way = _Way()
    end = natural("end", 1)
    way.go_on(end - 1)
    return followed(way.whole(end), way.follow(way.whole(end - 1), end - 1) + wrong)


def _dead_end(*, start: bool, wrong: int = 0) -> bool:
    way = _Way()
    if start:
        return sized(0, way.whole(0) + wrong, way.start)
    end = natural("end")
    way.go_on(end)
    assume(way.follow(way.start, end) == way.start)
    assume(way.whole(end) == way.start)
    return way.whole(end + 1) == way.start + wrong


def _every(*, start: bool, forgets: bool = False) -> bool:
    """What holds for every item holds for the head and for every item of the rest: by induction over the end.

    ``whole(i)``: it holds for the items before ``i``; ``rest(i)``: likewise without the first item.
    """
    holds, whole, rest = predicate("holds"), predicate("whole"), predicate("rest")
    end = 0 if start else natural("end", 1)
    assume(all_of([whole(0), rest(1)]))
    assume(whole(end + 1) == (bool(whole(end)) and (forgets or bool(holds(end)))))
    if start:
        return implies(whole(1), bool(holds(0)) and bool(rest(1)))
    assume(rest(end + 1) == (bool(rest(end)) and bool(holds(end))))
    assume(implies(whole(end), bool(holds(0)) and bool(rest(end))))
    return implies(whole(end + 1), bool(holds(0)) and bool(rest(end + 1)) and bool(holds(end)) and bool(whole(end)))


def _shifted(name: str, claim: Callable[..., bool]) -> SymbolicObligation:
    return SymbolicObligation(name, claim, lambda: claim(wrong=1), "the result is one too large")


def _by_induction(name: str, claim: Callable[..., bool], parts: tuple[str, str]) -> tuple[SymbolicObligation, ...]:
    return tuple(
        _shifted(f"{name}: {part}", lambda wrong=0, start=start: claim(start=start, wrong=wrong))
        for part, start in zip(parts, (True, False), strict=True)
    )


def _numbers_add_up(plus: Callable[[int, int], int], *, wrong: bool) -> bool:
    return _is_added_up(plus, 0, *map(natural, ("one", "two", "three")), wrong=wrong)


def queue_obligations() -> tuple[SymbolicObligation, ...]:
    """The assumptions of ``SymbolicQueue`` about sums and folds hold for each real queue."""
    from_one, from_none = ("one item", "one more item"), ("no items", "one more item")
    return (
        *(
            SymbolicObligation(
                f"numbers add up by {plus.__name__}",
                partial(_numbers_add_up, plus, wrong=False),
                partial(_numbers_add_up, plus, wrong=True),
                "one of three is left out",
            )
            for plus in ADDING
        ),
        _shifted("an empty queue sums up to nothing", _empty),
        _shifted("taking the head leaves the rest of the sum: one item", _head_alone),
        _shifted("taking the head leaves the rest of the sum: one more item", _head),
        _shifted("taking the last leaves the rest of the sum", _last),
        _shifted("pushing adds the item's measure", _pushed),
        SymbolicObligation(
            "a law holds for no items",
            lambda: _lawful(start=True),
            lambda: _lawful(start=True, closed=False),
            "the sum over no items is another one",
        ),
        SymbolicObligation(
            "a law that holds for one more item holds for the longer segment",
            lambda: _lawful(start=False),
            lambda: _lawful(start=False, closed=False),
            "the law is not kept by adding",
        ),
        *_by_induction("following the head, then the rest, is following all", _way_of_the_head, from_one),
        _shifted("following all but the last, then the last, is following all", _way_of_the_last),
        *_by_induction("from a dead end no queue leads elsewhere", _dead_end, from_none),
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
