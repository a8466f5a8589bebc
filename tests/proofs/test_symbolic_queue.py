"""The symbolic queue stands for every real queue: what it assumes excludes none, and no more is known of it."""

from collections.abc import Callable
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow_model.kernel.queue import Fifo, Queue, larger
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.indexed import Indexed
from permitflow_proofs.kernel.obligation import Finding, decide
from permitflow_proofs.kernel.queue import Sums, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations, queue_obligations
from permitflow_proofs.kernel.symbols import assume, choice, function, implies, integer, merged, natural


def itself(item: int) -> int:
    return item


def with_more(item: int, more: int) -> int:
    return item + more


def doubled(item: int) -> int:
    return 2 * item


def as_digits(number: int, item: int, base: int) -> int:
    return base * number + item


def stays_below(last: int, item: int, _context: None) -> int:
    return item if last <= item else -1


def natural_item() -> int:
    return natural("item")


def is_natural(item: int, _context: None) -> bool:
    return item >= 0


def total(queue: Queue[int]) -> int:
    return queue.sum_of(itself, add, 0)


def sum_is_natural(numbers: Sums) -> int:
    return numbers.sum_of(itself, add, 0)


def any_numbers(name: str = "numbers") -> SymbolicQueue[int]:
    """Any queue of natural numbers."""
    numbers = SymbolicQueue.any_queue(name, integer, (sum_is_natural,))
    assume(numbers.every(is_natural, None))
    return numbers


def assume_is(symbolic: SymbolicQueue[int], real: Fifo[int]) -> None:
    """Look at both from the front, and assume that they look the same."""
    assume(symbolic.size() == real.size())
    assume(symbolic.fold(as_digits, 0, 10) == real.fold(as_digits, 0, 10))
    for measure in (itself, doubled):
        assume(symbolic.sum_of(measure, add, 0) == real.sum_of(measure, add, 0))
    if not real.is_empty():
        assume(symbolic.head() == real.head())
        assume_is(symbolic.without_head(), real.without_head())


NUMBERS = st.lists(st.integers(0, 5), max_size=5).map(Fifo)


def proved(found: Finding) -> bool:
    return found.outcome == "proved" and found.reached > 0


@given(NUMBERS, st.lists(st.one_of(st.integers(0, 5), st.none()), max_size=6))
def test_every_real_queue_fits_and_behaves_the_same(real: Fifo[int], operations: list[int | None]) -> None:
    """A number is pushed, None takes the head: afterwards both know the same."""

    def claim() -> bool:
        symbolic, model = any_numbers(), real
        assume_is(symbolic, real)
        for operation in operations:
            if operation is not None:
                symbolic, model = symbolic.push(operation), model.push(operation)
            elif not model.is_empty():
                if symbolic.is_empty() or symbolic.head() != model.head():
                    return False
                symbolic, model = symbolic.without_head(), model.without_head()
        return (
            symbolic.size() == model.size()
            and total(symbolic) == total(model)
            and symbolic.fold(as_digits, 0, 10) == model.fold(as_digits, 0, 10)
            and symbolic.is_empty() == model.is_empty()
        )

    assert proved(decide(claim))


@given(NUMBERS.filter(bool))
def test_the_newest_item_can_be_taken_too(real: Fifo[int]) -> None:
    def claim() -> bool:
        numbers = any_numbers()
        assume(numbers.size() == real.size())
        assume(total(numbers) == total(real))
        assume(numbers.last() == real.last())
        rest = numbers.without_last()
        return rest.size() == real.size() - 1 and total(rest) == total(real.without_last())

    assert proved(decide(claim))
    pushed = decide(lambda: any_numbers().push(7).last() == 7 and any_numbers().push(7).without_last().size() >= 0)
    assert proved(pushed)


def newer(older: int, newest: int) -> int:
    return newest if newest >= 0 else older


def apart(one: int, other: int) -> int:
    return one - other if one > 0 and other > 0 else one + other


