"""How a producer without permits is held back all the same: by what the carrier has not taken yet.

Without permits nothing else tells it to wait: whatever it sends is kept in its own process until the carrier takes it.
The chunks themselves say when that is, and nobody has to ask again and again: what was written, nobody in the process
refers to any more.  A producer goes on as soon as there is room for a burst: to wait until a quarter or a half of its
backlog is gone was slower, or made no difference.
"""

import asyncio
import weakref
from collections.abc import AsyncIterator

import pyarrow as pa

__all__ = ["Backlog"]


class Backlog:
    """Rows that were handed over and are still in the producer's process."""

    def __init__(self, most_rows: int) -> None:
        """Nothing waits yet; a burst is held back while more than ``most_rows`` would wait with it."""
        self._most_rows = most_rows
        self._released = asyncio.Event()
        self.rows = 0
        """That wait to be taken."""

    async def held_back(self, bursts: AsyncIterator[list[pa.RecordBatch]]) -> AsyncIterator[list[pa.RecordBatch]]:
        """The same bursts, each as soon as there is room for it; one alone always has room."""
        async for burst in bursts:
            rows = sum(chunk.num_rows for chunk in burst)
            while self.rows and self.rows + rows > self._most_rows:
                self._released.clear()
                await self._released.wait()
            yield self._watched(burst, rows)

    def _watched(self, burst: list[pa.RecordBatch], rows: int) -> list[pa.RecordBatch]:
        """The same chunks, the last as an object that nobody else has: they leave in order, so with it all are gone."""
        last = burst[-1].slice(0)
        self.rows += rows
        weakref.finalize(last, self._release, rows).atexit = False
        return [*burst[:-1], last]

    def _release(self, rows: int) -> None:
        self.rows -= rows
        self._released.set()
