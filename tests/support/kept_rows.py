"""Channels that keep their rows: rows that say which they are, served, or inside a process."""

from collections.abc import AsyncIterable, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Message
from permitflow.client import RemoteSender, get, put
from permitflow.errors import PermitflowError
from permitflow.exchange import Exchange, ExchangeServer, ReplayChannel, Retention, Store
from tests.support.number_streams import CHANNEL, SMALL

Refusal = TypeVar("Refusal", bound=PermitflowError)

LARGE = ChannelParameters(row_permits=64, permit_batch=8)


def rows(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


SCHEMA = rows(0, 0).schema


@asynccontextmanager
async def serving(
    *consumers: str, parameters: ChannelParameters = SMALL, schema: pa.Schema | None = None
) -> AsyncIterator[tuple[ReplayChannel, str]]:
    """A channel that keeps its rows, and the address of its exchange."""
    exchange = Exchange(parameters=parameters)
    exchange.add_channel("once")
    channel = exchange.add_channel(
        CHANNEL, schema=schema, retention=Retention.REPLAY, consumers=consumers or ("default",)
    )
    async with ExchangeServer(exchange) as server:
        yield channel, server.address


async def numbers(chunks: AsyncIterable[Message[pa.RecordBatch] | pa.RecordBatch]) -> list[int]:
    batches = [chunk.payload if isinstance(chunk, Message) else chunk async for chunk in chunks]
    return [number for batch in batches for number in batch.column(0).to_pylist()]


async def read(
    address: str, from_row: int | None = None, to_row: int | None = None, *, consumer: str = "", log_id: str = ""
) -> list[int]:
    """The numbers in a range of the channel."""
    async with get(address, CHANNEL, from_row=from_row, to_row=to_row, consumer=consumer, log_id=log_id) as receiver:
        return await numbers(receiver)


async def fill(address: str, start: int, stop: int, *, producer: str = "", closes: bool = False) -> None:
    async with put(address, CHANNEL, SCHEMA, producer=producer) as sender:
        for row in range(start, stop):
            await sender.send(rows(row, row + 1))
        await sender.end(closes_channel=closes)


def has_rows(channel: ReplayChannel, next_row: int) -> bool:
    return channel.books.next_row >= next_row


async def refused(deed: Coroutine[Any, Any, object], kind: type[Refusal]) -> Refusal:
    """The error of this kind with which something is refused."""
    with pytest.raises(kind) as caught:
        await deed
    assert type(caught.value) is kind
    return caught.value


async def send_for_ever(sender: RemoteSender) -> None:
    """Rows from the first one on, until it fails."""
    row = 0
    while True:
        await sender.send(rows(row, row + 1))
        row += 1


def keeping(*consumers: str, parameters: ChannelParameters = SMALL, store: Store | None = None) -> ReplayChannel:
    exchange = Exchange(parameters=parameters, store=store)
    return exchange.add_channel("c", schema=SCHEMA, retention=Retention.REPLAY, consumers=consumers or ("default",))
