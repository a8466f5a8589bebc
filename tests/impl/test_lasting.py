"""A task that nobody awaits is told of when it fails, and not when it is cancelled."""

import asyncio
from typing import Any

from permitflow.lasting import lasting_task
from tests.support.turns import turns


async def test_a_lasting_task_that_fails_is_told_at_once(unhandled: list[dict[str, Any]]) -> None:
    error = ValueError("no such file")

    async def fail() -> None:
        raise error

    task = lasting_task(fail(), name="accepting")
    await turns()
    assert [(context["task"], context["exception"]) for context in unhandled] == [(task, error)]


async def test_a_lasting_task_that_is_cancelled_is_over(unhandled: list[dict[str, Any]]) -> None:
    task = lasting_task(asyncio.sleep(60), name="accepting")
    task.cancel()
    await turns()
    assert task.cancelled()
    assert not unhandled
