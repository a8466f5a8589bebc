"""Messages that may have to be sent again, because the peer has not acknowledged them; no I/O.

A position is a number of messages, counted from the beginning of the stream: the message at position 5 is the sixth,
and a peer at position 5 has the first five.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from permitflow.errors import FalsePositionError

T = TypeVar("T")


class Kept(Generic[T]):
    """The messages between what the peer has acknowledged and what was sent, by their positions.

    The owner bounds them: it keeps a message only if the peer's window, or its own, has a place.
    """

    __slots__ = ("_end", "_entries", "_size_bytes", "_start")

    def __init__(self) -> None:
        """Nothing was sent yet."""
        self._entries: dict[int, tuple[T, int]] = {}
        self._start = self._end = self._size_bytes = 0

    @property
    def start(self) -> int:
        """All messages below this position are acknowledged, and forgotten."""
        return self._start

    @property
    def end(self) -> int:
        """The position of the next message."""
        return self._end

    @property
    def size_bytes(self) -> int:
        """The bytes of the messages that are kept."""
        return self._size_bytes

    def __len__(self) -> int:
        """The messages that are kept."""
        return self._end - self._start

    def keep(self, message: T, size_bytes: int = 0) -> int:
        """Keep the next message of the stream; return its position."""
        position = self._end
        self._entries[position] = message, size_bytes
        self._end = position + 1
        self._size_bytes += size_bytes
        return position

    def __getitem__(self, position: int) -> T:
        """The message at this position.

        Raises:
            KeyError: it is not kept: it was acknowledged, or never sent.
        """
        return self._entries[position][0]

    def acknowledge(self, position: int) -> int:
        """Forget all messages below the peer's position; return how many they are, none if it comes late or twice.

        Raises:
            FalsePositionError: the peer says that it has more than was sent.
        """
        if position > self._end:
            raise FalsePositionError(position=position, first=self._start, end=self._end)
        forgotten = range(self._start, position)
        for old in forgotten:
            self._size_bytes -= self._entries.pop(old)[1]
        self._start = max(self._start, position)
        return len(forgotten)

    def since(self, position: int) -> Iterator[T]:
        """The messages that a peer at this position does not have yet, the oldest first.

        Raises:
            FalsePositionError: the peer has acknowledged messages behind this position, or says that it has more than
                was sent.
        """
        if not self._start <= position <= self._end:
            raise FalsePositionError(position=position, first=self._start, end=self._end)
        return (self._entries[number][0] for number in range(position, self._end))
