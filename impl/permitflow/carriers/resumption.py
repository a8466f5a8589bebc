"""What one end of a stream knows so that the stream survives its connection; no I/O.

Both ends count the messages of each direction from the beginning of the stream, and keep what the peer has not
acknowledged.  A connection loses what is under way when it is cut.  The next one begins with the two positions, and
with what each end then writes again: so every message is delivered once, in order.

Connections are numbered: 0 is the first one, and the dialler counts up with each that it makes.  At most one is current
at an end, and nothing of another one is heard.

Spec: Resume.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from permitflow.carriers.kept import Kept
from permitflow.errors import ResumeRefusedError

T = TypeVar("T", bound=Sequence[object])

MOST_UNTOLD = 64
"""An end acknowledges after this many messages at the latest."""
MOST_UNTOLD_BYTES = 4 << 20
"""Or after this many bytes.  The peer keeps no more than this beside what its window lets it send."""


class Resumption(Generic[T]):
    """The positions of one end, the messages it keeps, and which connection is current."""

    __slots__ = ("_untold_bytes", "current", "is_due_soon", "kept", "latest", "received", "told", "written")

    def __init__(self, connection: int = 0) -> None:
        """The first connection, of this number, is current, and nothing has been sent or received."""
        self.kept = Kept[T]()
        """The messages that this end has sent, and the peer has not acknowledged."""
        self.received = 0
        """The position of the peer's messages: how many of them were delivered."""
        self.current: int | None = connection
        """The number of the connection that is heard; None: the stream is suspended."""
        self.latest = connection
        """The number of the newest connection that was dialled, or accepted."""
        self.written = 0
        """All messages before this position were written into the current connection, or acknowledged."""
        self.told = 0
        """The position that the peer was told last."""
        self._untold_bytes = 0
        self.is_due_soon = False
        """Has half of what makes an acknowledgement due come?"""

    # Sending.

    def send(self, message: T, *, writes: bool) -> None:
        """Keep the next message.

        Args:
            message: as the connection takes it.
            writes: the caller writes it now: nothing waits before it.
        """
        position = self.kept.keep(message)
        if writes:
            assert self.written == position, "an older message waits to be written"
            self.written = position + 1

    @property
    def has_unwritten(self) -> bool:
        """Does a kept message wait to be written into the current connection?"""
        return self.current is not None and self.written < self.kept.end

    def next_unwritten(self) -> T:
        """The oldest kept message that the current connection has not taken: write it now."""
        message = self.kept[self.written]
        self.written += 1
        return message

    def hear(self, connection: int, position: int) -> None:
        """Forget what the peer acknowledges.

        Raises:
            FalsePositionError: it acknowledges more than was sent.
        """
        if connection == self.current:
            self.kept.acknowledge(position)

    # Receiving.

    def deliver(self, connection: int, size_bytes: int) -> bool:
        """Count a message that the listener has just been given; is an acknowledgement due?"""
        if connection != self.current:
            return False
        self.received += 1
        self._untold_bytes += size_bytes
        untold = self.received - self.told
        self.is_due_soon = untold >= MOST_UNTOLD // 2 or self._untold_bytes >= MOST_UNTOLD_BYTES // 2
        return untold >= MOST_UNTOLD or self._untold_bytes >= MOST_UNTOLD_BYTES

    @property
    def owes(self) -> bool:
        """Have messages come that were not acknowledged?"""
        return self.received > self.told

    def acknowledge(self) -> int:
        """The position to tell the peer now."""
        self.told, self._untold_bytes, self.is_due_soon = self.received, 0, False
        return self.received

    # Connections.

    def cut(self, connection: int) -> bool:
        """Give a connection up: what is under way in it is lost.  False: it was not the current one."""
        if connection != self.current:
            return False
        self.current = None
        return True

    def dial(self) -> int:
        """Return the number of a dialler's next connection, whose first message states it and ``acknowledge``."""
        self.latest += 1
        return self.latest

    def resumed(self, connection: int, position: int) -> None:
        """Note, as a dialler: the acceptor goes on over this connection, and has the messages before this position.

        Raises:
            FalsePositionError: that cannot be.
        """
        if connection == self.latest:
            self._go_on(connection, position)

    def accept(self, connection: int, position: int, *, who: str) -> int:
        """Go on over this connection, as an acceptor, whatever became of the others; return the position to answer.

        Args:
            connection: its number.
            position: the dialler has the messages before it.
            who: this end, in words for an error.

        Raises:
            ResumeRefusedError: the connection is not newer than the latest one.
            FalsePositionError: the position cannot be.
        """
        if connection <= self.latest:
            raise ResumeRefusedError(who=who, reason=f"connection {self.latest} is newer than {connection}")
        self._go_on(connection, position)
        self.latest = connection
        return self.acknowledge()

    def _go_on(self, connection: int, position: int) -> None:
        self.kept.since(position)  # refuses a position that cannot be
        self.kept.acknowledge(position)
        self.current, self.written = connection, position
