"""The dispatcher over channels: order, slow channels, barriers, cancellation, and channels that are gone."""

import asyncio
from collections.abc import Sequence

import pytest

from permitflow import (
    ChannelAbortedError,
    ChannelClosedError,
    ChannelParameters,
    EndOfStream,
    Kind,
    LocalReceiver,
    LocalSender,
    WouldBlock,
    open_channel,
)
from permitflow.dispatch import HashDispatcher, rows_by_key, spread, vnode_of
from permitflow.errors import DispatchError
from permitflow.stages import Source
from tests.support.turns import turns

Row = tuple[int, int]


def key_of(row: Row) -> list[int]:
    return [row[0]]


SPLIT = rows_by_key(key_of)


def keys_of(channel: int, channels: int, count: int = 1) -> list[int]:
    """Keys that belong to a channel."""
    owners = spread(channels)
    return [key for key in range(2_000) if owners[vnode_of([key])] == channel][:count]


class Channels:
    """Local channels with small windows, and the dispatcher into them."""

    def __init__(self, count: int, row_permits: int = 4) -> None:
        self.row_permits = row_permits
        opened = [self.open() for _ in range(count)]
        self.receivers = [receiver for _, receiver in opened]
        self.dispatcher: HashDispatcher[list[Row]] = HashDispatcher([sender for sender, _ in opened], SPLIT)

    def open(self) -> tuple[LocalSender[list[Row]], LocalReceiver[list[Row]]]:
        return open_channel(ChannelParameters(row_permits=self.row_permits, permit_batch=1, barrier_permits=1))

    def read(self, channel: int) -> list[object]:
        """What is in a channel: rows, and barriers by their number."""
        found: list[object] = []
        while True:
            try:
                message = self.receivers[channel].receive_nowait()
            except WouldBlock:
                return found
            except EndOfStream:
                return [*found, "end"]
            found += message.payload if message.kind is Kind.CHUNK else [message.payload]


def rows(keys: Sequence[int], first: int = 0) -> list[Row]:
    return [(key, first + number) for number, key in enumerate(keys)]


LEFT, RIGHT = keys_of(0, 2, 12), keys_of(1, 2, 12)


async def test_rows_barriers_and_the_end_reach_their_channels_in_order() -> None:
    channels = Channels(2)
    await channels.dispatcher.send([(LEFT[0], 1), (RIGHT[0], 2), (LEFT[1], 3)])
    await channels.dispatcher.send_barrier(7)
    await channels.dispatcher.send_watermark(9)
    await channels.dispatcher.send([(RIGHT[0], 4)])
    assert await channels.dispatcher.end() == (None, None)
    assert channels.read(0) == [(LEFT[0], 1), (LEFT[1], 3), 7, 9, "end"]
    assert channels.read(1) == [(RIGHT[0], 2), 7, 9, (RIGHT[0], 4), "end"]


async def test_a_slow_channel_delays_no_other_part_of_its_chunk() -> None:
    channels = Channels(2)
    await channels.dispatcher.send(rows(LEFT[:4]))
    sending = asyncio.create_task(channels.dispatcher.send([(LEFT[4], 4), (RIGHT[0], 5)]))
    behind = asyncio.create_task(channels.dispatcher.send([(RIGHT[1], 6)]))
    await turns()
    assert channels.read(1) == [(RIGHT[0], 5)], "the chunk behind waits, however much room there is"
    assert not sending.done()
    channels.read(0)
    await sending
    await behind
    assert channels.read(1) == [(RIGHT[1], 6)]


async def test_a_barrier_waits_for_the_channel_that_has_one() -> None:
    channels = Channels(2)
    await channels.dispatcher.send_barrier(1)
    assert channels.read(1) == [1]
    sending = asyncio.create_task(channels.dispatcher.send_barrier(2))
    await turns()
    assert (channels.read(1), sending.done()) == ([2], False)
    assert channels.read(0) == [1]
    await sending
    assert channels.read(0) == [2]
    await channels.dispatcher.end()
    assert (channels.read(0), channels.read(1)) == (["end"], ["end"]), "no barrier twice"


async def test_a_watermark_leaves_at_once() -> None:
    channels = Channels(2)
    await channels.dispatcher.send_watermark(9)
    assert (channels.read(0), channels.read(1)) == ([9], [9])


async def test_a_chunk_above_the_window_of_a_channel_leaves_in_slices() -> None:
    channels = Channels(2)
    sending = asyncio.create_task(channels.dispatcher.send(rows(LEFT)))
    found: list[object] = []
    while not sending.done():
        found += channels.read(0)
        await turns()
    assert [*found, *channels.read(0)] == rows(LEFT)


async def test_a_new_channel_begins_with_the_barrier_that_adds_it() -> None:
    channels = Channels(1, row_permits=16)
    (left, moved) = keys_of(0, 2)[0], keys_of(1, 2)[0]
    await channels.dispatcher.send([(left, 0), (moved, 1)])
    sender, receiver = channels.open()
    channels.receivers.append(receiver)
    await channels.dispatcher.send_barrier("more", added=[sender])
    await channels.dispatcher.send([(left, 2), (moved, 3)])
    assert channels.read(0) == [(left, 0), (moved, 1), "more", (left, 2)]
    assert channels.read(1) == ["more", (moved, 3)]


