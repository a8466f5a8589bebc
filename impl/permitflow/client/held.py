"""The ends that the background loop holds open for blocking callers, and the messages it moves for them.

All of this runs in the loop, except the methods marked as the caller's.  The two threads share queues, and fields with
a single writer; nothing here refers to the caller's end, so that the caller can drop it.
"""

import asyncio
import threading
from collections import deque
from contextlib import AbstractAsyncContextManager, suppress
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from permitflow.change import Change
from permitflow.channels.statistics import ChannelStatistics
from permitflow.client.background import background
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.errors import EndOfStream, PermitflowError
from permitflow.flows.byte_window import ByteWindow
from permitflow.flows.messages import Message
from permitflow.flows.seam import Parameters
from permitflow.stream.frames import EndOutcome
from permitflow.stream.session import State
from permitflow.wire.joined import JoinedChunks
from permitflow.wire.wire_errors import forget_frames

AHEAD_SHARE = 8
"""The unit of reading ahead, as a share of the window; for a flow without one, in rows."""
_AHEAD_ROWS = 4096
# A caller that is slow row by row tells so many at once, however large the window is: its producer waits for them.
_MOST_OWED_ROWS = 4096
_READ_SHARES = 4  # with fewer, large chunks would come singly, and each wake the other thread

E = TypeVar("E")
S = TypeVar("S", bound=RemoteReceiver | RemoteSender)


