"""Send orders to another process; the consumer sets the pace.  Start it before the consumer or after it."""

import asyncio

import pyarrow as pa

from permitflow.client import put

EXCHANGE = "127.0.0.1:50051"


async def main() -> None:
    """Send a hundred chunks; each waits until the consumer has returned permits for it."""
    chunk = pa.record_batch({"price": pa.array(range(1_000))})
    async with put(EXCHANGE, "orders/0", chunk.schema) as sender:
        for _ in range(100):
            await sender.send(chunk)
        # "consumed": the consumer has taken every row, and the ledgers of both ends agree.
        print("all orders were", await sender.end(closes_channel=True))


asyncio.run(main())
