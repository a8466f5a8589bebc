"""What tests with an event loop share."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

# Far above what any of these tests takes: it turns a hang into a failure that shows where.
HANG_SECONDS = 60.0


async def _within(test: Coroutine[Any, Any, T]) -> T:
    # One test that leaves a task behind must not fail all those after it.
    before = asyncio.all_tasks()
    async with asyncio.timeout(HANG_SECONDS):
        result = await test
    left = asyncio.all_tasks() - before
    if left:
        # Calls that were cancelled from outside end in the loop's next turns, however long those take.
        _, left = await asyncio.wait(left, timeout=10.0)
    assert left == set(), "tasks were left behind"
    return result


@pytest.fixture
def complete(run: asyncio.Runner) -> Callable[[Coroutine[Any, Any, T]], T]:
    """Run a coroutine to its end in the one event loop, and insist that no task is left behind."""
    return lambda test: run.run(_within(test))
