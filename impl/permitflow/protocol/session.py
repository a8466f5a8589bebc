"""One stream as each of its ends sees it: which frame may come when, and what it does.

Both methods of the exchange use these two machines; who dialled differs only until the agreement.  A session is fed
with frames, asked for the frames to write, and told when the peer has closed its half.  An error leaves it in the
state FAILED: the stream is dead, and nothing more may be fed in.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Generic, Literal, TypeAlias, TypeVar

from permitflow.errors import (
    ChannelAbortedError,
    EndOfStream,
    LedgerError,
    LocalProtocolError,
    PeerGoneError,
    UnexpectedFrameError,
    WouldBlock,
)
from permitflow.protocol import handshake
from permitflow.protocol.compression import UNCOMPRESSED, CompressionAnswer, require_offered
from permitflow.protocol.flow import Inbound, Outbound, Parameters
from permitflow.protocol.frames import (
    Abort,
    Agreement,
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
    SameHostAnswer,
    UpstreamFrame,
    frame_name,
)
from permitflow.protocol.messages import Kind, Message, Offered
from permitflow.protocol.recording import Recorder, RecorderFactory

__all__ = ["DOWNSTREAM", "UPSTREAM", "DownstreamSession", "FrameType", "Session", "State", "UpstreamSession"]

T = TypeVar("T")
FrameType: TypeAlias = type[object]


class State(StrEnum):
    """How far a session has come."""

    AWAITING_GET = "awaiting Get"
    """An upstream was dialled."""
    AWAITING_PUT = "awaiting Put"
    """A downstream was dialled."""
    DECIDING = "deciding"
    """The dialer's wishes are here; the application has yet to accept."""
    AWAITING_AGREEMENT = "awaiting Agreement"
    """This end dialled."""
    OPEN = "open"
    """Data go down, feedback comes back."""
    ENDED = "ended"
    """End or Abort has passed; an upstream still takes feedback, a downstream still consumes."""
    CLOSED = "closed"
    """All is over, and the books agree."""
    FAILED = "failed"
    """The rules were broken or the peer is gone."""


_OPEN, _ENDED = State.OPEN, State.ENDED  # reading an enumeration's attribute costs more than asking for it


