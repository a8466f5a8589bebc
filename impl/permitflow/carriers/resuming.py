"""A stream that survives its connection: a carrier over one connection after the other.

The end above notices nothing but time.  What it has written and the peer has not acknowledged is kept, and written
again into the next connection (``Resumption``).  The dialler dials again, and the acceptor waits for that.
"""

import asyncio
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import copy_context
from functools import partial

from permitflow.carriers.calling import calling, reached_again
from permitflow.carriers.carrier import Carrier, FirstMessage, Interruptions, Listener
from permitflow.carriers.reaching import Destination
from permitflow.carriers.resumption import Resumption
from permitflow.change import Change
from permitflow.errors import (
    AlteredMessageError,
    HandshakeTimeoutError,
    LimitReachedError,
    PeerGoneError,
    PermitflowError,
    ResumeRefusedError,
    ResumeTimeoutError,
    TransportError,
    UndecodableDataError,
)
from permitflow.patience import Countdown, patience
from permitflow.stream.resuming import (
    TOKEN_BYTES,
    Acknowledged,
    ConnectionFrame,
    HalfClose,
    Leave,
    Resume,
    Resumed,
    ResumeOffer,
)
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.connection_frames import (
    CONNECTION_KEY,
    MOST_WITH_FRAME_BYTES,
    decode_connection_frame,
    encode_connection_frame,
    parted,
)

_log = logging.getLogger(__name__)

_FAREWELL_SECONDS = 1.0  # for the acceptor to hear that the dialler leaves

_MOST_DISTRUSTED = 3
"""Connections that may fail at the same message before it counts as one that nobody can read."""
_HALF_CLOSE = encode_connection_frame(HalfClose())


class NumberedConnection:
    """One connection of a stream.  Once another one is current, nothing that comes over it is heard."""

    def __init__(self, owner: "ResumingCarrier", number: int, carrier: Carrier) -> None:
        self.number, self.carrier = number, carrier
        self._owner = owner
        self._held: Received | None = None  # it is not known yet whether one of the stream's messages came with it
        self.released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when an acceptor's stream needs the connection no more, with the error to tell."""

    def on_message(self, message: Received, has_more: bool) -> None:
        """As ``Listener.on_message``."""
        is_frame = len(message) > 0 and message[0] == CONNECTION_KEY
        frame, message = parted(message) if is_frame else (b"", message)
        is_alone = is_frame and not message
        held, self._held = self._held, None
        if held is not None:
            self._owner.take(self, held, not is_alone)
        if is_frame:
            self._owner.take_frame(self, frame)
        if is_alone:
            return
        if has_more and not self._owner.is_plain:
            self._held = message
        else:
            self._owner.take(self, message, has_more)

    def on_writable(self) -> None:
        """As ``Listener.on_writable``."""
        self._owner.write_rest(self)

    def on_end(self) -> None:
        """As ``Listener.on_end``."""
        self._owner.take_end(self)

    def on_error(self, error: PermitflowError) -> None:
        """As ``Listener.on_error``."""
        self._owner.take_error(self, error)

    def release(self, error: BaseException | None) -> None:
        """The stream needs this connection no more: the peer is told this error, or the end in good order."""
        if self.released.done():
            return
        if error is None:
            self.released.set_result(None)
        else:
            self.released.set_exception(error)
            self.released.exception()  # perhaps nobody awaits it


class ConnectionGivenUp(Exception):
    """The stream goes on without this connection, which is to be closed without a word."""


