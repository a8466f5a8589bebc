"""What idle channels cost: memory and processor time, for 1 to 1,000 of them.

    python -m benchmarks.idle_channels local COUNT SECONDS
    python -m benchmarks.idle_channels serve COUNT SECONDS
    python -m benchmarks.idle_channels read COUNT SECONDS ADDRESS SAME_HOST

Each channel has moved a chunk before it is left idle: so it has everything that a used channel has.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass

import psutil
import pyarrow as pa

from benchmarks.harness import partner
from benchmarks.jobs import PAYLOADS
from benchmarks.results import Record
from permitflow import LocalReceiver, LocalSender, open_channel
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.transports.grpc_aio import SameHost, get

__all__ = ["IdleChannels", "measure_idle_channels"]

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


@dataclass(frozen=True)
class IdleChannels(Record):
    """So many of them, of one kind."""

    kind: str
    """In a process, or what carries them between two."""
    channels: int
    bytes_per_channel: float
    """Resident memory, at both ends together."""
    cpu_share_per_channel: float
    """Of one processor, at both ends together."""


def measure_idle_channels(*, is_smoke: bool) -> list[IdleChannels]:
    """All kinds and numbers."""
    counts, seconds = (SMOKE_COUNTS, SMOKE_SECONDS) if is_smoke else (COUNTS, SECONDS)
    found = [_joined("in a process", count, [_local(count, seconds)]) for count in counts]
    for kind, same_host in CARRIERS.items():
        for count in counts:
            if same_host is SameHost.NEVER or count <= MOST_ON_SAME_HOST:
                found.append(_joined(kind, count, _remote(count, seconds, same_host)))
    return found


def _joined(kind: str, count: int, ends: list[dict[str, float]]) -> IdleChannels:
    return IdleChannels(
        kind,
        count,
        bytes_per_channel=sum(end["bytes"] for end in ends) / count,
        cpu_share_per_channel=sum(end["cpu_share"] for end in ends) / count,
    )


def _local(count: int, seconds: float) -> dict[str, float]:
    with partner("benchmarks.idle_channels", "local", count, seconds) as process:
        process.tell()
        return process.hears()


def _remote(count: int, seconds: float, same_host: SameHost) -> list[dict[str, float]]:
    with partner("benchmarks.idle_channels", "serve", count, seconds) as exchange:
        address = exchange.hears()["address"]
        with partner("benchmarks.idle_channels", "read", count, seconds, address, same_host.value) as consumer:
            consumer.hears()
            exchange.tell()
            consumer.tell()
            return [consumer.hears(), exchange.hears()]


# In the processes.


def say(**facts: object) -> None:
    """Tell the parent."""
    print(json.dumps(facts), flush=True)


class Watch:
    """Memory from now on, and processor time while everything is idle."""

    def __init__(self) -> None:
        """Before anything is opened."""
        self._bytes_before = self._bytes()

    @staticmethod
    def _bytes() -> int:
        gc.collect()
        return int(psutil.Process().memory_info().rss)

    async def tell(self, seconds: float) -> None:
        """When the parent asks."""
        await asyncio.to_thread(sys.stdin.readline)
        opened = self._bytes() - self._bytes_before
        began = time.process_time()
        await asyncio.sleep(seconds)
        say(bytes=opened, cpu_share=(time.process_time() - began) / seconds)
        # Streams that are left halfway would be broken off one by one, with words; this ends all of them at once.
        os._exit(0)


async def local(count: int, seconds: float) -> None:
    """Channels inside this process."""
    chunk = PAYLOAD.distinct()[0]
    watch = Watch()
    channels: list[tuple[LocalSender[pa.RecordBatch], LocalReceiver[pa.RecordBatch]]]
    channels = [open_channel() for _ in range(count)]
    for sender, receiver in channels:
        await sender.send(chunk)
        await receiver.receive()
    await watch.tell(seconds)


async def serve(count: int, seconds: float) -> None:
    """An exchange whose channels are fed from inside."""
    chunk, exchange = PAYLOAD.distinct()[0], Exchange()
    async with ExchangeServer(exchange) as server:
        watch = Watch()
        for number in range(count):
            await exchange.add_channel(f"idle/{number}", schema=PAYLOAD.schema).sender.send(chunk)
        say(address=server.address)
        await watch.tell(seconds)


async def read(count: int, seconds: float, address: str, same_host: str) -> None:
    """A consumer of all channels of the exchange."""
    watch, dialling = Watch(), asyncio.Semaphore(DIALLING)
    async with AsyncExitStack() as stack:

        async def open_one(number: int) -> None:
            async with dialling:
                receiver = await stack.enter_async_context(
                    get(address, f"idle/{number}", same_host=SameHost(same_host), connect_timeout_seconds=60.0)
                )
                await receiver.receive()

        await asyncio.gather(*map(open_one, range(count)))
        say(ready=True)
        await watch.tell(seconds)


ROLES: dict[str, Callable[..., Coroutine[None, None, None]]] = {"local": local, "serve": serve, "read": read}


def main(role: str, count: str, seconds: str, *more: str) -> None:
    """Play a role."""
    asyncio.run(ROLES[role](int(count), float(seconds), *more))


if __name__ == "__main__":
    main(*sys.argv[1:])
