"""How far a sender runs ahead of a reader that does not read: what bounds it, and what is counted."""

from dataclasses import dataclass, field
from typing import TypeAlias

from permitflow.channels.interface import require_count
from permitflow.errors import InvalidParametersError
from permitflow.stages.core.parameters import require_at_least

Options: TypeAlias = tuple[tuple[str, int], ...]

LEAST_WINDOW_BYTES = 5
"""gRPC ignores less.  It is a message's prefix: then no message is sent before it is read."""
MOST_WINDOW_BYTES = (1 << 31) - 1
_PREFIX_BYTES = 5
"""gRPC writes a flag and a length before each message."""
_WINDOWS = 2
"""gRPC opens the window again before what filled it was read."""


@dataclass(frozen=True)
class Window:
    """The bytes that a sender may have sent and its peer has not read: of gRPC's own flow control.

    The reading end sets it: give ``options`` to the channel, for responses, and to the server, for requests.  Each call
    has a window of its own.  Without them gRPC measures the connection, and its window grows: from 4 MiB to tens.
    """

    size_bytes: int
    """Between 5, where each message waits until it is read, and 2^31 - 1."""

    def __post_init__(self) -> None:
        require_count(self.size_bytes, name="size_bytes")
        if not LEAST_WINDOW_BYTES <= self.size_bytes <= MOST_WINDOW_BYTES:
            rule = f"must be from {LEAST_WINDOW_BYTES} to {MOST_WINDOW_BYTES}, which gRPC allows"
            raise InvalidParametersError(name="size_bytes", value=self.size_bytes, rule=rule)

    @classmethod
    def of_messages(cls, messages: int, message_bytes: int) -> "Window":
        """The largest window with which at most this many messages of this size, or larger, are sent and not read.

        Args:
            messages: 0: each waits until it is read.
            message_bytes: of the smallest message, serialized.

        Raises:
            InvalidParametersError: a number is too small.
        """
        require_at_least(0, message_bytes=message_bytes)
        require_at_least(cls(LEAST_WINDOW_BYTES).most_unread(message_bytes), messages=messages)
        # The largest one for which 2 * size < (messages + 1) * (message and prefix).
        size = ((messages + 1) * (message_bytes + _PREFIX_BYTES) - 1) // _WINDOWS
        return cls(min(size, MOST_WINDOW_BYTES))

    @property
    def options(self) -> Options:
        """The options for ``grpc.aio.insecure_channel`` and ``secure_channel``, and for ``grpc.aio.server``."""
        # gRPC would measure round trips, and grow the window.
        return (("grpc.http2.lookahead_bytes", self.size_bytes), ("grpc.http2.bdp_probe", 0))

    def most_unread(self, message_bytes: int) -> int:
        """Messages of this size, or larger, that are sent and not read, at most."""
        return _WINDOWS * self.size_bytes // (message_bytes + _PREFIX_BYTES)

    def most_ahead(self, message_bytes: int, prefetch: int = 0) -> int:
        """Elements that the producer has given and the consumer has not taken, at most.

        Those that are sent and not read, one that is being sent, and ``prefetch``, or one whose consumer has gone away.
        """
        return self.most_unread(message_bytes) + 1 + max(prefetch, 1)


@dataclass
class CallCounts:
    """Counts elements of all calls that it is given to; look at it at any time.

    One end of a call pulls and sends, its peer receives, and is consumed; a flow does both.
    """

    window: Window | None = field(default=None, kw_only=True)
    """The window of the channel or server: gRPC cannot be asked for it."""
    pulled: int = 0
    """Elements taken from the source that is sent."""
    sent: int = 0
    """Messages that gRPC has taken."""
    received: int = 0
    """Elements read from the call."""
    consumed: int = 0
    """Messages that have left for the consumer."""

    @property
    def in_progress(self) -> int:
        """Elements taken from the source, whose sending waits for the peer to read."""
        return self.pulled - self.sent

    @property
    def in_hand(self) -> int:
        """Elements read, and not asked for yet."""
        return self.received - self.consumed

    def __str__(self) -> str:
        window = (
            "gRPC's own, 4 MiB to tens; the options of a Window bound it"
            if self.window is None
            else f"{self.window.size_bytes:,} bytes"
        )
        return (
            f"pulled {self.pulled:,}, sent {self.sent:,}, received {self.received:,}, consumed {self.consumed:,}; "
            f"in progress {self.in_progress}, in hand {self.in_hand}; window: {window}"
        )
