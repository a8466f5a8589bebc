"""Work that takes a known time on any machine, and the share of time that somebody waits."""

import asyncio
import time
from types import TracebackType
from typing import Self

__all__ = ["Meter", "Work"]


class Work:
    """A cost for each piece, spent asleep.

    A piece ends when it is due: what one sleep takes too long, the next ones make up for.  So a noisy machine changes
    the order of events a little, and rates hardly at all.
    """

    def __init__(self, seconds: float) -> None:
        """For each piece."""
        self._seconds = seconds
        self._due = 0.0

    def begin(self) -> None:
        """Waiting is over; what was not done meanwhile cannot be made up for."""
        self._due = time.monotonic()

    def do(self) -> None:
        """A piece, during which nothing else in this thread runs."""
        self._due += self._seconds
        time.sleep(max(0.0, self._due - time.monotonic()))

    async def do_beside_others(self) -> None:
        """A piece, during which other tasks run."""
        self._due += self._seconds
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))


class Meter:
    """The back-pressure rate: which share of the time a sender waits.  ``with meter: send()``."""

    def __init__(self) -> None:
        """Starts now."""
        self._waiting_since: float | None = None
        self.reset()

    def reset(self) -> None:
        """Begin anew, also in the middle of waiting."""
        self._began = time.monotonic()
        self._waited = 0.0
        if self._waiting_since is not None:
            self._waiting_since = self._began

    def __enter__(self) -> Self:
        """Waiting begins."""
        self._waiting_since = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Waiting ends."""
        since, self._waiting_since = self._waiting_since, None
        assert since is not None, "it has begun"
        self._waited += time.monotonic() - since

    def rate(self) -> float:
        """Between 0 and 1."""
        now, since = time.monotonic(), self._waiting_since
        waiting = self._waited + (now - since if since is not None else 0.0)
        return waiting / (now - self._began)
