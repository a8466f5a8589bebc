"""The asynchronous boundary and its schedule of demand, as Pekko's BatchingActorInputBoundary asks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from permitflow.errors import InvalidParametersError, LocalProtocolError
from permitflow.stages import Source
from permitflow.stages.core.boundary import AsyncBoundary, InputBoundary
from tests.support.simulated_time import in_simulated_time
from tests.support.stage_probe import Probe


def schedule(size: int, dequeues: int) -> list[int]:
    """What is asked for: at first, and after each element that is taken."""
    boundary: InputBoundary[int] = InputBoundary(size)
    requests = [boundary.first_request()]
    for _ in range(requests[0]):
        boundary.arrive(0)
    for _ in range(dequeues):
        requests.append(boundary.take()[1])
        for _ in range(requests[-1]):
            boundary.arrive(0)
    return requests


@pytest.mark.parametrize(
    ("size", "requests"),
    [
        (1, [1, 1, 1, 1]),
        (2, [2, 1, 1, 1]),
        (4, [4, 0, 2, 0, 2, 0, 2]),
        (8, [8, 0, 0, 0, 4, 0, 0, 0, 4]),
        (16, [16, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8]),
    ],
)
def test_v2_1_demand_is_the_size_then_half_of_it_after_half_was_taken(size: int, requests: list[int]) -> None:
    assert schedule(size, len(requests) - 1) == requests


@pytest.mark.parametrize("size", [0, -1, 3, 12])
def test_a_1_the_size_is_a_power_of_two(size: int) -> None:
    with pytest.raises(InvalidParametersError, match=f"must be a power of two, not {size}"):
        Source([1]).async_boundary(size)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_v2_2_the_first_demand_is_the_size(size: int) -> None:
    probe = Probe(AsyncBoundary[int](size))
    sent = 0
    while probe.upstream.outlet.is_asked:
        probe.upstream.send(sent)
        sent += 1
    assert sent == size


def test_v2_2_and_9_1_11_demand_returns_when_an_element_is_taken() -> None:
    probe = Probe(AsyncBoundary[str](2))
    assert probe.downstream.request(1) == []
    assert probe.downstream.request(2) == []
    assert probe.upstream.asked == 1
    probe.upstream.send("a")
    assert probe.downstream.received() == ["a"]
    # One of the two, and the one that returned.
    probe.upstream.send("b", "c", "d")
    assert probe.downstream.received() == ["b", "c"]
    probe.upstream.send("e")
    assert not probe.upstream.outlet.is_asked


def test_a_3_more_elements_than_were_asked_for_are_refused() -> None:
    boundary: InputBoundary[int] = InputBoundary(1)
    boundary.arrive(1)
    with pytest.raises(LocalProtocolError, match="more elements came than the 1"):
        boundary.arrive(2)


def test_a_cancellation_drops_what_has_arrived() -> None:
    probe = Probe(AsyncBoundary[int](4))
    probe.upstream.send(1)
    probe.downstream.cancel()
    assert probe.upstream.is_cancelled


async def test_a_source_is_read_ahead_by_the_prefetch(settle: Callable[[], Awaitable[None]]) -> None:
    given: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            given.append(number)
            yield number

    async with Source(numbers()).async_boundary(4).open() as elements:
        await settle()
        assert given == [0, 1, 2, 3]
        assert [await anext(elements), await anext(elements)] == [0, 1]
        await settle()
        assert given == [0, 1, 2, 3, 4, 5]


async def every(seconds: float, count: int) -> AsyncIterator[int]:
    for number in range(count):
        await asyncio.sleep(seconds)
        yield number


@pytest.mark.parametrize(("is_async", "counts"), [(False, [3, 3, 3]), (True, [1, 1, 1])])
def test_v2_42_a_boundary_hides_a_difference_of_rates(is_async: bool, counts: list[int]) -> None:
    """How many fast ticks there are for each slow one: none is gathered while the boundary reads ahead."""

    async def run() -> list[int]:
        counted = Source(every(1.0, 20)).conflate(lambda count, _: count + 1, lambda _: 1)
        fast = counted.async_boundary(16) if is_async else counted
        slow = Source(every(3.1, 5))
        return [count async for count in fast.zip_with(slow, lambda count, _: count)]

    # Without a boundary, only the zip waits with an element.
    assert in_simulated_time(run())[-3:] == counts
