"""Stages that await: calls, streams of streams, time; what they emit, and what of theirs ends with a run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from permitflow.errors import IdleTimeoutError, InvalidParametersError, NotAwaitableError
from permitflow.stages import Source, Supervision
from tests.support.simulated_time import in_simulated_time

Settle = Callable[[], Awaitable[None]]


class Calls:
    """Calls that take as many seconds as their number says; which began, and which were cancelled."""

    def __init__(self, *failing: int) -> None:
        self.failing = failing
        self.begun: list[int] = []
        self.cancelled: list[int] = []
        self.running = self.most = 0

    async def __call__(self, number: int) -> int:
        self.begun.append(number)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(number)
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        finally:
            self.running -= 1
        if number in self.failing:
            raise OSError(f"call {number}")
        return number


async def collected(stream: Source[Any]) -> tuple[list[Any], BaseException | None]:
    found = []
    try:
        async for element in stream:
            found.append(element)
    except Exception as error:
        return found, error
    finally:
        assert asyncio.all_tasks() == {asyncio.current_task()}
    return found, None


@pytest.mark.parametrize(("is_ordered", "expected"), [(True, [3, 1, 2]), (False, [1, 3, 2])])
def test_results_leave_in_order_or_as_they_come(is_ordered: bool, expected: list[int]) -> None:
    calls = Calls()
    stream = Source([3, 1, 2]).map_async(calls, at_most=2, is_ordered=is_ordered)
    assert in_simulated_time(collected(stream)) == (expected, None)
    assert calls.most == 2


@pytest.mark.parametrize(("is_ordered", "found", "cancelled"), [(True, [1], [9]), (False, [1], [9])])
def test_a_failed_call_ends_those_behind_it(is_ordered: bool, found: list[int], cancelled: list[int]) -> None:
    calls = Calls(2)
    stream = Source([1, 2, 9, 4]).map_async(calls, at_most=3, is_ordered=is_ordered)
    results, error = in_simulated_time(collected(stream))
    assert (results, str(error)) == (found, "call 2")
    assert set(cancelled) <= set(calls.cancelled)
    assert calls.running == 0


def test_results_before_a_failed_call_leave_first() -> None:
    results, error = in_simulated_time(collected(Source([5, 1, 9]).map_async(Calls(1), at_most=3)))
    assert (results, str(error)) == ([5], "call 1")


def test_a_resumed_stage_drops_the_element_of_a_failed_call() -> None:
    stream = Source([1, 2, 3]).map_async(Calls(2), at_most=2, supervision=Supervision.RESUME)
    assert in_simulated_time(collected(stream)) == ([1, 3], None)


def test_running_calls_end_before_the_error_of_the_source() -> None:
    async def failing() -> AsyncIterator[int]:
        yield 2
        yield 1
        raise OSError("lost")

    results, error = in_simulated_time(collected(Source(failing()).map_async(Calls(), at_most=5)))
    assert (results, str(error)) == ([2, 1], "lost")


def test_running_calls_are_cancelled_when_a_run_is_left() -> None:
    calls = Calls()

    async def leave() -> None:
        async with Source([1, 50, 60]).map_async(calls, at_most=3).open() as elements:
            assert await anext(elements) == 1
        assert calls.running == 0, "they were awaited, too"

    in_simulated_time(leave())
    assert sorted(calls.cancelled) == [50, 60]


def test_no_call_begins_before_an_element_is_asked_for() -> None:
    calls = Calls()

    async def look() -> list[int]:
        async with Source(range(9)).map_async(calls, at_most=3).open():
            await asyncio.sleep(1)
            return calls.begun

    assert in_simulated_time(look()) == []


async def test_map_async_refuses_a_plain_function_at_its_result() -> None:
    with pytest.raises(NotAwaitableError, match=r"map_async.* must return an awaitable.*has returned int"):
        await anext(Source([1]).map_async(abs, at_most=1).open())  # type: ignore[arg-type]  # the wrong use itself


async def test_a_cancelled_call_of_map_async_loses_no_result(settle: Settle) -> None:
    gate = asyncio.Event()

    async def gated(number: int) -> int:
        await gate.wait()
        return number

    async with Source(range(3)).map_async(gated, at_most=2).open() as elements:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(elements), 0.01)
        gate.set()
        assert [number async for number in elements] == [0, 1, 2]


# Streams of streams.


def seconds(*numbers: int) -> Source[int]:
    return Source(numbers).map_async(Calls(), at_most=1)


@pytest.mark.parametrize(("at_most", "expected"), [(1, [3, 1, 1, 1, 1]), (2, [1, 1, 3, 1, 1])])
def test_streams_are_read_one_after_the_other_or_together(at_most: int, expected: list[int]) -> None:
    stream = Source([(3,), (1, 1), (1, 1)]).flat_map(lambda numbers: seconds(*numbers), at_most)
    assert in_simulated_time(collected(stream)) == (expected, None)


@pytest.mark.parametrize(
    "make", [lambda n: [n, n], lambda n: Source([n, n]), lambda n: iter((n, n))], ids=["list", "source", "iterator"]
)
async def test_each_kind_of_stream_is_read(make: Callable[[int], Any]) -> None:
    assert await collected(Source([1, 2]).flat_map(make)) == ([1, 1, 2, 2], None)


async def test_a_further_stream_is_made_when_there_is_room_for_it() -> None:
    made: list[int] = []

    def make(number: int) -> list[int]:
        made.append(number)
        return [number] * 3

    async with Source(range(5)).flat_map(make, 2).open() as elements:
        assert await anext(elements) == 0
        await asyncio.sleep(0.01)
        assert made == [0, 1]


async def test_streams_of_a_run_that_is_left_are_closed() -> None:
    closed: list[int] = []

    async def generated(number: int) -> AsyncIterator[int]:
        try:
            while True:
                yield number
        finally:
            closed.append(number)

    async with Source(range(5)).flat_map(generated, 2).open() as elements:
        for _ in range(6):
            await anext(elements)
    assert sorted(closed) == [0, 1]


async def test_a_stream_that_fails_ends_the_others() -> None:
    def make(number: int) -> Source[int]:
        return Source([4, 2, 0]).map(lambda divisor: number // divisor) if number else Source(range(1_000_000))

    found, error = await collected(Source([0, 8]).flat_map(make, 2))
    assert isinstance(error, ZeroDivisionError)
    assert {2, 4} <= set(found)


async def test_many_streams_leave_nothing_behind() -> None:
    async with Source(range(2_000)).flat_map(lambda n: [n]).open() as elements:
        assert [number async for number in elements] == [*range(2_000)]
        assert len(elements._run._island._stages) < 10  # type: ignore[attr-defined]  # what grows is inside
        assert len(elements._run._feeders) < 10  # type: ignore[attr-defined]  # likewise


# Ends, and time.


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_so_many_elements_are_taken_and_no_other_is_asked_for(count: int) -> None:
    asked: list[int] = []

    def note(number: int) -> int:
        asked.append(number)
        return number

    assert await collected(Source(range(9)).map(note).take(count)) == ([*range(count)], None)
    assert asked == [*range(count)]


async def test_streams_follow_each_other_and_the_error_of_a_later_one_waits() -> None:
    failing = Source([0]).map(lambda n: 1 // n).buffer(1)
    found, error = await collected(Source([1, 2]).concat(Source(()), Source([3]), failing))
    assert found == [1, 2, 3]
    assert isinstance(error, ZeroDivisionError)


@pytest.mark.parametrize(
    ("pauses", "expected"),
    [
        ([0, 0, 0, 0, 0], [[0, 1, 2], [3, 4]]),
        ([0, 0.4, 0.4, 5, 0], [[0, 1, 2], [3, 4]]),
        ([0, 2, 2, 0, 0], [[0], [1], [2, 3, 4]]),
    ],
)
def test_a_group_leaves_when_it_is_full_or_its_time_is_over(pauses: list[float], expected: list[list[int]]) -> None:
    async def paced() -> AsyncIterator[int]:
        for number, pause in enumerate(pauses):
            await asyncio.sleep(pause)
            yield number

    assert in_simulated_time(collected(Source(paced()).grouped_within(3, 1.0))) == (expected, None)


def test_an_element_that_does_not_come_in_time_fails_the_stream() -> None:
    async def slow() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(10)
        yield 2

    found, error = in_simulated_time(collected(Source(slow()).idle_timeout(2.0)))
    assert found == [1]
    assert isinstance(error, IdleTimeoutError)
    assert isinstance(error, TimeoutError)


def test_a_slow_consumer_is_no_idle_source() -> None:
    async def consume() -> list[int]:
        found = []
        async with Source([1, 2]).idle_timeout(1.0).open() as elements:
            async for number in elements:
                found.append(number)
                await asyncio.sleep(10)
        return found

    assert in_simulated_time(consume()) == [1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.map_async(Calls(), at_most=0),
        lambda s: s.flat_map(lambda n: [n], 0),
        lambda s: s.take(-1),
        lambda s: s.grouped_within(0, 1.0),
        lambda s: s.grouped_within(1, 0),
        lambda s: s.idle_timeout(0),
        lambda s: Source.in_thread([1], ahead=0),
    ],
    ids=range(7),
)
def test_a_number_out_of_its_range_is_refused(make: Callable[[Source[int]], object]) -> None:
    with pytest.raises(InvalidParametersError):
        make(Source([1]))
