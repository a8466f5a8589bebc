"""Rows through a channel with XON/XOFF: inside a process, or through an exchange over gRPC or TCP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa

from permitflow import open_channel
from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.client.aio import get, put
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer

from .xon_xoff import XonXoff

CHANNEL = "numbers"
CHUNKS, CHUNK_ROWS = 1_000, 3
OURS, WANTED = XonXoff(high_rows=64), XonXoff(high_rows=16)


def chunk(number: int) -> pa.RecordBatch:
    """Rows that are numbered through all chunks."""
    return pa.record_batch({"n": [*range(number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS)]})


@asynccontextmanager
async def ends(listen: str | None) -> AsyncIterator[tuple[SendEnd[Any], ReceiveEnd[Any]]]:
    """Both ends of a channel; with an address, through an exchange, whose consumer wants a lower mark."""
    if listen is None:
        yield open_channel(WANTED)
        return
    exchange = Exchange()
    exchange.add_channel(CHANNEL, OURS, schema=chunk(0).schema)
    async with (
        ExchangeServer(exchange, listen) as server,
        put(server.address, CHANNEL, chunk(0).schema) as sender,
        get(server.address, CHANNEL, wanted=WANTED) as receiver,
    ):
        yield sender, receiver


async def carried(listen: str | None) -> tuple[list[int], XonXoff]:
    """Send all chunks; the numbers that came, and what the receiver has agreed on."""
    async with ends(listen) as (sender, receiver):

        async def send() -> None:
            for number in range(CHUNKS):
                await sender.send(chunk(number))
            await sender.end()

        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            rows = [row for message in [each async for each in receiver] for row in message.payload["n"].to_pylist()]
        agreed = receiver.parameters
        assert isinstance(agreed, XonXoff)
        return rows, agreed
