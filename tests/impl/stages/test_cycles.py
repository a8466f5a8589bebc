"""Streams in a circle, built at the core: which are stuck, and which run on."""

from collections.abc import Iterator
from itertools import count

import pytest

from permitflow.stages import Connection, Overflow, Stage
from permitflow.stages.core.elements import Filter, Map, MapConcat
from permitflow.stages.core.graph import Broadcast, Merge, Zip
from permitflow.stages.core.ports import Island
from permitflow.stages.core.rates import Buffer
from tests.support.stage_probe import EVENTS, Downstream


class Numbers(Stage[int, int]):
    """1, 2, 3, … as often as it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: Iterator[int] = count(1)

    def on_pull(self, outlet: Connection[int]) -> None:
        outlet.push(next(self.numbers))


class StartWith(Stage[int, int]):
    """One element, then those that come."""

    is_started = False

    def on_pull(self, outlet: Connection[int]) -> None:
        if self.is_started:
            self.ask(self.inlet)
        else:
            self.is_started = True
            outlet.push(0)

    def on_push(self, inlet: Connection[int]) -> None:
        self.outlet.push(inlet.grab())


def circle(fan_in: Stage[int, int], *arc: Stage[int, int], arc_first: bool = False) -> Downstream:
    """Numbers go into a circle: all that leaves the fan-in goes to the sink, and by the arc back into the fan-in."""
    island, fan_out, sink = Island(), Broadcast[int](), Downstream()
    if not arc_first:
        island.connect(Numbers(), fan_in)
    island.connect(fan_in, fan_out)
    island.connect(fan_out, sink)
    before: Stage[int, int] = fan_out
    for stage in arc:
        island.connect(before, stage)
        before = stage
    island.connect(before, fan_in)
    if arc_first:
        island.connect(Numbers(), fan_in)
    island.start(0.0)
    island.run(EVENTS)
    return sink


def received(sink: Downstream, requests: int = 100) -> list[int]:
    return [element for _ in range(requests) for element in sink.request()]


def blocking(capacity: int = 10) -> Buffer[int]:
    return Buffer(capacity, Overflow.BLOCK)


def left(_: object, right: int) -> int:
    return right


def test_a_circle_with_back_pressure_is_stuck_once_it_is_full() -> None:
    assert received(circle(Merge())) == []
    assert len(received(circle(Merge(), blocking()))) == 21
    assert len(received(circle(Merge(), blocking(20)))) == 41


def test_a_circle_that_prefers_its_arc_runs_on_and_starves_its_source() -> None:
    assert received(circle(Merge(prefers_first=True), blocking(), arc_first=True))[-50:] == [1] * 50


def test_a_circle_that_drops_runs_on_and_is_fair_to_its_source() -> None:
    elements = received(circle(Merge(), Buffer(10, Overflow.DROP_OLDEST)))
    assert len(elements) == 100
    assert {*range(1, 50)} <= {*elements}


def test_a_circle_of_pairs_needs_a_first_element() -> None:
    assert received(circle(Zip(left), blocking(2))) == []
    assert received(circle(Zip(left), Map(lambda number: number + 1), StartWith(), blocking(2)), 5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("most", "is_stuck"), [(2, True), (1, True), (0, False)])
def test_a_circle_is_stuck_if_each_element_comes_back_at_least_once(most: int, is_stuck: bool) -> None:
    elements = received(circle(Merge(), MapConcat(lambda number: [number] * most), blocking()))
    assert (len(elements) < 100) == is_stuck


def test_a_circle_that_filters_runs_on() -> None:
    kept = Filter[int](lambda number: number % 2 == 0)
    assert len(received(circle(Merge(), kept, Map(lambda number: number // 2), blocking()))) == 100
