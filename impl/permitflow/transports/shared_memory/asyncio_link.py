"""The link between two processes of one host, for asyncio."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial

from permitflow.transports.shared_memory.message_socket import RING_FROM_BYTES, SPACE_SECONDS, MessageSocket
from permitflow.transports.shared_memory.notes import inline_header
from permitflow.transports.shared_memory.ring import Part, RingReader, RingWriter
from permitflow.transports.shared_memory.sized_parts import SizedParts

__all__ = ["AsyncioLink"]

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
            # To whoever reads; the task that awaits ``read`` need not wake up.
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
