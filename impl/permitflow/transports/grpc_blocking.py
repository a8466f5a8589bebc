"""The exchange for callers without an event loop: Spark's workers, scripts, threads.

Each end is one of ``grpc_aio``, held open by a task in the process's background loop, which keeps all of its books.
Between the two lies a queue, so that a call seldom waits for the other thread.  Every wait ends after
``timeout_seconds`` without any sign of progress, with an error that names the channel, the address and the likely
cause; a peer that vanishes is noticed within seconds, whatever the time-out.  One thread at a time may use an end.

**What is ahead.**  ``send`` returns once a batch is in line.  It waits only while half a window lies there, or an
eighth of it in 512 KiB; so what goes wrong is told by a later ``send`` or by ``end``.  A source reads half a window
ahead.

**Signals.**  A signal's handler may raise an exception at any moment of a call, KeyboardInterrupt for one, and the
caller may go on afterwards: no row is lost or comes twice.  A call that was interrupted has done nothing or all of it;
of a ``send``, ``BlockingSink.accepted_rows`` tells which.

**Forks.**  A child cannot use what its parent has opened.  gRPC must not be loaded before a fork whose child will use
it: import this module in the child.
"""

import asyncio
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Generic, NoReturn, Self, TypeVar

import pyarrow as pa

from permitflow.channels.interface import require_count
from permitflow.channels.statistics import ChannelStatistics
from permitflow.chunks import slices
from permitflow.errors import (
    ChannelClosedError,
    EndOfStream,
    ForkedError,
    InvalidParametersError,
    PeerTimeoutError,
    PermitflowError,
    TransportError,
)
from permitflow.protocol.compression import Compression
from permitflow.protocol.control import ChannelRow, Discarded, Published, StagedPart
from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import EndOutcome, Staging
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.session import State
from permitflow.protocol.traffic import Statistics
from permitflow.transports import grpc_aio
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.background import background
from permitflow.transports.codec import Marker
from permitflow.transports.control_codec import Where
from permitflow.transports.deadlines import SILENCE_SECONDS
from permitflow.transports.diagnosis import (
    SLOTS,
    Explain,
    consumed,
    explained,
    why_no_permits,
    why_no_room,
    why_no_rows,
    why_no_schema,
)
from permitflow.transports.grpc_aio import AioControl, ChannelDescription
from permitflow.transports.joined import JoinedChunks
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.same_host import SameHost
from permitflow.transports.wire_errors import SILENT, copy_error, forget_frames

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
]

DEFAULT_TIMEOUT_SECONDS = 60.0

# A task that was cancelled ends at once; this only keeps a defect from hanging the caller.
_JOIN_SECONDS = 5.0
_AHEAD_BYTES = 512 << 10
# Of the window, and of a flow that has none.
_AHEAD_SHARE, _AHEAD_ROWS = 8, 4096
_READ_SHARES = 4  # with less, large chunks would come one by one, and each wake the other thread
# The time-outs are kept by the thread that waits.
_NEVER_SECONDS = math.inf

E = TypeVar("E")
S = TypeVar("S", bound=RemoteReceiver | RemoteSender)
T = TypeVar("T")


_HOLDERS: set[asyncio.Task[None]] = set()


