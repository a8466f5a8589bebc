"""A store on a simulated disk keeps its promises, whatever the disk does and whenever its process dies."""

import asyncio

import pytest

from tests.simulator.store_runs import judge


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """The store logs what the disk does to it."""
    caplog.set_level("CRITICAL")


def test_stores_keep_their_promises() -> None:
    counts = asyncio.run(judge(range(100)))
    assert counts["crashes"] > 50
    assert counts["refusals"] > 0, "no disk has lied"
    assert counts["failures"] > 0, "no disk has failed"
