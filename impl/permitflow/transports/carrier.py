"""What an end of a remote stream needs of whatever carries its messages."""

from typing import Protocol

__all__ = ["Carrier"]


class Carrier(Protocol):
    """One bidirectional stream of messages, ordered and without loss.  Not for concurrent reads or writes."""

    async def read(self) -> bytes | None:
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
