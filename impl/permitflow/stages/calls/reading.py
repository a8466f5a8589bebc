"""Elements of a call, one at a time: read when they are asked for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, TypeVar

from permitflow.stages.calls.bounds import CallCounts
from permitflow.stages.source import Source

T = TypeVar("T")


class Reading(Generic[T]):
    """Reads in a task of its own: to cancel gRPC's read would end the call.

    So a cancelled ``next`` takes no element: the next one gets it.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], counts: CallCounts) -> None:
        self._read = read
        self._counts = counts
        self._task: asyncio.Task[T] | None = None

    async def _read_one(self) -> T:
        element = await self._read()
        self._counts.received += 1
        return element

    async def next(self) -> T:
        """The next element; for one task at a time.

        Raises:
            Exception: that of the read.
            CancelledError: this task was cancelled, or the call: ``Task.cancelling`` tells.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._read_one())
            # If the run is left, nobody asks how it ended.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait([self._task])
        task, self._task = self._task, None
        return task.result()

    async def stop(self) -> None:
        """Read no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


async def send_all(source: Source[T], write: Callable[[T], Awaitable[object]], counts: CallCounts) -> None:
    """Write the elements of a source: the next one is asked for when gRPC has taken the last one."""
    async with source.open() as elements:
        async for element in elements:
            counts.pulled += 1
            await write(element)
            counts.sent += 1


def read_ahead(elements: AsyncIterator[T] | Any, prefetch: int, counts: CallCounts) -> Source[T]:
    """A source of what is read, which asks for ``prefetch`` elements before its consumer does."""

    def consumed(element: T) -> T:
        counts.consumed += 1
        return element

    source: Source[T] = Source(elements)
    return (source.async_boundary(prefetch) if prefetch else source).map(consumed)
