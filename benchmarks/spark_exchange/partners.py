"""Two processes beside the measured session, which do as told: an exchange, and the job that feeds query 12."""

import asyncio
from collections import deque
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from benchmarks.spark_exchange.peers import payload_of, session
from permitflow.channels.interface import stream_channels
from permitflow.demo.tpch import LATE_LINE_ITEMS
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.permits import ChannelParameters

BURST_CHUNKS = 16
CHUNKS_IN_WINDOW = 8


class Order(NamedTuple):
    """The stream that the exchange shall have, in place of earlier ones."""

    role: str
    """It is fed (``feed``), drained (``drain``), or only passed on."""
    stream: str
    channels: int
    rows: int
    """Of a chunk."""
    chunks: int
    """Of each channel that is fed."""


async def feed(exchange: Exchange, channel: str, rows: int, chunks: int) -> None:
    sender = exchange.channel(channel).sender
    supply = payload_of(rows).chunks(chunks)
    while burst := deque(islice(supply, BURST_CHUNKS)):
        await sender.send_many(burst)
    await sender.end()


async def drain(exchange: Exchange, channel: str) -> int:
    return sum([message.rows async for message in exchange.channel(channel).receiver])


async def carry_out(exchange: Exchange, order: Order, pipe: Connection) -> None:
    for past in exchange.statistics():
        exchange.remove_channel(past.name)
    parameters = ChannelParameters(row_permits=CHUNKS_IN_WINDOW * order.rows)
    names = stream_channels(order.stream, order.channels)
    for name in names:
        exchange.add_channel(name, parameters, payload_of(order.rows).schema if order.role == "feed" else None)
    pipe.send("ready")
    found = 0
    if order.role == "feed":
        await asyncio.gather(*(feed(exchange, name, order.rows, order.chunks) for name in names))
    elif order.role == "drain":
        found = sum(await asyncio.gather(*(drain(exchange, name) for name in names)))
    pipe.send(found)


async def _serve(pipe: Connection) -> None:
    registry = Exchange()
    async with ExchangeServer(registry) as server:
        pipe.send(server.address)
        while True:
            await carry_out(registry, await asyncio.to_thread(pipe.recv), pipe)


def serve(pipe: Connection) -> None:
    """Serve an exchange until there are no more orders: to feed streams, drain them, or pass them on."""
    asyncio.run(_serve(pipe))


def send(pipe: Connection, tables: Path, work_folder: Path) -> None:
    """Write the late line items into the stream of each order, in a session that stays warm."""
    with session(work_folder) as spark:
        spark.read.parquet(f"{tables}/lineitem.parquet").createOrReplaceTempView("lineitem")
        pipe.send("ready")
        while True:
            options = pipe.recv()
            late = spark.sql(LATE_LINE_ITEMS).coalesce(int(options["channels"]))
            late.write.format("permitflow").mode("append").options(**options).save()
            pipe.send("done")
