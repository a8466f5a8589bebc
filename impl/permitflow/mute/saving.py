"""When a worker saves what it has counted, and who waits for that."""

import asyncio
from collections.abc import Callable

_SAVE_AGAIN_SECONDS = 1.0


class Saving:
    """Saves after this many changes, or this many seconds after the first one, and tells who waits for that."""

    def __init__(
        self,
        save: Callable[[], None] | None,
        *,
        after: int = 64,
        seconds: float = 0.05,
        hear: Callable[[dict[str, object]], None] = lambda event: None,
    ) -> None:
        """Nothing has changed yet.

        Args:
            save: makes everything safe; None: it is safe as it is.
            after: changes; fewer than a boundary may leave unacknowledged, else it would wait for the time to pass.
            seconds: the longest that a change waits.
            hear: is called with an event each time that ``save`` fails; it is tried again after a second.
        """
        self.on_saved: list[Callable[[], None]] = []
        """Are called after each time."""
        self._save, self._after, self._seconds, self._hear = save, after, seconds, hear
        self._changes = 0
        self._has_failed = False
        self._timer: asyncio.TimerHandle | None = None

    def note_change(self) -> None:
        """Something has changed that is to be saved."""
        self._changes += 1
        if self._save is None or (self._changes >= self._after and not self._has_failed):
            self.save_now()
        elif self._timer is None:
            self._save_within(self._seconds)

    def _save_within(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.save_now)

    def save_now(self) -> None:
        """Save, and tell all."""
        self.close()
        try:
            if self._save is not None:
                self._save()
        except OSError as error:
            # Nobody is told: what is not acknowledged comes again, and too much of it mutes.
            self._has_failed = True
            self._hear({"event": "unsaved", "reason": str(error)})
            self._save_within(_SAVE_AGAIN_SECONDS)
            return
        self._changes, self._has_failed = 0, False
        for tell in [*self.on_saved]:
            tell()

    def close(self) -> None:
        """Save no more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
