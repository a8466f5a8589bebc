"""Both ends of a stream for callers without an event loop: bounded waits, and errors that say who and where.

A signal's handler may raise an exception anywhere, KeyboardInterrupt for one, and the caller may go on afterwards.
While an end waits or writes, its books are whole and what is left to write is kept, so it goes on where it was.
Elsewhere it is halfway through a change; an end that was left like that refuses to go on (``InterruptedEndError``).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from time import monotonic
from types import TracebackType
from typing import NoReturn, Self, TypeVar

import pyarrow as pa

from permitflow.channels.interface import require_count
from permitflow.channels.statistics import ChannelStatistics
from permitflow.chunks import slices, tail
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    EndOfStream,
    InterruptedEndError,
    InvalidParametersError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
)
from permitflow.protocol.compression import require_none_in_memory
from permitflow.protocol.flow import Flow, Haste, Parameters
from permitflow.protocol.frames import Agreement, EndOutcome, Get, Put
from permitflow.protocol.messages import Kind, Message, Offered
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.session import DownstreamSession, State, UpstreamSession
from permitflow.transports.arrivals import RESIDUE_SECONDS, Arrivals
from permitflow.transports.arrow import BatchCodec, read_schema
from permitflow.transports.arrow_compression import log_answer
from permitflow.transports.blocking_calls import BlockingHostCall, Closed
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.codec import Marker, WireFrame, decode_downstream, encode_downstream, encode_upstream
from permitflow.transports.connection import GET_STREAM, PUT_STREAM
from permitflow.transports.diagnosis import (
    SLOTS,
    Explain,
    consumed,
    explained,
    why_no_permits,
    why_no_room,
    why_no_rows,
)
from permitflow.transports.joined import JoinedChunks, oldest_joined, whole_batch
from permitflow.transports.same_host import SHARED_MEMORY
from permitflow.transports.shared_memory.blocking_link import Outgoing
from permitflow.transports.shared_memory.handover import Offer
from permitflow.transports.trains import TrainWriter, encoded
from permitflow.transports.wire_errors import decode_error

__all__ = ["BlockingSink", "BlockingSource", "BlockingStream"]


class BlockingStream:
    """One end of a stream, driven by one thread at a time; a context manager that leaves nothing behind."""

    def __init__(
        self,
        address: str,
        method: str,
        session: UpstreamSession[object] | DownstreamSession[object],
        timeout_seconds: float,
        offer: Offer | None = None,
    ) -> None:
        """Dial; an ``offer`` to share memory belongs to this object now."""
        if not timeout_seconds > 0:
            raise InvalidParametersError(name="timeout_seconds", value=timeout_seconds, rule="must be above 0")
        self._address = address
        self._peer_session = session
        self._timeout_seconds = timeout_seconds
        self._batches: BatchCodec | None = None
        self._is_peer_closed = self._is_half_closed = False
        # A call that finds this set follows one that was interrupted in the middle of a change.
        self._is_halfway = False
        self._unwritten: deque[Outgoing] = deque()
        self._opened_at = monotonic()
        self._over_at: float | None = None
        self._call = BlockingHostCall(address, method, who=session.peer, offer=offer)

    @property
    def _flow(self) -> Flow | None:
        return None if self._batches is None else self.parameters.flow

    @property
    def name(self) -> str:
        """The channel's name, as error messages give it."""
        return self._peer_session.channel

    @property
    def stream(self) -> str:
        """The exchange's name for this stream, as in traces; equal at both ends."""
        return self._peer_session.agreement.stream or self.name

    @property
    def parameters(self) -> Parameters:
        """What both ends agreed on."""
        return self._peer_session.parameters

    @property
    def first_row(self) -> int | None:
        """Of a channel that keeps its rows.

        Of a source: the number of the first row that follows.  Of a sink with a producer's name: how many rows of this
        producer were kept before, so that the next one to send is the row of this number.
        """
        return self._peer_session.agreement.first_row

    @property
    def schema(self) -> pa.Schema:
        """The schema of all batches."""
        return self._codec.schema

    @cached_property  # from then on it answers without a call
    def _codec(self) -> BatchCodec:
        assert self._batches is not None, "nobody has this end before there is an agreement"
        return self._batches

    @property
    def open_seconds(self) -> float:
        """Since dialling, until the stream was over."""
        return (self._over_at or monotonic()) - self._opened_at

    def close(self) -> None:
        """Release this end, whatever state it is in; never waits for the peer.  Closing twice is harmless."""
        if self._over_at is None:
            self._over_at = monotonic()
        self._call.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _write(self) -> None:
        raise NotImplementedError

    def _write_out(self, messages: Iterable[Sequence[Buffer]]) -> None:
        """Write these, after what an interrupt has kept from being written."""
        unwritten = self._unwritten
        unwritten.extend(map(self._call.outgoing, messages))
        self._is_halfway = False
        while unwritten:
            if self._call.is_cut:
                self._is_halfway = True
                self._require_open()
            self._call.write(unwritten[0])
            unwritten.popleft()
        self._is_halfway = True

    def _half_close(self) -> None:
        if not self._is_half_closed:
            self._call.half_close()
            self._is_half_closed = True

    def _take_in(self, message: Received) -> None:
        raise NotImplementedError

    def _note_agreement(self, agreement: Agreement) -> None:
        self._batches = BatchCodec(read_schema(agreement.schema), self._peer_session.compression.codec)

    def open(self, cause: str, explain: Explain | None = None) -> None:
        """Wait for the agreement; whatever goes wrong, including an interrupt, leaves no call behind.

        Args:
            cause: what a missing answer most likely means.
            explain: says more, if the exchange can be asked.
        """
        try:
            self._write()
            while self._peer_session.state is State.AWAITING_AGREEMENT:
                self._await_reply(cause, explain)
            self._call.settle(self._peer_session.agreement.same_host)
            if self._call.path == SHARED_MEMORY:
                require_none_in_memory(self._peer_session.compression)
            log_answer(self._peer_session.compression, who=self._peer_session.peer)
            self._is_halfway = False
        except BaseException:
            self.close()
            raise

    def _require_open(self) -> None:
        if self._is_halfway:
            self.close()
            raise InterruptedEndError(end=self._peer_session.END, channel=self.name)
        if self._over_at is not None:
            raise ChannelClosedError(end=self._peer_session.END)

    def _absorb(self) -> None:
        """Take in what has come."""
        while not self._is_peer_closed and (reply := self._call.receive_nowait()) is not None:
            self._take_reply(reply)

    def _await_reply(self, cause: str, explain: Explain | None = None) -> None:
        """Take in one reply; the next call takes in what has come behind it.

        Args:
            cause: what it most likely means if none comes; empty: the caller does not report it.
            explain: says more, if the exchange can be asked.

        Raises:
            PeerTimeoutError: none came in time.
            PermitflowError: the peer's typed error, or the peer is gone; this end is closed then.
        """
        if not self._takes_reply_within(self._timeout_seconds):
            self._is_halfway = False
            raise self._timed_out(cause, explain)

    def _takes_reply_within(self, seconds: float) -> bool:
        """As ``_await_reply``, for so many seconds; False: none came."""
        call, until = self._call, monotonic() + seconds
        reply: Received | Closed | None = None
        while reply is None:
            self._is_halfway = False
            may_have_come = call.wait(until - monotonic())
            self._is_halfway = True
            if not may_have_come:
                return False
            reply = call.receive_nowait()
        self._take_reply(reply)
        return True

    def _timed_out(self, cause: str, explain: Explain | None) -> PeerTimeoutError:
        is_alive, why = explained(self._address, self.name, explain, cause) if cause else (False, cause)
        waited, who = f"for {self._timeout_seconds:g} s", self._peer_session.peer
        if is_alive:
            return PeerTimeoutError.of_silence(who=who, reason=f"{waited}: {why}")
        return PeerTimeoutError(who=who, reason=f"nothing came {waited}; {why}")

    def _take_reply(self, reply: Received | Closed) -> None:
        try:
            if isinstance(reply, Closed):
                self._take_close(reply)
            else:
                self._take_in(self._call.checked(reply))
                if self._peer_session.failure is not None:
                    self._heed_failure(self._peer_session.failure)
        except PermitflowError:
            self.close()
            raise

    def _heed_failure(self, failure: bytes) -> NoReturn:
        """The peer has broken the stream off: say at once that it was heard, so that it need not wait."""
        who = self._peer_session.peer
        self._call.half_close()
        raise decode_error(failure, who=who) or PeerGoneError(who=who, reason="it broke the stream off")

    def _take_close(self, closed: Closed) -> None:
        self._is_peer_closed = True
        if closed.error is not None:
            raise closed.error
        self._peer_session.peer_closed()


