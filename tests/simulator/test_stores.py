"""A store on a simulated disk keeps its promises, whatever the disk does and whenever its process dies."""

import asyncio

import pytest

from tests.simulator.store_runs import judge

# Killed with a commit that only the kernel's memory had, opened, then without power: the journal knew of that commit.
LOG_ONLY_IN_MEMORY = (262, 780, 888)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """The store logs what the disk does to it."""
    caplog.set_level("CRITICAL")


def test_stores_keep_their_promises() -> None:
    counts = asyncio.run(judge(range(100)))
    assert counts["crashes"] > 50
    assert counts["refusals"] > 0, "no disk has lied"
    assert counts["failures"] > 0, "no disk has failed"


@pytest.mark.parametrize("seed", LOG_ONLY_IN_MEMORY)
def test_schedules_that_have_found_mistakes(seed: int) -> None:
    assert asyncio.run(judge([seed]))["openings"] > 1
