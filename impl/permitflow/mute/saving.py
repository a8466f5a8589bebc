"""When counts are made safe: after some messages, or soon after the last one."""

import asyncio
from collections.abc import Callable


class Saving:
    """Saves after so many changes, or so many seconds after the first one, and tells who waits for that."""

    def __init__(self, save: Callable[[], None] | None, *, after: int = 64, seconds: float = 0.05) -> None:
        """Nothing has changed yet.

        Args:
            save: makes everything safe; None: it is safe as it is.
            after: changes; fewer than a boundary may leave unacknowledged, else it would wait for the time to pass.
            seconds: the longest that a change waits.
        """
        self.on_saved: list[Callable[[], None]] = []
        """Are called after each time."""
        self._save, self._after, self._seconds = save, after, seconds
        self._changes = 0
        self._timer: asyncio.TimerHandle | None = None

    def note_change(self) -> None:
        """Something has changed that is to be saved."""
        self._changes += 1
        if self._save is None or self._changes >= self._after:
            self.save_now()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self.save_now)

    def save_now(self) -> None:
        """Save, and tell all."""
        self.close()
        if self._save is not None:
            self._save()
        self._changes = 0
        for tell in self.on_saved:
            tell()

    def close(self) -> None:
        """Save no more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
