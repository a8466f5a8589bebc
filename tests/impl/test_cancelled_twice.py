"""Who is cancelled once more while it waits for the end of its tasks leaves none of them behind."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from permitflow.client import get
from permitflow.reactive import ReadingSubscriber, SourcePublisher
from permitflow.stages import Source, calls
from tests.support.numbers_service import number, serving
from tests.support.served import served

TURNS_OF_CLEANUP = 10
SCHEMA = pa.schema([("n", pa.int64())])
Work: TypeAlias = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""Sets the event when it may be cancelled."""


async def slow_to_close() -> AsyncIterator[int]:
    """It gives an element, then nothing, and takes some turns of the loop to close, also if it is cancelled."""
    try:
        yield 1
        await asyncio.Event().wait()
    finally:
        for _ in range(TURNS_OF_CLEANUP):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)


async def read(source: Source[Any], is_ready: asyncio.Event) -> None:
    async with source.open() as elements:
        async for _ in elements:
            is_ready.set()


@asynccontextmanager
async def merging() -> AsyncIterator[Work]:
    async def work(is_ready: asyncio.Event) -> None:
        await read(Source(slow_to_close()).merge(Source(slow_to_close())), is_ready)

    yield work


@asynccontextmanager
async def publishing() -> AsyncIterator[Work]:
    async def work(is_ready: asyncio.Event) -> None:
        publisher, reading = SourcePublisher(Source(slow_to_close())), ReadingSubscriber[int](2)
        publisher.subscribe(reading)
        await anext(aiter(reading))
        is_ready.set()
        await publisher.aclose()

    yield work


@asynccontextmanager
async def calling() -> AsyncIterator[Work]:
    async def stall(_: Any, context: Any) -> None:
        await context.write(number(1))
        await asyncio.Event().wait()

    async with serving(Double=stall) as stub:

        async def work(is_ready: asyncio.Event) -> None:
            await read(Source(slow_to_close()).map(number).through(calls.flow(stub.Double)), is_ready)

        yield work


@asynccontextmanager
async def getting() -> AsyncIterator[Work]:
    async with served("c", schema=SCHEMA) as (_, address):

        async def work(is_ready: asyncio.Event) -> None:
            async with get(address, "c", resume_seconds=30) as receiver:
                is_ready.set()
                await receiver.receive()

        yield work


DOORS: dict[str, Callable[[], AbstractAsyncContextManager[Work]]] = {
    "merged sources": merging,
    "a publisher": publishing,
    "a call": calling,
    "a consumer": getting,
}
_is_of_work = ContextVar("_is_of_work", default=False)


@pytest.mark.parametrize("between", [1, 2])
@pytest.mark.parametrize("door", DOORS)
async def test_who_is_cancelled_twice_leaves_no_task(door: str, between: int) -> None:
    loop, made = asyncio.get_running_loop(), list[asyncio.Task[Any]]()

    def noted(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **options)
        if _is_of_work.get() and not coroutine.__qualname__.startswith("_AioCall"):  # gRPC's own end a moment later
            made.append(task)
        return task

    async with DOORS[door]() as work:
        is_ready = asyncio.Event()
        loop.set_task_factory(noted)
        _is_of_work.set(True)
        working = asyncio.create_task(work(is_ready))
        await is_ready.wait()
        for turns in (3, between):
            for _ in range(turns):
                await asyncio.sleep(0)
            working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        left = [task for task in made if not task.done()]
        loop.set_task_factory(None)
        _is_of_work.set(False)
        assert left == []
