"""The socket beside a ring, and what asyncio and blocking callers do alike with it."""

import contextlib
import socket
from collections import deque
from collections.abc import Sequence

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.forks import forget_in_children
from permitflow.transports.shared_memory.notes import NoteReader, inline_header, place_note
from permitflow.transports.shared_memory.ring import Part, RingReader, RingWriter
from permitflow.transports.shared_memory.space import ALIGNMENT_BYTES, Place

__all__ = ["RING_FROM_BYTES", "SPACE_SECONDS", "MessageSocket", "require_own"]

RING_FROM_BYTES = 16 << 10
"""Below that the kernel copies faster than a note, a view and the return of its space take."""

SPACE_SECONDS = 0.005
"""How long a message waits for space in the ring before it goes over the socket.

A consumer that is fast returns space in less; a slow one does not notice that its bytes were copied.  And one that
keeps what it has consumed never returns it: so nobody may wait for space for ever.
"""

# The kernel takes no more pieces at once.
_MOST_PIECES = 1024


def require_own(error: OSError) -> None:
    """Raise it again if it is not the kernel's, but that of a signal's handler: TimeoutError is one, too."""
    if error.errno is None:
        raise error


class MessageSocket:
    """One end of the link: a socket that does not block, and one end of the ring."""

    def __init__(self, connection: socket.socket, ring: RingWriter | RingReader, *, most_bytes: int) -> None:
        """Everything belongs to this object.

        Args:
            connection: non-blocking.
            ring: the end that this process has.
            most_bytes: of a message.
        """
        self._socket = connection
        self._ring = ring
        self._writer = ring if isinstance(ring, RingWriter) else None
        self._reader = ring if isinstance(ring, RingReader) else None
        self._notes = NoteReader(most_bytes)
        self._inbox: deque[bytes | memoryview] = deque()
        self._has_ended = False
        self._is_ring_full = False
        forget_in_children(self)

    # Reading.

    def _receive_now(self) -> bool:
        """Receive what is here, up to a buffer full; False if nothing is.

        Raises:
            UndecodableDataError: the peer sends what is no message, or a wrong note.
        """
        try:
            count = self._socket.recv_into(self._notes.room())
        except BlockingIOError:
            return False
        except OSError as error:
            require_own(error)
            # Whoever is behind the socket is gone; gRPC knows why.
            count = 0
        if count == 0:
            self._has_ended = True
            return False
        for message in self._notes.take(count):
            self._inbox.append(self._view(message) if isinstance(message, Place) else message)
        return True

    def _view(self, place: Place) -> memoryview:
        if self._reader is None:
            raise UndecodableDataError(what=str(place), reason="this end writes into the ring, and does not read it")
        return self._reader.view(place)

    def drain(self) -> None:
        """Receive everything that is here, and expect no more: the stream is over."""
        while not self._has_ended and self._receive_now():
            pass
        self._has_ended = True

    # Writing.

    def _to_write(self, parts: Sequence[Part], size: int) -> Sequence[Part] | None:
        """What to write for a message: all of it, or a note of it; None if it is worth waiting for room in the ring."""
        if self._writer is None or size < RING_FROM_BYTES:
            return [inline_header(size), *parts]
        if (note := self._placed(parts, size)) is not None:
            return note
        return None if self._is_worth_waiting(size) else self._inline(parts, size)

    def _placed(self, parts: Sequence[Part], size: int) -> list[bytes] | None:
        """Put a message into the ring; what to write for it, or None if it is not to go there or there is no room."""
        if self._writer is None or size < RING_FROM_BYTES:
            return None
        place = self._writer.put(parts, size)
        if place is None:
            return None
        self._is_ring_full = False
        return [place_note(place)]

    def _is_worth_waiting(self, size: int) -> bool:
        """Will there be room for a message that has found none?  Asked once, until space has come back."""
        if self._writer is None or not RING_FROM_BYTES <= size <= self._writer.capacity_bytes - ALIGNMENT_BYTES:
            return False
        was_full, self._is_ring_full = self._is_ring_full, True
        return not was_full

    @staticmethod
    def _inline(parts: Sequence[Part], size: int) -> list[Part]:
        return [inline_header(size), *parts]

    def _send_now(self, pieces: Sequence[Part]) -> Sequence[Part]:
        """Send what the socket takes; the rest.

        Raises:
            OSError: the peer is gone.
        """
        try:
            sent = self._socket.sendmsg(pieces[:_MOST_PIECES], (), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return pieces
        for number, piece in enumerate(pieces):
            if sent < len(piece):
                return [memoryview(piece).cast("B")[sent:], *pieces[number + 1 :]]
            sent -= len(piece)
        return []

    # The end.

    def shut(self) -> None:
        """Say that nothing more will be written."""
        # A peer that is gone need not be told.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Release everything but the memory that is being looked at.  Closing twice is harmless."""
        self._has_ended = True
        self._socket.close()
        self._ring.close()
        # Who keeps this object, in the traceback of an error for instance, does not keep the memory.
        self._writer = self._reader = None
        self._inbox.clear()

    def forget(self) -> None:
        """In the child of a fork: let go without a word."""
        self._has_ended = True
        self._socket.close()
        self._ring.forget()
