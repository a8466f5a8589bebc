"""Many small objects at once, without the garbage collector in between.

Python looks for garbage after every 700 new objects that are still there.  A train of thousands of small chunks makes
as many objects that are no garbage.  They would be looked through a dozen times, some times together with all other
objects of the process, which takes as long as a sixth of the way of a chunk.  One look afterwards does as well.
"""

import gc
from types import TracebackType

__all__ = ["collecting_later"]

# With fewer objects it makes no difference.
_WORTH_IT = 512


class collecting_later:  # noqa: N801 - used like a function
    """Put off garbage collection while so many objects are made; in a block that is short and waits for nothing."""

    __slots__ = ("_is_on",)

    def __init__(self, objects: int = _WORTH_IT) -> None:
        """Nothing happens before the block; without a number it is put off whatever that costs."""
        self._is_on = objects >= _WORTH_IT and gc.isenabled()

    def __enter__(self) -> None:
        """Stop it, if it was on."""
        if self._is_on:
            gc.disable()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Let it go on."""
        if self._is_on:
            gc.enable()
