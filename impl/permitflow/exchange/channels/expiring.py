"""Lets the kept rows of a channel expire: looks now and then which ones are too old or too many."""

import asyncio
import logging
from typing import Protocol

from permitflow.errors import StoreError
from permitflow.exchange.stores.store import Expiry

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks."""


class _Channel(Protocol):
    name: str

    def expirable_row(self, expiry: Expiry) -> int: ...

    @property
    def keeps_rows(self) -> bool: ...

    async def expire(self, row: int) -> None: ...


class Expiring:
    """Looks at one channel while it has rows; each look takes microseconds.  For one event loop."""

    def __init__(self, channel: _Channel, expiry: Expiry) -> None:
        """Look at nothing yet: ``go_on`` begins."""
        self._channel, self._expiry = channel, expiry
        self._looking: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False

    def go_on(self) -> None:
        """Rows may have come: look at once if their bytes count, and later in any case."""
        if not self._expiry:
            return
        if self._expiry.most_bytes is not None:
            self._look_now()
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = None
        self._look_now()
        if self._channel.keeps_rows:
            self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look_now(self) -> None:
        if self._task is None and (row := self._channel.expirable_row(self._expiry)):
            self._task = asyncio.create_task(self._expire(row))

    async def _expire(self, row: int) -> None:
        try:
            await self._channel.expire(row)
            self._is_failing = False
        except StoreError as error:  # the next look tries again
            if not self._is_failing:
                _log.warning("rows of channel %r have expired, and stay: %s", self._channel.name, error)
            self._is_failing = True
        finally:
            self._task = None

    def stop(self) -> set[asyncio.Task[None]]:
        """Look no more before ``go_on``; return the write that is under way, if any."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        return set() if self._task is None else {self._task}
