"""How long something takes, on a machine that may stand still meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

__all__ = ["Stopwatch", "within"]

_LOOK_EVERY_SECONDS = 0.01
# So late comes a look where others have the processor for a moment; a later one tells of a machine that stood still.
_MOST_BETWEEN_LOOKS_SECONDS = 0.05


class Stopwatch:
    """Counts the seconds in which this process could run, by looking at the clock again and again."""

    def __init__(self, now: float) -> None:
        """Begin."""
        self.seconds = 0.0
        self._last_look = now

    def look(self, now: float) -> None:
        """It is so late now."""
        self.seconds += min(now - self._last_look, _MOST_BETWEEN_LOOKS_SECONDS)
        self._last_look = now


@contextmanager
def within(seconds: float) -> Iterator[Stopwatch]:
    """The block takes less time than that; what a busy machine gives to others does not count.

    Raises:
        AssertionError: it takes longer.
    """
    watch, is_over = Stopwatch(monotonic()), threading.Event()

    def look_on() -> None:
        while not is_over.wait(_LOOK_EVERY_SECONDS):
            watch.look(monotonic())

    thread = threading.Thread(target=look_on, name="stopwatch")
    thread.start()
    try:
        yield watch
    finally:
        is_over.set()
        thread.join()
    watch.look(monotonic())
    assert watch.seconds < seconds, f"it took {watch.seconds:.1f} s, and may take {seconds:g} s"
