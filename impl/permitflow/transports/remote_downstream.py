"""What the receiving end of a remote stream does beneath its methods: frames, who may take a message, the end."""

import asyncio
from collections.abc import Iterable, Sequence

import pyarrow as pa

from permitflow.channels.counts import require_count
from permitflow.channels.statistics import ChannelStatistics
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    EndOfStream,
    LocalProtocolError,
    PermitflowError,
    WouldBlock,
)
from permitflow.protocol.compression import Compression
from permitflow.protocol.frames import Abort, Agreement, End, EndOutcome, Failure
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrivals import RESIDUE_SECONDS, Arrivals
from permitflow.transports.carrier import Buffer, Carrier
from permitflow.transports.codec import encode_downstream
from permitflow.transports.frame_codec import WireFrame
from permitflow.transports.remote_end import RemoteEnd
from permitflow.transports.same_host import Offer
from permitflow.transports.trains import owed_rows_at_once

__all__ = ["RemoteDownstream"]


class RemoteDownstream(Arrivals, RemoteEnd[DownstreamSession[object]]):
    """Carries what comes, and lets those take it who wait; ``RemoteReceiver`` is what applications see."""

    END = "receiver"
    WRITES = False

    def __init__(
        self,
        session: DownstreamSession[object],
        carrier: Carrier,
        *,
        schema: pa.Schema | None = None,
        offer: Offer | None = None,
        compression: Compression = Compression.AUTO,
    ) -> None:
        """Use ``get``, or the exchange."""
        super().__init__(session, carrier, schema=schema, offer=offer, compression=compression)
        # Tasks that wait for a message take it in the order in which they came, and nobody overtakes them.
        self._turn, self._in_line = asyncio.Lock(), 0
        self._held = 0
        # Must nothing be taken though it is here?
        self._is_cut_off = False
        # Are permits due that must not wait, but for the writer to be done with what it writes?
        self._is_pressed = False
        self._owed_rows_at_once = 0

    def _opened(self) -> None:
        self._core = self._session.receiver
        self._here, _ = self._core.queues
        self._owed_rows_at_once = owed_rows_at_once(self.parameters)
        self._note_parameters(self.parameters)

    # Frames.

    def _note(self, frame: WireFrame) -> None:
        match frame:
            case Agreement():
                self._note_agreement(frame)
            case Failure():
                self._hear(frame)
            case Abort():
                self._is_cut_off = True
                self._stop_clock()
            case End():
                self._stop_clock()

    def _trains(self) -> Iterable[Sequence[Buffer]]:
        # Whether the consumer is idle shows when the writer has its turn: not after each chunk of a train.
        if self._batches is not None:
            self._core.release_residue()
        self._is_pressed = False
        return encode_downstream(self._session.take_frames())

    def _has_written_all(self) -> bool:
        return self._session.end is not None and self._session.is_finished

    # Who may take a message.

    @property
    def _is_at_hand(self) -> bool:
        """May a message be taken at once, with nobody before this caller and no permits that the writer waits for?"""
        return len(self._here) > self._held and not (self._in_line or self._is_cut_off or self._is_pressed)

    async def _until_some(self, max_messages: int | None) -> int:
        """Wait for the first message that may be taken; how many may be, each by itself, then."""
        if max_messages is not None:
            require_count(max_messages, name="max_messages")
        if not self._is_at_hand:
            await self._until_takeable()
        if self._newest_folded:
            self._unfold()
        here = len(self._here) - self._held
        return here if max_messages is None else min(here, max_messages)

    async def _until_takeable(self) -> None:
        # A consumer that never waits would keep the writer from returning permits until the inbox is empty.
        if self._is_pressed and len(self._here) > self._held:
            await asyncio.sleep(0)
        session = self._session
        self._in_line += 1
        try:
            async with self._turn:
                while len(self._here) <= self._held or self._is_cut_off:
                    may_be_over = self._is_cut_off or session.end is not None or self._failure is not None
                    if may_be_over and (ending := self._ending()) is not None:
                        raise ending
                    await self._changes.next()
        finally:
            self._in_line -= 1
        # The caller takes the message before anybody else runs.

    def _require_takeable(self) -> None:
        if len(self._here) > self._held and not self._is_cut_off and not self._in_line:
            return
        if (ending := self._ending()) is not None:
            raise ending
        raise WouldBlock("no message is here, or those that are belong to tasks that have waited for them")

    def _ending(self) -> PermitflowError | None:
        """Why no message will ever be here to take; None while one is here or may come."""
        if self._is_closed:
            return ChannelClosedError(end=self.END)
        end = self._session.end
        if isinstance(end, Abort):
            return ChannelAbortedError(channel=self.name, reason=end.reason)
        if len(self._here) > self._held:
            return None
        if end is not None:
            return EndOfStream()
        return self._failure_again()

    # What becomes of what was taken.

    def _none_held(self) -> LocalProtocolError:
        return LocalProtocolError(f"{self._held} messages were taken and not consumed: consume them first")

    def _after_consuming(self) -> None:
        """Permits may go back: those that are due may wait for more of them, up to the loop's next turn.

        Before it, this task may come again, as long as something is here.
        """
        core = self._core
        core.has_returns = False
        due_rows = core.due_rows
        if due_rows or core.is_due:
            if 0 < due_rows < self._owed_rows_at_once and len(self._here) > self._held:
                self._writing.soon()
            else:
                self._is_pressed = True
                self._writing.now()
        elif not self._here:
            if self._may_residue_wait:
                self._writing.within(RESIDUE_SECONDS)
            else:
                self._writing.soon()

    # The end.

    @property
    def ended_with(self) -> End | Abort | None:
        """What the sender has said about the end of the stream, if it has."""
        return self._session.end

    def defer_outcome(self) -> None:
        """For an end that passes on what it consumes: answer no End before ``answer_end``."""
        self._session.outcome = None

    def answer_end(self, outcome: EndOutcome) -> None:
        """Tell the sender what has become of its messages; all of them were consumed here."""
        self._session.outcome = outcome
        self._writing.soon()

    async def aborted(self) -> Abort:
        """Wait until the sender gives the stream up, whoever may be holding messages of it."""
        while not isinstance(self._session.end, Abort):
            await self._changes.next()
        return self._session.end

    @property
    def is_finished(self) -> bool:
        """Has the stream ended, and was everything consumed?"""
        return self._session.end is not None and (isinstance(self._session.end, Abort) or self._core.is_empty)

    def close(self) -> None:
        """Release this end: what was not consumed is dropped, and the sender learns that its receiver is gone."""
        self._is_cut_off = True
        super().close()
        if self._batches is not None:
            self._core.drop()
            self._held = 0

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        return ChannelStatistics(
            name=self.name,
            path=self._carrier.meeting.path,
            compression=self._session.compression.words,
            parameters=self.parameters,
            consumed_chunks=self._core.consumed_chunks,
            consumed_rows=self._core.consumed_rows,
            peak_inbox_rows=self._core.peak_inbox_rows,
            inbox_rows=self._core.inbox_rows,
            unreturned_permits=self._core.unreturned,
            open_seconds=self._open_seconds,
        )
