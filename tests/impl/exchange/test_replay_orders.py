"""Questions and orders about channels that keep their rows, over every path; and the end of their exchange."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    InvalidParametersError,
    LogReplacedError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    RetentionError,
    RowsNotThereError,
    UnknownChannelError,
    UnknownConsumerError,
)
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.control import ChannelRow, ChannelState
from permitflow.protocol.replay import Retention
from permitflow.transports.grpc_aio import AioControl, control, get, put
from tests.support.kept_rows import CHANNEL, SCHEMA, SMALL, fill, numbers, read, refused, rows, send_for_ever, serving
from tests.support.number_streams import until

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

pytestmark = pytest.mark.usefixtures("path")


async def test_orders_and_questions() -> None:
    async with serving("etl", "audit") as (channel, address), control(address) as orders:
        (at,) = await orders.positions([CHANNEL], consumer="etl")
        assert (at.schema, at.next_row, at.acknowledged_row, at.state) == (None, 0, 0, ChannelState.OPEN)
        await fill(address, 0, 8)
        (at,) = await orders.acknowledge({CHANNEL: 5}, consumer="etl")
        assert (at.schema, at.next_row, at.acknowledged_row, at.parameters) == (SCHEMA, 8, 5, SMALL)
        (at,) = await orders.acknowledge([ChannelRow(CHANNEL, 3, at.log_id)], consumer="audit")
        assert at.acknowledged_row == 3
        assert channel.log.books.first_kept_row == 3
        (at,) = await orders.close_channels([CHANNEL], consumer="etl")
        assert (at.state, at.acknowledged_row) == (ChannelState.ENDED, 5)
        await orders.close_channels([CHANNEL], consumer="etl")
        assert await orders.positions([], consumer="etl") == ()
        assert await read(address, consumer="etl") == [5, 6, 7]


async def test_an_order_that_cannot_be_carried_out_ends_the_stream_and_does_nothing() -> None:
    async with serving("etl") as (channel, address):
        await fill(address, 0, 4)
        log_id = channel.position("etl").log_id
        cases: list[tuple[type[PermitflowError], Callable[[AioControl], Coroutine[Any, Any, object]]]] = [
            (UnknownChannelError, lambda orders: orders.positions([CHANNEL, "nowhere"], consumer="etl")),
            (RetentionError, lambda orders: orders.positions(["once"], consumer="etl")),
            (UnknownConsumerError, lambda orders: orders.close_channels([CHANNEL])),
            (RowsNotThereError, lambda orders: orders.acknowledge({CHANNEL: 5}, consumer="etl")),
            (
                InvalidParametersError,
                lambda orders: orders.acknowledge(
                    [ChannelRow(CHANNEL, 4, log_id), ChannelRow(CHANNEL, 9)], consumer="etl"
                ),
            ),
            (
                LogReplacedError,
                lambda orders: orders.acknowledge([ChannelRow(CHANNEL, 1, "lost")], consumer="etl"),
            ),
        ]
        for kind, order in cases:
            async with control(address) as orders:
                assert type(await refused(order(orders))) is kind
                assert isinstance(await refused(orders.positions([])), ChannelClosedError)
        assert channel.position("etl").acknowledged_row == 0
        assert channel.log.state is ChannelState.OPEN


async def test_what_does_not_fit_the_wire_is_refused_before_it_is_sent() -> None:
    async with serving() as (_, address):
        cases: list[Callable[[AioControl], Coroutine[Any, Any, object]]] = [
            lambda orders: orders.acknowledge({CHANNEL: 2**63}),
            lambda orders: orders.positions(CHANNEL),
            lambda orders: orders.positions(["\ud800"]),
        ]
        for order in cases:
            async with control(address) as orders:
                assert isinstance(await refused(order(orders)), InvalidParametersError)
                assert await orders.positions([]) == (), "nothing was sent, and the stream goes on"


async def test_tasks_that_share_a_stream_of_orders_take_turns() -> None:
    async with serving() as (channel, address), control(address) as orders:
        await fill(address, 0, 8)
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(orders.acknowledge({CHANNEL: row})) for row in range(9)]
        assert [task.result()[0].acknowledged_row for task in asking] == list(range(9))
        assert channel.position().acknowledged_row == 8


async def test_an_exchange_that_stops_tells_everybody() -> None:
    exchange = Exchange(parameters=SMALL)
    channel = exchange.add_channel(CHANNEL, retention=Retention.REPLAY)
    async with (
        ExchangeServer(exchange) as server,
        put(server.address, CHANNEL, SCHEMA, producer="p") as sender,
        get(server.address, CHANNEL) as receiver,
        control(server.address) as orders,
    ):
        await sender.send(rows(0, 8))
        await until(lambda: channel.position().next_row == 8)
        await receiver.receive_many()
        await orders.positions([CHANNEL])
        await server.stop()
        for deed in (send_for_ever(sender), numbers(receiver), orders.positions([CHANNEL])):
            assert isinstance(await refused(deed), PeerGoneError)


async def test_a_removed_channel_breaks_off_its_followers() -> None:
    exchange = Exchange(parameters=SMALL)
    exchange.add_channel(CHANNEL, schema=SCHEMA, retention=Retention.REPLAY)
    async with ExchangeServer(exchange) as server, get(server.address, CHANNEL) as receiver:
        exchange.remove_channel(CHANNEL)
        with pytest.raises(ChannelAbortedError, match="it was removed from the exchange"):
            await receiver.receive()
        assert isinstance(await refused(read(server.address)), UnknownChannelError)


def test_nobody_answers(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (_, address):
            pass
        async with control(address, connect_timeout_seconds=0.05):
            pytest.fail("there is nobody")

    with pytest.raises(PeerTimeoutError):
        complete(test())
