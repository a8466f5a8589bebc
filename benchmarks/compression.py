"""What compressing chunks saves and costs, and below which network it pays: TPC-H's line items over TCP.

    python -m benchmarks.compression

A sender and a receiver in two processes.  What an end costs is processor time, with all of its threads; the rates are
through a proxy that lets only so many bits a second pass.  It pays as long as the network would take longer for the
bytes that were not compressed than the busier end takes to work with those that are.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pairs import CHECKOUT
from permitflow.cli.console import open_console, open_table
from permitflow.demo.tpch import cached_tables, default_cache_dir
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.compression import Compression
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.grpc_aio import SameHost, get

__all__ = ["Figures", "measure"]

CHANNEL = "lineitem/0"
CHUNK_ROWS = 8_192
WINDOW = ChannelParameters(row_permits=8 * CHUNK_ROWS)
CODECS = (Compression.NONE, Compression.LZ4, Compression.ZSTD)
MEGABITS = (100.0, 1_000.0)
SCALE, SMOKE_SCALE = 0.1, 0.01
UNLIMITED = float("inf")


@dataclass(frozen=True)
class Run:
    """All rows, once."""

    seconds: float
    sender_seconds: float
    """Of processor time."""
    receiver_seconds: float
    """Of processor time."""


@dataclass(frozen=True)
class Figures:
    """One codec."""

    codec: str
    row_bytes: float
    """On the wire."""
    sender_seconds: float
    """Processor time for a gigabyte of chunks, before compression."""
    receiver_seconds: float
    pays_below_gigabits: float | None
    """None: it is what the others are compared with."""
    rows_per_second: dict[str, float]
    """By megabits per second of the network."""


async def measure(batches: Sequence[pa.RecordBatch], megabits: Sequence[float], rounds: int) -> list[Figures]:
    """Each codec in turn, round by round."""
    runs: dict[tuple[Compression, float], list[Run]] = {}
    for _ in range(rounds):
        for limit in (UNLIMITED, *megabits):
            for codec in CODECS:
                runs.setdefault((codec, limit), []).append(await run_once(batches, codec, limit))
    return [
        figures(batches, codec, {limit: runs[codec, limit] for limit in (UNLIMITED, *megabits)}) for codec in CODECS
    ]


def figures(batches: Sequence[pa.RecordBatch], codec: Compression, runs: dict[float, list[Run]]) -> Figures:
    """Medians of all runs."""
    rows, size = sum(batch.num_rows for batch in batches), encoded_bytes(batches, codec)
    gigabytes = encoded_bytes(batches, Compression.NONE) / 1e9
    free = runs[UNLIMITED]
    sender = statistics.median(run.sender_seconds for run in free) / gigabytes
    receiver = statistics.median(run.receiver_seconds for run in free) / gigabytes
    rates = {
        f"{limit:g}": rows / statistics.median(run.seconds for run in several)
        for limit, several in runs.items()
        if limit != UNLIMITED
    }
    pays = None if codec is Compression.NONE else 8 / max(sender, receiver)
    return Figures(codec.value, size / rows, sender, receiver, pays, rates)


def encoded_bytes(batches: Sequence[pa.RecordBatch], codec: Compression) -> int:
    """What these chunks take on the wire."""
    encoding = BatchCodec(batches[0].schema, codec.codec)
    return sum(len(piece) for batch in batches for piece in encoding.encode([batch]))


async def run_once(batches: Sequence[pa.RecordBatch], codec: Compression, megabits: float) -> Run:
    """Send all chunks to a receiver in another process."""
    exchange = Exchange(parameters=WINDOW, same_host=SameHost.NEVER, compression=codec)
    sender = exchange.add_channel(CHANNEL, schema=batches[0].schema).sender
    async with ExchangeServer(exchange, "tcp://127.0.0.1:0") as server, limited(server.address, megabits) as address:
        receiver = await spawn("benchmarks.compression", "--receive", address)
        await told(receiver)
        began, spent = time.perf_counter(), time.process_time()
        for batch in batches:
            await sender.send(batch)
        await sender.end()
        outcome = await told(receiver)
        seconds, spent = time.perf_counter() - began, time.process_time() - spent
        await receiver.wait()
    if outcome["rows"] != sum(batch.num_rows for batch in batches) or outcome["compression"] != codec.value:
        raise SystemExit(f"something else has come than was sent: {outcome}")
    return Run(seconds, spent, outcome["cpu_seconds"])


@asynccontextmanager
async def limited(address: str, megabits: float) -> AsyncIterator[str]:
    """A way to this address that lets so many megabits a second pass."""
    if megabits == UNLIMITED:
        yield address
        return
    proxy = await spawn("benchmarks.delay_proxy", address.removeprefix("tcp://"), "0", str(megabits * 1e6))
    try:
        yield "tcp://" + (await told(proxy))["address"]
    finally:
        assert proxy.stdin is not None  # a pipe was asked for
        proxy.stdin.close()
        await proxy.wait()


async def spawn(module: str, *arguments: str) -> asyncio.subprocess.Process:
    """Start a module, with pipes."""
    command = (sys.executable, "-m", module, *arguments)
    pipe = subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=CHECKOUT)


async def told(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """The next line of a process."""
    assert process.stdout is not None  # a pipe was asked for
    if not (line := await process.stdout.readline()):
        raise SystemExit("a process has ended without a word")
    heard: dict[str, Any] = json.loads(line)
    return heard


async def receive(address: str) -> None:
    """The other process: read all, and say what it took."""
    async with get(address, CHANNEL, same_host=SameHost.NEVER) as receiver:
        print(json.dumps({"ready": True}), flush=True)
        spent, rows = time.process_time(), 0
        async for message in receiver:
            rows += message.rows
        spent, compression = time.process_time() - spent, receiver.statistics().compression
    print(json.dumps({"rows": rows, "cpu_seconds": spent, "compression": compression}), flush=True)


def line_items(scale: float) -> list[pa.RecordBatch]:
    """In chunks, with the types that Spark has."""
    folder, _ = asyncio.run(cached_tables(scale, default_cache_dir()))
    table = pq.read_table(folder / "lineitem.parquet")
    fields = [field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field for field in table.schema]
    return list(table.cast(pa.schema(fields)).combine_chunks().to_batches(max_chunksize=CHUNK_ROWS))


def main() -> None:
    """Print a table, and write JSON if that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabits", type=float, nargs="+", default=list(MEGABITS), help="of the networks to try")
    parser.add_argument("--smoke", action="store_true", help="few rows, once: does it still run?")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--receive", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        asyncio.run(receive(options.receive))
        return
    batches = line_items(SMOKE_SCALE if options.smoke else SCALE)
    found = asyncio.run(measure(batches, options.megabits, 1 if options.smoke else options.rounds))
    show(found)
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n", encoding="utf-8")


def show(found: Sequence[Figures]) -> None:
    """As a table."""
    networks = [f"rows/s at {limit} Mbit/s" for limit in found[0].rows_per_second]
    numbers = ("bytes a row", "sender s/GB", "receiver s/GB", "pays below", *networks)
    table = open_table("codec", *numbers, right=numbers)
    for one in found:
        pays = "" if one.pays_below_gigabits is None else f"{one.pays_below_gigabits:.1f} Gbit/s"
        costs = (f"{one.row_bytes:.0f}", f"{one.sender_seconds:.2f}", f"{one.receiver_seconds:.2f}", pays)
        table.add_row(one.codec, *costs, *(f"{rate:,.0f}" for rate in one.rows_per_second.values()))
    open_console().print(table)


if __name__ == "__main__":
    main()
