"""The token bucket of the stages says the delays that the model has, whatever comes and whenever."""

import random

import pytest

from permitflow.stages import TokenBucket
from permitflow_model.token_bucket import SYSTEM, Parameters, State, ticks_to_wait

BUCKETS = [(0, 2), (1, 1), (1, 10), (3, 2), (5, 3), (10, 1)]

LONG = 2**60


def parameters_of(capacity: int, period: int) -> Parameters:
    return Parameters(capacity=capacity, period=period, max_cost=LONG, room=LONG, window=LONG)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("capacity", "period"), BUCKETS)
def test_both_say_the_same_delays(capacity: int, period: int, seed: int) -> None:
    choose, parameters, now = random.Random(seed), parameters_of(capacity, period), choose_start(seed)
    bucket, state = TokenBucket(capacity, period, now), SYSTEM.initial(parameters)
    for _ in range(300):
        if state.pending == 0 and choose.random() < 0.4:
            cost = choose.choice((1, 1, 2, capacity, capacity + 3)) or 1
            state = SYSTEM.perform("TakeTokens", state, parameters, cost)
            assert bucket.offer(cost, now) == ticks_to_wait(state, parameters)
        else:
            state = SYSTEM.perform("Tick", state, parameters)
            now += 1
    assert state.passed > 0


def choose_start(seed: int) -> int:
    """The clock may begin anywhere."""
    return (0, -100, 7, 2**63 - 5, 1_000_003)[seed]


def ticked(state: State, parameters: Parameters, ticks: int) -> State:
    for _ in range(ticks):
        state = SYSTEM.perform("Tick", state, parameters)
    return state


VECTORS = {
    "delays by one token": (10, 1, [(0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 7, 0), (0, 3, 3)]),
    "delays by the period": (10, 2, [(0, 5, 0), (0, 5, 0), (0, 5, 10)]),
    "goes on after a delay": (8, 3, [(0, 5, 0), (0, 5, 6), (6, 3, 9)]),
    "more than it keeps": (10, 2, [(0, 5, 0), (0, 20, 30), (30, 1, 2), (34, 1, 0), (34, 1, 2)]),
    "keeps nothing": (0, 2, [(0, 10, 20), (40, 10, 20)]),
    "at exactly the rate": (1, 10, [(now, 1, 0) for now in range(0, 101, 10)]),
    "more than it keeps, at once": (5, 3, [(0, 10, 15), (16, 1, 2), (19, 2, 5)]),
    "in the middle of a period": (10, 3, [(4, 6, 0), (10, 7, 2)]),
}
"""Capacity and period; then when, at what cost, and after which delay.  Those of Akka's TokenBucketSpec."""


@pytest.mark.parametrize("name", VECTORS)
def test_the_model_has_the_delays_of_akkas_tests(name: str) -> None:
    capacity, period, asked = VECTORS[name]
    parameters, now = parameters_of(capacity, period), 0
    state = SYSTEM.initial(parameters)
    for at, cost, delay in asked:
        state = SYSTEM.perform("TakeTokens", ticked(state, parameters, at - now), parameters, cost)
        assert ticks_to_wait(state, parameters) == delay
        now = at
