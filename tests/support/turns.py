"""Turns of the event loop: some of them, or as many as it takes until something holds."""

import asyncio
from collections.abc import Callable
from itertools import count

HANG_SECONDS = 60.0
FEW_TURNS = 100
POLL_SECONDS = 0.001


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the time-out guards against a hang.

    What does not hold after some turns is awaited from another process or thread, which needs the processor more.
    """
    async with asyncio.timeout(HANG_SECONDS):
        for turn in count():
            if holds():
                return
            await asyncio.sleep(0 if turn < FEW_TURNS else POLL_SECONDS)


async def turns() -> None:
    """Let everything happen that is to happen in the loop's next turns; no chain of wake-ups here is as long."""
    for _ in range(20):
        await asyncio.sleep(0)
