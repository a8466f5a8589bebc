"""Without permits a producer is held back by what the carrier has not taken yet, and by nothing else."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pyarrow as pa

from benchmarks.backlog import Backlog
from benchmarks.jobs import Job
from benchmarks.pairs import Pair
from benchmarks.payloads import PAYLOADS
from benchmarks.peers.registry import find_ways
from benchmarks.with_and_without import MOST_WAITING_ROWS, UNBOUNDED

ROWS = 64
BURST = 4


async def bursts(count: int) -> AsyncIterator[list[pa.RecordBatch]]:
    for _ in range(count):
        yield list(PAYLOADS["64"].chunks(BURST))


async def settled(task: "asyncio.Task[None]") -> bool:
    """Has it ended, once nobody can go on any more?"""
    for _ in range(10):
        await asyncio.sleep(0)
    return task.done()


def test_a_producer_waits_while_more_rows_than_it_may_have_are_held_and_goes_on_when_they_are_let_go() -> None:
    async def run() -> None:
        backlog, carrier = Backlog(2 * BURST * ROWS), list[pa.RecordBatch]()

        async def produce() -> None:
            async for burst in backlog.held_back(bursts(5)):
                carrier.extend(burst)
                del burst

        producer = asyncio.create_task(produce())
        for held in (2, 3, 4):
            assert not await settled(producer)
            assert (len(carrier), backlog.rows) == (2 * BURST, 2 * BURST * ROWS), held
            # All but the last chunk of a burst: it still waits.
            del carrier[: BURST - 1]
            assert not await settled(producer)
            assert backlog.rows == 2 * BURST * ROWS
            del carrier[0]
        assert await settled(producer)
        carrier.clear()
        assert backlog.rows == 0

    asyncio.run(run())


def test_a_burst_of_more_rows_than_may_wait_goes_alone() -> None:
    async def run() -> list[int]:
        backlog, waiting = Backlog(1), []
        async for burst in backlog.held_back(bursts(3)):
            waiting.append(backlog.rows)
            del burst
        return waiting

    assert asyncio.run(run()) == [BURST * ROWS] * 3


def test_all_chunks_come_without_permits_from_a_producer_that_is_held_back() -> None:
    """Of every way that is judged so: nothing may keep the last chunks it has written."""
    job = Job(
        payload="4,096",
        chunks=4 * MOST_WAITING_ROWS // 4_096,
        row_permits=UNBOUNDED,
        permit_batch=UNBOUNDED // 2,
        burst_chunks=8,
        warm_up_share=0.0,
        most_waiting_rows=8 * 4_096,
    )

    async def run() -> None:
        for module, way in (each for each in find_ways()[0].values() if each[1].target in ("remote", "same host")):
            async with Pair(module, way) as pair:
                for rows in (job.most_waiting_rows, MOST_WAITING_ROWS):
                    assert (await pair.run(replace(job, most_waiting_rows=rows))).whole_chunks_per_second > 0

    asyncio.run(run())
