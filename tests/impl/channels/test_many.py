"""Many messages in one call do what so many calls do, and say precisely how far they came."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

import pytest

from permitflow import (
    ChannelClosedError,
    ChannelParameters,
    EndOfStream,
    InvalidParametersError,
    LocalProtocolError,
    LocalReceiver,
    LocalSender,
    PeerGoneError,
    UnsplittableChunkError,
    WouldBlock,
    open_channel,
)
from tests.support.turns import turns

Ends = tuple[LocalSender[bytes], LocalReceiver[bytes]]


def channel(row_permits: int = 4, permit_batch: int = 1, max_chunk_cost: int = 3) -> Ends:
    parameters = ChannelParameters(
        row_permits=row_permits, permit_batch=permit_batch, max_chunk_cost=max_chunk_cost, barrier_permits=2
    )
    return open_channel(parameters)


def received(receiver: LocalReceiver[bytes]) -> list[bytes]:
    found: list[bytes] = []
    while True:
        try:
            found.append(receiver.receive_nowait().payload)
        except (WouldBlock, EndOfStream):
            return found


async def test_chunks_leave_from_the_left_until_the_queue_is_empty() -> None:
    sender, receiver = channel()
    queue = deque([b"aaa", b"b", b"cc", b"", b"dd"])
    sending = asyncio.ensure_future(sender.send_many(queue))
    await turns()
    assert list(queue) == [b"cc", b"", b"dd"], "the window is full"
    assert [message.payload for message in await receiver.receive_many()] == [b"aaa", b"b"]
    await turns()
    assert list(queue) == [b"dd"]
    queue.append(b"e")
    assert [message.payload for message in await receiver.receive_many()] == [b"cc", b""]
    await sending
    assert not queue
    assert received(receiver) == [b"dd", b"e"]
    assert sender.statistics().gauges["row_permits_here"] == 4


class SendsWhenAsked:
    """A chunk that sends something itself when it is asked for its rows."""

    def __init__(self, sender: LocalSender[object]) -> None:
        self.sender = sender

    @property
    def num_rows(self) -> int:
        with suppress(WouldBlock):
            self.sender.send_nowait(b"bb")
        return 3


@pytest.mark.parametrize("behind", [0, 1], ids=["alone", "before another one"])
async def test_a_chunk_that_sends_while_counted_spends_no_permit_twice(behind: int) -> None:
    ends: tuple[LocalSender[object], LocalReceiver[object]] = open_channel(ChannelParameters(row_permits=4))
    sender, receiver = ends
    sending = asyncio.ensure_future(sender.send_many(deque([SendsWhenAsked(sender), *[b"c"] * behind])))
    await turns()
    assert sender.statistics().gauges["row_permits_here"] == 0
    assert [message.rows for message in await receiver.receive_many()] == [2, 2]
    await sending
    assert [message.rows for message in await receiver.receive_many()] == [3, *[1] * behind]
    assert sender.statistics().peak_rows_held <= 4


@pytest.mark.parametrize("is_peer", [False, True], ids=["closed here", "receiver closed"])
async def test_refused_the_queue_holds_what_has_not_left(is_peer: bool) -> None:
    sender, receiver = channel()
    queue = deque([b"abcdefgh", b"ij"])
    sending = asyncio.ensure_future(sender.send_many(queue))
    await turns()
    (receiver if is_peer else sender).close()
    error = PeerGoneError if is_peer else ChannelClosedError
    for refused in (sending, sender.send_many(queue)):
        with pytest.raises(error) as caught:
            await refused
        assert list(queue) == [b"defgh", b"ij"]
        assert caught.value.facts["undelivered"] is queue


@pytest.mark.parametrize("is_woken", [False, True])
async def test_a_cancelled_call_leaves_in_the_queue_what_has_not_left(is_woken: bool) -> None:
    sender, receiver = channel()
    queue = deque([b"aaa", b"bb", b"c"])
    sending = asyncio.ensure_future(sender.send_many(queue))
    await turns()
    before = [receiver.receive_nowait().payload] if is_woken else []
    sending.cancel()
    await turns()
    assert sending.cancelled()
    assert [*before, *received(receiver), *queue] == [b"aaa", b"bb", b"c"]
    assert sender.statistics().gauges["row_permits_here"] == 4


async def test_a_chunk_that_cannot_be_sent_stops_the_queue_before_it() -> None:
    class Endless:
        def __len__(self) -> int:
            raise TypeError("endless")

    ends: tuple[LocalSender[object], LocalReceiver[object]] = open_channel(
        ChannelParameters(row_permits=4, max_chunk_cost=3)
    )
    sender, receiver = ends
    for wrong, error in (
        (Endless(), InvalidParametersError),
        ({1, 2, 3, 4}, InvalidParametersError),
        ({1: 1, 2: 2, 3: 3, 4: 4}.values(), UnsplittableChunkError),
    ):
        queue: deque[object] = deque([b"a", wrong, b"b"])
        with pytest.raises(error):
            await sender.send_many(queue)
        assert list(queue) == [wrong, b"b"]
        assert receiver.receive_nowait().payload == b"a"
    with pytest.raises(WouldBlock):
        receiver.receive_nowait()


async def test_more_than_are_held_cannot_be_consumed() -> None:
    sender, receiver = channel()
    sender.send_nowait(b"a")
    sender.send_nowait(b"b")
    await receiver.take_many()
    with pytest.raises(LocalProtocolError, match="cannot consume 3 messages: only 2 were taken"):
        receiver.consume(3)
    assert sender.statistics().inbox_rows == 2
    receiver.consume(2)
    with pytest.raises(LocalProtocolError, match="no message was taken"):
        receiver.consume(1)


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "3"])
async def test_a_number_of_messages_is_a_positive_whole_number(count: Any) -> None:
    sender, receiver = channel()
    sender.send_nowait(b"x")
    for many in (receiver.receive_many, receiver.take_many):
        with pytest.raises(InvalidParametersError, match="max_messages must be at least 1, and a whole number"):
            await many(count)
    assert receiver.take_nowait().payload == b"x"
    with pytest.raises(InvalidParametersError, match="messages must be at least 1, and a whole number"):
        receiver.consume(count)
    receiver.consume()
