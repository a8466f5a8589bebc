"""The upstream's session: the end of a stream that sends data and takes permits back."""

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

from permitflow.errors import LedgerError, LocalProtocolError
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    Agreement,
    Chunks,
    Data,
    End,
    Ended,
    EndOutcome,
    Failure,
    Frame,
    Get,
    Put,
    UpstreamFrame,
)
from permitflow.protocol.lifecycle import FrameType, Session, State
from permitflow.protocol.messages import NO_PERMITS, Kind, Message, Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.sender import Offered, PermitSender

__all__ = ["UPSTREAM", "UpstreamSession"]

T = TypeVar("T")

_OPEN = State.OPEN  # reading an enumeration's attribute costs more than asking for it

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
