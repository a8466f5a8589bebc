"""The state machine of each end of a stream: which frame may arrive when, and its effect.

Both methods of the exchange use these two machines; client and server differ only until the agreement.  The caller
passes received frames in, takes the frames to write, and reports when the peer has closed its half.  An error leaves
the session in the state FAILED: the stream is dead, and the session accepts nothing more.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from permitflow.errors import (
    ChannelAbortedError,
    EndOfStream,
    LedgerError,
    LocalProtocolError,
    PeerGoneError,
    UnexpectedFrameError,
)
from permitflow.flows.byte_window import DEFAULT_WINDOW, ByteWindow, Sums
from permitflow.flows.messages import Kind, Message, Offered
from permitflow.flows.recording import Recorder, RecorderFactory
from permitflow.flows.seam import Group, Inbound, Outbound, Parameters
from permitflow.stream import handshake
from permitflow.stream.compression import UNCOMPRESSED, CompressionAnswer, require_offered
from permitflow.stream.frames import (
    Abort,
    Agreement,
    Announcement,
    Cancel,
    Chunks,
    Data,
    DownstreamFrame,
    End,
    Ended,
    EndOutcome,
    Failure,
    Feedback,
    Frame,
    Get,
    Put,
    ReturnedBytes,
    SameHostAnswer,
    UpstreamFrame,
    frame_name,
)
from permitflow.stream.resuming import ResumeAnswer

K = TypeVar("K")
T = TypeVar("T")
FrameType: TypeAlias = type[object]


class State(StrEnum):
    """The states of a session."""

    AWAITING_GET = "awaiting Get"
    """A server upstream, before Get."""
    AWAITING_PUT = "awaiting Put"
    """A server downstream, before Put."""
    DECIDING = "deciding"
    """The client's wishes have arrived; the application has not accepted them yet."""
    AWAITING_AGREEMENT = "awaiting Agreement"
    """A client, before the agreement."""
    OPEN = "open"
    """Data flow downstream, feedback upstream."""
    ENDED = "ended"
    """End or Abort has passed; an upstream still takes feedback, a downstream still consumes."""
    CLOSED = "closed"
    """The stream is over, and both ends count the same."""
    FAILED = "failed"
    """A rule was broken, or the peer is gone."""


_OPEN, _ENDED = State.OPEN, State.ENDED  # reading an enumeration's attribute costs more than asking for it


