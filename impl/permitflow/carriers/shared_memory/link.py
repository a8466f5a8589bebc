"""The link between two processes of one host, for asyncio: a Unix socket and a ring of shared memory.

Each message begins with a header on the socket (``framing``).  Its body follows there, or lies in the ring.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from functools import partial
from math import inf
from struct import Struct
from time import monotonic

from permitflow.carriers.carrier import DELIVERY_SECONDS, PipeCarrier
from permitflow.carriers.framing import HEADER_BYTES, MessageReader, header, parse_header
from permitflow.carriers.pipe import SocketPipe
from permitflow.carriers.shared_memory.region import forget_in_children
from permitflow.carriers.shared_memory.ring import ALIGNMENT_BYTES, RingReader, RingSlot, RingWriter
from permitflow.errors import PermitflowError, TransportError, UndecodableDataError
from permitflow.wire.buffers import Buffer, Received

_BUFFER_BYTES = 128 << 10


class Placement(IntEnum):
    """The kind of the message behind a header."""

    INLINE = 32
    """It stands here."""
    PLACED = 33
    """Its place in the ring."""


_INLINE, _PLACED = Placement.INLINE, Placement.PLACED  # reading an enumeration's attribute costs more than comparing it
_PLACE = Struct(">III")

inline_header = partial(header, int(_INLINE))
"""The header of a message of this many bytes on the socket."""


def place_note(place: RingSlot) -> bytes:
    """The message that says where another one lies in the ring."""
    return header(_PLACED, _PLACE.size) + _PLACE.pack(*place)


RING_FROM_BYTES = 16 << 10
"""A smaller message travels faster over the socket: a note, a view and the return of its space cost more."""

SPACE_SECONDS = 0.005
"""How long a message waits for space in the ring before it goes over the socket.

