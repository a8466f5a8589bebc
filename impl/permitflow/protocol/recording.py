"""A hook for whoever wants to see the specification's actions as they happen.  Without one it costs nothing."""

from typing import Protocol

from permitflow.protocol.messages import Permits

__all__ = ["Recorder"]


class Recorder(Protocol):
    """Takes note of one action at one end of a channel, at the moment at which the state changes."""

    def __call__(self, action: str, rows: int, permits: Permits) -> None:
        """``action`` is spelt as in the specification; ``rows`` are the chunk's, or 0.

        ``permits`` are those that the message holds or, for Flush and AddPermits, those that are returned.
        """
        ...
