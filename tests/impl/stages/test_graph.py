"""Merge, zip and broadcast."""

import asyncio

import pytest

from permitflow.errors import InvalidParametersError
from permitflow.stages import Elements, Source, Stage, open_run
from permitflow.stages.core.graph import Balance, Broadcast, Merge, Zip
from tests.support.stage_probe import Probe


def pairs(left: object, right: object) -> tuple[object, object]:
    return (left, right)


@pytest.mark.parametrize("stage", [Merge[int](), Zip(pairs)])
def test_a_fan_in_asks_nobody_before_it_is_asked(stage: Stage[int, int]) -> None:
    probe = Probe(stage, inlets=2)
    assert [upstream.asked for upstream in probe.upstreams] == [0, 0]
    probe.downstream.request()
    assert [upstream.asked for upstream in probe.upstreams] == [1, 1]


def test_merge_emits_in_the_order_of_arrival_and_holds_one_of_each() -> None:
    probe = Probe(Merge[str](), inlets=2)
    left, right = probe.upstreams
    probe.downstream.request()
    right.send("r1")
    left.send("l1")
    assert probe.downstream.received() == ["r1"]
    assert not left.outlet.is_asked
    assert not right.outlet.is_asked
    assert probe.downstream.request() == ["l1"]
    right.send("r2")
    assert probe.downstream.request() == ["r2"]
    left.send("l2")
    assert probe.downstream.request() == ["l2"]


def test_merge_asks_no_input_whose_element_it_still_holds() -> None:
    probe = Probe(Merge[str](), inlets=3)
    first, second, third = probe.upstreams
    probe.downstream.request()
    first.send("f1")
    second.send("s1")
    third.send("t1")
    assert [probe.downstream.received(), probe.downstream.request()] == [["f1"], ["s1"]]
    assert [upstream.outlet.is_asked for upstream in probe.upstreams] == [True, True, False]


def test_merge_completes_after_all_inputs_and_what_it_holds() -> None:
    probe = Probe(Merge[str](), inlets=2)
    left, right = probe.upstreams
    probe.downstream.request()
    left.send("l1")
    right.send("r1")
    left.complete()
    right.complete()
    assert probe.downstream.received() == ["l1"]
    assert not probe.downstream.is_completed
    assert probe.downstream.request() == ["r1"]
    assert probe.downstream.is_completed


def test_merge_goes_on_while_one_of_its_inputs_does() -> None:
    probe = Probe(Merge[str](), inlets=3)
    left, right, last = probe.upstreams
    left.complete()
    right.complete()
    assert probe.downstream.request(2) == []
    last.send("1", "2")
    assert probe.downstream.received() == ["1", "2"]
    assert not probe.downstream.has_ended
    last.complete()
    assert probe.downstream.is_completed


def test_merge_emits_what_it_holds_before_an_error() -> None:
    probe, error = Probe(Merge[str](), inlets=2), OSError("lost")
    left, right = probe.upstreams
    probe.downstream.request()
    left.send("l1")
    right.send("r1")
    left.fail(error)
    assert right.is_cancelled
    assert probe.downstream.failure is None
    assert [probe.downstream.received(), probe.downstream.request()] == [["l1"], ["r1"]]
    assert probe.downstream.failure is error


def test_merge_is_fair() -> None:
    probe = Probe(Merge[str](), inlets=3)
    order: list[str] = []
    for _ in range(9):
        order += probe.downstream.request()
        for name, upstream in zip("abc", probe.upstreams, strict=True):
            if upstream.outlet.is_asked:
                upstream.send(name)
        order += probe.downstream.received()
    assert sorted(order) == sorted("abc" * 3)


def test_merge_preferred_lets_the_first_overtake() -> None:
    probe = Probe(Merge[str](prefers_first=True), inlets=3)
    first, second, third = probe.upstreams
    probe.downstream.request()
    second.send("s1")
    third.send("t1")
    first.send("f1")
    assert probe.downstream.received() == ["s1"]
    assert probe.downstream.request() == ["f1"]
    first.send("f2")
    assert probe.downstream.request() == ["f2"]
    assert probe.downstream.request() == ["t1"]


async def test_all_elements_of_merged_sources_come() -> None:
    stream = Source(range(5)).merge(Source(range(10, 15)), Source(range(20, 25)))
    assert sorted([element async for element in stream]) == [*range(5), *range(10, 15), *range(20, 25)]
    assert sorted([element async for element in Source("abc").merge_preferred(Source("de"))]) == [*"abcde"]


async def test_zip_pairs_until_the_shorter_ends() -> None:
    assert [pair async for pair in Source("abc").zip(Source(range(2)))] == [("a", 0), ("b", 1)]
    assert [total async for total in Source([1, 2]).zip_with(Source([10, 20, 30]), int.__add__)] == [11, 22]


