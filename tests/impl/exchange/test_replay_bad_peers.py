"""Clients of the Control method that break the rules, and peers of channels that keep their rows that vanish."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import PeerGoneError, PermitflowError, UndecodableDataError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.control import AskPositions
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports import client_call, tcp
from permitflow.transports.addresses import SCHEME
from permitflow.transports.client_call import ClientCall
from permitflow.transports.connection import CONTROL
from permitflow.transports.control_codec import decode_reply, encode_request
from permitflow.transports.grpc_aio import control, get, put
from permitflow.transports.tcp import TcpStream
from tests.support.number_streams import until

pytestmark = pytest.mark.usefixtures("path")

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
BATCH = pa.record_batch({"n": pa.array([1, 2, 3, 4], pa.int64())})
CHANNEL = "orders/0"


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Exchange, str]]:
    exchange = Exchange(parameters=SMALL)
    exchange.add_channel(CHANNEL, retention=Retention.REPLAY)
    async with ExchangeServer(exchange) as server:
        yield exchange, server.address


@asynccontextmanager
async def dialling(address: str) -> AsyncIterator[ClientCall | TcpStream]:
    """A Control stream without our client around it."""
    calling = tcp.calling if address.startswith(SCHEME) else client_call.calling
    async with calling(address, CONTROL, "the exchange", 5.0) as call:
        yield call


@pytest.mark.parametrize("data", [b"", b"\xff\xff", b"GET / HTTP/1.1\r\n"], ids=["empty", "bytes", "text"])
async def test_bytes_that_are_no_order_end_the_stream_in_words(data: bytes) -> None:
    async with serving() as (_, address):
        async with dialling(address) as call:
            await call.write([data])
            with pytest.raises(UndecodableDataError):
                await call.read()
        async with control(address) as orders:
            assert (await orders.positions([CHANNEL]))[0].next_row == 0, "everybody else goes on"


async def test_a_client_that_writes_ahead_gets_its_replies_in_order() -> None:
    async with serving() as (exchange, address), dialling(address) as call:
        names = [f"more/{number}" for number in range(50)]
        exchange.add_channels(names, retention=Retention.REPLAY)
        for count in range(50):
            await call.write([encode_request(AskPositions(tuple(names[:count])))])
        await call.half_close()
        replies = [decode_reply(message) async for message in messages(call)]
        assert [len(reply.channels) for reply in replies] == list(range(50))  # type: ignore[union-attr]  # so it is


async def messages(call: ClientCall | TcpStream) -> AsyncIterator[Any]:
    while (message := await call.read()) is not None:
        yield message


async def test_a_client_that_says_nothing_does_not_keep_the_exchange_from_stopping() -> None:
    exchange = Exchange()
    async with ExchangeServer(exchange) as server, dialling(server.address) as call:
        await call.write([encode_request(AskPositions(()))])
        await call.read()
        stopping = asyncio.create_task(server.stop())
        with pytest.raises(PeerGoneError):
            await call.read()
    await stopping


async def hang(address: str) -> None:
    """Read one chunk, keep it, and never come to an end."""
    async with get(address, CHANNEL) as receiver:
        await receiver.take()
        await asyncio.Event().wait()


async def test_a_consumer_that_vanishes_while_it_waits_for_the_schema_leaves_nothing_behind() -> None:
    async with serving() as (exchange, address):
        changed = exchange.replay_channel(CHANNEL).log._changed
        reading = asyncio.create_task(hang(address))
        await until(lambda: bool(changed._waiters))  # nobody announces it
        reading.cancel()
        await until(lambda: not changed._waiters)
        assert exchange.statistics()[0].streams == ()


async def test_a_consumer_that_vanishes_while_it_reads_has_taken_nothing_with_it() -> None:
    async with serving() as (exchange, address):
        channel = exchange.replay_channel(CHANNEL)
        await channel.append(BATCH)
        reading = asyncio.create_task(hang(address))
        await until(lambda: bool(channel.streams.statistics()))
        reading.cancel()
        await until(lambda: all(stream.state != "open" for stream in channel.streams.statistics()))
        async with get(address, CHANNEL, to_row=4) as receiver:
            assert [message.payload async for message in receiver] == [BATCH]


async def test_a_producer_that_vanishes_while_it_waits_for_room_puts_nothing_more() -> None:
    async def send_for_ever(address: str) -> None:
        async with put(address, CHANNEL, BATCH.schema, producer="p") as sender:
            while True:
                await sender.send(BATCH)

    async with serving() as (exchange, address):
        channel = exchange.replay_channel(CHANNEL)
        putting = asyncio.create_task(send_for_ever(address))
        await until(lambda: channel.log.waiting.running == 1)
        putting.cancel()
        await asyncio.wait({putting})
        await until(lambda: channel.log.waiting.running == 0)
        await channel.acknowledge(8)
        async with put(address, CHANNEL, BATCH.schema, producer="p") as sender:
            assert sender.first_row == 8
            await sender.end(closes_channel=True)
        assert channel.position().next_row == 8


async def test_errors_that_are_not_ours_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as (exchange, address), control(address) as orders:
        monkeypatch.setattr(type(exchange), "replay_channel", None)
        with pytest.raises(PermitflowError, match="TypeError"):
            await orders.positions([CHANNEL])
