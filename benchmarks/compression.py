"""What compressing chunks saves and costs, and below which network it pays: TPC-H's line items over TCP.

    python -m benchmarks.compression --folder build/bench

A sender and a receiver in two processes.  What an end costs is processor time, with all of its threads; the rates are
through a proxy that lets only so many bits a second pass.  It pays as long as the network would take longer for the
bytes that were not compressed than the busier end takes to work with those that are.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.compression_speed import PART, CompressionSpeed, rows
from benchmarks.machine import describe_machine
from benchmarks.markdown_table import table
from benchmarks.pairs import CHECKOUT
from benchmarks.results import Results
from benchmarks.series import Series
from permitflow.demo.tpch import cached_tables, default_cache_dir
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.compression import Compression
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.grpc_aio import SameHost, get

__all__ = ["measure"]

CHANNEL = "lineitem/0"
CHUNK_ROWS = 8_192
WINDOW = ChannelParameters(row_permits=8 * CHUNK_ROWS)
CODECS = (Compression.NONE, Compression.LZ4, Compression.ZSTD)
MEGABITS = (100.0, 1_000.0)
SCALE, SMOKE_SCALE = 0.1, 0.01


@dataclass(frozen=True)
class Run:
    """All rows, once."""

    seconds: float
    sender_seconds: float
    """Of processor time."""
    receiver_seconds: float
    """Of processor time."""


async def measure(batches: Sequence[pa.RecordBatch], megabits: Sequence[float], rounds: int) -> list[CompressionSpeed]:
    """Each codec in turn, round by round."""
    limits = (None, *megabits)
    runs: dict[tuple[Compression, float | None], list[Run]] = {}
    for _ in range(rounds):
        for limit in limits:
            for codec in CODECS:
                runs.setdefault((codec, limit), []).append(await run_once(batches, codec, limit))
    return [speed(batches, codec, limit, runs[codec, limit]) for codec in CODECS for limit in limits]


def speed(
    batches: Sequence[pa.RecordBatch], codec: Compression, megabits: float | None, runs: Sequence[Run]
) -> CompressionSpeed:
    """All runs of a codec through a network."""
    rows = sum(batch.num_rows for batch in batches)
    gigabytes = encoded_bytes(batches, Compression.NONE) / 1e9
    return CompressionSpeed(
        codec=codec.value,
        megabits=megabits,
        row_bytes=encoded_bytes(batches, codec) / rows,
        rows_per_second=Series.of(rows / run.seconds for run in runs),
        sender_seconds=Series.of(run.sender_seconds / gigabytes for run in runs),
        receiver_seconds=Series.of(run.receiver_seconds / gigabytes for run in runs),
    )


def encoded_bytes(batches: Sequence[pa.RecordBatch], codec: Compression) -> int:
    """What these chunks take on the wire."""
    encoding = BatchCodec(batches[0].schema, codec.codec)
    return sum(len(piece) for batch in batches for piece in encoding.encode([batch]))


async def run_once(batches: Sequence[pa.RecordBatch], codec: Compression, megabits: float | None) -> Run:
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
async def limited(address: str, megabits: float | None) -> AsyncIterator[str]:
    """A way to this address that lets so many megabits a second pass."""
    if megabits is None:
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
    """Print a table, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabits", type=float, nargs="+", default=list(MEGABITS), help="of the networks to try")
    parser.add_argument("--smoke", action="store_true", help="few rows, once: does it still run?")
    parser.add_argument("--folder", type=Path, help="keep the figures among the results in this folder")
    parser.add_argument("--receive", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        asyncio.run(receive(options.receive))
        return
    if options.smoke and options.folder:
        parser.error("figures of a smoke run mean nothing: leave out --folder, or --smoke")
    rounds = 1 if options.smoke else options.rounds
    batches = line_items(SMOKE_SCALE if options.smoke else SCALE)
    found = asyncio.run(measure(batches, options.megabits, rounds))
    print(table(*rows(found)))
    if options.folder:
        Results.keep_in(options.folder, describe_machine(), PART, found, rounds=rounds)


if __name__ == "__main__":
    main()
