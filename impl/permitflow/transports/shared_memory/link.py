"""The link between two processes of one host, for asyncio: a Unix socket, and a ring of shared memory beside it.

A header of 16 bytes goes over the socket, then the message, unless the ring has it.
"""

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import NamedTuple

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.region import forget_in_children
from permitflow.transports.shared_memory.ring import (
    ALIGNMENT_BYTES,
    Part,
    Place,
    RingReader,
    RingWriter,
    SizedParts,
    without,
)

__all__ = [
    "RING_FROM_BYTES",
    "SPACE_SECONDS",
    "AsyncioLink",
    "MessageSocket",
    "NoteReader",
    "inline_header",
    "place_note",
    "require_own",
]

_HEADER = struct.Struct("<4sIII")
_INLINE = b"pf:m"
_PLACED = b"pf:r"

_BUFFER_BYTES = 128 << 10


inline_header: Callable[[int], bytes] = partial(struct.Struct("<4sI8x").pack, _INLINE)
"""What goes before a message of so many bytes: a header whose last two numbers are 0."""


def place_note(place: Place) -> bytes:
    """The note of a message in the ring."""
    return _HEADER.pack(_PLACED, place.size, place.offset, place.space)


class _Partial(NamedTuple):
    """A message that is too long for the buffer, and has begun to arrive."""

    content: bytearray
    filled: int


class NoteReader:
    """Takes bytes as the socket gives them, and says which messages are complete.  Does no I/O."""

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes``: a peer that announces a longer message breaks the rules."""
        self._most_bytes = most_bytes
        self._buffer = bytearray(_BUFFER_BYTES)
        self._filled = 0
        self._partial: _Partial | None = None

    @property
    def is_between_messages(self) -> bool:
        """Has nothing of a further message arrived?"""
        return not self._filled and self._partial is None

    def room(self) -> memoryview:
        """Where the next bytes are to be put; as many as fit."""
        if self._partial is not None:
            return memoryview(self._partial.content)[self._partial.filled :]
        return memoryview(self._buffer)[self._filled :]

    def take(self, count: int) -> list[bytes | memoryview | Place]:
        """Note that ``count`` bytes were put into ``room``; the messages that are complete now.

        Raises:
            UndecodableDataError: these are no messages.
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
        """Move what is incomplete to where its rest fits behind it."""
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
        reason = f"it begins with {mark!r} and has {size} bytes, of at most {self._most_bytes}"
        return UndecodableDataError(what="a message over the Unix socket", reason=reason)


RING_FROM_BYTES = 16 << 10
"""Below that the kernel copies faster than a note, a view and the return of its space take."""