class Session(Generic[T]):
    """The common part of both ends: the state, the handshake and the peer's name."""

    END: Literal["sender", "receiver"]
    TABLE: dict[tuple[State, FrameType], State]

    def __init__(self, state: State, request: Get | Put | None, peer: str, record: RecorderFactory | None) -> None:
        """Begin in this state; ``request`` is the first frame if this end is the client, else None."""
        self.state = state
        self.is_acceptor = request is None
        """Is the peer the client?"""
        self.peer = peer
        """The peer, described for error messages."""
        self._request = request
        self._agreement: Agreement | None = None
        self._parameters: Parameters | None = None
        self._factory = record
        self.compression = UNCOMPRESSED
        """Whether chunks may come compressed."""
        self._outgoing: list[Any] = [] if request is None else [request]  # frames of this end

    # These are read with every chunk and never change once known: cached, so that later reads need no call.

    @cached_property
    def request(self) -> Get | Put:
        """The client's first frame."""
        if self._request is None:
            raise LocalProtocolError(f"no client has connected yet: the stream is {self.state}")
        return self._request

    @cached_property
    def channel(self) -> str:
        """The channel's name."""
        return self.request.channel

    @cached_property
    def agreement(self) -> Agreement:
        """What both ends agreed on."""
        return self._agreed(self._agreement)

    @cached_property
    def parameters(self) -> Parameters:
        """The numbers by which both ends count."""
        return self._agreed(self._parameters)

    def _agreed(self, known: K | None) -> K:
        if known is None:
            raise LocalProtocolError(f"there is no agreement yet: the stream is {self.state}")
        return known

    def accept(
        self,
        own: Parameters,
        *,
        schema: bytes,
        stream: str = "",
        same_host: SameHostAnswer | None = None,
        first_row: int | None = None,
        compression: CompressionAnswer = UNCOMPRESSED,
        resume: ResumeAnswer | None = None,
        window: ByteWindow = DEFAULT_WINDOW,
    ) -> Agreement:
        """Agree with the client; the agreement is the next frame to write.

        ``own`` and ``window`` are the limits of this end.

        Raises:
            ParameterMismatchError: the parameters cannot be reconciled.
            InvalidParametersError: the client's wishes cannot work at all.
        """
        self._require(State.DECIDING, "accept")
        parameters = handshake.agree(own, self.request)
        window = handshake.agree_on_bytes(window, self.request)
        agreement = handshake.accept(
            self.request,
            parameters,
            schema=schema,
            window=window,
            stream=stream,
            same_host=same_host,
            first_row=first_row,
            compression=compression,
            resume=resume,
        )
        self.compression = compression
        self._agree(agreement, parameters, window)
        self.state = State.OPEN
        self._outgoing.append(agreement)
        return agreement

    def _agree(self, agreement: Agreement, parameters: Parameters, window: ByteWindow) -> None:
        self._agreement, self._parameters = agreement, parameters

    def _recorder(self) -> Recorder | None:
        if self._factory is None:
            return None
        stream, flow = self.agreement.stream or self.channel, self.parameters.flow
        return self._factory(stream, self.END, flow.table, flow.stated(self.parameters))

    def receive(self, frame: Frame[T]) -> None:
        """Take a frame of the peer.

        Raises:
            UnexpectedFrameError: this state does not allow the frame.
            HandshakeError: the agreement is not acceptable.
            RemoteProtocolError: the flow does not allow the frame; with permits, the peer returned more permits than
                it holds, or sent a message without permits.
            LedgerError: the totals of End differ from the messages that arrived.
        """
        following = self.TABLE.get((self.state, type(frame)))
        if following is None:
            expected = [frame_name(kind) for state, kind in self.TABLE if state is self.state]
            self.state = State.FAILED
            raise UnexpectedFrameError(frame=frame_name(frame), expected=" or ".join(expected) or "nothing")
        try:
            self._take_in(frame)
        except Exception:
            self.state = State.FAILED
            raise
        self.state = following

    def _take_in(self, frame: Frame[T]) -> None:
        match frame:
            case Get() | Put():
                self._request = frame
            case Agreement():
                self.compression = require_offered(frame.compression, self.request.compression)
                parameters = handshake.verify(frame, self.request)
                self._agree(frame, parameters, handshake.verify_bytes(frame, self.request))

    def fail(self, error: bytes) -> None:
        """Break the stream off: Failure is the next frame to write."""
        self._outgoing.append(Failure(error))
        self.state = State.FAILED

    def _require(self, state: State, deed: str) -> None:
        if self.state is not state:
            raise LocalProtocolError(f"cannot {deed}: the stream is {self.state}, not {state}")

    def _gone(self) -> PeerGoneError:
        reason = f"its stream broke off before the end (it was {self.state})"
        self.state = State.FAILED
        return PeerGoneError(who=self.peer, reason=reason)


UPSTREAM: dict[tuple[State, FrameType], State] = {
    (State.AWAITING_GET, Get): State.DECIDING,
    (State.DECIDING, Failure): State.FAILED,
    (State.AWAITING_AGREEMENT, Agreement): State.OPEN,
    (State.OPEN, Feedback): State.OPEN,
    (State.ENDED, Feedback): State.ENDED,
    (State.OPEN, ReturnedBytes): State.OPEN,
    (State.ENDED, ReturnedBytes): State.ENDED,
    (State.ENDED, Ended): State.ENDED,
    (State.OPEN, Cancel): State.ENDED,
    (State.ENDED, Cancel): State.ENDED,
    (State.OPEN, Failure): State.FAILED,
    (State.ENDED, Failure): State.FAILED,
}
"""The frames that an upstream accepts, and the next states; every other frame is an error."""