# An aborted stream has nothing to wait for but the confirmation; without it the exchange sees a broken stream, which
# its consumers take for the same thing.
ABORT_SECONDS = 5.0

_FULL = (
    "the channel's staging area is full: its consumers are slow and earlier batches wait there, or another query's "
    "batch does that was not published yet"
)


class BlockingSink(BlockingStream):
    """The upstream end of a channel.

    Leaving its context with an exception aborts the stream; that of a named producer is only closed, since it can
    come again and go on.
    """

    def __init__(
        self,
        address: str,
        put: Put,
        timeout_seconds: float,
        record: RecorderFactory | None,
        offer: Offer | None = None,
    ) -> None:
        """Dial; see ``open_sink``."""
        self._session: UpstreamSession[object] = UpstreamSession(
            put, peer=f"the exchange at {address} (channel {put.channel!r})", record=record
        )
        self._can_resume = bool(put.producer)
        self._is_staged = put.staging is not None
        self._waiting_seconds = 0.0
        self._writer: TrainWriter | None = None
        super().__init__(address, PUT_STREAM, self._session, timeout_seconds, offer)

    def send(self, batch: pa.RecordBatch) -> None:
        """Send a chunk; wait until its permits are here.  A large one leaves in slices.

        After an interrupt or a time-out the slice that waited has not been sent.  One that was being written has, and
        what is left of it follows with whatever is written next: the rows of ``statistics`` are those that have left.

        Raises:
            ChannelClosedError: this end was closed.
            InterruptedEndError: a call before was interrupted neither while it waited nor while it wrote.
            LocalProtocolError: the stream was ended or aborted.
            SchemaMismatchError: the batch has another schema than the stream.
            PeerTimeoutError: no permit came back in ``timeout_seconds``; ``undelivered`` is what did not leave.
            PeerGoneError: the exchange or the consumer is gone; ``undelivered`` is what did not leave.
            ChunkTooLargeError: the chunk is too large for one message of gRPC.

        Spec: OfferChunk, SendChunk, WithdrawChunk.
        """
        self._require_open()
        most = self.parameters.most_rows
        sent_rows = 0
        for part in (batch,) if most is None else slices(batch, most):
            try:
                self._send_part(part)
            except PeerGoneError as error:
                error.undelivered = tail(batch, sent_rows)
                raise
            sent_rows += part.num_rows

    def _send_part(self, part: pa.RecordBatch) -> None:
        self._codec.require(part)
        self._is_halfway = True
        try:
            self._absorb()
            offered = self._session.offer(Kind.CHUNK, part, part.num_rows)
            self._leave(offered)
        except PermitflowError:
            self._is_halfway = self._call.is_cut
            raise
        self._is_halfway = False

    def _leave(self, offered: Offered[object]) -> None:
        """Write a chunk once its permits are here."""
        try:
            self._write()
            if self._session.outbound.has_waiting:
                self._await_turn()
        except BaseException:
            was_halfway = self._is_halfway
            self._is_halfway = True
            self._session.outbound.withdraw(offered)
            self._is_halfway = was_halfway
            raise

    def _await_turn(self) -> None:
        began = monotonic()
        try:
            while self._session.outbound.has_waiting:
                self._await_permits()
                self._write()
        finally:
            self._waiting_seconds += monotonic() - began

    def _await_permits(self) -> None:
        waiting = self._session.outbound.waiting[0]
        self._await_room(self._session.outbound.lack(waiting.kind, (waiting.rows,)))

    def end(self, *, closes_channel: bool, until: EndOutcome = EndOutcome.CONSUMED) -> EndOutcome:
        """Say that nothing follows, and wait for the answer: what has become of everything that was sent.

        It is ``CONSUMED`` once the channel's consumer has consumed all that was in the channel when the end came.  It
        is ``ACCEPTED``, at once, if no consumer is connected, or if the channel keeps its rows.  After an interrupt or
        a time-out it can be called again, and waits on.

        Args:
            closes_channel: nobody else will put into the channel, so that its consumers come to the end as well.
            until: ``ACCEPTED`` does not wait for a consumer, even if one is connected.

        Raises:
            ChannelClosedError: this end was closed, or has ended before.
            InterruptedEndError: as for ``send``.
            PeerTimeoutError: no answer came, and no row was consumed, in ``timeout_seconds``.
            PeerGoneError: the exchange is gone, or the channel has lost its consumer, with rows that it held.
            ChannelAbortedError: another producer has broken the channel.
            LedgerError: the exchange has not returned all permits.
        """
        self._require_open()
        self._is_halfway = True
        try:
            if not self._session.is_ending:
                self._absorb()
                self._session.end(closes_channel=closes_channel, until=until)
            self._write()
            self._half_close()
            self._await_answer()
        except PermitflowError:
            self._is_halfway = self._call.is_cut
            raise
        self._is_halfway = False
        self.close()
        return self._session.outcome or EndOutcome.ACCEPTED  # an older exchange does not say

    def _await_answer(self) -> None:
        """Wait for the answer to End, for as long as the exchange says that rows are consumed meanwhile."""
        since, consumed_rows = monotonic(), -1
        while not self._is_peer_closed:
            if self._takes_reply_within(self._timeout_seconds / 2):
                since = monotonic()
                continue
            self._is_halfway = False
            before, consumed_rows = consumed_rows, consumed(self._address, self.name)
            if -1 < before < consumed_rows:
                since = monotonic()
            elif monotonic() - since >= self._timeout_seconds:
                raise self._timed_out(*self._why("not everything that was sent was consumed"))
            self._is_halfway = True

    def _await_room(self, said: str) -> None:
        self._await_reply(*self._why(said))

    def _why(self, said: str) -> tuple[str, Explain]:
        """The cause of a wait as it can be guessed, and as the channel's numbers say it."""
        why, guess = (why_no_room, _FULL) if self._is_staged else (why_no_permits, SLOTS)
        return f"{said}; {guess}", lambda traffic: f"{said}: {why(traffic)}"

    def abort(self, reason: str) -> None:
        """Give the stream up: the channel's consumers raise ``ChannelAbortedError`` with this reason.

        Harmless where the stream is over, or the exchange is gone.
        """
        if self._over_at is not None:
            return
        try:
            if self._session.state is State.OPEN and not self._is_halfway:
                self._session.abort(reason)
                self._write()
                self._half_close()
                self._timeout_seconds = min(self._timeout_seconds, ABORT_SECONDS)
                while not self._is_peer_closed:
                    self._await_reply("")
        except PermitflowError:
            # Whatever keeps the reason from arriving also ends the stream without End: consumers fail all the same.
            pass
        finally:
            self.close()

    def __enter__(self) -> Self:
        """Close at the end of the block; abort if it raises."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Abort after an exception, unless the producer can come again; then close."""
        if error is not None and not self._can_resume:
            self.abort(f"{type(error).__name__}: {error}")
        self.close()

    def statistics(self) -> ChannelStatistics:
        """What has happened so far, as this end knows it."""
        sender = self._session.outbound
        return ChannelStatistics(
            name=self.stream,
            path=self._call.path,
            compression=self._session.compression.words,
            window_rows=self.parameters.window_rows,
            sent_chunks=sender.totals.chunks,
            sent_rows=sender.totals.rows,
            rows_held=sender.rows_held,
            peak_rows_held=sender.peak_rows_held,
            waiting_seconds=self._waiting_seconds,
            open_seconds=self.open_seconds,
            gauges=sender.gauges(),
            gauge_help=self.parameters.flow.gauge_help,
        )

    def _write(self) -> None:
        self._write_out(encode_upstream(encoded(self._session.take_frames(), self._writer)))

    def _take_in(self, message: Received) -> None:
        for frame in decode_downstream(message, self._flow):
            self._session.receive(frame)
            if isinstance(frame, Agreement):
                self._note_agreement(frame)
                self._writer = TrainWriter(self._codec, self.parameters)


