"""The cost of idle channels: memory and processor time, for 1 to 1,000 of them.

Each channel has moved a chunk before it is left idle: so it has everything that a used channel has.
"""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

import psutil
import pyarrow as pa

from benchmarks.field import Settings
from benchmarks.harness import Partner
from benchmarks.jobs import PAYLOADS
from benchmarks.results import Record
from permitflow import LocalReceiver, LocalSender, open_channel
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.transports.grpc_aio import SameHost, get

COUNTS = (1, 10, 100, 1_000)
SMOKE_COUNTS = (1, 3)
SECONDS = 2.0
SMOKE_SECONDS = 0.1
# So many connections are being opened at a time.
DIALLING = 16
PAYLOAD = PAYLOADS["64"]
CARRIERS = {"gRPC": SameHost.NEVER, "same host": SameHost.REQUIRE}
# Each maps files of its own; a hundred show what one costs.
MOST_ON_SAME_HOST = 100


class Cost(NamedTuple):
    memory_bytes: int
    cpu_share: float


@dataclass(frozen=True)
class IdleChannels(Record):
    """A number of channels of one kind."""

    kind: str
    """The carrier between two processes; or none, within one."""
    channels: int
    bytes_per_channel: float
    """Resident memory, at both ends together."""
    cpu_share_per_channel: float
    """Share of one processor, at both ends together."""


def measure_idle_channels(settings: Settings) -> list[IdleChannels]:
    counts, seconds = (SMOKE_COUNTS, SMOKE_SECONDS) if settings.is_smoke else (COUNTS, SECONDS)
    found = [_joined("in a process", count, [_local(count, seconds)]) for count in counts]
    for kind, same_host in CARRIERS.items():
        for count in counts:
            if same_host is SameHost.NEVER or count <= MOST_ON_SAME_HOST:
                found.append(_joined(kind, count, _remote(count, seconds, same_host)))
    return found


def _joined(kind: str, count: int, ends: list[Cost]) -> IdleChannels:
    return IdleChannels(
        kind,
        count,
        bytes_per_channel=sum(end.memory_bytes for end in ends) / count,
        cpu_share_per_channel=sum(end.cpu_share for end in ends) / count,
    )


def _local(count: int, seconds: float) -> Cost:
    with Partner(_run, local, count, seconds) as process:
        process.tell()
        cost: Cost = process.hears()
        return cost


def _remote(count: int, seconds: float, same_host: SameHost) -> list[Cost]:
    with Partner(_run, serve, count, seconds) as exchange:
        address = exchange.hears()
        with Partner(_run, read, count, seconds, address, same_host) as consumer:
            consumer.hears()
            exchange.tell()
            consumer.tell()
            return [consumer.hears(), exchange.hears()]


# In the processes.


def _run(pipe: Connection, role: Callable[..., Coroutine[None, None, None]], *arguments: object) -> None:
    asyncio.run(role(pipe, *arguments))


class Watch:
    """Memory from now on, and processor time while everything is idle."""

    def __init__(self) -> None:
        self._bytes_before = self._bytes()

    @staticmethod
    def _bytes() -> int:
        gc.collect()
        return int(psutil.Process().memory_info().rss)

    async def tell(self, pipe: Connection, seconds: float) -> None:
        await asyncio.to_thread(pipe.recv)
        opened = self._bytes() - self._bytes_before
        began = time.process_time()
        await asyncio.sleep(seconds)
        pipe.send(Cost(opened, (time.process_time() - began) / seconds))
        # Streams that are left halfway would be broken off one by one, with words; this ends all of them at once.
        os._exit(0)


async def local(pipe: Connection, count: int, seconds: float) -> None:
    chunk = PAYLOAD.distinct()[0]
    watch = Watch()
    channels: list[tuple[LocalSender[pa.RecordBatch], LocalReceiver[pa.RecordBatch]]]
    channels = [open_channel() for _ in range(count)]
    for sender, receiver in channels:
        await sender.send(chunk)
        await receiver.receive()
    await watch.tell(pipe, seconds)


async def serve(pipe: Connection, count: int, seconds: float) -> None:
    chunk, exchange = PAYLOAD.distinct()[0], Exchange()
    async with ExchangeServer(exchange) as server:
        watch = Watch()
        for number in range(count):
            await exchange.add_channel(f"idle/{number}", schema=PAYLOAD.schema).sender.send(chunk)
        pipe.send(server.address)
        await watch.tell(pipe, seconds)


async def read(pipe: Connection, count: int, seconds: float, address: str, same_host: SameHost) -> None:
    watch, dialling = Watch(), asyncio.Semaphore(DIALLING)
    async with AsyncExitStack() as stack:

        async def open_one(number: int) -> None:
            async with dialling:
                receiver = await stack.enter_async_context(
                    get(address, f"idle/{number}", same_host=same_host, connect_timeout_seconds=60.0)
                )
                await receiver.receive()

        await asyncio.gather(*map(open_one, range(count)))
        pipe.send("ready")
        await watch.tell(pipe, seconds)
