"""The soak in small: many rows within the bound, a consumer 100 times slower, and peers that come, go and return.

The memory stays flat, and each row arrives once, in order.
"""

import asyncio
from random import Random

import pyarrow as pa
import pytest

from permitflow.errors import ProducerReplacedError, RowsForgottenError
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports.grpc_aio import control, get, put
from tests.support.served import served

pytestmark = pytest.mark.usefixtures("path")

WINDOW = ChannelParameters(row_permits=64, permit_batch=8)
PRODUCERS = ("anna", "berta")
CONSUMERS = ("etl", "audit")
ROWS = 600
MOST_ROWS = 20


def rows(producer: str, start: int, stop: int) -> pa.RecordBatch:
    numbers = pa.array(range(start, stop), pa.int64())
    return pa.record_batch({"producer": pa.array([producer] * (stop - start), pa.string()), "n": numbers})


SCHEMA = rows("", 0, 0).schema


async def produce(address: str, producer: str, random: Random) -> None:
    """Put all rows, in several lives; sometimes the next one begins before the one before has ended."""
    sent = 0
    while sent < ROWS:
        try:
            async with put(address, "c", SCHEMA, producer=producer) as sender:
                sent = sender.first_row or 0
                lives_until = min(ROWS, sent + random.randrange(1, ROWS // 3))
                while sent < lives_until:
                    stop = min(ROWS, sent + random.randint(1, MOST_ROWS))
                    await sender.send(rows(producer, sent, stop))
                    sent = stop
                if random.random() < 0.5:
                    async with put(address, "c", SCHEMA, producer=producer) as newer:
                        sent = newer.first_row or 0
                elif sent == ROWS:
                    await sender.end(closes_channel=False)
        except ProducerReplacedError:
            continue
        sent = 0 if sent < ROWS else await kept(address, producer)


async def kept(address: str, producer: str) -> int:
    async with put(address, "c", SCHEMA, producer=producer) as sender:
        await sender.end(closes_channel=False)
        return sender.first_row or 0


async def consume(address: str, consumer: str, random: Random) -> list[tuple[str, int]]:
    """Read to the end, in several lives, and acknowledge what was read now and then."""
    found: list[tuple[str, int]] = []
    acknowledged = 0
    async with control(address) as orders:
        while True:
            async with get(address, "c", consumer=consumer, from_row=len(found)) as receiver:
                lives_for = random.randrange(1, 30)
                async for message in receiver:
                    columns = message.payload.to_pydict()
                    found += zip(columns["producer"], columns["n"], strict=True)
                    # The tail must be acknowledged at the latest when a chunk might not fit any more.
                    if random.random() < 0.5 or len(found) - acknowledged > WINDOW.row_permits - MOST_ROWS:
                        acknowledged = len(found)
                        await orders.acknowledge({"c": acknowledged}, consumer=consumer)
                    lives_for -= 1
                    if not lives_for:
                        break
                else:
                    return found


async def look(address: str, random: Random, done: asyncio.Event) -> None:
    """Read ranges of the kept rows, as an onlooker."""
    async with control(address) as orders:
        while not done.is_set():
            (position,) = await orders.positions(["c"], consumer="audit")
            start = random.randint(position.acknowledged_row, position.next_row)
            try:
                async with get(address, "c", consumer="audit", from_row=start, to_row=position.next_row) as receiver:
                    assert sum([message.rows async for message in receiver]) == position.next_row - start
            except RowsForgottenError:
                continue


async def test_each_row_of_each_producer_reaches_each_consumer_once_and_in_order() -> None:
    async with served() as (exchange, address), asyncio.TaskGroup() as group:
        channel = exchange.add_channel("c", WINDOW, SCHEMA, retention=Retention.REPLAY, consumers=CONSUMERS)
        reading = [group.create_task(consume(address, name, Random(name))) for name in CONSUMERS]
        done = asyncio.Event()
        group.create_task(look(address, Random(4), done))
        async with asyncio.TaskGroup() as producing:
            for name in PRODUCERS:
                producing.create_task(produce(address, name, Random(name)))
        await channel.end()
        found = await asyncio.gather(*reading)
        done.set()
    for rows_of_consumer in found:
        for producer in PRODUCERS:
            assert [n for name, n in rows_of_consumer if name == producer] == list(range(ROWS))
    assert found[0] == found[1], "consumers see the same order"
    assert channel.books.peak_kept_rows <= WINDOW.row_permits
    assert channel.statistics().producers == 0