T = TypeVar("T")

_SILENT = f"its producer is silent or has not started; {SLOTS}"


class BlockingSource(Arrivals, BlockingStream):
    """The downstream end of a channel; iterating over it yields the chunks.

    The permits of a message return when the next one is asked for, or at the end; while other messages are here, those
    of a few messages return together.
    """

    def __init__(
        self,
        address: str,
        get: Get,
        timeout_seconds: float,
        record: RecorderFactory | None,
        offer: Offer | None = None,
    ) -> None:
        """Dial; see ``open_source``."""
        self._session: DownstreamSession[object] = DownstreamSession(
            get, peer=f"the exchange at {address} (channel {get.channel!r})", record=record
        )
        self._held = 0
        super().__init__(address, GET_STREAM, self._session, timeout_seconds, offer)

    def receive(self) -> Message[pa.RecordBatch | Marker]:
        """Receive the next message, whatever its kind; the one before counts as consumed.

        After an interrupt or a time-out it can be called again, and nothing is lost: what it has not returned comes
        next.

        Raises:
            EndOfStream: the sender has ended the stream, and all of it was received.
            ChannelAbortedError: the sender gave the stream up.
            ChannelClosedError: this end was closed.
            InterruptedEndError: a call before was interrupted neither while it waited nor while it wrote.
            PeerTimeoutError: nothing came in ``timeout_seconds``.
            PeerGoneError: the sender is gone without having ended the stream.
            UndecodableDataError: the chunk is not what the handshake said.

        Spec: Consume, Flush.
        """
        return self._received(self._take)

    def receive_joined(self, max_rows: int | None = None) -> JoinedChunks | Message[Marker]:
        """Receive the oldest chunks as far as they came as rows of one batch; those before count as consumed.

        As ``receive``, for consumers that read many chunks at once: they are not cut apart.  Waits only for the first
        one.  Of chunks that came one by one, small ones that are here are copied into one batch.  A barrier or
        watermark is received alone, in its place.

        Args:
            max_rows: of all these chunks together; a chunk that has more comes alone.

        Raises:
            InvalidParametersError: ``max_rows`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, InterruptedEndError, PeerTimeoutError,
            PeerGoneError, UndecodableDataError: as for ``receive``.

        Spec: Consume, Flush.
        """
        if max_rows is not None:
            require_count(max_rows, name="max_rows")
        return self._received(self._take_joined, max_rows)

    def _received(self, take: Callable[[int | None], T], max_rows: int | None = None) -> T:
        if self._is_halfway or self._over_at is not None:
            self._require_open()
        self._is_halfway = True
        try:
            if self._held:
                self._core.consume_many(self._held)
                self._held = 0
            self._absorb()
            if self._core.is_empty or self._session.end is not None:
                self._until_here()
            taken = take(max_rows)
        except PermitflowError:
            self._is_halfway = self._call.is_cut
            raise
        # Nothing is called from here to the caller's own code, so that no signal is heeded on the way.
        self._is_halfway = False
        return taken

    def _until_here(self) -> None:
        """Return permits and wait until a message may be taken, or raise why none may be."""
        session = self._session
        while self._core.is_empty and session.end is None:
            self._write(residue=False)
            if self._core.haste == Haste.LATER and self._takes_reply_within(
                min(RESIDUE_SECONDS, self._timeout_seconds)
            ):
                continue
            self._write()
            self._await_reply(_SILENT, why_no_rows)
        if session.end is None:
            return
        try:
            session.require_takeable()
        except EndOfStream:
            self._finish()
            raise
        except ChannelAbortedError:
            self.close()
            raise

    def _take(self, _max_rows: int | None = None) -> Message[pa.RecordBatch | Marker]:
        core = self._core
        if self._newest_folded:
            self._unfold()
        if self._unwritten or core.haste >= Haste.SOON:
            self._return_permits(behind=1)
        message = core.take()
        self._held = 1
        return message

    def _take_joined(self, max_rows: int | None) -> JoinedChunks | Message[Marker]:
        core = self._core
        joined = whole_batch(self._core.payloads, self._codec, max_rows)
        oldest = oldest_joined(core, self._codec, max_rows) if joined is None else None
        if oldest is not None:
            joined = oldest.joined
        if joined is None:
            return self._take()
        if self._unwritten or core.haste >= Haste.SOON:
            self._return_permits(behind=len(joined.rows))
        if oldest is not None:
            oldest.note_handed_over()
        core.hold(len(joined.rows))
        self._held = len(joined.rows)
        return joined

    def _return_permits(self, behind: int) -> None:
        """Write what is owed, unless it may wait for more: a caller that has a message left behind these comes again.

        Before anything is taken, so that an interrupt finds it where it was.  Who would have to wait has returned
        everything before: docs/decisions/0024-callbacks-before-tasks.md.
        """
        if len(self._core.payloads) <= behind or self._core.haste == Haste.NOW or self._unwritten:
            self._write()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Receive chunks until the end of the stream; barriers and watermarks are consumed on the way."""
        return self

    def __next__(self) -> pa.RecordBatch:
        """Receive the next chunk; raises as ``receive``, except that the end ends the iteration."""
        while True:
            try:
                message = self.receive()
            except EndOfStream:
                raise StopIteration from None
            if message.kind is Kind.CHUNK:
                return message.payload

    def joined(self, max_rows: int | None = None) -> Iterator[JoinedChunks]:
        """Receive chunks joined, until the end of the stream; barriers and watermarks are consumed on the way.

        Raises as ``receive_joined``, except that the end ends the iteration.
        """
        while True:
            try:
                received = self.receive_joined(max_rows)
            except EndOfStream:
                return
            # No call between the two: a signal's exception would end this generator, and lose what it has received.
            match received:
                case JoinedChunks():
                    yield received

    def statistics(self) -> ChannelStatistics:
        """What has happened so far, as this end knows it."""
        receiver = self._session.inbound
        return ChannelStatistics(
            name=self.stream,
            path=self._call.path,
            compression=self._session.compression.words,
            window_rows=self.parameters.window_rows,
            consumed_chunks=receiver.consumed_chunks,
            consumed_rows=receiver.consumed_rows,
            inbox_rows=receiver.inbox_rows,
            peak_inbox_rows=receiver.peak_inbox_rows,
            open_seconds=self.open_seconds,
            gauges=receiver.gauges(),
            gauge_help=self.parameters.flow.gauge_help,
        )

    def _finish(self) -> None:
        """Return what is left, close this half and wait for the exchange to close its own: it compares the books."""
        self._write()
        self._half_close()
        while not self._is_peer_closed:
            self._await_reply("the exchange does not confirm the end of the stream")
        self._session.close()
        self.close()

    def _write(self, *, residue: bool = True) -> None:
        frames = self._session.take_frames(residue=residue)
        if frames or self._unwritten:
            self._write_out(encode_downstream(frames, self._flow))

    def _note(self, frame: WireFrame) -> None:
        if isinstance(frame, Agreement):
            self._note_agreement(frame)
            self._core = self._session.inbound
