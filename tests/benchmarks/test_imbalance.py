"""Bounds that differ starve one of two upstreams, in simulated time, with the real ends."""

import pytest

from benchmarks.imbalance import SETUPS, Setup, run
from tests.support.simulated_time import in_simulated_time

RATIOS = (4.0, 1.0, 1.11, 1.0, 8.0, 1.0)
"""Of the faster upstream to the slower one: that of the chunks which the bounds allow."""


@pytest.mark.parametrize(("setup", "ratio"), [*zip(SETUPS.values(), RATIOS, strict=True)], ids=[*SETUPS])
def test_a_join_reads_what_the_bounds_allow(setup: Setup, ratio: float) -> None:
    assert in_simulated_time(run(setup)).ratio == pytest.approx(ratio, rel=0.01)


def test_equal_producers_wait_equally_long() -> None:
    local, remote = in_simulated_time(run(SETUPS["row permits, equal producers"])).waits
    assert local == pytest.approx(remote, abs=0.01)
