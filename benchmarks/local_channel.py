"""The channel inside a process against ``asyncio.Queue``, messages per second, in one run.

All move the same chunks from one task to another, with room for the same number of rows, and the consumer reads each
chunk.  In each round every candidate runs once, in another order, so that a noisy machine disturbs them alike; a
ratio is taken within a round.  Seconds are those of the processor: nothing here waits for anything but itself.

``receive`` is the figure that counts: one call for each message at both ends, as with the queue.
"""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice

import anyio

from benchmarks.field import Settings
from benchmarks.harness import in_turns
from benchmarks.results import Row, Series
from permitflow import ChannelParameters, EndOfStream, LocalReceiver, LocalSender, open_channel

ROW_PERMITS = 32_768
CHUNK_ROWS = (1, 1_024, 4_096)
AT_ONCE = 64
"""Chunks that ``send_many`` is given, and the most that ``receive_many`` gives."""
QUEUE = "asyncio.Queue"
ANYIO = "anyio"
MESSAGES = 20_000
SMOKE_MESSAGES = 1_000
# A round takes a tenth of a second; a few more of them make up for that.
ROUNDS_IN_A_ROUND = 3


class Chunk:
    """A chunk that looks like an Arrow batch to a channel, with something to read."""

    __slots__ = ("num_rows", "value")

    def __init__(self, num_rows: int, value: int) -> None:
        self.num_rows = num_rows
        self.value = value


Chunks = list[Chunk]
Ends = tuple[LocalSender[Chunk], LocalReceiver[Chunk]]
Candidate = Callable[[Chunks, int], Awaitable[int]]
"""Moves the chunks, with room for this many rows, and gives the sum of their values."""


async def queue(chunks: Chunks, row_permits: int) -> int:
    """``asyncio.Queue`` with room for as many chunks as there are permits for."""
    items: asyncio.Queue[Chunk | None] = asyncio.Queue(row_permits // chunks[0].num_rows)

    async def produce() -> None:
        for chunk in chunks:
            await items.put(chunk)
        await items.put(None)

    producing, total = asyncio.create_task(produce()), 0
    while (chunk := await items.get()) is not None:
        total += chunk.value
    await producing
    return total


async def anyio_stream(chunks: Chunks, row_permits: int) -> int:
    """``anyio``'s memory object stream with room for as many chunks as there are permits for."""
    sending, receiving = anyio.create_memory_object_stream[Chunk](row_permits // chunks[0].num_rows)

    async def produce() -> None:
        async with sending:
            for chunk in chunks:
                await sending.send(chunk)

    producing, total = asyncio.create_task(produce()), 0
    async with receiving:
        async for chunk in receiving:
            total += chunk.value
    await producing
    return total


async def one_by_one(sender: LocalSender[Chunk], chunks: Chunks) -> None:
    for chunk in chunks:
        await sender.send(chunk)
    await sender.end()


async def many(sender: LocalSender[Chunk], chunks: Chunks) -> None:
    left = iter(chunks)
    while train := deque(islice(left, AT_ONCE)):
        await sender.send_many(train)
    await sender.end()


async def received(receiver: LocalReceiver[Chunk]) -> int:
    return sum([message.payload.value async for message in receiver])


async def received_many(receiver: LocalReceiver[Chunk]) -> int:
    total = 0
    try:
        while True:
            for message in await receiver.receive_many(AT_ONCE):
                total += message.payload.value
    except EndOfStream:
        return total


def channel(
    produce: Callable[[LocalSender[Chunk], Chunks], Awaitable[None]],
    consume: Callable[[LocalReceiver[Chunk]], Awaitable[int]],
) -> Candidate:
    """Our channel with its default parameters, used by this kind of call."""

    async def move(chunks: Chunks, row_permits: int) -> int:
        ends: Ends = open_channel(ChannelParameters(row_permits=row_permits))
        sender, receiver = ends
        _, total = await asyncio.gather(produce(sender, chunks), consume(receiver))
        moved = receiver.statistics()
        assert moved.consumed_chunks == len(chunks), moved
        assert moved.peak_rows_held <= row_permits, moved
        return total

    return move


CANDIDATES: dict[str, Candidate] = {
    QUEUE: queue,
    ANYIO: anyio_stream,
    "receive": channel(one_by_one, received),
    "send_many, receive_many": channel(many, received_many),
}


def measure_local(settings: Settings) -> list[Row]:
    """Million messages in a second of processor time, of each candidate with chunks of each size."""
    messages = SMOKE_MESSAGES if settings.is_smoke else MESSAGES
    found: dict[str, Row] = {name: {"million messages/s": name} for name in CANDIDATES}
    # Else a collection would look through all that this process has loaded: longer than a round takes.
    gc.collect()
    gc.freeze()
    for rows in CHUNK_ROWS:
        chunks = [Chunk(rows, number) for number in range(messages)]
        variants = {name: partial(_seconds, candidate, chunks) for name, candidate in CANDIDATES.items()}
        for name, seconds in in_turns(variants, ROUNDS_IN_A_ROUND * settings.rounds).items():
            found[name][f"{rows:,} rows"] = Series.of(messages / each / 1e6 for each in seconds)
    gc.unfreeze()
    return [*found.values()]


def _seconds(candidate: Candidate, chunks: Chunks) -> float:
    async def timed() -> float:
        start = time.process_time()
        total = await candidate(chunks, ROW_PERMITS)
        seconds = time.process_time() - start
        assert total == sum(chunk.value for chunk in chunks), "something was lost"
        return seconds

    return asyncio.run(timed())