class ResumingCarrier(Carrier, ABC):
    """The common part of both ends."""

    def __init__(self, first: Carrier, *, who: str, seconds: float, number: int = 0) -> None:
        """Begin on a connection.

        Args:
            first: the connection.
            who: the peer, in words for an error.
            seconds: as for ``survive``.
            number: of the connection.
        """
        self._loop = asyncio.get_running_loop()
        self._who, self._seconds = who, seconds
        self._core = Resumption[Sequence[Buffer]](number)
        self._connection: NumberedConnection | None = NumberedConnection(self, number, first)
        self._inner = first  # the latest one
        self._listener: Listener | None = None
        # Nothing can be written into the connection now, or there is none.
        self._is_full = False
        self._is_paused = self._owes = self._has_closed_half = False
        self._failure: PermitflowError | None = None
        self._is_over = False  # has the peer ended the stream, or has it failed?
        self._is_plain = False  # does the stream end with its connection?
        self._resumes, self._suspended_seconds = int(number > 0), 0.0
        self._since: float | None = None
        self._changed = Change()
        self._distrusted = (-1, 0)  # at which position, and how often

    # Reading.

    def listen(self, listener: Listener) -> None:
        """See ``Carrier``."""
        self._listener = listener
        if self._failure is not None:
            self._loop.call_soon(listener.on_error, self._failure)
        elif self._is_plain:
            self._inner.listen(listener)
        elif self._connection is not None:
            self._inner.listen(self._connection)

    def pause(self) -> None:
        """See ``Carrier``."""
        self._is_paused = True
        self._inner.pause()

    def resume(self) -> None:
        """See ``Carrier``."""
        self._is_paused = False
        self._inner.resume()

    def take(self, connection: NumberedConnection, message: Received, has_more: bool) -> None:
        """Deliver a message of the stream, and count it once the listener has it."""
        listener, core = self._listener, self._core
        if connection.number != core.current or listener is None:
            return
        listener.on_message(message, has_more)
        if self._is_plain:  # since this message, which was the agreement, or before
            return
        if core.deliver(connection.number, len(message)) or (self._has_closed_half and core.owes):
            self._acknowledge()

    def take_frame(self, connection: NumberedConnection, message: Received) -> None:
        """Process a frame of the connection; a damaged one ends the connection, and not the stream."""
        if connection.number != self._core.current:
            return
        try:
            frame = decode_connection_frame(message)
        except TransportError as error:
            self.lose(connection, error)
            return
        except PermitflowError as error:
            self.fail(error)
            return
        try:
            self._heed(connection, frame)
        except PermitflowError as error:
            self.fail(error)

    def _heed(self, connection: NumberedConnection, frame: ConnectionFrame) -> None:
        if not isinstance(frame, Acknowledged):
            reason = f"{type(frame).__name__} may not come here"
            raise UndecodableDataError(what="a frame of the connection", reason=reason)
        self._core.hear(connection.number, frame.received)
        if not self._core.kept:
            self._changed.note()

    def _acknowledge(self) -> None:
        self._owes = self._is_full
        if not self._is_full:
            self._is_full = not self._inner.write(self._acknowledgement())

    def _acknowledgement(self) -> Sequence[Buffer]:
        return encode_connection_frame(Acknowledged(self._core.acknowledge()))

    # Writing.

    def write(self, message: Sequence[Buffer]) -> bool:
        """See ``Carrier``; a sign behind the end of this half is dropped."""
        if self._is_plain:
            return self._inner.write(message)
        if self._has_closed_half:
            return True
        is_free = not self._is_full
        self._core.send(message, writes=is_free)
        if is_free:
            self._write(message)
        return not self._is_full

    def _write(self, message: Sequence[Buffer]) -> None:
        """Write a message of the stream; an acknowledgement that is due soon goes along."""
        if self._core.is_due_soon and sum(map(len, message)) <= MOST_WITH_FRAME_BYTES:
            message = [*self._acknowledgement(), *message]
        self._is_full = not self._inner.write(message)

    def write_rest(self, connection: NumberedConnection) -> None:
        """Write what waits, as far as the connection takes it; then the listener has its turn."""
        if connection is not self._connection:
            return
        self._is_full = False
        while not self._is_full and (self._owes or self._core.has_unwritten):
            if self._owes:
                self._acknowledge()
            else:
                self._write(self._core.next_unwritten())
        self._changed.note()
        if not self._is_full and self._listener is not None:
            self._listener.on_writable()

    @property
    def takes_last_words(self) -> bool:
        """See ``Carrier``."""
        return self._connection is not None and self._inner.takes_last_words

    @property
    def sign_seconds(self) -> float | None:
        """See ``Carrier``."""
        return self._inner.sign_seconds

    @property
    def is_protected(self) -> bool:
        """See ``Carrier``."""
        return self._inner.is_protected

    # Connections.

    @property
    def resume_seconds(self) -> float | None:
        """See ``Carrier``."""
        return self._seconds

    def survive(self, seconds: float) -> None:
        """See ``Carrier``; with 0, everything goes straight to the connection and from it, and nothing is kept."""
        self._seconds = seconds
        if seconds or self._is_plain:
            return
        self._is_plain = True
        if self._connection is None:
            self._tell(PeerGoneError(who=self._who, reason="its connection was lost"))
        elif self._listener is not None:
            self._inner.listen(self._listener)

    @property
    def is_plain(self) -> bool:
        """Does the stream end with its connection, so that no frame but the stream's own comes over it?"""
        return self._is_plain

    @property
    def interruptions(self) -> Interruptions:
        """See ``Carrier``."""
        seconds = self._suspended_seconds + (0.0 if self._since is None else self._loop.time() - self._since)
        return Interruptions(self._resumes, seconds, self._since)

    def distrust(self, error: PermitflowError) -> bool:
        """See ``Carrier``."""
        if self._is_over or self._is_plain:
            return False
        if self._connection is not None:
            if not self._may_come_whole():
                return False
            self.lose(self._connection, error)
        return not self._is_over

    def _may_come_whole(self) -> bool:
        """A message was altered: may it be better the next time?"""
        position, times = self._distrusted
        times = times + 1 if position == self._core.received else 1
        self._distrusted = self._core.received, times
        return times <= _MOST_DISTRUSTED

    def take_end(self, connection: NumberedConnection) -> None:
        """React to the end of a connection in good order."""
        if connection is self._connection and not self._is_over:
            self._on_connection_end(connection)

    @abstractmethod
    def _on_connection_end(self, connection: NumberedConnection) -> None: ...

    def take_error(self, connection: NumberedConnection, error: PermitflowError) -> None:
        """React to the end of a connection: another one may follow if it was cut."""
        if connection is not self._connection or self._is_over:
            return
        if self._is_lost(connection.carrier, error):
            self.lose(connection, error)
        else:
            self._tell(error)

    def _is_lost(self, carrier: Carrier, error: PermitflowError) -> bool:
        """May another connection take the place of this one, which has ended with an error?"""
        return carrier.is_cut and (not isinstance(error, AlteredMessageError) or self._may_come_whole())

    def lose(self, connection: NumberedConnection, error: PermitflowError) -> None:
        """Give a connection up that is of no use any more, and wait for another one."""
        if not self._core.cut(connection.number):
            return
        self._connection, self._is_full, self._owes = None, True, False
        self._let_go(connection)
        if not self._seconds or self._is_over:
            self._tell(error)
            return
        self._since = self._loop.time()
        _log.info("%s: the stream has lost its connection (%s)", self._who, error)
        self._suspend(error)

    @abstractmethod
    def _let_go(self, connection: NumberedConnection) -> None:
        """Close a connection."""

    @abstractmethod
    def _suspend(self, error: PermitflowError) -> None:
        """Begin to wait for another connection: the last one was lost for this reason."""

    def _go_on(self, connection: NumberedConnection, first: FirstMessage) -> None:
        """Use another connection, which the core has taken; ``first`` has come over it."""
        self._connection, self._inner = connection, connection.carrier
        if self._since is not None:
            self._suspended_seconds += self._loop.time() - self._since
            self._since = None
        self._resumes += 1
        self._changed.note()
        again = self._core.kept.end - self._core.written
        _log.info("%s: the stream goes on over connection %d, messages again: %d", self._who, connection.number, again)
        self._is_full = True
        self._hear(connection, first)

    def _hear(self, connection: NumberedConnection, first: FirstMessage) -> None:
        self._inner.listen(connection)
        self._loop.call_soon(first.hand_over_end, connection)
        if not self._is_paused:
            self._inner.resume()
        if not first.is_full:
            self.write_rest(connection)

    def fail(self, error: PermitflowError) -> None:
        """End the stream for this reason; no other connection follows."""
        if (connection := self._connection) is not None:
            self._core.cut(connection.number)
            self._connection, self._is_full = None, True
            self._let_go(connection)
        self._tell(error)

    def _tell(self, error: PermitflowError) -> None:
        if self._is_over:
            return
        self._is_over, self._failure = True, error
        self._changed.note()
        if self._listener is not None:
            self._listener.on_error(error)


