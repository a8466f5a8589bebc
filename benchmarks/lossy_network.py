"""Throughput over a network that loses packets: streams over UDP, with and without loss, and over TCP beside them.

    python -m benchmarks.lossy_network
    python -m benchmarks.lossy_network --rounds 3 --megabytes 20

Everything runs in one process on the loopback; the lossy socket of the tests drops what a seed says.  The variants take
turns, round by round, and each is divided by UDP without loss of the same round, because other work on the machine
changes from round to round.  Datagrams are as long as the loopback carries them, or as on a network.
"""

import argparse
import asyncio
import statistics
import time
from contextlib import ExitStack
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.results import Row, table
from permitflow import ChannelParameters
from permitflow.carriers.datagrams import udp
from permitflow.client import SameHost, get
from permitflow.exchange import Exchange, ExchangeServer
from tests.support.lossy_socket import Faults, lossy_network

CHUNK_ROWS, WINDOW_CHUNKS = 10_000, 32
CHUNK = pa.record_batch({"n": np.arange(CHUNK_ROWS)})


class Variant(NamedTuple):
    """What is measured."""

    name: str
    scheme: str = "udp://"
    faults: Faults = Faults()  # it does not change
    datagram_bytes: int = udp.LOOPBACK_DATAGRAM_BYTES
    share: float = 1.0
    """Send this share of the bytes, because short datagrams are slow."""


class Result(NamedTuple):
    """The result of one run."""

    megabytes_per_second: float
    processor_seconds_per_gigabyte: float


VARIANTS = (
    Variant("UDP, nothing lost"),
    Variant("UDP, 1 % lost", faults=Faults(lost=0.01)),
    Variant("UDP, 10 % lost", faults=Faults(lost=0.1)),
    Variant("UDP, 30 % lost", faults=Faults(lost=0.3), share=0.3),
    Variant("UDP, 1 % lost, 5 % doubled, 5 % overtaken", faults=Faults(lost=0.01, doubled=0.05, overtaken=0.05)),
    Variant("TCP", scheme="tcp://"),
    Variant("UDP, 1,200 bytes, nothing lost", datagram_bytes=udp.DATAGRAM_BYTES, share=0.1),
    Variant("UDP, 1,200 bytes, 1 % lost", faults=Faults(lost=0.01), datagram_bytes=udp.DATAGRAM_BYTES, share=0.1),
)
BASES = {"UDP, 1,200 bytes, 1 % lost": "UDP, 1,200 bytes, nothing lost"}
"""What a variant is divided by, if not by the first one."""


async def rate(scheme: str, chunks: int) -> Result:
    """From an exchange to a consumer."""
    exchange = Exchange()
    parameters = ChannelParameters(row_permits=WINDOW_CHUNKS * CHUNK_ROWS)
    sender = exchange.add_channel("c", parameters, CHUNK.schema).sender

    async def send() -> None:
        for _ in range(chunks):
            await sender.send(CHUNK)
        await sender.end()

    async with (
        ExchangeServer(exchange, f"{scheme}127.0.0.1:0") as server,
        get(server.address, "c", same_host=SameHost.NEVER) as receiver,
    ):
        began, processor = time.perf_counter(), time.process_time()
        sending = asyncio.create_task(send())
        came = [message async for message in receiver]
        await sending
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
    assert len(came) == chunks
    size_bytes = chunks * CHUNK.nbytes
    return Result(size_bytes / seconds / 1e6, processor / (size_bytes / 1e9))


def measured(variant: Variant, megabytes: float, seed: int) -> Result:
    """One run of a variant."""
    chunks = max(1, int(variant.share * megabytes * 1e6 / CHUNK.nbytes))
    with ExitStack() as stack:
        stack.enter_context(patch.object(udp, "LOOPBACK_DATAGRAM_BYTES", variant.datagram_bytes))
        if variant.scheme == "udp://":  # also without loss: the lossy socket has a price of its own
            stack.enter_context(lossy_network(variant.faults, seed))
        return asyncio.run(rate(variant.scheme, chunks))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--megabytes", type=float, default=60.0, help="of each run")
    chosen = options.parse_args()
    results: dict[str, list[Result]] = {variant.name: [] for variant in VARIANTS}
    for number in range(chosen.rounds):
        for variant in VARIANTS:
            results[variant.name].append(measured(variant, chosen.megabytes, 1_000 * number))
    rows = list[Row]()
    for variant in VARIANTS:
        mine, base = results[variant.name], results[BASES.get(variant.name, VARIANTS[0].name)]
        ratios = [one.megabytes_per_second / other.megabytes_per_second for one, other in zip(mine, base, strict=True)]
        rows.append(
            {
                "": variant.name,
                "MB/s": f"{statistics.median(one.megabytes_per_second for one in mine):.0f}",
                "processor s per GB": f"{statistics.median(one.processor_seconds_per_gigabyte for one in mine):.1f}",
                "share of the rate without loss": f"{statistics.median(ratios):.2f}",
                "of all rounds": f"{min(ratios):.2f} to {max(ratios):.2f}",
            }
        )
    print(table(rows))


if __name__ == "__main__":
    main()
