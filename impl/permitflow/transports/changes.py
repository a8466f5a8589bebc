"""A change for which several tasks may wait."""

import asyncio

__all__ = ["Changes"]

# So many who wait may have been cancelled; nobody counts them before.
_MANY = 16


class Changes:
    """As an event that is set and cleared at once, for less: whoever waits awaits a future, and nothing else."""

    def __init__(self) -> None:
        """Of the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []

    def next(self) -> "asyncio.Future[None]":
        """What to await until something has changed; for one task."""
        if len(self._waiting) >= _MANY:
            self._waiting = [future for future in self._waiting if not future.done()]
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def tell(self) -> None:
        """Something has changed."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
