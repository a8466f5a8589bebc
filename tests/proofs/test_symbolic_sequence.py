"""The symbolic sequence stands for every real queue, and nothing of it is forgotten."""

from collections.abc import Callable
from operator import add, sub
from typing import NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow_model.kernel.queue import Fifo, Queue, larger
from permitflow_proofs.kernel.obligation import Finding, decide
from permitflow_proofs.kernel.sequence import no_items, unread_between
from permitflow_proofs.kernel.symbols import any_like, assume, equal, integer


class Item(NamedTuple):
    name: int
    weight: int


NONE = no_items(Item(0, 0))

ITEMS = st.builds(Item, st.integers(0, 2), st.integers(0, 5))
QUEUES = st.lists(ITEMS, max_size=4).map(Fifo)
OPERATIONS = st.lists(st.one_of(ITEMS, st.sampled_from(["head", "last"])), max_size=6)


def weight(item: Item) -> int:
    return item.weight


def any_sequence(name: str = "items") -> Fifo[Item]:
    return any_like(NONE, name)


def proved(claim: Callable[[], bool]) -> bool:
    found = decide(claim)
    return found.outcome == "proved" and found.reached > 0


def refuted(claim: Callable[[], bool]) -> Finding:
    found = decide(claim)
    assert found.outcome == "refuted"
    return found


def after(operations: list[Item | str], queue: Queue[Item]) -> Queue[Item]:
    """Items are pushed; words take the item at that end."""
    for operation in operations:
        match operation:
            case "head":
                queue = queue.without_head()
            case "last":
                queue = queue.without_last()
            case _:
                queue = queue.push(cast(Item, operation))
    return queue


@given(QUEUES, OPERATIONS)
def test_every_real_queue_is_one_of_them_and_behaves_the_same(real: Fifo[Item], operations: list[Item | str]) -> None:
    def claim() -> bool:
        symbolic = any_sequence()
        assume(equal(symbolic, real))
        ours, theirs = after(operations, symbolic), after(operations, real)
        if theirs.is_empty():
            return ours.is_empty() and ours == theirs
        return (
            ours == theirs
            and not ours.is_empty()
            and ours.size() == theirs.size()
            and (ours.head(), ours.last()) == (theirs.head(), theirs.last())
        )

    assert proved(claim)


@given(QUEUES, QUEUES)
def test_only_the_same_items_in_the_same_order_are_equal(one: Fifo[Item], other: Fifo[Item]) -> None:
    assert proved(lambda: (NONE.join(one) == NONE.join(other)) == (one == other))
    assert proved(lambda: (NONE.join(one) != other) == (one != other))
    assert proved(lambda: NONE.join(one).join(NONE.join(other)) == one.join(other))


def test_order_is_known() -> None:
    def swapped() -> bool:
        first, second = Item(integer("a"), 1), Item(integer("b"), 1)
        return any_sequence().push(first).push(second) == any_sequence().push(second).push(first)

    refuted(swapped)
    assert proved(lambda: any_sequence().push(Item(1, 1)).last() == Item(1, 1))


def test_taking_an_item_from_either_end_leaves_the_rest() -> None:
    def claim() -> bool:
        items = any_sequence()
        assume(items.size() > 1)
        from_the_front = NONE.push(items.head()).join(items.without_head())
        from_the_back = items.without_last().push(items.last())
        return from_the_front == items and from_the_back == items

    assert proved(claim)


def test_equal_sequences_have_equal_sums_and_known_items_count() -> None:
    def claim(pushed: int, counted: int) -> bool:
        one, other = any_sequence(), any_sequence("others")
        assume(equal(one, other))
        total = one.push(Item(0, pushed)).sum_of(weight, add, 0)
        return total == other.sum_of(weight, add, 0) + counted

    assert proved(lambda: claim(3, 3))
    refuted(lambda: claim(3, 2))
    refuted(lambda: any_sequence().sum_of(weight, add, 0) == any_sequence("others").sum_of(weight, add, 0))


def test_each_measure_of_one_name_has_its_own_sum() -> None:
    def weighed(times: int) -> Callable[[Item], int]:
        def weight(item: Item) -> int:
            return times * item.weight

        return weight

    light, heavy = weighed(1), weighed(2)

    def are_equal(measure: Callable[[Item], int], plus: Callable[[int, int], int]) -> bool:
        items = any_sequence()
        return items.sum_of(light, add, 0) == items.sum_of(measure, plus, 0)

    assert proved(lambda: are_equal(light, add))
    refuted(lambda: are_equal(heavy, add))
    refuted(lambda: are_equal(light, larger))


def test_a_sum_that_does_not_add_up_is_refused() -> None:
    """Else a first item would count as often before many items as before one."""
    with pytest.raises(TypeError, match="a queue of Item: no law tells that sums by sub add up, from 0 on"):
        decide(lambda: any_sequence().sum_of(weight, sub, 0) <= 0)


def test_items_of_one_name_between_numbers_are_of_their_own_kind() -> None:
    def numbered(times: int) -> Callable[[int], Item]:
        def item(number: int) -> Item:
            return Item(number, times)

        return item

    def are_equal(one: Callable[[int], Item], other: Callable[[int], Item]) -> bool:
        first, end = integer("first"), integer("end")
        return equal(unread_between(one, first, end), unread_between(other, first, end))

    light, heavy = numbered(1), numbered(2)
    assert proved(lambda: are_equal(light, light))
    refuted(lambda: are_equal(light, heavy))


def test_an_empty_one_has_no_ends_and_stays_empty() -> None:
    for ask in (NONE.head, NONE.last):
        with pytest.raises(IndexError, match="is empty"):
            decide(lambda ask=ask: ask() == Item(0, 0))  # type: ignore[misc]  # binds the loop's value
    assert proved(lambda: NONE.without_head().is_empty() and NONE.without_last().is_empty())
