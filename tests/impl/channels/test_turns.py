"""On a busy channel, whoever has to wait lets the others have a turn of the loop, and loses nothing by that.

The calls are resumed by hand: a call that gives None lets others have a turn, one that gives a future sleeps.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from permitflow import (
    ChannelParameters,
    EndOfStream,
    LocalReceiver,
    LocalSender,
    Message,
    PeerGoneError,
    WouldBlock,
    open_channel,
)

Complete = Callable[[Coroutine[Any, Any, None]], None]
Ends = tuple[LocalSender[str], LocalReceiver[str]]


def busy_channel() -> Ends:
    """Two chunks have just left; 2 of 8 permits are here."""
    ends: Ends = open_channel(ChannelParameters(row_permits=8, permit_batch=1, max_chunk_cost=5))
    sender, _ = ends
    sender.send_nowait("a", 3)
    sender.send_nowait("b", 3)
    return ends


def drained_channel() -> Ends:
    """The same, and the two were received."""
    ends = busy_channel()
    assert payloads(ends[1]) == ["a", "b"]
    return ends


def payloads(receiver: LocalReceiver[str]) -> list[str]:
    found: list[str] = []
    while True:
        try:
            found.append(receiver.receive_nowait().payload)
        except (WouldBlock, EndOfStream):
            return found


class Call:
    """A call that is resumed by hand."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine
        self.result: Any = None

    def resume(self) -> str | asyncio.Future[Any]:
        """To the next point at which it waits."""
        try:
            waits_for: asyncio.Future[Any] | None = self.coroutine.send(None)
        except StopIteration as stop:
            self.result = stop.value
            return "done"
        if waits_for is None:
            return "turn"
        waits_for._asyncio_future_blocking = False  # what a task does with a future that it is given
        return waits_for

    def sleep(self) -> asyncio.Future[Any]:
        """Resume it; it must go to sleep."""
        future = self.resume()
        assert isinstance(future, asyncio.Future)
        assert not future.done()
        return future

    def cancel(self) -> None:
        with pytest.raises(asyncio.CancelledError):
            self.coroutine.throw(asyncio.CancelledError)


