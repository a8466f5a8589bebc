"""The exchange for callers without an event loop: Spark's workers, scripts, threads.

Behind each end is an end of ``aio``, which keeps the ledger; a task in the process's background loop holds it
open.  A queue connects the two threads, so that a call seldom waits for the loop.  Every wait ends after
``timeout_seconds`` without progress, with an error that names the channel, the address and the likely cause; a peer
that vanishes is detected within seconds, whatever the time-out.  One thread at a time may use an end.  An end that is
dropped without ``close`` hangs up, with a ResourceWarning.

**Buffers.**  ``send`` returns once a batch is queued.  It waits only while the queue holds half a window, or an
eighth of it in 512 KiB; so a later ``send`` or ``end`` reports errors.  A source reads half a window ahead.

**Signals.**  A signal's handler may raise an exception at any moment of a call, for example KeyboardInterrupt, and the
caller may continue afterwards: no row is lost or duplicated.  An interrupted call has done all of its work or nothing;
for ``send``, ``BlockingSink.accepted_rows`` tells which.

**Forks.**  A child cannot use its parent's ends.  gRPC must not be loaded before a fork whose child will use
it: import this module in the child.
"""

import asyncio
import math
import sys
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, wraps
from time import monotonic
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar, Unpack

import pyarrow as pa

from permitflow.carriers.addresses import several
from permitflow.carriers.deadlines import require_seconds
from permitflow.carriers.same_host import SameHost
from permitflow.carriers.security import Security
from permitflow.channels.interface import require_count
from permitflow.channels.statistics import ChannelStatistics
from permitflow.chunks import slices
from permitflow.client import aio, aio_control
from permitflow.client.aio import ChannelDescription
from permitflow.client.aio_control import AioControl
from permitflow.client.background import background
from permitflow.client.diagnosis import NO_ROWS, NO_SCHEMA, Cause, consumed, timed_out, unsent
from permitflow.client.held import AHEAD_SHARE, Entry, Held, HeldReceiver, HeldSender, QueuedBarrier, ahead_rows
from permitflow.client.options import GetOptions, PutOptions
from permitflow.client.remote_sender import LEFT_WITHOUT_END, left_by, warn_of_leaving
from permitflow.client.survey import Survey
from permitflow.errors import (
    ChannelClosedError,
    EndOfStream,
    ForkedError,
    InvalidParametersError,
    PeerTimeoutError,
    PermitflowError,
    ResumeTimeoutError,
    TransportError,
)
from permitflow.flows.byte_window import ByteWindow
from permitflow.flows.messages import Kind, Message
from permitflow.flows.seam import Parameters
from permitflow.stream.compression import Compression
from permitflow.stream.frames import EndOutcome
from permitflow.stream.traffic import ChannelTraffic
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.codec import Marker, checked_marker
from permitflow.wire.joined import JoinedChunks
from permitflow.wire.wire_errors import SILENT, copy_error

__all__ = [
    "BlockingControl",
    "BlockingSink",
    "BlockingSource",
    "Compression",
    "EndOutcome",
    "JoinedChunks",
    "SameHost",
    "control",
    "open_sink",
    "open_source",
    "probe",
    "require_single_places",
]

DEFAULT_TIMEOUT_SECONDS = 60.0

# A cancelled task ends at once; this only keeps a defect from hanging the caller.
_JOIN_SECONDS = 5.0
_AHEAD_BYTES = 512 << 10
_ALONE_SHARE = 1 / 8  # of the queue's bound: a batch that is worth a message of its own
_CHECKS = 4  # for progress, in the time of a time-out, which may come later by as much as lies between two
_STOOD_STILL_SECONDS = 1.0  # a thread that wakes so late was not running
# An aborted stream waits only for the confirmation; without it the exchange sees a broken stream, which its consumers
# treat alike.
_ABORT_SECONDS = 5.0
# The waiting thread enforces the time-outs.
_NEVER_SECONDS = math.inf


