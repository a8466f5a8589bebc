"""The asyncio channel inside a process: ``sender, receiver = open_channel()``, data flow from left to right.

Both ends belong to one event loop; neither is thread-safe.  As with ``asyncio.Queue``, a send or receive that need not
wait does not yield to the loop: a sender runs until the permits are spent, a receiver until the channel is empty.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import accumulate
from math import ceil
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

from permitflow.callables import require_plain
from permitflow.change import Change
from permitflow.channels.receiving import ReceivingEnd
from permitflow.channels.sending import Pieces, SendingEnd
from permitflow.channels.statistics import ChannelStatistics
from permitflow.channels.waiting import BoundLoop, ParkedSend, ReceiveLine, SendLine, Stopwatch
from permitflow.chunks import byte_counter, rows_of, sized_slices, sums_of_bytes, whole_bytes, whole_rows
from permitflow.errors import (
    ChannelAbortedError,
    ChannelCancelledError,
    ChannelClosedError,
    EndOfStream,
    InvalidParametersError,
    PeerGoneError,
    PermitflowError,
    WouldBlock,
)
from permitflow.flows.byte_window import (
    DEFAULT_BYTE_WINDOW,
    ByteWindow,
    RunSums,
    Sums,
    require_byte_window,
)
from permitflow.flows.messages import Kind, Message, Offered
from permitflow.flows.permits.parameters import ChannelParameters
from permitflow.flows.recording import ENDS, RecorderFactory
from permitflow.flows.seam import AnyFeedback, Group, Inbound, Outbound, Parameters

T = TypeVar("T")


def open_channel(
    parameters: Parameters | None = None,
    *,
    name: str = "channel",
    record: RecorderFactory | None = None,
    group: Group | None = None,
    byte_window: int = DEFAULT_BYTE_WINDOW,
    size_of: Callable[[T], int] | None = None,
    row_bytes: float | None = None,
) -> "tuple[LocalSender[T], LocalReceiver[T]]":
    """Open a channel inside this process and return its two ends, (sender, receiver): data flow from left to right.

    Args:
        parameters: of any flow; by default permits, ``ChannelParameters()``.
        name: for error messages and statistics.
        record: opens the recorder of each end, which notes the specification's actions.
        group: of receivers that share something, such as those of a gate.
        byte_window: the most bytes that may be in the channel at once, whatever the flow admits; a larger chunk passes
            while less than a quarter of the window is in the channel.
        size_of: the bytes of a chunk; by default those of the buffers of Arrow batches and NumPy arrays, and of bytes.
            Other chunks are not counted: nobody knows what objects take.
        row_bytes: the bytes of a row, if all take the same; this costs less than to ask each chunk.

    Raises:
        InvalidParametersError: ``parameters`` are not the parameters of a flow, or not of the group's; or
            ``byte_window`` is not a whole number of at least 1, or ``row_bytes`` is negative or stated beside
            ``size_of``.
    """
    if parameters is None:
        parameters = ChannelParameters()
    if not isinstance(parameters, Parameters):
        rule = "must be the parameters of a flow, such as ChannelParameters"
        raise InvalidParametersError(name="parameters", value=parameters, rule=rule)
    if record is not None:
        require_plain(record, place="open_channel(record=…)")
    if size_of is not None:
        require_plain(size_of, place="open_channel(size_of=…)")
    if row_bytes is not None and (size_of is not None or not row_bytes >= 0):
        rule = "must be a number of bytes of at least 0, without size_of"
        raise InvalidParametersError(name="row_bytes", value=row_bytes, rule=rule)
    window = ByteWindow(require_byte_window(byte_window))
    channel: _Channel[T] = _Channel(
        parameters,
        name=name,
        record=record,
        clock=_clock(),
        group=group,
        window=window,
        size_of=size_of,
        row_bytes=row_bytes,
    )
    return LocalSender(channel), LocalReceiver(channel)


def _clock() -> Callable[[], float]:
    """The running loop's clock, so that simulated time works here, too; without a loop, the process's clock."""
    try:
        return asyncio.get_running_loop().time
    except RuntimeError:
        return time.monotonic


def _checked(size_of: Callable[[T], int]) -> Callable[[T], int]:
    return lambda chunk: whole_bytes(size_of(chunk))


class _Sending(Enum):
    """How far the sending application has come."""

    OPEN = "open"
    ENDED = "ended"
    ABORTED = "aborted"
    CLOSED = "closed"


def _delivery(
    sender: Outbound[T], takers: ReceiveLine[T], stopped: Stopwatch
) -> Callable[[Message[T], int | None], None]:
    """Passes a message on to the receiver.

    No method of the channel: the line of sends keeps this function, and the channel would keep itself alive.
    """

    def deliver(message: Message[T], size_bytes: int | None) -> None:
        takers.deliver(message, size_bytes)
        if message.kind is Kind.BARRIER:
            stopped.follow(sender.is_stopped)

    return deliver


class _Channel(Generic[T]):
    """The common part of both ends: the two cores, the waiting tasks, and the end of the channel.

    Data and feedback move from one end to the other in the same step: a message that leaves the sender is in the inbox
    at once, and feedback is with the sender at once.
    """

    def __init__(
        self,
        parameters: Parameters,
        *,
        name: str,
        record: RecorderFactory | None,
        clock: Callable[[], float],
        group: Group | None,
        window: ByteWindow,
        size_of: Callable[[T], int] | None,
        row_bytes: float | None,
    ) -> None:
        """``clock`` returns the time in seconds."""
        self.name = name
        self.parameters = parameters
        flow = parameters.flow
        of_sender, of_receiver = (
            record(name, end, flow.table, flow.stated(parameters)) if record else None for end in ENDS
        )
        self.sender: Outbound[T] = flow.outbound(parameters, record=of_sender)
        self.receiver: Inbound[T] = flow.receiving(parameters, record=of_receiver, group=group)
        self.outstanding = self.sender.limit_bytes(window)
        self._unreturned = self.receiver.limit_bytes(window)
        self.size_of = None if size_of is None else _checked(size_of)
        """The application's own count of a chunk's bytes."""
        self._row_bytes = row_bytes
        if group is not None:
            self.receiver.when_touched(self.bring_feedback)
        self._adapts = False
        self._announces = flow.announcement is not None
        self.sending = _Sending.OPEN
        self.is_receiver_closed = self.is_cancelled = False
        self.accepts = True
        """May messages be sent?  Both ends are open and the stream has not been ended."""
        self.stopped_accepting = Change()
        self._waiting, self._stopped = Stopwatch(clock), Stopwatch(clock)
        loop = BoundLoop(f"channel {name!r}")
        self.takers: ReceiveLine[T] = ReceiveLine(self.receiver, loop)
        self._deliver = _delivery(self.sender, self.takers, self._stopped)
        self.line: SendLine[T] = SendLine(self.sender, self._deliver, self._waiting, loop)
        self._clock = clock
        self._opened_at = clock()
        self._over_at: float | None = None
        self._reason = ""

    def aim_at(self, latency_seconds: float) -> None:
        """Adapt the receiver's window, as ``Inbound.aim_at``."""
        self.receiver.aim_at(latency_seconds)
        self._adapts = True

    # The path of a message.

    def bytes_of(self, chunk: T, rows: int) -> int | None:
        """What a chunk takes of the byte window; None: it is not counted."""
        if self._row_bytes is not None:
            return ceil(rows * self._row_bytes)
        kind: type = type(chunk)
        count_bytes = self.size_of or byte_counter(kind)
        return None if count_bytes is None else count_bytes(chunk)

    def sums_of(self, chunks: Sequence[T], rows: Sequence[int]) -> Sums | None:
        """As ``bytes_of``, for several chunks together; not by ``size_of``."""
        if self._row_bytes is not None:
            return RunSums(rows, ((len(rows), ceil(sum(rows) * self._row_bytes)),))
        return sums_of_bytes(chunks)

    def send_now(self, chunks: Sequence[T], rows: Sequence[int], sums: Sums | None) -> int:
        """Send chunks from the first on, until one may not leave; return how many."""
        count = self.sender.send_now(rows, sums)
        size_bytes = None if sums is None else sums[count]
        if count == len(rows):
            self.receiver.deliver_many(chunks, rows, size_bytes)
        else:
            self.receiver.deliver_many(chunks[:count], rows[:count], size_bytes)
        if self.takers.futures:
            self.takers.wake()
        self._bring_back()
        return count

    def park(self, *offered: Offered[T]) -> ParkedSend[T]:
        """Queue the offered messages; those that may leave now have left."""
        parked = self.line.park(*offered)
        if parked.sent or self._announces or self._adapts:
            self._bring_back()
            if self._announces or self._adapts:
                self.line.go(parked)
        return parked

    def _hear(self, feedback: AnyFeedback) -> None:
        self.sender.on_feedback(feedback)
        if self._stopped.running:
            self._stopped.follow(self.sender.is_stopped)

    async def leave(self, parked: ParkedSend[T]) -> None:
        """Wait until a queued send has left, or was refused; a cancellation withdraws it."""
        if parked.is_over:
            return
        try:
            await self.line.leave(parked)
        finally:
            if not parked.is_refused:  # behind a refusal nothing may leave, and nothing is counted
                self.advance()

    def advance(self) -> None:
        """Send all messages that may leave now, after new room or a withdrawn send."""
        if self.line.parked:
            self.line.advance()
        if self.sender.can_send_watermark():
            self.takers.deliver(self.sender.send_watermark())
        self._bring_back()
        if self.takers.futures:
            self.tell_if_over()

    def bring_feedback(self) -> None:
        """Pass the receiver's feedback to the sender."""
        feedback = self._take_feedback()
        if self._unreturned.unreturned_bytes and (feedback is not None or self._unreturned.is_due):
            self.outstanding.on_return(self._unreturned.take())
            if feedback is None and self.sender.has_waiting:
                self.advance()
        if feedback is not None:
            self._hear(feedback)
            if self.sender.has_waiting:
                self.advance()
        if self.takers.futures:
            self.tell_if_over()

    def _take_feedback(self) -> AnyFeedback | None:
        receiver = self.receiver
        if not self._adapts:
            return receiver.take_feedback()
        receiver.observe(self._clock())
        due: AnyFeedback | None = receiver.take_feedback(residue=False)
        # A consumer that takes all at once is not idle.  The sender is here: only a chunk that waits needs the rest.
        return receiver.take_feedback() if due is None and self.sender.has_waiting else due

    def ask(self) -> bool:
        """Let the receiver request what it has withheld, because its application asks; was there something?"""
        is_due = self.receiver.ask()
        if is_due:
            self.bring_feedback()
        return is_due

    def _bring_back(self) -> None:
        # Some flows have feedback as soon as a message, or an announcement, has arrived.
        while True:
            if self._announces and (told := self.sender.take_announcement()) is not None:
                self.receiver.on_announcement(told)
            if (feedback := self._take_feedback()) is None:
                return
            self._hear(feedback)
            if not (self._announces or self._adapts):
                return
            if self.line.parked:
                self.line.advance()

    # The end of the channel.

    @property
    def is_over(self) -> bool:
        """Is no message left to take, and can none arrive?"""
        if self.sending is _Sending.OPEN and not self.is_receiver_closed:
            return False
        if self.receiver.untaken:
            return False
        return self.sender.may_end if self.sending is _Sending.ENDED else not self.sender.has_waiting

    def tell_if_over(self) -> None:
        """Wake the tasks that wait for a message, if none can arrive."""
        if self.is_over:
            self.takers.wake_all()

    def ending(self) -> PermitflowError:
        """Why no message can arrive, on a channel that is over."""
        if self.is_receiver_closed:
            return ChannelClosedError(end="receiver")
        if self.sending is _Sending.ABORTED:
            return ChannelAbortedError(channel=self.name, reason=self._reason)
        if self.sending is _Sending.CLOSED:
            return PeerGoneError(who=f"the sender of channel {self.name!r}", reason="it was closed before the end")
        self._stop_clock()
        return EndOfStream()

    def refusal(self, undelivered: object) -> PermitflowError:
        """Why no message may be sent."""
        if self.is_cancelled:
            return ChannelCancelledError(channel=self.name, reason=self._reason, undelivered=undelivered)
        if self.is_receiver_closed and self.sending in (_Sending.OPEN, _Sending.ENDED):
            who = f"the receiver of channel {self.name!r}"
            return PeerGoneError(who=who, reason="it was closed", undelivered=undelivered)
        return ChannelClosedError(end="sender", undelivered=undelivered)

    def end(self) -> None:
        """End the stream after the messages that wait now."""
        self._refuse()
        self.sending = _Sending.ENDED
        self.tell_if_over()

    def abort(self, reason: str) -> None:
        """Abort the stream: drop all messages."""
        self.sending = _Sending.ABORTED
        self._reason = reason
        self.receiver.drop()
        self._stop()

    def close_sender(self) -> None:
        """Close the sender without an end: keep the messages that have left, drop those that wait."""
        self.sending = _Sending.CLOSED
        self._stop()

    def close_receiver(self) -> None:
        """Close the receiver: drop all messages."""
        self.is_receiver_closed = True
        self.receiver.drop()
        self._stop()

    def cancel(self, reason: str) -> None:
        """Close the receiver because it needs no more messages."""
        if not self.is_receiver_closed and self.sending in (_Sending.OPEN, _Sending.ENDED):
            self.is_cancelled, self._reason = True, reason
            self.is_receiver_closed = True
            self._stop()
            self.receiver.discard()
            self._bring_back()

    def _stop(self) -> None:
        self._stop_clock()
        self._refuse()
        self._stopped.follow(False)
        self.sender.withdraw_all()
        self.line.refuse_all()
        self.tell_if_over()

    def _refuse(self) -> None:
        self.accepts = False
        self.stopped_accepting.note()

    def _stop_clock(self) -> None:
        if self._over_at is None:
            self._over_at = self._clock()

    @property
    def waiting_sends(self) -> int:
        """Sends that wait for permits."""
        return len(self.line.parked)

    def statistics(self) -> ChannelStatistics:
        """A snapshot of this end's counts."""
        sender, receiver = self.sender, self.receiver
        now = self._clock() if self._over_at is None else self._over_at
        return ChannelStatistics(
            name=self.name,
            window_rows=self.parameters.window_rows,
            sent_chunks=sender.totals.chunks,
            sent_rows=sender.totals.rows,
            rows_held=sender.rows_held,
            peak_rows_held=sender.peak_rows_held,
            consumed_chunks=receiver.consumed_chunks,
            consumed_rows=receiver.consumed_rows,
            peak_inbox_rows=receiver.peak_inbox_rows,
            inbox_rows=receiver.inbox_rows,
            byte_window=self.outstanding.window.window_bytes,
            bytes_held=self.outstanding.outstanding_bytes,
            peak_bytes_held=self.outstanding.peak_bytes,
            inbox_bytes=self._unreturned.inbox_bytes,
            waiting_sends=self.waiting_sends,
            waiting_seconds=self._waiting.seconds,
            stopped_seconds=self._stopped.seconds,
            open_seconds=now - self._opened_at,
            gauges=sender.gauges() | receiver.gauges(),
        )


