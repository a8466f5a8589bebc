"""One end of a remote channel as a process: for tests that kill, stop or measure it.

    python -m tests.support.endpoints source --rows 1000000      serves a channel and fills it
    python -m tests.support.endpoints consume ADDRESS            reads it

Each line of the output is a JSON object with its ``event``: ready, flowing, done or failed.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from permitflow import ChannelParameters, Kind, SendEnd
from permitflow.client import SameHost, get, put
from permitflow.errors import PermitflowError
from permitflow.exchange import Exchange, ExchangeServer

CHANNEL = "rows/0"
PATIENCE_SECONDS = 60.0
"""For an exchange that starts on a busy machine."""
SCHEMA = pa.schema([("number", pa.int64()), ("double", pa.int64()), ("square", pa.int64())])


def chunk(first: int, rows: int) -> pa.RecordBatch:
    """Rows that tell where they belong: numbers from ``first`` on."""
    numbers = range(first, first + rows)
    columns = ([*numbers], [2 * n for n in numbers], [n * n % 1_000_003 for n in numbers])
    return pa.record_batch([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)


def say(event: str, **facts: object) -> None:
    print(json.dumps({"event": event, **facts}, default=str), flush=True)


async def serve(options: argparse.Namespace) -> None:
    exchange = Exchange(parameters=_parameters(options), same_host=options.same_host)
    exchange.add_channel(CHANNEL, schema=SCHEMA)
    async with ExchangeServer(exchange, options.listen, **_lasting(options)) as server:
        say("ready", address=server.address)
        await asyncio.Event().wait()


async def source(options: argparse.Namespace) -> None:
    """Serve a channel, fill it, and stop when everything was consumed."""
    exchange = Exchange(parameters=_parameters(options), same_host=options.same_host)
    channel = exchange.add_channel(CHANNEL, schema=SCHEMA)
    async with ExchangeServer(exchange, options.listen, **_lasting(options)) as server:
        say("ready", address=server.address)
        await fill(channel.sender, options)
        await channel.sender.end()
        await server.stop(600.0)
    (statistics,) = exchange.statistics()
    say("done", statistics=asdict(statistics))


async def produce(options: argparse.Namespace) -> None:
    async with put(
        options.address,
        CHANNEL,
        SCHEMA,
        wanted=_parameters(options),
        same_host=options.same_host,
        connect_timeout_seconds=PATIENCE_SECONDS,
        agreement_timeout_seconds=PATIENCE_SECONDS,
        **_lasting(options),
    ) as sender:
        say("ready")
        await fill(sender, options)
        await sender.end()
        say("done", statistics=asdict(sender.statistics()))


async def fill(sender: SendEnd[pa.RecordBatch], options: argparse.Namespace) -> None:
    """Send so many rows; the chunk of each size is made once."""
    full = chunk(0, options.chunk_rows)
    for first in range(0, options.rows, options.chunk_rows):
        await sender.send(full.slice(0, min(options.chunk_rows, options.rows - first)))
        if options.pause_seconds:
            await asyncio.sleep(options.pause_seconds)


async def consume(options: argparse.Namespace) -> None:
    """Read the channel of an exchange; a pause after each chunk makes a slow consumer."""
    rows = 0
    async with get(
        options.address,
        CHANNEL,
        wanted=_parameters(options),
        same_host=options.same_host,
        connect_timeout_seconds=PATIENCE_SECONDS,
        agreement_timeout_seconds=PATIENCE_SECONDS,
        **_lasting(options),
    ) as receiver:
        say("ready")
        async for message in receiver:
            if not rows:
                say("flowing")
            if message.kind is Kind.CHUNK:
                rows += message.payload.num_rows
            if options.pause_seconds:
                await asyncio.sleep(options.pause_seconds)
        say("done", rows=rows, statistics=asdict(receiver.statistics()))


def _lasting(options: argparse.Namespace) -> dict[str, Any]:
    """How long a connection may be silent, and a stream without one."""
    return {"silence_seconds": options.silence_seconds, "resume_seconds": options.resume_seconds}


def _parameters(options: argparse.Namespace) -> ChannelParameters:
    return ChannelParameters(row_permits=options.row_permits)


ROLES = {"serve": serve, "source": source, "produce": produce, "consume": consume}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=list(ROLES))
    parser.add_argument("address", nargs="?", default="")
    numbers: dict[str, tuple[type[Any], Any]] = {
        "--rows": (int, 10**12),
        "--chunk-rows": (int, 1024),
        "--row-permits": (int, 32_768),
        "--pause-seconds": (float, 0.0),
        "--silence-seconds": (float, 8.0),
        "--resume-seconds": (float, 0.0),
    }
    for name, (kind, default) in numbers.items():
        parser.add_argument(name, type=kind, default=default)
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--same-host", type=SameHost, default=SameHost.AUTO)
    options = parser.parse_args(arguments)
    try:
        asyncio.run(ROLES[options.role](options))
    except PermitflowError as error:
        say("failed", type=type(error).__name__, message=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
