"""Proves the assumptions of the symbolic families: they hold for every array of members.

Member ``i`` has a truth value ``holds(i)`` and a measure; ``every(n)`` says whether it holds for the first ``n``
members, and ``total(n)`` is the sum of their measures.  Every family of ``n`` members is such an array.  The claims
below are shown by induction over ``n``, and use the same functions whose results ``kernel/family.py`` and
``kernel/indexed.py`` assume.
"""

from collections.abc import Callable
from functools import partial

from permitflow_proofs.kernel.family import compared, has_all, left_out, told, witnessed
from permitflow_proofs.kernel.indexed import at_most_last, replaced
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import sized
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    equal,
    function,
    implies,
    integer,
    natural,
    negated,
    operation,
    predicate,
)


class _Array:
    """Members, with the needed equations assumed."""

    def __init__(self, name: str = "") -> None:
        self.holds = predicate(f"{name}holds")
        self.every = predicate(f"{name}every")
        self.measure = function(f"{name}measure")
        self.total = function(f"{name}total")

    def start(self) -> None:
        """Assume the equations for no members."""
        assume(self.every(0))
        assume(self.total(0) == 0)

    def add(self, n: int) -> None:
        """Assume the equations of one more member, the one after the first ``n``."""
        assume(self.every(n + 1) == all_of((self.every(n), self.holds(n))))
        assume(self.total(n + 1) == self.total(n) + self.measure(n))


def _none(*, wrong: bool = False) -> bool:
    array = _Array()
    array.start()
    return all_of((has_all(0, array.every(0)), sized(0, array.total(0), 1 if wrong else 0)))


def _telling(*, start: bool, wrong: bool = False) -> bool:
    """A member among the first ``n``; the mistake: it may be the one after them."""
    array = _Array()
    n, member = 0 if start else natural("n", 1), natural("member")
    array.start()
    array.add(n)
    if not start:
        assume(implies(member < n, told(n, array.every(n), array.holds(member))))
    return implies(member < (n + 2 if wrong else n + 1), told(n + 1, array.every(n + 1), array.holds(member)))


def _witness(*, start: bool, wrong: bool = False) -> bool:
    """The first member for which it fails, or any member; the mistake: it is never the newest."""
    array, witness = _Array(), function("witness")
    n = 0 if start else natural("n", 1)
    array.start()
    array.add(n)
    is_new = start or array.every(n)
    assume(witness(n + 1) == (n if is_new and not wrong else witness(n)))
    if not start:
        assume(_is_witness(array, witness, n))
    return _is_witness(array, witness, n + 1)


def _is_witness(array: _Array, witness: Callable[[int], int], n: int) -> bool:
    chosen = witness(n)
    return all_of((chosen >= 0, chosen < n, witnessed(n, array.every(n), array.holds(chosen))))


def _last(*, start: bool, wrong: bool = False) -> bool:
    """The last member for which it fails, by their measures; the mistake: it is never the newest."""
    array, exists, last = _Array(), predicate("has.last"), function("last")
    n, member = 0 if start else natural("n", 1), natural("member")
    fails = negated(array.holds(n))
    assume(exists(n + 1) == any_of((fails, exists(n))))
    is_later = implies(exists(n), array.measure(n) >= array.measure(last(n)))
    assume(last(n + 1) == (n if all_of((fails, is_later)) and not wrong else last(n)))
    if start:
        assume(negated(exists(0)))
    else:
        assume(_is_last(array, exists, last, member, n))
    return _is_last(array, exists, last, member, n + 1)


def _is_last(array: _Array, exists: Callable[[int], bool], last: Callable[[int], int], member: int, n: int) -> bool:
    found = all_of((last(n) >= 0, last(n) < n, negated(array.holds(last(n)))))
    bounded = implies(
        member < n, at_most_last(exists(n), array.measure(last(n)), array.measure(member), array.holds(member))
    )
    return all_of((implies(exists(n), found), bounded))


def _largest(*, start: bool, wrong: bool = False) -> bool:
    """The largest measure, and a member that has it; the mistake: that is never the newest."""
    array, largest, holder = _Array(), function("largest"), function("holder")
    n, member = 0 if start else natural("n", 1), natural("member")
    is_new = start or largest(n) < array.measure(n)
    assume(largest(n + 1) == (array.measure(n) if is_new else largest(n)))
    assume(holder(n + 1) == (n if is_new and not wrong else holder(n)))
    if not start:
        assume(_is_largest(array, largest, holder, member, n))
    return _is_largest(array, largest, holder, member, n + 1)


def _is_largest(
    array: _Array, largest: Callable[[int], int], holder: Callable[[int], int], member: int, n: int
) -> bool:
    has_it = all_of((holder(n) >= 0, holder(n) < n, equal(array.measure(holder(n)), largest(n))))
    return all_of((has_it, implies(member < n, array.measure(member) <= largest(n))))


