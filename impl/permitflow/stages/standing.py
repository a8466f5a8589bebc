"""Is an event loop at a stand for ever?  Nothing is ready, no timer runs, no socket and no thread can wake it."""

import asyncio
import threading
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

LOOK_SECONDS = 1.0

_looks: Final[WeakSet[asyncio.TimerHandle]] = WeakSet()


def stands_still(loop: asyncio.AbstractEventLoop) -> bool:
    """Can nothing happen in a loop any more?  For a callback of the loop itself; False where that cannot be told."""
    try:
        ready, scheduled, selector = loop._ready, loop._scheduled, loop._selector  # type: ignore[attr-defined]  # asyncio's own
        signals = loop._signal_handlers  # type: ignore[attr-defined]  # asyncio's own
    except AttributeError:
        return False
    if ready or signals or threading.active_count() > 1 or len(selector.get_map()) > 1:  # one is the loop's own
        return False
    return all(handle.cancelled() or handle in _looks for handle in scheduled)


class Watchdog:
    """Looks each second, while a task waits, whether the loop stands still; then tells it, once."""

    def __init__(self, tell: Callable[[], None]) -> None:
        """``tell`` is called from the loop."""
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._handle = self._set()

    def _set(self) -> asyncio.TimerHandle:
        handle = self._loop.call_later(LOOK_SECONDS, self._look)
        _looks.add(handle)
        return handle

    def _look(self) -> None:
        if stands_still(self._loop):
            self._tell()
        else:
            self._handle = self._set()

    def end(self) -> None:
        """The wait is over."""
        self._handle.cancel()