class _Held(Generic[E]):
    """Something of ``grpc_aio`` that a task of the background loop holds open; a context manager.

    The loop writes ``_end``, ``_failure`` and ``_is_over``, and the caller's thread reads them.  That something has
    changed it says by releasing ``_news``.  A thread that waits then looks again, so a release too many does no harm.
    """

    END: str

    def __init__(self, opening: AbstractAsyncContextManager[E], what: str, timeout_seconds: float) -> None:
        """Nothing is opened yet."""
        self.timeout_seconds = _required(timeout_seconds)
        """The longest wait; it may be changed between two calls."""
        self._what = what
        self._opening = opening
        self._end: E | None = None
        self._failure: BaseException | None = None
        self._is_over = self._is_closed = False
        self._is_parting = False  # is the peer being told why?  That is waited for, a second at most
        self._holder: asyncio.Task[None] | None = None
        self._opened_or_over = asyncio.Event()
        self._news, self._gone = threading.Lock(), threading.Lock()
        self._news.acquire()
        self._gone.acquire()
        self._background = background()

    # In the loop.

    def _begin(self) -> None:
        if self._holder is None and not self._is_over:
            self._holder = asyncio.create_task(self._hold(), name=f"holds {self._what}")
            self._holder.add_done_callback(lambda _: self._note_over())
            # The loop knows its tasks weakly: what nobody holds any more would be collected in the middle of its work.
            _HOLDERS.add(self._holder)
            self._holder.add_done_callback(_HOLDERS.discard)

    async def _hold(self) -> None:
        try:
            async with self._opening as end:
                self._end = end
                self._opened_or_over.set()
                await self._carry(end)
        except asyncio.CancelledError:
            pass  # it was closed
        except PermitflowError as error:
            forget_frames(error)  # they refer to the end
            self._failure = error
        except Exception as error:
            self._failure = error

    def _note_over(self) -> None:
        self._is_over = True
        self._holder = None  # it should not end in the caller's thread: see ``Background.run``
        self._opened_or_over.set()
        # At exit, a daemon thread that waits still is left alone: its complaint would be the process's last word.
        if self._background.is_alive:
            self._gone.release()
            self._tell_caller()

    async def _carry(self, end: E) -> None:
        """Work until there is nothing more to do; cancelled when the caller closes."""
        raise NotImplementedError

    def _tell_caller(self) -> None:
        if self._news.locked():
            self._news.release()

    def _cancel(self) -> None:
        if self._holder is not None and not self._is_parting:
            self._holder.cancel()

    def _close_now(self) -> None:
        self._cancel()

    # In the caller's thread.

    def _wait(self, until: float) -> bool:
        """Wait for news of the loop; False: none came until then."""
        return self._news.acquire(timeout=min(max(until - monotonic(), 0.0), threading.TIMEOUT_MAX))

    def _require_here(self) -> None:
        if self._background.is_inherited:
            raise ForkedError(what=f"the {self._what} cannot be used")

    def _require_open(self) -> None:
        self._require_here()
        if self._is_closed or not self._background.is_alive:
            raise ChannelClosedError(end=self.END)

    def close(self) -> None:
        """Release this end, whatever state it is in; never waits for the peer.  Closing twice is harmless.

        An end that is dropped without it stays open until the process ends.
        """
        self.release()
        if self._background.is_alive:
            self._wait_until_over(_JOIN_SECONDS)

    def release(self) -> None:
        """As ``close``, without waiting until everything is released: for finalizers."""
        self._is_closed = True
        if self._is_over or not self._background.is_alive:
            return
        # What has not begun to be opened is opened and closed: nobody need know whether it has.
        self._background.call(self._begin)
        self._background.call(self._close_now)

    def _wait_until_over(self, seconds: float) -> None:
        # Perhaps another thread waits for it as well.
        if not self._is_over and self._gone.acquire(timeout=seconds):
            self._gone.release()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class _Stream(_Held[S]):
    """What both ends of a stream do alike."""

    stream: str
    """The exchange's name for this stream, as in traces; equal at both ends."""
    parameters: Parameters
    """What both ends agreed on."""
    first_row: int | None
    """Of a channel that keeps its rows.

    Of a source: the number of the first row that follows.  Of a sink with a producer's name: how many rows of this
    producer were kept before, so that the next one to send is the row of this number.
    """
    schema: pa.Schema
    """The schema of all batches."""
    _last_statistics: ChannelStatistics

    def __init__(
        self, address: str, channel: str, opening: AbstractAsyncContextManager[S], timeout_seconds: float
    ) -> None:
        """Nothing is dialled yet."""
        self.name = channel
        """The channel's name."""
        self._address = address
        self._is_open = False
        super().__init__(opening, f"{self.END} of channel {channel!r}", timeout_seconds)

    async def _carry(self, end: S) -> None:
        self.stream = end.stream or self.name
        self.parameters = end.parameters
        self.first_row = end.first_row
        self.schema = end.schema
        self._is_open = True
        self._tell_caller()
        try:
            await self._pass_on(end)
        except PermitflowError as error:
            self._failure = error  # at once: the caller may look before all of it is closed
            raise
        finally:
            # The end itself is let go: a call of gRPC keeps its connection for as long as anything refers to it.
            self._last_statistics = end.statistics()
            self._is_parting, self._end = end.is_breaking_off, None

    async def _pass_on(self, end: S) -> None:
        """Move messages between the end and the caller until there are no more; cancelled when the caller closes."""
        raise NotImplementedError

    def _open(self, cause: str, explain: Explain | None = None) -> None:
        """Wait for the agreement; whatever goes wrong, including an interrupt, leaves nothing behind."""
        try:
            self._background.call(self._begin)
            self._wait_for(lambda: self._is_open or self._is_over, lambda: (cause, explain))
            if not self._is_open:
                self._raise_failure()
        except BaseException:
            self.close()
            raise

    def statistics(self) -> ChannelStatistics:
        """What has happened so far, as this end knows it: of what lies ahead, what the loop has done with it."""
        end = self._end
        return replace(self._last_statistics if end is None else end.statistics(), name=self.stream)

    def _close_now(self) -> None:
        if self._end is not None and not self._end.is_breaking_off:
            self._end.close()
        self._cancel()

    def _raise_failure(self, undelivered: object = None) -> NoReturn:
        """Raise why it is over, for one more caller."""
        end = self._end
        failure = self._failure or (None if end is None else end.failure) or ChannelClosedError(end=self.END)
        if isinstance(failure, PermitflowError):
            raise copy_error(failure, undelivered)
        raise TransportError.of(what=f"the {self._what} failed", cause=failure)

    def _wait_for(self, is_done: Callable[[], bool], why: Callable[[], tuple[str, Explain | None]]) -> None:
        """Wait until something is so, as long as the stream gets on.

        Args:
            is_done: is it so?
            why: what it most likely means if nothing gets on, and what says more, if the exchange can be asked.

        Raises:
            PeerTimeoutError: nothing got on for ``timeout_seconds``.
        """
        silent_since, before = monotonic(), self._progress()
        while not is_done():
            until = silent_since + self.timeout_seconds
            # Twice in this time it is looked whether anything gets on.
            if self._wait(min(until, monotonic() + self.timeout_seconds / 2)):
                continue
            if (progress := self._progress()) != before:
                silent_since, before = monotonic(), progress
            elif monotonic() >= until:
                raise _timed_out(self._address, self.name, self.timeout_seconds, *why())

    def _progress(self) -> object:
        """Something that changes as long as the stream gets on, though the caller is not told."""
        return None


