"""Millions of rows through gRPC: the bound holds, and a slow consumer costs no memory at either end.

    python -m benchmarks.soak_grpc --rows 10000000 --slow-seconds 30

Two processes on one machine: an exchange with its producer, and a consumer.  First at full speed; then with a
consumer that is a hundred times slower, while the memory of both processes is watched.  Exit code 1: a promise broke.
"""

import argparse
import asyncio
import sys
import time
from multiprocessing.connection import Connection

import psutil

from benchmarks.harness import Partner
from benchmarks.jobs import PAYLOADS
from benchmarks.standstill import Report, told, watch
from permitflow import ChannelParameters
from permitflow.client import SameHost, get
from permitflow.exchange import Exchange, ExchangeServer

PAYLOAD = PAYLOADS["1,024"]
ROW_PERMITS = 32_768
CHANNEL = "rows"
SLOWDOWN = 100
LONGEST_SECONDS = 3600.0
# A producer without back-pressure would run ahead by hundreds of MB each second.
MOST_GROWTH_BYTES_PER_SECOND = 2 * 256 * 1024.0


async def source(pipe: Connection, chunks: int) -> None:
    """An exchange and its producer; the messages are the address and the most rows that were held anywhere."""
    exchange = Exchange(parameters=ChannelParameters(row_permits=ROW_PERMITS), same_host=SameHost.NEVER)
    sender = exchange.add_channel(CHANNEL, schema=PAYLOAD.schema).sender
    async with ExchangeServer(exchange) as server:
        pipe.send(server.address)
        for chunk in PAYLOAD.chunks(chunks):
            await sender.send(chunk)
        await sender.end()
        await server.stop(LONGEST_SECONDS)
    (channel,) = exchange.statistics()
    # Of the channel, and of the stream to its consumer.
    pipe.send([channel.numbers.peak_rows_held, *(each.numbers.peak_rows_held for each in channel.streams)])


async def consume(pipe: Connection, address: str, pause_seconds: float) -> None:
    """Read everything; the message is the number of rows."""
    rows = 0
    async with get(address, CHANNEL) as receiver:
        async for message in receiver:
            rows += message.rows
            if pause_seconds:
                await asyncio.sleep(pause_seconds)
    pipe.send(rows)


def soak(shape: str, rows: int, pause_seconds: float) -> tuple[Report, float]:
    """Move so many rows from one process to another, and watch both; the report, and rows per second."""
    chunks = -(-rows // PAYLOAD.rows)
    with Partner(source, chunks) as producer, Partner(consume, producer.hears(), pause_seconds) as consumer:
        ends, began = [psutil.Process(end.pid) for end in (producer, consumer)], time.monotonic()
        watched = asyncio.run(watch(ends, int, LONGEST_SECONDS, until=consumer.has_told))
        came = consumer.hears()
        seconds = time.monotonic() - began
        assert came == chunks * PAYLOAD.rows, f"{came:,} rows came"
        peak = max(producer.hears())
    growth = MOST_GROWTH_BYTES_PER_SECOND * seconds if pause_seconds else float("inf")
    report = Report(
        shape=shape, unit="rows", most_ahead=ROW_PERMITS, ahead=peak, watched=watched, most_growth_bytes=growth
    )
    return report, came / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows at full speed")
    parser.add_argument("--slow-seconds", type=float, default=30.0, help="how long the slow consumer is watched")
    options = parser.parse_args()
    fast, rate = soak("full speed", options.rows, 0.0)
    print(f"{rate:,.0f} rows per second at full speed")
    slow_rate = rate / SLOWDOWN
    rows = max(int(slow_rate * options.slow_seconds), 4 * ROW_PERMITS)
    slow, _ = soak("slow consumer", rows, PAYLOAD.rows / slow_rate)
    return told([fast, slow])


if __name__ == "__main__":
    sys.exit(main())
