"""The token bucket of the stages says the delays that the model has, whatever comes and whenever."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.stages import TokenBucket
from permitflow_model.token_bucket import SYSTEM, Parameters, State, ticks_to_wait

LONG = sys.maxsize >> 10


def parameters_of(capacity: int, period: int) -> Parameters:
    return Parameters(capacity=capacity, period=period, max_cost=LONG, room=LONG, window=LONG)


def ticked(state: State, parameters: Parameters, ticks: int) -> State:
    for _ in range(ticks):
        state = SYSTEM.perform("Tick", state, parameters)
    return state


Offers = list[tuple[int, int, int]]

VECTORS: dict[str, tuple[int, int, int, Offers]] = {
    "delays by one token": (10, 1, 0, [(0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 7, 0), (0, 3, 3)]),
    "delays by the period": (10, 2, 0, [(0, 5, 0), (0, 5, 0), (0, 5, 10)]),
    "goes on after a delay": (8, 3, 0, [(0, 5, 0), (0, 5, 6), (6, 3, 9)]),
    "more than it keeps": (10, 2, 0, [(0, 5, 0), (0, 20, 30), (30, 1, 2), (34, 1, 0), (34, 1, 2)]),
    "keeps nothing": (0, 2, 0, [(0, 10, 20), (40, 10, 20)]),
    "at exactly the rate": (1, 10, 0, [(now, 1, 0) for now in range(0, 101, 10)]),
    "after a long pause": (10, 1, 0, [(0, 10, 0), (10_000, 20, 10)]),
    "from a time below 0": (10, 1, -100, [(-100, 5, 0), (-100, 10, 5), (-90, 5, 0)]),
    "from a large time": (10, 1, LONG, [(LONG, 5, 0), (LONG, 10, 5), (LONG + 10, 5, 0)]),
    "more than it keeps, at once": (5, 3, 0, [(0, 10, 15), (16, 1, 2), (19, 2, 5)]),
    "in the middle of a period": (10, 3, 0, [(4, 6, 0), (10, 7, 2)]),
}
"""Capacity, period and start; then when, at what cost, and after which delay.  Those of Akka's TokenBucketSpec."""


@pytest.mark.parametrize("name", VECTORS)
def test_bucket_and_model_have_the_delays_of_akkas_tests(name: str) -> None:
    capacity, period, now, offers = VECTORS[name]
    parameters, bucket = parameters_of(capacity, period), TokenBucket(capacity, period, now)
    state = SYSTEM.initial(parameters)
    for at, cost, delay in offers:
        state = SYSTEM.perform("TakeTokens", ticked(state, parameters, at - now), parameters, cost)
        assert (ticks_to_wait(state, parameters), bucket.offer(cost, at)) == (delay, delay)
        now = at


BEYOND_THE_MODEL = {
    "a long period": (10, LONG, [(0, 20, 10 * LONG), (15 * LONG, 4, 0), (15 * LONG, 2, LONG)]),
    "no cost": (1, 1, [(0, 1, 0), (0, 0, 0)]),
}
"""What the model does not have: a clock that jumps, and elements that cost nothing."""


@pytest.mark.parametrize("name", BEYOND_THE_MODEL)
def test_the_bucket_alone_says_how_long_to_wait(name: str) -> None:
    capacity, period, offers = BEYOND_THE_MODEL[name]
    bucket = TokenBucket(capacity, period, 0)
    assert [bucket.offer(cost, now) for now, cost, _ in offers] == [delay for _, _, delay in offers]


@given(
    capacity=st.integers(0, 8),
    period=st.integers(1, 6),
    start=st.sampled_from((0, -100, 7, 2**63 - 5, 1_000_003)),
    arrivals=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), max_size=40),
)
def test_both_say_the_same_delays(capacity: int, period: int, start: int, arrivals: list[tuple[int, int]]) -> None:
    """An element comes when the one before it has passed, or later."""
    parameters, bucket, now = parameters_of(capacity, period), TokenBucket(capacity, period, start), start
    state = SYSTEM.initial(parameters)
    for pause, cost in arrivals:
        now += pause
        state = SYSTEM.perform("TakeTokens", ticked(state, parameters, pause), parameters, cost)
        delay = bucket.offer(cost, now)
        assert delay == ticks_to_wait(state, parameters)
        state = ticked(state, parameters, delay)
        assert state.pending == 0
        now += delay
