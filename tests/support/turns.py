"""Turns of the event loop: some of them, or as many as it takes until something holds."""

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


async def turns() -> None:
    """Let everything happen that is to happen in the loop's next turns; no chain of wake-ups here is as long."""
    for _ in range(20):
        await asyncio.sleep(0)
