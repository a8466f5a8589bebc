"""What a chunk costs the processor with both ends in one process and one event loop, on a machine that is not quiet.

    python -m benchmarks.chunk_cost
    python -m benchmarks.chunk_cost --against ../another-checkout

Two processes that share two cores with others measure the machine as much as the program.  Here nothing is waited for
but the program itself, and what counts is processor time: of the producer, the exchange and the consumer together.  The
other checkout runs in turn with this one, round by round.  It shows what a change saves, not how fast a stream is: no
two things happen at the same time, and caches stay warm.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from benchmarks.jobs import BURST_CHUNKS
from benchmarks.pairs import CHECKOUT
from benchmarks.payloads import PAYLOADS
from permitflow.errors import EndOfStream
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.grpc_aio import SameHost, get

__all__ = ["PATHS", "chunk_cost"]

PATHS = {
    "tcp": ("tcp://127.0.0.1:0", SameHost.NEVER),
    "same host": ("tcp://127.0.0.1:0", SameHost.REQUIRE),
    "grpc": ("127.0.0.1:0", SameHost.NEVER),
}
CHUNKS = {"1": 200_000, "64": 60_000, "1,024": 16_000, "4,096": 4_000, "65,536": 400, "wide": 2_000}
BATCH_SHARE = 8


async def chunk_cost(path: str, payload: str, chunks: int) -> float:
    """Microseconds of processor time for each chunk, with the default window and calls for many."""
    shape = PAYLOADS[payload]
    address, same_host = PATHS[path]
    exchange = Exchange()
    parameters = ChannelParameters(row_permits=shape.row_permits, permit_batch=shape.row_permits // BATCH_SHARE)
    sender = exchange.add_channel("chunks", parameters, shape.schema).sender
    to_send = list(shape.chunks(chunks))
    async with ExchangeServer(exchange, address) as server, get(server.address, "chunks", same_host=same_host) as end:

        async def read() -> int:
            came = 0
            while True:
                try:
                    came += len(await end.receive_many())
                except EndOfStream:
                    return came

        reading = asyncio.create_task(read())
        began = time.process_time()
        for first in range(0, chunks, BURST_CHUNKS):
            await sender.send_many(deque(to_send[first : first + BURST_CHUNKS]))
        await sender.end()
        assert await reading == chunks
        return (time.process_time() - began) / chunks * 1e6


def measured(checkout: Path, path: str, payload: str) -> float:
    """The same with the implementation of a checkout, in a process of its own."""
    command = (sys.executable, "-m", "benchmarks.chunk_cost", "--one", path, payload)
    environment = os.environ | {"PYTHONPATH": str(checkout / "impl")}
    told = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True)
    return float(told.stdout)


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout to compare with")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--payloads", nargs="+", choices=CHUNKS, default=list(CHUNKS))
    options.add_argument("--one", nargs=2, metavar=("PATH", "PAYLOAD"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one is not None:
        path, payload = chosen.one
        print(asyncio.run(chunk_cost(path, payload, CHUNKS[payload])))
        return
    checkouts = [CHECKOUT] if chosen.against is None else [chosen.against.resolve(), CHECKOUT]
    for path in PATHS:
        for payload in chosen.payloads:
            rounds = [[measured(checkout, path, payload) for checkout in checkouts] for _ in range(chosen.rounds)]
            print(f"{path:10}{payload:>8} rows  {_told(rounds)}", flush=True)


def _told(rounds: list[list[float]]) -> str:
    """Medians, and what this checkout takes of the other's."""
    medians = [statistics.median(costs) for costs in zip(*rounds, strict=True)]
    told = "  ".join(f"{median:8.2f} us" for median in medians)
    return (
        told if len(medians) == 1 else f"{told}  ratio {statistics.median(here / there for there, here in rounds):.2f}"
    )


if __name__ == "__main__":
    main()
