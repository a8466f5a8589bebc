"""The queue for long runs is the same queue as the one for exploration, only faster."""

from hypothesis import given
from hypothesis import strategies as st

from permitflow_model.kernel.queue import Fifo, Queue, SummedFifo, larger

OPERATIONS = st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["head", "last", "sum", "every"])), max_size=60)


def text_of(item: int) -> str:
    return str(item)


def as_digits(number: int, item: int, base: int) -> int:
    return number * base + item


def is_below(item: int, bound: int) -> bool:
    return item < bound


def answers(queue: Queue[int]) -> tuple[object, ...]:
    ends = () if queue.is_empty() else (queue.head(), queue.last())
    return (list(queue), queue.size(), queue.is_empty(), *ends)


def sums(queue: Queue[int]) -> tuple[object, ...]:
    def double(item: int) -> int:
        return 2 * item

    # Texts and digits tell in which order the items are.
    in_order = queue.sum_of(text_of, str.__add__, ""), queue.fold(as_digits, 0, 10)
    return (
        *in_order,
        queue.sum_of(abs, int.__add__, 0),
        queue.sum_of(abs, larger, 0),
        queue.sum_of(double, int.__add__, 0),
        queue.every(is_below, 9),
    )


@given(OPERATIONS)
def test_it_answers_as_the_tuple_does(operations: list[int | str]) -> None:
    fifo: Queue[int] = Fifo()
    summed: Queue[int] = SummedFifo()
    for operation in operations:
        match operation:
            case int():
                fifo, summed = fifo.push(operation), summed.push(operation)
            case "head" if not fifo.is_empty():
                fifo, summed = fifo.without_head(), summed.without_head()
            case "last" if not fifo.is_empty():
                fifo, summed = fifo.without_last(), summed.without_last()
            case "sum":
                assert sums(fifo) == sums(summed)
        assert answers(fifo) == answers(summed)
        assert summed == fifo
    assert sums(fifo) == sums(summed)


@given(OPERATIONS)
def test_no_operation_changes_the_queue_it_was_asked_of(operations: list[int | str]) -> None:
    queue: SummedFifo[int] = SummedFifo()
    for number in range(5):
        queue = queue.push(number)
    versions = [queue]
    for operation in operations:
        queue = versions[hash(operation) % len(versions)]
        before = list(queue)
        match operation:
            case int():
                versions.append(queue.push(operation))
            case "head" if before:
                versions.append(queue.without_head())
            case "last" if before:
                versions.append(queue.without_last())
        assert list(queue) == before


def test_equal_queues_hash_alike_and_print_their_items() -> None:
    one, other = SummedFifo[int]().push(1).push(2), SummedFifo[int]().push(0).push(1).push(2).without_head()

    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == "SummedFifo(1, 2)"
    assert one != one.push(3)
    assert one != "12"


def test_steps_and_sums_take_the_same_time_however_long_the_queue_is() -> None:
    measured = 0

    def measure(item: int) -> int:
        nonlocal measured
        measured += 1
        return item

    queue: SummedFifo[int] = SummedFifo()
    for number in range(2000):
        queue = queue.push(number)
    for number in range(2000):
        queue = queue.push(number).without_head()
        assert queue.sum_of(measure, int.__add__, 0) > 0

    # Each item is measured at most twice: once on the back stack, once on the front.
    assert measured <= 2 * 4000
