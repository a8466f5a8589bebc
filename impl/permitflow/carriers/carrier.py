"""The carrier of a stream's messages, and the listener that it calls."""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol

from permitflow.carriers.framing import K, MessageReader
from permitflow.carriers.pipe import Pipe
from permitflow.change import Change
from permitflow.errors import PermitflowError
from permitflow.wire.buffers import Buffer, Received


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


class Interruptions(NamedTuple):
    """How often and for how long a stream was without a connection."""

    resumes: int = 0
    """It has gone on so often, over another connection."""
    seconds: float = 0.0
    """Seconds without a connection, in all."""
    since: float | None = None
    """The loop's time at which the connection was lost; None: there is one."""


_NONE = Interruptions()


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

    def write_sign(self, sign: Buffer) -> bool:
        """As ``write``, for a message that only asks or says whether other messages have come."""
        return self.write((sign,))

    @property
    def takes_last_words(self) -> bool:
        """Can a message still tell the peer the reason, after ``on_error``?"""
        return False

    @property
    def sign_seconds(self) -> float | None:
        """How long after a message another one must follow, so that the peer notices if the first was lost.

        None: the carrier itself loses none unnoticed.
        """
        return None

    @property
    def is_protected(self) -> bool:
        """Does TLS notice every altered, lost or repeated byte, so that messages need no checksum?"""
        return False

    @property
    def is_cut(self) -> bool:
        """Was the connection lost or altered without a word of the peer's, so that it may still be there?  Asked after
        ``on_error``."""
        return False

    @property
    def is_unreached(self) -> bool:
        """Was there never a connection?  Asked after ``on_error``."""
        return False

    # A stream that survives its connection.

    @property
    def resume_seconds(self) -> float | None:
        """How long the stream waits for another connection after a cut; 0: not at all; None: nobody has offered it."""
        return None

    def survive(self, seconds: float) -> None:
        """Wait this long for another connection after each later cut; 0: end with the connection."""
        return

    def distrust(self, error: PermitflowError) -> bool:
        """Give the connection up, because of what has come over it, or has not.

        True: the message that is being delivered comes again over another one, and so do all that follow.
        """
        return False

    async def settled(self) -> None:
        """Wait until the peer has acknowledged all messages, where messages are acknowledged.

        Raises:
            PermitflowError: it lacks some, and has not come again.
        """
        return

    @property
    def interruptions(self) -> Interruptions:
        """How often and for how long the stream was without a connection."""
        return _NONE

    def half_close(self) -> None:
        """Tell the peer, behind all written messages, that none follows."""
        ...

    async def stop(self) -> None:
        """Deliver and write nothing more.  The peer of a dialler learns that the dialler left.

        Stopping twice is harmless.
        """
        ...


DELIVERY_SECONDS = 0.002
"""Messages that came together are delivered at once for this long; then other streams have their turn."""


_READS_AT_ONCE = 8
"""Reads in one turn of the event loop."""


