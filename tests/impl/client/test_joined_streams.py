"""Joined reads of streams: the asyncio client over every path, and the blocking one."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Kind, LocalSender, Message
from permitflow.client import JoinedChunks, RemoteReceiver, get
from permitflow.errors import ChannelClosedError, EndOfStream, InvalidParametersError
from tests.support.number_streams import CHANNEL, batch, serving
from tests.support.served_exchange import ServedExchange, numbers, send_all, source_of, values

WINDOW = ChannelParameters(row_permits=64, permit_batch=16, max_chunk_cost=16)
over_every_path = pytest.mark.usefixtures("path")


@asynccontextmanager
async def stream(
    parameters: ChannelParameters = WINDOW,
) -> AsyncIterator[tuple[LocalSender[pa.RecordBatch], RemoteReceiver]]:
    """What an exchange is fed with, and its consumer."""
    async with serving(parameters) as (exchange, server), get(server.address, CHANNEL) as receiver:
        yield exchange.channel(CHANNEL).sender, receiver


def chunks(*sizes: int) -> deque[pa.RecordBatch]:
    """Numbered on from one to the next."""
    starts = [sum(sizes[:position]) for position in range(len(sizes))]
    return deque(batch(*range(start, start + size)) for start, size in zip(starts, sizes, strict=True))


async def all_joined(receiver: RemoteReceiver) -> list[JoinedChunks | Message[Any]]:
    found: list[JoinedChunks | Message[Any]] = []
    try:
        while True:
            found.append(await receiver.receive_joined())
    except EndOfStream:
        return found


def content(found: Sequence[JoinedChunks | Message[Any]]) -> list[int]:
    return [n for each in found if isinstance(each, JoinedChunks) for n in each.batch.column(0).to_pylist()]


@over_every_path
async def test_chunks_sent_together_are_one_batch_that_tells_their_bounds() -> None:
    async with stream() as (sender, receiver):
        await sender.send_many(chunks(3, 1, 4, 1, 5))
        await sender.end()
        found = await all_joined(receiver)
        assert content(found) == [*range(14)]
        assert [rows for each in found if isinstance(each, JoinedChunks) for rows in each.rows] == [3, 1, 4, 1, 5]
        assert len(found) < 5
        statistics = receiver.statistics()
        assert (statistics.consumed_chunks, statistics.consumed_rows) == (5, 14)


@over_every_path
async def test_barriers_and_watermarks_stay_in_their_place() -> None:
    async with stream() as (sender, receiver):
        await sender.send_many(chunks(2, 2))
        await sender.send_barrier("epoch")
        await sender.send_many(chunks(2, 2))
        sender.send_watermark(7)
        await sender.end()
        found = await all_joined(receiver)
        kinds = [Kind.CHUNK if isinstance(each, JoinedChunks) else each.kind for each in found]
        at = kinds.index(Kind.BARRIER)
        assert content(found[:at]) == content(found[at:]) == [0, 1, 2, 3]
        assert kinds[-1] is Kind.WATERMARK


@over_every_path
@pytest.mark.parametrize("max_rows", [1, 3, 7, None])
async def test_a_read_returns_no_more_rows_than_wanted_but_whole_chunks(max_rows: int | None) -> None:
    async with stream() as (sender, receiver):
        sending = asyncio.ensure_future(sender.send_many(chunks(*[1, 2, 5] * 20)))
        found: list[JoinedChunks | Message[Any]] = []
        while len(content(found)) < 160:
            found.append(await receiver.receive_joined(max_rows))
        assert content(found) == [*range(160)]
        for each in found:
            assert isinstance(each, JoinedChunks)
            assert max_rows is None or len(each) == 1 or each.num_rows <= max_rows
        await sending


@pytest.mark.parametrize("max_rows", [0, -1, 1.5, True])
async def test_only_a_number_of_rows_can_be_wanted(max_rows: int) -> None:
    async with stream() as (sender, receiver):
        await sender.send(batch(1))
        for way in receiver.receive_joined, receiver.take_joined:
            with pytest.raises(InvalidParametersError, match="max_rows"):
                await way(max_rows)
        assert content([await receiver.receive_joined()]) == [1]
        receiver.close()
        with pytest.raises(ChannelClosedError):
            await receiver.receive_joined()


def test_a_blocking_source_hands_chunks_over_jointly(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    send_all(exchange, channel, [numbers(start, start + 4) for start in range(0, 64, 4)])
    with source_of(exchange, channel) as source:
        found = list(source.joined(max_rows=20))
    assert values([joined.batch for joined in found]) == [*range(64)]
    assert [rows for joined in found for rows in joined.rows] == [4] * 16
    assert all(joined.num_rows <= 20 for joined in found)
    assert (source.statistics().consumed_chunks, source.statistics().consumed_rows) == (16, 64)
