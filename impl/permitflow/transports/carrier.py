"""What an end of a remote stream needs of whatever carries its messages."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

__all__ = ["Buffer", "Carrier", "PromptCarrier", "Received", "Rest", "Take", "WriteNow"]

Buffer: TypeAlias = bytes | memoryview

Received: TypeAlias = Buffer
"""A message as it came.  A view may be one of shared memory, which the sender uses again once it is not referred to."""

Take: TypeAlias = Callable[[Received], None]
"""Takes a message in."""

Rest: TypeAlias = Callable[[], Coroutine[object, object, None]]
"""Writes what is left of a message, when it is called and awaited; nothing else may be written before."""

WriteNow: TypeAlias = Callable[[Sequence[Buffer]], Rest | None]
"""``PromptCarrier.write_now``."""


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


@runtime_checkable
class PromptCarrier(Carrier, Protocol):
    """A carrier that spares its user turns of the event loop: it reads and writes within the loop's callbacks."""

    def hand_to(self, take: Take) -> None:
        """Call this with each message that comes while ``read`` is awaited, instead of returning it from there.

        What it raises, ``read`` raises.
        """
        ...

    @property
    def has_more(self) -> bool:
        """Has another message come, which is handed over next, or read?"""
        ...

    def write_now(self, message: Sequence[Buffer]) -> Rest | None:
        """As ``write``, as far as that can be done without waiting; None if nothing is left to be done.

        Raises:
            PermitflowError: the stream is over; the type says why.
        """
        ...