SPACE_SECONDS = 0.005
"""How long a message waits for space in the ring before it goes over the socket.

A consumer that is fast returns space in less; a slow one does not notice that its bytes were copied.  And one that
keeps what it has consumed never returns it: so no message may wait for space for ever.
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
            # The peer is gone; gRPC knows why.
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
        return without(pieces, sent)

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
        # A reference to this object, in the traceback of an error for instance, does not keep the memory.
        self._writer = self._reader = None
        self._inbox.clear()

    def forget(self) -> None:
        """In the child of a fork: let go without a word."""
        self._has_ended = True
        self._socket.close()
        self._ring.forget()


# A peer may write faster than this end reads; the kernel keeps the rest, and then the peer waits.
_MOST_AHEAD = 64


class AsyncioLink(MessageSocket):
    """Messages in both directions, in order; large ones through the ring.  One task reads, one writes."""

    def __init__(self, connection: socket.socket, ring: RingWriter | RingReader, *, most_bytes: int) -> None:
        """See ``MessageSocket``; to be made in the event loop that will use it."""
        super().__init__(connection, ring, most_bytes=most_bytes)
        self._loop = asyncio.get_running_loop()
        self._descriptor = connection.fileno()
        self._came: asyncio.Future[None] | None = None
        self._take_message: Callable[[bytes | memoryview], None] | None = None
        self._failure: Exception | None = None
        self._is_watching = False
        self._watch()

    # Reading.

    async def read(self) -> bytes | memoryview | None:
        """The next message; None once the peer has shut its half, or is gone.

        Raises:
            UndecodableDataError: the peer sends what is no message, or a wrong note.
        """
        while not self._inbox:
            if self._failure is not None:
                raise self._failure
            if self._has_ended:
                return None
            self._watch()
            self._came = self._loop.create_future()
            try:
                await self._came
            finally:
                self._came = None
        return self._inbox.popleft()

    def hand_to(self, take: Callable[[bytes | memoryview], None]) -> None:
        """Call this with each message that comes while ``read`` is awaited, instead of returning it from there.

        What it raises, ``read`` raises.
        """
        self._take_message = take

    @property
    def has_more(self) -> bool:
        """Has another message come, which is handed over next, or read?"""
        return bool(self._inbox)

    def _watch(self) -> None:
        if not self._is_watching and not self._has_ended:
            self._is_watching = True
            self._loop.add_reader(self._descriptor, self._on_readable)

    def _unwatch(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self._loop.remove_reader(self._descriptor)

    def _on_readable(self) -> None:
        try:
            self._catching(self._receive_now)
        finally:
            if self._has_ended or len(self._inbox) >= _MOST_AHEAD:
                self._unwatch()

    def drain(self) -> None:
        """Receive everything that is here, and expect no more: the stream is over."""
        self._catching(super().drain)
        self._unwatch()

    def _catching(self, receive: Callable[[], object]) -> None:
        try:
            receive()
        except Exception as error:
            self._failure, self._has_ended = error, True
        take, came, inbox = self._take_message, self._came, self._inbox
        try:
            # To the taker; the task that awaits ``read`` need not wake up.
            while take is not None and inbox and came is not None and not came.done():
                take(inbox.popleft())
        except Exception as error:
            self._failure, self._has_ended = error, True
        finally:
            # Also if a task that went on at once was interrupted.
            if self._came is not None and not self._came.done() and (inbox or self._has_ended):
                self._came.set_result(None)

    # Writing.

    async def write(self, parts: Sequence[Part]) -> None:
        """Hand a message over; waits while the socket is full, and for a moment while the ring is.

        Raises:
            OSError: the peer is gone.
            UndecodableDataError: the peer has returned space that it did not have.
        """
        if (rest := self.write_now(parts)) is not None:
            await rest()

    def write_now(self, parts: Sequence[Part]) -> Callable[[], Coroutine[object, object, None]] | None:
        """As ``write``, as far as that can be done without waiting; what is left to be awaited, if anything.

        Raises:
            OSError, UndecodableDataError: as for ``write``.
        """
        size = parts.size_bytes if isinstance(parts, SizedParts) else sum(map(len, parts))
        if size < RING_FROM_BYTES:
            placed: Sequence[Part] | None = [inline_header(size), *parts]  # as ``_to_write``, without its call
        else:
            placed = self._to_write(parts, size)
        if placed is None:
            return partial(self._write_soon, parts, size)
        pieces = self._send_now(placed)
        return partial(self._write_rest, pieces) if pieces else None

    async def _write_soon(self, parts: Sequence[Part], size: int) -> None:
        await self._write_rest(await self._placed_soon(parts, size) or self._inline(parts, size))

    async def _write_rest(self, pieces: Sequence[Part]) -> None:
        while pieces := self._send_now(pieces):
            await self._ready(self._loop.add_writer, self._loop.remove_writer, self._descriptor)

    async def _placed_soon(self, parts: Sequence[Part], size: int) -> list[bytes] | None:
        if self._writer is None:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SPACE_SECONDS):
                while True:
                    await self._ready(self._loop.add_reader, self._loop.remove_reader, self._writer.counter)
                    if (note := self._placed(parts, size)) is not None:
                        return note
        return None

    async def _ready(self, watch: Callable[..., object], unwatch: Callable[[int], object], descriptor: int) -> None:
        ready = self._loop.create_future()
        watch(descriptor, _set, ready)
        try:
            await ready
        finally:
            unwatch(descriptor)

    # The end.

    def close(self) -> None:
        """Release everything but the memory that is being looked at.  Closing twice is harmless."""
        self._unwatch()
        super().close()
        self._catching(lambda: None)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
