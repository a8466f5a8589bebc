"""Who may write under a producer's name: one at a time, although the older one's process may hear nothing any more."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pyarrow as pa
import pytest

from permitflow.errors import PermitflowError, ProducerReplacedError
from permitflow.exchange.replay_channel import ReplayChannel, ReplayProducer
from permitflow.protocol.control import ChannelState
from permitflow.protocol.frames import Abort, Put
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.permits import ChannelParameters
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.same_host import SameHost
from tests.support.kept_rows import SCHEMA, keeping, rows
from tests.support.number_streams import turns

LONGEST_SECONDS = 20.0
PUT = Put(1, "c", producer="p")


class Deaf:
    """The exchange's end of a producer that has sent one chunk, and hears nothing any more."""

    shares_memory = False

    ended_with = None

    async def meet(self, same_host: SameHost) -> None:
        """It is on another host."""

    def accept(
        self, parameters: ChannelParameters, *, schema: pa.Schema, stream: str, first_row: int | None = None
    ) -> None:
        """It does not look at the agreement."""

    async def take_many(self, most: int) -> list[Message[pa.RecordBatch]]:
        """Its chunk."""
        return [Message(Kind.CHUNK, rows(100, 102), 2)]

    def break_off(self, error: PermitflowError) -> None:
        """Nobody hears it."""


def dialled(channel: ReplayChannel, peer: str) -> ReplayProducer:
    return channel.producing(cast("RemoteReceiver", Deaf()), peer, SameHost.NEVER)


async def gave_up(work: Coroutine[Any, Any, Any]) -> None:
    """Somebody who waits has hung up."""
    waiting = asyncio.create_task(work)
    await turns()
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_who_gives_up_waiting_for_a_name_takes_it_from_nobody() -> None:
    channel = keeping()
    await channel.claim("p", dialled(channel, "first"))
    second = dialled(channel, "second")
    await gave_up(channel.claim("p", second))
    channel.disclaim("p", second)
    await gave_up(channel.claim("p", dialled(channel, "third")))  # it waits for the first one, too


async def test_who_is_replaced_keeps_nothing_and_breaks_nothing_though_its_process_goes_on() -> None:
    channel = keeping()
    await channel.append(rows(0, 8))
    older = dialled(channel, "older")
    serving = asyncio.create_task(older.serve(PUT, SCHEMA))
    await turns()
    assert channel.waiting.running == 1
    async with asyncio.timeout(LONGEST_SECONDS):
        assert await channel.claim("p", dialled(channel, "newer")) == 0
    with pytest.raises(ProducerReplacedError):
        await serving
    await older.give_up(Abort("no more paper"))
    await channel.acknowledge(8)
    assert channel.position().next_row == 8
    assert channel.state is ChannelState.OPEN
