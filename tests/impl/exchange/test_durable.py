"""An exchange whose rows are on disk, as those see it who dial: a full disk, and another exchange on the same store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.errors import StoreWriteError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports.grpc_aio import control, get, put
from tests.support.process import files_of_at_most

CHANNEL = "orders/0"
SCHEMA = pa.schema([("n", pa.int64())])
CHUNK_ROWS = 5_000


def chunk(first_row: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(first_row, first_row + CHUNK_ROWS), pa.int64())], schema=SCHEMA)


@asynccontextmanager
async def serving(listen: str, folder: Path) -> AsyncIterator[str]:
    with SqliteStore(folder) as store:
        exchange = Exchange(parameters=ChannelParameters(row_permits=1_000_000), store=store)
        exchange.add_channel(CHANNEL, retention=Retention.REPLAY)
        async with ExchangeServer(exchange, listen) as server:
            yield server.address


async def produce(address: str, last_row: int) -> int:
    """Put rows up to this one, from where the exchange has got to; how many were there before."""
    async with put(address, CHANNEL, SCHEMA, producer="p") as sender:
        assert sender.first_row is not None
        for first_row in range(sender.first_row, last_row, CHUNK_ROWS):
            await sender.send(chunk(first_row))
        await sender.end(closes_channel=False)
        return sender.first_row


async def test_a_producer_hears_that_the_disk_is_full_and_goes_on_once_there_is_room(
    listen: str, tmp_path: Path
) -> None:
    async with serving(listen, tmp_path) as address:
        await produce(address, 20_000)
        with files_of_at_most(1 << 20), pytest.raises(StoreWriteError, match="cannot write to its store"):
            await produce(address, 900_000)
        stored_rows = await produce(address, 300_000)
        async with get(address, CHANNEL, to_row=300_000) as receiver:
            stored_rows, numbers = (
                stored_rows,
                [n async for message in receiver for n in message.payload["n"].to_pylist()],
            )

    assert 20_000 <= stored_rows < 300_000
    assert numbers == list(range(300_000))


async def test_the_next_exchange_on_a_store_has_the_same_log(listen: str, tmp_path: Path) -> None:
    seen = []
    for last_row in (20_000, 50_000):
        async with serving(listen, tmp_path) as address, control(address) as orders:
            stored_rows = await produce(address, last_row)
            (position,) = await orders.acknowledge({CHANNEL: last_row // 2})
            seen.append((stored_rows, position.acknowledged_row, position.next_row, position.log_id))
    first, second = seen
    assert first[:3] == (0, 10_000, 20_000)
    assert second[:3] == (20_000, 25_000, 50_000)
    assert first[3] == second[3] != ""
