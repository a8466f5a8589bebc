"""Barriers have permits of their own, watermarks are conflated: neither is unbounded, neither waits for rows."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from permitflow import ChannelParameters, Kind, LocalReceiver, LocalSender, WouldBlock, open_channel

Complete = Callable[[Coroutine[Any, Any, None]], None]
Settle = Callable[[], Awaitable[None]]


def channel(row_permits: int = 8, barrier_permits: int = 1) -> tuple[LocalSender[object], LocalReceiver[object]]:
    return open_channel(ChannelParameters(row_permits=row_permits, permit_batch=1, barrier_permits=barrier_permits))


def payloads(receiver: LocalReceiver[object]) -> list[object]:
    found: list[object] = []
    while True:
        try:
            found.append(receiver.receive_nowait().payload)
        except WouldBlock:
            return found


def test_a_barrier_waits_for_a_barrier_permit_and_for_nothing_else(complete: Complete, settle: Settle) -> None:
    """V1.1, V1.6."""

    async def test() -> None:
        sender, receiver = channel(2)
        await sender.send_barrier("b1")
        assert receiver.receive_nowait().kind is Kind.BARRIER
        await sender.send_barrier("b2")
        with pytest.raises(WouldBlock, match="all 1 barrier permits are out"):
            sender.send_barrier_nowait("b3")
        waiting = asyncio.ensure_future(sender.send_barrier("b3"))
        await settle()
        sender.send_nowait("x", 1)
        assert not waiting.done()

        assert receiver.receive_nowait().payload == "b2"
        await waiting
        assert payloads(receiver) == ["x", "b3"]

    complete(test())


@pytest.mark.parametrize("barrier_permits", [1, 2, 5])
def test_as_many_barriers_as_there_are_permits(barrier_permits: int) -> None:
    sender, receiver = channel(barrier_permits=barrier_permits)
    for number in range(barrier_permits):
        sender.send_barrier_nowait(number)
    with pytest.raises(WouldBlock):
        sender.send_barrier_nowait("more")

    assert payloads(receiver) == list(range(barrier_permits))
    sender.send_barrier_nowait("again")


def test_a_barrier_passes_chunks_that_wait_and_returns_its_permit_at_once(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("sent", 7)
        waiting = asyncio.ensure_future(sender.send("waiting", 7))
        await settle()
        await sender.send_barrier("b1")
        assert [receiver.receive_nowait().payload for _ in range(2)] == ["sent", "b1"]
        sender.send_barrier_nowait("b2")
        await waiting
        assert payloads(receiver) == ["b2", "waiting"]

    complete(test())


def test_only_the_newest_of_the_watermarks_that_have_not_left_is_delivered() -> None:
    sender, receiver = channel()
    for value in range(1_000):
        sender.send_watermark(value)

    assert payloads(receiver) == [0, 999]
    assert payloads(receiver) == []


def test_a_watermark_comes_after_the_chunks_that_were_sent_before_it(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("a", 7)
        waiting = asyncio.ensure_future(sender.send("b", 7))
        await settle()
        sender.send_watermark("w1")
        later = asyncio.ensure_future(sender.send("c", 7))
        await settle()
        sender.send_watermark("w2")

        received = [(await receiver.receive()).payload for _ in range(4)]
        assert received == ["a", "b", "c", "w2"], "w1 was replaced while it waited; its place with it"
        await asyncio.gather(waiting, later)

    complete(test())


def test_watermarks_keep_coming_while_chunks_do() -> None:
    sender, receiver = channel()
    received: list[object] = []
    for number in range(100):
        sender.send_nowait(number)
        sender.send_watermark(-number)
        received += payloads(receiver)

    assert received == [value for number in range(100) for value in (number, -number)]


def test_a_pending_watermark_goes_when_the_one_before_was_consumed(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_watermark(1)
        sender.send_watermark(2)
        first = receiver.take_nowait()
        waiting = asyncio.ensure_future(receiver.take())
        await settle()
        assert (first.payload, waiting.done()) == (1, False)

        receiver.consume()
        assert (await waiting).payload == 2
        receiver.consume()

    complete(test())


def test_a_watermark_goes_when_the_chunk_that_it_waits_for_was_withdrawn(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("a", 7)
        waiting = asyncio.ensure_future(sender.send("b", 7))
        await settle()
        sender.send_watermark("w")
        consumer = asyncio.ensure_future(receiver.receive_many(5))
        assert [message.payload for message in await consumer] == ["a"]
        waiting.cancel()
        await settle()
        assert payloads(receiver) in (["w"], ["b", "w"])
        assert sender.statistics().row_permits_here == 8

    complete(test())


def test_control_messages_do_not_count_as_rows() -> None:
    sender, receiver = channel()
    sender.send_barrier_nowait("b")
    sender.send_watermark("w")

    now = sender.statistics()
    assert (now.sent_chunks, now.sent_rows, now.inbox_rows, now.row_permits_here) == (0, 0, 0, 8)
    assert [message.rows for message in (receiver.receive_nowait(), receiver.receive_nowait())] == [0, 0]
    assert receiver.statistics().consumed_chunks == 0
