"""The receiving end of a remote stream, for asyncio."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import cast

import pyarrow as pa

from permitflow.channels.interface import require_count
from permitflow.channels.receiving import ReceivingEnd
from permitflow.channels.statistics import ChannelStatistics
from permitflow.client.remote_end import RemoteEnd
from permitflow.errors import ChannelClosedError, PermitflowError, WouldBlock
from permitflow.flows.adaptive_window import OUT_OF_REACH
from permitflow.flows.messages import Message
from permitflow.flows.seam import Urgency
from permitflow.stream.frames import Abort, Agreement, Announcement, Chunks, End, EndOutcome, Failure, UpstreamFrame
from permitflow.stream.session import DownstreamSession, State
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.codec import (
    LONE_BODY_AT,
    EncodedChunks,
    WireFrame,
    decode_upstream,
    encode_downstream,
    lone_chunks,
)
from permitflow.wire.joined import JoinedChunks, oldest_joined
from permitflow.wire.protobuf_values import decode_announcement

_log = logging.getLogger(__name__)

RESIDUE_SECONDS = 0.02
"""The longest wait of an idle receiver's residue: docs/decisions/performance-notes.md#the-residue."""


class RemoteReceiver(ReceivingEnd[pa.RecordBatch], RemoteEnd[DownstreamSession[object]]):
    """The end from which record batches come; see ``ReceiveEnd`` for what each method promises.

    Only this end has joined reads (``receive_joined``, ``take_joined``): only chunks from a network are joined.
    """

    END = "receiver"
    WRITES = False

    def _set_up(self) -> None:
        # Waiting tasks take messages in the order in which they came.
        self._turn, self._in_line = asyncio.Lock(), 0
        # Is taking blocked although a message is here?
        self._is_cut_off = False
        self._abort: asyncio.Future[Abort] = asyncio.get_running_loop().create_future()
        # Is there urgent feedback, which waits only for the writer's current message?
        self._is_pressed = False
        self._latency_seconds: float | None = None
        self._is_out_of_reach = False

    def aim_at(self, latency_seconds: float) -> None:
        """Adapt the window, so that rows wait here about this long; call this before ``run``.

        A flow that cannot ends the stream when it is agreed upon.
        """
        self._latency_seconds = latency_seconds

    @property
    def aimed_rows(self) -> int | None:
        """The rows that may be in the stream at once as this end aims now; None: the flow sets no bound."""
        return self._core.aimed_rows

    def _opened(self) -> None:
        self._core = self._session.inbound
        if self._latency_seconds is not None:
            self._core.aim_at(self._latency_seconds)
        self._core.when_touched(self._advance)

    # Receiving.

    async def receive_joined(self, max_rows: int | None = None) -> JoinedChunks | Message[pa.RecordBatch]:
        """Receive the oldest chunks that came as rows of one batch, without slicing it.

        For consumers that read many chunks at once; it equals that many calls of ``receive``, at far lower cost.
        Waits only for the first message.  Small chunks that came singly and are here are copied into one batch.  A
        barrier or watermark is received alone, in its place.  A cancelled call has received nothing.

        Args:
            max_rows: of all these chunks together; a chunk that has more comes alone.

        Raises:
            InvalidParametersError: ``max_rows`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
            LocalProtocolError: a message was taken and has not been consumed, here or while this task waited.

        Spec: Consume.
        """
        if max_rows is not None:
            require_count(max_rows, name="max_rows")
        self._core.require_none_taken()
        await self.until_takeable()
        joined = oldest_joined(self._core, self._codec, max_rows)
        if joined is None:
            return self._receive_now()
        self._core.consume_oldest(len(joined.rows))
        self._advance()
        return joined

    async def take_joined(self, max_rows: int | None = None) -> JoinedChunks | Message[pa.RecordBatch]:
        """Take the chunks that ``receive_joined`` would receive; each keeps its permits until ``consume``.

        Raises:
            InvalidParametersError: ``max_rows`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        if max_rows is not None:
            require_count(max_rows, name="max_rows")
        await self.until_takeable()
        joined = oldest_joined(self._core, self._codec, max_rows)
        if joined is None:
            return self._core.take()
        self._core.hold(len(joined.rows))
        return joined

    # Turns of tasks that take messages.

    async def until_takeable(self) -> bool:
        """Wait until this task may take the oldest message; has it waited?"""
        core = self._core
        if core.untaken and not (self._in_line or self._is_cut_off or self._is_pressed):
            return False
        # A consumer that never waits would delay the return of permits until the inbox is empty.
        if self._is_pressed and core.untaken:
            await asyncio.sleep(0)
        self._in_line += 1
        try:
            async with self._turn:
                while self._is_cut_off or not core.untaken:
                    if self._is_cut_off or self._session.end is not None or self._failure is not None:
                        self._raise_if_over()
                    self._ask()
                    await self._changed.wait()
        finally:
            self._in_line -= 1
        return True

    def _require_takeable(self) -> None:
        if self._core.untaken and not self._is_cut_off and not self._in_line:
            return
        self._raise_if_over()
        self._ask()
        raise WouldBlock("no message is here, or those that are belong to tasks that have waited for them")

    def _require_consumable(self) -> None:
        if self._is_cut_off:
            self._raise_if_over()

    def _spare(self) -> int:
        return self._core.untaken

    def _ask(self) -> None:
        """Let the flow's end request what it has withheld, because its application asks and nothing is here."""
        if not self._core.untaken and self._core.ask():
            self._advance()

    def _raise_if_over(self) -> None:
        ending = self._ending()
        try:
            if ending is not None:
                raise ending
        finally:
            del ending  # it refers to this frame, and keeps its callers' messages alive

    def _ending(self) -> PermitflowError | None:
        """Why no message will ever be here to take; None while one is here or may come."""
        if self._is_closed or self._session.is_cancelled:
            return ChannelClosedError(end=self.END)
        return self._session.ending() or (None if self._core.untaken else self._failure_again())

    # Consumption.

    def _advance(self) -> None:
        """Schedule feedback, in some flows as soon as a message has come; the flow decides how soon it leaves.

        Feedback that may wait leaves at the loop's next turn: before it, this task may consume more of the messages
        that are here.
        """
        if self._latency_seconds is not None:
            self._observe(self._latency_seconds)
        urgency, has_ended = self._core.urgency, self._session.end is not None
        if urgency == Urgency.NOW or self._core.byte_ledger.is_due:
            self._is_pressed = True
            self._writing.now()
        elif urgency == Urgency.LATER and not has_ended:
            self._writing.within(RESIDUE_SECONDS)
        elif urgency or has_ended:  # at the end this half may have to close, even without feedback
            self._writing.soon()

    def _observe(self, wanted_seconds: float) -> None:
        """Let the window adapt; say once that it cannot be as small as is wanted."""
        self._core.observe(self._clock())
        least = self._core.least_latency_seconds
        if least is not None and not self._is_out_of_reach:
            self._is_out_of_reach = True
            _log.warning(OUT_OF_REACH, self.name, least, wanted_seconds)

    # Frames.

    def _take_in(self, message: Received) -> None:
        """Decode a message of the peer into the inbox."""
        view, batches = memoryview(message), self._batches
        sizes = lone_chunks(bytes(view[:LONE_BODY_AT]), len(view))
        if sizes is None or batches is None:
            self._take_frames(view)
        else:
            self._take_chunks(batches, view[LONE_BODY_AT:], *sizes)

    def _take_chunks(self, batches: BatchCodec, arrow: Buffer, rows: tuple[int, ...], uncompressed_bytes: int) -> None:
        chunks = JoinedChunks(batches.decode(arrow, rows, uncompressed_bytes), rows)
        self._session.receive(Chunks(chunks, chunks.rows, uncompressed_bytes or len(arrow)))

    def _take_frames(self, message: Received) -> None:
        for frame in decode_upstream(message):
            if isinstance(frame, Announcement) and self._batches is not None:
                announcement = decode_announcement(self._session.parameters.flow, frame.content)
                self._session.receive(Announcement(announcement))
            elif not isinstance(frame, EncodedChunks):
                self._session.receive(cast("UpstreamFrame[object]", frame))
                self._note(frame)
            elif self._batches is None:
                self._session.receive(Chunks((), frame.rows))  # before the agreement: it refuses them
            else:
                (arrow,) = frame.arrow
                self._take_chunks(self._batches, arrow, frame.rows, frame.uncompressed_bytes)

    def _note(self, frame: WireFrame) -> None:
        match frame:
            case Agreement():
                self._note_agreement(frame)
            case Failure():
                self._on_failure(frame)
            case Abort():
                self._is_cut_off = True
                self._stop_clock()
                self._abort.set_result(frame)
            case End():
                self._stop_clock()

    def _messages(self) -> Iterable[Sequence[Buffer]]:
        # Check for an idle consumer at the writer's turn, not after each chunk of a message.
        self._is_pressed = False
        session = self._session
        frames = session.take_frames()
        self._writing.is_last = session.state is State.FAILED or (session.end is not None and session.is_finished)
        return encode_downstream(frames, self._flow)

    # The end.

    @property
    def ended_with(self) -> End | Abort | None:
        """The sender's end or abort of the stream, if it has come."""
        return self._session.end

    def defer_outcome(self) -> None:
        """Answer no End before ``answer_end``: for an end that forwards its messages."""
        self._session.outcome = None

    def answer_end(self, outcome: EndOutcome) -> None:
        """Tell the sender the outcome of its messages; all of them were consumed here."""
        self._session.outcome = outcome
        self._writing.soon()

    async def aborted(self) -> Abort:
        """Wait until the sender aborts the stream, even while tasks hold its messages."""
        return await asyncio.shield(self._abort)

    async def cancel(self, reason: str = "it needs no more") -> None:
        """End the stream from this end: need no more messages."""
        self.cancel_nowait(reason)
        while self._failure is None and self._session.state is not State.CLOSED and not self._is_closed:
            await self._changed.wait()

    def cancel_nowait(self, reason: str) -> None:
        """As ``cancel``, without waiting for the sender's answer."""
        self._require_no_group()
        session = self._session
        if self._is_closed or session.is_cancelled or self.state not in (State.OPEN, State.ENDED):
            return
        if session.is_finished:  # its half may be closed already, and nobody would hear of it
            return
        session.cancel(reason)
        self._is_cut_off = True
        self._wake_all()

    @property
    def is_finished(self) -> bool:
        """Has the stream ended, and is everything consumed?  Or is it cancelled?"""
        if self._session.is_cancelled:
            return True
        return self._session.end is not None and (isinstance(self._session.end, Abort) or not self._core.unconsumed)

    def close(self) -> None:
        """Release this end: unconsumed messages are dropped, and the sender learns that its receiver is gone."""
        self._is_cut_off = True
        super().close()
        if self._batches is not None:
            self._core.drop()

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        return self._statistics(
            self._core,
            consumed_chunks=self._core.consumed_chunks,
            consumed_rows=self._core.consumed_rows,
            inbox_rows=self._core.inbox_rows,
            peak_inbox_rows=self._core.peak_inbox_rows,
            byte_window=self._core.byte_ledger.window.window_bytes,
            inbox_bytes=self._core.byte_ledger.inbox_bytes,
        )
