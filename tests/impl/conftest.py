"""What tests with an event loop share."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

# Far above what any of these tests takes: it turns a hang into a failure that shows where.
HANG_SECONDS = 200.0
# Calls that were cancelled from outside end in the loop's next turns: within a second, in turns of a hundredth.
TURNS_TO_END = 100
TURN_SECONDS = 0.01
# Callbacks of callbacks: more than any chain of wake-ups in these tests is long.
TURNS_TO_SETTLE = 20


async def _within(test: Coroutine[Any, Any, T]) -> T:
    # One test that leaves a task behind must not fail all those after it.
    before = asyncio.all_tasks()
    async with asyncio.timeout(HANG_SECONDS):
        result = await test
    left = asyncio.all_tasks() - before
    assert await _those_that_stay(left) == set(), "tasks were left behind"
    return result


async def _those_that_stay(tasks: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Which run on, after as many turns as an idle machine takes in a second; a busy one takes longer for the same."""
    for _ in range(TURNS_TO_END):
        if not tasks:
            break
        _, tasks = await asyncio.wait(tasks, timeout=TURN_SECONDS)
    return tasks


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test that is a coroutine needs the event loop."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.fixturenames.insert(0, "run")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine to its end in the one event loop, and insist that no task is left behind."""
    test, fixtures = pyfuncitem.obj, pyfuncitem.funcargs
    if not inspect.iscoroutinefunction(test):
        return None
    runner = fixtures["run"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(_within(test(**{name: fixtures[name] for name in inspect.signature(test).parameters})))
    return True


@pytest.fixture
def complete(run: asyncio.Runner) -> Callable[[Coroutine[Any, Any, T]], T]:
    """As a test that is a coroutine, for tests that do more than that."""
    return lambda test: run.run(_within(test))


async def _settle() -> None:
    for _ in range(TURNS_TO_SETTLE):
        await asyncio.sleep(0)


@pytest.fixture
def settle() -> Callable[[], Awaitable[None]]:
    """Let every task run until it waits for something."""
    return _settle
