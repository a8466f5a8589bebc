"""Durations, rates and ranges as people write them."""

import math
import re
from collections.abc import Callable

import pytest

from permitflow.parameters_file.quantities import duration, duration_text, rate, values, whole
from permitflow.parameters_file.read import read_axis


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("40ms", 0.04),
        ("1.5s", 1.5),
        ("250us", 250e-6),
        ("250µs", 250e-6),
        ("3 ns", 3e-9),
        ("2min", 120),
        (0, 0),
        ("0", 0),
    ],
    ids=repr,
)
def test_a_duration_has_a_unit(text: object, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", [40, "40", "40 parsecs", "ms", "-4ms", "", None, "1e3ms"], ids=repr)
def test_a_duration_without_a_known_unit_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match='must be a duration with its unit, as in "40ms"'):
        duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.04, "40 ms"), (1.2345, "1.23 s"), (250e-6, "250 µs"), (3e-9, "3 ns"), (1234, "1,234 s")],
)
def test_durations_are_shown_to_three_digits(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_rates() -> None:
    assert [rate(given) for given in (1_000, 1e6, "1_000", "1,000", "unlimited")] == [1000, 1e6, 1000, 1000, math.inf]


@pytest.mark.parametrize("given", [0, -1, "fast", True, math.inf, math.nan, None, [1]], ids=repr)
def test_an_impossible_rate_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="must be rows a second"):
        rate(given)


@pytest.mark.parametrize("given", [1e-300, "1e-7", "1e16", 10**400], ids=lambda given: f"{given!s:.8}")
def test_a_rate_is_refused_at_which_times_are_no_numbers(given: object) -> None:
    with pytest.raises(ValueError, match=r"must be from 1e-06 to 1e\+15 rows a second, or \"unlimited\", not "):
        rate(given)


@pytest.mark.parametrize(
    ("given", "read", "expected"),
    [
        ("1,16,256", whole, (1, 16, 256)),
        ([1, 16], whole, (1, 16)),
        (7, whole, (7,)),
        ("256..2048:x2", whole, (256, 512, 1024, 2048)),
        ("256..2047:x2", whole, (256, 512, 1024)),
        ("1..10:+3", whole, (1, 4, 7, 10)),
        ("1ms..4ms:x2", duration, (0.001, 0.002, 0.004)),
        ("0..2ms:+1ms", duration, (0, 0.001, 0.002)),
    ],
)
def test_ranges_and_lists(given: object, read: Callable[[object], float], expected: tuple[float, ...]) -> None:
    assert values(given, read) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("row_count", "must be NAME=VALUES, as in row_count=256..65536:x2"),
        ("row_cuont=1", "'row_cuont' cannot be varied; did you mean row_count?"),
        ("row_count=1..5", 'needs a step: "1..5:x2" doubles'),
        ("row_count=5..1:x2", "must not end at 1, which is below 5"),
        ("row_count=1..5:x1", "must be multiplied by more than 1, as in \":x2\", not '1'"),
        ("row_count=1..5:xtwo", "must be multiplied by more than 1"),
        ("row_count=1..5:+0", "must be a whole number of at least 1, not '0'"),
        ("row_count=1..5000000:+1", "has more than 1,000 values"),
        ("row_count=", "must name values"),
        ("row_count=1,x", "must be a whole number of at least 1, not 'x'"),
        ("rtt=1..2:x2", "must be a duration with its unit"),
        ("rtt=0..2ms:x2", "cannot begin at 0 and be multiplied"),
        ("rtt=1ms..2ms:+0", "must grow"),
    ],
)
def test_what_cannot_be_varied_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        read_axis(text)