class UpstreamSession(Session[T]):
    """The end that sends data.  Not thread-safe; does no I/O."""

    END = "sender"
    TABLE = UPSTREAM

    def __init__(self, put: Put | None = None, *, peer: str = "the receiver", record: RecorderFactory | None = None):
        """This end is the client if there is a ``put``, its first frame; without one, it waits for Get."""
        state = State.AWAITING_GET if put is None else State.AWAITING_AGREEMENT
        super().__init__(state, put, peer, record)
        self._outbound: Outbound[T] | None = None
        self.is_ending = self._closes_channel = False
        """Was ``end`` called?"""
        self._until = EndOutcome.CONSUMED
        self.outcome: EndOutcome | None = None
        """The peer's answer to End; None: no answer yet."""
        self.cancel: Cancel | None = None
        """The peer's word that it needs no more messages."""
        self._peer_has_closed = False

    @cached_property
    def outbound(self) -> Outbound[T]:
        """The flow's end with the waiting messages; to offer a message, use the session."""
        return self._agreed(self._outbound)

    def _agree(self, agreement: Agreement, parameters: Parameters, window: ByteWindow) -> None:
        super()._agree(agreement, parameters, window)
        self._outbound = parameters.flow.outbound(parameters, record=self._recorder())
        self._outbound.limit_bytes(window, is_written_later=True)

    def _take_in(self, frame: Frame[T]) -> None:
        if isinstance(frame, Feedback):
            self.outbound.on_feedback(frame.content)
        elif isinstance(frame, ReturnedBytes):
            self.outbound.byte_ledger.on_return(frame.size_bytes)
        elif isinstance(frame, Ended):
            self.outcome = frame.outcome
        elif isinstance(frame, Cancel):
            self._end_for(frame)
        else:
            super()._take_in(frame)

    def offer(self, kind: Kind, payload: T, rows: int = 0, size_bytes: int | None = None) -> Offered[T]:
        """Queue a chunk or a barrier until it may leave; see ``Outbound.offer``."""
        self._require_offers()
        return self.outbound.offer(kind, payload, rows, size_bytes)

    def offer_watermark(self, payload: T) -> None:
        """Announce a watermark; it replaces one that has not left."""
        self._require_offers()
        self.outbound.offer_watermark(payload)

    def _require_offers(self) -> None:
        self._require(_OPEN, "send")
        if self.is_ending:
            raise LocalProtocolError("cannot send: the stream was ended before")

    def end(self, *, closes_channel: bool = False, until: EndOutcome = EndOutcome.CONSUMED) -> None:
        """Queue End behind all waiting messages; see its fields."""
        self._require_offers()
        self.is_ending, self._closes_channel, self._until = True, closes_channel, until

    def _end_for(self, cancel: Cancel) -> None:
        """End the stream behind the messages that have left; none that waits leaves any more."""
        self.cancel, self.outcome = cancel, EndOutcome.CANCELLED
        if self.state is _OPEN:
            self.is_ending = True
            self._outgoing.append(self._totals())

    def abort(self, reason: str) -> None:
        """Make Abort the next frame, before all waiting messages."""
        self._require(State.OPEN, "abort")
        self._outgoing.append(Abort(reason))
        self.is_ending = False
        self.state = State.ENDED

    def post(self, message: Message[T]) -> None:
        """Queue a frame for a message that has left the sender; for callers that send messages one by one."""
        if message.kind is Kind.CHUNK:
            self._post_chunks([message.payload], [message.rows])
        else:
            self._outgoing.append(Data(message))

    def send_many(self, payloads: Sequence[T], rows: Sequence[int], sums: Sums | None = None) -> int:
        """Send chunks from the first on, until one may not leave; return how many.

        The rest are not offered: they may not leave yet, or are too large, or other messages wait.

        ``sums``: upper bounds of the chunks' bytes, until they are encoded; None: the byte window does not count them.
        """
        if self.state is not _OPEN or self.is_ending:
            self._require_offers()
        if count := self.outbound.send_now(rows, sums):
            self._post_chunks(payloads[:count], rows[:count])
        return count

    def _post_chunks(self, payloads: Sequence[T], rows: Sequence[int]) -> None:
        """Queue chunks to write; single chunks in a row share a frame."""
        last = self._outgoing[-1] if self._outgoing else None
        if isinstance(last, Chunks) and isinstance(last.payloads, list) and isinstance(last.rows, list):
            last.payloads += payloads
            last.rows += rows
        else:
            self._outgoing.append(Chunks(payloads, rows))

    def take_posted(self) -> list[UpstreamFrame[T]]:
        """All frames to write now, in order; End is the last, once no message waits."""
        if self.state is _OPEN and self.is_ending and self.outbound.may_end:
            self._outgoing.append(self._totals())
            self.state = State.ENDED
        elif self._outbound is not None and self.state is _OPEN:
            announcement = self._outbound.take_announcement()
            if announcement is not None:
                self._outgoing.append(Announcement(announcement))
        frames, self._outgoing = self._outgoing, []
        return frames

    def _totals(self) -> End:
        return End(*self.outbound.totals, self._closes_channel, self._until)

    def peer_closed(self) -> None:
        """Note that the downstream closed its half: it has consumed every message, or it is gone.

        Raises:
            PeerGoneError: End has not been written.
            LedgerError: the downstream still owes feedback; with permits, it has not returned all of them.
            UnexpectedFrameError: it has not answered End.
        """
        if self.state is not State.ENDED:
            raise self._gone()
        unsettled = self.outbound.unsettled() if self.is_ending else None
        if unsettled is not None:
            self.state = State.FAILED
            raise LedgerError.of_early_close(*unsettled)
        if self.is_ending and self.outcome is None:
            self.state = State.FAILED
            raise UnexpectedFrameError(frame="the end of its half", expected=frame_name(Ended))
        self._peer_has_closed = True

    @property
    def is_settled(self) -> bool:
        """Has this end written and heard everything but the close of the peer's half?"""
        if self.state is not State.ENDED or not self.is_ending:
            return self.state is State.ENDED  # aborted: no answer follows
        return self.outbound.unsettled() is None and self.outcome is not None

    def close(self) -> None:
        """Note that the stream is over.

        Raises:
            LocalProtocolError: the downstream has not closed its half.
        """
        if not self._peer_has_closed:
            raise LocalProtocolError(f"the stream is not finished: {self.state}")
        self.state = State.CLOSED


