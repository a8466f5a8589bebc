"""Conflate, batch and expand: what Pekko's own tests expect, and sums that add up."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from operator import add
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.stages import Source, Stage, Supervision
from permitflow.stages.core.rates import Batch, Expand
from permitflow.stages.wiring import Step
from tests.support.stage_probe import Probe


def stage_of(source: Source[Any]) -> Stage[Any, Any]:
    """The last stage of a blueprint."""
    step = source._outlet.step
    assert isinstance(step, Step)
    return step.make()


def conflated(
    aggregate: Callable[..., object], seed: Callable[[Any], object] = lambda element: element, **options: Supervision
) -> Probe:
    return Probe(Batch(1, lambda _: 0, seed, aggregate, **options))


def test_v2_20_to_v2_22_conflate_gathers_only_what_was_not_asked_for() -> None:
    probe = conflated(add)
    for number in range(1, 101):
        probe.downstream.request()
        probe.upstream.send(number)
        assert probe.downstream.received() == [number]
    probe.upstream.send_all(range(1, 101))
    assert probe.downstream.request() == [5_050]


@dataclass(frozen=True)
class Summary:
    """Of some measurements."""

    count: int
    total: int
    least: int
    most: int

    @staticmethod
    def of(value: int) -> "Summary":
        return Summary(1, value, value, value)

    def with_value(self, value: int) -> "Summary":
        return Summary(self.count + 1, self.total + value, min(self.least, value), max(self.most, value))


@pytest.mark.parametrize("seed", range(5))
def test_v2_23_and_8_4_conflate_conserves_sum_count_and_range(seed: int) -> None:
    order, probe, found = random.Random(seed), conflated(Summary.with_value, Summary.of), list[Summary]()
    for number in range(1, 1_001):
        probe.upstream.send(number)
        if order.random() < 0.2:
            found += probe.downstream.request()
    probe.upstream.complete()
    found += probe.downstream.request()
    assert probe.downstream.is_completed
    assert sum(each.total for each in found) == 500_500
    assert sum(each.count for each in found) == 1_000
    assert (min(each.least for each in found), max(each.most for each in found)) == (1, 1_000)


def test_v2_24_batch_gathers_up_to_its_size() -> None:
    stream = Source[int]([]).batch(10, lambda gathered, element: [element, *gathered], lambda element: [element])
    probe = Probe(stage_of(stream))
    probe.upstream.send_all(range(1, 11))
    assert probe.upstream.outlet.is_asked  # one more than fits is kept aside
    probe.upstream.send(11)
    assert not probe.upstream.outlet.is_asked
    assert probe.downstream.request() == [[10, 9, 8, 7, 6, 5, 4, 3, 2, 1]]
    assert probe.downstream.request() == [[11]]


def test_a_batch_is_bounded_by_weight_but_for_one_heavy_element() -> None:
    stream = Source[str]([]).batch_weighted(5, len, add)
    probe = Probe(stage_of(stream))
    probe.upstream.send("ab", "cd", "efg")
    assert not probe.upstream.outlet.is_asked
    assert probe.downstream.request() == ["abcd"]
    probe.upstream.send("hi", "heavier")
    assert probe.downstream.request() == ["efghi"]
    probe.upstream.send("x")
    assert probe.downstream.request() == ["heavier"]
    assert probe.downstream.request() == ["x"]


@given(weights=st.lists(st.integers(1, 9), max_size=40), asked=st.lists(st.booleans(), max_size=80))
def test_batches_lose_nothing_and_keep_their_weight(weights: list[int], asked: list[bool]) -> None:
    probe = Probe(Batch[int, list[int]](6, int, lambda one: [one], lambda gathered, one: [*gathered, one]))
    batches, ahead = list[list[int]](), list(weights)
    for is_asked in asked:
        if is_asked:
            batches += probe.downstream.request()
        elif ahead and probe.upstream.outlet.is_asked:
            probe.upstream.send(ahead.pop(0))
            batches += probe.downstream.received()
    probe.upstream.complete()
    while not probe.downstream.is_completed:
        batches += probe.downstream.request()
    assert [one for batch in batches for one in batch] == weights[: len(weights) - len(ahead)]
    assert all(sum(batch) <= 6 or len(batch) == 1 for batch in batches)


def failing_at(word: object) -> Callable[[list[object], object], list[object]]:
    def aggregate(gathered: list[object], element: object) -> list[object]:
        if element == word:
            raise ValueError(f"{word} cannot be gathered")
        return [*gathered, element]

    return aggregate


def test_v2_27_restart_drops_what_was_gathered_and_the_element() -> None:
    probe = conflated(failing_at("two"), lambda one: [one], supervision=Supervision.RESTART)
    probe.upstream.send("one", "two", "three")
    assert probe.downstream.request() == [["three"]]


@pytest.mark.parametrize("supervision", [Supervision.RESUME, Supervision.RESTART])
def test_an_element_that_fails_while_one_is_awaited_gives_nothing(supervision: Supervision) -> None:
    probe = conflated(add, failing_to_seed(1), supervision=supervision)
    probe.downstream.request()
    probe.upstream.send(1)
    assert probe.downstream.received() == []
    probe.upstream.send(2)
    assert probe.downstream.received() == [[2]]


def test_v2_27_resume_drops_the_element_alone() -> None:
    probe = conflated(failing_at(2), lambda one: [one], supervision=Supervision.RESUME)
    probe.upstream.send(1, 2, 3, 4)
    assert probe.downstream.request() == [[1, 3, 4]]


def test_an_error_of_the_function_comes_after_what_was_gathered() -> None:
    probe = conflated(failing_at(2), lambda one: [one])
    probe.upstream.send(1, 2)
    assert probe.upstream.is_cancelled
    assert probe.downstream.failure is None
    assert probe.downstream.request() == [[1]]
    assert isinstance(probe.downstream.failure, ValueError)


def failing_to_seed(word: object) -> Callable[[object], list[object]]:
    def seed(element: object) -> list[object]:
        if element == word:
            raise ValueError(f"{word} cannot begin a batch")
        return [element]

    return seed


def pending(supervision: Supervision) -> Probe:
    """A batch of 1, behind which an element waits that no batch can begin with."""
    probe = Probe(Batch[int, list[object]](2, int, failing_to_seed(2), lambda one, more: [*one, more], supervision))
    probe.upstream.send(1, 2)
    return probe


@pytest.mark.parametrize("supervision", [Supervision.RESUME, Supervision.RESTART])
def test_a_pending_element_that_fails_is_dropped_alone(supervision: Supervision) -> None:
    probe = pending(supervision)
    assert probe.downstream.request() == [[1]]
    assert probe.downstream.failure is None
    probe.upstream.send(1)
    assert probe.downstream.request() == [[1]]
    probe.upstream.complete()
    assert probe.downstream.is_completed


def test_a_pending_element_that_fails_stops_the_batch() -> None:
    probe = pending(Supervision.STOP)
    assert probe.downstream.request() == [[1]]
    assert isinstance(probe.downstream.failure, ValueError)
    assert probe.upstream.is_cancelled


def test_v2_28_expand_repeats_the_newest_element() -> None:
    probe = Probe(Expand[int, int](repeat))
    probe.upstream.send(42)
    assert probe.downstream.request(100) == [42] * 100
    probe.upstream.send(-42)
    assert probe.downstream.request() == [-42]


def test_v2_29_expand_does_not_drop_the_last_element() -> None:
    probe = Probe(Expand[int, int](repeat))
    probe.upstream.send(1)
    assert probe.downstream.request() == [1]
    probe.upstream.send(2)
    probe.upstream.complete()
    assert not probe.downstream.is_completed
    assert probe.downstream.request() == [2]
    assert probe.downstream.is_completed


def test_expand_goes_on_when_an_element_gives_nothing() -> None:
    probe = Probe(Expand[int, int](lambda number: range(number)))
    probe.upstream.send(0, 2)
    assert probe.downstream.request(3) == [0, 1]
    probe.upstream.send(0, 1)
    assert probe.downstream.received() == [0]
