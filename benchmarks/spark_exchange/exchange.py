"""An exchange in a process of its own, which feeds streams, drains them, or passes them on, as it is told.

Orders come on standard input, one JSON object a line; the answers to each, on standard output, are ready and done.
"""

import asyncio
import json
import sys
from collections import deque
from itertools import islice
from typing import Any, TextIO

from benchmarks.spark_exchange.peers import payload_of
from permitflow.channels.names import stream_channels
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.parameters import ChannelParameters

BURST_CHUNKS = 16
CHUNKS_IN_WINDOW = 8


async def feed(exchange: Exchange, channel: str, rows: int, chunks: int) -> None:
    """Put so many chunks into a channel, and end it."""
    sender = exchange.channel(channel).sender
    supply = payload_of(rows).chunks(chunks)
    while burst := deque(islice(supply, BURST_CHUNKS)):
        await sender.send_many(burst)
    await sender.end()


async def drain(exchange: Exchange, channel: str) -> int:
    """Read a channel to its end; its rows."""
    return sum([message.rows async for message in exchange.channel(channel).receiver])


async def carry_out(exchange: Exchange, order: dict[str, Any], say: TextIO) -> None:
    """One order."""
    for past in exchange.statistics():
        exchange.remove_channel(past.name)
    parameters = ChannelParameters(row_permits=CHUNKS_IN_WINDOW * order["rows"])
    names = stream_channels(order["stream"], order["channels"])
    for name in names:
        exchange.add_channel(name, parameters, payload_of(order["rows"]).schema if order["role"] == "feed" else None)
    print(json.dumps({"ready": True}), file=say, flush=True)
    found = 0
    if order["role"] == "feed":
        await asyncio.gather(*(feed(exchange, name, order["rows"], order["chunks"]) for name in names))
    elif order["role"] == "drain":
        found = sum(await asyncio.gather(*(drain(exchange, name) for name in names)))
    print(json.dumps({"done": True, "rows": found}), file=say, flush=True)


async def main() -> None:
    """Serve until there are no more orders."""
    say, sys.stdout = sys.stdout, sys.stderr
    exchange = Exchange()
    async with ExchangeServer(exchange) as server:
        print(json.dumps({"address": server.address}), file=say, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await carry_out(exchange, json.loads(line), say)


if __name__ == "__main__":
    asyncio.run(main())
