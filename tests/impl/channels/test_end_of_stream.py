"""The end is in band: everything that was sent, or waits to be, comes before it, and everybody sees it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from permitflow import (
    ChannelClosedError,
    ChannelParameters,
    EndOfStream,
    LocalReceiver,
    LocalSender,
    PeerGoneError,
    open_channel,
)

Complete = Callable[[Coroutine[Any, Any, None]], None]
Settle = Callable[[], Awaitable[None]]


def channel(row_permits: int = 8) -> tuple[LocalSender[object], LocalReceiver[object]]:
    return open_channel(ChannelParameters(row_permits=row_permits, permit_batch=2))


def test_everything_is_delivered_before_the_end(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("x", 6)
        sender.send_barrier_nowait("b1")
        sender.send_watermark(1)
        sender.send_watermark(2)
        waiting = [
            asyncio.ensure_future(sender.send("y", 5)),
            asyncio.ensure_future(sender.send(list(range(20)))),
            asyncio.ensure_future(sender.send_barrier("b2")),
        ]
        await settle()
        sender.send_watermark(3)

        await sender.end()

        assert [message.payload async for message in receiver] == [
            "x",
            "b1",
            1,
            "y",
            "b2",
            list(range(6)),
            list(range(6, 12)),
            list(range(12, 18)),
            [18, 19],
            3,
        ]
        await asyncio.gather(*waiting)
        assert sender.statistics().row_permits_here == 8

    complete(test())


def test_the_end_may_be_said_and_seen_again(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("x")
        await sender.end()
        await sender.end()
        sender.end_nowait()
        sender.close()
        await sender.end()

        assert receiver.receive_nowait().payload == "x"
        for _ in range(2):
            with pytest.raises(EndOfStream):
                receiver.receive_nowait()
            with pytest.raises(EndOfStream):
                receiver.take_nowait()
            for receive in (receiver.receive(), receiver.take(), receiver.receive_many(2)):
                with pytest.raises(EndOfStream):
                    await receive
            assert [message async for message in receiver] == []

    complete(test())


def test_nothing_can_be_sent_after_the_end(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = channel()
        await sender.end()
        chunk = ["late"]
        for send in (sender.send_nowait, sender.send_barrier_nowait, sender.send_watermark):
            with pytest.raises(ChannelClosedError) as caught:
                send(chunk)
            assert caught.value.undelivered is chunk
        for late in (sender.send(chunk), sender.send(chunk * 20), sender.send_barrier(chunk)):
            with pytest.raises(ChannelClosedError, match="the sender is closed"):
                await late
        with pytest.raises(EndOfStream):
            receiver.receive_nowait()

    complete(test())


def test_an_empty_stream_ends_too(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        consumer = asyncio.ensure_future(receiver.receive())
        await settle()
        sender.end_nowait()
        with pytest.raises(EndOfStream):
            await consumer

    complete(test())


@pytest.mark.parametrize("messages", [0, 1, 2, 3, 5])
def test_every_receiver_sees_the_end(complete: Complete, settle: Settle, messages: int) -> None:
    async def test() -> None:
        sender, receiver = channel()
        received: list[object] = []

        async def consume(way: str) -> None:
            if way == "iterate":
                received.extend([message.payload async for message in receiver])
                return
            while True:
                try:
                    many = [await receiver.receive()] if way == "receive" else await receiver.receive_many(2)
                except EndOfStream:
                    return
                received.extend(message.payload for message in many)

        async with asyncio.TaskGroup() as consumers:
            for way in ("iterate", "receive", "receive_many"):
                consumers.create_task(consume(way))
            await settle()
            for number in range(messages):
                sender.send_nowait(number)
            await sender.end()

        assert sorted(received, key=str) == list(range(messages))

    complete(test())


def test_a_receiver_that_comes_while_the_last_message_belongs_to_another_sees_the_end(
    complete: Complete, settle: Settle
) -> None:
    async def test() -> None:
        sender, receiver = channel()
        first = asyncio.ensure_future(receiver.receive())
        await settle()
        sender.send_nowait("last")
        sender.end_nowait()
        late = asyncio.ensure_future(receiver.receive())
        many = asyncio.ensure_future(receiver.receive_many(4))

        assert (await first).payload == "last"
        for task in (late, many):
            with pytest.raises(EndOfStream):
                await task

    complete(test())


def test_the_end_waits_for_a_message_whose_receiver_was_cancelled(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        first, second, third = (asyncio.ensure_future(receiver.receive()) for _ in range(3))
        await settle()
        sender.send_nowait("last")
        sender.end_nowait()
        first.cancel()

        assert (await second).payload == "last"
        with pytest.raises(EndOfStream):
            await third

    complete(test())


def test_a_send_that_gives_up_after_the_end_does_not_hold_it_up(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("x", 6)
        waiting = asyncio.ensure_future(sender.send("y", 6))
        await settle()
        sender.end_nowait()
        message = receiver.take_nowait()
        consumer = asyncio.ensure_future(receiver.take())
        await settle()
        assert (message.payload, consumer.done()) == ("x", False)

        waiting.cancel()
        with pytest.raises(EndOfStream):
            await consumer
        receiver.consume()

    complete(test())


def test_a_send_that_gives_up_its_turn_after_the_end_does_not_hold_it_up(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("x", 6)
        waiting = asyncio.ensure_future(sender.send("y", 6))
        await settle()
        sender.end_nowait()
        receiver.take_nowait()
        consumer = asyncio.ensure_future(receiver.take())
        await settle()

        receiver.consume()  # wakes the send
        waiting.cancel()  # before it runs
        with pytest.raises(EndOfStream):
            await consumer

    complete(test())


def test_the_receiver_may_go_before_the_end_has_come(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("x", 6)
        waiting = asyncio.ensure_future(sender.send("y", 6))
        await settle()
        await sender.end()
        receiver.close()

        with pytest.raises(PeerGoneError) as caught:
            await waiting
        assert caught.value.undelivered == "y"
        await sender.end()

    complete(test())


def test_the_end_comes_after_what_is_still_held(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("x", 6)
        await sender.end()
        receiver.take_nowait()
        with pytest.raises(EndOfStream):
            await receiver.take()
        receiver.consume()
        assert sender.statistics().row_permits_here == 8

    complete(test())
