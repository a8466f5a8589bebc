"""What a stream reads is closed, asynchronous or not, however its run ends; a generator is for one run."""

import asyncio
import gc
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from permitflow.errors import SpentSourceError
from permitflow.stages import Source, calls, open_run
from tests.support.numbers_service import number, serving
from tests.support.turns import until

Settle = Callable[[], Awaitable[None]]
Closed = list[str]


def rows(closed: Closed) -> Iterator[int]:
    try:
        yield from range(1_000)
    finally:
        closed.append("closed")


async def async_rows(closed: Closed) -> AsyncIterator[int]:
    try:
        for number in range(1_000):
            yield number
    finally:
        closed.append("closed")


def plain(stream: Source[int]) -> Source[int]:
    return stream.map(lambda number: number)


def buffered(stream: Source[int]) -> Source[int]:
    return stream.buffer(2)


async def ends(stream: Source[int]) -> None:
    assert len([number async for number in stream]) == 1_000


async def is_left_by_its_block(stream: Source[int]) -> None:
    async with stream.open() as elements:
        await anext(elements)


async def is_left_by_break(stream: Source[int]) -> None:
    async for _ in stream:
        break
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)


async def fails(stream: Source[int]) -> None:
    with pytest.raises(ZeroDivisionError):
        [number async for number in stream.map(lambda number: 1 // (3 - number))]


async def is_cancelled(stream: Source[int]) -> None:
    async def consume() -> None:
        async with stream.open() as elements:
            await anext(elements)
            await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


ENDINGS = [ends, is_left_by_its_block, is_left_by_break, fails, is_cancelled]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("through", [plain, buffered])
@pytest.mark.parametrize("make", [rows, async_rows])
async def test_a_generator_is_closed_when_a_run_is_over(
    make: Callable[[Closed], Any], through: Callable[[Source[int]], Source[int]], ending: Callable[[Source[int]], Any]
) -> None:
    closed: Closed = []
    held = make(closed)  # by its owner, so that Python does not collect it
    await ending(through(Source(held)))
    assert closed == ["closed"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("through", [plain, buffered])
async def test_a_generator_of_a_stage_is_closed_when_a_run_is_over(
    through: Callable[[Source[int]], Source[int]], ending: Callable[[Source[int]], Any]
) -> None:
    closed: Closed = []
    held = rows(closed)
    await ending(through(Source([1]).map_concat(lambda _: held)))
    assert closed == ["closed"]


async def test_an_expansion_is_closed_when_a_newer_element_comes() -> None:
    closed: Closed = []
    held = [rows(closed), rows(closed)]

    async def two() -> AsyncIterator[Iterator[int]]:
        for generator in held:
            yield generator
        await asyncio.Event().wait()

    async with Source(two()).expand(lambda generator: generator).open() as elements:
        for _ in range(10):
            await anext(elements)
            await asyncio.sleep(0)
        assert closed == ["closed"]
    assert closed == ["closed", "closed"]


@pytest.mark.parametrize("make", [rows, async_rows])
async def test_a_second_run_over_a_generator_is_refused(make: Callable[[Closed], Any]) -> None:
    source: Source[int] = Source(make([]))
    assert len([number async for number in source]) == 1_000
    with pytest.raises(SpentSourceError, match="rows can be read by one run only"):
        [number async for number in source]


async def test_two_entries_of_a_run_over_one_generator_are_refused() -> None:
    closed: Closed = []
    source: Source[int] = Source(rows(closed))
    with pytest.raises(SpentSourceError):
        [pair async for pair in source.zip(source)]
    assert closed == ["closed"]


@pytest.mark.parametrize("make", [rows, async_rows])
async def test_a_factory_makes_a_generator_for_each_run(make: Callable[[Closed], Any]) -> None:
    closed: Closed = []

    def generator() -> Any:
        return make(closed)

    source: Source[int] = Source.from_iterator(generator)
    for _ in range(2):
        assert [number async for number in source] == [*range(1_000)]
    assert closed == ["closed", "closed"]


# Turns of the loop.


async def turns_during(work: Awaitable[object]) -> int:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await work
    counting.cancel()
    return turns


async def drained(stream: Source[Any]) -> None:
    async for _ in stream:
        pass


async def drained_branches(stream: Source[int]) -> None:
    async with open_run(*stream.broadcast(2)) as exits:
        await asyncio.gather(*map(drained, exits))  # type: ignore[arg-type]  # iterated, as a source is


RUNNERS: dict[str, Callable[[Source[int]], Awaitable[None]]] = {
    "plain": drained,
    "filter that drops all": lambda s: drained(s.filter(lambda _: False)),
    "buffer": lambda s: drained(s.buffer(8)),
    "buffer before a filter": lambda s: drained(s.buffer(8).filter(lambda _: False)),
    "one element taken apart": lambda s: drained(Source([1]).map_concat(lambda _: range(6_400))),
    "one element taken apart behind a buffer": lambda s: drained(
        Source([1]).buffer(1).map_concat(lambda _: range(6_400))
    ),
    "branches": drained_branches,
}


@pytest.mark.parametrize("runner", RUNNERS)
async def test_others_have_a_turn_after_each_64_elements(runner: str) -> None:
    assert await turns_during(RUNNERS[runner](Source(range(6_400)))) >= 6_400 // 64


async def test_a_time_out_fires_over_a_source_that_never_waits() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await drained(Source(itertools.count()).filter(lambda _: False))


# Behind a call.


async def _doubled(iterator: Any, context: Any) -> None:
    await calls.respond(context, calls.requests(iterator, context).map(lambda one: number(2 * one.value)))


@pytest.mark.parametrize("ending", [ends, is_left_by_its_block, fails, is_cancelled])
@pytest.mark.parametrize("generate", [rows, async_rows])
async def test_what_a_call_sends_is_closed_however_it_ends(
    generate: Callable[[Closed], Any], ending: Callable[[Source[int]], Awaitable[None]]
) -> None:
    closed: Closed = []
    async with serving(Double=_doubled) as stub:
        requests = Source(generate(closed)).map(number)
        await ending(requests.through(calls.flow(stub.Double)).map(lambda one: one.value // 2))
        await until(lambda: bool(closed))
    assert closed == ["closed"]
