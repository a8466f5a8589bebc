"""Waiting for something to hold, by turns of the event loop."""

import asyncio
from collections.abc import Callable

HANG_SECONDS = 60.0


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the time-out guards against a hang."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            if holds():
                return
            await asyncio.sleep(0)
