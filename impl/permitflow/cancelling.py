"""Cancellations: of tasks that outlast that of the task that waits for them, and those that are none of the task's own.

``asyncio.wait`` returns at once when its task is cancelled, and leaves behind what it has waited for.
"""

import asyncio
from collections.abc import Collection
from typing import Any


async def until_over(*tasks: asyncio.Task[Any]) -> None:
    """Wait until tasks are done.  If this task is cancelled meanwhile, so are they, and it goes on when they are done.

    So they end as if they were awaited within this task.  None of their errors is raised.
    """
    again: asyncio.CancelledError | None = None
    under_way: Collection[asyncio.Task[Any]] = tasks
    while under_way := [task for task in under_way if not task.done()]:
        try:
            await asyncio.wait(under_way)
        except asyncio.CancelledError as error:
            again = error
            for task in under_way:
                task.cancel()
    if again is not None:
        raise again


async def cancel_all(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait as ``until_over`` does."""
    for task in tasks:
        task.cancel()
    await until_over(*tasks)


def is_cancelled() -> bool:
    """Is this task to end?  Else a ``CancelledError`` comes from what it awaits, which alone was cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
