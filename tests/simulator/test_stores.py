"""A store on a simulated disk keeps its promises, whatever the disk does and whenever its process dies."""

import asyncio
from random import Random

import pyarrow as pa
import pytest

from permitflow.exchange import SqliteStore
from tests.simulator.disk import Crashed, SimulatedDisk
from tests.simulator.store_runs import judge
from tests.simulator.stores import SimulatedSystem, new_store
from tests.support.stored_rows import CONSUMERS, SCHEMA, channel

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


def test_a_log_that_has_taken_a_small_disk_gives_it_back() -> None:
    disk = SimulatedDisk(Random(0))
    system = SimulatedSystem(disk, "small", lambda do: do())

    async def pass_rows() -> None:
        with SqliteStore(system.folder, system) as store:
            place = channel(store)
            await place.declare(SCHEMA)
            for first_row in range(0, 600, 10):
                await place.append(first_row, [pa.record_batch([range(10), ["x" * 20_000] * 10], schema=SCHEMA)])
                for consumer in CONSUMERS:
                    await place.acknowledge(consumer, first_row + 10, first_row + 10)

    try:
        disk.take_over(new_store(), system.root)  # with its reserve
        disk.faults.capacity_bytes = disk.used_bytes() + (2 << 20)
        asyncio.run(pass_rows())
    finally:
        disk.crash()
        system.unmount()
