"""Time-outs by RFC 6298: its first value, its smoothing, its back-off, Karn's rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.carriers.datagrams.round_trip import (
    CLOCK_SECONDS,
    FIRST_TIMEOUT_SECONDS,
    LEAST_TIMEOUT_SECONDS,
    MOST_TIMEOUT_SECONDS,
    RoundTrip,
)


def measured(*seconds: float) -> RoundTrip:
    round_trip = RoundTrip()
    for one in seconds:
        round_trip.note(one)
    return round_trip


def test_before_anything_is_measured_it_is_a_second() -> None:
    assert RoundTrip().timeout_seconds == FIRST_TIMEOUT_SECONDS == 1.0


def test_the_first_measurement_counts_threefold() -> None:
    round_trip = measured(0.2)
    assert (round_trip.smoothed_seconds, round_trip.variation_seconds) == (0.2, 0.1)
    assert round_trip.timeout_seconds == pytest.approx(0.2 + 4 * 0.1)


def test_a_further_one_counts_an_eighth_and_its_distance_a_quarter() -> None:
    round_trip = measured(0.2, 0.28)
    assert round_trip.smoothed_seconds == pytest.approx(0.2 * 7 / 8 + 0.28 / 8)
    assert round_trip.variation_seconds == pytest.approx(0.1 * 3 / 4 + 0.08 / 4)


def test_it_is_above_the_round_trip_by_what_a_clock_can_tell() -> None:
    assert measured(*[0.5] * 99).timeout_seconds == pytest.approx(0.5 + CLOCK_SECONDS)


@given(st.lists(st.floats(0, 100), min_size=1), st.integers(0, 40))
def test_it_stays_within_its_bounds(seconds: list[float], times: int) -> None:
    round_trip = measured(*seconds)
    for _ in range(times):
        round_trip.back_off()
    assert LEAST_TIMEOUT_SECONDS <= round_trip.timeout_seconds <= MOST_TIMEOUT_SECONDS


def test_a_timeout_doubles_it_until_something_is_measured() -> None:
    round_trip = measured(*[0.1] * 99)
    once = round_trip.timeout_seconds
    round_trip.back_off()
    round_trip.back_off()
    assert round_trip.timeout_seconds == 4 * once
    round_trip.note(0.1)
    assert round_trip.timeout_seconds == pytest.approx(once)
