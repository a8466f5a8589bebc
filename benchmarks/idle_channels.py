"""The cost of idle channels: memory and processor time, for 1 to 1,000 of them.

Each channel has moved a chunk before it is left idle: so it has everything that a used channel has.
"""

import asyncio
import gc
import os
import time
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection

import psutil
import pyarrow as pa

from benchmarks.field import Settings
from benchmarks.harness import Partner
from benchmarks.jobs import PAYLOADS
from benchmarks.results import Row, Series
from permitflow import LocalReceiver, LocalSender, open_channel
from permitflow.client import SameHost, get
from permitflow.exchange import Exchange, ExchangeServer

COUNTS = (1, 10, 100, 1_000)
SMOKE_COUNTS = (1, 3)
SECONDS = 2.0
SMOKE_SECONDS = 0.1
# This many connections are being opened at a time.
DIALLING = 16
PAYLOAD = PAYLOADS["64"]
CARRIERS = {"gRPC": SameHost.NEVER, "same host": SameHost.REQUIRE}
# Each maps files of its own; a hundred show what one costs.
MOST_ON_SAME_HOST = 100


def measure_idle_channels(settings: Settings) -> list[Row]:
    counts, seconds = (SMOKE_COUNTS, SMOKE_SECONDS) if settings.is_smoke else (COUNTS, SECONDS)
    found = [_row("in a process", count, _local(count, seconds)) for count in counts]
    for kind, same_host in CARRIERS.items():
        for count in counts:
            if same_host is SameHost.NEVER or count <= MOST_ON_SAME_HOST:
                found.append(_row(kind, count, _remote(count, seconds, same_host)))
    return found


Cost = tuple[int, float]
"""Bytes of resident memory, and the share of one processor."""


def _row(kind: str, count: int, ends: list[Cost]) -> Row:
    """The costs of both ends together."""
    size_bytes, share = (sum(each) / count for each in zip(*ends, strict=True))
    return {
        "idle channels": kind,
        "number": count,
        "KiB each": Series.of([size_bytes / 1024], "{:,.0f}"),
        "of a core, each": Series.of([share], "{:.3%}"),
    }


def _local(count: int, seconds: float) -> list[Cost]:
    with Partner(local, count, seconds) as process:
        process.tell()
        return [process.hears()]


def _remote(count: int, seconds: float, same_host: SameHost) -> list[Cost]:
    with Partner(serve, count, seconds) as exchange:
        address = exchange.hears()
        with Partner(read, count, seconds, address, same_host) as consumer:
            consumer.hears()
            exchange.tell()
            consumer.tell()
            return [consumer.hears(), exchange.hears()]


# In the processes.


def _memory_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


async def _tell_cost(pipe: Connection, bytes_before: int, seconds: float) -> None:
    """When it is asked for: memory since then, and processor time while everything is idle."""
    await asyncio.to_thread(pipe.recv)
    opened = _memory_bytes() - bytes_before
    began = time.process_time()
    await asyncio.sleep(seconds)
    pipe.send((opened, (time.process_time() - began) / seconds))
    # Streams that are left halfway would be broken off one by one, with words; this ends all of them at once.
    os._exit(0)


async def local(pipe: Connection, count: int, seconds: float) -> None:
    chunk = PAYLOAD.distinct()[0]
    before = _memory_bytes()
    channels: list[tuple[LocalSender[pa.RecordBatch], LocalReceiver[pa.RecordBatch]]]
    channels = [open_channel() for _ in range(count)]
    for sender, receiver in channels:
        await sender.send(chunk)
        await receiver.receive()
    await _tell_cost(pipe, before, seconds)


async def serve(pipe: Connection, count: int, seconds: float) -> None:
    chunk, exchange = PAYLOAD.distinct()[0], Exchange()
    async with ExchangeServer(exchange) as server:
        before = _memory_bytes()
        for number in range(count):
            await exchange.add_channel(f"idle/{number}", schema=PAYLOAD.schema).sender.send(chunk)
        pipe.send(server.address)
        await _tell_cost(pipe, before, seconds)


async def read(pipe: Connection, count: int, seconds: float, address: str, same_host: SameHost) -> None:
    before, dialling = _memory_bytes(), asyncio.Semaphore(DIALLING)
    async with AsyncExitStack() as stack:

        async def open_one(number: int) -> None:
            async with dialling:
                receiver = await stack.enter_async_context(
                    get(address, f"idle/{number}", same_host=same_host, connect_timeout_seconds=60.0)
                )
                await receiver.receive()

        await asyncio.gather(*map(open_one, range(count)))
        pipe.send("ready")
        await _tell_cost(pipe, before, seconds)
