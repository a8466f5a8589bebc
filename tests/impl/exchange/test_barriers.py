"""A barrier keeps its place behind a chunk that waits for permits, on every way through an exchange."""

import asyncio
from collections.abc import Callable

import pyarrow as pa
import pytest

from permitflow.channels.interface import SendEnd
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.permits import ChannelParameters
from permitflow.transports.grpc_aio import get, put
from permitflow.transports.grpc_blocking import BlockingSource, open_source
from permitflow.transports.joined import JoinedChunks
from tests.support.number_streams import CHANNEL, SCHEMA, serving, until

PARAMETERS = ChannelParameters(row_permits=8, permit_batch=2, max_chunk_cost=6, barrier_permits=1)
SIZES = [3, 6, 1, 5, 2, 6, 6, 4, 1, 1, 6, 3, 14, 6, 2, 5]
"""Rows of chunks: far more than all windows on the way, and one that leaves in slices."""

ORDER = [item for number, rows in enumerate(SIZES) for item in ([rows, "barrier"] if number % 3 else [rows])]
"""What is sent: numbers of rows, and barriers."""


def seen_of(message: Message[object]) -> object:
    return message.rows if message.kind is Kind.CHUNK else message.payload


def places(items: list[object]) -> list[int]:
    """After how many rows each barrier comes: chunks may be cut on their way."""
    rows, found = 0, []
    for item in items:
        if isinstance(item, int):
            rows += item
        else:
            found.append(rows)
    return found


def offer_all(sender: SendEnd[pa.RecordBatch]) -> list[asyncio.Task[None]]:
    """A task for each message, begun in this order: nearly all of them have to wait."""
    rows = pa.record_batch({"n": pa.array(range(20), pa.int64())}, schema=SCHEMA)
    return [
        asyncio.create_task(sender.send_barrier(item) if isinstance(item, str) else sender.send(rows.slice(0, item)))
        for item in ORDER
    ]


async def test_from_a_remote_producer_through_the_exchange_to_a_remote_consumer(path: str) -> None:
    async with (
        serving(PARAMETERS) as (_, server),
        get(server.address, CHANNEL) as receiver,
        put(server.address, CHANNEL, SCHEMA) as sender,
    ):
        sends = offer_all(sender)
        # Until all windows on the way are full, and the producer waits.
        await until(
            lambda: sender.statistics().gauges["row_permits_here"] < 6 and sender.statistics().waiting_sends > 5
        )

        async with asyncio.TaskGroup() as group:
            group.create_task(sender.end())
            assert places([seen_of(message) async for message in receiver]) == places(ORDER)
        await asyncio.gather(*sends)


@pytest.mark.parametrize("read", [BlockingSource.receive, BlockingSource.receive_joined], ids=["single", "joined"])
async def test_to_a_consumer_that_blocks(path: str, read: Callable[[BlockingSource], object]) -> None:
    async with serving(PARAMETERS) as (_, server), put(server.address, CHANNEL, SCHEMA) as sender:
        sends = offer_all(sender)

        def read_all() -> list[object]:
            found: list[object] = []
            with open_source(server.address, CHANNEL) as source:
                while len(places(found)) < len(places(ORDER)):
                    got = read(source)
                    found.append(got.num_rows if isinstance(got, JoinedChunks) else seen_of(got))  # type: ignore[arg-type]  # a message then
            return found

        assert places(await asyncio.to_thread(read_all)) == places(ORDER)
        await asyncio.gather(*sends)
