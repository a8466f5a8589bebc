"""The link between two processes of one host, for callers without an event loop."""

import os
import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from permitflow.transports.shared_memory.link import SPACE_SECONDS, MessageSocket, require_own
from permitflow.transports.shared_memory.ring import Part, Ring, size_of

__all__ = ["BlockingLink", "Outgoing"]


class Outgoing:
    """A message, and whether it has left its writer's hands: written again after an interrupt, it goes but once."""

    __slots__ = ("is_begun", "pieces")

    def __init__(self, pieces: Sequence[Part]) -> None:
        """Nothing of it was written."""
        self.pieces = pieces
        self.is_begun = False
        """Is it, or the rest of it, with the carrier?  Set by the end that takes it over, in its thread."""


# What poll takes; longer waits are several of these.
_LONGEST_SECONDS = 86_400.0


class BlockingLink(MessageSocket):
    """Messages in both directions, in order; large ones through the ring.

    For one thread, except ``interrupt`` and ``close``, which any may call.  A signal's exception while it waits leaves
    it as it is; one between leaves ``is_cut``, or a message that was read nowhere: then it is of no use any more.
    """

    def __init__(self, connection: socket.socket, ring: Ring, *, most_bytes: int) -> None:
        """See ``MessageSocket``."""
        super().__init__(connection, ring, most_bytes=most_bytes)
        self._interruption = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_interrupted = False
        self._rest: Sequence[Part] = ()
        self.is_cut = False
        """Was the last write interrupted so that nobody knows what of it has left?  Then nothing may follow it."""
        # Closing waits until no thread uses the descriptors.
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

    def wait(self, seconds: float) -> bool:
        """Wait until there may be something to read, or the link has ended; False: neither, in so many seconds.

        Reads nothing, so that a signal's exception can do no harm.
        """
        with self._in_use:
            return bool(self._inbox) or self._has_ended or self._poll(select.POLLIN, self._socket.fileno(), seconds)

    def _poll(self, event: int, descriptor: int, seconds: float) -> bool:
        """Wait until something is ready, or the link is interrupted; False: neither."""
        waiting = select.poll()
        waiting.register(descriptor, event)
        waiting.register(self._interruption, select.POLLIN)
        return seconds > 0 and bool(waiting.poll(min(seconds, _LONGEST_SECONDS) * 1000))

    # Writing.

    def write(self, message: Outgoing) -> None:
        """Hand a message over; waits while the socket is full, and for a moment while the ring is.

        Once the stream is over nothing is written any more: the next read says why.  After an interrupt, unless
        the link ``is_cut``, the same message is to be written again: it goes on where it was.

        Raises:
            UndecodableDataError: the peer has returned space that it did not have.
        """
        with self._in_use:
            if not message.is_begun:
                self._begin(message)
            while self._rest and not self._is_interrupted:
                self._send_rest()
                if self._rest:
                    self._poll(select.POLLOUT, self._socket.fileno(), float("inf"))

    def _begin(self, message: Outgoing) -> None:
        parts, size = message.pieces, size_of(message.pieces)
        self.is_cut = True
        pieces: Sequence[Part] = self._placed(parts, size) or self._placed_soon(parts, size)
        self._rest = pieces or self._inline(parts, size)
        message.is_begun = True
        self.is_cut = False

    def _placed_soon(self, parts: Sequence[Part], size: int) -> list[bytes]:
        if self._writer is not None and self._is_worth_waiting(size):
            until = monotonic() + SPACE_SECONDS
            while not self._is_interrupted and self._is_space_back(self._writer.counter, until - monotonic()):
                if (note := self._placed(parts, size)) is not None:
                    return note
        return []

    def _is_space_back(self, counter: int, seconds: float) -> bool:
        # Nothing has been placed: an interrupt does no harm meanwhile.
        self.is_cut = False
        is_back = self._poll(select.POLLIN, counter, seconds)
        self.is_cut = True
        return is_back

    def _send_rest(self) -> None:
        self.is_cut = True
        try:
            self._rest = self._send_now(self._rest)
        except OSError as error:
            require_own(error)
            self._rest = ()  # the peer is gone; the call knows why
        self.is_cut = False

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
