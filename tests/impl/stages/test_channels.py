"""Streams between channels: demand reaches their permits, in both directions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from permitflow import (
    ChannelAbortedError,
    ChannelParameters,
    Kind,
    LocalReceiver,
    LocalSender,
    PeerGoneError,
    open_channel,
)
from permitflow.flows.demand.core import Demand
from permitflow.stages import Source

Settle = Callable[[], Awaitable[None]]
Ends = tuple[LocalSender[list[int]], LocalReceiver[list[int]]]


def channel(row_permits: int = 4) -> Ends:
    ends: Ends = open_channel(ChannelParameters(row_permits=row_permits, permit_batch=1))
    return ends


async def numbers(given: list[int], count: int = 100) -> AsyncIterator[list[int]]:
    for number in range(count):
        given.append(number)
        yield [number]


async def test_a_stream_is_sent_into_a_channel_at_the_pace_of_its_permits(settle: Settle) -> None:
    (sender, receiver), given = channel(), list[int]()
    sending = asyncio.create_task(Source(numbers(given)).map(lambda chunk: chunk).run_to(sender))
    await settle()
    # Four are in the channel, one waits for its permit.
    assert given == [0, 1, 2, 3, 4]
    assert (await receiver.receive()).payload == [0]
    await settle()
    assert given == [0, 1, 2, 3, 4, 5]
    assert [message.payload[0] async for message in receiver] == [*range(1, 100)]
    await sending


async def test_a_message_is_consumed_when_its_successor_is_asked_for(settle: Settle) -> None:
    sender, receiver = channel()
    for number in range(4):
        await sender.send([number])
    async with Source.receive(receiver).map(lambda message: message.payload).open() as elements:
        assert await anext(elements) == [0]
        assert sender.statistics().rows_held == 4
        assert await anext(elements) == [1]
        assert sender.statistics().rows_held == 3
    assert sender.statistics().rows_held == 3
    receiver.consume()
    receiver.close()


async def test_demand_passes_through_streams_to_the_first_producer(settle: Settle) -> None:
    given: list[int] = []
    first, second = channel(), channel()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(Source(numbers(given)).run_to(first[0]))
        tasks.create_task(Source.receive(first[1]).buffer(3).run_to(second[0]))
        for _ in range(10):
            await settle()
        # Both windows and the buffer are full, and one message waits before each channel.  The last one in the buffer
        # still has its permit in the first window.
        assert given == [*range(4 + 4 + 3 + 2 - 1)]
        received = [message.payload[0] async for message in Source.receive(second[1])]
    assert received == [*range(100)]


async def test_barriers_and_watermarks_pass_as_what_they_are() -> None:
    first, second = channel(), channel()
    await first[0].send([1, 2])
    await first[0].send_barrier("checkpoint")
    first[0].send_watermark(7)
    await first[0].end()
    await Source.receive(first[1]).run_to(second[0])
    assert [(message.kind, message.payload) async for message in second[1]] == [
        (Kind.CHUNK, [1, 2]),
        (Kind.BARRIER, "checkpoint"),
        (Kind.WATERMARK, 7),
    ]


async def test_a_channel_of_another_flow_is_one_like_any_other(settle: Settle) -> None:
    ends: Ends = open_channel(Demand(size=1, batch=1))
    given: list[int] = []
    sending = asyncio.create_task(Source(numbers(given, 5)).run_to(ends[0]))
    await settle()
    assert given == [0, 1]
    assert [message.payload[0] async for message in Source.receive(ends[1])] == [0, 1, 2, 3, 4]
    await sending


async def test_a_stream_that_fails_aborts_its_channel() -> None:
    sender, receiver = channel()

    def refuse(chunk: list[int]) -> list[int]:
        raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        await Source(numbers([])).map(refuse).run_to(sender)
    with pytest.raises(ChannelAbortedError, match="ValueError: not this one"):
        await receiver.receive()


async def endless(closed: list[bool]) -> AsyncIterator[list[int]]:
    try:
        while True:
            yield [0]
    finally:
        closed.append(True)


async def test_a_cancelled_stream_aborts_its_channel_and_closes_its_source(settle: Settle) -> None:
    (sender, receiver), closed = channel(), list[bool]()
    sending = asyncio.create_task(Source(endless(closed)).buffer(2).run_to(sender))
    await settle()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert closed == [True]
    with pytest.raises(ChannelAbortedError):
        [message async for message in receiver]


async def test_a_consumer_that_cancels_its_channel_closes_the_sources() -> None:
    (sender, receiver), closed = channel(), list[bool]()
    sending = asyncio.create_task(Source(endless(closed)).buffer(2).run_to(sender))
    assert (await receiver.receive()).payload == [0]
    await receiver.cancel("one is enough")
    await sending
    assert closed == [True]


async def test_a_channel_that_breaks_off_is_an_error_of_the_stream() -> None:
    sender, receiver = channel()
    await sender.send([1])
    sender.close()
    elements = Source.receive(receiver).buffer(4).open()
    assert (await anext(elements)).payload == [1]
    with pytest.raises(PeerGoneError):
        await anext(elements)


async def test_a_receiver_that_goes_ends_the_stream_before_it() -> None:
    sender, receiver = channel()
    receiver.close()
    with pytest.raises(PeerGoneError):
        await Source(numbers([])).run_to(sender)


async def quiet(closed: list[bool]) -> AsyncIterator[list[int]]:
    try:
        yield [0]
        await asyncio.Event().wait()
    finally:
        closed.append(True)


@pytest.mark.parametrize("buffer", [0, 2])
async def test_a_channel_that_fails_ends_a_wait_for_the_source(buffer: int, settle: Settle) -> None:
    (sender, receiver), closed = channel(), list[bool]()
    source = Source(quiet(closed))
    sending = asyncio.create_task((source.buffer(buffer) if buffer else source).run_to(sender))
    await settle()
    receiver.close()
    with pytest.raises(PeerGoneError):
        await sending
    assert closed == [True]


async def test_a_cancelled_channel_ends_a_wait_for_the_source(settle: Settle) -> None:
    (sender, receiver), closed = channel(), list[bool]()
    sending = asyncio.create_task(Source(quiet(closed)).run_to(sender))
    await settle()
    await receiver.cancel("one is enough")
    await sending
    assert closed == [True]


async def test_a_failed_channel_takes_nothing_of_the_channel_before_it(settle: Settle) -> None:
    first, second, third = channel(), channel(), channel()
    passing_on = asyncio.create_task(Source.receive(first[1]).run_to(second[0]))
    await settle()
    second[1].close()
    with pytest.raises(PeerGoneError):
        await passing_on
    await first[0].send([1])
    await first[0].end()
    await Source.receive(first[1]).run_to(third[0])
    assert [message.payload async for message in third[1]] == [[1]]
