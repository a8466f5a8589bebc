"""A chunk above max_chunk_cost: split, so that the row bound is exact, or admitted whole, as was agreed."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import (
    ChannelParameters,
    InvalidParametersError,
    LocalReceiver,
    LocalSender,
    Oversize,
    WouldBlock,
    open_channel,
)
from tests.support.turns import turns


def channel(
    row_permits: int = 8, permit_batch: int = 2, oversize: Oversize = Oversize.SPLIT
) -> tuple[LocalSender[Any], LocalReceiver[Any]]:
    return open_channel(ChannelParameters(row_permits=row_permits, permit_batch=permit_batch, oversize=oversize))


@given(rows=st.integers(0, 100), row_permits=st.integers(2, 12))
def test_slices_make_up_the_chunk_and_never_exceed_the_permits(rows: int, row_permits: int) -> None:
    async def test() -> None:
        sender, receiver = channel(row_permits, 1)
        sending = asyncio.ensure_future(sender.send(list(range(rows))))
        await asyncio.sleep(0)
        await sender.end()
        received = [message async for message in receiver]
        await sending

        assert [row for message in received for row in message.payload] == list(range(rows))
        assert all(message.rows <= row_permits - 1 for message in received)
        assert receiver.statistics().peak_inbox_rows <= row_permits
        assert sender.statistics().peak_rows_held <= row_permits

    asyncio.run(test())


def test_without_waiting_all_slices_leave_or_none() -> None:
    sender, receiver = channel()
    with pytest.raises(WouldBlock, match="needs 9 row permits; 8 of 8 are unspent"):
        sender.send_nowait(b"123456789")
    assert sender.statistics().sent_chunks == 0

    sender.send_nowait(b"12345678")
    assert [receiver.receive_nowait().payload for _ in range(2)] == [b"123456", b"78"]
    sender.send_nowait(b"x")
    with pytest.raises(WouldBlock):
        sender.send_nowait(b"12345678")
    assert receiver.receive_nowait().payload == b"x"
    with pytest.raises(WouldBlock, match="no message"):
        receiver.receive_nowait()


async def test_a_split_send_cancelled_before_its_first_slice_sent_nothing() -> None:
    sender, receiver = channel()
    sender.send_nowait(b"xxx")
    split = asyncio.ensure_future(sender.send(b"a" * 20))
    small = asyncio.ensure_future(sender.send(b"yyyyyy"))
    await turns()
    split.cancel()
    await turns()

    assert split.cancelled()
    assert receiver.receive_nowait().payload == b"xxx"
    await small
    assert receiver.receive_nowait().payload == b"yyyyyy"
    assert sender.statistics().gauges["row_permits_here"] == 8
    assert sender.statistics().waiting_sends == 0


@pytest.mark.parametrize("received_before", [0, 1, 2])
async def test_a_split_send_that_is_cancelled_later_is_finished_by_itself(received_before: int) -> None:
    sender, receiver = channel()
    split = asyncio.ensure_future(sender.send(b"abcdefghijklmnopqrst"))
    await turns()
    after = asyncio.ensure_future(sender.send(b"zz"))
    received = [receiver.receive_nowait().payload for _ in range(received_before)]
    split.cancel()
    await turns()
    assert split.cancelled()

    while not after.done() or sender.statistics().inbox_rows:
        received.append((await receiver.receive()).payload)
    assert received == [b"abcdef", b"ghijkl", b"mnopqr", b"st", b"zz"]
    assert sender.statistics().gauges["row_permits_here"] == 8


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["awaited", "cancelled"])
async def test_the_end_comes_after_the_last_slice(is_cancelled: bool) -> None:
    sender, receiver = channel()
    split = asyncio.ensure_future(sender.send(b"abcdefghijklmnopqrst"))
    await turns()
    if is_cancelled:
        split.cancel()
    await sender.end()
    assert b"".join([message.payload async for message in receiver]) == b"abcdefghijklmnopqrst"
    await asyncio.wait([split])
    assert split.cancelled() == is_cancelled


async def test_rows_that_contradict_a_split_chunk_are_refused() -> None:
    sender, receiver = channel()
    rule = "rows must equal the chunk's own 3 where it exceeds max_chunk_cost = 6 and is split, not 7"
    with pytest.raises(InvalidParametersError, match=rule):
        await sender.send(b"abc", rows=7)
    with pytest.raises(InvalidParametersError, match=rule):
        sender.send_nowait(b"abc", rows=7)
    await sender.send(b"abc", rows=6)
    assert receiver.receive_nowait().rows == 6


@given(sizes=st.lists(st.integers(0, 20), min_size=1, max_size=20))
def test_whole_chunks_never_exceed_the_published_bound(sizes: list[int]) -> None:
    """R + (R div C) (S - C) rows, for R permits, C = max_chunk_cost and largest chunk S."""

    async def test() -> None:
        sender, receiver = channel(8, 5, Oversize.WHOLE)
        sends = [asyncio.ensure_future(sender.send("x", rows)) for rows in sizes]
        for _ in sizes:
            await receiver.receive()
        await asyncio.gather(*sends)

        most = sender.statistics().peak_inbox_rows
        assert most <= 8 + (8 // 3) * max(0, max(sizes) - 3)
        assert sender.statistics().gauges["row_permits_here"] == 8

    asyncio.run(test())
