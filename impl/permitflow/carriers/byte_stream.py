"""A stream over a pipe of its own, for asyncio; like a gRPC call, it ends with a status.

Each message follows a header (``framing``).  The dialler's first message says which method it calls; a dialler that has
a token shows it in a message before that.

Received bytes lie where Arrow reads them, and sent bytes are not copied before the pipe takes them.  Permits bound
the rows in flight; the pipe's buffers bound their bytes.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from time import monotonic
from typing import Required, TypedDict

import pyarrow as pa

from permitflow.carriers.carrier import DELIVERY_SECONDS, PipeCarrier
from permitflow.carriers.connection import CONTROL, GET_STREAM, MAX_ANSWER_BYTES, PUT_STREAM
from permitflow.carriers.deadlines import HANDSHAKE_SECONDS, SILENCE_SECONDS
from permitflow.carriers.framing import HEADER_BYTES, MessageReader, altered_header, header, parse_header
from permitflow.carriers.heartbeat import Heartbeat
from permitflow.carriers.pipe import Pipe, drained, sent_all
from permitflow.carriers.security import MOST_TOKEN, NEEDS_TLS, SPEAKS_NO_TLS
from permitflow.errors import (
    AlteredMessageError,
    HandshakeTimeoutError,
    PeerGoneError,
    PermitflowError,
    TlsError,
    UndecodableDataError,
)
from permitflow.patience import Countdown, patience
from permitflow.wire.arrow import MAX_MESSAGE_BYTES
from permitflow.wire.arrow_metadata import MAX_SCHEMA_BYTES
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.control_codec import MOST_REQUEST_BYTES
from permitflow.wire.wire_errors import (
    NOTHING_SAID,
    TLS_ALERT,
    TLS_HELLO,
    decode_status,
    encode_status,
    stranger_who_says,
)


class StreamMessageKind(IntEnum):
    """The kind of the message behind a header."""

    MESSAGE = 0
    END = 1
    """No content: this half is closed, in good order."""
    STATUS = 2
    """The acceptor's reason to end the stream, as JSON: the equivalent of gRPC's status."""
    PING = 3
    """No content: a sign of life."""
    GET = 4
    """No content: the dialler calls GetStream."""
    PUT = 5
    """No content: the dialler calls PutStream."""
    CONTROL = 6
    """No content: the dialler calls Control."""
    TOKEN = 7
    """The token that says who a dialler is, in ASCII; it comes before the method."""


# Indexing costs a tenth of a call.
_KINDS = tuple(StreamMessageKind)
METHODS = {StreamMessageKind.GET: GET_STREAM, StreamMessageKind.PUT: PUT_STREAM, StreamMessageKind.CONTROL: CONTROL}
KIND_OF_METHOD = {method: kind for kind, method in METHODS.items()}


def read_header(
    data: memoryview, who: str, most_bytes: int = MAX_MESSAGE_BYTES, *, is_known: bool = False
) -> tuple[StreamMessageKind, int]:
    """Decode a header that ``who`` has sent: the message's kind and its length, at most ``most_bytes``.

    ``is_known``: it has sent one before, so that it speaks permitflow.

    Raises:
        AlteredMessageError: it was a header of permitflow.
        UndecodableDataError: this is not a header of permitflow, or the message is too long.
    """
    parsed = parse_header(data)
    if parsed is None and (altered := altered_header(data, is_known=is_known)) is not None:
        raise altered
    if parsed is None:
        first = bytes(data[:HEADER_BYTES])
        if first.startswith(TLS_ALERT):
            raise TlsError(who=who, reason=NEEDS_TLS)
        if first.startswith(TLS_HELLO):
            raise TlsError(who=who, reason=SPEAKS_NO_TLS)
        raise UndecodableDataError(
            what=f"what {who} says, {first!r},", reason=f"it is none of permitflow's, {stranger_who_says(first)}"
        )
    kind, size = parsed
    if kind > StreamMessageKind.TOKEN:
        raise UndecodableDataError(
            what=f"a message of kind {kind}", reason=f"{StreamMessageKind.TOKEN:d} is the last kind"
        )
    if kind != StreamMessageKind.MESSAGE:
        most_bytes = _CONTENT_BYTES.get(kind, 0)
    if size > most_bytes:
        raise UndecodableDataError(what=f"a message of {size} bytes", reason=f"{most_bytes} are the most")
    return _KINDS[kind], size


_CONTENT_BYTES: dict[int, int] = {StreamMessageKind.STATUS: 64 << 10, StreamMessageKind.TOKEN: MOST_TOKEN}
# What the dialler of each method may send.  A Put is as short as a Get; chunks come after the agreement.
FRAMES_BYTES = MAX_SCHEMA_BYTES + (128 << 10)  # a schema and all that is beside it
_MOST_BYTES = {
    StreamMessageKind.GET: FRAMES_BYTES,
    StreamMessageKind.PUT: FRAMES_BYTES,
    StreamMessageKind.CONTROL: MOST_REQUEST_BYTES + (1 << 10),
}
_MOST_AHEAD = 64  # of undelivered messages; the kernel keeps the rest, and then the peer waits
_MESSAGE = StreamMessageKind.MESSAGE  # reading an enumeration's attribute costs more than comparing it
_VERDICT_SECONDS = 1.0  # to read a peer's last messages after it hung up
_FAREWELL_SECONDS = 1.0  # for the peer to read the last message: closing earlier may lose it


def last_word(error: Exception) -> bytes:
    """What an acceptor says at the end, if not in good order."""
    told = encode_status(error)
    return header(StreamMessageKind.STATUS, len(told)) + told


def _body_for_arrow(size_bytes: int) -> memoryview:
    return memoryview(pa.allocate_buffer(size_bytes)).cast("B")


class StreamOptions(TypedDict, total=False):
    """See ``ByteStream``."""

    who: Required[str]
    is_acceptor: Required[bool]
    silence_seconds: float
    handshake_seconds: float


class ByteStream(PipeCarrier[StreamMessageKind]):
    """A stream over a pipe of its own."""

    def __init__(
        self,
        pipe: Pipe,
        *,
        who: str,
        is_acceptor: bool,
        silence_seconds: float = SILENCE_SECONDS,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        """Take a pipe over.

        Args:
            pipe: belongs to this object.
            who: the peer, in words for an error.
            is_acceptor: is this end the acceptor?
            silence_seconds: a peer that gives no sign of life for longer is gone.
            handshake_seconds: of an acceptor: the deadline for the dialler's request.
        """
        super().__init__(pipe, MessageReader(self._read_header, new_body=_body_for_arrow))
        self._who, self._is_acceptor = who, is_acceptor
        # Received messages.
        self._most_bytes = 0 if is_acceptor else MAX_ANSWER_BYTES
        self._inbox: deque[tuple[StreamMessageKind, Received]] = deque()
        self._has_end_come = self._has_ended = self._is_known = False
        self._method: asyncio.Future[str] = self._loop.create_future()
        self.token: str | None = None
        """What the dialler has shown; an acceptor knows it once it knows the method."""
        # What leaves.
        self._awaits_agreement = False  # does the dialler, before it sends chunks?
        # The end.
        self._failure: PermitflowError | None = None
        self._is_broken = False  # can nothing be read and written any more?
        self._is_cut = False  # see ``is_cut``
        self._is_wrong = self._has_told_failure = False  # has the peer sent a wrong message?
        self._silent_seconds = 0.0
        self._silence_seconds, self._handshake_seconds = silence_seconds, handshake_seconds
        self._late = Countdown(handshake_seconds, self._on_late) if is_acceptor else None
        self._heartbeat = Heartbeat(
            self._loop,
            ping=self._ping,
            is_listening=self._is_listening,
            give_up=self._give_up,
            silence_seconds=silence_seconds,
        )
        self._watch()

    # Reading.

    async def method(self) -> str:
        """Wait for the method that the dialler calls.

        Raises:
            UndecodableDataError: its first message is another one.
            PeerGoneError: it is gone, or the deadline has passed.
        """
        return await self._method

    @property
    def _has_read_all(self) -> bool:
        return self._failure is not None

    def _on_readable(self) -> None:
        if self._is_delivery_due:
            return
        try:
            if not self._receive():
                self._break_reading("its connection was closed before the end")
        except BlockingIOError:
            pass
        except PermitflowError as error:
            self._is_cut = isinstance(error, AlteredMessageError)
            self._refuse(error)
        except MemoryError as error:
            self._fail(self._gone(str(error)))
        except OSError as error:
            if (refusal := self._pipe.why_refused(error)) is not None:
                self._is_broken = True
                self._fail(TlsError(who=self._who, reason=refusal))
            else:
                self._break_reading(str(error))
        self._deliver()

    def _hear(self) -> None:
        self._heartbeat.has_sign = True

    def _read_header(self, data: memoryview) -> tuple[StreamMessageKind, int]:
        found = read_header(data, self._who, self._most_bytes, is_known=self._is_known)
        self._is_known = True
        return found

    def _note(self, kind: StreamMessageKind, payload: Received) -> None:
        """Process a complete message."""
        if kind is StreamMessageKind.PING:
            return
        if self._is_acceptor and not self._method.done():
            self._note_method(kind, payload)
            return
        if self._late is not None:
            self._late.cancel()
        self._inbox.append((kind, payload))
        self._has_end_come |= kind in (
            StreamMessageKind.END,
            StreamMessageKind.STATUS,
        )  # nothing follows either of them
        if self._listener is None and len(self._inbox) >= _MOST_AHEAD:
            self._unwatch()

    def _note_method(self, kind: StreamMessageKind, payload: Received) -> None:
        if kind is StreamMessageKind.TOKEN and self.token is None:
            self.token = bytes(payload).decode("ascii", errors="replace")
            return
        if kind not in METHODS:
            raise UndecodableDataError(what="the beginning of a stream", reason=f"{kind.name} calls no method")
        self._most_bytes, self._awaits_agreement = _MOST_BYTES[kind], kind is StreamMessageKind.PUT
        if kind is StreamMessageKind.CONTROL and self._late is not None:  # a control client has no deadline
            self._late.cancel()
        self._method.set_result(METHODS[kind])

    def fail(self, error: PermitflowError) -> None:
        """Stop waiting for the dialler's request, for this reason; only an acceptor does."""
        self._fail(error)
        self._deliver()

    def _on_late(self) -> None:
        reason = f"it has not said within {self._handshake_seconds:g} s what it wants"
        self.fail(HandshakeTimeoutError(who=self._who, reason=reason))

    def _deliver(self) -> None:
        """See ``PipeCarrier``."""
        inbox, until = self._inbox, monotonic() + DELIVERY_SECONDS
        while inbox and self._listener is not None and not self._is_paused:
            kind, payload = inbox.popleft()
            if kind is _MESSAGE and not self._has_ended:
                is_in_time = monotonic() < until
                self._listener.on_message(payload, is_in_time and bool(inbox) and inbox[0][0] is _MESSAGE)
                if inbox and not is_in_time:
                    self._deliver_later()
                    return
            elif kind is StreamMessageKind.END and not self._has_ended:
                self._has_ended = True
                self._listener.on_end()
            elif kind is StreamMessageKind.STATUS and not self._is_acceptor:
                inbox.clear()
                error = decode_status(bytes(payload), who=self._who)
                # The peer does not know where it was dialled.
                self._fail(TlsError(who=self._who, reason=error.reason) if isinstance(error, TlsError) else error)
            else:
                inbox.clear()
                self._refuse(UndecodableDataError(what="a message", reason=f"{kind.name} may not come here"))
        listener = self._listener
        if self._failure is not None and listener is not None and not inbox and not self._has_told_failure:
            self._has_told_failure = True
            if not self.takes_last_words:
                self._listener = None
            listener.on_error(self._failure)

    # Writing.

    def call(self, kind: StreamMessageKind, token: str | None = None) -> None:
        """Tell the acceptor who calls, if there is a token, and which method."""
        shown = b"" if token is None else header(StreamMessageKind.TOKEN, len(token)) + token.encode("ascii")
        self._send([shown + header(kind)])

    def write(self, message: Sequence[Buffer]) -> bool:
        """See ``Carrier``."""
        size = sum(map(len, message))
        if self._awaits_agreement:  # this message is the agreement
            self._awaits_agreement, self._most_bytes = False, MAX_MESSAGE_BYTES
        return self._send([header(_MESSAGE, size) + message[0], *message[1:]])

    @property
    def is_protected(self) -> bool:
        """See ``Carrier``."""
        return self._pipe.is_protected

    @property
    def takes_last_words(self) -> bool:
        """See ``Carrier``; an acceptor says why by ``finish``."""
        return self._is_wrong and not self._is_broken and not self._is_acceptor

    @property
    def is_cut(self) -> bool:
        """See ``Carrier``."""
        return self._is_cut

    def _close_half(self) -> None:
        """An acceptor says so by ``finish``, when all is over."""
        if not self._is_acceptor:
            self._send([header(StreamMessageKind.END)])

    def _send(self, pieces: Sequence[Buffer]) -> bool:
        return not self._is_broken and super()._send(pieces)

    def _on_unwritable(self, error: OSError) -> None:
        """React to a peer that stopped reading; its last messages or its silence show the reason."""
        self._loop.call_later(_VERDICT_SECONDS, self._on_no_verdict, str(error))

    def _on_no_verdict(self, reason: str) -> None:
        self._break(reason)
        self._deliver()

    # Signs of life.

    @abstractmethod
    def _ping(self) -> None:
        """Give a sign of life, without waiting; called in another thread."""

    def _is_listening(self) -> bool:
        """Would a sign of life be noticed now?"""
        return self._is_watching

    # The end.

    async def finish(self, error: Exception | None) -> None:
        """End the stream, with success or with an error that the peer learns; only an acceptor does.

        Not within an unfinished message, whose rest it would seem to be: the peer gets ``PeerGoneError`` then.
        """
        await self.stop()
        if self._silent_seconds and isinstance(error, PeerGoneError):
            error = PeerGoneError.of_own_silence(who=self._who, seconds=self._silent_seconds)
        if self._is_broken or self._rest:
            self.close()
            return
        last = header(StreamMessageKind.END) if error is None else last_word(error)
        with suppress(OSError, PermitflowError):  # a pipe over datagrams may also notice that its peer breaks the rules
            async with patience(self._silence_seconds):
                await sent_all(self._pipe, self._before_last() + last)
            self._pipe.shut_writing()
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await drained(self._pipe, self._messages.room())

    def _before_last(self) -> bytes:
        """What else must leave before the last message; nothing follows it."""
        return b""

    def _give_up(self, silent_seconds: float) -> None:
        self._silent_seconds = silent_seconds
        self._is_cut = self._failure is None
        self._fail(self._gone(f"it has given no sign of life for {silent_seconds:.0f} s"))
        self._deliver()

    def _gone(self, reason: str) -> PeerGoneError:
        is_known = self._is_acceptor or self._heartbeat.has_heard
        return PeerGoneError(who=self._who, reason=reason if is_known else f"{reason}; {NOTHING_SAID}")

    def _break_reading(self, reason: str) -> None:
        if self._has_end_come:  # nothing is missing
            self._unwatch()
        else:
            self._break(reason)

    def _break(self, reason: str) -> None:
        self._is_broken = True
        self._is_cut |= self._failure is None
        self._fail(self._gone(reason))

    def _refuse(self, error: PermitflowError) -> None:
        """Refuse a wrong message: deliver nothing more, except the end after last words."""
        self._is_wrong = True
        self._fail(error)
        if self.takes_last_words:
            self._is_watching = True
            self._pipe.watch_reading(self._skip)

    def _skip(self) -> None:
        """Read and drop bytes: unread, they would make the pipe reset the connection, and lose last words."""
        try:
            if self._pipe.receive_into(self._messages.room()):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._unwatch()
        if self._listener is not None:
            self._listener.on_end()

    def _fail(self, error: PermitflowError) -> None:
        self._failure = self._failure or error
        self._messages.forget()
        self._unwatch()
        if not self._method.done():
            self._method.set_exception(self._failure)
            self._method.exception()  # perhaps no task awaits it

    async def stop(self) -> None:
        """See ``Carrier``."""
        self._listener = None
        self._unwatch()
        self._stop_writing()
        if self._late is not None:
            self._late.cancel()
        if not self._is_acceptor:  # an acceptor must still send the reason
            self.close()

    def close(self) -> None:
        """Hang up.  Closing twice is harmless."""
        self._break("this end was closed")
        if self._late is not None:
            self._late.cancel()
        self._heartbeat.stop()
        self._stop_writing()
        self._listener = None
        self._pipe.close()
