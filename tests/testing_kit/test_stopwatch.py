"""A bound in seconds is kept or broken by what is tested, not by a machine that stands still."""

from time import sleep

import pytest

from tests.support.stopwatch import Stopwatch, within


def test_time_counts_while_looks_follow_each_other() -> None:
    watch = Stopwatch(100.0)
    for hundredths in range(1, 501):
        watch.look(100.0 + hundredths / 100)
    assert watch.seconds == pytest.approx(5.0)


def test_a_machine_that_stands_still_costs_next_to_nothing() -> None:
    watch = Stopwatch(100.0)
    for now in (100.01, 130.0, 130.01):
        watch.look(now)
    assert watch.seconds < 0.1


def test_what_takes_too_long_fails() -> None:
    with pytest.raises(AssertionError, match=r"it took 0\.\d s, and may take 0\.05 s"), within(0.05) as watch:  # noqa: PT012
        while watch.seconds < 0.1:
            sleep(0.01)


def test_what_is_soon_done_does_not_and_its_errors_come_through() -> None:
    with pytest.raises(ValueError, match="its own"), within(60.0):
        raise ValueError("its own")
    with within(60.0):
        pass
