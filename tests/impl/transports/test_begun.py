"""A coroutine that was begun without a task goes on by itself, and whoever awaits it hears how it has ended."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from permitflow.transports.begun import Begun
from tests.support.number_streams import turns

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


async def finished(working: Awaitable[None]) -> None:
    """As a carrier that has no words of its own."""
    await working


def begun(working: Coroutine[object, None, None]) -> Begun:
    return Begun(working, working.send(None), finished)


def future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


def test_it_goes_on_by_itself_and_tells_when_it_is_over(complete: Complete) -> None:
    async def test() -> None:
        steps, waited, over = list[str](), future(), asyncio.Event()

        async def work() -> None:
            steps.append("begun")
            await waited
            await asyncio.sleep(0)
            steps.append("finished")

        working = begun(work())
        working.at_end(lambda _: over.set())
        assert (steps, working.is_over) == (["begun"], False)
        waited.set_result(None)
        await over.wait()
        assert (steps, working.is_over, working.error) == (["begun", "finished"], True, None)
        await working()

    complete(test())


def test_who_awaits_it_wakes_up_when_it_is_over(complete: Complete) -> None:
    async def test() -> None:
        waited = future()

        async def work() -> None:
            await waited

        working = begun(work())
        asyncio.get_running_loop().call_soon(waited.set_result, None)
        await working()
        assert working.is_over

    complete(test())


@pytest.mark.parametrize("awaits", ["before", "after"])
def test_its_error_is_told_and_raised_where_it_is_awaited(complete: Complete, awaits: str) -> None:
    async def test() -> None:
        waited, over = future(), asyncio.Event()

        async def fail() -> None:
            await waited
            raise ValueError

        working = begun(fail())
        working.at_end(lambda _: over.set())
        asyncio.get_running_loop().call_soon(waited.set_result, None)
        if awaits == "after":
            await over.wait()
        with pytest.raises(ValueError):  # noqa: PT011
            await working()
        assert isinstance(working.error, ValueError)

    complete(test())


def test_a_cancellation_of_what_it_waits_for_is_its_error(complete: Complete) -> None:
    async def test() -> None:
        waited, over = future(), asyncio.Event()

        async def work() -> None:
            await waited

        working = begun(work())
        working.at_end(lambda _: over.set())
        waited.cancel()
        await over.wait()
        assert working.is_over
        with pytest.raises(asyncio.CancelledError):
            await working()

    complete(test())


def test_who_is_cancelled_while_it_waits_cancels_it(complete: Complete) -> None:
    async def test() -> None:
        waited, ending = future(), list[str]()

        async def work() -> None:
            try:
                await waited
            except asyncio.CancelledError:
                ending.append("cancelled")
                raise

        working = begun(work())
        waiting = asyncio.create_task(working())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        assert ending == ["cancelled"]
        assert waited.cancelled()

    complete(test())


@pytest.mark.parametrize("is_closed", [False, True], ids=["cancelled", "closed"])
def test_who_gives_it_up_ends_it_at_once_and_nobody_is_told_of_an_end(complete: Complete, *, is_closed: bool) -> None:
    async def test() -> None:
        waited, steps, told = future(), list[str](), list[Begun]()

        async def work() -> None:
            try:
                await waited
            finally:
                steps.append("left")

        working = begun(work())
        working.at_end(told.append)
        waiting = working()
        waiting.send(None)
        if is_closed:
            waiting.close()
            waited.set_result(None)
        else:
            with pytest.raises(asyncio.CancelledError):
                waiting.throw(asyncio.CancelledError())
        assert steps == ["left"]
        await turns()
        assert (steps, told, working.error) == (["left"], [], None)

    complete(test())


def test_a_turn_of_the_loop_that_it_lets_pass_is_one(complete: Complete) -> None:
    async def test() -> None:
        steps = list[str]()

        async def work() -> None:
            await asyncio.sleep(0)
            steps.append("finished")

        working = begun(work())
        assert steps == []
        await working()
        assert steps == ["finished"]

    complete(test())
