"""The sending end of a remote stream, for asyncio."""

import asyncio
from collections import deque
from collections.abc import Sequence

import pyarrow as pa

from permitflow.channels.statistics import ChannelStatistics
from permitflow.channels.waiting import ParkedSend, SendLine, Stopwatch
from permitflow.chunks import slices, tail
from permitflow.errors import ChannelClosedError, InvalidParametersError, PeerGoneError, PermitflowError, WouldBlock
from permitflow.protocol.frames import Agreement, Data, Failure, UpstreamFrame
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.parameters import Oversize
from permitflow.protocol.session import State, UpstreamSession
from permitflow.transports.carrier import Carrier, Received
from permitflow.transports.codec import decode_downstream, encode_upstream
from permitflow.transports.payloads import Payload, checked_marker
from permitflow.transports.remote_end import RemoteEnd
from permitflow.transports.same_host import Offer

__all__ = ["RemoteSender"]


class RemoteSender(RemoteEnd[UpstreamSession[object]]):
    """The end into which record batches go; see ``SendEnd`` for what each method promises."""

    END = "sender"
    WRITES = True

    def __init__(
        self,
        session: UpstreamSession[object],
        carrier: Carrier,
        *,
        schema: pa.Schema | None = None,
        offer: Offer | None = None,
    ) -> None:
        """Use ``put``, or the exchange."""
        super().__init__(session, carrier, schema=schema, offer=offer)
        self._waiting = Stopwatch(self._clock)
        self._posted_rows = 0
        self._chunks: SendLine[object]
        self._barriers: SendLine[object]

    def _opened(self) -> None:
        sender = self._session.sender
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
            if isinstance(frame, Agreement):
                self._note_agreement(frame)
            elif isinstance(frame, Failure):
                self._hear(frame)
        if self._batches is not None:
            self._advance()

    def _trains(self) -> Sequence[bytes]:
        frames = self._session.take_posted()
        self._posted_rows = 0
        return encode_upstream([self._encoded(frame) for frame in frames])

    def _encoded(self, frame: UpstreamFrame[object]) -> UpstreamFrame[Payload]:
        if not isinstance(frame, Data):
            return frame
        message = frame.message
        if message.kind is Kind.CHUNK:
            payload: Payload = self._codec.encode_accepted(message.payload)
        else:
            payload = checked_marker(message.payload, name=message.kind.value)
        return Data(Message(message.kind, payload, message.rows, message.cost))

    def _has_written_all(self) -> bool:
        return self._session.state in (State.ENDED, State.CLOSED)

    def _post(self, message: Message[object]) -> None:
        self._session.post(message)
        self._posted_rows += message.rows
        self._wake_writer.set()

    def _advance(self) -> None:
        sender = self._session.sender
        if not sender.has_waiting:
            return
        self._chunks.advance()
        if sender.can_send_watermark():
            self._post(sender.send_watermark())
        self._barriers.advance()
        self._wake_writer.set()

    # Sending.

    def send_nowait(self, chunk: pa.RecordBatch, rows: int | None = None) -> None:
        """Send a chunk now, all of it or nothing."""
        pieces = self._pieces(chunk, rows)
        cost = sum(self.parameters.cost_of(piece.num_rows) for piece in pieces)
        here = self._session.sender.permits.rows
        if self._chunks.parked:
            raise WouldBlock(f"{len(self._chunks.parked)} sends wait before this one")
        if cost > here:
            raise WouldBlock(f"the chunk needs {cost} row permits, {here} of {self.parameters.row_permits} are here")
        for piece in pieces:
            self._session.offer_chunk(piece, piece.num_rows)
            self._post(self._session.sender.send_chunk())

    async def send(self, chunk: pa.RecordBatch, rows: int | None = None) -> None:
        """Send a chunk; wait until its permits are here."""
        # Permits come back in batches, so data leave in batches; else the window would be filled before any leaves.
        if self._posted_rows >= self.parameters.permit_batch:
            await asyncio.sleep(0)
        try:
            self.send_nowait(chunk, rows)
        except WouldBlock:
            pieces = self._pieces(chunk, rows)
            parked = ParkedSend([self._session.offer_chunk(piece, piece.num_rows) for piece in pieces])
            await self._leave(self._chunks, parked)
            if parked.is_refused:
                raise self._refusal(tail(chunk, parked.sent_rows)) from None

    async def send_many(self, chunks: deque[pa.RecordBatch]) -> None:
        """Send all chunks of a queue, from the left, until it is empty."""
        while chunks:
            if self._posted_rows >= self.parameters.permit_batch:
                await asyncio.sleep(0)
            try:
                self.send_nowait(chunks[0])
                chunks.popleft()
            except WouldBlock:
                await self._send_leftmost(chunks)
            except (ChannelClosedError, PeerGoneError) as error:
                raise self._refusal(chunks) from error.__cause__

    async def _send_leftmost(self, chunks: deque[pa.RecordBatch]) -> None:
        chunk = chunks[0]
        parked = ParkedSend([self._session.offer_chunk(piece, piece.num_rows) for piece in self._pieces(chunk, None)])
        try:
            await self._leave(self._chunks, parked)
        finally:
            if parked.sent:
                chunks.popleft()
        if parked.is_refused:
            if parked.sent_rows:
                chunks.appendleft(tail(chunk, parked.sent_rows))
            raise self._refusal(chunks)

    def _pieces(self, chunk: pa.RecordBatch, rows: int | None) -> list[pa.RecordBatch]:
        self._codec.require(chunk)
        self._require_open(chunk)
        if rows not in (None, chunk.num_rows):
            raise InvalidParametersError(name="rows", value=rows, rule=f"must be the batch's own {chunk.num_rows}")
        if self.parameters.oversize is Oversize.WHOLE:
            return [chunk]
        return list(slices(chunk, self.parameters.max_chunk_cost))

    def send_barrier_nowait(self, payload: object = None) -> None:
        """Send a barrier now."""
        checked_marker(payload, name="barrier")
        self._require_open(payload)
        if self._barriers.parked:
            raise WouldBlock(f"{len(self._barriers.parked)} barriers wait before this one")
        if self._session.sender.permits.barriers < 1:
            raise WouldBlock(f"all {self.parameters.barrier_permits} barrier permits are out")
        self._session.offer_barrier(payload)
        self._post(self._session.sender.send_barrier())

    async def send_barrier(self, payload: object = None) -> None:
        """Send a barrier; wait until a barrier permit is here."""
        try:
            self.send_barrier_nowait(payload)
        except WouldBlock:
            parked = ParkedSend([self._session.offer_barrier(payload)])
            await self._leave(self._barriers, parked)
            if parked.is_refused:
                raise self._refusal(payload) from None

    def send_watermark(self, value: object) -> None:
        """Announce a watermark; never waits."""
        checked_marker(value, name="watermark")
        self._require_open(value)
        self._session.offer_watermark(value)
        self._advance()

    async def _leave(self, line: SendLine[object], parked: ParkedSend[object]) -> None:
        line.parked.append(parked)
        if len(parked.offered) > 1:
            line.go(parked)
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

    # The end.

    def _require_open(self, undelivered: object) -> None:
        if self._failure is not None or self._is_closed or self._session.state is not State.OPEN:
            raise self._refusal(undelivered)
        if self._session.is_ending:
            raise ChannelClosedError(end=self.END, undelivered=undelivered)

    def _refusal(self, undelivered: object) -> PermitflowError:
        closed = ChannelClosedError(end=self.END, undelivered=undelivered)
        return closed if self._is_closed else self._failure_again(undelivered) or closed

    async def end(self, *, closes_channel: bool = True) -> None:
        """Say that nothing follows, and wait until the peer has consumed everything that was sent.

        Of ``put``, the peer is the exchange: it has consumed what its own channel has accepted.

        Args:
            closes_channel: the consumers come to the end as well; False leaves the channel to other producers.

        Raises:
            LedgerError: the peer has closed the stream without returning all permits.
        """
        if self._session.state is State.OPEN and not self._session.is_ending and not self._is_closed:
            self._session.end(closes_channel=closes_channel)
            self._wake_writer.set()
        elif not self._session.is_ending:
            raise self._refusal(None)
        await self._until_past(State.OPEN, State.ENDED)
        if not self._session.is_ending:
            raise self._refusal(None)

    @property
    def is_finished(self) -> bool:
        """Has the stream been ended or aborted, so that only the peer's answer is left?"""
        return self._session.state in (State.ENDED, State.CLOSED)

    def abort(self, reason: str) -> None:
        """Give the stream up."""
        if self._session.state is State.OPEN and self._failure is None:
            self._session.abort(reason)
            self._stop()

    def close(self) -> None:
        """Release this end; what was sent and not carried yet is lost, and the peer learns that the sender is gone."""
        super().close()
        self._stop()

    def _fail(self, error: BaseException) -> PermitflowError:
        failure = super()._fail(error)
        self._stop()
        return failure

    def _stop(self) -> None:
        if self._batches is not None:
            self._session.sender.withdraw_all()
            self._chunks.refuse_all()
            self._barriers.refuse_all()
        self._wake_all()

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        sender, parameters = self._session.sender, self.parameters
        return ChannelStatistics(
            name=self.name,
            path=self._carrier.meeting.path,
            parameters=parameters,
            sent_chunks=sender.sent_chunks,
            sent_rows=sender.sent_rows,
            peak_permits_outstanding=parameters.row_permits - sender.least_row_permits,
            row_permits_here=sender.permits.rows,
            waiting_sends=len(self._chunks.parked) + len(self._barriers.parked),
            waiting_seconds=self._waiting.seconds,
            open_seconds=self._open_seconds,
        )
