"""The sending end of a remote stream, for asyncio."""

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice, repeat
from typing import cast

import pyarrow as pa

from permitflow.change import Change
from permitflow.channels.sending import Pieces, SendingEnd
from permitflow.channels.statistics import ChannelStatistics
from permitflow.channels.waiting import BoundLoop, ParkedSend, SendLine, Stopwatch
from permitflow.client.remote_end import RemoteEnd
from permitflow.errors import (
    ChannelCancelledError,
    ChannelClosedError,
    InvalidParametersError,
    PermitflowError,
)
from permitflow.flows.byte_window import Sums
from permitflow.flows.messages import Kind, Message, Offered
from permitflow.stream.frames import Agreement, Cancel, EndOutcome, Failure, Feedback, UpstreamFrame
from permitflow.stream.session import State, UpstreamSession
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.coalescing import MessageWriter, collected_rows
from permitflow.wire.codec import EncodedChunks, WireFrame, checked_marker, each_downstream, encode_upstream
from permitflow.wire.joined import JoinedChunks
from permitflow.wire.protobuf_values import decode_feedback

_log = logging.getLogger(__name__)

LEFT_WITHOUT_END = "its producer left without ending it"


def warn_of_leaving(channel: str, failure: BaseException | None) -> None:
    """Say that a producer has left without an end, and why its stream had failed, if it had: nobody has heard that."""
    why = "" if failure is None else f", and its stream had failed ({left_by(failure)})"
    advice = "channel %r: its producer left without end()%s, so rows that it sent may be missing; call end() last"
    _log.warning(advice, channel, why)


