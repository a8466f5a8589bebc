"""What do N processes of an exchange serve, beside one?

    python -m benchmarks.several_processes --processes 2 --rounds 7

Two clients, each a process with a producer and a consumer for half of the channels, and ``permitflow serve`` with one
process, then with N; both take turns, and a ratio is one of neighbours, so that a busy machine disturbs both.  Clients
need processor time, too, and on a machine with few cores one process and its clients may fill it: then N processes
cannot be faster there.  So there are the processor seconds of both: what the processes of the exchange need for a chunk
says what they can serve once clients have cores of their own, and what all need says what this machine can serve.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple

import psutil

from benchmarks.harness import Partner, in_turns, serving
from benchmarks.jobs import PAYLOADS, drain, feed
from benchmarks.results import COMPACT, Series, table
from permitflow.client import SameHost, get, put

CARRIERS = {"gRPC": "127.0.0.1:0", "TCP": "tcp://127.0.0.1:0"}
SIZES = ("64", "4,096", "65,536")
CLIENTS = 2


class Sample(NamedTuple):
    """What one run told."""

    rate: float
    """Chunks a second, of all channels."""
    allowed: float
    """Chunks a second, of a core for each process of the exchange: each process by the chunks that it has served."""
    python: float
    """Processor seconds for each chunk of the exchange's threads of Python."""
    whole: float
    """Likewise, of all its threads: gRPC has its own."""
    clients: float
    """Likewise, of the clients."""


async def client(pipe: Connection) -> None:
    """Feed and read the channels that are named; tell how many chunks of each these were."""

    async def consume(address: str, channel: str) -> None:
        async with get(address, channel, same_host=SameHost.NEVER) as receiver:
            await drain(receiver)

    async def produce(address: str, channel: str, size: str, seconds: float) -> int:
        payload = PAYLOADS[size]
        async with put(address, channel, payload.schema, same_host=SameHost.NEVER) as sender:
            sent = await feed(sender, payload, seconds)
            await sender.end(closes_channel=True)
            return sent

    while True:
        address, channels, size, seconds = await asyncio.to_thread(pipe.recv)
        async with asyncio.TaskGroup() as group:
            for channel in channels:
                group.create_task(consume(address, channel))
            sending = [group.create_task(produce(address, channel, size, seconds)) for channel in channels]
        pipe.send([task.result() for task in sending])


def sample(processes: int, listen: str, size: str, channels: int, seconds: float, clients: list[Partner]) -> Sample:
    """One run, with an exchange of its own."""
    payload = PAYLOADS[size]
    options = ("--address", listen, "--stream", f"chunks:{channels}", "--row-permits", str(payload.row_permits))
    with serving(*options, "--drain-seconds", "0", "--processes", str(processes)) as (address, pid):
        door = psutil.Process(pid)
        servers, theirs = [*door.children()] or [door], [psutil.Process(partner.pid) for partner in clients]
        before, first, began = [*map(_used, servers)], [*map(_used, theirs)], time.perf_counter()
        shares = [
            [each for each in range(channels) if each // processes % len(clients) == number]
            for number in range(len(clients))
        ]
        for share, partner in zip(shares, clients, strict=True):
            partner.tell((address, [f"chunks/{each}" for each in share], size, seconds))
        served = [0] * processes
        for share, partner in zip(shares, clients, strict=True):
            for channel, chunks in zip(share, partner.hears(), strict=True):
                served[channel % processes] += chunks
        elapsed, total = time.perf_counter() - began, sum(served)
        used = [_used(process) - then for process, then in zip(servers, before, strict=True)]
        asked = sum((_used(process) - then).whole for process, then in zip(theirs, first, strict=True))
        return Sample(
            rate=total / elapsed,
            allowed=sum(chunks / each.whole for chunks, each in zip(served, used, strict=True)),
            python=sum(each.python for each in used) / total,
            whole=sum(each.whole for each in used) / total,
            clients=asked / total,
        )


class _Used(NamedTuple):
    """Processor seconds of a process."""

    python: float
    """Of its first thread, which runs the event loop."""
    whole: float

    def __sub__(self, other: "_Used") -> "_Used":
        return _Used(self.python - other.python, self.whole - other.whole)


def _used(process: psutil.Process) -> _Used:
    python = sum(each.user_time + each.system_time for each in process.threads() if each.id == process.pid)
    return _Used(python, sum(process.cpu_times()[:2]))


def _ratios(some: list[Sample], others: list[Sample], of: Callable[[Sample], float]) -> Series:
    return Series.of(map(of, some)).ratio_to(Series.of(map(of, others)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--channels", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    parser.add_argument("--rows", choices=SIZES, action="append", default=[], help="of a chunk; may be repeated")
    options = parser.parse_args()
    found, cores = [], len(os.sched_getaffinity(0))
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
            alone, several = runs[1], runs[options.processes]
            found.append(
                {
                    "carrier, rows of a chunk": f"{carrier}, {size}",
                    "chunks/s, one process": Series.of(run.rate for run in alone),
                    "ratio of rates": _ratios(several, alone, lambda run: run.rate),
                    "µs for a chunk: exchange's Python": Series.of((1e6 * run.python for run in alone), COMPACT),
                    "exchange": Series.of((1e6 * run.whole for run in alone), COMPACT),
                    "clients": Series.of((1e6 * run.clients for run in alone), COMPACT),
                    f"chunks/s that {cores} cores allow": Series.of(
                        (cores / (run.whole + run.clients) for run in alone), COMPACT
                    ),
                    "that one thread of Python allows": Series.of((1 / run.python for run in alone), COMPACT),
                    "ratio with cores for clients": _ratios(several, alone, lambda run: run.allowed),
                }
            )
    print(f"{options.processes} processes beside one, {options.channels} channels")
    print(table(found))


if __name__ == "__main__":
    main()
