"""The downstream end of a remote channel, for callers without an event loop."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from permitflow.channels.counts import require_count
from permitflow.channels.statistics import ChannelStatistics
from permitflow.errors import ChannelAbortedError, EndOfStream, PermitflowError
from permitflow.protocol.frames import Agreement, Get
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrivals import RESIDUE_SECONDS, Arrivals
from permitflow.transports.blocking_ends import BlockingStream
from permitflow.transports.codec import encode_downstream
from permitflow.transports.connection import GET_STREAM
from permitflow.transports.diagnosis import SLOTS, why_no_rows
from permitflow.transports.frame_codec import Marker, WireFrame
from permitflow.transports.joined import JoinedChunks, oldest_joined, whole_batch
from permitflow.transports.shared_memory.handover import Offer
from permitflow.transports.trains import owed_rows_at_once

__all__ = ["BlockingSource"]

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
            get, peer=f"the exchange at {address} (channel {get.address.name!r})", record=record
        )
        self._held = 0
        self._owed_rows_at_once = 0
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
            self._write()
            if self._may_residue_wait and self._takes_reply_within(min(RESIDUE_SECONDS, self._timeout_seconds)):
                continue
            self._core.release_residue()
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
        if self._unwritten or core.is_due:
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
        if self._unwritten or core.is_due:
            self._return_permits(behind=len(joined.rows))
        if oldest is not None:
            oldest.note_handed_over()
        core.hold(len(joined.rows))
        self._held = len(joined.rows)
        return joined

    def _return_permits(self, behind: int) -> None:
        """Write what is owed, unless it may wait for more: whoever has a message left behind these will come again.

        Before anything is taken, so that an interrupt finds it where it was.  Who would have to wait has returned
        everything before: docs/decisions/0024-callbacks-before-tasks.md.
        """
        if len(self._core.payloads) <= behind or self._core.due_rows >= self._owed_rows_at_once or self._unwritten:
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
        receiver = self._session.receiver
        return ChannelStatistics(
            name=self.stream,
            path=self._call.path,
            compression=self._session.compression.words,
            parameters=self.parameters,
            consumed_chunks=receiver.consumed_chunks,
            consumed_rows=receiver.consumed_rows,
            peak_inbox_rows=receiver.peak_inbox_rows,
            open_seconds=self.open_seconds,
        )

    def _finish(self) -> None:
        """Return what is left, close this half and wait for the exchange to close its own: it compares the books."""
        self._write()
        self._half_close()
        while not self._is_peer_closed:
            self._await_reply("the exchange does not confirm the end of the stream")
        self._session.close()
        self.close()

    def _write(self) -> None:
        frames = self._session.take_frames()
        if frames or self._unwritten:
            self._write_out(encode_downstream(frames))

    def _note(self, frame: WireFrame) -> None:
        if isinstance(frame, Agreement):
            self._note_agreement(frame)
            self._note_parameters(self.parameters)
            self._core = self._session.receiver
            self._owed_rows_at_once = owed_rows_at_once(self.parameters)
