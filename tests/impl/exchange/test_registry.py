"""The channels of an exchange: names, what is told about them, and what becomes of those that are removed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import ChannelAbortedError, InvalidParametersError, UnknownChannelError
from permitflow.exchange.registry import Exchange, stream_channels
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.statistics import BridgeState, Direction
from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters, kept_parameters
from permitflow.protocol.recording import End, Recorder
from permitflow.protocol.replay import Retention
from permitflow.transports.grpc_aio import get, put

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
BATCH = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})


async def pass_one_chunk(address: str, name: str) -> None:
    async with asyncio.TaskGroup() as group:

        async def read() -> None:
            async with get(address, name) as receiver:
                assert [message.rows async for message in receiver] == [3]

        group.create_task(read())
        async with put(address, name, BATCH.schema) as sender:
            await sender.send(BATCH)
            await sender.end()


def test_the_channels_of_a_stream_are_numbered() -> None:
    assert stream_channels("q12", 3) == ("q12/0", "q12/1", "q12/2")
    with pytest.raises(InvalidParametersError):
        stream_channels("q12", 0)


def test_parameters_that_nobody_chose_depend_on_what_becomes_of_the_rows() -> None:
    exchange = Exchange()
    assert exchange.add_channel("once").parameters == ChannelParameters()
    assert exchange.add_channel("kept", retention=Retention.REPLAY).parameters == kept_parameters()
    assert Exchange(parameters=SMALL).add_channel("kept", retention=Retention.REPLAY).parameters == SMALL


async def test_a_name_is_given_once() -> None:
    exchange = Exchange()
    exchange.add_channel("orders/0")
    with pytest.raises(InvalidParametersError, match=r"channel .*not in use, not 'orders/0'"):
        exchange.add_channel("orders/0")
    with pytest.raises(InvalidParametersError, match="channel must not be empty"):
        exchange.add_channel("")
    with pytest.raises(InvalidParametersError, match="channel must be text that UTF-8 can hold"):
        exchange.add_channel("\udcff")
    with pytest.raises(InvalidParametersError, match="consumers must be text that UTF-8 can hold"):
        exchange.add_channel("orders/1", retention=Retention.REPLAY, consumers=["one", "\udcff"])
    with pytest.raises(UnknownChannelError, match="known channels: orders/0"):
        exchange.channel("orders/1")


async def test_a_channel_has_parameters_of_its_own_or_those_of_the_exchange() -> None:
    exchange = Exchange(parameters=SMALL)
    own = ChannelParameters(row_permits=100)
    assert exchange.add_channel("a").parameters == SMALL
    assert exchange.add_channel("b", own).parameters == own


async def test_a_removed_channel_breaks_off_whoever_uses_it_and_frees_its_name() -> None:
    exchange = Exchange(parameters=SMALL)
    exchange.add_channel("orders/0", schema=BATCH.schema)
    async with ExchangeServer(exchange) as server:
        async with (
            get(server.address, "orders/0") as receiver,
            put(server.address, "orders/0", BATCH.schema) as sender,
        ):
            await sender.send(BATCH)
            await receiver.receive()
            exchange.remove_channel("orders/0")
            with pytest.raises(ChannelAbortedError, match="it was removed from the exchange"):
                await receiver.receive()
            with pytest.raises(ChannelAbortedError, match="it was removed from the exchange"):
                await sender.end()
        exchange.add_channel("orders/0")
        await pass_one_chunk(server.address, "orders/0")
    with pytest.raises(UnknownChannelError):
        exchange.remove_channel("orders/1")


async def test_whoever_waits_for_the_schema_of_a_removed_channel_is_told() -> None:
    async def read(address: str) -> None:
        async with get(address, "orders/0"):
            pass

    exchange = Exchange()
    channel = exchange.add_channel("orders/0")
    async with ExchangeServer(exchange) as server, asyncio.TaskGroup() as group:
        reading = group.create_task(refused(read(server.address)))
        while channel._consumer is None:  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.001)
        exchange.remove_channel("orders/0")
    assert isinstance(reading.result(), ChannelAbortedError)


async def refused(call: Coroutine[Any, Any, Any]) -> BaseException | None:
    try:
        await call
    except ChannelAbortedError as error:
        return error
    return None


async def test_statistics_tell_who_moved_what_and_how_far_it_is() -> None:
    exchange = Exchange(parameters=SMALL)
    exchange.add_channel("orders/0")
    assert exchange.statistics()[0].state is BridgeState.WAITING
    async with ExchangeServer(exchange) as server:
        await pass_one_chunk(server.address, "orders/0")
    (channel,) = exchange.statistics()
    assert (channel.name, channel.state, channel.producers) == ("orders/0", BridgeState.SPENT, 0)
    assert channel.reason.startswith("it was read to its end by ipv4:127.0.0.1:")
    assert (channel.numbers.sent_rows, channel.numbers.consumed_rows) == (3, 3)
    streams = {stream.direction: stream for stream in channel.streams}
    assert {stream.stream for stream in channel.streams} == {"orders/0#put1", "orders/0#get1"}
    assert streams[Direction.PUT].numbers.consumed_rows == streams[Direction.GET].numbers.sent_rows == 3
    assert streams[Direction.GET].numbers.row_permits_here == 8
    assert all(stream.numbers.parameters == SMALL for stream in channel.streams)
    assert all(stream.peer.startswith("ipv4:127.0.0.1:") for stream in channel.streams)


def test_every_end_inside_the_exchange_is_recorded_under_a_name_of_its_own(complete: Complete) -> None:
    actions: dict[tuple[str, str], list[str]] = {}

    def record(channel: str, end: End, parameters: ChannelParameters) -> Recorder:
        assert parameters == SMALL
        own = actions.setdefault((channel, end), [])

        def note(action: str, rows: int, permits: Permits, counters: tuple[int, int, int] | None = None) -> None:
            own.append(action)

        return note

    async def test() -> None:
        exchange = Exchange(parameters=SMALL, record=record)
        exchange.add_channel("orders/0")
        async with ExchangeServer(exchange) as server:
            await pass_one_chunk(server.address, "orders/0")

    complete(test())
    assert set(actions) == {
        ("orders/0", "sender"),
        ("orders/0", "receiver"),
        ("orders/0#put1", "receiver"),
        ("orders/0#get1", "sender"),
    }
    assert actions["orders/0#put1", "receiver"] == ["Deliver", "Consume", "Flush"]
    assert actions["orders/0#get1", "sender"] == ["OfferChunk", "SendChunk", "AddPermits"]
