"""The messages of a channel."""

from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Kind(StrEnum):
    """The three classes of messages."""

    CHUNK = "chunk"
    BARRIER = "barrier"
    WATERMARK = "watermark"


class Message(Generic[T]):
    """A chunk, a barrier or a watermark; immutable.

    A plain class with slots, and ``PlainChunk`` beside it, because every received chunk makes one: a named tuple takes
    twice as long to make and three times as long to read.
    """

    __slots__ = ("kind", "payload", "rows")
    __match_args__ = ("kind", "payload", "rows")

    kind: Kind
    payload: T
    rows: int
    """Rows of a chunk; 0 for the others."""

    def __init__(self, kind: Kind, payload: T, rows: int = 0) -> None:
        """Set the fields."""
        self.kind = kind
        self.payload = payload
        self.rows = rows

    def _fields(self) -> tuple[Kind, T, int]:
        return self.kind, self.payload, self.rows

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Message) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Message({self.kind.value}, {self.payload!r}, rows={self.rows})"

    def __reduce__(self) -> tuple[object, ...]:
        return Message, self._fields()


class PlainChunk(Message[T]):
    """Makes the message of a chunk quickly: call it without arguments, then set payload and rows."""

    __slots__ = ()
    __init__ = object.__init__  # no Python code runs
    kind = Kind.CHUNK


def chunk_of(payload: T, rows: int) -> Message[T]:
    """The message of a chunk."""
    message: PlainChunk[T] = PlainChunk()
    message.payload = payload
    message.rows = rows
    return message


class Offered(Generic[T]):
    """An offered message that has not left yet; compared by identity."""

    __slots__ = ("message", "size_bytes")

    def __init__(self, message: Message[T], size_bytes: int | None = None) -> None:
        """Hold the message until it leaves or is withdrawn; ``size_bytes``: what it takes of the byte window."""
        self.message = message
        self.size_bytes = size_bytes