DOWNSTREAM: dict[tuple[State, FrameType], State] = {
    (State.AWAITING_PUT, Put): State.DECIDING,
    (State.DECIDING, Failure): State.FAILED,
    (State.AWAITING_AGREEMENT, Agreement): State.OPEN,
    (State.OPEN, Data): State.OPEN,
    (State.OPEN, Chunks): State.OPEN,
    (State.OPEN, Announcement): State.OPEN,
    (State.OPEN, End): State.ENDED,
    (State.OPEN, Abort): State.ENDED,
    (State.OPEN, Failure): State.FAILED,
    (State.ENDED, Failure): State.FAILED,
}
"""The frames that a downstream accepts, and the next states; every other frame is an error."""


class DownstreamSession(Session[T]):
    """The end that consumes data and owes feedback for it.  Not thread-safe; does no I/O."""

    END = "receiver"
    TABLE = DOWNSTREAM

    def __init__(
        self,
        get: Get | None = None,
        *,
        peer: str = "the sender",
        record: RecorderFactory | None = None,
        group: Group | None = None,
    ) -> None:
        """This end is the client if there is a ``get``, its first frame; without one, it waits for Put.

        ``group``: of receivers that share something; the flow has to be that of the group.
        """
        state = State.AWAITING_PUT if get is None else State.AWAITING_AGREEMENT
        super().__init__(state, get, peer, record)
        self._group = group
        self._inbound: Inbound[T] | None = None
        self.end: End | Abort | None = None
        """The frame that ended the stream, once it has arrived."""
        self.outcome: EndOutcome | None = EndOutcome.CONSUMED
        """The answer to End, written once every message here is consumed; None: not known yet, and no answer is
        written."""
        self._has_answered = False
        self.is_cancelled = False
        """Was ``cancel`` called?  Then no message is handed out any more."""

    @cached_property  # cached from the agreement on
    def inbound(self) -> Inbound[T]:
        """The flow's end with the inbox; it takes and consumes messages."""
        return self._agreed(self._inbound)

    def _agree(self, agreement: Agreement, parameters: Parameters, window: ByteWindow) -> None:
        super()._agree(agreement, parameters, window)
        self._inbound = parameters.flow.receiving(parameters, record=self._recorder(), group=self._group)
        self._inbound.limit_bytes(window)

    def _take_in(self, frame: Frame[T]) -> None:
        match frame:
            case Chunks():
                self.inbound.deliver_many(frame.payloads, frame.rows, frame.size_bytes)
                if self.is_cancelled:
                    self.inbound.discard()
            case Data():
                self.inbound.deliver(frame.message)
                if self.is_cancelled:
                    self.inbound.discard()
            case Announcement():
                self.inbound.on_announcement(frame.content)
            case End():
                self._compare(frame)
                self.end = frame
            case Abort():
                self.end = frame
            case _:
                super()._take_in(frame)

    def _compare(self, end: End) -> None:
        came, told = self.inbound.totals, (end.chunks, end.rows, end.barriers)
        for what, here, peer in zip(came._fields, came, told, strict=True):
            if here != peer:
                raise LedgerError(what=what, here=here, peer=peer)

    def cancel(self, reason: str) -> None:
        """Need no more messages: Cancel is the next frame to write, and what is here or still comes is discarded.

        Raises:
            LocalProtocolError: there is no agreement yet, or the stream is over.
        """
        if self.state is not _ENDED:
            self._require(_OPEN, "cancel")
        self._outgoing.append(Cancel(reason))
        self.is_cancelled, self.outcome = True, EndOutcome.CANCELLED
        self.inbound.discard()

    def ending(self) -> ChannelAbortedError | EndOfStream | None:
        """Why no more messages can be taken; None while a message is here or may arrive.

        The rest of an aborted stream is not handed out.
        """
        if isinstance(self.end, Abort):
            return ChannelAbortedError(channel=self.channel, reason=self.end.reason)
        return EndOfStream() if self.end is not None and not self.inbound.untaken else None

    def take_frames(self) -> list[DownstreamFrame]:
        """All frames to write now; the feedback since the last call is one frame."""
        frames, self._outgoing = self._outgoing, []
        inbound, state = self._inbound, self.state
        if inbound is None or not (state is _OPEN or state is _ENDED):
            return frames
        if (feedback := inbound.take_feedback()) is not None:
            frames.append(Feedback(feedback))
        ledger = inbound.byte_ledger
        if ledger.unreturned_bytes and (feedback is not None or ledger.is_due):
            frames.append(ReturnedBytes(ledger.take()))
        if state is _ENDED and self._owes_answer and self.outcome is not None and not inbound.unconsumed:
            frames.append(Ended(self.outcome))
            self._has_answered = True
        return frames

    @property
    def _owes_answer(self) -> bool:
        return isinstance(self.end, End) and not self._has_answered

    @property
    def is_finished(self) -> bool:
        """Has the stream ended, with all messages consumed, and feedback and answer written?  Then close this half."""
        if isinstance(self.end, Abort):
            return True
        if self.end is None or self._outgoing or self.outcome is None or self._owes_answer:
            return False
        return not (self.inbound.unconsumed or self.inbound.unsettled())

    is_settled = is_finished

    def peer_closed(self) -> None:
        """Note that the upstream closed the stream.

        Raises:
            PeerGoneError: neither End nor Abort has arrived.
        """
        if self.state is not State.ENDED:
            raise self._gone()

    def close(self) -> None:
        """Note that the stream is over.

        Raises:
            LocalProtocolError: a message is not consumed, or feedback not written, yet.
        """
        if not self.is_finished:
            raise LocalProtocolError(f"the stream is not finished: {self.state}")
        self.state = State.CLOSED
