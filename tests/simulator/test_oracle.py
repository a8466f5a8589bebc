"""The judge of simulated runs keeps what is possible, and not each way to it."""

import asyncio

from permitflow import ChannelParameters, open_channel
from tests.simulator.oracle import Oracle


async def test_each_possible_state_is_kept_once() -> None:
    oracle = Oracle()
    sender, _ = open_channel(
        ChannelParameters(row_permits=2, permit_batch=1, initial_permits=0), name="c", record=oracle.recorder
    )
    waiting = []
    for place in range(5):
        waiting.append(asyncio.create_task(sender.send(f"chunk {place}", rows=1)))
        waiting.append(asyncio.create_task(sender.send_barrier(place)))
    await asyncio.sleep(0)

    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    (judge,) = oracle.judges
    assert oracle.steps["WithdrawChunk"] == 5
    assert len(judge.worlds) == len(set(judge.worlds))
