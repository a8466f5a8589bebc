"""Streams in a circle: which are stuck, which run on, and how they end."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from permitflow.errors import InvalidParametersError, StalledGraphError
from permitflow.stages import Connection, Elements, FeedbackLoop, Overflow, Source, Stage, blueprint_of, open_run
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


# Loops that are closed by a FeedbackLoop.

Numbers_ = Source[int]


def loop(
    join: Callable[[Numbers_, Numbers_], Numbers_], arc: Callable[[Numbers_], Numbers_], numbers: Any = None
) -> Numbers_:
    """Numbers and what comes back; a copy of each leaves, another one comes back by the arc."""
    back = FeedbackLoop[int]()
    out, again = join(Source.from_iterator(count) if numbers is None else Source(numbers), back.source).broadcast(2)
    back.close(arc(again))
    return out


async def first(stream: Numbers_, elements: int = 100) -> list[int]:
    async with asyncio.timeout(60), stream.open() as run:
        found = [await anext(run) for _ in range(elements)]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return found


def added(mine: int, theirs: int) -> int:
    return mine + theirs


def kept(elements: list[int]) -> Callable[[int], int]:
    def keep(element: int) -> int:
        elements.append(element)
        return element

    return keep


LIVE: dict[str, Callable[[], Numbers_]] = {
    "an arc that drops": lambda: loop(Source.merge, lambda s: s.buffer(4, Overflow.DROP_OLDEST)),
    "an arc that filters": lambda: loop(
        Source.merge, lambda s: s.filter(lambda n: n % 2).map(lambda n: n - 1).buffer(1)
    ),
    "an arc without a bound": lambda: loop(Source.merge, lambda s: s.unbounded(alarm=1_000)),
    "the arc is preferred": lambda: loop(lambda s, back: back.merge_preferred(s), lambda s: s.buffer(4)),
    "pairs with a first element": lambda: loop(
        lambda s, back: s.zip_with(Source([0]).concat(back), added), lambda s: s.buffer(2)
    ),
}


@pytest.mark.parametrize("name", LIVE)
async def test_a_loop_that_runs_on_ends_with_its_consumer(name: str) -> None:
    assert len(await first(LIVE[name]())) == 100
    assert len([number async for number in LIVE[name]().take(100)]) == 100


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_loop_that_never_rests_stops_neither_source_nor_consumer(is_alone: bool) -> None:
    back = FeedbackLoop[int]()
    numbers = Source.from_iterator(count)
    again, out = (numbers if is_alone else numbers.buffer(1)).merge(back.source).balance(2)
    back.close(again.map(lambda n: n))
    async with asyncio.timeout(60), out.open() as elements:
        for _ in range(100):
            await anext(elements)
            await asyncio.sleep(0)


async def test_a_loop_of_pairs_is_a_running_sum() -> None:
    assert await first(LIVE["pairs with a first element"](), 6) == [0, 1, 3, 6, 10, 15]


FULL: dict[str, Callable[[Numbers_], Numbers_]] = {
    "nothing": lambda s: s,
    "a buffer": lambda s: s.buffer(3),
    "a boundary": lambda s: s.async_boundary(4),
    "two for one": lambda s: s.map_concat(lambda n: [n] * 2),
}


@pytest.mark.parametrize("arc", FULL.values(), ids=FULL)
async def test_a_full_loop_tells_its_ring(arc: Callable[[Numbers_], Numbers_]) -> None:
    with pytest.raises(StalledGraphError) as caught:
        await first(loop(Source.merge, arc))
    assert caught.value.chain[0] == "Exit waits for an element of Broadcast"
    assert "Merge waits until Broadcast asks for an element" in caught.value.chain


async def test_a_loop_of_pairs_without_a_first_element_tells_its_ring() -> None:
    with pytest.raises(
        StalledGraphError, match="Broadcast waits until Zip asks for an element; Zip waits until Broadcast asks"
    ):
        await first(loop(lambda s, back: s.zip_with(back, added), lambda s: s))


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_loop_that_keeps_its_own_end_back_stalls_at_the_end(is_alone: bool) -> None:
    found: list[int] = []
    back = FeedbackLoop[int]()
    numbers = Source([1, 2, 3])
    again, out = (numbers if is_alone else numbers.buffer(1)).merge(back.source).balance(2)
    back.close(again)
    with pytest.raises(StalledGraphError):
        await first(out.map(kept(found)))
    assert sorted(found) == [1, 2, 3]


async def test_a_loop_of_pairs_ends_with_its_source() -> None:
    stream = loop(lambda s, back: s.zip_with(Source([0]).concat(back), added), lambda s: s.buffer(2), [1, 2, 3])
    assert [number async for number in stream] == [1, 3, 6]


async def test_an_error_leaves_the_loop_behind_what_was_before_it() -> None:
    def checked(number: int) -> int:
        if number == 3:
            raise OSError("three")
        return number

    stream = loop(Source.merge, lambda s: s.map(checked).buffer(9, Overflow.DROP_OLDEST))
    with pytest.raises(OSError, match="three"):
        await first(stream)


async def test_two_loops_may_cross() -> None:
    inner, outer = FeedbackLoop[int]("inner"), FeedbackLoop[int]("outer")
    merged = Source.from_iterator(count).merge(inner.source).map(lambda n: n + 1)
    once, twice = merged.merge(outer.source).balance(2)
    out, again = once.broadcast(2)
    inner.close(twice.filter(lambda n: n % 2))
    outer.close(again.buffer(2, Overflow.DROP_INCOMING))
    assert len(await first(out)) == 100


async def test_a_loop_whose_consumer_has_left_does_not_run_on_for_nobody() -> None:
    seen: list[int] = []
    back = FeedbackLoop[int]()
    numbers, others = Source.from_iterator(count).broadcast(2)
    out, again = numbers.merge(back.source).broadcast(2)
    back.close(again.map(kept(seen)).buffer(4, Overflow.DROP_OLDEST))

    async def take(elements: Elements[int], number: int) -> None:
        for _ in range(number):
            await anext(elements)
        await elements.aclose()

    async with asyncio.timeout(60), open_run(out, others) as (mine, theirs):
        await asyncio.gather(take(mine, 5), anext(theirs))
        before = len(seen)
        for _ in range(10):
            await anext(theirs)
        assert len(seen) == before


def test_a_feedback_is_closed_once_with_what_comes_from_it() -> None:
    back = FeedbackLoop[int]("retries")
    out, again = Source([1]).merge(back.source).broadcast(2)
    with pytest.raises(InvalidParametersError, match=r"feedback must be closed before .*back.close.*, not 'retries'"):
        blueprint_of(out, again)
    with pytest.raises(InvalidParametersError, match="a stream that comes from its source"):
        back.close(Source([1]))
    with pytest.raises(InvalidParametersError, match=r"stream must be a source that comes back, not \[1\]"):
        back.close([1])  # type: ignore[arg-type]  # the wrong use itself
    back.close(again)
    with pytest.raises(InvalidParametersError, match="must be closed once"):
        back.close(again)
    blueprint_of(out)


def test_a_feedback_is_used_once_and_closed_with_a_branch() -> None:
    back = FeedbackLoop[int]()
    merged = Source([1]).merge(back.source)
    back.close(merged)
    with pytest.raises(InvalidParametersError, match="closed with a branch of a broadcast or of a balance"):
        blueprint_of(merged)
    back = FeedbackLoop[int]()
    out, again = back.source.merge(back.source).broadcast(2)
    back.close(again)
    with pytest.raises(InvalidParametersError, match="must be used once in a run"):
        blueprint_of(out)


def test_a_feedback_closed_with_another_loop_is_refused_in_a_run() -> None:
    one, other = FeedbackLoop[int]("one"), FeedbackLoop[int]("other")
    out, again, lost = Source([1]).merge(one.source).broadcast(3)
    other.close(lost)  # one, where it comes from, might still come from other
    one.close(again)
    with pytest.raises(InvalidParametersError, match=r"a stream that comes from its source; .* not 'other'"):
        blueprint_of(out.merge(other.source))
