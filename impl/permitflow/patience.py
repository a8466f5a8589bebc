"""Waits that count only the time in which this process runs.

A process that was stopped, or whose machine slept, has heard nothing meanwhile, whatever was sent to it.  A plain timer
would be over at the moment it wakes, and take peers that slept as well for lost.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_LOOK_SECONDS = 1.0
_STOOD_STILL_SECONDS = 1.0
"""A loop that is called so late did not run."""


class Countdown:
    """Calls a function once its process has run for this many seconds."""

    def __init__(self, seconds: float, on_over: Callable[[], None]) -> None:
        """Begin; needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._left_seconds, self._on_over = seconds, on_over
        self._set_timer()

    def _set_timer(self) -> None:
        self._began = self._loop.time()
        self._due = self._began + min(_LOOK_SECONDS, self._left_seconds)
        self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        self._left_seconds -= (self._due if now > self._due + _STOOD_STILL_SECONDS else now) - self._began
        if now + self._left_seconds > now:  # else a rest of rounding is left, which no timer can count
            self._set_timer()
        else:
            self._on_over()

    def cancel(self) -> None:
        """Call nothing any more; harmless afterwards."""
        self._timer.cancel()


class Limit:
    """Bounds several waits together, from its beginning on."""

    def __init__(self, seconds: float) -> None:
        """Begin; needs a running event loop.  ``end`` when there is nothing to wait for any more."""
        self._timeout: asyncio.Timeout | None = None
        self._is_over = False
        self._countdown = Countdown(seconds, self._expire)

    def _expire(self) -> None:
        self._is_over = True
        if self._timeout is not None:
            self._timeout.reschedule(0)

    @asynccontextmanager
    async def over_wait(self) -> AsyncIterator[None]:
        """Bound the block.

        Raises:
            TimeoutError: the time is over.
        """
        async with asyncio.timeout(0 if self._is_over else None) as self._timeout:
            try:
                yield
            finally:
                self._timeout = None

    def end(self) -> None:
        """Count no more."""
        self._countdown.cancel()


@asynccontextmanager
async def patience(seconds: float | None) -> AsyncIterator[None]:
    """As ``asyncio.timeout``, for time in which this process runs; None: without a bound.

    Raises:
        TimeoutError: the time is over.
    """
    if seconds is None:
        yield
        return
    limit = Limit(seconds)
    try:
        async with limit.over_wait():
            yield
    finally:
        limit.end()
