"""What an end of a remote stream needs of whatever carries its messages."""

from typing import Protocol, TypeAlias

__all__ = ["Carrier", "Received"]

Received: TypeAlias = bytes | memoryview
"""A message as it came.  A view may be one of shared memory, which the sender uses again once nobody refers to it."""


class Carrier(Protocol):
    """One bidirectional stream of messages, ordered and without loss.  Not for concurrent reads or writes."""

    async def read(self) -> Received | None:
        """The next message; None once the peer has closed its half in good order.  Cancelled, the stream is dead.

        Raises:
            PermitflowError: the stream is over; the type says why.
        """
        ...

    async def write(self, message: bytes) -> None:
        """Hand a message over; waits while the carrier is full.  Cancelled, the stream is dead.

        Raises:
            PermitflowError: the stream is over; the type says why.
        """
        ...

    async def half_close(self) -> None:
        """Say that nothing more will be written."""
        ...