def test_after_the_turn_a_chunk_leaves_without_a_sleep(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = busy_channel()
        send = Call(sender.send("c", 3))
        assert send.resume() == "turn"
        assert sender.statistics().waiting_sends == 1
        assert receiver.receive_nowait().payload == "a"
        assert send.resume() == "done"
        assert payloads(receiver) == ["b", "c"]
        assert sender.statistics().row_permits_here == 8

    complete(test())


def test_if_the_turn_was_in_vain_the_send_sleeps_until_it_is_woken(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = busy_channel()
        send = Call(sender.send("c", 3))
        assert send.resume() == "turn"
        future = send.sleep()
        receiver.receive_nowait()
        assert future.done()
        assert send.resume() == "done"

    complete(test())


def test_where_each_chunk_is_waited_for_nobody_wastes_a_turn(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = busy_channel()
        first = Call(sender.send("c", 3))
        assert first.resume() == "turn"
        first.sleep()
        receiver.receive_nowait()
        assert first.resume() == "done"
        Call(sender.send("d", 3)).sleep()
        assert payloads(receiver) == ["b", "c"]

    complete(test())


@pytest.mark.parametrize("asks", ["send_nowait", "send", "send_many"])
def test_nobody_overtakes_a_send_that_lets_others_have_a_turn(complete: Complete, asks: str) -> None:
    async def test() -> None:
        sender, receiver = busy_channel()
        send = Call(sender.send("c", 3))
        assert send.resume() == "turn"
        if asks == "send_nowait":
            with pytest.raises(WouldBlock, match="1 sends wait before this one"):
                sender.send_nowait("small", 1)
            newcomer = Call(sender.send("small", 1))
        elif asks == "send":
            newcomer = Call(sender.send("small", 1))
        else:
            newcomer = Call(sender.send_many(deque(["s"])))
        future = newcomer.sleep()
        assert receiver.receive_nowait().payload == "a"
        assert send.resume() == "done"
        assert future.done()
        assert newcomer.resume() == "done"
        assert payloads(receiver)[:2] == ["b", "c"]

    complete(test())


@pytest.mark.parametrize("way", ["send", "send_many"])
def test_cancelled_in_its_turn_a_send_has_sent_nothing(complete: Complete, way: str) -> None:
    async def test() -> None:
        sender, receiver = busy_channel()
        queue = deque(["ccc"])
        send = Call(sender.send("ccc") if way == "send" else sender.send_many(queue))
        assert send.resume() == "turn"
        send.cancel()
        assert list(queue) == ["ccc"]
        sender.send_nowait("d", 2)
        assert payloads(receiver) == ["a", "b", "d"]
        assert sender.statistics().waiting_sends == 0

    complete(test())


@pytest.mark.parametrize("way", ["send", "send_many"])
def test_cancelled_in_its_turn_a_send_leaves_its_place_to_who_came_behind(complete: Complete, way: str) -> None:
    async def test() -> None:
        sender, receiver = busy_channel()
        send = Call(sender.send("ccc") if way == "send" else sender.send_many(deque(["ccc"])))
        newcomer = Call(sender.send("d", 2))
        assert send.resume() == "turn"
        future = newcomer.sleep()
        send.cancel()
        assert future.done(), "its permits are here"
        assert newcomer.resume() == "done"
        assert payloads(receiver) == ["a", "b", "d"]

    complete(test())


def test_the_end_comes_after_a_send_that_lets_others_have_a_turn(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = busy_channel()
        send = Call(sender.send("c", 3))
        assert send.resume() == "turn"
        await sender.end()
        assert payloads(receiver) == ["a", "b"]
        with pytest.raises(WouldBlock):
            receiver.receive_nowait()
        assert send.resume() == "done"
        assert receiver.receive_nowait().payload == "c"
        with pytest.raises(EndOfStream):
            receiver.receive_nowait()

    complete(test())


def test_a_watermark_comes_after_a_send_that_lets_others_have_a_turn(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = busy_channel()
        send = Call(sender.send("c", 3))
        assert send.resume() == "turn"
        sender.send_watermark("w")
        assert payloads(receiver) == ["a", "b"]
        assert send.resume() == "done"
        assert payloads(receiver) == ["c", "w"]

    complete(test())


def test_a_send_learns_in_its_turn_that_the_receiver_is_gone(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = busy_channel()
        send = Call(sender.send("c", 3))
        assert send.resume() == "turn"
        receiver.close()
        with pytest.raises(PeerGoneError) as caught:
            send.resume()
        assert caught.value.undelivered == "c"

    complete(test())


def test_a_message_that_comes_in_the_turn_belongs_to_who_waits(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = drained_channel()
        receive = Call(receiver.receive())
        assert receive.resume() == "turn"
        sender.send_nowait("c", 3)
        with pytest.raises(WouldBlock, match="belong to tasks"):
            receiver.receive_nowait()
        newcomer = Call(receiver.receive())
        future = newcomer.sleep()
        assert receive.resume() == "done"
        assert received(receive).payload == "c"
        assert not future.done()
        sender.send_nowait("d", 3)
        assert newcomer.resume() == "done"
        assert received(newcomer).payload == "d"

    complete(test())


@pytest.mark.parametrize("way", ["receive", "take", "receive_many", "take_many"])
def test_if_the_turn_was_in_vain_who_waits_longest_is_served_first(complete: Complete, way: str) -> None:
    async def test() -> None:
        sender, receiver = drained_channel()
        receive, newcomer = Call(getattr(receiver, way)()), Call(receiver.take())
        assert receive.resume() == "turn"
        behind, before = newcomer.sleep(), receive.sleep()
        sender.send_nowait("c", 3)
        assert (before.done(), behind.done()) == (True, False)
        assert receive.resume() == "done"
        sender.send_nowait("d", 3)
        assert newcomer.resume() == "done"
        assert received(newcomer).payload == "d"

    complete(test())


@pytest.mark.parametrize("way", ["receive", "take", "receive_many", "take_many"])
def test_cancelled_in_its_turn_a_receive_passes_its_message_on(complete: Complete, way: str) -> None:
    async def test() -> None:
        sender, receiver = drained_channel()
        receive, newcomer = Call(getattr(receiver, way)()), Call(receiver.receive())
        assert receive.resume() == "turn"
        future = newcomer.sleep()
        sender.send_nowait("c", 3)
        assert not future.done()
        receive.cancel()
        assert future.done()
        assert newcomer.resume() == "done"
        assert received(newcomer).payload == "c"

    complete(test())


def test_a_receive_learns_in_its_turn_that_the_stream_has_ended(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = drained_channel()
        receive = Call(receiver.receive())
        assert receive.resume() == "turn"
        await sender.end()
        with pytest.raises(EndOfStream):
            receive.resume()

    complete(test())


def received(call: Call) -> Message[str]:
    message: Message[str] = call.result
    return message


def test_a_busy_sender_and_a_busy_receiver_never_sleep(complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        ends: Ends = open_channel(ChannelParameters(row_permits=8, permit_batch=1, max_chunk_cost=5))
        sender, receiver = ends
        loop = asyncio.get_running_loop()
        sleeps: list[object] = []
        create_future = loop.create_future

        def counted() -> asyncio.Future[Any]:
            sleeps.append(None)
            return create_future()

        async def produce() -> None:
            for _ in range(400):
                await sender.send("x", 2)
            await sender.end()

        async def consume() -> None:
            async for _ in receiver:
                pass

        async with asyncio.TaskGroup() as group:
            monkeypatch.setattr(loop, "create_future", counted)
            group.create_task(produce())
            group.create_task(consume())
        monkeypatch.undo()
        assert len(sleeps) < 10, "four chunks for each turn of the loop"
        assert sender.statistics().consumed_chunks == 400

    complete(test())


@pytest.mark.parametrize("way", ["send", "send_nowait", "send_many", "send_barrier"])
def test_whoever_sleeps_is_woken_by_any_way_to_send(complete: Complete, way: str) -> None:
    async def test() -> None:
        ends: Ends = open_channel()
        sender, receiver = ends
        receive = Call(receiver.receive())
        future = receive.sleep()
        if way == "send_nowait":
            sender.send_nowait("x")
        else:
            assert Call(getattr(sender, way)(deque(["x"]) if way == "send_many" else "x")).resume() == "done"
        assert future.done()
        assert receive.resume() == "done"
        assert received(receive).payload == "x"

    complete(test())
