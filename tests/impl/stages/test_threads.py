"""An iterable that blocks, in a thread of its own: order, bound, closing, and a thread that does not come back."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from permitflow.errors import BlockedThreadError
from permitflow.stages import Source


class Cursor(Iterator[int]):
    """Notes which threads use it, and how far it was read."""

    def __init__(self, count: int = 1_000_000) -> None:
        self.count = count
        self.given = 0
        self.threads = set[int]()
        self.closed = 0
        self.released = threading.Event()
        self.released.set()

    def __next__(self) -> int:
        self.released.wait(30)
        self.threads.add(threading.get_ident())
        if self.given == self.count:
            raise StopIteration
        self.given += 1
        return self.given

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed += 1


async def test_a_thread_reads_and_closes_what_blocks() -> None:
    cursor = Cursor(1_000)
    assert [number async for number in Source.in_thread(cursor)] == [*range(1, 1_001)]
    assert cursor.closed == 1
    assert len(cursor.threads) == 1
    assert threading.get_ident() not in cursor.threads


async def test_a_thread_reads_no_further_than_its_bound() -> None:
    cursor = Cursor()
    async with Source.in_thread(cursor, ahead=4).open() as elements:
        assert [await anext(elements) for _ in range(3)] == [1, 2, 3]
        assert cursor.given <= 8
    assert cursor.given <= 8
    assert cursor.closed == 1


async def test_a_cancelled_call_takes_nothing_from_a_thread() -> None:
    cursor = Cursor(3)
    cursor.released.clear()
    async with Source.in_thread(cursor).open() as elements:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(elements), 0.01)
        cursor.released.set()
        assert [number async for number in elements] == [1, 2, 3]


async def test_an_error_in_a_thread_comes_after_the_elements_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise OSError("lost")

    elements = Source.in_thread(failing()).open()
    assert await anext(elements) == 1
    with pytest.raises(OSError, match="lost"):
        await anext(elements)


async def test_a_thread_that_does_not_come_back_is_named_and_left() -> None:
    cursor = Cursor()
    cursor.released.clear()
    source: Source[Any] = Source.in_thread(cursor, closing_seconds=0.05)
    elements = source.open()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(elements), 0.01)
    with pytest.raises(BlockedThreadError, match=r"the thread that reads Cursor has not come back from next\(\)"):
        await elements.aclose()
    (thread,) = [each for each in threading.enumerate() if each.name == "next() of Cursor"]
    cursor.released.set()
    thread.join(10)
    assert cursor.closed == 1


async def test_a_loop_that_is_left_ends_its_thread() -> None:
    cursor = Cursor()
    async for _ in Source.in_thread(cursor):
        break
    for thread in threading.enumerate():
        if thread.name == "next() of Cursor":
            await asyncio.to_thread(thread.join, 10)
    assert cursor.closed == 1
