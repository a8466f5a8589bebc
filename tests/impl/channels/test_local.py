"""The channel inside a process: what is sent arrives, and never more of it is held than there are permits."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import (
    ChannelParameters,
    InvalidParametersError,
    Kind,
    LocalReceiver,
    LocalSender,
    Message,
    ReceiveEnd,
    SendEnd,
    WouldBlock,
    open_channel,
)

Complete = Callable[[Coroutine[Any, Any, None]], None]
Settle = Callable[[], Awaitable[None]]


Ends = tuple[LocalSender[object], LocalReceiver[object]]


def channel(row_permits: int = 8, permit_batch: int = 2) -> Ends:
    return open_channel(ChannelParameters(row_permits=row_permits, permit_batch=permit_batch))


def test_messages_arrive_in_order_with_what_they_cost() -> None:
    sender, receiver = channel(16)
    sender.send_nowait("abc")
    sender.send_nowait("", rows=0)
    sender.send_barrier_nowait("b")
    sender.send_watermark(12)
    sender.send_nowait("x", rows=7)

    assert [receiver.receive_nowait() for _ in range(5)] == [
        Message(Kind.CHUNK, "abc", 3, 3),
        Message(Kind.CHUNK, "", 0, 1),
        Message(Kind.BARRIER, "b", 0, 1),
        Message(Kind.WATERMARK, 12, 0, 1),
        Message(Kind.CHUNK, "x", 7, 7),
    ]


def test_rows_are_counted_by_the_chunk_unless_they_are_given() -> None:
    sender, receiver = channel(100)
    sender.send_nowait(pa.record_batch({"x": [1, 2, 3]}))
    sender.send_nowait([1, 2], rows=5)
    sender.send_nowait(17)

    assert [receiver.receive_nowait().rows for _ in range(3)] == [3, 5, 1]


@pytest.mark.parametrize("rows", [-1, 1.5, "3", True], ids=repr)
def test_a_wrong_number_of_rows_is_refused_and_nothing_is_sent(complete: Complete, rows: object) -> None:
    async def test() -> None:
        sender, receiver = channel()
        with pytest.raises(InvalidParametersError, match="rows must be a whole number of at least 0"):
            sender.send_nowait("x", rows)  # type: ignore[arg-type]  # that is the point
        with pytest.raises(InvalidParametersError, match="rows must be a whole number of at least 0"):
            await sender.send("x", rows)  # type: ignore[arg-type]  # that is the point
        with pytest.raises(WouldBlock, match="no message is here"):
            receiver.receive_nowait()
        assert sender.statistics().row_permits_here == 8

    complete(test())


def test_a_send_waits_exactly_when_its_permits_are_not_here(complete: Complete, settle: Settle) -> None:
    """V1.2, V1.4."""

    async def test() -> None:
        sender, receiver = channel(2_048, 256)
        left = []
        for _ in range(8):
            sender.send_nowait("x", 256)
            left.append(sender.statistics().row_permits_here)
        assert left == [1_792, 1_536, 1_280, 1_024, 768, 512, 256, 0]
        with pytest.raises(WouldBlock, match="needs 1 row permits, 0 of 2048 are here"):
            sender.send_nowait("x", 1)
        with pytest.raises(WouldBlock, match="needs 1 row permits"):
            sender.send_nowait("", 0)
        waiting = asyncio.ensure_future(sender.send("y", 1))
        await settle()
        assert not waiting.done()

        assert receiver.receive_nowait().rows == 256
        await waiting
        assert sender.statistics().row_permits_here == 255

    complete(test())


@given(sizes=st.lists(st.integers(0, 6), max_size=30), batch=st.integers(1, 2))
def test_an_idle_channel_holds_all_its_permits_again(sizes: list[int], batch: int) -> None:
    """V1.5: the residue below a batch comes back as well, once everything has been consumed."""
    sender, receiver = channel(8, batch)
    for rows in sizes:
        while True:
            try:
                sender.send_nowait("x", rows)
                break
            except WouldBlock:
                receiver.receive_nowait()
        now = sender.statistics()
        assert now.row_permits_here + now.unreturned_permits + now.inbox_rows <= 8
    while sender.statistics().consumed_chunks < len(sizes):
        receiver.receive_nowait()

    now = sender.statistics()
    assert (now.row_permits_here, now.unreturned_permits, now.inbox_rows) == (8, 0, 0)
    assert now.sent_rows == now.consumed_rows == sum(sizes)


def test_permits_come_back_in_batches_while_the_consumer_is_busy() -> None:
    sender, receiver = channel(100, 10)
    for _ in range(25):
        sender.send_nowait("x", 3)
    seen = []
    for _ in range(24):
        receiver.receive_nowait()
        now = sender.statistics()
        seen.append(now.row_permits_here)
        assert now.row_permits_here + now.inbox_rows + now.unreturned_permits == 100

    # 3 + 3 + 3 + 3 is the first sum of at least 10.
    assert seen == [25 + 12 * (received // 4) for received in range(1, 25)]


@pytest.mark.parametrize("consumers", [1, 3])
@pytest.mark.parametrize("producers", [1, 3])
def test_what_is_held_never_exceeds_the_permits(complete: Complete, producers: int, consumers: int) -> None:
    async def test() -> None:
        sender, receiver = channel(64, 8)
        received: list[object] = []

        async def produce(number: int) -> None:
            for count in range(200):
                await sender.send((number, count), rows=(7 * count + number) % 57)

        async def consume() -> None:
            async for message in receiver:
                received.append(message.payload)
                if len(received) % 5 == 0:
                    await asyncio.sleep(0)

        async with asyncio.TaskGroup() as everybody:
            for _ in range(consumers):
                everybody.create_task(consume())
            async with asyncio.TaskGroup() as senders:
                for number in range(producers):
                    senders.create_task(produce(number))
            await sender.end()

        assert sorted(received) == [(number, count) for number in range(producers) for count in range(200)]  # type: ignore[type-var]  # tuples
        after = sender.statistics()
        assert 57 <= after.peak_permits_outstanding <= 64
        assert after.peak_inbox_rows <= 64
        assert after.row_permits_here == 64

    complete(test())


def test_receive_many_waits_for_one_message_and_takes_no_more_than_are_wanted(
    complete: Complete, settle: Settle
) -> None:
    async def test() -> None:
        sender, receiver = channel(100)
        for number in range(5):
            sender.send_nowait(number)
        assert [message.payload for message in await receiver.receive_many(3)] == [0, 1, 2]
        assert [message.payload for message in await receiver.receive_many(3)] == [3, 4]

        waiting = asyncio.ensure_future(receiver.receive_many(3))
        await settle()
        assert not waiting.done()
        sender.send_nowait(5)
        sender.send_nowait(6)
        assert [message.payload for message in await waiting] == [5, 6]
        assert sender.statistics().row_permits_here == 100

    complete(test())


@pytest.mark.parametrize("max_messages", [0, -1])
def test_receive_many_wants_a_positive_number(complete: Complete, max_messages: int) -> None:
    async def test() -> None:
        sender, receiver = channel()
        sender.send_nowait("x")
        with pytest.raises(InvalidParametersError, match="max_messages must be at least 1"):
            await receiver.receive_many(max_messages)
        assert receiver.receive_nowait().payload == "x"

    complete(test())


def test_a_consumer_that_fails_leaves_the_channel_as_it_is(complete: Complete) -> None:
    async def test() -> None:
        sender, receiver = channel()
        for number in range(4):
            sender.send_nowait(number)

        async def consume() -> None:
            async for _ in receiver:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await consume()
        assert [message.payload for message in await receiver.receive_many(9)] == [1, 2, 3]
        assert sender.statistics().row_permits_here == 8

    complete(test())


def test_no_loop_is_needed_where_nobody_waits() -> None:
    sender, receiver = channel()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()

    sender.send_nowait("x")
    assert receiver.receive_nowait().payload == "x"
    sender.end_nowait()
    assert sender.statistics().open_seconds >= 0


def test_the_ends_keep_the_promises_that_all_channels_make() -> None:
    sender, receiver = channel()
    of_all_channels: tuple[SendEnd[object], ReceiveEnd[object]] = (sender, receiver)  # for the type checker

    for end, promised in zip(of_all_channels, (SendEnd, ReceiveEnd), strict=True):
        names = {name for name in vars(promised) if not name.startswith("_")}
        assert names
        assert names <= set(dir(end))


def test_the_ends_say_what_they_are(complete: Complete, settle: Settle) -> None:
    async def test() -> None:
        parameters = ChannelParameters(row_permits=8, permit_batch=2)
        ends: Ends = open_channel(parameters, name="orders/0")
        sender, receiver = ends
        await sender.send("x", 5)
        waiting = asyncio.ensure_future(sender.send("y", 4))
        await settle()

        assert (sender.name, receiver.name) == ("orders/0", "orders/0")
        assert sender.parameters is receiver.parameters is parameters
        assert repr(sender) == "<LocalSender 'orders/0' open, 3/8 row permits here, 1 waiting>"
        assert repr(receiver) == "<LocalReceiver 'orders/0' open, 1 messages here, 0 waiting>"
        receiver.receive_nowait()
        await waiting

    complete(test())


def test_parameters_of_another_kind_are_refused() -> None:
    with pytest.raises(InvalidParametersError, match="parameters must be ChannelParameters, not 64"):
        open_channel(64)  # type: ignore[arg-type]  # that is the point
