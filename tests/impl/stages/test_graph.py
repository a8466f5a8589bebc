"""What merge, zip and balance hold at the end, and branches; tests/graphs/test_stepping.py takes all their steps."""

import asyncio

import pytest

from permitflow.errors import InvalidParametersError
from permitflow.stages import Elements, Source, open_run
from permitflow.stages.core.graph import Balance, Broadcast, Merge, Zip
from tests.support.stage_probe import Probe


def pairs(left: object, right: object) -> tuple[object, object]:
    return (left, right)


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


@pytest.mark.parametrize("stage", [Broadcast[int](), Balance[int]()])
def test_an_error_is_told_to_all_branches(stage: Broadcast[int] | Balance[int]) -> None:
    probe, error = Probe(stage, outlets=2), OSError("lost")
    probe.upstream.fail(error)
    assert [downstream.failure for downstream in probe.downstreams] == [error, error]


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
