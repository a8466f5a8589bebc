"""What travels through a channel, and the permits it holds while it is there."""

from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

__all__ = ["NO_PERMITS", "Kind", "Message", "Offered", "Permits", "PlainChunk", "message_of"]

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


class Message(Generic[T]):
    """A chunk, a barrier or a watermark.  Nothing changes it once it was made.

    A plain class with slots, and ``PlainChunk`` beside it, because one is made for every chunk that is received: a
    named tuple takes twice as long to make and three times as long to read.
    """

    __slots__ = ("cost", "kind", "payload", "rows")
    __match_args__ = ("kind", "payload", "rows", "cost")

    kind: Kind
    payload: T
    rows: int
    """Rows of a chunk; 0 for the others."""
    cost: int
    """Permits of its own class that it holds; the receiver returns exactly these, whatever it would have counted."""

    def __init__(self, kind: Kind, payload: T, rows: int, cost: int) -> None:
        """See the fields."""
        self.kind = kind
        self.payload = payload
        self.rows = rows
        self.cost = cost

    def held(self) -> Permits:
        """The permits it holds while it is in the channel."""
        if self.kind is Kind.CHUNK:
            return Permits(rows=self.cost)
        if self.kind is Kind.BARRIER:
            return Permits(barriers=self.cost)
        return Permits(watermarks=self.cost)

    def _fields(self) -> tuple[Kind, T, int, int]:
        return self.kind, self.payload, self.rows, self.cost

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Message) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Message({self.kind.value}, {self.payload!r}, rows={self.rows}, cost={self.cost})"

    def __reduce__(self) -> tuple[object, ...]:
        return Message, self._fields()


class PlainChunk(Message[T]):
    """How to make the message of a chunk quickly: without arguments, then payload, rows and cost."""

    __slots__ = ()
    __init__ = object.__init__  # no Python code runs
    kind = Kind.CHUNK


def message_of(payload: T | Message[T], cost: int) -> Message[T]:
    """The message of an entry of the inbox: a cost of 0 says that the payload is a whole message."""
    if not cost:
        return payload  # type: ignore[return-value]  # a cast is a call
    message: PlainChunk[T] = PlainChunk()
    message.payload = payload  # type: ignore[assignment]
    message.rows = message.cost = cost
    return message


class Offered(Generic[T]):
    """A message that was offered and has not left yet; identity matters, equality does not."""

    __slots__ = ("message",)

    def __init__(self, message: Message[T]) -> None:
        """Hold the message until it leaves or is withdrawn."""
        self.message = message
