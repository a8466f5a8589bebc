"""From a channel into a consumer's stream: in order whichever way a message goes, with the waiting counted."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pyarrow as pa
import pytest

from permitflow.channels.local import LocalSender
from permitflow.channels.statistics import ChannelStatistics
from permitflow.exchange.registry import Exchange
from permitflow.protocol.messages import Kind
from permitflow.protocol.permits import ChannelParameters
from permitflow.transports.grpc_aio import get
from permitflow.transports.remote_receiver import RemoteReceiver
from tests.support.number_streams import CHANNEL, batch, serving, until

PARAMETERS = ChannelParameters(row_permits=64, permit_batch=16, max_chunk_cost=32)


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Exchange, LocalSender[pa.RecordBatch], RemoteReceiver]]:
    async with serving(PARAMETERS) as (exchange, server), get(server.address, CHANNEL) as receiver:
        yield exchange, exchange.channel(CHANNEL).sender, receiver


def of_stream(exchange: Exchange) -> ChannelStatistics:
    (stream,) = exchange.channel(CHANNEL).statistics().streams
    return stream.numbers


@pytest.mark.parametrize("seed", range(3))
async def test_chunks_of_all_sizes_and_barriers_arrive_in_order(path: str, seed: int) -> None:
    chance = random.Random(seed)

    sizes = [chance.choice([0, 1, 1, 1, 5, 31, 32, 33, 100]) for _ in range(300)]

    barriers = {position for position in range(len(sizes)) if chance.random() < 0.1}

    async def send(sender: LocalSender[pa.RecordBatch]) -> None:
        first = 0
        waiting: deque[pa.RecordBatch] = deque()
        for position, size in enumerate(sizes):
            waiting.append(batch(*range(first, first + size)))
            first += size
            if position in barriers or chance.random() < 0.3:
                await sender.send_many(waiting)
            if position in barriers:
                await sender.send_barrier(first)
        await sender.send_many(waiting)
        await sender.end()

    async with opened() as (exchange, sender, receiver), asyncio.TaskGroup() as group:
        group.create_task(send(sender))
        numbers: list[int] = []
        seen = 0
        async for message in receiver:
            if message.kind is Kind.BARRIER:
                assert message.payload == len(numbers)
                seen += 1
            else:
                numbers += message.payload.column(0).to_pylist()
    assert numbers == list(range(sum(sizes)))
    assert seen == len(barriers)
    assert exchange.channel(CHANNEL).statistics().numbers.gauges["row_permits_here"] == PARAMETERS.row_permits


async def test_chunks_that_lack_permits_wait_and_the_waiting_is_counted(path: str) -> None:
    async with opened() as (exchange, sender, receiver):
        await sender.send_many(deque(batch(n) for n in range(PARAMETERS.row_permits)))
        await until(lambda: of_stream(exchange).sent_rows == PARAMETERS.row_permits)
        assert of_stream(exchange).waiting_sends == 0

        await sender.send(batch(-1))
        await until(lambda: of_stream(exchange).waiting_sends == 1)
        waited = of_stream(exchange).waiting_seconds
        await until(lambda: of_stream(exchange).waiting_seconds > waited)

        came = [(await receiver.receive()).rows for _ in range(PARAMETERS.row_permits + 1)]
        assert sum(came) == PARAMETERS.row_permits + 1
        assert of_stream(exchange).waiting_sends == 0
        waited = of_stream(exchange).waiting_seconds
        await asyncio.sleep(0.01)
        assert of_stream(exchange).waiting_seconds == waited
