"""Map, filter and map_concat, and what an error in them does."""

import pytest

from permitflow.stages import Source
from permitflow.stages.core.elements import Filter, Map, MapConcat
from tests.support.stage_probe import Probe


async def test_elements_are_mapped_filtered_and_taken_apart() -> None:
    stream = Source(range(6)).filter(lambda n: n % 2).map(lambda n: n * 10).map_concat(lambda n: [n] * (n // 10))
    assert [element async for element in stream] == [10, 30, 30, 30, 50, 50, 50, 50, 50]


def test_what_one_element_gives_leaves_before_the_next_is_asked_for() -> None:
    made: list[int] = []

    def three(first: int) -> object:
        for number in range(first, first + 3):
            made.append(number)
            yield number

    probe = Probe(MapConcat[int, int](three))  # type: ignore[arg-type]  # a generator
    assert probe.downstream.request() == []
    probe.upstream.send(7)
    assert (probe.downstream.received(), made) == ([7], [7])
    assert probe.downstream.request() == [8]
    assert probe.upstream.asked == 1
    assert probe.downstream.request(2) == [9]
    assert probe.upstream.asked == 2


@pytest.mark.parametrize("stage", [Map[int, float](lambda n: 1 / n), Filter[int](lambda n: 1 / n)])
def test_a_functions_error_comes_after_earlier_elements(
    stage: Map[int, float] | Filter[int],
) -> None:
    probe = Probe(stage)
    probe.downstream.request(2)
    probe.upstream.send(1, 0)
    assert probe.downstream.received() == [1]
    assert isinstance(probe.downstream.failure, ZeroDivisionError)
    assert probe.upstream.is_cancelled


async def test_none_passes_like_any_element() -> None:
    assert [element async for element in Source([None, 1]).map(lambda n: n).buffer(1)] == [None, 1]
