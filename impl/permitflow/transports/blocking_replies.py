"""What a thread of a blocking call has received, for the thread that waits: every wait has a time-out."""

import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from permitflow.errors import PermitflowError
from permitflow.transports.carrier import Received

__all__ = ["JOIN_SECONDS", "BlockingReplies", "Closed"]

# Whoever closes wakes the threads of the call; this only keeps a defect from hanging the caller.
JOIN_SECONDS = 5.0


class Closed(NamedTuple):
    """The peer has closed the call: in good order, or with an error, which is the typed one if it sent one."""

    error: PermitflowError | None


class BlockingReplies:
    """Messages from the peer, then ``Closed``; the queue is bounded by permits, not by a limit of its own."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        """``on_closed`` is called once ``Closed`` can be received, in the thread that has received it."""
        self._on_closed = on_closed
        self.is_over = False
        """Can ``Closed`` be received?"""
        self._received: queue.SimpleQueue[Received | Closed] = queue.SimpleQueue()
        self._is_closed = False
        self._lock = threading.Lock()

    def _note_end(self, error: PermitflowError | None) -> None:
        """Nothing more will come."""
        self._received.put(Closed(error))
        self.is_over = True
        self._on_closed()

    def _closes(self) -> bool:
        """Is this the first time that somebody closes?"""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        return not was_closed

    def receive(self, timeout_seconds: float) -> Received | Closed:
        """The next message; after ``Closed`` nothing comes.

        Raises:
            TimeoutError: nothing came in time.
        """
        try:
            return self._received.get(timeout=timeout_seconds)
        except queue.Empty:
            raise TimeoutError from None

    def receive_nowait(self) -> Received | Closed | None:
        """The next message if it is here already."""
        try:
            return self._received.get_nowait()
        except queue.Empty:
            return None
