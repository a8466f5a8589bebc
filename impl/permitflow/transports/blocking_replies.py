"""What a thread of a blocking call has received, for the thread that waits: every wait has a time-out."""

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, Protocol

from permitflow.errors import PermitflowError
from permitflow.transports.carrier import Received

__all__ = ["JOIN_SECONDS", "BlockingReplies", "Closed", "receive_within"]

# Whoever closes wakes the threads of the call; this only keeps a defect from hanging the caller.
JOIN_SECONDS = 5.0


class Closed(NamedTuple):
    """The peer has closed the call: in good order, or with an error, which is the typed one if it sent one."""

    error: PermitflowError | None


class Replies(Protocol):
    """Whatever has them."""

    def wait(self, seconds: float) -> bool:
        """Wait until there may be something to receive; False: nothing came in so many seconds."""
        ...

    def receive_nowait(self) -> Received | Closed | None:
        """The next message if it is here already; after ``Closed`` nothing comes."""
        ...


def receive_within(call: Replies, seconds: float) -> Received | Closed | None:
    """The next message; None: nothing came in time.  For callers who give the call up when they are interrupted."""
    until = monotonic() + seconds
    while (reply := call.receive_nowait()) is None:
        if not call.wait(until - monotonic()):
            return None
    return reply


class BlockingReplies:
    """Messages from the peer, then ``Closed``; the queue is bounded by permits, not by a limit of its own."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        """``on_closed`` is called once ``Closed`` can be received, in the thread that has received it."""
        self._on_closed = on_closed
        self.is_over = False
        """Can ``Closed`` be received?"""
        # Not a queue: who is interrupted when its ``get`` returns has lost what he got.
        self._received: deque[Received | Closed] = deque()
        self._news = threading.Lock()
        self._news.acquire()
        self._is_closed = False
        self._lock = threading.Lock()

    def _note(self, reply: Received | Closed) -> None:
        """Let this be received; for one thread."""
        self._received.append(reply)
        if self._news.locked():
            self._news.release()

    def _note_end(self, error: PermitflowError | None) -> None:
        """Nothing more will come."""
        self._note(Closed(error))
        self.is_over = True
        self._on_closed()

    def _closes(self) -> bool:
        """Is this the first time that somebody closes?"""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        return not was_closed

    def wait(self, seconds: float) -> bool:
        """Wait until there may be something to receive; False: nothing came in so many seconds."""
        return bool(self._received) or self._news.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))

    def receive_nowait(self) -> Received | Closed | None:
        """The next message if it is here already; after ``Closed`` nothing comes."""
        return self._received.popleft() if self._received else None
