"""Questions and orders about channels that keep their rows, over every path; clients that break the rules or vanish."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from permitflow.carriers import grpc_calls, tcp
from permitflow.carriers.addresses import Scheme
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import CONTROL
from permitflow.carriers.reaching import Destination
from permitflow.client import AioControl, ChannelState, StagedPart, Staging, control, get
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    InvalidParametersError,
    LogReplacedError,
    PermitflowError,
    RetentionError,
    RowsNotThereError,
    UndecodableDataError,
    UnknownChannelError,
    UnknownConsumerError,
)
from permitflow.exchange import Exchange, Retention
from permitflow.stream.control import MOST_CHANNELS, MOST_PUBLISHED, AskPositions, ChannelRow, Discarded
from permitflow.wire.control_codec import decode_reply, encode_request
from tests.support.kept_rows import SCHEMA, fill, read, refused, rows, serving
from tests.support.number_streams import CHANNEL, SMALL
from tests.support.served import served

pytestmark = pytest.mark.usefixtures("path")
# Cut by the client, whatever carries them.
IN_PORTIONS = pytest.mark.parametrize("path", ["TCP"], indirect=True)


async def test_orders_and_questions() -> None:
    async with serving("etl", "audit") as (channel, address), control(address) as orders:
        (at,) = await orders.positions([CHANNEL], consumer="etl")
        assert (at.schema, at.next_row, at.acknowledged_row, at.state) == (None, 0, 0, ChannelState.OPEN)
        await fill(address, 0, 8)
        (at,) = await orders.acknowledge({CHANNEL: 5}, consumer="etl")
        assert (at.schema, at.next_row, at.acknowledged_row, at.parameters) == (SCHEMA, 8, 5, SMALL)
        (at,) = await orders.acknowledge([ChannelRow(CHANNEL, 3, at.log_id)], consumer="audit")
        assert at.acknowledged_row == 3
        assert channel.books.first_kept_row == 3
        (at,) = await orders.close_channels([CHANNEL], consumer="etl")
        assert (at.state, at.acknowledged_row) == (ChannelState.ENDED, 5)
        await orders.close_channels([CHANNEL], consumer="etl")
        assert await orders.positions([], consumer="etl") == ()
        assert await read(address, consumer="etl") == [5, 6, 7]


async def test_an_order_that_cannot_be_carried_out_ends_the_stream() -> None:
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
            (LogReplacedError, lambda orders: orders.acknowledge([ChannelRow(CHANNEL, 1, "lost")], consumer="etl")),
        ]
        for kind, order in cases:
            async with control(address) as orders:
                await refused(order(orders), kind)
                await refused(orders.positions([]), ChannelClosedError)
        assert channel.position("etl").acknowledged_row == 0
        assert channel.state is ChannelState.OPEN


async def test_an_order_that_does_not_fit_the_wire_is_never_sent() -> None:
    async with serving() as (_, address):
        cases: list[Callable[[AioControl], Coroutine[Any, Any, object]]] = [
            lambda orders: orders.acknowledge({CHANNEL: 2**63}),
            lambda orders: orders.positions(CHANNEL),
            lambda orders: orders.positions(["\ud800"]),
        ]
        for order in cases:
            async with control(address) as orders:
                await refused(order(orders), InvalidParametersError)
                assert await orders.positions([]) == (), "nothing was sent, and the stream goes on"


@IN_PORTIONS
async def test_an_order_about_thousands_of_channels_is_sent_in_portions() -> None:
    names = [f"many/{number}" for number in range(2 * MOST_CHANNELS + 1)]
    async with served("read once", parameters=SMALL) as (exchange, address), control(address) as orders:
        exchange.add_channels(names, SMALL, SCHEMA, retention=Retention.REPLAY)
        assert [at.channel for at in await orders.positions(names)] == names
        await exchange.replay_channel(names[-1]).append(rows(0, 1))
        assert [at.acknowledged_row for at in await orders.acknowledge({names[0]: 0, names[-1]: 1})] == [0, 1]
        assert [at.channel for at in await orders.acknowledge(dict.fromkeys(names, 0))] == names
        assert {at.state for at in await orders.close_channels(names)} == {ChannelState.ENDED}
        part = exchange.staging.open(names[0], Staging("q", 0, 0, "x"))
        assert await exchange.staging.stage(part, [rows(0, 3)]) == 1
        parts = [StagedPart(names[0], number, "x", 1) for number in reversed(range(2 * MOST_CHANNELS))]
        assert await orders.discard("q", 0, parts) == Discarded(rows=3)
        for asked, told in ((names, names), ((), ["read once", *names])):
            assert [traffic.channel for traffic in (await orders.statistics(asked)).channels] == told
        assert len((await orders.statistics()).channels) == len(names) + 1


@IN_PORTIONS
async def test_all_statistics_of_exactly_a_thousand_channels_are_there_once() -> None:
    async with served("first", parameters=SMALL) as (exchange, address), control(address) as orders:
        exchange.add_channels([f"more/{number}" for number in range(MOST_CHANNELS - 1)], SMALL)
        assert len((await orders.statistics()).channels) == MOST_CHANNELS


async def test_tasks_that_share_a_stream_of_orders_take_turns() -> None:
    async with serving() as (channel, address), control(address) as orders:
        await fill(address, 0, 8)
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(orders.acknowledge({CHANNEL: row})) for row in range(9)]
        assert [task.result()[0].acknowledged_row for task in asking] == list(range(9))
        assert channel.position().acknowledged_row == 8


async def test_a_removed_channel_breaks_off_its_followers() -> None:
    kept = served(CHANNEL, parameters=SMALL, schema=SCHEMA, retention=Retention.REPLAY)
    async with kept as (exchange, address), get(address, CHANNEL) as receiver:
        await exchange.remove_channel(CHANNEL)
        with pytest.raises(ChannelAbortedError, match="it was removed from the exchange"):
            await receiver.receive()
        await refused(read(address), UnknownChannelError)


def one_channel() -> AbstractAsyncContextManager[tuple[Exchange, str]]:
    return served(CHANNEL, parameters=SMALL, retention=Retention.REPLAY)


@asynccontextmanager
async def dialling(address: str) -> AsyncIterator[Conversation]:
    """A Control stream without our client around it."""
    calling = tcp.calling if address.startswith(Scheme.TCP) else grpc_calls.calling
    async with calling(Destination(address, CONTROL, "the exchange", 5.0)) as call:
        yield Conversation(call)


@pytest.mark.parametrize("data", [b"", b"\xff\xff", b"GET / HTTP/1.1\r\n"], ids=["empty", "bytes", "text"])
async def test_bytes_that_are_no_order_end_the_stream_in_words(data: bytes) -> None:
    async with one_channel() as (_, address):
        async with dialling(address) as call:
            await call.write([data])
            with pytest.raises(UndecodableDataError):
                await call.read()
        async with control(address) as orders:
            assert (await orders.positions([CHANNEL]))[0].next_row == 0, "everybody else goes on"


async def test_a_client_that_writes_ahead_gets_its_replies_in_order() -> None:
    async with one_channel() as (exchange, address), dialling(address) as call:
        names = [f"more/{number}" for number in range(50)]
        exchange.add_channels(names, retention=Retention.REPLAY)
        for count in range(50):
            await call.write([encode_request(AskPositions(tuple(names[:count])))])
        call.half_close()
        replies = [decode_reply(message) async for message in messages(call)]
        assert [len(reply.channels) for reply in replies] == list(range(50))  # type: ignore[union-attr]  # so it is


async def test_a_request_that_is_too_long_is_not_sent() -> None:
    parts = [StagedPart(CHANNEL, number, "a" * 200, 0) for number in range(MOST_PUBLISHED)]
    async with one_channel() as (_, address), control(address) as orders:
        with pytest.raises(InvalidParametersError, match=r"bytes of a request .* fewer partitions"):
            await orders.publish("q", 0, parts)
        assert (await orders.positions([CHANNEL]))[0].next_row == 0, "it goes on"


async def messages(call: Conversation) -> AsyncIterator[Any]:
    while (message := await call.read()) is not None:
        yield message


async def test_errors_that_are_not_ours_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    async with one_channel() as (exchange, address), control(address) as orders:
        monkeypatch.setattr(type(exchange), "replay_channel", None)
        with pytest.raises(PermitflowError, match="TypeError"):
            await orders.positions([CHANNEL])
