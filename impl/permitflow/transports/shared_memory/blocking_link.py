"""The link between two processes of one host, for callers without an event loop."""

import os
import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from permitflow.transports.shared_memory.message_socket import SPACE_SECONDS, MessageSocket
from permitflow.transports.shared_memory.ring import Part, Ring

__all__ = ["BlockingLink"]

# What poll takes; whoever waits for longer waits again.
_LONGEST_SECONDS = 86_400.0


class BlockingLink(MessageSocket):
    """Messages in both directions, in order; large ones through the ring.

    For one thread, except ``interrupt`` and ``close``, which any may call.
    """

    def __init__(self, connection: socket.socket, ring: Ring, *, most_bytes: int) -> None:
        """See ``MessageSocket``."""
        super().__init__(connection, ring, most_bytes=most_bytes)
        self._interruption = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_interrupted = False
        # Whoever closes waits until nobody uses the descriptors.
        self._in_use = threading.RLock()

    @property
    def has_ended(self) -> bool:
        """Has the peer shut its half, or gone, and has all that came been read?"""
        return self._has_ended and not self._inbox

    def interrupt(self) -> None:
        """The stream is over: let what is here be read, and wait for nothing any more."""
        self._is_interrupted = True
        # It may have been closed.
        with suppress(OSError, ValueError):
            os.eventfd_write(self._interruption, 1)

    # Reading.

    def read_nowait(self) -> bytes | memoryview | None:
        """The next message, if it is here.

        Raises:
            UndecodableDataError: the peer sends what is no message, or a wrong note.
        """
        if not self._inbox and not self._has_ended:
            with self._in_use:
                self.drain() if self._is_interrupted else self._receive_now()
        return self._inbox.popleft() if self._inbox else None

    def read(self, timeout_seconds: float) -> bytes | memoryview | None:
        """The next message; None if the link has ended.

        Raises:
            TimeoutError: nothing came in time.
            UndecodableDataError: as for ``read_nowait``.
        """
        until = monotonic() + timeout_seconds
        with self._in_use:
            while (message := self.read_nowait()) is None and not self._has_ended:
                if not self._wait(select.POLLIN, self._socket.fileno(), until - monotonic()):
                    raise TimeoutError
            return message

    def _wait(self, event: int, descriptor: int, seconds: float) -> bool:
        """Wait until something is ready, or the link is interrupted; False: neither."""
        waiting = select.poll()
        waiting.register(descriptor, event)
        waiting.register(self._interruption, select.POLLIN)
        return seconds > 0 and bool(waiting.poll(min(seconds, _LONGEST_SECONDS) * 1000))

    # Writing.

    def write(self, parts: Sequence[Part]) -> None:
        """Hand a message over; waits while the socket is full, and for a moment while the ring is.

        Once the stream is over nothing is written any more: whoever reads next hears why.

        Raises:
            UndecodableDataError: the peer has returned space that it did not have.
        """
        size = sum(map(len, parts))
        with self._in_use, suppress(OSError):
            pieces: Sequence[Part] = self._placed(parts, size) or self._placed_soon(parts, size)
            pieces = pieces or self._inline(parts, size)
            while (pieces := self._send_now(pieces)) and not self._is_interrupted:
                self._wait(select.POLLOUT, self._socket.fileno(), float("inf"))

    def _placed_soon(self, parts: Sequence[Part], size: int) -> list[bytes]:
        if self._writer is not None and self._is_worth_waiting(size):
            until = monotonic() + SPACE_SECONDS
            while not self._is_interrupted and self._wait(select.POLLIN, self._writer.counter, until - monotonic()):
                if (note := self._placed(parts, size)) is not None:
                    return note
        return []

    # The end.

    def close(self) -> None:
        """Release everything but the memory that is being looked at.  Closing twice is harmless."""
        self.interrupt()
        with self._in_use:
            super().close()
            self._close_interruption()

    def forget(self) -> None:
        """In the child of a fork: let go without a word."""
        super().forget()
        self._close_interruption()

    def _close_interruption(self) -> None:
        interruption, self._interruption = self._interruption, -1
        if interruption >= 0:
            os.close(interruption)
