"""What the sending end of a remote stream does beneath its methods: frames, permits that come back, lines that wait."""

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from permitflow.channels.statistics import ChannelStatistics
from permitflow.channels.waiting import ParkedSend, SendLine, Stopwatch
from permitflow.errors import ChannelClosedError, PermitflowError
from permitflow.protocol.compression import Compression
from permitflow.protocol.frames import AddPermits, Agreement, Chunks, EndOutcome, Failure
from permitflow.protocol.messages import Message
from permitflow.protocol.session import State, UpstreamSession
from permitflow.transports.carrier import Buffer, Carrier, Received
from permitflow.transports.codec import decode_downstream, encode_upstream
from permitflow.transports.remote_end import RemoteEnd
from permitflow.transports.same_host import Offer
from permitflow.transports.trains import TrainWriter, collected_rows, encoded, rows_in_message

__all__ = ["RemoteUpstream"]

_OPEN = State.OPEN  # reading an enumeration's attribute costs more than the question


class RemoteUpstream(RemoteEnd[UpstreamSession[object]]):
    """Carries what leaves, and lets those go that wait for permits; ``RemoteSender`` is what applications see."""

    END = "sender"
    WRITES = True

    def __init__(
        self,
        session: UpstreamSession[object],
        carrier: Carrier,
        *,
        schema: pa.Schema | None = None,
        offer: Offer | None = None,
        compression: Compression = Compression.AUTO,
    ) -> None:
        """Use ``put``, or the exchange."""
        super().__init__(session, carrier, schema=schema, offer=offer, compression=compression)
        self._waiting = Stopwatch(self._clock)
        self._posted_rows = 0
        self._writer: TrainWriter | None = None
        self._encode_alone: Callable[[pa.RecordBatch, int], Sequence[Buffer]]
        self._rows_of: Callable[[pa.RecordBatch], int]
        self._collected_rows = 0
        self._message_rows: Callable[[int], int]
        self.lacks_permits = False
        """Has ``send_at_once`` left chunks for want of permits?"""
        self.on_change: Callable[[], None] | None = None
        """Called when permits have come, or the stream is over."""
        self._chunks: SendLine[object]
        self._barriers: SendLine[object]

    def _opened(self) -> None:
        sender = self._session.sender
        self._writer = TrainWriter(self._codec, self.parameters)
        self._message_rows = self._writer.message_rows
        self._encode_alone, self._rows_of = self._writer.alone, self._codec.rows_of
        self._collected_rows = min(collected_rows(self.parameters), rows_in_message(self._codec.row_bytes))
        self._chunks = SendLine(
            sendable=sender.sendable_chunks, send=sender.send_chunk, withdraw=sender.withdraw, deliver=self._post
        )
        self._barriers = SendLine(
            sendable=sender.sendable_barriers, send=sender.send_barrier, withdraw=sender.withdraw, deliver=self._post
        )

    # Frames.

    def _take_in(self, message: Received) -> None:
        for frame in decode_downstream(message):
            self._session.receive(frame)
            if isinstance(frame, AddPermits):
                continue
            if isinstance(frame, Agreement):
                self._note_agreement(frame)
            elif isinstance(frame, Failure):
                self._hear(frame)
        # All permits that have come together are here before any is used: else small trains would stay small for ever.
        if self._batches is not None and not self._carrier.has_more:
            self._advance()
            if self.on_change is not None:
                self.on_change()

    def _trains(self) -> Iterable[Sequence[Buffer]]:
        frames = self._session.take_posted()
        self._posted_rows = 0
        if not frames:
            return ()
        if len(frames) == 1 and self._writer is not None and isinstance(frames[0], Chunks):
            return self._writer.messages(frames[0])
        return encode_upstream(encoded(frames, self._writer))

    def _has_written_all(self) -> bool:
        return self._session.state in (State.ENDED, State.CLOSED)

    def _post(self, message: Message[object]) -> None:
        self._session.post(message)
        self._posted_rows += message.rows
        self._writing.soon()

    def _advance(self) -> None:
        sender = self._session.sender
        if not sender.has_waiting:
            return
        self._chunks.advance()
        if sender.can_send_watermark():
            self._post(sender.send_watermark())
        self._barriers.advance()
        self._writing.soon()

    async def _leave(self, line: SendLine[object], parked: ParkedSend[object]) -> None:
        line.parked.append(parked)
        if len(parked.offered) > 1:
            line.go(parked)
        # This task has nothing to add.
        self._writing.now()
        self._waiting.start()
        try:
            while not parked.is_over:
                await parked.sleep()
                line.go(parked)
        except BaseException:
            line.give_up(parked)
            raise
        finally:
            self._waiting.stop()
            self._advance()

    @property
    def _is_open(self) -> bool:
        is_alive = self._failure is None and not self._is_closed
        return is_alive and self._session.state is _OPEN and not self._session.is_ending

    def _require_open(self, undelivered: object) -> None:
        if self._is_open:
            return
        if self._failure is None and not self._is_closed and self._session.is_ending:
            raise ChannelClosedError(end=self.END, undelivered=undelivered)
        raise self._refusal(undelivered)

    def _refusal(self, undelivered: object) -> PermitflowError:
        closed = ChannelClosedError(end=self.END, undelivered=undelivered)
        return closed if self._is_closed else self._failure_again(undelivered) or closed

    @property
    def is_finished(self) -> bool:
        """Has the stream been ended or aborted, so that only the peer's answer is left?"""
        return self._session.state in (State.ENDED, State.CLOSED)

    @property
    def outcome(self) -> EndOutcome | None:
        """How the peer has answered the end of the stream, once it has."""
        return self._session.outcome

    @property
    def spent(self) -> tuple[int, int]:
        """Permits of rows and of barriers that were ever spent."""
        return self._session.sender.spent

    @property
    def returned(self) -> tuple[int, int]:
        """Permits of rows and of barriers that have ever come back."""
        return self._session.sender.returned

    def _fail(self, error: BaseException) -> PermitflowError:
        failure = super()._fail(error)
        self._stop()
        return failure

    def _stop(self) -> None:
        if self._batches is not None:
            self._session.sender.withdraw_all()
            self._chunks.refuse_all()
            self._barriers.refuse_all()
        if self.on_change is not None:
            self.on_change()
        self._wake_all()

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        sender, parameters = self._session.sender, self.parameters
        return ChannelStatistics(
            name=self.name,
            path=self._carrier.meeting.path,
            compression=self._session.compression.words,
            parameters=parameters,
            sent_chunks=sender.sent_chunks,
            sent_rows=sender.sent_rows,
            peak_permits_outstanding=parameters.row_permits - sender.least_row_permits,
            row_permits_here=sender.permits.rows,
            waiting_sends=len(self._chunks.parked) + len(self._barriers.parked) + self.lacks_permits,
            waiting_seconds=self._waiting.seconds,
            open_seconds=self._open_seconds,
        )
