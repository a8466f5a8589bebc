"""A producer and a consumer of several channels, in processes that are killed and go on where they have stopped.

    python -m tests.cluster.clients produce ADDRESSES FOLDER ROWS CHANNEL,…
    python -m tests.cluster.clients consume ADDRESSES FOLDER 0 CHANNEL,…

A producer fills each channel with the numbers that are its share.  A consumer writes the numbers of each channel into
a file of the folder, and goes on at the row that the file's size says.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from permitflow.client import control, get, put
from permitflow.errors import PermitflowError

CHUNK_ROWS = 1_000
PAUSE_SECONDS = 0.2
NUMBER_BYTES = 8
SCHEMA = pa.schema([("n", pa.int64())])


def first_number(channel: str, rows: int) -> int:
    """Of those that come through a channel with so many rows."""
    return int(channel.rpartition("/")[2]) * rows


async def produce(address: str, channel: str, rows: int) -> None:
    """Put all rows of a channel, those first that it does not have yet."""
    first = first_number(channel, rows)
    async with put(address, channel, SCHEMA, producer=f"of {channel}", resume_seconds=0) as sender:
        assert sender.first_row is not None, "a named producer"
        for row in range(sender.first_row, rows, CHUNK_ROWS):
            numbers = pa.array(range(first + row, first + min(rows, row + CHUNK_ROWS)), pa.int64())
            await sender.send(pa.record_batch([numbers], schema=SCHEMA))
        await sender.end(closes_channel=False)


async def consume(address: str, channel: str, file: BinaryIO) -> None:
    """Read a channel behind what the file has, and acknowledge what it has."""
    row = file.tell() // NUMBER_BYTES
    async with (
        control(address, resume_seconds=0) as orders,
        get(address, channel, from_row=row, resume_seconds=0) as receiver,
    ):
        await orders.acknowledge({channel: row})
        async for message in receiver:
            numbers, checks = message.payload["n"], message.payload["tripled"]
            assert checks.to_pylist() == [3 * number for number in numbers.to_pylist()], "rows have mixed"
            file.write(memoryview(numbers.to_numpy()))
            row += len(numbers)
            await orders.acknowledge({channel: row})


async def again_and_again(channel: str, once: Callable[[], Awaitable[None]]) -> None:
    """Begin again while exchanges are killed."""
    while True:
        try:
            return await once()
        except PermitflowError as error:
            print(f"{channel}: {type(error).__name__}: {error}", flush=True)
            await asyncio.sleep(PAUSE_SECONDS)


def opened(path: Path) -> BinaryIO:
    """A file of whole numbers, at its end; what a killed process had written of another one is gone."""
    file = path.open("ab", buffering=0)
    file.truncate(file.seek(0, os.SEEK_END) // NUMBER_BYTES * NUMBER_BYTES)
    file.seek(0, os.SEEK_END)
    return file


def result_of(folder: Path, channel: str) -> Path:
    """Where a consumer writes what comes in a channel."""
    return folder / channel.replace("/", "-")


async def main(what: str, address: str, folder: Path, rows: int, channels: list[str]) -> None:
    """All channels at once."""
    async with asyncio.TaskGroup() as group:
        for channel in channels:
            once: Callable[[], Awaitable[None]] = (
                partial(produce, address, channel, rows)
                if what == "produce"
                else partial(consume, address, channel, opened(result_of(folder, channel)))
            )
            group.create_task(again_and_again(channel, once))


if __name__ == "__main__":
    _, what, address, folder, rows, channels = sys.argv
    asyncio.run(main(what, address, Path(folder), int(rows), channels.split(",")))
