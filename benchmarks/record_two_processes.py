"""A real run of two processes over gRPC, recorded at all ends and judged; then runs of sabotaged receivers.

    python -m benchmarks.record_two_processes --chunks 100000 --keep DIRECTORY
    python -m benchmarks.record_two_processes --chunks 100000 --with-tlc
    python -m benchmarks.record_two_processes --sabotage lost

One process is an exchange; the other one feeds it and reads from it: three streams, each recorded at both ends.  No
clock is common to the recordings.  Each sabotaged run must be refused at the step at which it went wrong.
Exit code 1: the real run is not a behaviour of the specification, or sabotage was not found where it is.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from benchmarks.harness import Partner
from benchmarks.sabotage import SABOTAGES, first_wrong_event
from permitflow import ChannelParameters, RecorderFactory
from permitflow.client import SameHost, get, put
from permitflow.errors import PermitflowError
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.tracing import FileTrace, read_trace
from permitflow_testing.referee import ask_tlc
from permitflow_testing.traces import judge, judge_all

CHANNEL, PUT = "orders", "orders#put1"
SCHEMA = pa.schema([("serial", pa.int64())])

# Sizes of chunks such that no two sums of neighbours are equal (the marks 2pk + k² mod p of Erdős and Turán): a
# return of permits can be told from every other, and wrong ones are found at once rather than soon.
PRIME = 307
SABOTAGED_CHUNKS = 300
SMALL_PRIME = 31

AGREED = ChannelParameters(row_permits=10_000, permit_batch=1_250)
# The consumer begins when two windows are full; from then on all ends wait for permits.
CHUNKS_IN_TWO_WINDOWS = 2 * AGREED.row_permits // (2 * PRIME)


def sizes(count: int, prime: int) -> Iterator[int]:
    for number in range(count):
        position = number % prime
        yield 2 * prime + (position + 1) ** 2 % prime - position**2 % prime


async def exchange(pipe: Connection, file: Path, sabotage: str | None) -> None:
    """Serve until the pipe ends; the message is the address."""
    if sabotage:
        SABOTAGES[sabotage]()
    # Through shared memory almost the whole window returns at once: the sender refuses permits that are returned twice
    # before they are recorded.
    same_host = SameHost.NEVER if sabotage else SameHost.AUTO
    with FileTrace(file) as trace:
        registry = Exchange(record=trace.recorder, same_host=same_host)
        registry.add_channel(CHANNEL, AGREED, SCHEMA)
        async with ExchangeServer(registry) as server:
            pipe.send(server.address)
            with suppress(EOFError):
                await asyncio.to_thread(pipe.recv)


async def feed_and_read(address: str, chunk_sizes: Sequence[int], record: RecorderFactory) -> int:
    """Send all chunks through the exchange, and count the rows that come out."""
    rows = pa.record_batch({"serial": range(max(chunk_sizes))}, schema=SCHEMA)
    is_full = asyncio.Event()

    async def produce() -> None:
        async with put(address, CHANNEL, SCHEMA, record=record) as sender:
            for number, size in enumerate(chunk_sizes, start=1):
                await sender.send(rows.slice(0, size))
                if number == min(CHUNKS_IN_TWO_WINDOWS, len(chunk_sizes)):
                    is_full.set()
            await sender.end()

    async with get(address, CHANNEL, record=record) as receiver, asyncio.TaskGroup() as group:
        group.create_task(produce())
        await is_full.wait()
        return sum([message.rows async for message in receiver])


def record_run(folder: Path, chunk_sizes: Sequence[int], sabotage: str | None) -> str:
    """Let two processes run and write their traces into the folder; say how it ended."""
    with Partner(exchange, folder / "exchange.jsonl", sabotage) as server, FileTrace(folder / "clients.jsonl") as trace:
        try:
            rows = asyncio.run(feed_and_read(server.hears(), chunk_sizes, trace.recorder))
        except* PermitflowError as errors:
            ended = f"an end of the stream noticed: {errors.exceptions[0]}"
        else:
            ended = f"{rows:,} rows in {len(chunk_sizes):,} chunks came through"
        return ended


def run_honestly(folder: Path, options: argparse.Namespace) -> bool:
    print(f"real run: {record_run(folder, list(sizes(options.chunks, SMALL_PRIME)), None)}")
    trace = read_trace(folder)
    verdicts = judge_all(trace)
    for verdict in verdicts:
        print(f"  {verdict.describe()}")
        if (peaks := verdict.peaks) is not None:
            print(f"    at most {peaks.row_permits_in_use:,} of {peaks.row_permits:,} row permits in use")
    holds = trace.is_complete and all(verdict.is_valid and verdict.is_at_rest for verdict in verdicts)
    if options.with_tlc:
        referee = ask_tlc(trace.channels[PUT])
        print(f"  {PUT}: {referee.describe()}")
        holds = holds and referee.agrees
    return holds


def run_sabotaged(folder: Path, sabotage: str) -> bool:
    """Record, judge, and check that the model objects to the right step."""
    ended = record_run(folder, list(sizes(SABOTAGED_CHUNKS, PRIME)), sabotage)
    print(f"permits {sabotage}: {ended}")
    channel = read_trace(folder).channels[PUT]
    verdict = judge(channel)
    print(f"  {verdict.describe()}".replace("\n", "\n  "))
    first = verdict.replay.blocked[0].event if not verdict.is_valid else None
    is_found = first is not None and (first.end, first.sequence) == first_wrong_event(channel, sabotage)
    print(f"  {'refused at the right step' if is_found else 'NOT FOUND WHERE IT IS'}")
    return is_found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000, help="of the real run")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep the traces in this new folder")
    parser.add_argument("--with-tlc", action="store_true", help="TLC judges the real run as well")
    parser.add_argument("--sabotage", choices=SABOTAGES, help="only this run")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="permitflow-") as name:
        base = options.keep or Path(name)
        results = []
        for run in [options.sabotage] if options.sabotage else ["real", *SABOTAGES]:
            (folder := base / run).mkdir(parents=True)
            is_real = run == "real"
            results.append(run_honestly(folder, options) if is_real else run_sabotaged(folder, run))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
