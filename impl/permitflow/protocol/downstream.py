"""The downstream's session: the end of a stream that consumes data and returns permits."""

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

from permitflow.errors import (
    ChannelAbortedError,
    EndOfStream,
    LedgerError,
    LocalProtocolError,
    MispricedError,
    OverspendError,
    WouldBlock,
)
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
)
from permitflow.protocol.lifecycle import FrameType, Session, State
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.recording import RecorderFactory

__all__ = ["DOWNSTREAM", "DownstreamSession"]

T = TypeVar("T")

_OPEN, _ENDED = State.OPEN, State.ENDED  # reading an enumeration's attribute costs more than asking for it

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

    def receive_message(self) -> Message[T] | None:
        """Take the next message and consume it at once; None if nothing is here.

        Raises:
            LocalProtocolError: the application holds a message that it took.
        """
        return self.receiver.try_receive()

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