@pytest.mark.parametrize("error", [None, OSError("lost")])
def test_zip_pairs_the_last_element_of_an_input_that_has_ended(error: OSError | None) -> None:
    probe = Probe(Zip(pairs), inlets=2)
    left, right = probe.upstreams
    probe.downstream.request(2)
    left.send("l1")
    if error is None:
        left.complete()
    else:
        left.fail(error)
    assert not probe.downstream.has_ended
    right.send("r1")
    assert probe.downstream.received() == [("l1", "r1")]
    assert right.is_cancelled
    assert probe.downstream.failure is error
    assert probe.downstream.is_completed is (error is None)


def test_zip_ends_when_no_partner_can_come() -> None:
    probe = Probe(Zip(pairs), inlets=2)
    left, right = probe.upstreams
    probe.downstream.request()
    left.send("l1")
    right.complete()
    assert left.is_cancelled
    assert probe.downstream.is_completed


def test_broadcast_waits_for_the_slowest() -> None:
    probe = Probe(Broadcast[int](), outlets=2)
    fast, slow = probe.downstreams
    fast.request(3)
    assert probe.upstream.asked == 0
    slow.request()
    probe.upstream.send(1)
    assert (fast.received(), slow.received(), probe.upstream.asked) == ([1], [1], 1)


def test_broadcast_does_not_wait_for_an_outlet_that_has_cancelled() -> None:
    probe = Probe(Broadcast[int](), outlets=2)
    fast, slow = probe.downstreams
    fast.request(2)
    slow.cancel()
    probe.upstream.send(1)
    assert fast.received() == [1]
    fast.cancel()
    assert probe.upstream.is_cancelled


def test_broadcast_passes_the_end_on_to_all() -> None:
    probe, error = Probe(Broadcast[int](), outlets=2), OSError("lost")
    probe.upstream.fail(error)
    assert [downstream.failure for downstream in probe.downstreams] == [error, error]


def test_balance_gives_to_the_outlet_that_has_waited_longest() -> None:
    probe = Probe(Balance[int](), outlets=2)
    first, second = probe.downstreams
    first.request()
    assert probe.upstream.asked == 1
    second.request(2)
    probe.upstream.send(1, 2, 3)
    assert (first.received(), second.received(), probe.upstream.asked) == ([1], [2, 3], 3)
    second.request()
    first.request()
    probe.upstream.send(4, 5)
    assert (first.received(), second.received()) == ([5], [4])


def test_an_element_whose_asker_has_cancelled_goes_to_another() -> None:
    probe = Probe(Balance[int](), outlets=2)
    first, second = probe.downstreams
    first.request()
    first.cancel()
    probe.upstream.send(1)
    probe.upstream.complete()
    assert not second.is_completed
    assert second.request() == [1]
    assert second.is_completed


def test_balance_completes_its_outlets_and_cancels_after_the_last() -> None:
    probe, error = Probe(Balance[int](), outlets=2), OSError("lost")
    probe.upstream.fail(error)
    assert [downstream.failure for downstream in probe.downstreams] == [error, error]
    probe = Probe(Balance[int](), outlets=2)
    probe.downstreams[0].cancel()
    assert not probe.upstream.is_cancelled
    probe.downstreams[1].cancel()
    assert probe.upstream.is_cancelled


async def test_the_branches_of_a_balance_share_the_elements() -> None:
    left, right = Source(range(100)).balance(2)
    stream = left.map(lambda n: (0, n)).merge(right.map(lambda n: (1, n)).buffer(2))
    found = [pair async for pair in stream]
    assert sorted(n for _, n in found) == [*range(100)]
    assert {branch for branch, _ in found} == {0, 1}


async def test_branches_are_joined_again() -> None:
    evens, odds = Source(range(6)).broadcast(2)
    stream = evens.filter(lambda n: n % 2 == 0).merge(odds.filter(lambda n: n % 2))
    assert sorted([element async for element in stream]) == [0, 1, 2, 3, 4, 5]


async def test_branches_are_opened_together() -> None:
    left, right = Source(range(4)).broadcast(2)
    async with open_run(left, right.map(lambda n: -n)) as (lefts, rights):

        async def collect(elements: Elements[int]) -> list[int]:
            return [element async for element in elements]

        found = [*await asyncio.gather(collect(lefts), collect(rights))]
    assert found == [[0, 1, 2, 3], [0, -1, -2, -3]]


async def test_a_branch_that_is_missing_or_used_twice_is_refused() -> None:
    left, right = Source(range(4)).broadcast(2)
    with pytest.raises(InvalidParametersError, match="must all be in one run"):
        left.open()
    with pytest.raises(InvalidParametersError, match="must be used once"):
        left.zip(left).merge(right).open()  # type: ignore[arg-type]  # pairs, and no pairs


async def test_a_source_that_is_no_branch_may_be_used_twice() -> None:
    numbers = Source(range(3)).map(lambda n: n * n)
    assert [pair async for pair in numbers.zip(numbers)] == [(0, 0), (1, 1), (4, 4)]
