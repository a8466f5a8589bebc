"""When a peer is killed or stopped in the middle of a stream, the others hear which one it was.

Of a channel that keeps its rows, the next producer of the same name goes on.
"""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.protocol.control import ChannelState
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.replay import Retention
from tests.impl.exchange.conftest import Endpoint
from tests.support.endpoints import CHANNEL
from tests.support.kept_rows import has_rows
from tests.support.served import served

# Guards against hangs: keep-alive misses a peer within 6 s on an idle machine.
PATIENCE_SECONDS = 60.0

Start = Callable[..., Endpoint]


class Trio(NamedTuple):
    """A producer and a consumer with an exchange between them, in the middle of a stream."""

    serve: Endpoint
    produce: Endpoint
    consume: Endpoint
    address: str


def streaming(start: Start, listen: str) -> Trio:
    serve = start("serve", "--listen", listen)
    address = serve.hears("ready")["address"]
    consume = start("consume", address)
    produce = start("produce", address, "--chunk-rows", 10, "--pause-seconds", 0.002)
    consume.hears("ready")
    produce.hears("ready")
    # A consumer that has not taken anything may be replaced.
    consume.hears("flowing")
    return Trio(serve, produce, consume, address)


def check_news(trio: Trio, victim: str) -> None:
    """The other processes have heard which one is gone, and have ended."""
    if victim != "produce":
        heard = trio.produce.ends(PATIENCE_SECONDS)
        who = f"the exchange at {trio.address}" if victim == "serve" else f"the consumer of channel '{CHANNEL}' at "
        assert heard["type"] == "PeerGoneError"
        assert who in heard["message"]
        assert "is gone: " in heard["message"]
    if victim != "consume":
        heard = trio.consume.ends(PATIENCE_SECONDS)
        who = f"the exchange at {trio.address}" if victim == "serve" else "the producer at "
        assert heard["type"] == ("PeerGoneError" if victim == "serve" else "ChannelAbortedError")
        assert who in heard["message"]
        assert "is gone: " in heard["message"]


@pytest.mark.parametrize("victim", ["serve", "produce", "consume"])
def test_the_other_processes_hear_which_one_was_killed(start: Start, victim: str, listen: str) -> None:
    trio = streaming(start, listen)
    getattr(trio, victim).signal(signal.SIGKILL)
    check_news(trio, victim)
    left = [end for name, end in zip(Trio._fields, trio[:3], strict=False) if name not in (victim, "serve")]
    assert not any(end.watch.is_running() for end in left)
    if victim != "serve":
        assert trio.serve.watch.is_running()
        assert trio.serve.watch.children() == []


def test_the_other_processes_hear_which_one_was_stopped(start: Start, listen: str) -> None:
    """The kernel keeps the connections of a stopped process: only a missing answer shows that it is gone."""
    trios = {victim: streaming(start, listen) for victim in ("serve", "produce", "consume")}
    for victim, trio in trios.items():
        getattr(trio, victim).signal(signal.SIGSTOP)
    for victim, trio in trios.items():
        check_news(trio, victim)


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


async def test_no_row_of_a_producer_that_is_killed_and_stopped_is_lost_or_comes_twice(
    start: Start, listen: str
) -> None:
    """A stopped process has open connections: its successor need not wait until it is missed."""
    found: list[int] = []
    firsts: list[int] = []
    kept = served(CHANNEL, parameters=WINDOW, retention=Retention.REPLAY, listen=listen)
    async with kept as (exchange, address):
        channel = exchange.replay_channel(CHANNEL)
        for number in (signal.SIGKILL, signal.SIGSTOP, None):
            producer = start("resume", address, "--rows", ROWS, "--chunk-rows", CHUNK_ROWS)
            firsts.append((await asyncio.to_thread(producer.hears, "ready"))["first_row"])
            if number is None:
                await read_until(channel, found, lambda: channel.state is ChannelState.ENDED)
                await read_until(channel, found, lambda: len(found) == channel.position().next_row)
                continue
            enough = firsts[-1] + ROWS // 4
            await read_until(channel, found, partial(has_rows, channel, enough))
            producer.signal(number)
            assert channel.state is ChannelState.OPEN
    assert found == list(range(ROWS))
    assert firsts == sorted(set(firsts)), "each went on where the one before had got to"
    assert channel.books.peak_kept_rows <= WINDOW.row_permits
