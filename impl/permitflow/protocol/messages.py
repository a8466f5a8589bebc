"""What travels through a channel, and the permits it holds while it is there."""

from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

__all__ = ["NO_PERMITS", "Kind", "Message", "Offered", "Permits"]

T = TypeVar("T")


class Kind(StrEnum):
    """The three classes of messages; each has permits of its own."""

    CHUNK = "chunk"
    BARRIER = "barrier"
    WATERMARK = "watermark"


class Permits(NamedTuple):
    """Permits by class.  Returned permits are increments: the carrier neither loses nor repeats them."""

    rows: int = 0
    barriers: int = 0
    watermarks: int = 0


NO_PERMITS = Permits()


class Message(NamedTuple, Generic[T]):
    """A chunk, a barrier or a watermark."""

    kind: Kind
    payload: T
    rows: int
    """Rows of a chunk; 0 for the others."""
    cost: int
    """Permits of its own class that it holds; the receiver returns exactly these, whatever it would have counted."""

    def held(self) -> Permits:
        """The permits it holds while it is in the channel."""
        if self.kind is Kind.CHUNK:
            return Permits(rows=self.cost)
        if self.kind is Kind.BARRIER:
            return Permits(barriers=self.cost)
        return Permits(watermarks=self.cost)


class Offered(Generic[T]):
    """A message that was offered and has not left yet; identity matters, equality does not."""

    __slots__ = ("message",)

    def __init__(self, message: Message[T]) -> None:
        """Hold the message until it leaves or is withdrawn."""
        self.message = message
