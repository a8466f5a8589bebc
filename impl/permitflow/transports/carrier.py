"""What an end of a remote stream needs of whatever carries its messages."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

__all__ = ["Buffer", "Carrier", "Received"]

Buffer: TypeAlias = bytes | memoryview

Received: TypeAlias = Buffer
"""A message as it came.  A view may be one of shared memory, which the sender uses again once nobody refers to it."""


class Carrier(Protocol):
    """One bidirectional stream of messages, ordered and without loss.  Not for concurrent reads or writes."""

    async def read(self) -> Received | None:
        """The next message; None once the peer has closed its half in good order.  Cancelled, the stream is dead.

        Nobody changes the buffer any more; record batches will refer to it for as long as somebody holds them.

        Raises:
            PermitflowError: the stream is over; the type says why.
        """
        ...

    async def write(self, message: Sequence[Buffer]) -> None:
        """Hand a message over, in pieces; waits while the carrier is full.  Cancelled, the stream is dead.

        A large piece begins at a multiple of 64 bytes from the beginning of the message.  All may be used until the
        call returns, and no longer.

        Raises:
            PermitflowError: the stream is over; the type says why.
        """
        ...

    async def half_close(self) -> None:
        """Say that nothing more will be written."""
        ...