@pytest.mark.parametrize("has_begun", [True, False], ids=["a slice has left", "nothing has left"])
@pytest.mark.parametrize("next_call", ["send", "send_barrier", "send_watermark", "end"])
async def test_after_a_cancelled_call_the_rest_leaves_first(next_call: str, has_begun: bool) -> None:
    channels = Channels(2)
    await channels.dispatcher.send(rows(LEFT[:4]))
    sending = asyncio.create_task(channels.dispatcher.send([*rows(LEFT[4:10], 4), (RIGHT[0], 10)]))
    await turns()
    found = channels.read(0) if has_begun else []
    await turns()
    sending.cancel()
    await asyncio.wait({sending})
    assert sending.cancelled()
    argument: object = [(LEFT[0], 99)] if next_call == "send" else 99
    finishing = asyncio.create_task(getattr(channels.dispatcher, next_call)(*[argument] * (next_call != "end")))
    while not finishing.done():
        found += channels.read(0)
        await turns()
    await finishing
    last = {"send": (LEFT[0], 99), "end": "end"}.get(next_call, 99)
    assert [*found, *channels.read(0)] == [*rows(LEFT[:10]), last]
    assert channels.read(1)[0] == (RIGHT[0], 10)


async def test_a_call_cancelled_in_line_has_sent_nothing() -> None:
    channels = Channels(2)
    await channels.dispatcher.send(rows(LEFT[:4]))
    first = asyncio.create_task(channels.dispatcher.send([(LEFT[4], 4)]))
    second = asyncio.create_task(channels.dispatcher.send([(RIGHT[0], 5)]))
    await turns()
    second.cancel()
    channels.read(0)
    await first
    await asyncio.wait({second})
    assert channels.read(1) == []


@pytest.mark.parametrize("is_waiting", [False, True], ids=["before", "while another channel is waited for"])
async def test_a_channel_whose_reader_is_gone_ends_the_stream(is_waiting: bool) -> None:
    channels = Channels(3)
    slow, (lost,) = keys_of(0, 3, 5), keys_of(1, 3)
    await channels.dispatcher.send(rows(slow[:4]))
    if is_waiting:
        asyncio.get_running_loop().call_soon(channels.receivers[1].close)
    else:
        channels.receivers[1].close()
    with pytest.raises(DispatchError) as caught:
        await channels.dispatcher.send([*rows(slow[4:] * is_waiting), (lost, 5)])
    assert caught.value.channel == channels.dispatcher.ends[1].name
    for other in (0, 2):
        with pytest.raises(ChannelAbortedError, match="takes no more rows"):
            channels.read(other)
    with pytest.raises(DispatchError):
        await channels.dispatcher.send([(slow[0], 0)])
    with pytest.raises(DispatchError):
        await channels.dispatcher.end()


async def test_nothing_is_sent_behind_the_end_or_after_an_abort() -> None:
    ended, aborted = Channels(2), Channels(2)
    await ended.dispatcher.end()
    await ended.dispatcher.end()
    with pytest.raises(ChannelClosedError):
        await ended.dispatcher.send([(LEFT[0], 0)])
    aborted.dispatcher.abort("enough")
    with pytest.raises(ChannelClosedError):
        await aborted.dispatcher.send_barrier()
    for receiver in aborted.receivers:
        with pytest.raises(ChannelAbortedError, match="enough"):
            receiver.receive_nowait()


async def test_a_stream_of_stages_is_dispatched_with_its_barriers() -> None:
    channels = Channels(2)
    sender, receiver = channels.open()
    sender.send_nowait([(LEFT[0], 1), (RIGHT[0], 2)])
    sender.send_barrier_nowait(7)
    sender.send_watermark(9)
    await sender.end()
    assert await Source.receive(receiver).dispatch_to(channels.dispatcher) == (None, None)
    assert channels.read(0) == [(LEFT[0], 1), 7, 9, "end"]
    assert channels.read(1) == [(RIGHT[0], 2), 7, 9, "end"]


async def test_a_stream_of_stages_hears_of_a_lost_channel() -> None:
    channels = Channels(2)
    _sender, receiver = channels.open()
    asyncio.get_running_loop().call_soon(channels.receivers[1].close)
    with pytest.raises(DispatchError):
        await Source.receive(receiver).dispatch_to(channels.dispatcher)
    with pytest.raises(ChannelAbortedError):
        channels.read(0)


async def test_statistics_tell_which_channel_makes_the_stream_wait() -> None:
    channels = Channels(2)
    await channels.dispatcher.send(rows(LEFT[:4]))
    sending = asyncio.create_task(channels.dispatcher.send([(LEFT[4], 4)]))
    await turns()
    left, right = channels.dispatcher.statistics()
    assert (left.waiting_sends, right.waiting_sends) == (1, 0)
    channels.dispatcher.close()
    with pytest.raises(ChannelClosedError):
        await sending
