"""Whose turn it is to wait: one task at a time, the others in the order in which they came."""

import asyncio
from collections import deque

__all__ = ["Turn"]


class Turn:
    """As a lock of asyncio that is passed on from task to task, and costs no call where nobody else is there.

    Whoever finds that it is not taken says that it is; whoever finds it taken awaits ``until_mine``.  In the end, if
    somebody is behind, it is to be passed on.
    """

    __slots__ = ("behind", "is_taken")

    def __init__(self) -> None:
        """It is nobody's."""
        self.is_taken = False
        """Is it somebody's?  Also while he whose turn it has become has not run yet."""
        self.behind: deque[asyncio.Future[None]] = deque()
        """Those who wait for it."""

    async def until_mine(self) -> None:
        """Wait behind those who have come before.  Whoever is cancelled or closed here leaves the line."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.behind.append(future)
        try:
            await future
        except BaseException:  # who closes the coroutine does not cancel the future
            if future in self.behind:
                self.behind.remove(future)
            elif not future.cancelled():
                self.pass_on()
            raise

    def pass_on(self) -> None:
        """Let it be the next one's; for the one whose turn it is."""
        while self.behind:
            future = self.behind.popleft()
            if not future.done():
                future.set_result(None)
                return
        self.is_taken = False
