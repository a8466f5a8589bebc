"""Two processes beside the measured session, which do as they are told.

    python -m benchmarks.spark_exchange.partners exchange
    python -m benchmarks.spark_exchange.partners sender TABLES WORK_FOLDER

The exchange feeds streams, drains them, or passes them on.  The sender is the job that feeds query 12, in a session of
its own, which stays warm: it runs once for each order.  Orders come on standard input, one JSON object a line; the
answers to each, on standard output, are ready and done.
"""

import asyncio
import json
import sys
from collections import deque
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from benchmarks.spark_exchange.peers import payload_of, session
from permitflow.channels.interface import stream_channels
from permitflow.demo.tpch import LATE_LINE_ITEMS
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.permits import ChannelParameters

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


async def exchange() -> None:
    """Serve until there are no more orders."""
    say, sys.stdout = sys.stdout, sys.stderr
    registry = Exchange()
    async with ExchangeServer(registry) as server:
        print(json.dumps({"address": server.address}), file=say, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await carry_out(registry, json.loads(line), say)


def sender(tables: str, work_folder: str) -> None:
    """Write the late line items into the stream of each order."""
    say, sys.stdout = sys.stdout, sys.stderr
    with session(Path(work_folder)) as spark:
        spark.read.parquet(f"{tables}/lineitem.parquet").createOrReplaceTempView("lineitem")
        print(json.dumps({"ready": True}), file=say, flush=True)
        for line in sys.stdin:
            options = json.loads(line)
            late = spark.sql(LATE_LINE_ITEMS).coalesce(int(options["channels"]))
            late.write.format("permitflow").mode("append").options(**options).save()
            print(json.dumps({"done": True}), file=say, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "exchange":
        asyncio.run(exchange())
    else:
        sender(*sys.argv[2:])
