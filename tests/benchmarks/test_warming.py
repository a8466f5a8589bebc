"""A job counts once it no longer becomes faster; how many rounds that took is told."""

import pytest

from benchmarks.results import Results, Series
from benchmarks.spark_exchange.jobs import FOR_LONG_JOBS, QUERY, UNTIL_WARM, SparkJob
from benchmarks.tables import TABLES
from benchmarks.targets import judge

STEADY = [1.0] * 40


def rounds_until_warm(ours: list[float], peer: list[float]) -> tuple[int, bool | None]:
    rounds = 0
    while not UNTIL_WARM.is_over(ours[:rounds], peer[:rounds]):
        rounds += 1
    return rounds, UNTIL_WARM.is_warm(ours[:rounds], peer[:rounds])


def test_a_job_that_never_becomes_faster_is_warm_after_ten_rounds() -> None:
    assert rounds_until_warm(STEADY, STEADY) == (10, True)


def test_both_must_have_stopped_becoming_faster() -> None:
    # From the 13th round on it is as fast as it will be: that is the median of rounds 11 to 15, and of the next five.
    falling = [0.95**number for number in range(12)] + [0.95**12] * 28
    assert rounds_until_warm(falling, STEADY) == rounds_until_warm(STEADY, falling) == (20, True)


def test_after_forty_rounds_a_job_is_measured_as_it_is() -> None:
    falling = [0.95**number for number in range(50)]
    assert rounds_until_warm(falling, STEADY * 2) == (40, False)


@pytest.mark.parametrize(("share", "is_warm"), [(0.969, False), (0.971, True)])
def test_three_per_cent_are_the_limit(share: float, is_warm: bool) -> None:
    assert UNTIL_WARM.is_warm([1.0] * 5 + [share] * 5, STEADY) is is_warm


def test_one_slow_round_is_no_reason_to_go_on() -> None:
    assert rounds_until_warm([1.0] * 4 + [9.0] + [1.0] * 35, STEADY) == (10, True)


def test_long_jobs_warm_up_twice_and_nobody_asks() -> None:
    assert not FOR_LONG_JOBS.is_over([2.0], [2.0])
    assert FOR_LONG_JOBS.is_over([2.0, 1.0], [2.0, 1.0])
    assert FOR_LONG_JOBS.is_warm([2.0, 1.0], [2.0, 1.0]) is None


@pytest.mark.parametrize(
    ("is_warm", "told"),
    [
        (True, "3, after 12, until it was warm"),
        (False, "3, after 12, and it still became faster"),
        (None, "3, after 12"),
    ],
)
def test_the_rounds_stand_beside_what_was_measured(is_warm: bool | None, told: str) -> None:
    seconds, peer = Series.of([1.2, 1.3, 1.4]), Series.of([1.0, 1.0, 1.0])
    job = SparkJob(QUERY, 0, "files", warm_up_rounds=12, is_warm=is_warm, seconds=seconds, peer_seconds=peer)
    results = Results(machine={}, settings={"rounds": 5, "seed": 1})
    results.put("spark", [job])
    assert TABLES["spark"](results).endswith(f"| {told} |")
    (verdict,) = judge(results)
    assert (verdict.found.median, verdict.told) == (1.3, "met")
