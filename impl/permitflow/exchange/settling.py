"""Writing that is not given up halfway."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TypeVar

__all__ = ["settled"]

T = TypeVar("T")


async def settled(writing: Coroutine[object, object, T]) -> T:
    """What is written is written as a whole, and noted, though whoever has asked for it may be cancelled meanwhile."""
    task = asyncio.create_task(writing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            # Somebody may be in a hurry, and cancel again.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # it was asked for by nobody any more
        raise
