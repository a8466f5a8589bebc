"""The channel inside a process against ``asyncio.Queue``, messages per second, in one run.

Both move the same chunks from one task to another, with room for the same number of rows.  Rounds of all candidates
are shuffled together, so that a noisy machine disturbs them alike; the median of each is compared with the queue's.
Seconds are those of the processor: nothing here waits for anything but itself.

    python benchmarks/local_channel.py --messages 100000 --rounds 9
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable

from permitflow import ChannelParameters, EndOfStream, LocalReceiver, LocalSender, open_channel

ROW_PERMITS = 32_768
CHUNK_ROWS = (1, 1_024, 4_096)


class Chunk:
    """As an Arrow batch looks to a channel."""

    __slots__ = ("num_rows",)

    def __init__(self, num_rows: int) -> None:
        """Only counts."""
        self.num_rows = num_rows


async def queue(messages: int, rows: int) -> None:
    """``asyncio.Queue`` with room for as many chunks as there are permits for."""
    items: asyncio.Queue[Chunk | None] = asyncio.Queue(max(1, ROW_PERMITS // max(1, rows)))
    chunk = Chunk(rows)

    async def produce() -> None:
        for _ in range(messages):
            await items.put(chunk)
        await items.put(None)

    async def consume() -> None:
        while await items.get() is not None:
            pass

    await asyncio.gather(produce(), consume())


async def channel(messages: int, rows: int, consume: Callable[[LocalReceiver[Chunk]], Awaitable[None]]) -> None:
    """The channel, with its default parameters."""
    ends: tuple[LocalSender[Chunk], LocalReceiver[Chunk]] = open_channel(ChannelParameters(row_permits=ROW_PERMITS))
    sender, receiver = ends
    chunk = Chunk(rows)

    async def produce() -> None:
        for _ in range(messages):
            await sender.send(chunk)
        await sender.end()

    await asyncio.gather(produce(), consume(receiver))
    moved = receiver.statistics()
    assert (moved.consumed_chunks, moved.consumed_rows) == (messages, messages * rows), moved
    assert moved.peak_permits_outstanding <= ROW_PERMITS, moved


async def iterated(receiver: LocalReceiver[Chunk]) -> None:
    """Messages by ``async for``."""
    async for _ in receiver:
        pass


async def received(receiver: LocalReceiver[Chunk]) -> None:
    """Messages by ``receive``."""
    try:
        while True:
            await receiver.receive()
    except EndOfStream:
        return


async def received_many(receiver: LocalReceiver[Chunk]) -> None:
    """Messages by ``receive_many``."""
    try:
        while True:
            await receiver.receive_many(64)
    except EndOfStream:
        return


CANDIDATES: dict[str, Callable[[int, int], Awaitable[None]]] = {
    "asyncio.Queue": queue,
    "async for": lambda messages, rows: channel(messages, rows, iterated),
    "receive": lambda messages, rows: channel(messages, rows, received),
    "receive_many": lambda messages, rows: channel(messages, rows, received_many),
}


async def timed(candidate: Callable[[int, int], Awaitable[None]], messages: int, rows: int) -> float:
    """Million messages per second."""
    start = time.process_time()
    await candidate(messages, rows)
    return messages / (time.process_time() - start) / 1e6


def measure(messages: int, rounds: int) -> dict[tuple[str, int], float]:
    """The median of the rounds of each candidate at each chunk size."""
    plan = [(name, rows) for name in CANDIDATES for rows in CHUNK_ROWS for _ in range(rounds)]
    random.Random(1).shuffle(plan)
    found: dict[tuple[str, int], list[float]] = {}
    for name, rows in plan:
        found.setdefault((name, rows), []).append(asyncio.run(timed(CANDIDATES[name], messages, rows)))
    return {key: statistics.median(values) for key, values in found.items()}


def main() -> None:
    """Measure, and print rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000, help="messages per round")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each candidate at each chunk size")
    arguments = parser.parse_args()
    medians = measure(arguments.messages, arguments.rounds)
    print("million messages per second (ratio to asyncio.Queue of the same run)")
    print(f"{'rows per chunk':16}" + "".join(f"{rows:>18,}" for rows in CHUNK_ROWS))
    for name in CANDIDATES:
        cells = [
            f"{medians[name, rows]:.2f} ({medians[name, rows] / medians['asyncio.Queue', rows]:.2f})"
            for rows in CHUNK_ROWS
        ]
        print(f"{name:16}" + "".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main()
