"""Streams of numbers over the asyncio client, for tests: chunks, an exchange that serves them, and ways to read."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn

import pyarrow as pa

from permitflow import ChannelParameters, Kind, Message, ReceiveEnd, SendEnd
from permitflow.client import get
from permitflow.exchange import Exchange, ExchangeServer

CHANNEL = "orders/0"
SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
SCHEMA = pa.schema([("n", pa.int64())])


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def numbers(messages: Sequence[Message[pa.RecordBatch]]) -> list[int]:
    """The numbers in chunks; other messages have none."""
    return [n for m in messages if m.kind is Kind.CHUNK for n in m.payload.column(0).to_pylist()]


@asynccontextmanager
async def serving(
    parameters: ChannelParameters = SMALL, schema: pa.Schema | None = SCHEMA, names: tuple[str, ...] = (CHANNEL,)
) -> AsyncIterator[tuple[Exchange, ExchangeServer]]:
    exchange = Exchange(parameters=parameters)
    for name in names:
        exchange.add_channel(name, schema=schema)
    async with ExchangeServer(exchange) as server:
        yield exchange, server


async def everything(receiver: ReceiveEnd[pa.RecordBatch]) -> list[Message[pa.RecordBatch]]:
    return [message async for message in receiver]


async def read(address: str, name: str = CHANNEL) -> list[Message[pa.RecordBatch]]:
    async with get(address, name) as receiver:
        return await everything(receiver)


async def send_for_ever(sender: SendEnd[pa.RecordBatch]) -> NoReturn:
    """Until it fails or is cancelled."""
    while True:
        await sender.send(batch(1, 2, 3))