def ahead_rows(window_rows: int | None) -> int:
    """The unit of reading ahead: the rows whose permits return at once."""
    return _AHEAD_ROWS if window_rows is None else max(1, window_rows // AHEAD_SHARE)


_HOLDERS: set[asyncio.Task[None]] = set()


class Held(Generic[E]):
    """An object of ``aio`` that a task of the background loop holds open for a caller's thread.

    It does not refer to the caller's end, so that the caller can drop it.  The loop writes ``end``, ``failure`` and
    ``is_over``, and the caller's thread reads them.  The loop reports a change by releasing ``_news``.  The waiting
    thread then checks its condition, so that extra releases are harmless.
    """

    def __init__(self, opening: AbstractAsyncContextManager[E], what: str) -> None:
        self.what = what
        """The object in words, for errors."""
        self.background = background()
        self.end: E | None = None
        """The open object; None before and afterwards."""
        self.failure: BaseException | None = None
        """The error that ended it, if any."""
        self.is_over = False
        self._opening = opening
        self._has_begun = False  # has the caller asked for it?
        self.is_parting = False
        """Is the reason being sent to the peer?  The caller waits for that, at most a second."""
        self._holder: asyncio.Task[None] | None = None
        self._opened_or_over = asyncio.Event()
        self._news, self._gone = threading.Lock(), threading.Lock()
        self._news.acquire()
        self._gone.acquire()

    # In the loop.

    def _begin(self) -> None:
        if self._holder is None and not self.is_over:
            self._holder = asyncio.create_task(self._hold(), name=f"holds {self.what}")
            self._holder.add_done_callback(lambda _: self._note_over())
            # The loop refers to its tasks weakly: without a strong reference a working task could be collected.
            _HOLDERS.add(self._holder)
            self._holder.add_done_callback(_HOLDERS.discard)

    async def _hold(self) -> None:
        try:
            async with self._opening as end:
                self.end = end
                self._opened_or_over.set()
                await self.carry(end)
        except asyncio.CancelledError:
            pass  # it was closed
        except PermitflowError as error:
            forget_frames(error)  # the frames refer to the end
            self.failure = error
        except Exception as error:
            self.failure = error

    def _note_over(self) -> None:
        self.is_over = True
        self._holder = None  # the task must not end in the caller's thread: see ``Background.run``
        self._opened_or_over.set()
        # At exit, do not wake a waiting daemon thread: its error would be the process's last output.
        if self.background.is_alive:
            self._gone.release()
            self.tell_caller()

    async def carry(self, end: E) -> None:
        """Work until everything is done; cancelled when the caller closes."""
        await asyncio.Event().wait()

    async def opened(self) -> E | None:
        """Wait until the object is open, and return it; None if it is over."""
        await self._opened_or_over.wait()
        return self.end

    def tell_caller(self) -> None:
        """Report a change to the caller's thread."""
        if self._news.locked():
            self._news.release()

    def close_now(self) -> None:
        """Close the object."""
        if self._holder is not None and not self.is_parting:
            self._holder.cancel()

    # In the caller's thread.

    def begin(self) -> None:
        """Let the loop open the object, unless that has begun."""
        self._has_begun = True
        self.background.call(self._begin)

    def wait(self, until: float) -> bool:
        """Wait for a change that the loop reports; False: none came before ``until``."""
        return self._news.acquire(timeout=min(max(until - monotonic(), 0.0), threading.TIMEOUT_MAX))

    def wait_until_over(self, seconds: float) -> None:
        """Wait until the object is closed."""
        # Another thread may wait for it as well.
        if self.is_open and self._gone.acquire(timeout=seconds):
            self._gone.release()

    @property
    def is_open(self) -> bool:
        """Is there an object to close?"""
        return self._has_begun and not self.is_over and self.background.is_alive

    @property
    def has_stopped(self) -> bool:
        """Has the object stopped working, though it may not be closed yet?"""
        return self.failure is not None or self.is_over

    def release(self) -> None:
        """Let the loop close the object soon."""
        if self.is_open:
            # If opening has not begun, the object is opened and closed: this needs no distinction.
            self.background.call(self._begin)
            self.background.call(self.close_now)


class Agreed(NamedTuple):
    """The facts of an open stream for the caller."""

    stream: str
    parameters: Parameters
    first_row: int | None
    schema: pa.Schema
    window: ByteWindow


class _HeldStream(Held[S]):
    """The common part of both ends of a stream."""

    agreed: Agreed | None = None
    last_statistics: ChannelStatistics

    async def carry(self, end: S) -> None:
        self.agreed = Agreed(end.stream or end.name, end.parameters, end.first_row, end.schema, end.byte_window)
        self.tell_caller()
        try:
            await self._pass_on(end)
        except PermitflowError as error:
            forget_frames(error)
            self.failure = error  # at once: the caller may read it before all is closed
            self.tell_caller()
            raise
        finally:
            # Drop the end itself: a gRPC call keeps its connection as long as any object refers to it.
            self.last_statistics = end.statistics()
            self.is_parting, self.end = end.is_breaking_off, None

    async def _pass_on(self, end: S) -> None:
        """Move messages between the end and the caller until there are no more; cancelled when the caller closes."""
        raise NotImplementedError

    def close_now(self) -> None:
        if self.end is not None and not self.end.is_breaking_off:
            self.end.close()
        super().close_now()


class QueuedBarrier(NamedTuple):
    """A barrier behind the batches that were queued before it."""

    payload: object


class HeldSender(_HeldStream[RemoteSender]):
    """Sends the batches and barriers that the caller queues."""

    def __init__(self, opening: AbstractAsyncContextManager[RemoteSender], what: str) -> None:
        super().__init__(opening, what)
        # The caller appends to this queue, and the loop moves the batches before the oldest barrier to its own.
        self.line: deque[pa.RecordBatch | QueuedBarrier] = deque()
        self.leaving: deque[pa.RecordBatch] = deque()
        self._moved_rows = 0
        self.has_nothing_to_do = False
        self.has_something_to_do = asyncio.Event()
        self.wanted_end: tuple[bool, EndOutcome] | None = None
        self.outcome: EndOutcome | None = None

    async def _pass_on(self, end: RemoteSender) -> None:
        while True:
            wanted_end = self.wanted_end  # first: the caller queues its last batch, then sets this
            if not self.leaving:  # else the queue would hold twice its bound
                self._move()
            if self.leaving:
                self.tell_caller()
                await end.send_many(self.leaving)
            elif self.line and isinstance(self.line[0], QueuedBarrier):
                await end.send_barrier(self.line[0].payload)
                self.line.popleft()
                self.tell_caller()
            elif wanted_end is not None:
                closes_channel, until = wanted_end
                self.outcome = await end.end(closes_channel=closes_channel, until=until)
                return
            else:
                self.has_something_to_do.clear()
                self.has_nothing_to_do = True
                if not self.line and self.wanted_end is None:
                    await self.has_something_to_do.wait()
                self.has_nothing_to_do = False
                if end.failure is not None:
                    raise end.failure

    def _move(self) -> None:
        line = self.line
        while line and not isinstance(oldest := line[0], QueuedBarrier):
            self.leaving.append(oldest)
            line.popleft()
            self._moved_rows += oldest.num_rows

    def push(self) -> None:
        """Let queued batches leave, called in the loop when the caller has found nothing to do: at once, if they may.

        The task that passes them on would need two more turns of the loop for each batch of a slow caller.
        """
        end = self.end
        if end is not None and self.has_nothing_to_do and not self.has_something_to_do.is_set():
            self._move()
            if self.leaving:
                self.tell_caller()
                rows = [batch.num_rows for batch in self.leaving]
                for _ in range(end.send_at_once(tuple(self.leaving), rows)):
                    self.leaving.popleft()
        if self.leaving or self.line:
            self.has_something_to_do.set()

    async def counted(self) -> int:
        """Rows of all batches ever queued."""
        self._move()
        queued_rows: int = sum(batch.num_rows for batch in self.queued_batches())
        return self._moved_rows + queued_rows

    async def left_over(self) -> list[pa.RecordBatch]:
        """The batches that have not left."""
        self._move()
        return [*self.leaving, *self.queued_batches()]

    def queued_batches(self) -> list[pa.RecordBatch]:
        """The batches that the loop has not moved yet; the caller must not queue others meanwhile."""
        return [queued for queued in self.line if not isinstance(queued, QueuedBarrier)]

    async def lack(self) -> str:
        """The reason why the oldest batch waits."""
        return "" if self.end is None else self.end.lack

    def abort(self, reason: str) -> None:
        """Abort the stream."""
        if self.end is not None:
            self.end.abort(reason)
        Held.close_now(self)  # the block's end lets the abort arrive


class Entry(NamedTuple):
    """An entry that was read ahead: chunks or another message."""

    start: int
    """The number of its first message, and of the one behind its last."""
    stop: int
    payload: JoinedChunks | Message[Any]


class HeldReceiver(_HeldStream[RemoteReceiver]):
    """Reads ahead of the caller.

    Messages are numbered.  The caller has received all before ``handed`` and has consumed all before ``consumed``;
    neither number decreases, and the loop learns only these two.
    """

    def __init__(self, opening: AbstractAsyncContextManager[RemoteReceiver], what: str) -> None:
        super().__init__(opening, what)
        # The loop appends, and the caller removes consumed entries.
        self.ahead: deque[Entry] = deque()
        self.has_ended = False
        """Is the last entry read ahead the stream's last?"""
        self.handed = self.consumed = 0
        self.owed_messages = 1
        """Report consumption to the loop at this number of messages."""
        # The consumption that the receiver knows; the entries ahead, by last number, and their rows.
        self._settled = 0
        self._unread: deque[tuple[int, int]] = deque()
        self._unread_rows = 0
        self._told = Change()

    async def _pass_on(self, end: RemoteReceiver) -> None:
        taken, eighth_of_bytes = 0, end.byte_window.window_bytes // AHEAD_SHARE
        while True:
            await self._told.until(lambda: not self._is_full(_READ_SHARES * ahead_rows(end.aimed_rows)))
            try:
                payload = await end.take_joined()
            except EndOfStream:
                break
            count, rows = 1, 0
            if isinstance(payload, JoinedChunks):
                count, rows = len(payload.rows), payload.num_rows
                owed = min(ahead_rows(end.aimed_rows), _MOST_OWED_ROWS) * count // max(rows, 1)
                if owed > 1:
                    size_bytes = payload.batch.get_total_buffer_size()
                    owed = min(owed, eighth_of_bytes * count // max(size_bytes, 1))
                self.owed_messages = owed
            self._unread.append((taken + count, rows))
            self._unread_rows += rows
            self.ahead.append(Entry(taken, taken + count, payload))
            self.tell_caller()
            taken += count
        self.has_ended = True
        self.tell_caller()
        # Until the caller has consumed everything, and both ends have compared their ledgers.
        await self._told.until(lambda: self._settled >= taken)
        while end.state not in (State.CLOSED, State.FAILED):
            await end.changed()

    def _is_full(self, most_rows: int) -> bool:
        """Do this many rows lie behind the next ones?  Permits bound them anyway; rows that wait longer come joined."""
        unread = self._unread
        while unread and unread[0][0] <= self.handed:
            self._unread_rows -= unread.popleft()[1]
        return len(unread) > 1 and self._unread_rows - unread[0][1] >= most_rows

    def cancel(self, reason: str) -> None:
        """Tell the sender that no more is needed, and go on until it has ended the stream."""
        if self.end is not None:
            self.end.cancel_nowait(reason)
        Held.close_now(self)  # the block's end lets the sender's answer arrive

    def settle(self) -> None:
        """Return the permits of consumed messages."""
        new = self.consumed - self._settled
        self._settled += new
        if new and self.end is not None:
            with suppress(PermitflowError):  # the stream is over; the next read reports it
                self.end.consume(new)
        self._told.note()
