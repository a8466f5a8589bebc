"""What do N processes of an exchange serve, beside one?

    python -m benchmarks.several_processes --processes 2 --rounds 7

Two clients, each a process with a producer and a consumer for half of the channels, and ``permitflow serve`` with one
process, then with N; both take turns, and a ratio is one of neighbours, so that a busy machine disturbs both.  Clients
need processor time, too: on a machine with few cores the rates say little.  So there are the processor seconds as well,
of the process of the exchange that has the most to do.  A process has one core, so what it needs for a chunk
bounds what all of them can serve once clients have cores of their own.
"""

import argparse
import asyncio
import time
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from typing import NamedTuple

import psutil

from benchmarks.harness import Partner, in_turns, serving
from benchmarks.jobs import BURST_CHUNKS, PAYLOADS
from benchmarks.results import COMPACT, Series, table
from permitflow.client import SameHost, get, put
from permitflow.errors import EndOfStream

CARRIERS = {"gRPC": "127.0.0.1:0", "TCP": "tcp://127.0.0.1:0"}
SIZES = ("64", "4,096", "65,536")
CLIENTS = 2


class Sample(NamedTuple):
    """What one run told."""

    rate: float
    """Chunks a second, of all channels."""
    busiest: float
    """Processor seconds for each chunk of all, of the process that needs the most."""
    whole: float
    """Likewise, of all processes of the exchange."""


async def client(pipe: Connection) -> None:
    """Feed and read the channels that are named; tell how many chunks these were."""

    async def consume(address: str, channel: str) -> None:
        async with get(address, channel, same_host=SameHost.NEVER) as receiver:
            with suppress(EndOfStream):
                while True:
                    await receiver.receive_joined()

    async def produce(address: str, channel: str, size: str, seconds: float) -> int:
        payload = PAYLOADS[size]
        burst = list(payload.chunks(BURST_CHUNKS))[: max(1, payload.row_permits // payload.rows // 2)]
        async with put(address, channel, payload.schema, same_host=SameHost.NEVER) as sender:
            until = time.perf_counter() + seconds
            for sent in count(len(burst), len(burst)):
                await sender.send_many(deque(burst))
                if time.perf_counter() > until:
                    await sender.end(closes_channel=True)
                    return sent
        raise AssertionError("count has no end")

    while True:
        address, channels, size, seconds = await asyncio.to_thread(pipe.recv)
        async with asyncio.TaskGroup() as group:
            for channel in channels:
                group.create_task(consume(address, channel))
            sending = [group.create_task(produce(address, channel, size, seconds)) for channel in channels]
        pipe.send(sum(task.result() for task in sending))


def sample(processes: int, listen: str, size: str, channels: int, seconds: float, clients: list[Partner]) -> Sample:
    """One run, with an exchange of its own."""
    payload = PAYLOADS[size]
    options = ("--address", listen, "--stream", f"chunks:{channels}", "--row-permits", str(payload.row_permits))
    with serving(*options, "--drain-seconds", "0", "--processes", str(processes)) as (address, pid):
        door = psutil.Process(pid)
        servers = [door, *door.children()]
        before, began = _processor_seconds(servers), time.perf_counter()
        for number, partner in enumerate(clients):
            names = [f"chunks/{each}" for each in range(channels) if each // processes % len(clients) == number]
            partner.tell((address, names, size, seconds))
        chunks = sum(partner.hears() for partner in clients)
        elapsed, after = time.perf_counter() - began, _processor_seconds(servers)
        used = [now - then for now, then in zip(after, before, strict=True)]
        return Sample(chunks / elapsed, max(used) / chunks, sum(used) / chunks)


def _processor_seconds(processes: list[psutil.Process]) -> list[float]:
    return [sum(process.cpu_times()[:2]) for process in processes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--channels", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    parser.add_argument("--rows", choices=SIZES, action="append", default=[], help="of a chunk; may be repeated")
    options = parser.parse_args()
    found = []
    for carrier, listen in CARRIERS.items():
        for size in options.rows or SIZES:
            clients = [Partner(client) for _ in range(CLIENTS)]
            try:
                run = partial(
                    sample,
                    listen=listen,
                    size=size,
                    channels=options.channels,
                    seconds=options.seconds,
                    clients=clients,
                )
                ways = {number: partial(run, number) for number in (1, options.processes)}
                runs = in_turns(ways, options.rounds)
            finally:
                for partner in clients:
                    partner.close()
            one, several = ([Series.of(each) for each in zip(*runs[way], strict=True)] for way in ways)
            found.append(
                {
                    "carrier, rows of a chunk": f"{carrier}, {size}",
                    "chunks/s, one process": one[0],
                    "ratio of rates": several[0].ratio_to(one[0]),
                    "µs of the busiest for a chunk, one": Series.of((1e6 * run.busiest for run in runs[1]), COMPACT),
                    "what the busiest allows": one[1].ratio_to(several[1]),
                    "processor time of all": several[2].ratio_to(one[2]),
                }
            )
    print(f"{options.processes} processes beside one, {options.channels} channels")
    print(table(found))


if __name__ == "__main__":
    main()
