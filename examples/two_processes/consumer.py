"""Receive orders from another process.  Start it before the producer or after it."""

import asyncio

import pyarrow.compute as pc

from permitflow.client import get

EXCHANGE = "127.0.0.1:50051"


async def main() -> None:
    """Add up all prices; asking for the next message returns the permits of this one."""
    total = 0
    async with get(EXCHANGE, "orders/0") as receiver:
        async for message in receiver:
            total += pc.sum(message.payload["price"]).as_py()
    print(f"sum {total:,}")


asyncio.run(main())