class Session(ABC, Generic[T]):
    """What both ends share: the state, the handshake and the peer's name."""

    END: Literal["sender", "receiver"]
    TABLE: dict[tuple[State, FrameType], State]

    def __init__(self, state: State, request: Get | Put | None, peer: str, record: RecorderFactory | None) -> None:
        """Begin in this state; ``request`` is the dialer's first frame, if it is this end that dials."""
        self.state = state
        self.is_acceptor = request is None
        """Has the peer dialled?"""
        self.peer = peer
        """Who is at the other end, in words for an error."""
        self.failure: bytes | None = None
        """The error with which the peer has broken the stream off."""
        self._request = request
        self._agreement: Agreement | None = None
        self._parameters: Parameters | None = None
        self._factory = record
        self.compression = UNCOMPRESSED
        """Whether chunks may come compressed."""

    # What is known once stays as it is, and is asked for with every chunk: these answer without a call from then on.

    @cached_property
    def request(self) -> Get | Put:
        """The dialer's first frame."""
        if self._request is None:
            raise LocalProtocolError(f"nobody has dialled yet: {self.state}")
        return self._request

    @cached_property
    def channel(self) -> str:
        """The channel's name."""
        return self.request.channel

    @cached_property
    def agreement(self) -> Agreement:
        """What both ends agreed on."""
        if self._agreement is None:
            raise LocalProtocolError(f"there is no agreement yet: {self.state}")
        return self._agreement

    @cached_property
    def parameters(self) -> Parameters:
        """The numbers by which both ends count."""
        if self._parameters is None:
            raise LocalProtocolError(f"there is no agreement yet: {self.state}")
        return self._parameters

    def accept(
        self,
        own: Parameters,
        *,
        schema: bytes,
        stream: str = "",
        same_host: SameHostAnswer | None = None,
        first_row: int | None = None,
        compression: CompressionAnswer = UNCOMPRESSED,
    ) -> Agreement:
        """Agree with the peer that dialled; the agreement is the next frame to write.

        Raises:
            HandshakeError: version or parameters cannot be reconciled.
            InvalidParametersError: the dialer's wishes cannot work at all.
        """
        self._require(State.DECIDING, "accept")
        handshake.require_version(self.request.protocol_version)
        parameters = handshake.agree(own, self.request)
        agreement = handshake.accept(
            self.request,
            parameters,
            schema=schema,
            stream=stream,
            same_host=same_host,
            first_row=first_row,
            compression=compression,
        )
        self.compression = compression
        self._agree(agreement, parameters)
        self.state = State.OPEN
        self._answer(agreement)
        return agreement

    @abstractmethod
    def _answer(self, agreement: Agreement) -> None:
        """Let the agreement be the next frame to write."""

    def _agree(self, agreement: Agreement, parameters: Parameters) -> None:
        self._agreement, self._parameters = agreement, parameters

    def _recorder(self) -> Recorder | None:
        if self._factory is None:
            return None
        stream, flow = self.agreement.stream or self.channel, self.parameters.flow
        return self._factory(stream, self.END, flow.table, flow.stated(self.parameters))

    def receive(self, frame: Frame[T]) -> None:
        """Take a frame of the peer.

        Raises:
            UnexpectedFrameError: this state does not allow it.
            HandshakeError: the agreement is not acceptable.
            RemoteProtocolError: the flow does not allow it; with permits, the peer returned more of them than it
                holds, or had none for what it sent.
            LedgerError: the totals of End are not those of what came.
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
                self._agree(frame, handshake.verify(frame, self.request))
            case Failure():
                self.failure = frame.error

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
    (State.ENDED, Ended): State.ENDED,
    (State.OPEN, Failure): State.FAILED,
    (State.ENDED, Failure): State.FAILED,
}
"""What an upstream takes, and where it leads; everything else breaks the rules."""


class UpstreamSession(Session[T]):
    """The end that sends data.  Not thread-safe; does no I/O."""

    END = "sender"
    TABLE = UPSTREAM

    def __init__(self, put: Put | None = None, *, peer: str = "the receiver", record: RecorderFactory | None = None):
        """With ``put`` this end dials, and Put is the first frame to write; without, it waits for Get."""
        state = State.AWAITING_GET if put is None else State.AWAITING_AGREEMENT
        super().__init__(state, put, peer, record)
        self._outgoing: list[UpstreamFrame[T]] = [] if put is None else [put]
        self._outbound: Outbound[T] | None = None
        # Chunks that have left by ``send_many`` and follow the frames above.
        self._posted_chunks: list[T] = []
        self._posted_rows: list[int] = []
        self.is_ending = self._closes_channel = False
        """Was the stream told to end?"""
        self._until: EndOutcome | None = None
        self.outcome: EndOutcome | None = None
        """How the peer has answered the end; None: it has not, or it is of an older release and does not say."""
        self._peer_has_closed = False

    @cached_property
    def outbound(self) -> Outbound[T]:
        """The flow's end, and what waits for it; to offer something, ask the session."""
        if self._outbound is None:
            raise LocalProtocolError(f"there is no agreement yet: {self.state}")
        return self._outbound

    def _answer(self, agreement: Agreement) -> None:
        self._outgoing.append(agreement)

    def _agree(self, agreement: Agreement, parameters: Parameters) -> None:
        super()._agree(agreement, parameters)
        self._outbound = parameters.flow.outbound(parameters, record=self._recorder())

    def _take_in(self, frame: Frame[T]) -> None:
        if isinstance(frame, Feedback):
            self.outbound.on_feedback(frame.said)
        elif isinstance(frame, Ended):
            self.outcome = frame.outcome
        else:
            super()._take_in(frame)

    def offer(self, kind: Kind, payload: T, rows: int = 0) -> Offered[T]:
        """Let a chunk or a barrier wait until it may leave; see ``Outbound.offer``."""
        self._require_offers()
        return self.outbound.offer(kind, payload, rows)

    def offer_watermark(self, payload: T) -> None:
        """Announce a watermark; it replaces one that has not left."""
        self._require_offers()
        self.outbound.offer_watermark(payload)

    def _require_offers(self) -> None:
        self._require(_OPEN, "send")
        if self.is_ending:
            raise LocalProtocolError("cannot send: the stream was told to end")

    def end(self, *, closes_channel: bool = False, until: EndOutcome | None = None) -> None:
        """Let End follow everything that waits now; see its fields."""
        self._require_offers()
        self.is_ending, self._closes_channel, self._until = True, closes_channel, until

    def fail(self, error: bytes) -> None:
        """Let Failure be the next frame: this end breaks the stream off."""
        self._write_next(Failure(error))
        self.state = State.FAILED

    def abort(self, reason: str) -> None:
        """Let Abort be the next frame, whatever waits."""
        self._require(State.OPEN, "abort")
        self._write_next(Abort(reason))
        self.is_ending = False
        self.state = State.ENDED

    def post(self, message: Message[T]) -> None:
        """Let a message travel that has left the sender; for callers who let them leave one by one."""
        if message.kind is Kind.CHUNK:
            self._posted_chunks.append(message.payload)
            self._posted_rows.append(message.rows)
        else:
            self._write_next(Data(message))

    def send_many(self, payloads: Sequence[T], rows: Sequence[int]) -> int:
        """Let the first of these chunks leave, as many as may now, and travel; say how many.

        The others were not offered: they may not leave yet, or are too large, or others wait.
        """
        if self.state is not _OPEN or self.is_ending:
            self._require_offers()
        count = self.outbound.send_now(rows)
        self._posted_chunks.extend(payloads[:count])
        self._posted_rows.extend(rows[:count])
        return count

    def _write_next(self, frame: UpstreamFrame[T]) -> None:
        """Let a frame follow everything that was posted."""
        if self._posted_rows:
            self._close_run()
        self._outgoing.append(frame)

    def _close_run(self) -> None:
        self._outgoing.append(Chunks(self._posted_chunks, self._posted_rows))
        self._posted_chunks, self._posted_rows = [], []

    def take_posted(self) -> list[UpstreamFrame[T]]:
        """Everything to write now, in order; End is the last once nothing waits any more."""
        if self.state is _OPEN and self.is_ending and not self.outbound.has_waiting:
            self._write_next(self._totals())
            self.state = State.ENDED
        if self._posted_rows:
            self._close_run()
        frames, self._outgoing = self._outgoing, []
        return frames

    def take_frames(self) -> list[UpstreamFrame[T]]:
        """Let everything leave that may leave now; and everything to write, as ``take_posted`` does."""
        if self.state is _OPEN:
            for message in self.outbound.take_sendable():
                self.post(message)
        return self.take_posted()

    def _totals(self) -> End:
        return End(*self.outbound.totals, self._closes_channel, self._until)

    def peer_closed(self) -> None:
        """Note that the downstream closed its half: it has consumed everything, or it is gone.

        Raises:
            PeerGoneError: End has not been written.
            LedgerError: the downstream has not said all that it owes; with permits, not returned all of them.
        """
        if self.state is not State.ENDED:
            raise self._gone()
        unsettled = self.outbound.unsettled() if self.is_ending else None
        if unsettled is not None:
            self.state = State.FAILED
            what, count = unsettled
            raise LedgerError(what=what, here=count, peer=0)
        self._peer_has_closed = True

    def close(self) -> None:
        """Note that everything is over.

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
    (State.OPEN, End): State.ENDED,
    (State.OPEN, Abort): State.ENDED,
    (State.OPEN, Failure): State.FAILED,
    (State.ENDED, Failure): State.FAILED,
}
"""What a downstream takes, and where it leads; everything else breaks the rules."""


class DownstreamSession(Session[T]):
    """The end that consumes data and says what it owes for it.  Not thread-safe; does no I/O."""

    END = "receiver"
    TABLE = DOWNSTREAM

    def __init__(self, get: Get | None = None, *, peer: str = "the sender", record: RecorderFactory | None = None):
        """With ``get`` this end dials, and Get is the first frame to write; without, it waits for Put."""
        state = State.AWAITING_PUT if get is None else State.AWAITING_AGREEMENT
        super().__init__(state, get, peer, record)
        self._outgoing: list[DownstreamFrame] = [] if get is None else [get]
        self._inbound: Inbound[T] | None = None
        self.end: End | Abort | None = None
        """How the upstream ended the stream, once it has."""
        self.outcome: EndOutcome | None = EndOutcome.CONSUMED
        """What End is answered with once everything was consumed here; None: that is not known yet, and no answer is
        written before it is."""
        self._has_answered = False

    @cached_property  # from the agreement on it answers without a call
    def inbound(self) -> Inbound[T]:
        """What has arrived, and what is owed for it; to take or consume something, ask the session."""
        if self._inbound is None:
            raise LocalProtocolError(f"there is no agreement yet: {self.state}")
        return self._inbound

    def _answer(self, agreement: Agreement) -> None:
        self._outgoing.append(agreement)

    def _agree(self, agreement: Agreement, parameters: Parameters) -> None:
        super()._agree(agreement, parameters)
        self._inbound = parameters.flow.inbound(parameters, record=self._recorder())

    def _take_in(self, frame: Frame[T]) -> None:
        match frame:
            case Data():
                self.inbound.deliver(frame.message)
            case End():
                self._compare(frame)
                self.end = frame
            case Abort():
                self.end = frame
            case _:
                super()._take_in(frame)

    def receive(self, frame: Frame[T]) -> None:
        """Take a frame of the peer; see ``Session``."""
        if isinstance(frame, Chunks) and self.state is _OPEN:
            self.receive_chunks(frame.payloads, frame.rows)
        else:
            super().receive(frame)

    def require_room(self, chunks: int) -> None:
        """Refuse so many chunks, before anything is made of them, if the peer cannot have been allowed to send them.

        Raises:
            RemoteProtocolError: even if all are empty they are too many.
        """
        if self.state is _OPEN:
            try:
                self.inbound.require_room(chunks)
            except Exception:
                self.state = State.FAILED
                raise

    def receive_chunks(self, payloads: Sequence[T], rows: Sequence[int]) -> None:
        """Take chunks of the peer: as ``receive`` takes their frame, for one who has not made it; raises likewise."""
        if self.state is not _OPEN:
            super().receive(Chunks(payloads, rows))  # refuses it
        try:
            self.inbound.deliver_many(payloads, rows)
        except Exception:
            self.state = State.FAILED
            raise

    def _compare(self, end: End) -> None:
        came, told = self.inbound.totals, (end.chunks, end.rows, end.barriers)
        for what, here, peer in zip(came._fields, came, told, strict=True):
            if here != peer:
                raise LedgerError(what=what, here=here, peer=peer)

    def take(self) -> Message[T]:
        """Hand the next message to the application; it counts as held until ``consume``.

        Raises:
            WouldBlock: nothing is here.
            EndOfStream: everything was taken, and the upstream has ended the stream.
            ChannelAbortedError: the upstream gave up; what is left of the stream is not handed out.
        """
        self.require_takeable()
        return self.inbound.take()

    def require_takeable(self) -> None:
        """Refuse whoever wants to take a message where there is none to take; raises as ``take``."""
        if isinstance(self.end, Abort):
            raise ChannelAbortedError(channel=self.channel, reason=self.end.reason)
        if not self.inbound.has_untaken:
            raise EndOfStream if self.end is not None else WouldBlock("no message is here")

    def consume(self, messages: int = 1) -> None:
        """Note that the application has consumed the oldest messages it took.

        What is to be said of it is left to ``take_frames``.

        Raises:
            LocalProtocolError: the application holds fewer; nothing was changed.
        """
        self.inbound.consume_many(messages)

    def fail(self, error: bytes) -> None:
        """Let Failure be the next frame: this end breaks the stream off."""
        self._outgoing.append(Failure(error))
        self.state = State.FAILED

    def take_frames(self, *, residue: bool = True) -> list[DownstreamFrame]:
        """Everything to write now: what is to be said of what was consumed since the last time is one frame.

        ``residue``: as for ``Inbound.take_feedback``; it goes in any case once the stream has ended.
        """
        frames, self._outgoing = self._outgoing, []
        inbound, state = self._inbound, self.state
        if inbound is None or not (state is _OPEN or state is _ENDED):
            return frames
        if inbound.has_feedback and (said := inbound.take_feedback(residue=residue or state is _ENDED)) is not None:
            frames.append(Feedback(said))
        if self._owes_answer and self.outcome is not None and inbound.is_empty:
            frames.append(Ended(self.outcome))
            self._has_answered = True
        return frames

    @property
    def _owes_answer(self) -> bool:
        return isinstance(self.end, End) and self.end.until is not None and not self._has_answered

    @property
    def is_finished(self) -> bool:
        """Has the stream ended, was everything consumed, are feedback and answer written?  Then close this half."""
        if isinstance(self.end, Abort):
            return True
        if self.end is None or self._outgoing or self.outcome is None or self._owes_answer:
            return False
        return self.inbound.is_empty and not self.inbound.unsettled()

    def peer_closed(self) -> None:
        """Note that the upstream closed the stream.

        Raises:
            PeerGoneError: neither End nor Abort has come.
        """
        if self.state is not State.ENDED:
            raise self._gone()

    def close(self) -> None:
        """Note that everything is over.

        Raises:
            LocalProtocolError: something is not consumed or not returned yet.
        """
        if not self.is_finished:
            raise LocalProtocolError(f"the stream is not finished: {self.state}")
        self.state = State.CLOSED
