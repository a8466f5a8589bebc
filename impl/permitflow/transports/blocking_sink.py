"""The upstream end of a remote channel, for callers without an event loop."""

from time import monotonic
from types import TracebackType
from typing import Self

import pyarrow as pa

from permitflow.channels.statistics import ChannelStatistics
from permitflow.chunks import slices, tail
from permitflow.errors import PeerGoneError, PermitflowError
from permitflow.protocol.frames import Agreement, EndOutcome, Put
from permitflow.protocol.lifecycle import State
from permitflow.protocol.parameters import Oversize
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.sender import Offered
from permitflow.protocol.session import UpstreamSession
from permitflow.transports.blocking_stream import BlockingStream
from permitflow.transports.carrier import Received
from permitflow.transports.codec import decode_downstream, encode_upstream
from permitflow.transports.connection import PUT_STREAM
from permitflow.transports.diagnosis import SLOTS, Explain, consumed, why_no_permits, why_no_room
from permitflow.transports.shared_memory.meeting import Offer
from permitflow.transports.trains import TrainWriter, encoded

__all__ = ["BlockingSink"]

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
            put, peer=f"the exchange at {address} (channel {put.address.name!r})", record=record
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
        splits = self.parameters.oversize is Oversize.SPLIT
        sent_rows = 0
        for part in slices(batch, self.parameters.max_chunk_cost) if splits else (batch,):
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
            offered = self._session.offer_chunk(part, part.num_rows)
            self._leave(offered)
        except PermitflowError:
            self._is_halfway = self._call.is_cut
            raise
        self._is_halfway = False

    def _leave(self, offered: Offered[object]) -> None:
        """Write a chunk once its permits are here."""
        try:
            self._write()
            if self._session.sender.has_waiting:
                self._await_turn()
        except BaseException:
            was_halfway = self._is_halfway
            self._is_halfway = True
            self._session.sender.withdraw(offered)
            self._is_halfway = was_halfway
            raise

    def _await_turn(self) -> None:
        began = monotonic()
        try:
            while self._session.sender.has_waiting:
                self._await_permits()
                self._write()
        finally:
            self._waiting_seconds += monotonic() - began

    def _await_permits(self) -> None:
        away, all_permits = self._session.sender.outstanding.rows, self.parameters.row_permits
        self._await_room(f"{away} of {all_permits} row permits are away")

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
        sender = self._session.sender
        return ChannelStatistics(
            name=self.stream,
            path=self._call.path,
            compression=self._session.compression.words,
            parameters=self.parameters,
            sent_chunks=sender.sent_chunks,
            sent_rows=sender.sent_rows,
            peak_permits_outstanding=self.parameters.row_permits - sender.least_row_permits,
            waiting_seconds=self._waiting_seconds,
            open_seconds=self.open_seconds,
        )

    def _write(self) -> None:
        self._write_out(encode_upstream(encoded(self._session.take_frames(), self._writer)))

    def _take_in(self, message: Received) -> None:
        for frame in decode_downstream(message):
            self._session.receive(frame)
            if isinstance(frame, Agreement):
                self._note_agreement(frame)
                self._writer = TrainWriter(self._codec, self.parameters)