def _replacing(*, start: bool, wrong: bool = False) -> bool:
    """The same members but for one; the mistake: the old measure still counts."""
    array, other, place = _Array(), _Array("other."), natural("place")
    n = 0 if start else natural("n", 1)
    array.start()
    other.start()
    array.add(n)
    other.add(n)
    assume(other.measure(n) == (other.measure(place) if place == n else array.measure(n)))
    assume(_is_replaced(array, other, place, n, 0))
    return _is_replaced(array, other, place, n + 1, array.measure(place) if wrong else 0)


def _is_replaced(array: _Array, other: _Array, place: int, n: int, kept: int) -> bool:
    if place < n:
        return other.total(n) == replaced(array.total(n), array.measure(place) - kept, other.measure(place))
    return other.total(n) == array.total(n)


def _sum(*, start: bool, wrong: bool = False) -> bool:
    """Two sums, of which the first one's measures are each at most the other one's."""
    array, other = _Array(), _Array("other.")
    n = 0 if start else natural("n", 1)
    array.start()
    other.start()
    array.add(n)
    other.add(n)
    assume(array.holds(n) == (array.measure(n) <= other.measure(n)))
    assume(compared(array.every(n), array.total(n), other.total(n)))
    return compared(array.every(n + 1), array.total(n + 1) + (1 if wrong else 0), other.total(n + 1))


def _leaving_out(*, start: bool, wrong: bool = False) -> bool:
    """The same members, and all but one of them; the mistake: that one still counts."""
    whole, others, left = _Array(), _Array("others."), natural("left")
    n = 0 if start else natural("n", 1)
    whole.start()
    others.start()
    whole.add(n)
    others.add(n)
    is_left = equal(left, n)
    assume(others.holds(n) == (True if is_left else whole.holds(n)))
    assume(others.measure(n) == (0 if is_left and not wrong else whole.measure(n)))
    assume(_is_left_out(whole, others, left, n))
    return _is_left_out(whole, others, left, n + 1)


def _is_left_out(whole: _Array, others: _Array, left: int, n: int) -> bool:
    if left < n:
        answers = left_out(whole.every(n), others.every(n), whole.holds(left))
        return all_of((answers, whole.total(n) - whole.measure(left) == others.total(n)))
    return all_of((others.every(n) == whole.every(n), others.total(n) == whole.total(n)))


def _alone(*, start: bool, wrong: bool = False) -> bool:
    """Members of which one measures anything, in a sum of any kind; the mistake: another one does, too."""
    total, measure, plus, nothing = function("total"), function("measure"), operation("plus"), integer("nothing")
    n, alone = 0 if start else natural("n", 1), natural("alone")
    assume(equal(total(0), nothing))
    assume(equal(total(n + 1), plus(total(n), measure(n))))
    for value in (nothing, measure(alone)):
        assume(all_of((equal(plus(nothing, value), value), equal(plus(value, nothing), value))))
    if not wrong:
        assume(implies(negated(equal(n, alone)), equal(measure(n), nothing)))
    assume(_is_alone(total, measure(alone), nothing, alone, n))
    return _is_alone(total, measure(alone), nothing, alone, n + 1)


def _is_alone(total: Callable[[int], int], measure: int, nothing: int, alone: int, n: int) -> bool:
    return equal(total(n), measure if alone < n else nothing)


def family_obligations() -> tuple[SymbolicObligation, ...]:
    """The assumptions of ``SymbolicFamily`` hold for each real family."""
    by_induction: tuple[tuple[str, Callable[..., bool], str], ...] = (
        ("what holds for all holds for each", _telling, "for one behind them, too"),
        ("what does not hold for all fails for a witness", _witness, "the newest is no witness"),
        ("what does not hold for all fails for a last one", _last, "the newest is not the last one"),
        ("the largest measure is at least each, and one member's", _largest, "the newest does not have it"),
        ("a sum with one measure replaced differs by that", _replacing, "the old one still counts"),
        ("sums are compared as their measures are", _sum, "the sum is one larger"),
        ("where one measures anything, that is the sum", _alone, "another one does"),
        ("all are all others and the one left out", _leaving_out, "the one left out still counts"),
    )
    return (
        SymbolicObligation(
            "everything holds for nobody, and nobody sums up to nothing", _none, partial(_none, wrong=True), "to one"
        ),
        *(
            SymbolicObligation(
                f"{name}: {part}", partial(claim, start=start), partial(claim, start=start, wrong=True), twin_change
            )
            for name, claim, twin_change in by_induction
            for part, start in (("one member", True), ("one more member", False))
        ),
    )
