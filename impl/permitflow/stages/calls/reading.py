"""Elements of a call, one at a time: read when they are asked for."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from permitflow.cancelling import cancel_all
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
        self._task: asyncio.Task[None] | None = None
        self._done = asyncio.Event()
        self._element: T
        self._error: BaseException | None = None

    async def _read_one(self) -> None:
        try:
            self._element = await self._read()
            self._counts.received += 1
        except (Exception, asyncio.CancelledError, GeneratorExit) as error:  # a user's iterator may raise any
            self._error = error
        finally:
            self._done.set()

    async def next(self) -> T:
        """The next element; for one task at a time.

        Raises:
            BaseException: that of the read, which ends with ``StopAsyncIteration``.
        """
        if self._task is None:
            self._done.clear()
            self._task = asyncio.create_task(self._read_one())
        await self._done.wait()
        self._task = None
        if self._error is not None:
            raise self._error
        element = self._element
        del self._element  # it may be large, and the next one late
        return element

    async def stop(self) -> None:
        """Read no more."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_all(task)


async def send_all(
    source: Source[T] | AsyncIterable[T] | Iterable[T], write: Callable[[T], Awaitable[object]], counts: CallCounts
) -> None:
    """Write the elements of a source: the next one is asked for when gRPC has taken the last one."""
    async with (source if isinstance(source, Source) else Source(source)).open() as elements:
        async for element in elements:
            counts.pulled += 1
            await write(element)
            counts.sent += 1


def read_ahead(elements: AsyncIterable[T], prefetch: int, counts: CallCounts) -> Source[T]:
    """A source of what is read, which asks for ``prefetch`` elements before its consumer does."""

    def consumed(element: T) -> T:
        counts.consumed += 1
        return element

    source: Source[T] = Source(elements)
    return (source.async_boundary(prefetch) if prefetch else source).map(consumed)
