"""Long work of an exchange leaves others at least half of the time."""

import asyncio
from time import monotonic
from typing import cast

import pyarrow as pa
import pytest

from permitflow import LocalReceiver, LocalSender, open_channel
from permitflow.channels.interface import BulkReceive, BulkSend
from permitflow.exchange import turns
from permitflow.exchange.channels.bridge import Bridge
from permitflow.exchange.turns import Turns

WORK_SECONDS = 0.01


def work() -> float:
    """When it ends."""
    until = monotonic() + WORK_SECONDS
    while (now := monotonic()) < until:
        pass
    return now


async def test_long_work_is_followed_by_a_rest_as_long_whoever_comes_next() -> None:
    exchange = Turns()
    first, second, third = await asyncio.gather(*(exchange.run(work) for _ in range(3)))
    assert second - first >= 2 * WORK_SECONDS
    assert third - second >= 2 * WORK_SECONDS


async def test_work_that_fails_is_followed_by_a_rest_too() -> None:
    exchange = Turns()

    def fail() -> None:
        work()
        raise ValueError("a schema that is none")

    with pytest.raises(ValueError, match="none"):
        await exchange.run(fail)
    ended = monotonic()
    assert await exchange.run(work) - ended >= WORK_SECONDS


async def test_a_few_items_wait_for_no_turn_and_many_are_made_in_several() -> None:
    exchange = Turns()
    await exchange.run(work)
    few = asyncio.create_task(exchange.all(range(3)))
    await asyncio.sleep(0)
    assert few.done(), "it has waited for nothing"
    most = turns._FEW_ITEMS + 3 * turns._ITEMS_AT_ONCE
    for count in (0, turns._FEW_ITEMS, most):
        assert await exchange.all(range(count)) == [*range(count)]


async def test_those_who_ask_ahead_are_served_one_at_a_time() -> None:
    exchange = Turns()
    under_way = most = 0

    async def answer() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    await asyncio.gather(*(exchange.of_many(answer) for _ in range(3)))
    assert most == 1


async def test_a_bridge_that_has_waited_goes_on_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(turns, "monotonic", lambda: now)
    ends: list[tuple[LocalSender[str], LocalReceiver[str]]] = [open_channel(), open_channel()]
    (sender, source), (target, receiver) = ends
    bridge = Bridge(cast("BulkReceive[pa.RecordBatch]", source), cast("BulkSend[pa.RecordBatch]", target))
    running = asyncio.create_task(bridge.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    now = 60.0
    sender.send_nowait("chunk", 1)
    sender.send_barrier_nowait("barrier")
    await asyncio.sleep(0)
    assert [receiver.receive_nowait().payload for _ in range(2)] == ["chunk", "barrier"]
    running.cancel()