def test_a_law_asks_that_its_sums_add_up() -> None:
    def outcome(plus: Callable[[int, int], int], nothing: int) -> str:
        obligations = law_obligations("law", lambda items: items.sum_of(itself, plus, nothing) + 1, natural_item)
        (adds_up,) = (each for each in obligations if each.name == "law: adds up")
        found = adds_up.examine()
        assert found.twin_failed
        return found.outcome

    assert outcome(newer, -1) == "proved"
    assert outcome(newer, 0) == "refuted"
    assert outcome(apart, 0) == "refuted"


def test_a_sum_of_which_no_law_tells_is_refused() -> None:
    with pytest.raises(TypeError, match="numbers: no law tells that sums by newer add up"):
        decide(lambda: any_numbers().sum_of(itself, newer, -1) >= -1)


def test_a_sum_that_does_not_begin_with_nothing_is_refused() -> None:
    """A queue adds up both of its ends, each from there: it would count twice."""
    with pytest.raises(TypeError, match="sums by add add up, from 5 on"):
        decide(lambda: total(any_numbers()) == any_numbers().sum_of(itself, add, 5))


def test_sums_of_one_measure_are_apart_if_they_add_up_otherwise() -> None:
    def claim() -> bool:
        numbers = any_numbers()
        return total(numbers) == numbers.sum_of(itself, larger, 0)

    assert decide(claim).outcome == "refuted"


def test_an_item_is_not_more_than_the_sum_only_because_of_the_law() -> None:
    def claim(law: bool) -> bool:
        numbers = SymbolicQueue.any_queue("numbers", integer, (sum_is_natural,) if law else ())
        assume(numbers.size() > 0)
        return numbers.head() <= total(numbers)

    assert proved(decide(lambda: claim(law=True)))
    assert decide(lambda: claim(law=False)).outcome == "refuted"


def test_a_property_of_every_item_holds_for_taken_and_rest() -> None:
    def claim(known: bool) -> bool:
        numbers = SymbolicQueue.any_queue("numbers", integer)
        if known:
            assume(numbers.every(is_natural, None))
        assume(numbers.size() > 1)
        rest = numbers.without_head()
        return is_natural(numbers.head(), None) and rest.every(is_natural, None) and rest.head() >= 0

    assert proved(decide(lambda: claim(known=True)))
    assert decide(lambda: claim(known=False)).outcome == "refuted"


def test_nothing_is_known_of_every_item_unless_it_is_assumed() -> None:
    numbers = decide(lambda: SymbolicQueue.any_queue("numbers", integer).every(is_natural, None))
    assert numbers.outcome == "refuted"


def test_what_holds_for_the_rest_need_not_hold_for_the_head() -> None:
    def claim() -> bool:
        numbers = SymbolicQueue.any_queue("numbers", integer)
        assume(numbers.size() > 0)
        before = numbers.every(is_natural, None)
        return implies(numbers.without_head().every(is_natural, None), before)

    assert decide(claim).outcome == "refuted"


def test_sums_with_different_numbers_differ() -> None:
    def claim() -> bool:
        numbers = any_numbers()
        few, many = (numbers.sum_of(with_more, add, 0, natural("more")) for _ in range(2))
        return few == many

    assert decide(claim).outcome == "refuted"


def test_a_pushed_item_must_have_what_every_item_is_said_to_have() -> None:
    assert proved(decide(lambda: any_numbers().push(natural("x")).every(is_natural, None)))
    assert decide(lambda: any_numbers().push(integer("x")).every(is_natural, None)).outcome == "refuted"


def test_a_fold_goes_through_the_items_in_their_order_from_either_end() -> None:
    def claim(first: int, second: int) -> bool:
        numbers = any_numbers()
        assume(numbers.size() == 2)
        way = numbers.push(5).fold(as_digits, 1, 10)
        digits = [numbers.head(), numbers.without_head().head()]
        last = [numbers.without_last().last(), numbers.last()]
        return way == 1005 + 100 * digits[first] + 10 * last[second]

    assert proved(decide(lambda: claim(0, 1)))
    assert decide(lambda: claim(1, 0)).outcome == "refuted"


