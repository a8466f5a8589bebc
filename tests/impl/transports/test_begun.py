"""A coroutine that is begun without a task, and finished by one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from permitflow.transports.begun import Begun

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


def test_the_first_step_is_taken_at_once_and_the_rest_where_it_is_awaited(complete: Complete) -> None:
    async def test() -> None:
        steps = list[str]()
        waited = asyncio.get_running_loop().create_future()

        async def work() -> None:
            steps.append("begun")
            await waited
            await asyncio.sleep(0)
            steps.append("finished")

        begun = Begun(work())
        assert (steps, begun.is_done) == (["begun"], False)
        asyncio.get_running_loop().call_soon(waited.set_result, None)
        await begun.finish()
        assert steps == ["begun", "finished"]

    complete(test())


def test_what_waits_for_nothing_is_done_at_once(complete: Complete) -> None:
    async def work() -> None:
        return

    begun = Begun(work())
    assert begun.is_done
    complete(begun.finish())


def test_errors_are_raised_where_they_come_up(complete: Complete) -> None:
    async def test() -> None:
        waited = asyncio.get_running_loop().create_future()

        async def fail(*, late: bool) -> None:
            if late:
                await waited
            raise ValueError

        with pytest.raises(ValueError):  # noqa: PT011
            Begun(fail(late=False))
        begun = Begun(fail(late=True))
        waited.set_result(None)
        with pytest.raises(ValueError):  # noqa: PT011
            await begun.finish()

    complete(test())


def test_who_is_cancelled_while_it_waits_cancels_it(complete: Complete) -> None:
    async def test() -> None:
        waited, ending = asyncio.get_running_loop().create_future(), list[str]()

        async def work() -> None:
            try:
                await waited
            except asyncio.CancelledError:
                ending.append("cancelled")
                raise

        begun = Begun(work())
        finishing = asyncio.create_task(begun.finish())
        await asyncio.sleep(0)
        finishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finishing
        assert ending == ["cancelled"]
        assert waited.cancelled()

    complete(test())
