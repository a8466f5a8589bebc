"""The link between two processes of one host, for asyncio: a Unix socket and a ring of shared memory.

Each message begins with a header of 16 bytes on the socket.  Its body follows there, or lies in the ring.
"""

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from time import monotonic
from typing import NamedTuple

from permitflow.carriers.carrier import DELIVERY_SECONDS, SocketCarrier
from permitflow.carriers.shared_memory.region import forget_in_children
from permitflow.carriers.shared_memory.ring import ALIGNMENT_BYTES, Place, RingReader, RingWriter
from permitflow.errors import PermitflowError, TransportError, UndecodableDataError
from permitflow.wire.buffers import Buffer

_HEADER = struct.Struct("<4sIII")
_INLINE = b"pf:m"
_PLACED = b"pf:r"

_BUFFER_BYTES = 128 << 10


inline_header: Callable[[int], bytes] = partial(struct.Struct("<4sI8x").pack, _INLINE)
"""The header of a message of so many bytes on the socket; its last two numbers are 0."""


def place_note(place: Place) -> bytes:
    """The header of a message in the ring."""
    return _HEADER.pack(_PLACED, place.size, place.offset, place.space)


class _Partial(NamedTuple):
    """The received part of a message that is too long for the buffer."""

    content: bytearray
    filled: int


class NoteReader:
    """Splits the socket's bytes into messages.  Does no I/O."""

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes``: the longest message that a peer may announce."""
        self._most_bytes = most_bytes
        self._buffer = bytearray(_BUFFER_BYTES)
        self._filled = 0
        self._partial: _Partial | None = None

    def room(self) -> memoryview:
        """The free part of the buffer: put the next bytes there."""
        if self._partial is not None:
            return memoryview(self._partial.content)[self._partial.filled :]
        return memoryview(self._buffer)[self._filled :]

    def take(self, count: int) -> list[bytes | memoryview | Place]:
        """Note that ``room`` has received ``count`` bytes; return the complete messages.

        Raises:
            UndecodableDataError: a header is wrong.
        """
        if self._partial is not None:
            return self._take_partial(self._partial, count)
        self._filled += count
        view = memoryview(self._buffer)
        messages: list[bytes | memoryview | Place] = []
        at = 0
        while self._filled - at >= _HEADER.size:
            mark, size, offset, space = _HEADER.unpack_from(view, at)
            if mark == _PLACED:
                messages.append(Place(offset, size, space))
                at += _HEADER.size
                continue
            if mark != _INLINE or size > self._most_bytes:
                raise self._refusal(mark, size)
            end = at + _HEADER.size + size
            if end > self._filled:
                break
            messages.append(bytes(view[at + _HEADER.size : end]))
            at = end
        if at == self._filled:
            self._filled = 0
        else:
            self._keep(view, at)
        return messages

    def _take_partial(self, partial: _Partial, count: int) -> list[bytes | memoryview | Place]:
        filled = partial.filled + count
        if filled < len(partial.content):
            self._partial = partial._replace(filled=filled)
            return []
        self._partial = None
        return [memoryview(partial.content).toreadonly()]

    def _keep(self, view: memoryview, at: int) -> None:
        """Move the incomplete message to a place with room for its rest."""
        left = self._filled - at
        if left >= _HEADER.size:
            size = _HEADER.unpack_from(view, at)[1]
            if _HEADER.size + size > _BUFFER_BYTES // 2:
                content = bytearray(size)
                filled = left - _HEADER.size
                content[:filled] = view[at + _HEADER.size : self._filled]
                self._partial, self._filled = _Partial(content, filled), 0
                return
        if at:
            view[:left] = bytes(view[at : self._filled])
            self._filled = left

    def _refusal(self, mark: bytes, size: int) -> UndecodableDataError:
        reason = f"it begins with {mark!r} and has {size} bytes; at most {self._most_bytes} are allowed"
        return UndecodableDataError(what="a message over the Unix socket", reason=reason)


RING_FROM_BYTES = 16 << 10
"""A smaller message travels faster over the socket: a note, a view and the return of its space cost more."""

SPACE_SECONDS = 0.005
"""How long a message waits for space in the ring before it goes over the socket.

A fast consumer returns space sooner; to a slow one the copy over the socket makes no difference.  A consumer that
keeps its chunks never returns space, so the wait needs a limit.
"""


class AsyncioLink(SocketCarrier):
    """Messages in both directions, in order; large ones through the ring."""

    def __init__(self, connection: socket.socket, ring: RingWriter | RingReader, *, most_bytes: int) -> None:
        """Take ownership of the socket and the ring; needs a running event loop.

        Args:
            connection: to the peer.
            ring: this process's end.
            most_bytes: of a message.
        """
        super().__init__(connection)
        self._ring = ring
        self._writer = ring if isinstance(ring, RingWriter) else None
        self._reader = ring if isinstance(ring, RingReader) else None
        self._notes = NoteReader(most_bytes)
        self._inbox: deque[bytes | memoryview] = deque()
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
        """Receive at most one buffer; False if nothing has arrived."""
        try:
            count = self._socket.recv_into(self._notes.room())
            for message in self._notes.take(count) if count else ():
                self._inbox.append(self._view(message) if isinstance(message, Place) else message)
        except BlockingIOError:
            return False
        except OSError:  # the peer is gone; the network stream gives the reason
            count = 0
        except PermitflowError as error:
            self._failure, count = error, 0
        self._has_ended = not count
        return bool(count)

    def _view(self, place: Place) -> memoryview:
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
            self._socket.shutdown(socket.SHUT_WR)

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
        self._socket.close()
        self._ring.close()
        # A reference to this object, for example in a traceback, must not keep the memory.
        self._writer = self._reader = None
        self._inbox.clear()

    def forget(self) -> None:
        """Close the descriptors in the child of a fork; send nothing."""
        self._has_ended = True
        self._socket.close()
        self._ring.forget()