def test_equal_starts_lead_to_equal_ends_and_nothing_else_is_known() -> None:
    def claim(*, start: bool, queue: bool, base: bool) -> bool:
        one, other = any_numbers(), any_numbers("others")
        first, second = natural("first"), natural("second")
        if start:
            assume(first == second)
        return one.fold(as_digits, first, 10) == (one if queue else other).fold(as_digits, second, 10 if base else 2)

    assert proved(decide(lambda: claim(start=True, queue=True, base=True)))
    assert decide(lambda: claim(start=False, queue=True, base=True)).outcome == "refuted"
    assert decide(lambda: claim(start=True, queue=False, base=True)).outcome == "refuted"
    assert decide(lambda: claim(start=True, queue=True, base=False)).outcome == "refuted"


def test_a_dead_end_is_known_only_where_it_is_given() -> None:
    def claim(start: int, known: bool) -> bool:
        ends = {stays_below: -1} if known else {}
        numbers = SymbolicQueue.any_queue("numbers", integer, dead_ends=ends)
        return numbers.fold(stays_below, start, None) == start

    assert proved(decide(lambda: claim(-1, known=True)))
    assert decide(lambda: claim(-1, known=False)).outcome == "refuted"
    assert decide(lambda: claim(0, known=True)).outcome == "refuted"


def test_the_head_of_an_empty_queue_is_an_error_as_it_is_in_the_model() -> None:
    with pytest.raises(IndexError):
        Fifo[int]().head()
    with pytest.raises(IndexError):
        decide(lambda: any_numbers().head() >= 0)
    with pytest.raises(IndexError, match="numbers is empty"):
        decide(lambda: any_numbers().last() >= 0)


def test_unknown_items_cannot_be_listed() -> None:
    with pytest.raises(TypeError, match="the items of numbers cannot be listed; ask sum_of or every"):
        decide(lambda: any_numbers() is not None and list(any_numbers()) == [])


STAND_INS: dict[str, Callable[[], object]] = {
    "queue": any_numbers,
    "family": lambda: SymbolicFamily.any_family("members", integer),
    "members by name": lambda: Indexed.any_family(function("member"), natural("size")),
    "word": lambda: choice("word", ("yes", "no")),
}


@pytest.mark.parametrize("kind", STAND_INS)
def test_a_stand_in_is_neither_true_nor_false(kind: str) -> None:
    with pytest.raises(TypeError, match="is neither true nor false; ask what is meant"):
        decide(lambda: bool(STAND_INS[kind]()))


@pytest.mark.parametrize("kind", ["queue", "family", "members by name"])
def test_stand_ins_are_not_compared(kind: str) -> None:
    with pytest.raises(TypeError, match="cannot be compared; compare what is meant"):
        decide(lambda: STAND_INS[kind]() == STAND_INS[kind]())


def test_each_assumption_is_proved_of_arrays() -> None:
    names = [obligation.name for obligation in queue_obligations()]
    assert len(set(names)) == len(names) == 16
    for obligation in queue_obligations():
        assert obligation.examine().outcome == "proved"


def test_questions_behind_a_pushed_item_are_answered_in_all_cases() -> None:
    def is_small(item: int, most: int) -> bool:
        return item == 0 or 1 <= item <= most

    def claim() -> bool:
        first = SymbolicQueue.any_queue("first", integer).push(integer("item"))
        second = SymbolicQueue.any_queue("second", integer)
        assume(second.every(is_small, 3) and not second.is_empty())
        rest = second.without_head()
        return merged(lambda: not first.every(is_small, 3) or rest.every(is_small, 3))

    assert decide(claim).outcome == "proved"
