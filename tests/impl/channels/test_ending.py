"""How a channel ends: in band, after all that was sent; or otherwise, and then all waiting calls hear of it at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from permitflow import (
    ChannelAbortedError,
    ChannelClosedError,
    ChannelParameters,
    EndOfStream,
    LocalReceiver,
    LocalSender,
    PeerGoneError,
    PermitflowError,
    open_channel,
)
from tests.support.turns import turns


def channel(row_permits: int = 8) -> tuple[LocalSender[object], LocalReceiver[object]]:
    return open_channel(ChannelParameters(row_permits=row_permits, permit_batch=row_permits // 4 or 1), name="orders")


async def failure(task: asyncio.Task[Any]) -> PermitflowError:
    with pytest.raises(PermitflowError) as caught:
        await task
    return caught.value


async def test_everything_is_delivered_before_the_end() -> None:
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
    await turns()
    sender.send_watermark(3)

    await sender.end()

    assert [message.payload async for message in receiver] == [
        "x",
        "b1",
        1,
        "y",
        list(range(6)),
        list(range(6, 12)),
        list(range(12, 18)),
        [18, 19],
        "b2",
        3,
    ]
    await asyncio.gather(*waiting)
    assert sender.statistics().gauges["row_permits_here"] == 8


async def test_the_end_may_be_said_and_seen_again() -> None:
    sender, receiver = channel()
    sender.send_nowait(b"x")
    await sender.end()
    await sender.end()
    sender.end_nowait()
    sender.close()
    await sender.end()

    assert receiver.receive_nowait().payload == b"x"
    for _ in range(2):
        with pytest.raises(EndOfStream):
            receiver.receive_nowait()
        with pytest.raises(EndOfStream):
            receiver.take_nowait()
        for receive in (receiver.receive(), receiver.take(), receiver.receive_many(2)):
            with pytest.raises(EndOfStream):
                await receive
        assert [message async for message in receiver] == []


@pytest.mark.parametrize(
    ("leave", "error_type"),
    [
        (lambda sender, _: sender.end_nowait(), ChannelClosedError),
        (lambda sender, _: sender.abort("no"), ChannelClosedError),
        (lambda _, receiver: receiver.close(), PeerGoneError),
    ],
    ids=["ended", "aborted", "left"],
)
async def test_nothing_can_be_sent_after_the_end(
    leave: Callable[..., None], error_type: type[ChannelClosedError | PeerGoneError]
) -> None:
    sender, receiver = channel()
    leave(sender, receiver)
    chunk = ["late"]
    for send in (sender.send_nowait, sender.send_barrier_nowait, sender.send_watermark):
        with pytest.raises(error_type) as caught:
            send(chunk)
        assert caught.value.facts["undelivered"] is chunk
    for late in (sender.send(chunk), sender.send(chunk * 20), sender.send_barrier(chunk)):
        with pytest.raises(error_type):
            await late
    sender.abort("too late to matter")
    sender.close()


@pytest.mark.parametrize("messages", [0, 1, 5])
async def test_every_receiver_sees_the_end(messages: int) -> None:
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
        await turns()
        for number in range(messages):
            sender.send_nowait(number)
        await sender.end()

    assert sorted(received, key=str) == list(range(messages))


async def test_the_end_waits_for_a_message_whose_receiver_was_cancelled() -> None:
    sender, receiver = channel()
    first, second, third = (asyncio.ensure_future(receiver.receive()) for _ in range(3))
    await turns()
    sender.send_nowait(b"last")
    sender.end_nowait()
    first.cancel()
    await turns()
    assert second.result().payload == b"last"
    with pytest.raises(EndOfStream):
        third.result()


async def test_a_send_that_gives_up_after_the_end_does_not_hold_it_up() -> None:
    sender, receiver = channel()
    sender.send_nowait("x", 6)
    waiting = asyncio.ensure_future(sender.send("y", 6))
    await turns()
    sender.end_nowait()
    message = receiver.take_nowait()
    consumer = asyncio.ensure_future(receiver.take())
    await turns()
    assert (message.payload, consumer.done()) == ("x", False)

    waiting.cancel()
    with pytest.raises(EndOfStream):
        await consumer
    receiver.consume()


# Closed, aborted, left.


async def test_closing_the_receiver_wakes_every_send_with_its_message() -> None:
    sender, receiver = channel(2)
    await sender.send_barrier("b1")
    assert receiver.receive_nowait().payload == "b1"
    await sender.send_barrier("b2")
    sender.send_nowait("x", 1)
    barrier = asyncio.ensure_future(sender.send_barrier("b3"))
    chunks = [[1, 2], [3]]
    sends = [asyncio.ensure_future(sender.send(chunk, 1)) for chunk in chunks]
    await turns()
    assert not any(task.done() for task in (barrier, *sends))

    receiver.close()

    errors = [await failure(task) for task in (barrier, *sends)]
    assert [type(error) for error in errors] == [PeerGoneError] * 3
    assert [error.facts["undelivered"] for error in errors] == ["b3", *chunks]
    assert errors[2].facts["undelivered"] is chunks[1]
    assert str(errors[0]) == "the receiver of channel 'orders' is gone: it was closed"
    assert sender.statistics().waiting_sends == 0


async def test_a_closed_receiver_receives_nothing_not_even_what_was_here() -> None:
    sender, receiver = channel()
    sender.send_nowait("x", 3)
    receiver.take_nowait()
    sender.send_nowait("y", 3)
    receiver.close()
    receiver.close()
    for receive in (receiver.receive_nowait, receiver.take_nowait, receiver.consume):
        with pytest.raises(ChannelClosedError):
            receive()
    for later in (receiver.receive(), receiver.take(), receiver.receive_many(2), receiver.__anext__()):
        with pytest.raises(ChannelClosedError):
            await later
    assert receiver.statistics().inbox_rows == 0


@pytest.mark.parametrize("way", ["receive", "take", "receive_many", "__anext__"])
async def test_every_receiver_that_waits_is_woken(way: str) -> None:
    for deed, error_type in (
        (lambda sender, _: sender.abort("no"), ChannelAbortedError),
        (lambda sender, _: sender.close(), PeerGoneError),
        (lambda _, receiver: receiver.close(), ChannelClosedError),
    ):
        sender, receiver = channel()
        arguments = (3,) if way == "receive_many" else ()
        waiting = [asyncio.ensure_future(getattr(receiver, way)(*arguments)) for _ in range(3)]
        await turns()
        deed(sender, receiver)
        assert [type(await failure(task)) for task in waiting] == [error_type] * 3


async def test_closing_the_sender_without_an_end_is_never_taken_for_an_end() -> None:
    sender, receiver = channel()
    sender.send_nowait("x", 6)
    chunk = ["too large for now"]
    waiting = asyncio.ensure_future(sender.send(chunk, 6))
    await turns()

    sender.close()
    sender.close()

    error = await failure(waiting)
    assert (type(error), error.facts["end"]) == (ChannelClosedError, "sender")
    assert error.facts["undelivered"] is chunk
    assert receiver.receive_nowait().payload == "x", "what was sent is not lost"
    for _ in range(2):
        with pytest.raises(PeerGoneError, match="the sender of channel 'orders' is gone: it was closed before the"):
            receiver.receive_nowait()
        with pytest.raises(PeerGoneError):
            await receiver.__anext__()
    with pytest.raises(ChannelClosedError):
        sender.send_nowait(["y"])
    with pytest.raises(ChannelClosedError):
        await sender.end()


async def test_aborting_drops_what_was_sent_and_gives_the_reason() -> None:
    sender, receiver = channel()
    sender.send_nowait("x", 6)
    sender.send_watermark(1)
    waiting = [asyncio.ensure_future(sender.send("y", 6)), asyncio.ensure_future(sender.send("z", 1))]
    await turns()

    sender.abort("the source is broken")
    sender.abort("once is enough")

    assert [type(await failure(task)) for task in waiting] == [ChannelClosedError] * 2
    for _ in range(2):
        with pytest.raises(ChannelAbortedError, match="'orders' was aborted: the source is broken"):
            await receiver.receive()
    with pytest.raises(ChannelClosedError):
        sender.send_nowait(["y"])
    with pytest.raises(ChannelClosedError):
        await sender.end()
    sender.close()
    with pytest.raises(ChannelAbortedError):
        receiver.receive_nowait()


async def test_an_abort_after_the_end_counts_until_all_is_received() -> None:
    sender, receiver = channel()
    sender.send_nowait("x", 6)
    await sender.end()
    sender.abort("second thoughts")
    with pytest.raises(ChannelAbortedError):
        receiver.receive_nowait()

    sender, receiver = channel()
    sender.send_nowait("x", 6)
    await sender.end()
    receiver.receive_nowait()
    sender.abort("too late")
    with pytest.raises(EndOfStream):
        receiver.receive_nowait()


@pytest.mark.parametrize("deed", ["close the receiver", "abort", "close the sender"])
async def test_a_woken_task_that_has_not_run_hears_of_the_end_too(deed: str) -> None:
    def do(sender: LocalSender[object], receiver: LocalReceiver[object]) -> None:
        match deed:
            case "close the receiver":
                receiver.close()
            case "abort":
                sender.abort("no")
            case _:
                sender.close()

    sender, receiver = channel()
    sender.send_nowait("x", 6)
    woken = asyncio.ensure_future(sender.send("y", 6))
    await turns()
    receiver.receive_nowait()
    do(sender, receiver)
    error = await failure(woken)
    assert error.facts["undelivered"] == "y", "and is not asked for its rows, which the caller gave"
    assert type(error) is (PeerGoneError if deed == "close the receiver" else ChannelClosedError)

    sender, receiver = channel()
    waiting = [asyncio.ensure_future(receiver.receive()) for _ in range(2)]
    await turns()
    sender.send_nowait("x", 6)
    do(sender, receiver)
    if deed == "close the sender":
        assert (await waiting.pop(0)).payload == "x", "it was sent before"
    expected = {
        "close the receiver": ChannelClosedError,
        "abort": ChannelAbortedError,
        "close the sender": PeerGoneError,
    }
    assert {type(await failure(task)) for task in waiting} == {expected[deed]}


async def test_blocks_close_their_ends_and_one_that_fails_aborts_the_stream() -> None:
    sender, receiver = channel()
    with sender, receiver:
        sender.send_nowait("x", 3)
    with pytest.raises(ChannelClosedError):
        receiver.receive_nowait()
    with pytest.raises(ChannelClosedError):
        sender.send_nowait(["y"])

    sender, receiver = channel()
    sender.send_nowait("x", 3)
    sender.__exit__(ZeroDivisionError, ZeroDivisionError("no more"), None)
    with pytest.raises(ChannelAbortedError, match="ZeroDivisionError: no more"):
        receiver.receive_nowait()


@pytest.mark.parametrize(
    ("stop", "error"),
    [
        (lambda sender, _: sender.end_nowait(), ChannelClosedError),
        (lambda sender, _: sender.abort("broken"), ChannelClosedError),
        (lambda _, receiver: receiver.close(), PeerGoneError),
    ],
    ids=["ended", "aborted", "receiver closed"],
)
async def test_one_with_nothing_to_send_hears_that_nothing_may_be_sent(
    stop: Callable[[LocalSender[object], LocalReceiver[object]], None], error: type[PermitflowError]
) -> None:
    sender, receiver = channel()
    waiting = asyncio.ensure_future(sender.until_refused())
    await turns()
    assert not waiting.done()
    stop(sender, receiver)
    assert isinstance(await waiting, error)
    assert isinstance(await sender.until_refused(), error)
