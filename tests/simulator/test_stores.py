"""A store on a simulated disk keeps its promises, whatever the disk does and whenever its process dies."""

import asyncio
from random import Random

import pytest

from permitflow.exchange import SqliteStore
from tests.simulator.disk import Crashed, SimulatedDisk
from tests.simulator.store_runs import judge
from tests.simulator.stores import SimulatedSystem, new_store
from tests.support.stored_rows import channel

# Killed with a commit that only the kernel's memory had, opened, then without power: the journal knew of that commit.
LOG_ONLY_IN_MEMORY = (262, 2002, 2781)


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


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_a_killed_process_has_made_is_not_lost(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    system = SimulatedSystem(disk, "killed", lambda _: None)
    try:
        disk.take_over(new_store(), system.root)
        disk.crashes_at = 2  # the log is made, its name is not flushed
        with pytest.raises(Crashed):
            SqliteStore(system.folder, system)
        system.go_on(had_power=True)
        channel(SqliteStore(system.folder, system))
        disk.crash()
        system.go_on(had_power=False)
        SqliteStore(system.folder, system).close()  # which refuses a store that lacks a confirmed commit
    finally:
        system.unmount()
