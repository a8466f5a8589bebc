"""Runs in asyncio: who asks whom, what a stalled consumer stops, and what cancellation and errors leave behind."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from permitflow.errors import LocalProtocolError, SourceInterruptedError, StalledGraphError
from permitflow.stages import Connection, Elements, Overflow, Source, Stage, open_run

Settle = Callable[[], Awaitable[None]]


class Producer(AsyncIterator[int]):
    """Gives numbers, counts them, and notes that it was closed.  A cancelled call has given nothing."""

    def __init__(self, count: int = 1_000_000, *, error: Exception | None = None) -> None:
        self.count = count
        self.error = error
        self.given = 0
        self.closed = 0
        self.released = asyncio.Event()
        self.released.set()

    async def __anext__(self) -> int:
        await self.released.wait()
        if self.given == self.count:
            raise self.error or StopAsyncIteration
        self.given += 1
        return self.given

    async def aclose(self) -> None:
        self.closed += 1


def passing(stream: Source[int]) -> Source[int]:
    """In a run of one task."""
    return stream.map(lambda number: number)


def buffered(stream: Source[int]) -> Source[int]:
    """In a run with a task for each source."""
    return stream.buffer(1)


BOTH = pytest.mark.parametrize("through", [passing, buffered])


@BOTH
async def test_a_source_is_closed_at_the_end_of_a_block(through: Callable[[Source[int]], Source[int]]) -> None:
    producer = Producer()
    async with through(Source(producer)).open() as elements:
        assert await anext(elements) == 1
    assert producer.closed == 1
    with pytest.raises(StopAsyncIteration):
        await anext(elements)
    await elements.aclose()


@BOTH
async def test_an_error_keeps_its_type_and_comes_after_its_elements(
    through: Callable[[Source[int]], Source[int]],
) -> None:
    error = OSError("lost")
    elements = through(Source(Producer(2, error=error))).open()
    assert [await anext(elements), await anext(elements)] == [1, 2]
    for _ in range(2):
        with pytest.raises(OSError, match="lost") as caught:
            await anext(elements)
        assert caught.value is error


@BOTH
async def test_an_error_of_a_stage_closes_the_source(through: Callable[[Source[int]], Source[int]]) -> None:
    producer = Producer()
    elements = through(Source(producer)).map(lambda number: 1 // (2 - number)).open()
    assert await anext(elements) == 1
    with pytest.raises(ZeroDivisionError):
        await anext(elements)
    assert producer.closed == 1


@BOTH
async def test_a_function_that_raises_stop_iteration_does_not_end_it(
    through: Callable[[Source[int]], Source[int]],
) -> None:
    def stop(_: int) -> int:
        raise StopAsyncIteration

    with pytest.raises(RuntimeError, match="raised StopAsyncIteration"):
        await anext(through(Source(Producer())).map(stop).open())


async def awaiting(cancelled: asyncio.Future[int]) -> AsyncIterator[int]:
    yield 1
    yield await cancelled


async def test_a_cancelled_future_in_a_stage_fails_the_stream() -> None:
    cancelled: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    for stream in (
        Source(awaiting(cancelled)),
        Source(awaiting(cancelled)).buffer(2),
        Source(awaiting(cancelled)).merge(Source([1])),
        Source([1]).map(lambda _: cancelled.result()).buffer(2),
        Source([1]).buffer(2).map(lambda _: cancelled.result()),
        Source([1]).map(lambda _: cancelled.result()),
    ):
        with pytest.raises(RuntimeError, match="raised CancelledError"):
            [element async for element in stream]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@BOTH
async def test_one_run_is_for_one_task_at_a_time(through: Callable[[Source[int]], Source[int]], settle: Settle) -> None:
    producer = Producer()
    producer.released.clear()
    elements = through(Source(producer)).open()
    first = asyncio.ensure_future(anext(elements))
    await settle()
    with pytest.raises(LocalProtocolError, match="another task is asking"):
        await anext(elements)
    producer.released.set()
    assert await first == 1
    await elements.aclose()


async def test_a_cancelled_call_loses_nothing_though_it_was_already_woken(settle: Settle) -> None:
    producer = Producer(3)
    elements = buffered(Source(producer)).open()
    for turns in range(1, 12):
        call = asyncio.ensure_future(anext(elements))
        for _ in range(turns):
            await asyncio.sleep(0)
        if call.done():
            assert call.result() == 1
            break
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    else:
        assert await anext(elements) == 1
    assert [number async for number in elements] == [2, 3]


async def generated(count: int, gate: asyncio.Event) -> AsyncIterator[int]:
    for number in range(count):
        await gate.wait()
        yield number


async def test_a_generator_ended_by_a_cancellation_is_an_error(settle: Settle) -> None:
    elements = passing(Source(generated(3, asyncio.Event()))).open()
    call = asyncio.ensure_future(anext(elements))
    await settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    with pytest.raises(SourceInterruptedError, match="the generator generated was cancelled"):
        await anext(elements)


async def test_behind_a_boundary_a_cancelled_call_does_not_end_a_generator(settle: Settle) -> None:
    gate = asyncio.Event()
    elements = Source(generated(3, gate)).async_boundary(1).open()
    call = asyncio.ensure_future(anext(elements))
    await settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    gate.set()
    assert [number async for number in elements] == [0, 1, 2]


async def test_a_loop_that_is_left_ends_the_tasks_of_its_run(settle: Settle) -> None:
    producer, before = Producer(), asyncio.all_tasks()
    async for number in buffered(Source(producer)):
        if number == 2:
            break
    gc.collect()
    await settle()
    assert asyncio.all_tasks() == before
    assert producer.closed == 1


async def test_closing_wakes_the_task_that_waits(settle: Settle) -> None:
    producer = Producer()
    producer.released.clear()
    elements = buffered(Source(producer)).open()
    call = asyncio.ensure_future(anext(elements))
    await settle()
    await elements.aclose()
    with pytest.raises(StopAsyncIteration):
        await call
    assert producer.closed == 1


class Stubborn(Producer):
    """Cannot be closed."""

    async def aclose(self) -> None:
        raise OSError("cannot be closed")


async def test_an_error_in_closing_a_source_is_not_lost() -> None:
    for through in (passing, buffered):
        elements = through(Source(Stubborn())).open()
        assert await anext(elements) == 1
        with pytest.raises(OSError, match="cannot be closed"):
            await elements.aclose()


async def test_every_source_is_closed_though_another_cannot_be() -> None:
    others = [Producer(), Producer()]
    merged = Source(others[0]).merge(Source(Stubborn()), Source(others[1]))
    async with merged.open() as elements:
        await anext(elements)
        with pytest.raises(OSError, match="cannot be closed"):
            await elements.aclose()
        assert [producer.closed for producer in others] == [1, 1]


async def test_a_streams_error_is_not_hidden_by_one_in_closing() -> None:
    for through in (passing, buffered):
        elements = through(Source(Stubborn())).map(lambda number: 1 // (1 - number)).open()
        with pytest.raises(ZeroDivisionError) as caught:
            await anext(elements)
        assert "cannot be closed" in caught.value.__notes__[0]


class Forgetful(Stage[int, int]):
    """Takes elements, and neither emits nor asks."""

    def on_push(self, inlet: Connection[int]) -> None:
        inlet.grab()


async def test_a_stage_that_does_nothing_when_it_is_asked_is_named() -> None:
    with pytest.raises(StalledGraphError, match="Forgetful neither emits, nor asks, nor ends"):
        await anext(Source(Producer()).via(Forgetful).open())


class Twice(Stage[int, int]):
    """Emits an element twice, though it was asked once."""

    def on_push(self, inlet: Connection[int]) -> None:
        element = inlet.grab()
        self.outlet.push(element)
        self.outlet.push(element)


@BOTH
async def test_a_stage_that_breaks_the_rules_fails_its_stream(through: Callable[[Source[int]], Source[int]]) -> None:
    elements = through(Source(Producer())).via(Twice).open()
    assert await anext(elements) == 1
    with pytest.raises(LocalProtocolError, match="push: this outlet was not asked"):
        await anext(elements)


async def test_an_endless_stage_lets_others_run() -> None:
    def endless(_: int) -> Any:
        while True:
            yield 0

    stream = Source([1]).map_concat(endless).filter(bool)
    for each in (stream, stream.buffer(1)):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), each.open() as elements:
                await anext(elements)


async def test_a_source_that_never_waits_lets_others_run(settle: Settle) -> None:
    async with Source(count()).buffer(4, Overflow.DROP_OLDEST).open() as elements:
        await settle()
        first = await anext(elements)
        await settle()
        assert await anext(elements) > first + 4


@BOTH
async def test_a_stage_with_much_to_do_goes_on_after_others_had_a_turn(
    through: Callable[[Source[int]], Source[int]],
) -> None:
    stream = Source([range(5_000)]).map_concat(iter).filter(lambda number: number == 4_999)
    assert [number async for number in through(stream)] == [4_999]


async def test_a_source_slow_to_close_is_closed_when_a_stage_fails() -> None:
    class Slow(Producer):
        async def aclose(self) -> None:
            await asyncio.sleep(0)
            await super().aclose()

    for through in (passing, buffered):
        producer = Slow()
        with pytest.raises(ZeroDivisionError):
            await anext(through(Source(producer).map(lambda number: 1 // (1 - number))).open())
        assert producer.closed == 1


# What a consumer that stands still stops.


def no_stage(stream: Source[int]) -> Source[int]:
    return stream


CHAINS: dict[str, tuple[Callable[[Source[int]], Source[int]], int]] = {
    # What is given out at most beside what was consumed.
    "nothing": (no_stage, 0),
    "map, filter, map_concat": (lambda s: s.map(abs).filter(bool).map_concat(lambda n: [n]), 0),
    "rechunk": (lambda s: s.map(lambda n: [n]).rechunk(1).map(lambda chunk: chunk[0]), 0),
    "buffer": (lambda s: s.buffer(5), 5),
    "two buffers": (lambda s: s.buffer(5).map(abs).buffer(3), 8),
    "async_boundary": (lambda s: s.async_boundary(8), 8),
    "batch": (lambda s: s.batch(4, max), 5),
    "throttle": (lambda s: s.throttle(1_000_000, 1.0, burst=1_000_000), 0),
    "expand": (lambda s: s.expand(lambda n: [n]), 1),
    "merge": (lambda s: s.merge(Source(())), 0),
    "zip": (lambda s: s.zip_with(Source(range(1_000)), lambda mine, _: mine), 0),
    "all": (lambda s: s.map(abs).buffer(5).async_boundary(8).batch(4, max).merge(Source(())), 18),
}


@pytest.mark.parametrize("name", CHAINS)
async def test_a_stalled_consumer_stops_the_producer_outside(name: str, settle: Settle) -> None:
    chain, most_ahead = CHAINS[name]
    producer = Producer()
    async with chain(Source(producer)).open() as elements:
        for consumed in range(1, 4):
            await anext(elements)
            for _ in range(10):
                await settle()
            given = producer.given
            assert given <= consumed * (5 if "batch" in name or name == "all" else 1) + most_ahead
            for _ in range(10):
                await settle()
            assert producer.given == given


async def test_the_slowest_branch_of_a_fan_out_stops_the_producer_outside(settle: Settle) -> None:
    producer = Producer()
    fast, slow = Source(producer).broadcast(2)
    async with open_run(fast.buffer(3), slow.buffer(2)) as (fasts, slows):

        async def drain(elements: Elements[int]) -> None:
            async for _ in elements:
                pass

        task = asyncio.create_task(drain(fasts))
        for _ in range(10):
            await settle()
        assert producer.given == 2
        assert await anext(slows) == 1
        for _ in range(10):
            await settle()
        assert producer.given == 3
        # Nobody waits for a branch that is closed.
        await slows.aclose()
        assert producer.given < 1_000, "the other branch goes on: closing does not wait for its end"
        await settle()
        assert producer.given > 20
        task.cancel()
        await asyncio.wait([task])


async def test_a_stalled_consumer_with_dropping_holds_only_its_buffer(settle: Settle) -> None:
    producer = Producer(200)
    async with Source(producer).buffer(4, Overflow.DROP_OLDEST).open() as elements:
        while producer.given < 200:
            await settle()
        assert [number async for number in elements] == [197, 198, 199, 200]