P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound=Held[Any])
R = TypeVar("R", bound=HeldSender | HeldReceiver)


def _required(timeout_seconds: float) -> float:
    if not timeout_seconds > 0:
        raise InvalidParametersError(name="timeout_seconds", value=timeout_seconds, rule="must be above 0")
    return timeout_seconds


class _Blocking(Generic[H]):
    """The caller's side of an object that the loop holds open; a context manager."""

    END: str

    def __init__(self, held: H, timeout_seconds: float) -> None:
        self.timeout_seconds = _required(timeout_seconds)
        """The longest wait; it may be changed between two calls."""
        self._held = held
        self._is_closed = False
        self._hang_up = weakref.finalize(self, _hang_up, held)
        self._hang_up.atexit = False

    def droppable(self) -> Self:
        """Return this end; dropped, it hangs up without a warning: for an owner that is never closed."""
        self._hang_up.detach()
        self._hang_up = weakref.finalize(self, lambda held: held.release(), self._held)
        self._hang_up.atexit = False
        return self

    def _require_here(self) -> None:
        if self._held.background.is_inherited:
            raise ForkedError(what=f"the {self._held.what} cannot be used")

    def _require_open(self) -> None:
        self._require_here()
        if self._is_closed or not self._held.background.is_alive:
            raise ChannelClosedError(end=self.END)

    def close(self) -> None:
        """Release this end in any state; never waits for the peer.  Closing twice is harmless.

        Exception: after a wrong message of the peer it waits at most a second until the peer was told.
        """
        self._is_closed = True
        self._held.release()
        self._hang_up.detach()
        self._held.wait_until_over(_JOIN_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self.close()


def _hang_up(held: Held[Any]) -> None:
    """Hang up after the caller has dropped its end; called in any thread."""
    if held.is_open:
        held.release()
        advice = "close it, or use it in a with block"
        warnings.warn(f"the {held.what} was dropped and hangs up: {advice}", ResourceWarning, stacklevel=2)


class _BlockingStream(_Blocking[R]):
    """The common part of both ends of a stream."""

    stream: str
    """The exchange's name for this stream, as in traces; equal at both ends."""
    parameters: Parameters
    """The agreed parameters."""
    first_row: int | None
    """The row at which the stream begins, if its channel keeps its rows.

    A source has the number of the first row that follows.  A sink with a producer's name has the number of this
    producer's rows that were kept before, which is the number of the next row to send.
    """
    schema: pa.Schema
    """The schema of all batches."""
    _window: ByteWindow

    def __init__(self, address: str, channel: str, held: R, timeout_seconds: float, security: Security | None) -> None:
        self.name = channel
        """The channel's name."""
        self._address, self._security = address, security
        self._is_breaking_off = self._has_told_failure = False
        super().__init__(held, timeout_seconds)

    def _open(self, in_vain: Cause) -> None:
        """Wait for the agreement; any failure, including an interrupt, releases everything."""
        held = self._held
        try:
            held.begin()
            self._wait_for(lambda: held.agreed is not None or held.is_over, lambda: in_vain)
            if held.agreed is None:
                self._raise_failure()
            self.stream, self.parameters, self.first_row, self.schema, self._window = held.agreed
        except BaseException:
            self.close()
            raise

    def statistics(self) -> ChannelStatistics:
        """This end's counts so far; of buffered messages, those that the loop has handled."""
        end = self._held.end
        return replace(self._held.last_statistics if end is None else end.statistics(), name=self.stream)

    def _raise_failure(self, undelivered: object = None) -> NoReturn:
        """Raise the error that ended the stream, for one more caller."""
        self._has_told_failure = True
        failure = self._failure or ChannelClosedError(end=self.END)
        if isinstance(failure, PermitflowError):
            raise copy_error(failure, undelivered)
        raise TransportError.of(what=f"the {self._held.what} failed", cause=failure)

    @property
    def _failure(self) -> BaseException | None:
        held, end = self._held, self._held.end
        return held.failure or (None if end is None else end.failure)

    def _wait_for(self, is_done: Callable[[], bool], why: Callable[[], Cause]) -> None:
        """Wait until ``is_done``, as long as the stream makes progress.

        Raises:
            PeerTimeoutError: no progress for ``timeout_seconds``.
        """
        silent_since, before = monotonic(), self._progress()
        while not is_done():
            until = silent_since + self.timeout_seconds
            wake_at = min(until, monotonic() + self.timeout_seconds / _CHECKS)
            if self._held.wait(wake_at):
                continue
            if monotonic() - wake_at > _STOOD_STILL_SECONDS:
                # A machine that slept has heard nothing, whatever was sent.
                silent_since = max(silent_since, monotonic() - self.timeout_seconds / 2)
            if (progress := self._progress()) != before:
                silent_since, before = monotonic(), progress
            elif monotonic() >= silent_since + self.timeout_seconds:
                raise self._held.background.run(partial(self._timed_out, why()))

    async def _timed_out(self, cause: Cause) -> PeerTimeoutError:
        """The error of a wait that was too long; in the loop."""
        end = self._held.end
        since = None if end is None else end.suspended_since
        if since is None:
            return await timed_out(self._address, self.name, self.timeout_seconds, cause, self._security)
        lost_seconds = asyncio.get_running_loop().time() - since
        reason = (
            f"its connection has been lost for {lost_seconds:.1f} s, and is dialled again; timeout_seconds is "
            f"{self.timeout_seconds:g}, and nothing waits longer, also where resume_seconds is more"
        )
        return PeerTimeoutError(who=f"the exchange at {self._address} (channel {self.name!r})", reason=reason)

    def _progress(self) -> object:
        """A value that changes as long as the stream makes progress unseen by the caller."""
        return None

    def _break_off(self, tell: Callable[[], None]) -> None:
        """Let the loop tell the peer, and close; harmless if the stream is over, or the exchange is gone."""
        try:
            self._begin_to_break_off(tell)
        finally:
            self.close()

    def _begin_to_break_off(self, tell: Callable[[], None]) -> None:
        if not self._is_closed and self._held.background.is_alive:
            self._is_closed = self._is_breaking_off = True
            self._held.background.call(tell)

    def close(self) -> None:
        """Release this end in any state; waits for the peer only if it is being told why.  Twice is harmless."""
        try:
            if self._is_breaking_off:
                self._held.wait_until_over(min(self.timeout_seconds, _ABORT_SECONDS))
        finally:
            super().close()


class BlockingSink(_BlockingStream[HeldSender]):
    """The upstream end of a channel.

    Leaving its context with an exception, or without ``end``, aborts the stream; a named producer's stream is only
    closed, since the producer can reconnect and continue.  Queued batches are dropped then: only ``end`` ensures that
    all have left.
    """

    END = "sender"

    def __init__(
        self, address: str, channel: str, schema: pa.Schema, timeout_seconds: float, options: PutOptions
    ) -> None:
        self._batches = BatchCodec(schema)
        self._can_resume = bool(options.get("producer"))
        self._is_staged = options.get("staging") is not None
        self._has_queued = False
        # The queue's share of its bound, or more: it counts since the queue was last seen empty.
        self._filled = 0.0
        never = _NEVER_SECONDS
        opening = aio.put(
            address, channel, schema, connect_timeout_seconds=None, agreement_timeout_seconds=never, **options
        )
        super().__init__(
            address,
            channel,
            HeldSender(opening, f"{self.END} of channel {channel!r}"),
            timeout_seconds,
            options.get("security"),
        )
        self._open(Cause("it takes streams slowly: is it overloaded?"))

    @property
    def accepted_rows(self) -> int:
        """Rows of all batches that ``send`` has queued: tells after an interrupt whether a batch is among them."""
        self._require_here()
        return self._held.background.run(self._held.counted)

    def send(self, batch: pa.RecordBatch) -> None:
        """Queue a chunk; wait while the queue is full.  A large chunk leaves in slices.

        After an interrupt it is queued as a whole, or not: see ``accepted_rows``.  After a time-out it is not.

        Raises:
            ChannelClosedError: this end was closed, or is ending.
            SchemaMismatchError: the batch has another schema than the stream.
            ChunkTooLargeError: a single row of it is too large for one message.
            PeerTimeoutError: nothing could leave for ``timeout_seconds``; ``undelivered`` is a list of this batch.
            PeerGoneError: the exchange or the consumer is gone; ``undelivered`` is a list of all batches that did not
                leave, of this call and of earlier ones, as far as this end knows.

        Spec: OfferChunk, SendChunk, WithdrawChunk.
        """
        self._require_open()
        held, parts, batches = self._held, [batch], self._batches
        if held.wanted_end is not None:
            raise ChannelClosedError(end=self.END, undelivered=parts)
        most = self.parameters.most_rows
        if most is not None and isinstance(batch, pa.RecordBatch) and batch.num_rows > most:
            parts = list(slices(batch, most))
        if len(batches.accepted(parts)[0]) < len(parts):
            parts = batches.cut(batch, most)
        self._queue(parts, parts, self._share_of(batch))

    def send_barrier(self, payload: object = None) -> None:
        """Queue a barrier behind all batches that were sent before; wait while the queue is full.

        After an interrupt it is queued, or not; after a time-out it is not.  A barrier with a number may be sent again
        to a channel that keeps its rows.

        Raises:
            ChannelClosedError: this end was closed, or is ending.
            InvalidParametersError: the payload cannot travel over the wire.
            PeerTimeoutError: nothing could leave for ``timeout_seconds``.
            PeerGoneError: as for ``send``.

        Spec: OfferBarrier, SendBarrier.
        """
        self._require_open()
        checked_marker(payload, name="barrier")
        if self._held.wanted_end is not None:
            raise ChannelClosedError(end=self.END)
        self._queue([QueuedBarrier(payload)], (), 1 / AHEAD_SHARE)

    def _queue(
        self, items: Sequence[pa.RecordBatch | QueuedBarrier], batches: Sequence[pa.RecordBatch], size: float
    ) -> None:
        """Queue items, which take a share of the bound, once there is room; ``batches`` are those among them."""
        held = self._held
        line, end = held.line, held.end
        if end is None or end.failure is not None:
            self._raise_failure([*self._undelivered(), *batches])
        if not line:
            self._filled = 0.0
        elif self._filled >= 1:
            self._wait_for_room(batches)
        self._filled += size
        self._has_queued = True
        line.extend(items)
        if held.has_nothing_to_do:
            # Short ones leave two turns of the loop later: others that come meanwhile go with them, in one message.
            held.background.call(held.push if size >= _ALONE_SHARE else held.has_something_to_do.set)

    def _share_of(self, batch: pa.RecordBatch) -> float:
        """The batch's share of the queue's bound.

        It is half of the window, in rows and in bytes, or both an eighth of its rows and 512 KiB.
        """
        eighths, size_bytes = (
            (batch.num_rows or 1) / ahead_rows(self.parameters.window_rows),
            self._batches.size_of(batch),
        )
        in_windows = max(eighths / AHEAD_SHARE, size_bytes / self._window.window_bytes)
        return max(2 * in_windows, min(eighths, size_bytes / _AHEAD_BYTES))

    def _undelivered(self) -> list[pa.RecordBatch]:
        held = self._held
        if not held.background.is_alive:
            return [*held.leaving, *held.queued_batches()]
        return held.background.run(held.left_over)

    def _wait_for_room(self, parts: Sequence[pa.RecordBatch]) -> None:
        held = self._held
        try:
            self._wait_for(lambda: not held.line or held.has_stopped, self._why)
        except PeerTimeoutError as error:
            error.undelivered = [*parts]
            raise
        if held.has_stopped:
            self._raise_failure([*self._undelivered(), *parts])
        self._filled = 0.0

    def _progress(self) -> object:
        end = self._held.end
        if end is None:
            return None
        if end.is_finished:
            # From here on this end waits for the channel's consumer.
            return self._held.background.run(lambda: consumed(self._address, self.name, self._security))
        statistics = end.statistics()
        return statistics.sent_rows, statistics.rows_held

    def _why(self) -> Cause:
        if (end := self._held.end) is None or end.is_finished:
            finding = "not everything that was sent was consumed"
        else:
            finding = self._held.background.run(self._held.lack) or "nothing leaves"
        return unsent(finding, is_staged=self._is_staged)

    def end(self, *, closes_channel: bool = True, until: EndOutcome = EndOutcome.CONSUMED) -> EndOutcome:
        """Send the queue and the end of the stream, and wait for the outcome.

        It is ``CONSUMED`` once the channel's consumer has consumed all that was in the channel when the end came.  It
        is ``ACCEPTED``, at once, if no consumer is connected, or if the channel keeps its rows.  After an interrupt or
        a time-out it can be called again, and continues to wait.

        Args:
            closes_channel: no other producer will put into the channel, so that its consumers reach the end as well.
            until: ``ACCEPTED`` does not wait for a consumer, even if one is connected.

        Raises:
            ChannelClosedError: this end was closed, or has ended before.
            PeerTimeoutError: nothing left, no answer came, and no row was consumed, in ``timeout_seconds``.
            PeerGoneError: the exchange is gone, or the channel has lost its consumer, with rows that it held;
                ``undelivered`` is a list of the batches that did not leave, as far as this end knows.
            ChannelAbortedError: another producer has broken the channel.
            LedgerError: the exchange has not returned all permits.
        """
        self._require_open()
        held = self._held
        if held.wanted_end is None:
            held.wanted_end = closes_channel, until
        held.background.call(held.has_something_to_do.set)
        self._wait_for(lambda: held.is_over, self._why)
        if held.failure is not None or held.outcome is None:
            self._raise_failure(self._undelivered())
        self._is_closed = True
        return held.outcome

    def abort(self, reason: str) -> None:
        """Abort the stream: the channel's consumers raise ``ChannelAbortedError`` with this reason.

        Harmless if the stream is over, or the exchange is gone.
        """
        self._break_off(lambda: self._held.abort(reason))

    def begin_abort(self, reason: str) -> None:
        """Abort as ``abort`` does, but leave it to ``close`` to wait for that: for who aborts several."""
        self._begin_to_break_off(lambda: self._held.abort(reason))

    @property
    def _lacks_end(self) -> bool:
        held = self._held
        is_open = not self._is_closed and not self._has_told_failure and held.background.is_alive
        return is_open and held.wanted_end is None

    def close(self) -> None:
        """Release this end in any state; waits for the peer only behind ``begin_abort``, for 5 s at most.

        Closing twice is harmless.  Without ``end``, batches that are still queued are dropped; a warning says so,
        unless an exception does.  So it does where the stream has failed, and no call has raised that.
        """
        if self._has_queued and self._lacks_end and sys.exception() is None:
            warn_of_leaving(self.name, self._failure)
        super().close()

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Abort after an exception or without an end, unless the producer can reconnect; then close."""
        try:
            self.leave(error)
        finally:
            self.close()

    def leave(self, error: BaseException | None) -> None:
        """Begin to abort as the end of a block does that is left, with an error or without one."""
        if self._can_resume:
            return
        if error is not None:
            self.begin_abort(left_by(error))
        elif self._lacks_end:
            warn_of_leaving(self.name, self._failure)
            self.begin_abort(LEFT_WITHOUT_END)


class BlockingSource(_BlockingStream[HeldReceiver]):
    """The downstream end of a channel; iterating over it yields the chunks.

    The permits of a message return when the caller asks for the next one, or at the end; while other messages are
    buffered, the permits of a few return together.
    """

    END = "receiver"

    def __init__(self, address: str, channel: str, timeout_seconds: float, options: GetOptions) -> None:
        self._told = 0  # the number of messages that the loop knows to be consumed
        opening = aio.get(
            address, channel, connect_timeout_seconds=None, agreement_timeout_seconds=_NEVER_SECONDS, **options
        )
        super().__init__(
            address,
            channel,
            HeldReceiver(opening, f"{self.END} of channel {channel!r}"),
            timeout_seconds,
            options.get("security"),
        )
        self._open(NO_SCHEMA)

    def cancel(self, reason: str = "it needs no more") -> None:
        """End the stream from this end, and close it: no more messages are needed; see ``ReceiveEnd.cancel``.

        Harmless if the stream is over, or the exchange is gone.
        """
        self._break_off(lambda: self._held.cancel(reason))

    def receive(self) -> Message[pa.RecordBatch | Marker]:
        """Receive the next message of any kind; the one before counts as consumed.

        After an interrupt or a time-out it can be called again, and nothing is lost: the unreturned message comes next.

        Raises:
            EndOfStream: the sender has ended the stream, and all of it was received.
            ChannelAbortedError: the sender gave the stream up.
            ChannelClosedError: this end was closed.
            PeerTimeoutError: nothing came in ``timeout_seconds``.
            PeerGoneError: the sender is gone without having ended the stream.
            UndecodableDataError: the chunk contradicts the handshake.

        Spec: Consume, Flush.
        """
        held, entry = self._held, self._oldest()
        payload, handed = entry.payload, held.handed
        if isinstance(payload, JoinedChunks):
            at = handed - entry.start
            payload = Message(Kind.CHUNK, payload[at], payload.rows[at])
        self._tell_in_time(entry, handed + 1)
        # No call follows before the caller's own code, so that no signal is handled in between.
        held.handed = handed + 1
        return payload

    def receive_joined(self, max_rows: int | None = None) -> JoinedChunks | Message[Marker]:
        """Receive the oldest chunks that came as rows of one batch; those before count as consumed.

        As ``receive``, for consumers that read many chunks at once: the batch is not sliced.  Waits only for the first
        chunk.  A barrier or watermark is received alone, in its place.

        Args:
            max_rows: of all these chunks together; a chunk that has more comes alone.

        Raises:
            InvalidParametersError: ``max_rows`` is not a whole number of at least 1.
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerTimeoutError, PeerGoneError, UndecodableDataError:
                as for ``receive``.

        Spec: Consume, Flush.
        """
        if max_rows is not None:
            require_count(max_rows, name="max_rows")
        held, entry = self._held, self._oldest()
        payload, handed = entry.payload, held.handed
        following = entry.stop
        if isinstance(payload, JoinedChunks):
            payload = payload.part(handed - entry.start, max_rows)
            following = handed + len(payload.rows)
        self._tell_in_time(entry, following)
        # As in ``receive``.
        held.handed = following
        return payload

    def _oldest(self) -> Entry:
        """The oldest entry not yet handed over; this call implies that those handed over are consumed."""
        self._require_open()
        held = self._held
        held.consumed = handed = held.handed
        ahead = held.ahead
        while ahead and ahead[0].stop <= handed:
            ahead.popleft()
        if not ahead:
            self._tell_loop()
            self._wait_for(lambda: bool(ahead) or held.has_ended or held.has_stopped, lambda: NO_ROWS)
            if not ahead:
                self._raise_ending()
        return ahead[0]

    def _tell_in_time(self, entry: Entry, following: int) -> None:
        """Report consumed messages to the loop if they are many, or if the buffer gets empty."""
        held = self._held
        is_last = following == entry.stop and len(held.ahead) == 1
        if is_last or held.consumed - self._told >= held.owed_messages:
            self._tell_loop()

    def _tell_loop(self) -> None:
        held = self._held
        if self._told != held.consumed:
            held.background.call(held.settle)
            self._told = held.consumed

    def _raise_ending(self) -> NoReturn:
        held = self._held
        if held.has_ended:
            held.background.call(held.settle)
            self._wait_for(lambda: held.is_over, lambda: Cause("the exchange does not confirm the end of the stream"))
            if held.failure is None:
                self.close()
                raise EndOfStream
        self._raise_failure()

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
            # No call between the two: a signal's exception would end this generator and lose the received chunks.
            match received:
                case JoinedChunks():
                    yield received


def _asking(
    ask: Callable[Concatenate[AioControl, P], Awaitable[T]],
) -> Callable[Concatenate["BlockingControl", P], T]:
    """The method of a ``BlockingControl`` that asks so."""

    @wraps(ask)
    def method(self: "BlockingControl", /, *arguments: P.args, **options: P.kwargs) -> T:
        def asked(orders: AioControl) -> Awaitable[T]:
            # By its name: who speaks to several exchanges asks in another way.
            answered: Callable[P, Awaitable[T]] = getattr(orders, ask.__name__)
            return answered(*arguments, **options)

        return self._ask(asked)

    return method


class BlockingControl(_Blocking[Held[AioControl]]):
    """One stream of questions and orders; a context manager, for one thread at a time.

    An order that fails ends the stream: call ``control`` again for the next one.  An unanswered order may or may not
    have been carried out.  Arguments and errors are those of ``AioControl``.
    """

    END = "control stream"

    def __init__(
        self, address: str, timeout_seconds: float, resume_seconds: float | None, security: Security | None = None
    ) -> None:
        several(address)  # the first request dials
        require_seconds(resume_seconds=resume_seconds)
        self._who = f"the exchange at {address}"
        opening = aio_control.control(
            address,
            connect_timeout_seconds=None,
            reply_timeout_seconds=_NEVER_SECONDS,
            resume_seconds=resume_seconds,
            security=security,
        )
        super().__init__(Held(opening, f"{self.END} with {self._who}"), timeout_seconds)

    positions = _asking(AioControl.positions)
    acknowledge = _asking(AioControl.acknowledge)
    close_channels = _asking(AioControl.close_channels)
    prepare = _asking(AioControl.prepare)
    publish = _asking(AioControl.publish)
    discard = _asking(AioControl.discard)
    statistics = _asking(AioControl.statistics)
    channels = _asking(AioControl.channels)
    add_stream = _asking(AioControl.add_stream)
    remove = _asking(AioControl.remove)
    reset = _asking(AioControl.reset)
    purge = _asking(AioControl.purge)
    rollback = _asking(AioControl.rollback)
    peek = _asking(AioControl.peek)
    by_exchange = _asking(AioControl.by_exchange)

    def survey(self) -> Survey:
        """Where the channels are of which several exchanges were asked, and what was amiss when all were."""

        async def survey_of(orders: AioControl) -> Survey:
            return orders.survey

        return self._ask(survey_of)

    async def _answer(self, ask: Callable[[AioControl], Awaitable[T]]) -> T:
        if (orders := await self._held.opened()) is None:
            raise self._held.failure or ChannelClosedError(end=self.END)
        return await ask(orders)

    def _ask(self, ask: Callable[[AioControl], Awaitable[T]]) -> T:
        self._require_open()
        held = self._held
        try:
            held.begin()
            return held.background.run(lambda: self._answer(ask), self.timeout_seconds)
        except PermitflowError:
            raise  # it takes no more orders by itself
        except TimeoutError:
            self.close()
            reason = f"no reply within {self.timeout_seconds:.3g} s; {SILENT}"
            raise PeerTimeoutError(who=self._who, reason=reason) from None
        except BaseException:
            self.close()
            raise


def open_source(
    address: str, channel: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS, **options: Unpack[GetOptions]
) -> BlockingSource:
    """Read a channel of the exchange at ``address``; waits until the channel's schema is known.

    Of a channel that keeps its rows, any range that it still has can be read any number of times: reading acknowledges
    nothing.

    Args:
        address: as for ``aio.get``.
        channel: its name.
        timeout_seconds: the longest wait for the exchange, and for each chunk.
        options: ``wanted``, ``silence_seconds``, ``record``, ``same_host``, ``compression``, ``resume_seconds``,
            ``byte_window``, ``security``, ``consumer``, ``from_row``, ``to_row``, ``log_id``, ``columns``,
            ``with_time`` and ``target_latency_seconds``, as for ``aio.get``.
            The recorder is used in another thread.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0, the range is invalid, or this end does not have that
            codec.
        PeerTimeoutError: no agreement in time.
        PeerGoneError: no server answers at ``address``, or the channel has been read before.
        ForkedError: the address needs gRPC, and a parent process used gRPC before the fork.
        SameHostError, HandshakeError, ReplayError: as for ``aio.get``.
    """
    return BlockingSource(address, channel, timeout_seconds, options)


def probe(
    address: str,
    channel: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    resume_seconds: float | None = None,
    security: Security | None = None,
) -> ChannelDescription:
    """Ask for a channel's schema and parameters; its data stay in the channel.

    Raises the errors of ``open_source``.
    """
    describing = partial(
        aio.describe,
        address,
        channel,
        connect_timeout_seconds=None,
        agreement_timeout_seconds=_required(timeout_seconds),
        resume_seconds=resume_seconds,
        security=security,
    )
    try:
        return background().run(describing, timeout_seconds)
    except ResumeTimeoutError:
        raise
    except TimeoutError:
        raise background().run(partial(timed_out, address, channel, timeout_seconds, NO_SCHEMA, security)) from None


def require_single_places(
    address: str, channels: Sequence[str], *, spread_over: int = 0, security: Security | None = None
) -> tuple[ChannelTraffic, ...]:
    """Refuse channels that two of several exchanges have, or none; see ``aio_control.require_single_places``."""
    if len(several(address)) == 1:
        return ()
    asking = aio_control.require_single_places
    return background().run(partial(asking, address, channels, spread_over=spread_over, security=security))


def open_sink(
    address: str,
    channel: str,
    schema: pa.Schema,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    **options: Unpack[PutOptions],
) -> BlockingSink:
    """Feed a channel of the exchange at ``address`` with batches of ``schema``.

    Args:
        address: as for ``aio.put``.
        channel: its name.
        schema: of the batches that will be sent.
        timeout_seconds: the longest wait for the exchange, and for each permit.
        options: ``wanted``, ``silence_seconds``, ``record``, ``same_host``, ``compression``, ``resume_seconds``,
            ``byte_window``, ``security``, ``producer``, ``staging``, ``attempt``, ``total``, ``failed_job``,
            ``spread_over``, ``job_channels``, ``job_since_row`` and ``job_log_id``, as for ``aio.put``.  The recorder
            is used in another thread.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0, or this end does not have that codec.
        PeerTimeoutError: no agreement in time.
        PeerGoneError: no server answers at ``address``, or the channel has ended.
        ForkedError: the address needs gRPC, and a parent process used gRPC before the fork.
        SameHostError, HandshakeError, RetentionError, ChannelResetError, TaskRetryError: as for ``aio.put``.
    """
    return BlockingSink(address, channel, schema, timeout_seconds, options)


def control(
    address: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    resume_seconds: float | None = None,
    security: Security | None = None,
) -> BlockingControl:
    """Ask and order about channels of the exchange at ``address``; see ``BlockingControl``.

    A missing server is reported by the first request.

    Args:
        timeout_seconds: the longest wait for each reply.
        resume_seconds: how long an order is repeated whose connection was lost; as for ``aio_control.control``.
        security: as for ``aio_control.control``.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0, or ``address`` is malformed.
    """
    return BlockingControl(address, timeout_seconds, resume_seconds, security)