class _LocalEnd(Generic[T]):
    """The common part of both ends."""

    def __init__(self, channel: _Channel[T]) -> None:
        """Use ``open_channel``."""
        self._channel = channel

    @property
    def name(self) -> str:
        """The channel's name."""
        return self._channel.name

    @property
    def parameters(self) -> Parameters:
        """The channel's parameters."""
        return self._channel.parameters

    def statistics(self) -> ChannelStatistics:
        """A snapshot of this end's counts."""
        return self._channel.statistics()

    def __enter__(self) -> Self:
        """Close this end at the end of the block."""
        return self


class LocalSender(_LocalEnd[T], SendingEnd[T]):
    """The sending end; ``SendEnd`` documents each method."""

    def __init__(self, channel: _Channel[T]) -> None:
        """Use ``open_channel``."""
        super().__init__(channel)
        self._core = channel.sender
        self._most_rows = channel.parameters.most_rows
        self._stopped_accepting = channel.stopped_accepting

    def send_nowait(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk now, whole or not at all."""
        if not self._send_one(chunk, rows):
            super().send_nowait(chunk, rows)

    async def send(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk; wait until there are permits for it."""
        if not self._send_one(chunk, rows):
            await super().send(chunk, rows)

    def _send_one(self, chunk: T, rows: int | None) -> bool:
        rows = rows_of(chunk) if rows is None else whole_rows(rows)
        if self._most_rows is not None and rows > self._most_rows:
            return False
        size_bytes = self._channel.bytes_of(chunk, rows)
        sums = None if size_bytes is None else (0, size_bytes)
        return self._channel.accepts and self._channel.send_now((chunk,), (rows,), sums) > 0

    @property
    def sendable_rows(self) -> int:
        """About how many rows may leave now."""
        return self._core.room_rows

    def send_at_once(self, chunks: Sequence[T], rows: Sequence[int], sums: Sums | None = None) -> int:
        """Send the first chunks that may leave now; return how many."""
        return self._channel.send_now(chunks, rows, sums) if self._channel.accepts else 0

    async def until_room(self, chunks: Sequence[T], rows: Sequence[int], at_hand: Callable[[], Sequence[int]]) -> bool:
        """False: several tasks may send, and wait in line."""
        return False

    def _send_first(self, chunks: deque[T]) -> int:
        # It stops at a chunk whose rows or bytes cannot be counted.
        first: list[T] = []
        sizes: list[int] = []
        sizes_bytes: list[int] = []
        left, size_of = self._core.room_rows, self._channel.size_of
        try:
            for chunk in chunks:
                rows = rows_of(chunk)
                if (left := left - rows) < 0:
                    break
                if size_of is not None:
                    sizes_bytes.append(size_of(chunk))
                first.append(chunk)
                sizes.append(rows)
        except PermitflowError:
            pass  # its turn comes
        sums = self._channel.sums_of(first, sizes) if size_of is None else [*accumulate(sizes_bytes, initial=0)]
        # Counting rows and bytes runs the chunks' code, which may have sent messages or closed the channel.
        return self._channel.send_now(first, sizes, sums) if self._channel.accepts else 0

    def _cut(self, chunk: T, rows: int | None) -> Pieces[T]:
        rows = rows_of(chunk) if rows is None else whole_rows(rows)
        most = self.parameters.most_rows
        size_bytes = self._channel.bytes_of(chunk, rows)
        if most is None or rows <= most:
            return [(chunk, rows, size_bytes)]
        pieces = sized_slices(chunk, rows, most)
        return [(piece, size, None if size_bytes is None else -(-size_bytes * size // rows)) for piece, size in pieces]

    def _queue(self, kind: Kind, payload: T, rows: int = 0, size_bytes: int | None = None) -> Offered[T]:
        return self._core.offer(kind, payload, rows, size_bytes)

    def _offer_watermark(self, value: T) -> None:
        self._core.offer_watermark(value)

    def _line_up(self, offered: Sequence[Offered[T]]) -> ParkedSend[T]:
        return self._channel.park(*offered)

    async def _leave(self, parked: ParkedSend[T]) -> None:
        await self._channel.leave(parked)

    def _advance(self) -> None:
        self._channel.advance()

    @property
    def _waiting_sends(self) -> int:
        return self._channel.waiting_sends

    @property
    def _is_open(self) -> bool:
        return self._channel.accepts

    def _refusal(self, undelivered: object) -> PermitflowError:
        return self._channel.refusal(undelivered)

    def end_nowait(self) -> None:
        """End the stream: ``end`` for callers that cannot await.

        Raises:
            ChannelClosedError: this end was closed or aborted before.
            PeerGoneError: the receiver is gone.
        """
        if self._channel.sending is not _Sending.ENDED and not self._channel.is_cancelled:
            self._require_open(None)
            self._channel.end()

    async def end(self) -> None:
        """End the stream, after all waiting messages.  Does not wait."""
        self.end_nowait()

    def abort(self, reason: str) -> None:
        """Give the stream up."""
        if self._channel.sending in (_Sending.OPEN, _Sending.ENDED) and not self._channel.is_over:
            self._channel.abort(reason)

    def close(self) -> None:
        """Release this end."""
        if self._channel.sending is _Sending.OPEN:
            self._channel.close_sender()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close, or abort after an exception."""
        if error is not None:
            self.abort(f"{type(error).__name__}: {error}")
        self.close()

    def __repr__(self) -> str:
        channel = self._channel
        return (
            f"<LocalSender {channel.name!r} {channel.sending.value}, room for {self._core.room_rows} rows, "
            f"{channel.waiting_sends} waiting>"
        )


class Purged(NamedTuple):
    """What was dropped."""

    messages: int = 0
    rows: int = 0
    barriers: int = 0


class LocalReceiver(_LocalEnd[T], ReceivingEnd[T]):
    """The receiving end; ``ReceiveEnd`` documents each method."""

    def __init__(self, channel: _Channel[T]) -> None:
        """Use ``open_channel``."""
        super().__init__(channel)
        self._core = channel.receiver
        self._line = channel.takers

    def aim_at(self, latency_seconds: float) -> None:
        """Adapt the window from now on, so that rows wait here about this long, by what this end consumes.

        Raises:
            InvalidParametersError: the latency is not above 0 and at most an hour, this end is recorded, or the flow
                is not that of permits.
        """
        self._channel.aim_at(latency_seconds)

    async def receive(self) -> Message[T]:
        """Receive the oldest message; wait until there is one."""
        if self._line.spare <= 0:
            self._core.require_none_taken()
            await self.until_takeable()
        return self._receive_now()

    def _advance(self) -> None:
        self._channel.bring_feedback()

    def _taken(self) -> None:
        self._channel.tell_if_over()

    def _spare(self) -> int:
        return self._line.spare

    async def until_takeable(self) -> bool:
        """Wait until this task may take the oldest message; has it waited?"""
        has_waited = False
        while self._line.spare <= 0:
            if self._channel.is_over:
                raise self._channel.ending()
            if not self._channel.ask():
                await self._line.until_woken()
                has_waited = True
        return has_waited

    def _require_takeable(self) -> None:
        if self._line.spare > 0:
            return
        if self._channel.is_over:
            raise self._channel.ending()
        self._channel.ask()
        if here := self._core.untaken:
            raise WouldBlock(f"the {here} messages here belong to tasks that have waited for them")
        raise WouldBlock("no message is here")

    def _require_consumable(self) -> None:
        if self._channel.is_receiver_closed or self._channel.sending is _Sending.ABORTED:
            raise self._channel.ending()

    @property
    def unconsumed(self) -> int:
        """Unconsumed messages that are here, taken or not."""
        return self._core.unconsumed

    def purge(self) -> Purged:
        """Consume all messages that are here, unused: their permits return, and the stream goes on.

        Raises:
            LocalProtocolError: the application holds a message, which has to be consumed first; nothing was dropped.
            ChannelClosedError, ChannelAbortedError: as for ``consume``.

        Spec: Consume.
        """
        self._require_consumable()
        core, messages = self._core, self._core.untaken
        rows = core.consumed_rows
        taken = core.consume_oldest(messages)
        barriers = sum(isinstance(entry, Message) and entry.kind is Kind.BARRIER for entry in taken)
        rows = core.consumed_rows - rows
        self._advance()
        return Purged(messages, rows, barriers)

    async def cancel(self, reason: str = "it needs no more") -> None:
        """End the stream from this end: need no more messages.  Does not wait."""
        self.cancel_nowait(reason)

    def cancel_nowait(self, reason: str) -> None:
        """As ``cancel``, for callers that cannot await."""
        self._require_no_group()
        self._channel.cancel(reason)

    def close(self) -> None:
        """Release this end."""
        if not self._channel.is_receiver_closed:
            self._channel.close_receiver()

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._channel.is_receiver_closed else "open"
        here, waiting = self._core.untaken, len(self._line.futures)
        return f"<LocalReceiver {self._channel.name!r} {state}, {here} messages here, {waiting} waiting>"
