"""The exchange of the measurement: it feeds channels itself, and says what has left them.

    python -m benchmarks.run_ahead.exchange '{"chunk_rows": [256, 1024], "total_rows": 400000}'

For each size there are channels that are fed, ``in/SIZE/jvm``, ``in/SIZE/writer`` and ``in/SIZE/free/NUMBER``, and
``out/SIZE``, into which a Spark job may write and from which nothing is taken before ``release SIZE`` is asked for.
Questions come as lines.
"""

import asyncio
import json
import sys
from contextlib import suppress

import numpy as np
import pyarrow as pa

from benchmarks.run_ahead import FREE_CHANNELS
from permitflow.errors import PermitflowError
from permitflow.exchange.bridge_channel import BridgeChannel
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.statistics import Direction
from permitflow.protocol.parameters import ChannelParameters

COLUMNS = ("a", "b", "c")
CHUNKS_IN_WINDOW = 8
OUT_PERMITS = 1024


def chunk(first: int, rows: int) -> pa.RecordBatch:
    """Three columns of 8 bytes; the first counts the rows of the channel."""
    numbers = np.arange(first, first + rows)
    return pa.record_batch(dict.fromkeys(COLUMNS, numbers))


async def feed(channel: BridgeChannel, chunk_rows: int, total_rows: int) -> None:
    """Put so many rows into a channel, and end it."""
    for first in range(0, total_rows, chunk_rows):
        await channel.sender.send(chunk(first, chunk_rows))
    channel.end()


async def drain(channel: BridgeChannel) -> None:
    """Take everything."""
    with suppress(PermitflowError):
        async for _ in channel.receiver:
            pass


def returned_rows(channel: BridgeChannel) -> int:
    """Rows whose permits the reader has returned: for Spark's worker they are done."""
    reading = [stream.numbers for stream in channel.statistics().streams if stream.direction is Direction.GET]
    return sum(each.sent_rows - (each.parameters.row_permits - each.row_permits_here) for each in reading)


def written_rows(channel: BridgeChannel) -> int:
    """Rows that a writer has sent."""
    writing = [stream.numbers for stream in channel.statistics().streams if stream.direction is Direction.PUT]
    return sum(each.consumed_rows + each.inbox_rows for each in writing)


async def main(chunk_rows: list[int], total_rows: int) -> None:
    """Serve until the questions end."""
    exchange, tasks, schema = Exchange(), [], chunk(0, 0).schema
    for size in chunk_rows:
        # Permits return one by one, so that what was returned is known to the row.
        parameters = ChannelParameters(row_permits=CHUNKS_IN_WINDOW * size, permit_batch=1)
        for consumer in ("jvm", "writer", *(f"free/{number}" for number in range(FREE_CHANNELS))):
            fed = exchange.add_channel(f"in/{size}/{consumer}", parameters, schema)
            tasks.append(asyncio.create_task(feed(fed, size, total_rows)))
        exchange.add_channel(f"out/{size}", ChannelParameters(row_permits=OUT_PERMITS))
    async with ExchangeServer(exchange) as server:
        print(json.dumps({"address": server.address}), flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).split():
            if line[0] == "release":
                tasks.append(asyncio.create_task(drain(exchange.channel(f"out/{line[1]}"))))
            size, consumer = line[1], line[-1]
            returned = returned_rows(exchange.channel(f"in/{size}/{consumer}"))
            print(
                json.dumps({"returned": returned, "written": written_rows(exchange.channel(f"out/{size}"))}), flush=True
            )
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
