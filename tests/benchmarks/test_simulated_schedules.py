"""Schedules of demand in simulated time: the formula is exact for all small numbers."""

import pytest

from benchmarks.simulated_schedules import schedule_rate, simulate_schedule
from permitflow import Demand
from permitflow.errors import InvalidParametersError


@pytest.mark.parametrize("size", range(1, 9))
def test_the_formula_is_exact_for_all_small_schedules(size: int) -> None:
    for batch in range(1, size + 1):
        parameters = Demand(size=size, batch=batch)
        for round_trip in range(26):
            for service in (1, 3):
                figures = simulate_schedule(parameters, round_trip=round_trip, service=service)
                case = (size, batch, round_trip, service)
                assert figures.rate == schedule_rate(parameters, round_trip, service), case
                assert (figures.idle == 0) == (round_trip <= service * (size - batch)), case
                assert figures.requests * batch == figures.messages, case
                assert figures.stalls <= figures.requests, case


def test_half_batches_need_twice_as_many_requests_and_overlap() -> None:
    full = simulate_schedule(Demand(size=16, batch=16), round_trip=8, service=1)
    half = simulate_schedule(Demand(size=16), round_trip=8, service=1)
    assert full.requests_per_message * 16 == half.requests_per_message * 8 == 1
    assert full.rate * 24 == 16
    assert full.idle_share * 3 == full.stalls_per_message * 16 == 1
    assert half.rate == 1
    assert half.idle == 0


def test_pull_differs_at_the_beginning_only() -> None:
    push, pull = (simulate_schedule(Demand(size=4, initial=initial), round_trip=9, service=2) for initial in (4, 0))
    assert push == pull


@pytest.mark.parametrize(("round_trip", "service", "name"), [(-1, 1, "round_trip"), (0, 0, "service")])
def test_time_must_pass(round_trip: int, service: int, name: str) -> None:
    with pytest.raises(InvalidParametersError, match=name):
        simulate_schedule(Demand(), round_trip=round_trip, service=service)
