"""Processor time of a chunk, with both ends in one process and one event loop, on a machine that is not quiet.

    python -m benchmarks.chunk_cost
    python -m benchmarks.chunk_cost --against ../another-checkout
    python -m benchmarks.chunk_cost --read many joined
    python -m benchmarks.chunk_cost --put --read joined

The producer feeds the exchange's channel from inside, or, with ``--put``, through a stream as the consumer reads.

Two processes that share two cores with others measure the machine as much as the program.  Here nothing is waited for
but the program itself, and what counts is processor time: of the producer, the exchange and the consumer together.  The
other checkout runs in turn with this one, round by round; so do two ways to read.  It shows what a change saves, not
how fast a stream is: no two things happen at the same time, and caches stay warm.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.harness import CHECKOUT
from benchmarks.jobs import BURST_CHUNKS, PAYLOADS
from permitflow import ChannelParameters, LocalSender, Message
from permitflow.client import RemoteReceiver, RemoteSender, SameHost, get, put
from permitflow.errors import EndOfStream
from permitflow.exchange import Exchange, ExchangeServer

PATHS = {
    "tcp": ("tcp://127.0.0.1:0", SameHost.NEVER),
    "same host": ("tcp://127.0.0.1:0", SameHost.REQUIRE),
    "grpc": ("127.0.0.1:0", SameHost.NEVER),
}
CHUNKS = {"1": 200_000, "64": 60_000, "1,024": 16_000, "4,096": 4_000, "65,536": 400, "wide": 2_000}
BATCH_SHARE = 8
ROOMS = ("impl", "model", "proofs")


async def _one(end: RemoteReceiver) -> int:
    await end.receive()
    return 1


async def _many(end: RemoteReceiver) -> int:
    return len(await end.receive_many())


async def _joined(end: RemoteReceiver) -> int:
    received = await end.receive_joined()
    return 1 if isinstance(received, Message) else len(received)


# Each reads chunks and counts them.  The rows stay unread: only the path to the consumer is measured.
READS: dict[str, Callable[[RemoteReceiver], Awaitable[int]]] = {"many": _many, "joined": _joined, "one": _one}


async def chunk_cost(path: str, payload: str, read: str, chunks: int, *, is_put: bool) -> float:
    """Microseconds of processor time for each chunk, with the default window and calls for many."""
    shape = PAYLOADS[payload]
    address, same_host = PATHS[path]
    exchange = Exchange()
    parameters = ChannelParameters(row_permits=shape.row_permits, permit_batch=shape.row_permits // BATCH_SHARE)
    inside = exchange.add_channel("chunks", parameters, shape.schema).sender
    to_send = list(shape.chunks(chunks))

    @asynccontextmanager
    async def producing(at: str) -> AsyncIterator[LocalSender[pa.RecordBatch] | RemoteSender]:
        if not is_put:
            yield inside
            return
        async with put(at, "chunks", shape.schema, same_host=same_host) as outside:
            yield outside

    async with (
        ExchangeServer(exchange, address) as server,
        producing(server.address) as sender,
        get(server.address, "chunks", same_host=same_host) as end,
    ):
        reading = asyncio.create_task(_read_all(end, READS[read]))
        began = time.process_time()
        for first in range(0, chunks, BURST_CHUNKS):
            await sender.send_many(deque(to_send[first : first + BURST_CHUNKS]))
        await sender.end()
        assert await reading == chunks
        return (time.process_time() - began) / chunks * 1e6


async def _read_all(end: RemoteReceiver, read: Callable[[RemoteReceiver], Awaitable[int]]) -> int:
    came = 0
    try:
        while True:
            came += await read(end)
    except EndOfStream:
        return came


class Competitor(NamedTuple):
    """The implementation, and how its consumer reads."""

    checkout: Path
    read: str
    puts: bool

    def measured(self, path: str, payload: str) -> float:
        """``chunk_cost`` in a process of its own, by the checkout's own copy: modules may have other names there."""
        put = ("--put",) if self.puts else ()
        command = (sys.executable, "-m", "benchmarks.chunk_cost", "--one", path, payload, self.read, *put)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(self.checkout / room) for room in ROOMS)}
        told = subprocess.run(
            command, cwd=self.checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return float(told.stdout)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout, by the first way to read")
    options.add_argument("--read", nargs="+", choices=READS, default=["many"], help="receive_many, _joined, or receive")
    options.add_argument("--put", action="store_true", help="the producer puts; the other checkout must know this, too")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--paths", nargs="+", choices=PATHS, default=list(PATHS))
    options.add_argument("--payloads", nargs="+", choices=CHUNKS, default=list(CHUNKS))
    options.add_argument("--one", nargs=3, metavar=("PATH", "PAYLOAD", "READ"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one is not None:
        path, payload, read = chosen.one
        print(asyncio.run(chunk_cost(path, payload, read, CHUNKS[payload], is_put=chosen.put)))
        return
    competitors = [Competitor(CHECKOUT, read, chosen.put) for read in chosen.read]
    if chosen.against is not None:
        if not (chosen.against / "benchmarks/chunk_cost.py").is_file():
            options.error(f"argument --against: {chosen.against} is no checkout of this project")
        competitors.insert(0, Competitor(chosen.against.resolve(), chosen.read[0], chosen.put))
    for path in chosen.paths:
        for payload in chosen.payloads:
            rounds = [[each.measured(path, payload) for each in competitors] for _ in range(chosen.rounds)]
            print(f"{path:10}{payload:>8} rows  {_told(rounds)}", flush=True)


def _told(rounds: list[list[float]]) -> str:
    """The medians, each but the first with its ratio to the first."""
    first, *others = zip(*rounds, strict=True)
    told = f"{statistics.median(first):8.2f} us"
    for costs in others:
        ratio = statistics.median(cost / of_first for cost, of_first in zip(costs, first, strict=True))
        told += f"  {statistics.median(costs):8.2f} us  ratio {ratio:.2f}"
    return told


if __name__ == "__main__":
    main()