def left_by(error: BaseException) -> str:
    """Why a producer has given up whose block was left by an error, which may have no text."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


_OPEN = State.OPEN  # reading an enumeration's attribute costs more than the question
_SHORT_SHARE = 8
_MOST_EXPECTED = 1_000
"""Chunks that are announced before they are sent."""
_LAST_STATES = (State.ENDED, State.CLOSED, State.FAILED)
"""Frames behind which no other is posted."""


class RemoteSender(SendingEnd[pa.RecordBatch], RemoteEnd[UpstreamSession[object]]):
    """The end into which record batches go; see ``SendEnd`` for what each method promises."""

    END = "sender"
    WRITES = True

    def _set_up(self) -> None:
        self._waiting, self._stopped = Stopwatch(self._clock), Stopwatch(self._clock)
        self._posted_rows = self._collected_rows = 0
        self._stopped_accepting = Change()
        self._is_optimistic = self._has_aborted = False
        self._has_short_caller = False  # of ``until_room``
        # Tasks that wait for the writer continue in the order in which they came.
        self._turn, self._in_line = asyncio.Lock(), 0
        self._cancel: asyncio.Future[Cancel] = asyncio.get_running_loop().create_future()
        self._line: SendLine[object]
        self._writer: MessageWriter

    def _opened(self) -> None:
        self._core = self._session.outbound
        self._is_optimistic = self._core.is_optimistic
        self._writer = MessageWriter(self._codec, self.parameters)
        self._collected_rows = collected_rows(self.parameters, self._codec.row_bytes)
        self._line = SendLine(self._core, self._post, self._waiting, BoundLoop(f"channel {self.name!r}"))

    # Sending.

    def _send_one(self, chunk: pa.RecordBatch, rows: int | None) -> bool:
        if rows is not None or not self._post_first((chunk,)):
            return False
        self._writing.soon()
        return True

    def _send_first(self, chunks: deque[pa.RecordBatch]) -> int:
        # One more than may leave if all are as long as the first.
        most = 1 + self.sendable_rows // max(1, getattr(chunks[0], "num_rows", 1))
        if sent := self._post_first(tuple(islice(chunks, most))):
            self._writing.soon()
        return sent

    def send_at_once(self, chunks: Sequence[pa.RecordBatch], rows: Sequence[int], _sums: Sums | None = None) -> int:
        """Send and write the first chunks that may leave now; return how many.  Each of them is checked."""
        if self._posted_rows >= self._collected_rows or not self._core.admits(rows[:1]):
            return 0
        if sent := self._post_first(chunks):
            self._writing.now()
        return sent

    @property
    def sendable_rows(self) -> int:
        """About how many rows may leave now and are written at once."""
        return min(self._collected_rows, self._core.room_rows)

    async def until_room(
        self, chunks: Sequence[pa.RecordBatch], rows: Sequence[int], at_hand: Callable[[], Sequence[int]]
    ) -> bool:
        """Wait while a chunk lacks only room.  For a stream with a single sending task."""
        size_bytes = self._most_bytes_of_first(chunks, rows)
        if not self._lacks_room(rows[0], size_bytes):
            return False
        self._has_short_caller = True
        self._waiting.start()
        try:
            while self._lacks_room(rows[0], size_bytes):
                if self._core.gets_room_by_backlog:  # meanwhile more may have come
                    self._core.expect(at_hand() or rows[:1])
                    self._writing.soon()
                await self._changed.wait()
        finally:
            self._waiting.stop()
            self._has_short_caller = False
        return True

    @property
    def lack(self) -> str:
        """What the oldest waiting chunk or barrier lacks, in the flow's words; empty: none waits."""
        return self._core.oldest_lack

    def _most_bytes_of_first(self, chunks: Sequence[pa.RecordBatch], rows: Sequence[int]) -> int:
        first = chunks[:1]  # by itself, so that a batch of many is not sliced into all of them
        return self._writer.most_sums(first, rows[:1])[1] if self._codec.accepts(first[0]) else 0

    def _lacks_room(self, rows: int, size_bytes: int) -> bool:
        if not self._is_open or self._line.parked:
            return False
        most, core = self.parameters.most_rows, self._core
        can_wait = most is None or rows <= most
        return can_wait and not (core.admits((rows,)) and core.byte_ledger.admits(size_bytes))

    async def _make_room(self) -> None:
        """Let the writer run if much is posted: otherwise everything would be posted before anything leaves."""
        if self._is_optimistic:  # a caller that never waits would not hear that it must stop
            await asyncio.sleep(0)
        if not self._in_line and self._posted_rows < self._collected_rows:
            return
        self._in_line += 1
        try:
            async with self._turn:
                while self._posted_rows >= self._collected_rows and self._is_open:
                    self._writing.now()
                    if self._posted_rows:
                        await self._changed.wait()
        finally:
            self._in_line -= 1

    @property
    def _waiting_sends(self) -> int:
        return len(self._line.parked) + self._in_line

    def _post_first(self, chunks: Sequence[pa.RecordBatch]) -> int:
        """Send the first chunks that may leave now and fill a message; return how many.

        The caller triggers the writing.  None leave while others wait, or unless the stream is open.
        """
        if self._line.parked or not self._is_open:
            return 0
        run: Sequence[pa.RecordBatch]
        rows: Sequence[int]
        if isinstance(chunks, JoinedChunks) and self._codec.accepts(chunks.batch):
            run, rows = chunks, chunks.rows
        else:
            run, rows = self._codec.accepted(chunks)
        if not rows:
            return 0
        if len(rows) > 1 and sum(rows) > self._collected_rows:
            most = self._chunks_in_message(rows)
            run, rows = run[:most], rows[:most]
        sent = self._session.send_many(run, rows, self._most_sums(run, rows))
        self._posted_rows += sum(rows[:sent])
        return sent

    def _chunks_in_message(self, rows: Sequence[int]) -> int:
        """How many of these chunks fill a message.  A short one that exceeds it would be a batch of its own there."""
        ends, full = list(accumulate(rows)), self._collected_rows
        at = bisect_left(ends, full)
        return at + (ends[at] == full or rows[at] >= full // _SHORT_SHARE)

    def _most_sums(self, run: Sequence[pa.RecordBatch], rows: Sequence[int]) -> Sums:
        if isinstance(run, JoinedChunks) and self._codec.row_bytes is None:
            # They leave as one batch if they leave together.
            together = (0, *repeat(0, len(rows) - 1), self._codec.most_bytes_of(run.batch))
            if self._core.byte_ledger.admits(together[-1]) and self._core.admits(rows) == len(rows):
                return together
        return self._writer.most_sums(run, rows)

    def _cut(self, chunk: pa.RecordBatch, rows: int | None) -> Pieces[pa.RecordBatch]:
        pieces = self._codec.cut(chunk, self.parameters.most_rows)
        if rows not in (None, chunk.num_rows):
            raise InvalidParametersError(name="rows", value=rows, rule=f"must be the batch's own {chunk.num_rows}")
        return [(piece, piece.num_rows, self._codec.most_bytes_of(piece)) for piece in pieces]

    def _queue(self, kind: Kind, payload: object, rows: int = 0, size_bytes: int | None = None) -> Offered[object]:
        return self._session.offer(kind, payload, rows, size_bytes)

    def _offer_watermark(self, value: object) -> None:
        self._session.offer_watermark(value)

    def _line_up(self, offered: Sequence[Offered[object]]) -> ParkedSend[object]:
        return self._line.park(*offered)

    def _expect(self, chunks: deque[pa.RecordBatch]) -> None:
        if self._batches is not None and self._core.gets_room_by_backlog:
            self._core.expect([getattr(each, "num_rows", 1) for each in islice(chunks, _MOST_EXPECTED)])

    def _check_marker(self, payload: object, name: str) -> None:
        checked_marker(payload, name=name)

    async def _leave(self, parked: ParkedSend[object]) -> None:
        if parked.is_over:
            return
        # This task adds nothing more.
        self._writing.now()
        try:
            await self._line.leave(parked)
        finally:
            self._advance()

    def _advance(self) -> None:
        """Send the waiting messages that may leave.

        Feedback that came together is used together: otherwise small messages would stay small for ever.
        """
        core = self._core
        if not core.has_waiting:
            if core.gets_room_by_backlog:  # it may have to tell that nothing waits any more
                self._writing.soon()
            return
        self._line.advance()
        if core.can_send_watermark():
            self._post(core.send_watermark())
        self._writing.soon()

    def _post(self, message: Message[object], _size_bytes: int | None = None) -> None:
        self._session.post(message)
        self._posted_rows += message.rows
        if message.kind is Kind.BARRIER:
            self._stopped.follow(self._core.is_stopped)
        self._writing.soon()

    # Frames.

    def _take_in(self, message: Received) -> None:
        for frame in each_downstream(message, self._flow):
            if isinstance(frame, Feedback) and isinstance(frame.content, bytes) and self._flow is not None:
                frame = Feedback(decode_feedback(self._flow, frame.content))  # it came together with the agreement
            self._session.receive(frame)
            match frame:
                case Agreement():
                    self._note_agreement(frame)
                case Failure():
                    self._on_failure(frame)
                case Cancel():
                    self._stop()
                    if not self._cancel.done():
                        self._cancel.set_result(frame)
        if self._stopped.running:
            self._stopped.follow(self._core.is_stopped)

    def _messages(self) -> Iterable[Sequence[Buffer]]:
        frames = self._session.take_posted()
        self._writing.is_last = self._session.state in _LAST_STATES
        self._posted_rows = 0
        if self._in_line:
            self._announce()
        if not frames:
            return ()
        if self._batches is None:  # no data before the agreement
            return encode_upstream(cast("list[WireFrame]", frames))
        return encode_upstream(self._counted(frames))

    def _counted(self, frames: Sequence[UpstreamFrame[object]]) -> Iterator[WireFrame]:
        """Encode frames, and count the bytes of chunks as they are instead of their upper bounds."""
        ledger = self._core.byte_ledger
        left = ledger.unwritten_bytes  # the bounds of the chunks in these frames
        for frame in self._writer.encoded(frames):
            if isinstance(frame, EncodedChunks):
                size_bytes = frame.size_bytes
                ledger.write(size_bytes)
                left -= size_bytes
            yield frame
        if left:
            may_have_refused = ledger.outstanding_bytes >= ledger.window.batch_bytes
            ledger.shorten(left)
            if may_have_refused and (self._line.parked or self._has_short_caller):
                asyncio.get_running_loop().call_soon(self._use_room)

    def _use_room(self) -> None:
        """Send what waits, and wake the task that waits for room: bounds were corrected."""
        self._advance()
        self._announce()

    # The end.

    @property
    def _is_open(self) -> bool:
        is_alive = self._failure is None and not self._is_closed
        return is_alive and self._session.state is _OPEN and not self._session.is_ending

    def _refusal(self, undelivered: object) -> PermitflowError:
        closed = ChannelClosedError(end=self.END, undelivered=undelivered)
        if self._is_closed:
            return closed
        if (cancel := self.cancel) is not None:
            return ChannelCancelledError(channel=self.name, reason=cancel.reason, undelivered=undelivered)
        return self._failure_again(undelivered) or closed

    @property
    def cancel(self) -> Cancel | None:
        """The receiver's word that it needs no more messages, if it has come."""
        return self._session.cancel

    async def cancelled(self) -> Cancel:
        """Wait until the receiver cancels the stream."""
        return await asyncio.shield(self._cancel)

    async def end(self, *, closes_channel: bool = True, until: EndOutcome = EndOutcome.CONSUMED) -> EndOutcome:
        """End the stream, and wait for the outcome of everything that was sent.

        The answer of ``put`` is ``CONSUMED`` once the channel's consumer has consumed all that was in the channel when
        the end came.  It is ``ACCEPTED``, at once, if no consumer is connected, or if the channel keeps its rows. There
        is no time-out: it waits for as long as the consumer takes.  It is ``CANCELLED`` if the consumer has cancelled
        meanwhile, or before.

        Args:
            closes_channel: the consumers reach the end as well; False leaves the channel to other producers.
            until: ``ACCEPTED`` does not wait for a consumer, even if one is connected.

        Raises:
            PeerGoneError: the exchange is gone, or the channel has lost its consumer, with rows that it held.
            ChannelAbortedError: another producer has broken the channel.
            ChannelClosedError: this end was closed, or aborted.
            LedgerError: the peer has closed the stream without returning all permits.
        """
        if self._is_open:
            self._session.end(closes_channel=closes_channel, until=until)
            self._stopped_accepting.note()
            self._writing.soon()
        elif not self._session.is_ending:
            raise self._refusal(None)
        await self._until_past(State.OPEN, State.ENDED)
        if not self._session.is_ending:
            raise self._refusal(None)
        outcome = self._session.outcome
        assert outcome is not None, "the session refuses an end without an answer"
        return outcome

    def leave(self) -> None:
        """Abort the stream if it has not ended: nobody shall take what was sent for all of it.

        A warning says so; also if the stream has failed, and no call has raised that.
        """
        is_over = self._session.is_ending or self._has_aborted or self._is_closed
        if not (is_over or self.has_told_failure):
            warn_of_leaving(self.name, self._failure)
            self.abort(LEFT_WITHOUT_END)

    def abort(self, reason: str) -> None:
        """Abort the stream."""
        self._has_aborted = True
        if self._session.state is State.OPEN and self._failure is None:
            self._session.abort(reason)
            self._stop()

    def close(self) -> None:
        """Release this end; unwritten messages are lost, and the peer learns that the sender is gone."""
        super().close()
        self._stop()

    def _fail(self, error: BaseException) -> PermitflowError:
        failure = super()._fail(error)
        self._stop()
        return failure

    def _stop(self) -> None:
        if self._batches is not None:
            self._core.withdraw_all()
            self._line.refuse_all()
            self._stopped.follow(False)
        self._stopped_accepting.note()
        self._wake_all()

    @property
    def is_finished(self) -> bool:
        """Is the stream ended or aborted, so that only the peer's answer is missing?"""
        return self._session.state in (State.ENDED, State.CLOSED)

    @property
    def sent_mark(self) -> tuple[int, ...] | None:
        """As ``Outbound.sent_mark``."""
        return self._core.sent_mark

    @property
    def acknowledged_mark(self) -> tuple[int, ...]:
        """As ``Outbound.acknowledged_mark``."""
        return self._core.acknowledged_mark

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        core, totals = self._core, self._core.totals
        return self._statistics(
            core,
            sent_chunks=totals.chunks,
            sent_rows=totals.rows,
            rows_held=core.rows_held,
            peak_rows_held=core.peak_rows_held,
            byte_window=core.byte_ledger.window.window_bytes,
            bytes_held=core.byte_ledger.outstanding_bytes,
            peak_bytes_held=core.byte_ledger.peak_bytes,
            waiting_sends=len(self._line.parked) + self._in_line + self._has_short_caller,
            waiting_seconds=self._waiting.seconds,
            stopped_seconds=self._stopped.seconds,
        )
