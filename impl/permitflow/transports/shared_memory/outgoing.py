"""A message on its way out, for callers without an event loop, whom a signal may interrupt anywhere."""

from collections.abc import Sequence

from permitflow.transports.shared_memory.ring import Part

__all__ = ["Outgoing"]


class Outgoing:
    """A message, and whether it has left its writer's hands: written again after an interrupt, it goes but once."""

    __slots__ = ("is_begun", "pieces")

    def __init__(self, pieces: Sequence[Part]) -> None:
        """Nothing of it was written."""
        self.pieces = pieces
        self.is_begun = False
        """Is it, or the rest of it, with the carrier?  Set by whoever takes it over, and in his thread."""
