"""Waiting for something to change, in one event loop."""

import asyncio
from collections.abc import Callable


class Change:
    """Wakes every task that waits; each then looks for itself.  No change is kept for a task that comes later.

    Callbacks note changes, and could not await the lock of an ``asyncio.Condition``.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def note(self) -> None:
        """Wake all tasks that wait now."""
        self._event.set()
        self._event.clear()

    async def wait(self) -> None:
        """Wait for the next change."""
        await self._event.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds: look now, and after each change."""
        while not holds():
            await self._event.wait()
