"""Waiting calls are served in turn: no newcomer and no quick neighbour comes first."""

import asyncio

import pytest

from permitflow import ChannelParameters, LocalReceiver, LocalSender, WouldBlock, open_channel
from tests.support.turns import turns


def channel(row_permits: int = 8, permit_batch: int = 1) -> tuple[LocalSender[object], LocalReceiver[object]]:
    return open_channel(ChannelParameters(row_permits=row_permits, permit_batch=permit_batch, barrier_permits=2))


def payloads(receiver: LocalReceiver[object]) -> list[object]:
    found: list[object] = []
    while True:
        try:
            found.append(receiver.receive_nowait().payload)
        except WouldBlock:
            return found


async def test_a_newcomer_does_not_take_permits_from_a_waiting_task() -> None:
    sender, receiver = channel()
    sender.send_nowait("first", 5)
    waiting = asyncio.ensure_future(sender.send("waiting", 4))
    await turns()
    receiver.receive_nowait()  # the waiting send may go, and has not run yet
    with pytest.raises(WouldBlock, match="1 sends wait before this one"):
        sender.send_nowait("newcomer", 1)
    newcomer = asyncio.ensure_future(sender.send("newcomer", 1))
    await asyncio.gather(waiting, newcomer)
    assert payloads(receiver) == ["waiting", "newcomer"]


async def test_a_newcomer_does_not_take_a_message_from_a_waiting_task() -> None:
    sender, receiver = channel()
    waiting = asyncio.ensure_future(receiver.receive())
    await turns()
    sender.send_nowait("its own", 1)

    with pytest.raises(WouldBlock, match="the 1 messages here belong to tasks that have waited for them"):
        receiver.receive_nowait()
    with pytest.raises(WouldBlock, match="belong to tasks"):
        receiver.take_nowait()
    many = asyncio.ensure_future(receiver.receive_many(5))
    following = asyncio.ensure_future(receiver.__anext__())
    await turns()
    assert (await waiting).payload == "its own"
    assert not many.done()
    assert not following.done()

    sender.send_nowait("second", 1)
    sender.send_nowait("third", 1)
    assert [message.payload for message in await many] == ["second"]
    assert (await following).payload == "third"
