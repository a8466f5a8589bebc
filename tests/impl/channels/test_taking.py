"""Explicit acknowledgement: who holds a message holds its permits, until it says that it is done."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from permitflow import ChannelParameters, LocalProtocolError, LocalReceiver, LocalSender, WouldBlock, open_channel

Complete = Callable[[Coroutine[Any, Any, None]], None]
Settle = Callable[[], Awaitable[None]]


def channel(row_permits: int = 8, permit_batch: int = 2) -> tuple[LocalSender[object], LocalReceiver[object]]:
    return open_channel(ChannelParameters(row_permits=row_permits, permit_batch=permit_batch))


def test_permits_return_when_the_application_is_done(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("a", 4)
        sender.send_nowait("b", 4)
        waiting = asyncio.ensure_future(sender.send("c", 4))
        taken = [(await receiver.take()).payload, receiver.take_nowait().payload]
        await settle()
        assert (taken, waiting.done()) == (["a", "b"], False)
        assert sender.statistics().inbox_rows == 8

        receiver.consume()
        await waiting
        assert sender.statistics().inbox_rows == 8
        receiver.consume()
        assert receiver.take_nowait().payload == "c"
        receiver.consume()
        assert sender.statistics().row_permits_here == 8

    complete(test())


def test_messages_are_consumed_in_the_order_in_which_they_were_taken() -> None:
    sender, receiver = channel(16, 1)
    for rows in (1, 2, 3):
        sender.send_nowait("x", rows)
        receiver.take_nowait()
    left = []
    for _ in range(3):
        receiver.consume()
        left.append(sender.statistics().row_permits_here)

    assert left == [11, 13, 16]


def test_consuming_needs_a_message_that_was_taken() -> None:
    sender, receiver = channel()
    sender.send_nowait("a", 4)
    with pytest.raises(LocalProtocolError, match="nothing was taken"):
        receiver.consume()
    receiver.take_nowait()
    receiver.consume()
    with pytest.raises(LocalProtocolError, match="nothing was taken"):
        receiver.consume()
    with pytest.raises(WouldBlock, match="no message is here"):
        receiver.take_nowait()


def test_the_two_ways_to_receive_are_not_mixed_while_a_message_is_held(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = channel()
        for name in ("a", "b", "c"):
            sender.send_nowait(name, 1)
        receiver.take_nowait()
        with pytest.raises(LocalProtocolError, match="1 messages were taken and not consumed: consume them first"):
            receiver.receive_nowait()
        for receive in (receiver.receive(), receiver.receive_many(2), receiver.__anext__()):
            with pytest.raises(LocalProtocolError):
                await receive
        receiver.consume()
        assert receiver.receive_nowait().payload == "b"
        assert (await receiver.take()).payload == "c"
        receiver.consume()

    complete(test())


def test_a_residue_stays_while_anything_is_held_and_never_blocks_the_largest_chunk(
    complete: Complete, settle: Settle
) -> None:
    async def test() -> None:
        sender, receiver = channel(8, 3)
        sender.send_nowait("a", 2)
        sender.send_nowait("b", 1)
        receiver.take_nowait()
        receiver.take_nowait()
        receiver.consume()
        assert sender.statistics().unreturned_permits == 2
        sender.send_nowait("c", 5)
        assert sender.statistics().row_permits_here == 0

        receiver.consume()
        assert sender.statistics().row_permits_here == 3

    complete(test())


def test_takers_wait_in_the_same_line_as_receivers(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        takers = [asyncio.ensure_future(receiver.take()) for _ in range(3)]
        await settle()
        takers[1].cancel()
        sender.send_nowait("a", 1)
        sender.send_nowait("b", 1)
        await settle()
        assert [(await taker).payload for taker in (takers[0], takers[2])] == ["a", "b"]
        receiver.consume()
        receiver.consume()

    complete(test())
