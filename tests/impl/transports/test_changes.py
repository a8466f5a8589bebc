"""Who waits for a change goes on within the callback that brings it; and can be cancelled like anybody who waits."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from permitflow.transports.changes import Changes
from tests.support.number_streams import turns

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


class Waiters:
    """Tasks that wait for a change, and what has happened to them."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.seen: list[str] = []

    async def wait(self, name: str) -> None:
        try:
            await self.changes.next()
            self.seen.append(name)
        except asyncio.CancelledError:
            self.seen.append(f"{name}, cancelled")
            raise

    async def started(self, *names: str) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.wait(name)) for name in names]
        await asyncio.sleep(0)
        return tasks

    def callback(self) -> None:
        self.changes.tell_at_once()
        self.seen.append("the callback's end")


async def all_of(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


def test_in_a_callback_all_go_on_within_the_call_in_the_order_in_which_they_came(complete: Complete) -> None:
    async def test() -> list[str]:
        waiters = Waiters()
        tasks = await waiters.started("first", "second")
        asyncio.get_running_loop().call_soon(waiters.callback)
        await all_of(tasks)
        return waiters.seen

    assert complete(test()) == ["first", "second", "the callback's end"]


@pytest.mark.parametrize("tell", ["tell", "tell_at_once"])
def test_while_a_task_is_running_they_go_on_in_their_turn(complete: Complete, tell: str) -> None:
    async def test() -> list[str]:
        waiters = Waiters()
        tasks = await waiters.started("first", "second")
        getattr(waiters.changes, tell)()
        waiters.seen.append("this task")
        await all_of(tasks)
        return waiters.seen

    assert complete(test()) == ["this task", "first", "second"]


@pytest.mark.parametrize("is_told_first", [False, True])
def test_who_is_cancelled_hears_of_that_and_the_others_of_the_change(complete: Complete, is_told_first: bool) -> None:
    async def test() -> list[str]:
        waiters = Waiters()
        tasks = await waiters.started("first", "second")
        if is_told_first:
            waiters.changes.tell()
        tasks[0].cancel()
        if not is_told_first:
            asyncio.get_running_loop().call_soon(waiters.callback)
        await all_of(tasks)
        await asyncio.sleep(0)
        return sorted(waiters.seen)

    told = [] if is_told_first else ["the callback's end"]
    assert complete(test()) == ["first, cancelled", "second", *told]


def test_who_has_gone_on_at_once_is_cancelled_where_it_waits_next(complete: Complete) -> None:
    async def test() -> list[str]:
        waiters = Waiters()

        async def wait_twice() -> None:
            await waiters.wait("once")
            await waiters.wait("twice")

        task = asyncio.create_task(wait_twice())
        await asyncio.sleep(0)

        def tell_and_cancel() -> None:
            waiters.changes.tell_at_once()
            task.cancel()

        asyncio.get_running_loop().call_soon(tell_and_cancel)
        await all_of([task])
        return waiters.seen

    assert complete(test()) == ["once", "twice, cancelled"]


def test_a_time_out_ends_the_wait(complete: Complete) -> None:
    async def test() -> None:
        changes = Changes()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await changes.next()
        changes.tell()

    complete(test())


def test_a_task_goes_on_in_its_own_context(complete: Complete) -> None:
    whose: ContextVar[str] = ContextVar("whose", default="nobody's")

    async def test() -> str:
        changes, found = Changes(), list[str]()

        async def wait() -> None:
            whose.set("the task's")
            await changes.next()
            found.append(whose.get())

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(changes.tell_at_once)
        await task
        return found[0]

    assert complete(test()) == "the task's"


def test_what_is_told_before_it_is_awaited_is_not_lost(complete: Complete) -> None:
    async def test() -> None:
        changes = Changes()
        change = changes.next()
        asyncio.get_running_loop().call_soon(changes.tell_at_once)
        await asyncio.sleep(0)
        assert change.done()
        await change

    complete(test())


def test_who_is_interrupted_keeps_nobody_else_from_hearing_of_the_change(complete: Complete) -> None:
    async def test() -> list[str]:
        waiters = Waiters()

        async def be_interrupted() -> None:
            await waiters.changes.next()
            raise KeyboardInterrupt

        interrupted = asyncio.create_task(be_interrupted())
        await asyncio.sleep(0)
        others = await waiters.started("second", "third")

        def callback() -> None:
            with pytest.raises(KeyboardInterrupt):
                waiters.callback()

        asyncio.get_running_loop().call_soon(callback)
        await all_of([interrupted, *others])
        assert isinstance(interrupted.exception(), KeyboardInterrupt)
        return waiters.seen

    assert complete(test()) == ["second", "third"]


def test_who_waits_again_before_another_one_is_interrupted_hears_of_the_next_change(complete: Complete) -> None:
    async def test() -> list[str]:
        waiters = Waiters()

        async def wait_twice() -> None:
            await waiters.wait("once")
            await waiters.wait("twice")

        async def be_interrupted() -> None:
            await waiters.changes.next()
            raise KeyboardInterrupt

        tasks = [asyncio.create_task(wait_twice()), asyncio.create_task(be_interrupted())]
        await asyncio.sleep(0)

        def callback() -> None:
            with pytest.raises(KeyboardInterrupt):
                waiters.callback()
            assert waiters.seen == ["once"]
            waiters.callback()

        asyncio.get_running_loop().call_soon(callback)
        await turns()
        assert [task.done() for task in tasks] == [True, True]
        assert isinstance(tasks[1].exception(), KeyboardInterrupt)
        return waiters.seen

    assert complete(test()) == ["once", "twice", "the callback's end"]
