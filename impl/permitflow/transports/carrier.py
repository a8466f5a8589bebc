"""The carrier of a stream's messages, and the listener that it calls."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from permitflow.errors import PermitflowError

Buffer: TypeAlias = bytes | memoryview

Received: TypeAlias = Buffer
"""A received message.  A view may lie in shared memory, which the sender reuses once no object refers to it."""


class Listener(Protocol):
    """Receives events, within callbacks of the event loop; never within a call that it makes itself."""

    def on_message(self, message: Received, has_more: bool) -> None:
        """A message has come; ``has_more``: the next one came together with it.

        The buffer does not change any more; record batches refer to it as long as they live.
        """
        ...

    def on_writable(self) -> None:
        """The carrier takes messages again."""
        ...

    def on_end(self) -> None:
        """The peer has closed its half in good order; called once at most, and no message follows."""
        ...

    def on_error(self, error: PermitflowError) -> None:
        """The stream has failed for this reason; called once at most.

        Nothing follows but ``on_writable`` and ``on_end``, if the carrier ``takes_last_words``.
        """
        ...


class Ear(NamedTuple):
    """A listener made of functions."""

    on_message: Callable[[Received, bool], None]
    on_writable: Callable[[], None]
    on_end: Callable[[], None]
    on_error: Callable[[PermitflowError], None]


class Carrier(Protocol):
    """One bidirectional stream of messages, ordered and without loss."""

    def listen(self, listener: Listener) -> None:
        """Deliver to this listener from now on, messages that came earlier included."""
        ...

    def pause(self) -> None:
        """Deliver nothing for a while; the peer may have to wait."""
        ...

    def resume(self) -> None:
        """Deliver messages again."""
        ...

    def write(self, message: Sequence[Buffer]) -> bool:
        """Accept a message in pieces; False if the next write must await ``on_writable``.

        A large piece begins at a multiple of 64 bytes from the beginning of the message.  No piece may change before
        the carrier takes messages again.  ``on_error`` reports the end of the stream, not this call.
        """
        ...

    @property
    def takes_last_words(self) -> bool:
        """After ``on_error``: can a message still tell the peer the reason?"""
        return False

    @property
    def sign_seconds(self) -> float | None:
        """How long after a message another one must follow, so that the peer notices if the first was lost.

        None: the carrier itself loses none unnoticed.
        """
        return None

    def half_close(self) -> None:
        """Tell the peer, behind all written messages, that none follows."""
        ...

    async def stop(self) -> None:
        """Deliver and write nothing more.  The peer of a dialler learns that the dialler left.

        Stopping twice is harmless.
        """
        ...


_MOST_AHEAD = 16


class Conversation:
    """Reads and writes messages one by one, for a single task at a time."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._inbox: deque[Received] = deque()
        self._has_ended = self._is_full = self._is_paused = False
        self._error: PermitflowError | None = None
        self._changed = asyncio.Event()
        carrier.listen(self)

    def on_message(self, message: Received, has_more: bool) -> None:
        """As ``Listener.on_message``."""
        self._inbox.append(message)
        if len(self._inbox) >= _MOST_AHEAD:
            self._is_paused = True
            self._carrier.pause()
        self._changed.set()

    def on_writable(self) -> None:
        """As ``Listener.on_writable``."""
        self._is_full = False
        self._changed.set()

    def on_end(self) -> None:
        """As ``Listener.on_end``."""
        self._has_ended = self._error is None
        self._changed.set()

    def on_error(self, error: PermitflowError) -> None:
        """As ``Listener.on_error``."""
        self._error = error
        self._changed.set()

    async def read(self) -> Received | None:
        """The next message; None once the peer has closed its half in good order.

        Raises:
            PermitflowError: the stream is over; the type says why.
        """
        while not self._inbox:
            if self._has_ended:
                return None
            await self._change()
        message = self._inbox.popleft()
        if self._is_paused:
            self._is_paused = False
            self._carrier.resume()
        return message

    async def write(self, message: Sequence[Buffer]) -> None:
        """Write a message; wait until the carrier takes more.

        Raises:
            PermitflowError: the stream is over; the type says why.
        """
        if self._error is not None:
            raise self._error
        self._is_full = not self._carrier.write(message)
        while self._is_full:
            await self._change()

    async def _change(self) -> None:
        if self._error is not None:
            raise self._error
        self._changed.clear()
        await self._changed.wait()

    def half_close(self) -> None:
        """Tell the peer that no message follows."""
        self._carrier.half_close()

    async def stop(self) -> None:
        """As ``Carrier.stop``."""
        await self._carrier.stop()