def _ahead_rows(parameters: Parameters) -> int:
    """The unit of what lies ahead: as many rows as permits return at once."""
    window_rows = parameters.window_rows
    return _AHEAD_ROWS if window_rows is None else max(1, window_rows // _AHEAD_SHARE)


def _required(timeout_seconds: float) -> float:
    if not timeout_seconds > 0:
        raise InvalidParametersError(name="timeout_seconds", value=timeout_seconds, rule="must be above 0")
    return timeout_seconds


def _timed_out(address: str, channel: str, seconds: float, cause: str, explain: Explain | None) -> PeerTimeoutError:
    """Why nothing came for so long: as the exchange says, or as it is guessed."""
    is_alive, why = background().run(lambda: explained(address, channel, explain, cause))
    waited, who = f"for {seconds:g} s", f"the exchange at {address} (channel {channel!r})"
    if is_alive:
        return PeerTimeoutError.of_silence(who=who, reason=f"{waited}: {why}")
    return PeerTimeoutError(who=who, reason=f"nothing came {waited}; {why}")


# An aborted stream has nothing to wait for but the confirmation; without it the exchange sees a broken stream, which
# its consumers take for the same thing.
_ABORT_SECONDS = 5.0

_FULL = (
    "the channel's staging area is full: its consumers are slow and earlier batches wait there, or another query's "
    "batch does that was not published yet"
)


class BlockingSink(_Stream[RemoteSender]):
    """The upstream end of a channel.

    Leaving its context with an exception aborts the stream; that of a named producer is only closed, since it can
    come again and go on.  What was in line then is dropped: ``end`` is what promises that everything has left.
    """

    END = "sender"

    def __init__(
        self,
        address: str,
        channel: str,
        opening: AbstractAsyncContextManager[RemoteSender],
        schema: pa.Schema,
        timeout_seconds: float,
        *,
        can_resume: bool,
        is_staged: bool,
    ) -> None:
        """Dial; see ``open_sink``."""
        self._batches = BatchCodec(schema)
        self._can_resume, self._is_staged = can_resume, is_staged
        # The caller appends to the line, and the loop moves what is there to its own.
        self._line: deque[pa.RecordBatch] = deque()
        self._leaving: deque[pa.RecordBatch] = deque()
        self._moved_rows = 0
        self._has_nothing_to_do = False
        self._has_something_to_do = asyncio.Event()
        # How much of its bound the line takes, or more: it counts from when the line was last seen empty.
        self._filled = 0.0
        self._wanted_end: tuple[bool, EndOutcome] | None = None
        self._outcome: EndOutcome | None = None
        super().__init__(address, channel, opening, timeout_seconds)

    # In the loop.

    async def _pass_on(self, sender: RemoteSender) -> None:
        line, leaving = self._line, self._leaving
        while True:
            self._move()
            if leaving:
                self._tell_caller()
                await sender.send_many(leaving)
            elif self._wanted_end is not None:
                closes_channel, until = self._wanted_end
                self._outcome = await sender.end(closes_channel=closes_channel, until=until)
                return
            else:
                self._has_something_to_do.clear()
                self._has_nothing_to_do = True
                if not line and self._wanted_end is None:
                    await self._has_something_to_do.wait()
                self._has_nothing_to_do = False
                if sender.failure is not None:
                    raise sender.failure

    def _move(self) -> None:
        line, leaving = self._line, self._leaving
        while line:
            batch = line.popleft()
            leaving.append(batch)
            self._moved_rows += batch.num_rows

    async def _counted(self) -> int:
        self._move()
        return self._moved_rows

    async def _left_over(self) -> list[pa.RecordBatch]:
        self._move()
        return list(self._leaving)

    def _abort(self, reason: str) -> None:
        if self._end is not None:
            self._end.abort(reason)
        self._cancel()  # which lets the abort arrive

    # In the caller's thread.

    @property
    def accepted_rows(self) -> int:
        """Rows of all batches that ``send`` has put in line: tells after an interrupt whether a batch is among them."""
        self._require_here()
        return self._background.run(self._counted)

    def send(self, batch: pa.RecordBatch) -> None:
        """Put a chunk in line; wait while much is there.  A large one leaves in slices.

        After an interrupt it is in line, as a whole, or not: see ``accepted_rows``.  After a time-out it is not.

        Raises:
            ChannelClosedError: this end was closed, or is ending.
            SchemaMismatchError: the batch has another schema than the stream.
            ChunkTooLargeError: the chunk, or a slice of it, is too large for one message.
            PeerTimeoutError: nothing could leave for ``timeout_seconds``; ``undelivered`` is a list of this batch.
            PeerGoneError: the exchange or the consumer is gone; ``undelivered`` is a list of all that did not leave,
                of this call and of those before, as far as this end knows.

        Spec: OfferChunk, SendChunk, WithdrawChunk.
        """
        self._require_open()
        parts, batches = [batch], self._batches
        if self._wanted_end is not None:
            raise ChannelClosedError(end=self.END, undelivered=parts)
        most = self.parameters.most_rows
        if most is not None and isinstance(batch, pa.RecordBatch) and batch.num_rows > most:
            parts = list(slices(batch, most))
        if len(batches.accepted(parts)[0]) < len(parts):
            for part in parts:
                batches.require(part)
        size = self._share_of(batch)
        line, end = self._line, self._end
        if end is None or end.failure is not None:
            self._raise_failure([*self._undelivered(), *parts])
        if not line:
            self._filled = 0.0
        elif self._filled >= 1:
            self._wait_for_room(parts)
        self._filled += size
        line.extend(parts)
        if self._has_nothing_to_do:
            self._background.call(self._has_something_to_do.set)

    def _share_of(self, batch: pa.RecordBatch) -> float:
        """Of the line's bound: half of the window, or what is both an eighth of it and 512 KiB."""
        eighths = (batch.num_rows or 1) / _ahead_rows(self.parameters)
        return max(2 * eighths / _AHEAD_SHARE, min(eighths, self._batches.size_of(batch) / _AHEAD_BYTES))

    def _undelivered(self) -> list[pa.RecordBatch]:
        if not self._background.is_alive:
            return [*self._leaving, *self._line]
        return self._background.run(self._left_over)

    def _wait_for_room(self, parts: Sequence[pa.RecordBatch]) -> None:
        try:
            self._wait_for(lambda: not self._line or self._is_over, self._why_starved)
        except PeerTimeoutError as error:
            error.undelivered = [*parts]
            raise
        if self._is_over:
            self._raise_failure([*self._undelivered(), *parts])
        self._filled = 0.0

    def _progress(self) -> object:
        end = self._end
        if end is None:
            return None
        if end.is_finished:
            # From here on the channel's consumer is waited for.
            return self._background.run(lambda: consumed(self._address, self.name))
        statistics = end.statistics()
        return statistics.sent_rows, statistics.rows_held

    async def _lack(self) -> str:
        return "" if self._end is None else self._end.lack

    def _why_starved(self) -> tuple[str, Explain]:
        return self._why(self._background.run(self._lack) or "nothing leaves")

    def _why(self, said: str) -> tuple[str, Explain]:
        """The cause of a wait as it can be guessed, and as the channel's numbers say it."""
        why, guess = (why_no_room, _FULL) if self._is_staged else (why_no_permits, SLOTS)
        return f"{said}; {guess}", lambda traffic: f"{said}: {why(traffic)}"

    def _why_unanswered(self) -> tuple[str, Explain]:
        if (end := self._end) is None or end.is_finished:
            return self._why("not everything that was sent was consumed")
        return self._why_starved()

    def end(self, *, closes_channel: bool, until: EndOutcome = EndOutcome.CONSUMED) -> EndOutcome:
        """Let everything in line leave, say that nothing follows, and wait for the answer: what has become of it.

        It is ``CONSUMED`` once the channel's consumer has consumed all that was in the channel when the end came.  It
        is ``ACCEPTED``, at once, if no consumer is connected, or if the channel keeps its rows.  After an interrupt or
        a time-out it can be called again, and waits on.

        Args:
            closes_channel: nobody else will put into the channel, so that its consumers come to the end as well.
            until: ``ACCEPTED`` does not wait for a consumer, even if one is connected.

        Raises:
            ChannelClosedError: this end was closed, or has ended before.
            PeerTimeoutError: nothing left, no answer came, and no row was consumed, in ``timeout_seconds``.
            PeerGoneError: the exchange is gone, or the channel has lost its consumer, with rows that it held;
                ``undelivered`` is a list of what did not leave, as far as this end knows.
            ChannelAbortedError: another producer has broken the channel.
            LedgerError: the exchange has not returned all permits.
        """
        self._require_open()
        if self._wanted_end is None:
            self._wanted_end = closes_channel, until
        self._background.call(self._has_something_to_do.set)
        self._wait_for(lambda: self._is_over, self._why_unanswered)
        if self._failure is not None or self._outcome is None:
            self._raise_failure(self._undelivered())
        self._is_closed = True
        return self._outcome

    def abort(self, reason: str) -> None:
        """Give the stream up: the channel's consumers raise ``ChannelAbortedError`` with this reason.

        Harmless where the stream is over, or the exchange is gone.
        """
        if self._is_closed or not self._background.is_alive:
            return
        try:
            self._background.call(lambda: self._abort(reason))
            self._wait_until_over(min(self.timeout_seconds, _ABORT_SECONDS))
        finally:
            self.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Abort after an exception, unless the producer can come again; then close."""
        if error is not None and not self._can_resume:
            self.abort(f"{type(error).__name__}: {error}")
        self.close()


_SILENT = f"its producer is silent or has not started; {SLOTS}"


class _Ahead:
    """What was read ahead: chunks, another message, or why nothing more comes."""

    __slots__ = ("payload", "start", "stop")

    def __init__(self, start: int, count: int, payload: JoinedChunks | Message[object] | BaseException) -> None:
        """So many messages, from the one with this number on."""
        self.start, self.stop = start, start + count
        self.payload = payload


class BlockingSource(_Stream[RemoteReceiver]):
    """The downstream end of a channel; iterating over it yields the chunks.

    The permits of a message return when the next one is asked for, or at the end; while other messages are here, those
    of a few messages return together.
    """

    END = "receiver"

    def __init__(
        self, address: str, channel: str, opening: AbstractAsyncContextManager[RemoteReceiver], timeout_seconds: float
    ) -> None:
        """Dial; see ``open_source``."""
        # The loop appends, and the caller removes what it has consumed.
        self._ahead: deque[_Ahead] = deque()
        # Messages are numbered.  The caller has been handed all before the first number and has consumed all before
        # the second; neither ever goes back, and nothing else is told to the loop.
        self._handed = self._consumed = 0
        # The loop's: what the receiver knows to be consumed; what lies ahead, by its last number, and how many rows.
        self._settled = 0
        self._unread: deque[tuple[int, int]] = deque()
        self._unread_rows = 0
        self._is_told = asyncio.Event()
        self._told = 0
        self._owed_messages = 1
        super().__init__(address, channel, opening, timeout_seconds)

    # In the loop.

    async def _pass_on(self, receiver: RemoteReceiver) -> None:
        eighth, taken = _ahead_rows(receiver.parameters), 0
        while True:
            while self._is_full(_READ_SHARES * eighth):
                self._is_told.clear()
                await self._is_told.wait()
            try:
                payload = await receiver.take_joined()
            except PermitflowError as error:
                forget_frames(error)
                if isinstance(error, EndOfStream):
                    await self._finished(receiver, taken, error)
                    return
                self._append(_Ahead(taken, 1, error), 0)
                return
            if isinstance(payload, JoinedChunks):
                count, rows = len(payload.rows), payload.num_rows
                self._owed_messages = eighth * count // max(rows, 1)
            else:
                count, rows = 1, 0
            self._append(_Ahead(taken, count, payload), rows)
            taken += count

    def _append(self, entry: _Ahead, rows: int) -> None:
        self._unread.append((entry.stop, rows))
        self._unread_rows += rows
        self._ahead.append(entry)
        self._tell_caller()

    def _is_full(self, most_rows: int) -> bool:
        """Do so many rows lie behind the next ones?  Permits bound them anyway; what waits longer comes joined."""
        unread = self._unread
        while unread and unread[0][0] <= self._handed:
            self._unread_rows -= unread.popleft()[1]
        return len(unread) > 1 and self._unread_rows - unread[0][1] >= most_rows

    def _settle(self) -> None:
        """The caller has consumed some messages."""
        new = self._consumed - self._settled
        self._settled += new
        if new and self._end is not None:
            with suppress(PermitflowError):  # of a stream that is over, as the next read says
                self._end.consume(new)
        self._is_told.set()

    async def _finished(self, receiver: RemoteReceiver, taken: int, end: EndOfStream) -> None:
        """Wait until the caller has consumed everything, and both ends have compared their books."""
        self._append(_Ahead(taken, 1, end), 0)
        while self._settled < taken:
            self._is_told.clear()
            await self._is_told.wait()
        while receiver.state not in (State.CLOSED, State.FAILED):
            await receiver.changed()

    # In the caller's thread.

    def receive(self) -> Message[pa.RecordBatch | Marker]:
        """Receive the next message, whatever its kind; the one before counts as consumed.

        After an interrupt or a time-out it can be called again, and nothing is lost: what it has not returned comes
        next.

        Raises:
            EndOfStream: the sender has ended the stream, and all of it was received.
            ChannelAbortedError: the sender gave the stream up.
            ChannelClosedError: this end was closed.
            PeerTimeoutError: nothing came in ``timeout_seconds``.
            PeerGoneError: the sender is gone without having ended the stream.
            UndecodableDataError: the chunk is not what the handshake said.

        Spec: Consume, Flush.
        """
        entry = self._oldest()
        payload, handed = entry.payload, self._handed
        if isinstance(payload, JoinedChunks):
            at = handed - entry.start
            payload = Message(Kind.CHUNK, payload[at], payload.rows[at])
        self._tell_in_time(entry, handed + 1)
        # Nothing is called from here to the caller's own code, so that no signal is heeded on the way.
        self._handed = handed + 1
        return payload  # type: ignore[return-value]  # ``_oldest`` raises errors

    def receive_joined(self, max_rows: int | None = None) -> JoinedChunks | Message[Marker]:
        """Receive the oldest chunks as far as they came as rows of one batch; those before count as consumed.

        As ``receive``, for consumers that read many chunks at once: they are not cut apart.  Waits only for the first
        one.  A barrier or watermark is received alone, in its place.

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
        entry = self._oldest()
        payload, handed = entry.payload, self._handed
        following = entry.stop
        if isinstance(payload, JoinedChunks):
            payload = payload.part(handed - entry.start, max_rows)
            following = handed + len(payload.rows)
        self._tell_in_time(entry, following)
        # As in ``receive``.
        self._handed = following
        return payload  # type: ignore[return-value]  # ``_oldest`` raises errors

    def _oldest(self) -> _Ahead:
        """The oldest that was not handed over; the caller comes again, so what was handed over is consumed."""
        self._require_open()
        self._consumed = handed = self._handed
        ahead = self._ahead
        while ahead and ahead[0].stop <= handed:
            ahead.popleft()
        if not ahead:
            self._tell_loop()
            self._wait_for(lambda: bool(ahead) or self._is_over, lambda: (_SILENT, why_no_rows))
            if not ahead:
                self._raise_failure()
        entry = ahead[0]
        if isinstance(entry.payload, BaseException):
            self._raise_ending(entry.payload)
        return entry

    def _tell_in_time(self, entry: _Ahead, following: int) -> None:
        """Tell the loop what was consumed, if it is much, or if nothing more will lie ahead."""
        is_last = following == entry.stop and len(self._ahead) == 1
        if is_last or self._consumed - self._told >= self._owed_messages:
            self._tell_loop()

    def _tell_loop(self) -> None:
        if self._told != self._consumed:
            self._background.call(self._settle)
            self._told = self._consumed

    def _raise_ending(self, ending: BaseException) -> NoReturn:
        if isinstance(ending, EndOfStream):
            self._background.call(self._settle)
            self._wait_for(lambda: self._is_over, lambda: ("the exchange does not confirm the end of the stream", None))
            if self._failure is not None:
                self._raise_failure()
        self.close()
        raise ending

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


class BlockingControl(_Held[AioControl]):
    """One stream of questions and orders; a context manager.  For one thread at a time.

    An order that fails ends the stream: call ``control`` again for the next one.  Whether an order that was not
    answered was carried out is not known; all of them may be repeated.  Arguments and errors are those of
    ``AioControl``.
    """

    END = "control stream"

    def __init__(self, address: str, timeout_seconds: float) -> None:
        """See ``control``."""
        self._who = f"the exchange at {address}"
        opening = grpc_aio.control(address, connect_timeout_seconds=None, reply_timeout_seconds=_NEVER_SECONDS)
        super().__init__(opening, f"{self.END} with {self._who}", timeout_seconds)

    def positions(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Where channels stand, in this order."""
        return self._ask(lambda orders: orders.positions(channels, consumer=consumer))

    def acknowledge(self, rows: Mapping[str, int] | Sequence[ChannelRow], *, consumer: str = "") -> Where:
        """A consumer needs no row before these any more; less than before changes nothing."""
        return self._ask(lambda orders: orders.acknowledge(rows, consumer=consumer))

    def close_channels(self, channels: Sequence[str], *, consumer: str = "") -> Where:
        """Nobody will put into these channels any more.  Those that have ended stay as they are."""
        return self._ask(lambda orders: orders.close_channels(channels, consumer=consumer))

    def publish(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Published:
        """Make one attempt at each partition of a batch part of its channel, all or none."""
        return self._ask(lambda orders: orders.publish(query, batch, parts))

    def discard(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Discarded:
        """Forget these attempts at a batch, unless they are published; attempts that are not named stay."""
        return self._ask(lambda orders: orders.discard(query, batch, parts))

    def statistics(self, channels: Sequence[str] = ()) -> Statistics:
        """What has flowed through channels of any kind, in counts."""
        return self._ask(lambda orders: orders.statistics(channels))

    async def _carry(self, end: AioControl) -> None:
        await asyncio.Event().wait()

    async def _answer(self, ask: Callable[[AioControl], Awaitable[T]]) -> T:
        await self._opened_or_over.wait()
        if self._end is None:
            raise self._failure or ChannelClosedError(end=self.END)
        return await ask(self._end)

    def _ask(self, ask: Callable[[AioControl], Awaitable[T]]) -> T:
        self._require_open()
        try:
            self._background.call(self._begin)
            return self._background.run(lambda: self._answer(ask), self.timeout_seconds)
        except PermitflowError:
            raise  # it takes no more orders by itself
        except TimeoutError:
            self.close()
            reason = f"no reply within {self.timeout_seconds:.3g} s; {SILENT}"
            raise PeerTimeoutError(who=self._who, reason=reason) from None
        except BaseException:
            self.close()
            raise


_NO_SCHEMA = "the channel has no schema until its first producer dials: is there one?"


def open_source(
    address: str,
    channel: str,
    *,
    wanted: Parameters | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    silence_seconds: float = SILENCE_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
    compression: Compression = Compression.AUTO,
    consumer: str = "",
    from_row: int | None = None,
    to_row: int | None = None,
    log_id: str = "",
) -> BlockingSource:
    """Read a channel of the exchange at ``address``; waits until the channel's schema is known.

    A channel that keeps its rows can be read by ranges, as often as is wanted: reading acknowledges nothing.

    Args:
        wanted: parameters to ask for; the exchange grants the smaller window.
        timeout_seconds: the longest wait for the exchange, and for each chunk.
        silence_seconds: an exchange that gives no sign of life for longer is gone.
        record: opens the recorder of this end, which is used in another thread than this one.
        same_host: whether to share memory with an exchange on this host.
        compression: of chunks on their way, for slow networks, if the exchange agrees; ``auto``: if it asks for it.
            Nothing is compressed where memory is shared.
        consumer: of a channel that keeps its rows: whose reading this is; empty: that of the consumer ``default``.
        from_row: the first row that is wanted; None: the first one that the consumer has not acknowledged.
        to_row: the first row that is not wanted any more; None: all that will ever come.
        log_id: the log in which these rows were counted, as in ``ChannelPosition``; empty: whichever there is.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0, the range is none, or this end cannot compress like
            that.
        UnknownChannelError: the exchange has no such channel.
        ChannelBusyError: another consumer reads it.
        RetentionError: the channel does not keep its rows, and has neither ranges nor consumers with names.
        UnknownConsumerError: it keeps no rows for this consumer.
        RowsForgottenError: the consumer has acknowledged some of these rows.
        RowsNotThereError: some of these rows have not come.
        LogReplacedError: the rows that are meant are lost.
        SameHostError: memory was to be shared, and cannot be.
        HandshakeError: the two ends cannot agree.
        PeerTimeoutError: no agreement in time.
        ForkedError: gRPC is to be dialled, and was used before this process was forked off.
        PeerGoneError: nobody answers at ``address``, or the channel has been read before.
    """
    opening = grpc_aio.get(
        address,
        channel,
        wanted=wanted,
        connect_timeout_seconds=None,
        agreement_timeout_seconds=_NEVER_SECONDS,
        silence_seconds=silence_seconds,
        record=record,
        same_host=same_host,
        compression=compression,
        consumer=consumer,
        from_row=from_row,
        to_row=to_row,
        log_id=log_id,
    )
    source = BlockingSource(address, channel, opening, timeout_seconds)
    source._open(_NO_SCHEMA, why_no_schema)
    return source


def probe(address: str, channel: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> ChannelDescription:
    """Ask for a channel's schema and parameters; its data stay where they are.

    Raises:
        As ``open_source``.
    """
    describing = partial(
        grpc_aio.describe,
        address,
        channel,
        connect_timeout_seconds=None,
        agreement_timeout_seconds=_required(timeout_seconds),
    )
    try:
        return background().run(describing, timeout_seconds)
    except TimeoutError:
        raise _timed_out(address, channel, timeout_seconds, _NO_SCHEMA, why_no_schema) from None


def open_sink(
    address: str,
    channel: str,
    schema: pa.Schema,
    *,
    wanted: Parameters | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    silence_seconds: float = SILENCE_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
    compression: Compression = Compression.AUTO,
    producer: str = "",
    staging: Staging | None = None,
) -> BlockingSink:
    """Feed a channel of the exchange at ``address`` with batches of ``schema``.

    Args:
        wanted: parameters to ask for; the exchange grants the smaller window.
        timeout_seconds: the longest wait for the exchange, and for each permit.
        silence_seconds: an exchange that gives no sign of life for longer is gone.
        record: opens the recorder of this end, which is used in another thread than this one.
        same_host: whether to share memory with an exchange on this host.
        compression: of chunks on their way, for slow networks, if the exchange agrees; ``auto``: if it asks for it.
            Nothing is compressed where memory is shared.
        producer: of a channel that keeps its rows: a name of this producer's own.  One that comes again learns from
            ``first_row`` how many of its rows are kept, and sends those that follow; who still sends under this name
            is broken off.
        staging: of a channel that keeps its rows: what is sent is not to be seen before it is published.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0, or this end cannot compress like that.
        UnknownChannelError: the exchange has no such channel.
        RetentionError: the channel does not keep its rows, and knows neither producers' names nor staging.
        SchemaMismatchError: the channel has another schema.
        SameHostError: memory was to be shared, and cannot be.
        HandshakeError: the two ends cannot agree.
        PeerTimeoutError: no agreement in time.
        ForkedError: gRPC is to be dialled, and was used before this process was forked off.
        PeerGoneError: nobody answers at ``address``, or the channel has ended.
    """
    opening = grpc_aio.put(
        address,
        channel,
        schema,
        wanted=wanted,
        connect_timeout_seconds=None,
        agreement_timeout_seconds=_NEVER_SECONDS,
        silence_seconds=silence_seconds,
        record=record,
        same_host=same_host,
        compression=compression,
        producer=producer,
        staging=staging,
    )
    sink = BlockingSink(
        address, channel, opening, schema, timeout_seconds, can_resume=bool(producer), is_staged=staging is not None
    )
    sink._open("it takes streams slowly: is it overloaded?")
    return sink


def control(address: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> BlockingControl:
    """Ask and order about channels of the exchange at ``address`` that keep their rows; see ``BlockingControl``.

    That nobody answers there shows in the first question.

    Args:
        timeout_seconds: the longest wait for each reply.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0, or this is no address.
    """
    return BlockingControl(address, timeout_seconds)