class PipeCarrier(Carrier, Generic[K]):
    """The common part of carriers over a pipe: reads and writes it within callbacks of the event loop."""

    def __init__(self, pipe: Pipe, messages: MessageReader[K]) -> None:
        """Take ownership of the pipe; needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._messages = messages
        self._listener: Listener | None = None
        self._is_watching = self._is_paused = self._is_closing_half = self._is_delivery_due = False
        self._rest: Sequence[Buffer] = ()  # what the pipe has not taken yet

    # Reading.

    def listen(self, listener: Listener) -> None:
        """See ``Carrier``."""
        self._listener = listener
        self._watch()  # reading may have stopped before there was a listener
        self._loop.call_soon(self._deliver)

    def pause(self) -> None:
        """See ``Carrier``."""
        self._is_paused = True
        self._unwatch()

    def resume(self) -> None:
        """See ``Carrier``."""
        self._is_paused = False
        self._watch()
        self._loop.call_soon(self._deliver)

    def _watch(self) -> None:
        if not (self._is_watching or self._is_paused or self._has_read_all):
            self._is_watching = True
            self._pipe.watch_reading(self._on_readable)

    def _unwatch(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self._pipe.unwatch_reading()

    @property
    @abstractmethod
    def _has_read_all(self) -> bool:
        """Is nothing to be read any more?"""

    @abstractmethod
    def _on_readable(self) -> None:
        """Receive what has come."""

    def _receive(self) -> bool:
        """Receive what has come, as much as one turn of the loop allows; False: the peer has hung up.

        Raises:
            BlockingIOError: nothing has come.
            OSError: the connection is broken.
            PermitflowError: a message is wrong.
        """
        for _ in range(_READS_AT_ONCE):
            space = self._messages.room()
            count = self._pipe.receive_into(space)
            if not count:
                return False
            self._hear()
            for kind, body in self._messages.take(count):
                self._note(kind, body)
            if count < len(space):
                break
        return True

    def _hear(self) -> None:
        """The peer has given a sign of life."""

    @abstractmethod
    def _note(self, kind: K, body: Received) -> None:
        """Process a message that is complete."""

    @abstractmethod
    def _deliver(self) -> None:
        """Deliver received messages to the listener: those that ``DELIVERY_SECONDS`` do not suffice for, later."""

    def _deliver_later(self) -> None:
        """Deliver in the next round of the loop; nothing should be received before."""
        if not self._is_delivery_due:
            self._is_delivery_due = True
            self._loop.call_soon(self._deliver_rest)

    def _deliver_rest(self) -> None:
        self._is_delivery_due = False
        self._deliver()

    # Writing.

    def _send(self, pieces: Sequence[Buffer]) -> bool:
        """Write; True if the pipe took all, else the rest follows later."""
        assert not self._rest, "the carrier was full"
        try:
            self._rest = self._sent(pieces)
        except OSError as error:
            self._loop.call_soon(self._on_unwritable, error)
            return False
        if self._rest:
            self._pipe.watch_writing(self._on_writable)
        return not self._rest

    def _sent(self, pieces: Sequence[Buffer]) -> Sequence[Buffer]:
        """Write as much as the pipe takes now; return the rest."""
        try:
            while pieces:
                pieces = without(pieces, self._pipe.send(pieces))
        except BlockingIOError:
            pass
        return pieces

    def _on_writable(self) -> None:
        try:
            self._rest = self._sent(self._rest)
        except OSError as error:
            self._stop_writing()
            self._on_unwritable(error)
            return
        if not self._rest:
            self._stop_writing()
            self._on_written()

    def _on_written(self) -> None:
        if self._is_closing_half:
            self._close_half()
        elif self._listener is not None:
            self._listener.on_writable()

    def _stop_writing(self) -> None:
        self._pipe.unwatch_writing()

    def half_close(self) -> None:
        """See ``Carrier``."""
        if self._is_full:
            self._is_closing_half = True
        else:
            self._close_half()

    @property
    def _is_full(self) -> bool:
        return bool(self._rest)

    @abstractmethod
    def _close_half(self) -> None:
        """Tell the peer that no message follows; all of them were written."""

    @abstractmethod
    def _on_unwritable(self, error: OSError) -> None:
        """React to a peer that stopped reading."""


def without(pieces: Sequence[Buffer], count: int) -> Sequence[Buffer]:
    """The pieces of a message without its first ``count`` bytes."""
    for position, piece in enumerate(pieces):
        if count < len(piece):
            return [memoryview(piece).cast("B")[count:], *pieces[position + 1 :]]
        count -= len(piece)
    return ()


# What waits to be read; more waits at the peer.
_MOST_AHEAD, _MOST_AHEAD_BYTES = 16, 1 << 20


class Conversation:
    """Reads and writes messages one by one, for a single task at a time."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._inbox: deque[Received] = deque()
        self._inbox_bytes = 0
        self._has_ended = self._is_full = self._is_paused = False
        self._error: PermitflowError | None = None
        self._changed = Change()
        carrier.listen(self)

    def on_message(self, message: Received, has_more: bool) -> None:
        """As ``Listener.on_message``."""
        self._inbox.append(message)
        self._inbox_bytes += len(message)
        if self._is_inbox_full and not self._is_paused:
            self._is_paused = True
            self._carrier.pause()
        self._changed.note()

    def on_writable(self) -> None:
        """As ``Listener.on_writable``."""
        self._is_full = False
        self._changed.note()

    def on_end(self) -> None:
        """As ``Listener.on_end``."""
        self._has_ended = self._error is None
        self._changed.note()

    def on_error(self, error: PermitflowError) -> None:
        """As ``Listener.on_error``."""
        self._error = error
        self._changed.note()

    @property
    def failure(self) -> PermitflowError | None:
        """Why the stream is over, as far as that is known; messages may wait to be read."""
        return self._error

    @property
    def ahead(self) -> int:
        """How many messages wait to be read."""
        return len(self._inbox)

    @property
    def _is_inbox_full(self) -> bool:
        return len(self._inbox) >= _MOST_AHEAD or self._inbox_bytes >= _MOST_AHEAD_BYTES

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
        self._inbox_bytes -= len(message)
        if self._is_paused and not self._is_inbox_full:
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
        await self._changed.wait()

    def half_close(self) -> None:
        """Tell the peer that no message follows."""
        self._carrier.half_close()

    async def stop(self) -> None:
        """As ``Carrier.stop``."""
        await self._carrier.stop()


class FirstMessage:
    """Waits for the first message of a connection, and lets the others wait."""

    def __init__(self, carrier: Carrier) -> None:
        """Listen."""
        self.carrier = carrier
        self._message: Received | None = None
        self._error: PermitflowError | None = None
        self._has_ended = False
        self._came: asyncio.Future[Received | None] = asyncio.get_running_loop().create_future()
        self.is_full = False
        """Has the carrier not yet taken what was written?"""
        carrier.listen(self)

    def on_message(self, message: Received, _has_more: bool) -> None:
        """As ``Listener.on_message``."""
        self.carrier.pause()
        self._message = message
        if not self._came.done():  # an error of this end's may have come before it
            self._came.set_result(message)

    def on_writable(self) -> None:
        """As ``Listener.on_writable``."""
        self.is_full = False

    def on_end(self) -> None:
        """As ``Listener.on_end``."""
        self._has_ended = True
        if not self._came.done():
            self._came.set_result(None)

    def on_error(self, error: PermitflowError) -> None:
        """As ``Listener.on_error``."""
        self._error = error
        if not self._came.done():
            self._came.set_exception(error)
            self._came.exception()  # perhaps no task awaits it

    async def wait(self) -> Received | None:
        """The message; None: the peer has closed the stream in good order.

        Raises:
            PermitflowError: the stream is over; the type says why.
        """
        return await asyncio.shield(self._came)

    def hand_over(self, listener: Listener) -> None:
        """Give what has come to the carrier's next listener, and let the others come."""
        if self._message is not None:
            listener.on_message(self._message, False)
        self.hand_over_end(listener)
        self.carrier.resume()

    def hand_over_end(self, listener: Listener) -> None:
        """Tell the carrier's next listener the end, if it came behind the message: the carrier tells it once."""
        if self._error is not None:
            listener.on_error(self._error)
        elif self._has_ended:
            listener.on_end()
