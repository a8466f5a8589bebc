"""Throttle; tests/conformance/test_token_bucket.py has the bucket."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from permitflow.errors import InvalidParametersError, RateExceededError
from permitflow.stages import Source, ThrottleMode, TokenBucket
from permitflow.stages.core.rates import Throttle
from tests.support.simulated_time import in_simulated_time, simulated
from tests.support.stage_probe import EVENTS, Probe


def test_v2_31_a_negative_cost_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="cost must be at least 0, and a whole number, not -1"):
        TokenBucket(1, 1, 0).offer(-1, 0)


async def ticks(*pauses: float) -> AsyncIterator[int]:
    for number, pause in enumerate(pauses):
        await asyncio.sleep(pause)
        yield number


async def times(stream: Source[Any]) -> list[float]:
    """When each element comes, in milliseconds."""
    now = asyncio.get_running_loop().time
    return [round(now() * 1_000) async for _ in stream]


def test_v2_32_shaping_lets_the_burst_pass_then_one_in_a_period() -> None:
    assert in_simulated_time(times(Source(range(8)).throttle(1, 0.2, burst=5))) == [0, 0, 0, 0, 0, 200, 400, 600]


def test_v2_32_enforcing_lets_the_burst_pass_and_fails_at_the_next() -> None:
    async def run(count: int) -> list[int]:
        stream = Source(range(count)).throttle(1, 0.2, burst=5, mode=ThrottleMode.ENFORCE)
        return [element async for element in stream]

    assert in_simulated_time(run(5)) == [0, 1, 2, 3, 4]
    with pytest.raises(RateExceededError, match=r"0\.2 s too early") as caught:
        in_simulated_time(run(6))
    assert (caught.value.cost, caught.value.early_seconds) == (1, 0.2)


def test_v2_33_a_pause_fills_the_bucket_again() -> None:
    pauses = [0.0] * 5 + [1.2] + [0.0] * 4 + [0.5] + [0.0] * 2
    assert in_simulated_time(times(Source(ticks(*pauses)).throttle(1, 0.2, burst=5))) == (
        [0] * 5 + [1_200] * 5 + [1_700] * 2 + [1_800]
    )


def test_v2_34_costs_count() -> None:
    words = ["ab", "abcd", "abcdef", "abcdefgh"]
    found = in_simulated_time(times(Source(words).throttle(2, 0.2, burst=0, cost_of=len)))
    assert [later - earlier for earlier, later in zip([0, *found], found, strict=False)] == [200, 400, 600, 800]


@pytest.mark.parametrize(("burst", "passing"), [(10, [1, 2, 3, 4]), (0, [])])
def test_v2_35_enforcing_counts_costs(burst: int, passing: list[int]) -> None:
    passed: list[int] = []

    async def run() -> None:
        stream = Source(range(1, 7)).throttle(2, 0.2, burst=burst, cost_of=int, mode=ThrottleMode.ENFORCE)
        async for element in stream:
            passed.append(element)

    with pytest.raises(RateExceededError):
        in_simulated_time(run())
    assert passed == passing


@simulated
async def test_v2_36_runs_of_one_blueprint_do_not_share_a_bucket() -> None:
    stream = Source(range(3)).throttle(1, 1.0, burst=2)
    assert [*await asyncio.gather(times(stream), times(stream))] == [[0, 0, 1_000], [0, 0, 1_000]]


def test_the_automatic_burst_is_what_passes_in_a_tenth_of_a_second() -> None:
    assert in_simulated_time(times(Source(range(4)).throttle(20, 1.0))) == [0, 0, 50, 100]
    assert in_simulated_time(times(Source(range(2)).throttle(1, 1.0))) == [0, 1_000]


def test_the_end_comes_behind_an_element_that_waits_for_its_tokens() -> None:
    probe = Probe(Throttle[int](1, 1.0, burst=0))
    probe.downstream.request()
    probe.upstream.send(1)
    probe.upstream.complete()
    assert not probe.downstream.is_completed
    probe.island.on_time(1.0)
    probe.island.run(EVENTS, 1.0)
    assert (probe.downstream.received(), probe.downstream.is_completed) == ([1], True)


def test_a_cancelled_throttle_leaves_no_timer() -> None:
    probe = Probe(Throttle[int](1, 1.0, burst=0))
    probe.downstream.request()
    probe.upstream.send(1)
    assert probe.island.deadline == 1.0
    probe.downstream.cancel()
    assert probe.upstream.is_cancelled
    assert probe.island.deadline is None
