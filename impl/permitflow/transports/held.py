"""What the background loop holds open for blocking callers, and moves between them and the network.

All of this runs in the loop, but for what is said to be the caller's.  The two threads share queues, and fields that
only one of them writes; nothing here refers to the end that the caller has, which therefore can be dropped.
"""

import asyncio
import threading
from collections import deque
from contextlib import AbstractAsyncContextManager, suppress
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from permitflow.channels.statistics import ChannelStatistics
from permitflow.errors import EndOfStream, PermitflowError
from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import EndOutcome
from permitflow.protocol.messages import Message
from permitflow.protocol.session import State
from permitflow.transports.background import background
from permitflow.transports.joined import JoinedChunks
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.wire_errors import forget_frames

__all__ = ["AHEAD_SHARE", "Entry", "Held", "HeldReceiver", "HeldSender", "ahead_rows"]

AHEAD_SHARE = 8
"""The unit of what lies ahead, as a share of the window; and, of a flow that has none, in rows."""
_AHEAD_ROWS = 4096
_READ_SHARES = 4  # with less, large chunks would come one by one, and each wake the other thread

E = TypeVar("E")
S = TypeVar("S", bound=RemoteReceiver | RemoteSender)


def ahead_rows(parameters: Parameters) -> int:
    """The unit of what lies ahead: as many rows as permits return at once."""
    window_rows = parameters.window_rows
    return _AHEAD_ROWS if window_rows is None else max(1, window_rows // AHEAD_SHARE)


_HOLDERS: set[asyncio.Task[None]] = set()


class Held(Generic[E]):
    """Something of ``grpc_aio`` that a task of the background loop holds open for the thread of a caller.

    It does not know the end that the caller has, which therefore can be dropped.  The loop writes ``end``, ``failure``
    and ``is_over``, and the caller's thread reads them.  That something has changed the loop says by releasing
    ``_news``.  A thread that waits then looks again, so a release too many does no harm.
    """

    def __init__(self, opening: AbstractAsyncContextManager[E], what: str) -> None:
        """Nothing is opened before ``begin``."""
        self.what = what
        """In words."""
        self.background = background()
        self.end: E | None = None
        """While it is open."""
        self.failure: BaseException | None = None
        """Why it is over, if that was not wanted."""
        self.is_over = False
        self._opening = opening
        self._has_begun = False  # has the caller wanted that?
        self.is_parting = False
        """Is the peer being told why?  That is waited for, a second at most."""
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
            # The loop knows its tasks weakly: what nobody holds any more would be collected in the middle of its work.
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
            forget_frames(error)  # they refer to the end
            self.failure = error
        except Exception as error:
            self.failure = error

    def _note_over(self) -> None:
        self.is_over = True
        self._holder = None  # it should not end in the caller's thread: see ``Background.run``
        self._opened_or_over.set()
        # At exit, a daemon thread that waits still is left alone: its complaint would be the process's last word.
        if self.background.is_alive:
            self._gone.release()
            self.tell_caller()

    async def carry(self, end: E) -> None:
        """Work until there is nothing more to do; cancelled when the caller closes."""
        await asyncio.Event().wait()

    async def opened(self) -> E | None:
        """What is open, as soon as it is; None if it is over."""
        await self._opened_or_over.wait()
        return self.end

    def tell_caller(self) -> None:
        """Something has changed."""
        if self._news.locked():
            self._news.release()

    def close_now(self) -> None:
        """Close what is open."""
        if self._holder is not None and not self.is_parting:
            self._holder.cancel()

    # In the caller's thread.

    def begin(self) -> None:
        """Have it opened, unless it is."""
        self._has_begun = True
        self.background.call(self._begin)

    def wait(self, until: float) -> bool:
        """Wait for news of the loop; False: none came until then."""
        return self._news.acquire(timeout=min(max(until - monotonic(), 0.0), threading.TIMEOUT_MAX))

    def wait_until_over(self, seconds: float) -> None:
        """Wait until it is closed."""
        # Perhaps another thread waits for it as well.
        if self.is_open and self._gone.acquire(timeout=seconds):
            self._gone.release()

    @property
    def is_open(self) -> bool:
        """Is there something to be closed?"""
        return self._has_begun and not self.is_over and self.background.is_alive

    @property
    def has_stopped(self) -> bool:
        """Does nothing move any more, though perhaps not all of it is closed yet?"""
        return self.failure is not None or self.is_over

    def release(self) -> None:
        """Have it closed soon."""
        if self.is_open:
            # What has not begun to be opened is opened and closed: nobody need know whether it has.
            self.background.call(self._begin)
            self.background.call(self.close_now)


class Agreed(NamedTuple):
    """What the caller wants to know of a stream that is open."""

    stream: str
    parameters: Parameters
    first_row: int | None
    schema: pa.Schema


class HeldStream(Held[S]):
    """What both ends of a stream do alike."""

    agreed: Agreed | None = None
    last_statistics: ChannelStatistics

    async def carry(self, end: S) -> None:
        self.agreed = Agreed(end.stream or end.name, end.parameters, end.first_row, end.schema)
        self.tell_caller()
        try:
            await self._pass_on(end)
        except PermitflowError as error:
            forget_frames(error)
            self.failure = error  # at once: the caller may look before all of it is closed
            self.tell_caller()
            raise
        finally:
            # The end itself is let go: a call of gRPC keeps its connection for as long as anything refers to it.
            self.last_statistics = end.statistics()
            self.is_parting, self.end = end.is_breaking_off, None

    async def _pass_on(self, end: S) -> None:
        """Move messages between the end and the caller until there are no more; cancelled when the caller closes."""
        raise NotImplementedError

    def close_now(self) -> None:
        if self.end is not None and not self.end.is_breaking_off:
            self.end.close()
        super().close_now()


class HeldSender(HeldStream[RemoteSender]):
    """Sends what the caller puts in line."""

    def __init__(self, opening: AbstractAsyncContextManager[RemoteSender], what: str) -> None:
        """See ``Held``."""
        super().__init__(opening, what)
        # The caller appends to the line, and the loop moves what is there to its own.
        self.line: deque[pa.RecordBatch] = deque()
        self.leaving: deque[pa.RecordBatch] = deque()
        self._moved_rows = 0
        self.has_nothing_to_do = False
        self.has_something_to_do = asyncio.Event()
        self.wanted_end: tuple[bool, EndOutcome] | None = None
        self.outcome: EndOutcome | None = None

    async def _pass_on(self, end: RemoteSender) -> None:
        while True:
            self._move()
            if self.leaving:
                self.tell_caller()
                await end.send_many(self.leaving)
            elif self.wanted_end is not None:
                closes_channel, until = self.wanted_end
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
        while line:
            batch = line.popleft()
            self.leaving.append(batch)
            self._moved_rows += batch.num_rows

    async def counted(self) -> int:
        """Rows of all that was ever in line."""
        self._move()
        return self._moved_rows

    async def left_over(self) -> list[pa.RecordBatch]:
        """What has not left."""
        self._move()
        return list(self.leaving)

    async def lack(self) -> str:
        """What the oldest batch waits for."""
        return "" if self.end is None else self.end.lack

    def abort(self, reason: str) -> None:
        """Give the stream up."""
        if self.end is not None:
            self.end.abort(reason)
        Held.close_now(self)  # which lets the abort arrive


class Entry(NamedTuple):
    """What was read ahead: chunks or another message."""

    start: int
    """The number of its first message, and of the one that follows its last."""
    stop: int
    payload: JoinedChunks | Message[Any]


class HeldReceiver(HeldStream[RemoteReceiver]):
    """Reads ahead of the caller.

    Messages are numbered.  The caller has been handed all before ``handed`` and has consumed all before ``consumed``;
    neither ever goes back, and nothing else is told to the loop.
    """

    def __init__(self, opening: AbstractAsyncContextManager[RemoteReceiver], what: str) -> None:
        """See ``Held``."""
        super().__init__(opening, what)
        # The loop appends, and the caller removes what it has consumed.
        self.ahead: deque[Entry] = deque()
        self.has_ended = False
        """Does nothing follow what lies ahead?"""
        self.handed = self.consumed = 0
        self.owed_messages = 1
        """The loop is to be told once so many were consumed."""
        # What the receiver knows to be consumed; what lies ahead, by its last number, and how many rows.
        self._settled = 0
        self._unread: deque[tuple[int, int]] = deque()
        self._unread_rows = 0
        self._is_told = asyncio.Event()

    async def _pass_on(self, end: RemoteReceiver) -> None:
        eighth, taken = ahead_rows(end.parameters), 0
        while True:
            while self._is_full(_READ_SHARES * eighth):
                self._is_told.clear()
                await self._is_told.wait()
            try:
                payload = await end.take_joined()
            except EndOfStream:
                break
            count, rows = 1, 0
            if isinstance(payload, JoinedChunks):
                count, rows = len(payload.rows), payload.num_rows
                self.owed_messages = eighth * count // max(rows, 1)
            self._unread.append((taken + count, rows))
            self._unread_rows += rows
            self.ahead.append(Entry(taken, taken + count, payload))
            self.tell_caller()
            taken += count
        self.has_ended = True
        self.tell_caller()
        # Until the caller has consumed everything, and both ends have compared their books.
        while self._settled < taken:
            self._is_told.clear()
            await self._is_told.wait()
        while end.state not in (State.CLOSED, State.FAILED):
            await end.changed()

    def _is_full(self, most_rows: int) -> bool:
        """Do so many rows lie behind the next ones?  Permits bound them anyway; what waits longer comes joined."""
        unread = self._unread
        while unread and unread[0][0] <= self.handed:
            self._unread_rows -= unread.popleft()[1]
        return len(unread) > 1 and self._unread_rows - unread[0][1] >= most_rows

    def settle(self) -> None:
        """The caller has consumed some messages."""
        new = self.consumed - self._settled
        self._settled += new
        if new and self.end is not None:
            with suppress(PermitflowError):  # of a stream that is over, as the next read says
                self.end.consume(new)
        self._is_told.set()
