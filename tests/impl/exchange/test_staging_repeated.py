"""Writers as Spark has them: attempts fail, run on late, and are repeated; batches are run again."""

import asyncio
import contextlib
import random

import pytest

from permitflow.errors import (
    StagedPartError,
)
from permitflow.protocol.control import StagedPart
from permitflow.transports.grpc_aio import control
from tests.support.staging_world import CHANNELS, World, world


@pytest.fixture(params=["127.0.0.1:0", "tcp://127.0.0.1:0"], ids=["gRPC", "TCP"])
def address(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Query:
    """Writes batches as Spark does: attempts fail, run on late, and are repeated; batches are run again."""

    def __init__(self, here: World, chance: random.Random) -> None:
        self.here = here
        self.chance = chance
        self.written = 0
        self.expected: dict[str, list[int]] = {name: [] for name in CHANNELS}
        self.attempts = 0

    async def run(self, batches: int) -> None:
        async with asyncio.TaskGroup() as late:
            for batch in range(batches):
                tasks = [self.rows() for _ in CHANNELS]
                for _ in range(self.chance.randint(1, 3)):  # the driver crashes, and runs the batch again
                    parts = [await self.task(batch, at, numbers, late) for at, numbers in enumerate(tasks)]
                    await self.here.publish(*parts, batch=batch)
                for channel, numbers in zip(CHANNELS, tasks, strict=True):
                    self.expected[channel] += numbers

    def rows(self) -> list[int]:
        first, self.written = self.written, self.written + self.chance.randint(1, 7)
        return [*range(first, self.written)]

    async def task(self, batch: int, partition: int, numbers: list[int], late: asyncio.TaskGroup) -> StagedPart:
        channel = CHANNELS[partition]
        match self.chance.choice(["well", "fails", "runs on"]):
            case "fails":
                await self.here.fail(partition, self.name(), batch=batch, channel=channel)
            case "runs on":
                late.create_task(self.run_on(batch, partition, numbers))
        return await self.here.stage(numbers, partition, self.name(), batch=batch, channel=channel)

    async def run_on(self, batch: int, partition: int, numbers: list[int]) -> None:
        """Nobody waits for it: whatever becomes of it concerns nobody."""
        with contextlib.suppress(StagedPartError):
            await self.here.stage(numbers, partition, self.name(), batch=batch, channel=CHANNELS[partition])

    def name(self) -> str:
        self.attempts += 1
        return str(self.attempts)


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_repeated_the_channels_have_each_row_once_in_order(address: str, seed: int) -> None:
    async with world(address) as here:
        query = Query(here, random.Random(seed))
        found: dict[str, list[int]] = {name: [] for name in CHANNELS}

        async def consume(channel: str) -> None:
            log = here.exchange.replay_channel(channel)
            async for batch in log.read():
                found[channel] += batch.column(0).to_pylist()
                await log.acknowledge(len(found[channel]))

        async with asyncio.TaskGroup() as group:
            for name in CHANNELS:
                group.create_task(consume(name))
            await query.run(8)
            async with control(here.address) as orders:
                await orders.close_channels(CHANNELS)
        assert found == query.expected
        for name in CHANNELS:
            left = await here.until(lambda staged: not staged.attempts, name)
            assert (left.staged_rows, left.published_rows) == (0, 0)
