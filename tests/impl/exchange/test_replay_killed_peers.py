"""Producers of a channel that keeps its rows are killed or stopped: the next one of the same name goes on."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from permitflow.exchange.registry import Exchange
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.control import ChannelState
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.testing.endpoints import CHANNEL

ROWS = 40_000
CHUNK_ROWS = 37
WINDOW = ChannelParameters(row_permits=512, permit_batch=64)


async def read_until(channel: ReplayChannel, found: list[int], is_enough: Callable[[], bool]) -> None:
    """Read and acknowledge what comes, as one consumer that is as fast as it can be."""
    while not is_enough():
        next_row = channel.position().next_row
        async for batch in channel.read(to_row=next_row):
            found += batch.column(0).to_pylist()
        await channel.acknowledge(next_row)
        await asyncio.sleep(0)


def has_rows(channel: ReplayChannel, next_row: int) -> bool:
    """Have so many rows come?"""
    return channel.position().next_row >= next_row


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "tcp://127.0.0.1:0"])
async def test_no_row_of_a_producer_that_is_killed_and_stopped_is_lost_or_comes_twice(
    start: Callable[..., Any], listen: str
) -> None:
    """A stopped process has open connections: whoever comes in its place need not wait until it is missed."""

    exchange = Exchange()
    channel = exchange.add_channel(CHANNEL, WINDOW, retention=Retention.REPLAY)
    found: list[int] = []
    firsts: list[int] = []
    async with ExchangeServer(exchange, listen) as server:
        for number in (signal.SIGKILL, signal.SIGSTOP, None):
            producer = start("resume", server.address, "--rows", ROWS, "--chunk-rows", CHUNK_ROWS)
            firsts.append((await asyncio.to_thread(producer.hears, "ready"))["first_row"])
            if number is None:
                await read_until(channel, found, lambda: channel.log.state is ChannelState.ENDED)
                await read_until(channel, found, lambda: len(found) == channel.position().next_row)
                continue
            enough = firsts[-1] + ROWS // 4
            await read_until(channel, found, partial(has_rows, channel, enough))
            producer.signal(number)
            assert channel.log.state is ChannelState.OPEN
    assert found == list(range(ROWS))
    assert firsts == sorted(set(firsts)), "each went on where the one before had got to"
    assert channel.log.books.peak_kept_rows <= WINDOW.row_permits