A fast consumer returns space sooner; to a slow one the copy over the socket makes no difference.  A consumer that
keeps its chunks never returns space, so the wait needs a limit.
"""


class AsyncioLink(PipeCarrier[Placement]):
    """Messages in both directions, in order; large ones through the ring."""

    def __init__(self, connection: socket.socket, ring: RingWriter | RingReader, *, most_bytes: int) -> None:
        """Take ownership of the socket and the ring; needs a running event loop.

        Args:
            connection: to the peer.
            ring: this process's end.
            most_bytes: of a message.
        """
        super().__init__(SocketPipe(connection), MessageReader(self._read_header, buffer_bytes=_BUFFER_BYTES))
        self._ring = ring
        self._writer = ring if isinstance(ring, RingWriter) else None
        self._reader = ring if isinstance(ring, RingReader) else None
        self._most_bytes = most_bytes
        self._inbox: deque[Received] = deque()
        self._failure: PermitflowError | None = None
        self._has_ended = self._has_reported_end = self._is_ring_full = False
        self._unplaced: tuple[Sequence[Buffer], int] | None = None  # waits for space in the ring
        self._space_timer: asyncio.TimerHandle | None = None
        forget_in_children(self)

    # Reading.

    @property
    def _has_read_all(self) -> bool:
        return self._has_ended

    def _on_readable(self) -> None:
        if self._is_delivery_due:
            return
        self._receive()
        if self._has_ended:
            self._unwatch()
        self._deliver()

    def drain(self) -> None:
        """Receive everything that has arrived; the stream is over."""
        while not self._has_ended and self._receive():
            pass
        self._has_ended = True
        self._unwatch()
        self._deliver(is_all=True)

    def _receive(self) -> bool:
        """Receive what has come; False if nothing has, or nothing will come any more."""
        try:
            self._has_ended = not super()._receive()
        except BlockingIOError:
            return False
        except OSError:  # the peer is gone; the network stream gives the reason
            self._has_ended = True
        except PermitflowError as error:
            self._failure, self._has_ended = error, True
        return not self._has_ended

    def _note(self, kind: Placement, body: Received) -> None:
        self._inbox.append(body if kind is _INLINE else self._view(RingSlot(*_PLACE.unpack(body))))

    def _read_header(self, data: memoryview) -> tuple[Placement, int]:
        kind, size = parse_header(data) or (None, 0)
        if kind == _INLINE and size <= self._most_bytes:
            return _INLINE, size
        if kind == _PLACED and size == _PLACE.size:
            return _PLACED, size
        mark = bytes(data[:HEADER_BYTES])
        reason = f"it begins with {mark!r} and has {size} bytes; at most {self._most_bytes} are allowed"
        raise UndecodableDataError(what="a message over the Unix socket", reason=reason)

    def _view(self, place: RingSlot) -> memoryview:
        if self._reader is None:
            raise UndecodableDataError(what=str(place), reason="this end writes the ring and does not read it")
        return self._reader.view(place)

    def _deliver(self, *, is_all: bool = False) -> None:
        inbox, until = self._inbox, inf if is_all else monotonic() + DELIVERY_SECONDS
        while inbox and self._listener is not None and not self._is_paused:
            message = inbox.popleft()
            is_in_time = monotonic() < until
            self._listener.on_message(message, is_in_time and bool(inbox))
            del message  # the last reference frees its space in the ring
            if inbox and not is_in_time:
                self._deliver_later()
                return
        if inbox or not self._has_ended or self._listener is None or self._has_reported_end:
            return
        self._has_reported_end = True
        if self._failure is not None:
            self._listener.on_error(self._failure)
        else:
            self._listener.on_end()

    # Writing.

    def write(self, message: Sequence[Buffer]) -> bool:
        """See ``Carrier``; waits at most ``SPACE_SECONDS`` for space in the ring."""
        size = sum(map(len, message))
        if size < RING_FROM_BYTES or self._writer is None:
            return self._send([inline_header(size), *message])
        try:
            note = self._placed(message, size)
        except PermitflowError as error:
            self._loop.call_soon(self._on_error, error)
            return False
        if note is not None:
            return self._send(note)
        # After one vain wait, messages go over the socket until space returns.  Longer ones than the ring never wait.
        if self._is_ring_full or size > self._writer.capacity_bytes - ALIGNMENT_BYTES:
            return self._send([inline_header(size), *message])
        self._is_ring_full = True
        self._unplaced = message, size
        self._loop.add_reader(self._writer.counter, self._on_space)
        self._space_timer = self._loop.call_later(SPACE_SECONDS, self._on_no_space)
        return False

    def _placed(self, parts: Sequence[Buffer], size: int) -> list[bytes] | None:
        """Put a message into the ring and return its note; None without room.

        Raises:
            UndecodableDataError: the peer has returned more space than it had.
        """
        place = None if self._writer is None else self._writer.put(parts, size)
        if place is None:
            return None
        self._is_ring_full = False
        return [place_note(place)]

    def _on_space(self) -> None:
        if self._unplaced is None:
            return
        try:
            note = self._placed(*self._unplaced)
        except PermitflowError as error:
            self._stop_waiting_for_space()
            self._on_error(error)
            return
        if note is not None:
            self._stop_waiting_for_space()
            self._send_late(note)

    def _on_no_space(self) -> None:
        if self._unplaced is not None:
            parts, size = self._unplaced
            self._stop_waiting_for_space()
            self._send_late([inline_header(size), *parts])

    def _stop_waiting_for_space(self) -> None:
        self._unplaced = None
        if self._space_timer is not None:
            self._space_timer.cancel()
            self._space_timer = None
            if self._writer is not None:
                self._loop.remove_reader(self._writer.counter)

    def _send_late(self, pieces: Sequence[Buffer]) -> None:
        if self._send(pieces):
            self._on_written()

    @property
    def takes_last_words(self) -> bool:
        """See ``Carrier``."""
        return self._failure is not None

    @property
    def _is_full(self) -> bool:
        return bool(self._rest) or self._unplaced is not None

    def _close_half(self) -> None:
        with contextlib.suppress(OSError):  # the peer may be gone
            self._pipe.shut_writing()

    def _on_unwritable(self, error: OSError) -> None:
        self._on_error(TransportError.of(what="the Unix socket", cause=error))

    # The end.

    def _on_error(self, error: PermitflowError) -> None:
        if self._listener is not None:
            self._listener.on_error(error)

    async def stop(self) -> None:
        """See ``Carrier``."""
        self.close()

    def close(self) -> None:
        """Release everything but the memory that views still use.  Closing twice is harmless."""
        self._listener = None
        self._unwatch()
        self._stop_waiting_for_space()
        self._stop_writing()
        self._has_ended = True
        self._pipe.close()
        self._ring.close()
        # A reference to this object, for example in a traceback, must not keep the memory.
        self._writer = self._reader = None
        self._inbox.clear()

    def forget(self) -> None:
        """Close the descriptors in the child of a fork; send nothing."""
        self._has_ended = True
        self._pipe.close()
        self._ring.forget()