class DialledCarrier(ResumingCarrier):
    """The dialler's end, which makes the connections."""

    def __init__(
        self,
        first: Carrier,
        connections: AsyncExitStack,
        dial: Callable[[], AbstractAsyncContextManager[Carrier]],
        *,
        who: str,
        token: bytes,
        seconds: float,
    ) -> None:
        """Begin on a connection.

        Args:
            first: the connection.
            connections: releases it.
            dial: makes another one.
            who: the peer, in words for an error.
            token: as in the offer.
            seconds: as in the offer.
        """
        super().__init__(first, who=who, seconds=seconds)
        self._stack, self._dial, self._token = connections, dial, token
        self._context = copy_context()
        self._dialling: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def half_close(self) -> None:
        """See ``Carrier``: the last of the messages that count; the call itself stays open for acknowledgements."""
        if self._is_plain:
            self._inner.half_close()
            return
        if self._core.owes:
            self._acknowledge()
        self.write(_HALF_CLOSE)
        self._has_closed_half = True

    def _is_lost(self, carrier: Carrier, error: PermitflowError) -> bool:
        """Likewise if the acceptor says that the first message was lost or damaged."""
        if carrier.is_cut:
            return not carrier.is_unreached and super()._is_lost(carrier, error)
        return self._core.received == 0 and self._is_unheard(error)

    def _is_unheard(self, error: PermitflowError) -> bool:
        """Does the acceptor say that it has not heard the first message of a connection, which may come again?"""
        if isinstance(error, AlteredMessageError):
            return self._may_come_whole()  # else it is the reason why the stream has ended
        return isinstance(error, HandshakeTimeoutError)

    def _is_undecoded(self, error: PermitflowError) -> bool:
        """Was what went before the first message altered?  The acceptor of this stream speaks our protocol."""
        return isinstance(error, UndecodableDataError) and self._may_come_whole()

    def _on_connection_end(self, connection: NumberedConnection) -> None:
        """The acceptor ends a stream in good order when this end has everything."""
        self._is_over = True
        self._changed.note()
        if self._listener is not None:
            self._listener.on_end()

    def take_end(self, connection: NumberedConnection) -> None:
        """As above; also after last words."""
        if connection is self._connection and self._is_over and self._listener is not None:
            self._listener.on_end()
        else:
            super().take_end(connection)

    def _let_go(self, _connection: NumberedConnection) -> None:
        closing = asyncio.create_task(self._stack.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _suspend(self, error: PermitflowError) -> None:
        name = f"dialling {self._who} again"
        self._dialling = self._loop.create_task(self._dial_again(error), name=name, context=self._context)

    async def _dial_again(self, lost: PermitflowError) -> None:
        reason = str(lost.reason) if isinstance(lost, PeerGoneError) else str(lost)
        try:
            outcome, _ = await reached_again(self._attempt, who=self._who, reason=reason, seconds=self._seconds)
        except PermitflowError as error:
            outcome = error
        except Exception as error:  # of a carrier's own making: nobody else would end the stream
            outcome = TransportError.of(what=f"cannot reach {self._who} again", cause=error)
        if isinstance(outcome, PermitflowError):
            self._tell(outcome)

    async def _attempt(self) -> PermitflowError | bool | None:
        """Go on over another connection: None: in vain; an error: the acceptor's last word.

        Raises:
            PeerGoneError: in vain, for this reason.
        """
        async with AsyncExitStack() as stack:
            carrier = await stack.enter_async_context(self._dial())
            number, first = self._core.dial(), FirstMessage(carrier)
            resume = Resume(self._token, number, self._core.acknowledge())
            first.is_full = not carrier.write(encode_connection_frame(resume))
            try:
                answer = await first.wait()
            except PermitflowError as error:
                if isinstance(error, ResumeRefusedError):  # in the exchange's words, which does not know the stream
                    return ResumeRefusedError(who=self._who, reason=error.reason)
                if isinstance(error, LimitReachedError):
                    return None  # the former connection may still take its place
                if not (carrier.is_cut or self._is_unheard(error) or self._is_undecoded(error)):
                    return error
                if isinstance(error, PeerGoneError):
                    raise  # in vain as well, and it says why
                return None
            try:
                frame = None if answer is None else decode_connection_frame(answer)
                if isinstance(frame, Resumed):
                    if frame.received < self._core.kept.start:  # it would begin with what the former one had
                        reason = "it has forgotten what it had of it: was the exchange started again?"
                        return ResumeRefusedError(who=self._who, reason=reason)
                    self._core.resumed(number, frame.received)
            except TransportError:  # a damaged answer
                return None
            except PermitflowError as error:
                return error
            if frame is None:
                self._on_connection_end(NumberedConnection(self, number, carrier))
                return True
            if not isinstance(frame, Resumed):
                return UndecodableDataError(what="the answer to Resume", reason=f"it is {type(frame).__name__}")
            self._stack = stack.pop_all()
            self._go_on(NumberedConnection(self, number, carrier), first)
        return True

    async def stop(self) -> None:
        """See ``Carrier``."""
        self._listener = None
        if self._dialling is not None and not self._dialling.done():
            self._dialling.cancel()
            await asyncio.wait({self._dialling})
        try:
            await self._leave()
        finally:
            self._is_over, self._connection = True, None
            await self._stack.aclose()
            if self._closing:
                await asyncio.wait(self._closing)

    async def _leave(self) -> None:
        """Tell the acceptor that this end will not come again, unless it knows that the stream is over."""
        connection = self._connection
        if connection is None or self._is_over or self._is_plain:
            return
        try:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                while self._is_full and not self._is_over and self._connection is connection:
                    await self._changed.wait()
                if not self._is_over and self._connection is connection:
                    self._seconds = 0.0
                    self._inner.write(encode_connection_frame(Leave()))
                    self._inner.half_close()
                    while not self._is_over:
                        await self._changed.wait()
        except TimeoutError:
            pass


class AcceptedCarrier(ResumingCarrier):
    """The acceptor's end, which waits for the dialler's connections."""

    def __init__(
        self, first: FirstMessage, *, who: str, seconds: float, number: int, on_suspended: Callable[[], None]
    ) -> None:
        """Begin on a connection.

        Args:
            first: its first message has come.
            who: the peer, in words for an error.
            seconds: how long to wait after each cut; 0: not at all.
            number: of the connection.
            on_suspended: called when a wait begins.
        """
        super().__init__(first.carrier, who=who, seconds=seconds, number=number)
        assert self._connection is not None, "it was just made"
        self._has_begun = False
        self._begins_with = self._connection, first, True
        """Before that: the latest connection, what has come over it, and is that a message of the stream's?"""
        self._is_full = True
        self._on_suspended = on_suspended
        self._is_half_closed = False
        """Has the dialler said that no message of the stream will come?"""
        self._settling_seconds = seconds
        """How long a dialler that is connected may take to acknowledge the last messages."""
        self._timer: Countdown | None = None

    def listen(self, listener: Listener) -> None:
        """See ``Carrier``."""
        super().listen(listener)
        has_begun, self._has_begun = self._has_begun, True
        if not has_begun and self._begins_with[0] is self._connection:
            self._loop.call_soon(self._begin, *self._begins_with)

    def _begin(self, connection: NumberedConnection, first: FirstMessage, is_of_stream: bool) -> None:
        # If the connection was lost meanwhile, the message comes again over another one.
        if is_of_stream:
            first.hand_over(connection)
        else:
            first.hand_over_end(connection)
            first.carrier.resume()
        if not first.is_full:
            self.write_rest(connection)

    def _hear(self, connection: NumberedConnection, first: FirstMessage) -> None:
        if self._has_begun:
            super()._hear(connection, first)
        else:  # its first message comes again
            self._begins_with = connection, first, False

    @property
    def connection(self) -> NumberedConnection | None:
        """The current one."""
        return self._connection

    @property
    def is_suspended(self) -> bool:
        """Does the stream wait for a connection?"""
        return self._since is not None and not self._is_over

    def end_with_connection(self, error: PermitflowError) -> None:
        """Wait for no other connection any more; a stream that has none ends for this reason."""
        self._seconds = 0.0
        if self.is_suspended:
            self.fail(error)

    @property
    def kept_bytes(self) -> int:
        """The bytes of the messages that the dialler has not acknowledged."""
        kept = self._core.kept
        return sum(len(piece) for message in kept.since(kept.start) for piece in message)

    def accept(self, resume: Resume, first: FirstMessage) -> NumberedConnection:
        """Go on over a connection that the dialler has made; the former one, if any is left, is given up.

        Raises:
            ResumeRefusedError: this connection is older.
            FalsePositionError: the dialler's position cannot be.
        """
        answer = self._core.accept(resume.attempt, resume.received, who="the exchange")
        if self._timer is not None:
            self._timer.cancel()
        if (former := self._connection) is not None:
            self._let_go(former)
        carrier = first.carrier
        connection = NumberedConnection(self, resume.attempt, carrier)
        first.is_full = not carrier.write(encode_connection_frame(Resumed(answer)))
        self._go_on(connection, first)
        return connection

    def take(self, connection: NumberedConnection, message: Received, has_more: bool) -> None:
        """As above; behind the end of the dialler's half, only an altered acknowledgement looks like a message."""
        if self._is_half_closed:
            self.lose(connection, PeerGoneError(who=self._who, reason="what it sent last was altered on the way"))
        else:
            super().take(connection, message, has_more)

    def half_close(self) -> None:
        """See ``Carrier``; an acceptor says so when all is over (``finish``)."""

    def _heed(self, connection: NumberedConnection, frame: ConnectionFrame) -> None:
        if isinstance(frame, HalfClose):
            self._is_half_closed = True
            self._core.deliver(connection.number, 0)
            self._acknowledge()
            if self._listener is not None:
                self._listener.on_end()
        elif isinstance(frame, Leave):
            self._seconds = 0.0
            self._tell(PeerGoneError(who=self._who, reason="it left before the end of the stream"))
        else:
            super()._heed(connection, frame)

    def _on_connection_end(self, connection: NumberedConnection) -> None:
        self.lose(connection, PeerGoneError(who=self._who, reason="its connection was closed before the end"))

    def _let_go(self, connection: NumberedConnection) -> None:
        connection.release(ConnectionGivenUp())

    def _suspend(self, error: PermitflowError) -> None:
        self._timer = Countdown(self._seconds, partial(self._expire, error, self._seconds))
        self._on_suspended()

    def _expire(self, lost: PermitflowError, seconds: float) -> None:
        reason = str(lost.reason) if isinstance(lost, PeerGoneError) else str(lost)
        self.fail(ResumeTimeoutError(who=self._who, reason=reason, seconds=seconds, attempts=0))

    async def stop(self) -> None:
        """See ``Carrier``: the connection stays, so that the dialler can be told the outcome."""
        self._listener = None
        if self._is_plain:
            await self._inner.stop()

    async def settled(self) -> None:
        """Wait until the dialler has all messages, or cannot be waited for any more.

        If it does not acknowledge any, the connection may have lost something, or a large one takes longer: it is to
        come again, a few times, and has longer each time.

        Raises:
            PermitflowError: it lacks some, and has not come again, or has acknowledged none for too long.
        """
        position, times = self._core.kept.start, 0
        while self._awaits_acknowledgement:
            try:
                async with patience((times + 1) * self._settling_seconds):
                    while self._awaits_acknowledgement:
                        await self._changed.wait()
            except TimeoutError:
                if self._core.kept.start > position:
                    position, times = self._core.kept.start, 0
                    continue
                times += 1
                error = PeerGoneError(who=self._who, reason="it has not acknowledged the last messages")
                if times > _MOST_DISTRUSTED:
                    self.fail(error)
                elif self._connection is not None:
                    self.lose(self._connection, error)
        if self._core.kept and self._connection is None and self._failure is not None:
            raise self._failure

    @property
    def _awaits_acknowledgement(self) -> bool:
        return bool(self._core.kept) and not (self._is_over or self._is_plain)

    def finish(self, outcome: Exception | None) -> None:
        """Tell the dialler the outcome, if there is a connection."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.release(outcome)


@asynccontextmanager
async def calling_again(to: Destination, resume_seconds: float) -> AsyncIterator[tuple[Carrier, ResumeOffer | None]]:
    """As ``calling``; the stream survives its connection if the acceptor accepts the offer, which comes along.

    ``resume_seconds``: how long to try after each cut; 0: make no offer.
    """
    if not resume_seconds:
        async with calling(to) as carrier:
            yield carrier, None
        return
    offer = ResumeOffer(secrets.token_bytes(TOKEN_BYTES), resume_seconds)
    async with AsyncExitStack() as connections:
        first = await connections.enter_async_context(calling(to))
        again = partial(calling, to._replace(timeout_seconds=None))
        resuming = DialledCarrier(
            first, connections.pop_all(), again, who=to.who, token=offer.token, seconds=offer.seconds
        )
        try:
            yield resuming, offer
        finally:
            await resuming.stop()
