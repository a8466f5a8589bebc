"""What the two ends of a local channel share: the two cores, the tasks that wait between them, and how it ends.

Data and permits need no time from one end to the other, so what leaves the sender is in the inbox, and what is
returned is with the sender, in the same step.
"""

from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from permitflow.channels.chunk_line import ChunkLine
from permitflow.channels.statistics import ChannelStatistics
from permitflow.channels.waiting import ParkedSend, ReceiveLine, SendLine, Stopwatch, turn
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    EndOfStream,
    PeerGoneError,
    PermitflowError,
    WouldBlock,
)
from permitflow.protocol.direct import open_ends, return_directly
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.sender import PermitSender

__all__ = ["LocalChannel", "Sending"]

T = TypeVar("T")


class Sending(Enum):
    """What the sending application has said about the stream."""

    OPEN = "open"
    ENDED = "ended"
    ABORTED = "aborted"
    CLOSED = "closed"


_OPEN = Sending.OPEN  # reading an enumeration's attribute costs more than the question


class LocalChannel(Generic[T]):
    """One channel; its ends are ``LocalSender`` and ``LocalReceiver``."""

    __slots__ = (
        "_clock",
        "_opened_at",
        "_over_at",
        "_reason",
        "accepts",
        "barriers",
        "chunks",
        "is_receiver_closed",
        "is_stalled",
        "name",
        "parameters",
        "receiver",
        "sender",
        "sending",
        "takers",
        "waiting",
    )

    def __init__(
        self, parameters: ChannelParameters, *, name: str, record: RecorderFactory | None, clock: Callable[[], float]
    ) -> None:
        """``clock`` tells the time in seconds."""
        self.name = name
        self.parameters = parameters
        records = [record(name, end, parameters) if record else None for end in ("sender", "receiver")]
        ends: tuple[PermitSender[T], PermitReceiver[T]]
        ends = open_ends(parameters, of_sender=records[0], of_receiver=records[1])
        self.sender, self.receiver = ends
        self.sending = Sending.OPEN
        self.is_receiver_closed = False
        self.accepts = True
        """May something be sent?  Both ends are open and the stream has not been ended."""
        self.is_stalled = False
        """Does something wait that returned permits may set going?"""
        self.waiting = Stopwatch(clock)
        self.takers: ReceiveLine[T] = ReceiveLine(self.receiver, self.sender)
        self.chunks: ChunkLine[T] = ChunkLine(self.sender, self.takers, self.waiting)
        sender, deliver = self.sender, self.takers.deliver
        self.barriers: SendLine[T] = SendLine(sender.sendable_barriers, sender.send_barrier, sender.withdraw, deliver)
        self._clock = clock
        self._opened_at = clock()
        self._over_at: float | None = None
        self._reason = ""

    # The way of a message.

    async def leave(self, line: SendLine[T], parked: ParkedSend[T]) -> None:
        """Wait until a send that stands in line has left, or was refused.  Cancelled, it is withdrawn."""
        self.waiting.start()
        try:
            while not parked.is_over:
                self.is_stalled = True
                await parked.sleep()
                line.go(parked)
        except BaseException:
            line.give_up(parked)
            raise
        finally:
            self.waiting.stop()
            if self.is_stalled or self.sending is not _OPEN:
                self.advance()
            self.chunks.reckon()

    def advance(self) -> None:
        """Permits came back, or somebody left the line: let go what may go now."""
        is_stalled = bool(self.chunks.parked) and self.chunks.advance()
        if self.sender.chunks_before_watermark is not None:
            if self.sender.can_send_watermark():
                self.takers.deliver(self.sender.send_watermark())
            else:
                is_stalled = True
        if self.barriers.parked and self.barriers.advance():
            is_stalled = True
        self.is_stalled = is_stalled
        if self.takers.futures:
            self.tell_if_over()

    def return_permits(self) -> None:
        """Bring the permits of what was consumed back to the sender: batches, and the residue once all is consumed."""
        return_directly(self.sender, self.receiver)
        if self.is_stalled:
            self.advance()

    async def until_takeable(self) -> None:
        """Wait until the oldest message is this task's to take.

        Raises:
            ChannelError: there is none and there will be none; the type says why.
        """
        takers = self.takers
        is_first = takers.begin_turn()
        if is_first:
            try:
                await turn()
            except BaseException:
                takers.abandon_turn()
                raise
            takers.reserved -= 1
        if takers.spare <= 0:
            await self.sleep_until_takeable(is_first=is_first)

    async def sleep_until_takeable(self, *, is_first: bool) -> None:
        """The same without a turn for the others; ``is_first``: they had one, and this task waits longest."""
        takers = self.takers
        while takers.spare <= 0:
            if self.is_over:
                raise self.ending()
            future = takers.sleep(is_first=is_first)
            self.chunks.at_once = 0
            try:
                has_message = await future
            except BaseException:
                takers.give_up(future)
                raise
            finally:
                self.chunks.reckon()
            if has_message:
                takers.reserved -= 1
                if self.receiver._taken < len(self.receiver._costs):  # as ``has_untaken``, without its call
                    return

    def require_takeable(self) -> None:
        """Insist that the oldest message may be taken now.

        Raises:
            WouldBlock: nothing is here, or what is here belongs to tasks that have waited for it.
            ChannelError: there is no message and there will be none; the type says why.
        """
        if self.takers.spare > 0:
            return
        if self.is_over:
            raise self.ending()
        if self.receiver.has_untaken:
            raise WouldBlock(f"the {self.receiver.untaken} messages here belong to tasks that have waited for them")
        raise WouldBlock("no message is here")

    # How it ends.

    @property
    def is_over(self) -> bool:
        """Is no message here that could be taken, and will there never be one?"""
        if self.sending is _OPEN and not self.is_receiver_closed:
            return False
        return not self.receiver.has_untaken and not self.sender.has_waiting

    def tell_if_over(self) -> None:
        """Wake those who wait for a message in vain."""
        if self.takers.futures and self.is_over:
            self.takers.wake_all()

    def ending(self) -> PermitflowError:
        """Why there is no message and there will be none, on a channel that is over."""
        if self.is_receiver_closed:
            return ChannelClosedError(end="receiver")
        if self.sending is Sending.ABORTED:
            return ChannelAbortedError(channel=self.name, reason=self._reason)
        if self.sending is Sending.CLOSED:
            return PeerGoneError(who=f"the sender of channel {self.name!r}", reason="it was closed before the end")
        self._stop_clock()
        return EndOfStream()

    def refusal(self, undelivered: object) -> PermitflowError:
        """Why nothing may be sent."""
        if self.is_receiver_closed and self.sending in (Sending.OPEN, Sending.ENDED):
            who = f"the receiver of channel {self.name!r}"
            return PeerGoneError(who=who, reason="it was closed", undelivered=undelivered)
        return ChannelClosedError(end="sender", undelivered=undelivered)

    def end(self) -> None:
        """Nothing will be sent after what waits now."""
        self.chunks.close()
        self.accepts = False
        self.sending = Sending.ENDED
        self.tell_if_over()

    def abort(self, reason: str) -> None:
        """The sender gives the stream up: drop everything."""
        self.sending = Sending.ABORTED
        self._reason = reason
        self.receiver.drop()
        self._stop()

    def close_sender(self) -> None:
        """The sender goes without an end: what has left stays, what waits does not."""
        self.sending = Sending.CLOSED
        self._stop()

    def close_receiver(self) -> None:
        """The receiver goes: drop everything."""
        self.is_receiver_closed = True
        self.receiver.drop()
        self._stop()

    def _stop(self) -> None:
        self._stop_clock()
        self.chunks.close()
        self.accepts = self.is_stalled = False
        self.sender.withdraw_all()
        self.chunks.refuse_all()
        self.barriers.refuse_all()
        self.tell_if_over()

    def _stop_clock(self) -> None:
        if self._over_at is None:
            self._over_at = self._clock()

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        self.chunks.seat()
        sender, receiver = self.sender, self.receiver
        now = self._clock() if self._over_at is None else self._over_at
        return ChannelStatistics(
            name=self.name,
            parameters=self.parameters,
            sent_chunks=sender.sent_chunks,
            sent_rows=sender.sent_rows,
            consumed_chunks=receiver.consumed_chunks,
            consumed_rows=receiver.consumed_rows,
            peak_permits_outstanding=self.parameters.row_permits - sender.least_row_permits,
            peak_inbox_rows=receiver.peak_inbox_rows,
            row_permits_here=sender.permits.rows,
            inbox_rows=receiver.inbox_rows,
            unreturned_permits=receiver.unreturned,
            waiting_sends=len(self.chunks.parked) + len(self.barriers.parked),
            waiting_seconds=self.waiting.seconds,
            open_seconds=now - self._opened_at,
        )
