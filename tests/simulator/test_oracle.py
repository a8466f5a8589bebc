"""The judge of simulated runs keeps what is possible, and not each way to it."""

import asyncio

import pytest

from permitflow import ChannelParameters, open_channel
from tests.simulator import oracle as judging
from tests.simulator.oracle import Oracle


async def _withdraw_equal_messages(oracle: Oracle) -> None:
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


async def test_each_possible_state_is_kept_once() -> None:
    oracle = Oracle()

    await _withdraw_equal_messages(oracle)

    (judge,) = oracle.judges
    assert oracle.steps["WithdrawChunk"] == 5
    assert len(judge.worlds) == len(set(judge.worlds))


async def test_a_run_with_too_many_possible_states_is_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_MOST_WORLDS", 1)
    oracle = Oracle()

    await _withdraw_equal_messages(oracle)

    assert "too many to judge" in oracle.broken[0]
