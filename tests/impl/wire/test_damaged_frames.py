"""Whichever frame of HTTP/2 is damaged unnoticed, both ends of a stream end in time, and what was read is right."""

import asyncio

import pytest

from permitflow import ChannelParameters
from permitflow.client import SameHost, get, put
from permitflow.errors import PermitflowError
from permitflow.exchange import Exchange, ExchangeServer
from tests.support.http2_frames import Damage, Flip, flipping
from tests.support.number_streams import CHANNEL, SCHEMA, batch, numbers

CHUNKS, ROWS = 4, 4
ALL = list(range(CHUNKS * ROWS))
SILENCE_SECONDS = 3.0
IN_TIME_SECONDS = 30.0
"""Several deadlines, on a busy machine."""


async def produce(address: str) -> None:
    async with put(
        address,
        CHANNEL,
        SCHEMA,
        same_host=SameHost.NEVER,
        agreement_timeout_seconds=SILENCE_SECONDS,
        silence_seconds=SILENCE_SECONDS,
    ) as sender:
        for start in range(0, len(ALL), ROWS):
            await sender.send(batch(*ALL[start : start + ROWS]))
        await sender.end()


async def consume(address: str, into: list[int]) -> None:
    async with get(
        address,
        CHANNEL,
        same_host=SameHost.NEVER,
        agreement_timeout_seconds=SILENCE_SECONDS,
        silence_seconds=SILENCE_SECONDS,
    ) as receiver:
        async for message in receiver:
            into += numbers([message])


async def stream_with(lossy_end: str, flip: Flip) -> tuple[list[int], list[BaseException | None]]:
    """The numbers read, and how both ends have ended, the one with the damage first."""
    exchange = Exchange(parameters=ChannelParameters(row_permits=2 * ROWS, permit_batch=ROWS, max_chunk_cost=ROWS))
    exchange.add_channel(CHANNEL, schema=SCHEMA)
    read: list[int] = []
    async with (
        ExchangeServer(exchange, handshake_seconds=SILENCE_SECONDS, silence_seconds=SILENCE_SECONDS) as server,
        flipping(server.address, flip) as lossy,
        asyncio.timeout(IN_TIME_SECONDS),
    ):
        ends = [
            asyncio.create_task(produce(lossy if lossy_end == "producer" else server.address)),
            asyncio.create_task(consume(lossy if lossy_end == "consumer" else server.address, read)),
        ]
        if lossy_end == "consumer":
            ends.reverse()
        await asyncio.wait(ends[:1])
        if flip.is_of_a_request:
            ends[1].cancel()  # the exchange has never heard of the first end, and another may come
        await asyncio.wait(ends)
    return read, [None if end.cancelled() else end.exception() for end in ends]


@pytest.mark.parametrize("damage", Damage)
@pytest.mark.parametrize("lossy_end", ["producer", "consumer"])
async def test_both_ends_end_in_time_whichever_frame_is_damaged(damage: Damage, lossy_end: str) -> None:
    whole = Flip(damage, "up", -1)
    assert await stream_with(lossy_end, whole) == (ALL, [None, None])
    assert min(whole.passed.values()) > CHUNKS
    flips = [Flip(damage, direction, number) for direction, count in whole.passed.items() for number in range(count)]
    for read, ended in await asyncio.gather(*(stream_with(lossy_end, flip) for flip in flips)):  # they mostly wait
        assert read == ALL[: len(read)]
        assert all(error is None or isinstance(error, PermitflowError) for error in ended), ended
        assert read == ALL or ended[0] is not None
