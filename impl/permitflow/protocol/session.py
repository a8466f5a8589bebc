"""One stream as each of its ends sees it: which frame may come when, and what it does.

Both methods of the exchange use these two machines; who dialled differs only until the agreement.  A session is fed
with frames, asked for the frames to write, and told when the peer has closed its half.  An error leaves it in the
state FAILED: the stream is dead, and nothing more may be fed in.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import cached_property
from typing import Generic, Literal, TypeAlias, TypeVar

from permitflow.errors import (
    ChannelAbortedError,
    EndOfStream,
    LedgerError,
    LocalProtocolError,
    MispricedError,
    OverspendError,
    PeerGoneError,
    UnexpectedFrameError,
    WouldBlock,
)
from permitflow.protocol import handshake
from permitflow.protocol.compression import UNCOMPRESSED, CompressionAnswer, require_offered
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    Agreement,
    Chunks,
    Data,
    DownstreamFrame,
    End,
    Ended,
    EndOutcome,
    Failure,
    Frame,
    Get,
    Put,
    SameHostAnswer,
    UpstreamFrame,
    frame_name,
)
from permitflow.protocol.messages import NO_PERMITS, Kind, Message, Permits
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.recording import PERMIT_ACTIONS, Recorder, RecorderFactory
from permitflow.protocol.sender import Offered, PermitSender

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
    """Data go down, permits come back."""
    ENDED = "ended"
    """End or Abort has passed; an upstream still takes permits, a downstream still consumes."""
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
        self._parameters: ChannelParameters | None = None
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
    def parameters(self) -> ChannelParameters:
        """The numbers by which both ends count."""
        if self._parameters is None:
            raise LocalProtocolError(f"there is no agreement yet: {self.state}")
        return self._parameters

    def accept(
        self,
        own: ChannelParameters,
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
        agreement = handshake.accept(
            self.request,
            own=own,
            schema=schema,
            stream=stream,
            same_host=same_host,
            first_row=first_row,
            compression=compression,
        )
        self.compression = compression
        self._agree(agreement, agreement.parameters.checked())
        self.state = State.OPEN
        self._answer(agreement)
        return agreement

    @abstractmethod
    def _answer(self, agreement: Agreement) -> None:
        """Let the agreement be the next frame to write."""

    def _agree(self, agreement: Agreement, parameters: ChannelParameters) -> None:
        self._agreement, self._parameters = agreement, parameters

    def _recorder(self) -> Recorder | None:
        if self._factory is None:
            return None
        stream = self.agreement.stream or self.channel
        return self._factory(stream, self.END, PERMIT_ACTIONS, asdict(self.parameters))

    def receive(self, frame: Frame[T]) -> None:
        """Take a frame of the peer.

        Raises:
            UnexpectedFrameError: this state does not allow it.
            HandshakeError: the agreement is not acceptable.
            PermitOverrunError: the peer returned more permits than it holds.
            OverspendError: the peer had no permits for what it sent.
            LedgerError: the totals of End are not those of what came.
        """
        following = self.TABLE.get((self.state, type(frame)))
        if following is None or (isinstance(frame, Failure) and self.is_acceptor):
            expected = [
                frame_name(kind)
                for state, kind in self.TABLE
                if state is self.state and not (kind is Failure and self.is_acceptor)
            ]
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
                self._agree(frame, handshake.verify(frame, wanted=self.request.wanted))
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
    (State.AWAITING_AGREEMENT, Agreement): State.OPEN,
    (State.OPEN, AddPermits): State.OPEN,
    (State.ENDED, AddPermits): State.ENDED,
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
        self._sender: PermitSender[T] | None = None
        # Chunks that have left by ``send_many`` and follow the frames above.
        self._posted_chunks: list[T] = []
        self._posted_rows: list[int] = []
        self._sent_barriers = 0
        self.is_ending = self._closes_channel = False
        """Was the stream told to end?"""
        self._until: EndOutcome | None = None
        self.outcome: EndOutcome | None = None
        """How the peer has answered the end; None: it has not, or it is of an older release and does not say."""
        self._peer_has_closed = False

    @cached_property
    def sender(self) -> PermitSender[T]:
        """The permits, and what waits for them; to offer something, ask the session."""
        if self._sender is None:
            raise LocalProtocolError(f"there is no agreement yet: {self.state}")
        return self._sender

    def _answer(self, agreement: Agreement) -> None:
        self._outgoing.append(agreement)

    def _agree(self, agreement: Agreement, parameters: ChannelParameters) -> None:
        super()._agree(agreement, parameters)
        self._sender = PermitSender(parameters, record=self._recorder())

    def _take_in(self, frame: Frame[T]) -> None:
        if isinstance(frame, AddPermits):
            self.sender.add_permits(frame.permits)
        elif isinstance(frame, Ended):
            self.outcome = frame.outcome
        else:
            super()._take_in(frame)

    def offer_chunk(self, payload: T, rows: int) -> Offered[T]:
        """Let a chunk wait for its permits; see ``PermitSender.offer_chunk``."""
        self._require_offers()
        return self.sender.offer_chunk(payload, rows)

    def offer_barrier(self, payload: T) -> Offered[T]:
        """Let a barrier wait for a barrier permit."""
        self._require_offers()
        return self.sender.offer_barrier(payload)

    def offer_watermark(self, payload: T) -> None:
        """Announce a watermark; it replaces one that has not left."""
        self._require_offers()
        self.sender.offer_watermark(payload)

    def _require_offers(self) -> None:
        self._require(_OPEN, "send")
        if self.is_ending:
            raise LocalProtocolError("cannot send: the stream was told to end")

    def end(self, *, closes_channel: bool = False, until: EndOutcome | None = None) -> None:
        """Let End follow everything that waits now; see its fields."""
        self._require_offers()
        self.is_ending, self._closes_channel, self._until = True, closes_channel, until

    def fail(self, error: bytes) -> None:
        """Let Failure be the next frame: this end has accepted, and breaks the stream off."""
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
        self._sent_barriers += message.kind is Kind.BARRIER
        self._write_next(Data(message))

    def send_many(self, payloads: Sequence[T], rows: Sequence[int]) -> int:
        """Let the first of these chunks leave, as many as may now, and travel; say how many.

        The others were not offered: their permits are not here, or they are empty, or too large, or others wait.
        """
        if self.state is not _OPEN or self.is_ending:
            self._require_offers()
        count = self.sender.send_now(rows)
        self._posted_chunks.extend(payloads[:count])
        self._posted_rows.extend(rows[:count])
        return count

    def _write_next(self, frame: UpstreamFrame[T]) -> None:
        """Let a frame follow everything that was posted."""
        if self._posted_rows:
            self._close_run()
        self._outgoing.append(frame)

    def _close_run(self) -> None:
        self._outgoing.append(Chunks(self._posted_chunks, self._posted_rows, sum(self._posted_rows)))
        self._posted_chunks, self._posted_rows = [], []

    def take_posted(self) -> list[UpstreamFrame[T]]:
        """Everything to write now, in order; End is the last once nothing waits any more."""
        if self.state is _OPEN and self.is_ending and not self.sender.has_waiting:
            self._write_next(self._totals())
            self.state = State.ENDED
        if self._posted_rows:
            self._close_run()
        frames, self._outgoing = self._outgoing, []
        return frames

    def take_frames(self) -> list[UpstreamFrame[T]]:
        """Let everything leave that may leave now; and everything to write, as ``take_posted`` does."""
        if self.state is _OPEN:
            for message in self.sender.take_sendable():
                self.post(message)
        return self.take_posted()

    def _totals(self) -> End:
        sender = self.sender
        return End(sender.sent_chunks, sender.sent_rows, self._sent_barriers, self._closes_channel, self._until)

    def peer_closed(self) -> None:
        """Note that the downstream closed its half: it has consumed everything, or it is gone.

        Raises:
            PeerGoneError: End has not been written.
            LedgerError: the downstream has not returned all permits.
        """
        if self.state is not State.ENDED:
            raise self._gone()
        outstanding = self.sender.outstanding
        if outstanding != NO_PERMITS and self.is_ending:
            self.state = State.FAILED
            name, count = max(zip(Permits._fields, outstanding, strict=True), key=lambda pair: pair[1])
            raise LedgerError(what=f"unreturned {name} permits", here=count, peer=0)
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
    """The end that consumes data and returns permits.  Not thread-safe; does no I/O."""

    END = "receiver"
    TABLE = DOWNSTREAM

    def __init__(self, get: Get | None = None, *, peer: str = "the sender", record: RecorderFactory | None = None):
        """With ``get`` this end dials, and Get is the first frame to write; without, it waits for Put."""
        state = State.AWAITING_PUT if get is None else State.AWAITING_AGREEMENT
        super().__init__(state, get, peer, record)
        self._outgoing: list[DownstreamFrame] = [] if get is None else [get]
        self._receiver: PermitReceiver[T] | None = None
        self._came_chunks = self._came_rows = self._came_barriers = 0
        self.end: End | Abort | None = None
        """How the upstream ended the stream, once it has."""
        self.outcome: EndOutcome | None = EndOutcome.CONSUMED
        """What End is answered with once everything was consumed here; None: that is not known yet, and no answer is
        written before it is."""
        self._has_answered = False

    @cached_property  # from the agreement on it answers without a call
    def receiver(self) -> PermitReceiver[T]:
        """What has arrived, and which permits are owed; to take or consume something, ask the session."""
        if self._receiver is None:
            raise LocalProtocolError(f"there is no agreement yet: {self.state}")
        return self._receiver

    def _answer(self, agreement: Agreement) -> None:
        self._outgoing.append(agreement)

    def _agree(self, agreement: Agreement, parameters: ChannelParameters) -> None:
        super()._agree(agreement, parameters)
        self._receiver = PermitReceiver(parameters, record=self._recorder())

    def _take_in(self, frame: Frame[T]) -> None:
        match frame:
            case Data():
                self._deliver(frame.message)
            case End():
                self._compare(frame)
                self.end = frame
            case Abort():
                self.end = frame
            case _:
                super()._take_in(frame)

    def _deliver(self, message: Message[T]) -> None:
        self._require_price(message)
        self.receiver.deliver(message)
        self._came_chunks += message.kind is Kind.CHUNK
        self._came_barriers += message.kind is Kind.BARRIER
        self._came_rows += message.rows

    def receive(self, frame: Frame[T]) -> None:
        """Take a frame of the peer; see ``Session``."""
        if isinstance(frame, Chunks) and self.state is _OPEN:
            self.receive_chunks(frame.payloads, frame.rows, frame.permits)
        else:
            super().receive(frame)

    def require_permits(self, chunks: int) -> None:
        """Refuse so many chunks, before anything is made of them, if the peer cannot have permits for each.

        Raises:
            OverspendError: even as empty ones, which cost 1 permit, they are too many.
        """
        if self.state is _OPEN and chunks > (available := self.receiver.granted_rows):
            self.state = State.FAILED
            raise OverspendError(permit_class="rows", cost=chunks, available=available)

    def receive_chunks(self, payloads: Sequence[T], rows: Sequence[int], permits: int) -> None:
        """Take chunks of the peer: as ``receive`` takes their frame, for one who has not made it; raises likewise."""
        if self.state is not _OPEN:
            super().receive(Chunks(payloads, rows, permits))  # refuses it
        receiver, total = self.receiver, sum(rows)
        most = receiver.parameters.max_chunk_cost
        try:
            if rows and permits == total and min(rows) > 0 and (total <= most or max(rows) <= most):
                receiver.deliver_many(payloads, rows)
                self._came_chunks += len(rows)
                self._came_rows += total
            else:
                self._deliver_each(payloads, rows, permits)
        except Exception:
            self.state = State.FAILED
            raise

    def _deliver_each(self, payloads: Sequence[T], rows: Sequence[int], permits: int) -> None:
        costs = [self.parameters.cost_of(count) for count in rows]
        # Of several chunks that lie together, the last one is taken for the liar.
        costs[-1:] = [permits - sum(costs[:-1])] if rows else []
        for payload, count, cost in zip(payloads, rows, costs, strict=True):
            self._deliver(Message(Kind.CHUNK, payload, count, cost))

    def _require_price(self, message: Message[T]) -> None:
        # A chunk that travels for too few permits breaks the bound as surely as one that travels for none.
        is_chunk = message.kind is Kind.CHUNK
        cost = self.parameters.cost_of(message.rows) if is_chunk else 1
        must_be_split = message.rows > cost and is_chunk and self.parameters.oversize is Oversize.SPLIT
        if message.cost != cost or message.rows < 0 or must_be_split:
            raise MispricedError(
                kind=message.kind.value, rows=message.rows, permits=message.cost, cost=cost, split=must_be_split
            )

    def _compare(self, end: End) -> None:
        came = self._came_chunks, self._came_rows, self._came_barriers
        told = end.chunks, end.rows, end.barriers
        for what, here, peer in zip(("chunks", "rows", "barriers"), came, told, strict=True):
            if here != peer:
                raise LedgerError(what=what, here=here, peer=peer)

    def take(self) -> Message[T]:
        """Hand the next message to the application; its permits stay with it until ``consume``.

        Raises:
            WouldBlock: nothing is here.
            EndOfStream: everything was taken, and the upstream has ended the stream.
            ChannelAbortedError: the upstream gave up; what is left of the stream is not handed out.
        """
        self.require_takeable()
        return self.receiver.take()

    def require_takeable(self) -> None:
        """Refuse whoever wants to take a message where there is none to take; raises as ``take``."""
        if isinstance(self.end, Abort):
            raise ChannelAbortedError(channel=self.channel, reason=self.end.reason)
        if not self.receiver.has_untaken:
            raise EndOfStream if self.end is not None else WouldBlock("no message is here")

    def consume(self, messages: int = 1) -> None:
        """Note that the application has consumed the oldest messages it took.

        Permits that are to go back are left due: ``take_frames`` has them.

        Raises:
            LocalProtocolError: the application holds fewer; nothing was changed.
        """
        self.receiver.consume_many(messages)

    @property
    def owes(self) -> bool:
        """Are there permits to write?"""
        return self._receiver is not None and self._receiver.is_due

    @property
    def owed_rows(self) -> int:
        """Row permits to write; what is written at once is one AddPermits."""
        return self.receiver.due_rows

    def flush(self) -> None:
        """Let the residue be due if the consumer is idle; otherwise do nothing.  ``take_frames`` has it."""
        self.receiver.release_residue()

    def fail(self, error: bytes) -> None:
        """Let Failure be the next frame: this end has accepted, and breaks the stream off."""
        self._outgoing.append(Failure(error))
        self.state = State.FAILED

    def take_frames(self) -> list[DownstreamFrame]:
        """Everything to write now: what was returned since the last time is one AddPermits."""
        frames, self._outgoing = self._outgoing, []
        receiver, state = self._receiver, self.state
        if receiver is None or not (state is _OPEN or state is _ENDED):
            return frames
        if state is _ENDED and receiver.is_empty:
            receiver.release_residue()
        if receiver.is_due:
            frames.append(AddPermits(receiver.take_due()))
        if self._owes_answer and self.outcome is not None and receiver.is_empty:
            frames.append(Ended(self.outcome))
            self._has_answered = True
        return frames

    @property
    def _owes_answer(self) -> bool:
        return isinstance(self.end, End) and self.end.until is not None and not self._has_answered

    @property
    def is_finished(self) -> bool:
        """Has the stream ended, was everything consumed, are permits and answer written?  Then close this half."""
        if isinstance(self.end, Abort):
            return True
        if self.end is None or self.owes or self._outgoing or self.outcome is None or self._owes_answer:
            return False
        return self.receiver.is_empty and self.receiver.unreturned == 0

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
