"""``dispatch``: channels of an exchange as one stream, each row in the channel of its key."""

import asyncio
from typing import NoReturn

import pyarrow as pa
import pytest

from permitflow import ChannelAbortedError, Kind, Message
from permitflow.client import dispatch, put
from permitflow.client.blocking_dispatch import open_dispatch
from permitflow.dispatch import spread, vnode_of
from permitflow.errors import DispatchError, InvalidParametersError, UnknownChannelError
from permitflow.exchange.books.bridge import BridgeState
from permitflow.names import stream_channels
from permitflow.stream.frames import EndOutcome
from tests.support.number_streams import SCHEMA, batch, numbers, read, serving

CHANNELS = stream_channels("orders", 3)


def barriers(messages: list[Message[pa.RecordBatch]]) -> list[object]:
    return [message.payload for message in messages if message.kind is Kind.BARRIER]


async def dispatch_for_ever(address: str) -> NoReturn:
    async with dispatch(address, CHANNELS, SCHEMA, key=["n"]) as dispatcher:
        while True:
            await dispatcher.send(batch(*range(20)))


async def test_two_upstreams_bring_equal_keys_to_the_same_channels() -> None:
    async with serving(names=CHANNELS) as (_, server), asyncio.TaskGroup() as group:
        reading = [group.create_task(read(server.address, channel)) for channel in CHANNELS]
        outcomes = []
        for upstream in (0, 1):
            async with dispatch(server.address, CHANNELS, SCHEMA, key=["n"]) as dispatcher:
                await dispatcher.send(batch(*range(20)))
                await dispatcher.send_barrier(upstream)
                outcomes.append(await dispatcher.end(closes_channels=upstream == 1))
    assert outcomes[1] == (EndOutcome.CONSUMED,) * 3
    owners = spread(3)
    for channel, task in enumerate(reading):
        mine = [number for number in range(20) if owners[vnode_of([number])] == channel]
        assert numbers(task.result()) == [*mine, *mine]
        assert barriers(task.result()) == [0, 1]


async def test_leaving_without_an_end_aborts_every_channel() -> None:
    async with serving(names=CHANNELS) as (_, server):
        reading = [asyncio.create_task(read(server.address, channel)) for channel in CHANNELS]
        async with dispatch(server.address, CHANNELS, SCHEMA, key=["n"]) as dispatcher:
            await dispatcher.send(batch(*range(20)))
        for task in reading:
            with pytest.raises(ChannelAbortedError):
                await task


async def test_a_consumer_that_needs_no_more_ends_the_stream() -> None:
    async with serving(names=CHANNELS) as (exchange, server):
        reading = [asyncio.create_task(read(server.address, channel)) for channel in CHANNELS[:2]]
        await exchange.channel(CHANNELS[2]).receiver.cancel("enough")
        with pytest.raises(DispatchError, match=r"orders/2.*enough"):
            await dispatch_for_ever(server.address)
        for task in reading:
            with pytest.raises(ChannelAbortedError):
                await task


async def test_what_cannot_work_is_refused_before_anything_is_sent() -> None:
    async with serving(names=CHANNELS) as (_, server):
        for channels, key, told in (
            (CHANNELS, ["k"], "must be a column"),
            ((), ["n"], "from 1 to 256"),
            ("orders/0", ["n"], "must be names"),
        ):
            with pytest.raises(InvalidParametersError, match=told):
                await dispatch(server.address, channels, SCHEMA, key=key).__aenter__()
        with pytest.raises(UnknownChannelError):
            await dispatch(server.address, ["orders/9"], SCHEMA, key=["n"]).__aenter__()


async def test_a_stream_with_more_channels_than_are_fed_is_refused() -> None:
    async with serving(names=(*CHANNELS, "orders/10", "orders/011", "other/12")) as (_, server):
        address, rule = server.address, "channels must be at least 11, because the exchange has orders/10"
        with pytest.raises(InvalidParametersError, match=rule):
            await dispatch(address, CHANNELS, SCHEMA, key=["n"]).__aenter__()
        with pytest.raises(InvalidParametersError, match=rule):
            await asyncio.to_thread(open_dispatch, address, CHANNELS, SCHEMA, key=["n"])
        async with dispatch(address, CHANNELS, SCHEMA, key=["n"], is_whole=False) as dispatcher:
            await dispatcher.end()
        with pytest.raises(InvalidParametersError, match="must be one of the 3 channels"):
            await put(address, "orders/10", SCHEMA, spread_over=3).__aenter__()


async def test_a_channel_that_is_not_there_leaves_the_others_as_they_are() -> None:
    async with serving(names=("a",)) as (exchange, server):
        address = server.address
        with pytest.raises(UnknownChannelError, match="b"):
            async with dispatch(address, ["a", "b"], SCHEMA, key=["n"]):
                pass
        with pytest.raises(UnknownChannelError, match="b"):
            await asyncio.to_thread(open_dispatch, address, ["a", "b"], SCHEMA, key=["n"])
        assert exchange.statistics()[0].state == BridgeState.OPEN
