"""The tasks that wait at a channel: their order, and the time they wait.

A woken task does its work itself when it runs, so that a task cancelled in between has done nothing.  Until then, the
message or room it was woken for is reserved for it; if it gives up, the next task in line gets it.  New tasks go to the
end of the line.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from permitflow.errors import LocalProtocolError
from permitflow.flows.messages import Message, Offered
from permitflow.flows.seam import Inbound, Outbound

T = TypeVar("T")


class Stopwatch:
    """Measures the time during which at least one wait is running, in seconds."""

    __slots__ = ("_clock", "_since", "_total", "running")

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` returns the time in seconds; it is called only if there is a wait."""
        self._clock = clock
        self.running = 0
        self._since = 0.0
        self._total = 0.0

    def start(self) -> None:
        """Begin one more wait."""
        if not self.running:
            self._since = self._clock()
        self.running += 1

    def stop(self) -> None:
        """End one wait."""
        self.running -= 1
        if self.running == 0:
            self._total += self._clock() - self._since

    def follow(self, is_running: bool) -> None:
        """Begin or end the only wait, if that has not been done."""
        if is_running > self.running:
            self.start()
        elif is_running < self.running:
            self.stop()

    @property
    def seconds(self) -> float:
        """The time so far, including a running wait."""
        return self._total + (self._clock() - self._since if self.running else 0.0)


class BoundLoop:
    """The event loop of the tasks that wait: the first one's, as for ``asyncio.Queue``."""

    __slots__ = ("_loop", "_what")

    def __init__(self, what: str) -> None:
        """``what`` is bound, for error messages."""
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None

    def require(self) -> None:
        """Require that the loop that runs is the one in which others have waited.

        Raises:
            LocalProtocolError: it is another one.
        """
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise LocalProtocolError(
                f"{self._what} is bound to another event loop, in which a task has waited: both ends belong to one; "
                "between loops and threads use an exchange (serve, put, get), or async_callback"
            )


class ParkedSend(Generic[T]):
    """A waiting send: one message, or the slices of a chunk."""

    __slots__ = ("future", "is_awake", "is_over", "is_refused", "offered", "sent")

    def __init__(self, offered: Sequence[Offered[T]]) -> None:
        """The messages offered to the core, in order."""
        self.offered = offered
        self.sent = 0
        """How many of them have left."""
        self.is_over = False
        """Is the wait over?"""
        self.is_refused = False
        """Is the wait over because the stream is over, so that the rest will never leave?"""
        self.is_awake = True
        """Has the task been woken since it went to sleep?"""
        self.future: asyncio.Future[None] | None = None

    @property
    def sent_rows(self) -> int:
        """Rows that have left."""
        return sum(offered.message.rows for offered in self.offered[: self.sent])

    def sleep(self) -> asyncio.Future[None]:
        """A future that completes when this send is woken."""
        self.is_awake = False
        self.future = asyncio.get_running_loop().create_future()
        return self.future

    def wake(self) -> None:
        """Wake the task, if it is not woken yet."""
        self.is_awake = True
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


class SendLine(Generic[T]):
    """Waiting sends, oldest first: in the order in which the core holds their messages."""

    __slots__ = ("_core", "_deliver", "_loop", "_waiting", "parked")

    def __init__(
        self, core: Outbound[T], deliver: Callable[[Message[T], int | None], None], waiting: Stopwatch, loop: BoundLoop
    ) -> None:
        """The core decides; ``deliver`` passes a message to the receiver, with what it takes of the byte window."""
        self._loop = loop
        self.parked: deque[ParkedSend[T]] = deque()
        self._core = core
        self._deliver = deliver
        self._waiting = waiting

    def park(self, *offered: Offered[T]) -> ParkedSend[T]:
        """Append a send with the offered messages to the line; those that may leave now have left."""
        parked = ParkedSend(offered)
        self.parked.append(parked)
        self.go(parked)
        return parked

    async def leave(self, parked: ParkedSend[T]) -> None:
        """Wait until a queued send has left, or was refused; a cancellation withdraws it.

        If a part of it has left, a cancellation leaves the rest in line.  Call ``advance`` afterwards.
        """
        self._waiting.start()
        try:
            self._loop.require()
            while not parked.is_over:
                await parked.sleep()
                self.go(parked)
        except BaseException:
            if not parked.sent and not parked.is_refused:
                self.parked.remove(parked)
                for offered in reversed(parked.offered):
                    self._core.withdraw(offered)
            raise
        finally:
            self._waiting.stop()

    def advance(self) -> None:
        """Finish sends that have left in part, and wake those whose turn it is, after new room or a withdrawn send."""
        line = self.parked
        while line and line[0].sent:
            if not self._send_head():
                return
        if not line or (len(line) == 1 and line[0].is_awake):
            return
        sendable = self._core.leavable()
        for parked in line:
            if sendable <= 0:
                return
            if not parked.is_awake:
                parked.wake()
            sendable -= len(parked.offered)

    def refuse_all(self) -> None:
        """The stream is over: wake all waiting tasks, and refuse their sends."""
        while self.parked:
            parked = self.parked.popleft()
            parked.is_over = parked.is_refused = True
            parked.wake()

    def go(self, parked: ParkedSend[T]) -> None:
        """Send this send's messages, as far as it is their turn and they may leave; for the sending task itself."""
        while self.parked and self.parked[0] is parked and self._send_head():
            pass

    def _send_head(self) -> bool:
        message = self._core.try_send()
        if message is None:
            return False
        parked = self.parked[0]
        size_bytes = parked.offered[parked.sent].size_bytes
        parked.sent += 1
        if parked.sent == len(parked.offered):
            self.parked.popleft()
            parked.is_over = True
            if not parked.is_awake:
                parked.wake()
        self._deliver(message, size_bytes)
        return True


class ReceiveLine(Generic[T]):
    """The receiver's inbox and the tasks that wait for a message, oldest first."""

    __slots__ = ("_inbox", "_loop", "_reserved", "futures")

    def __init__(self, inbox: Inbound[T], loop: BoundLoop) -> None:
        """Begin without waiting tasks."""
        self._loop = loop
        self._inbox = inbox
        self.futures: deque[asyncio.Future[bool]] = deque()
        """Tasks that have not been woken."""
        # Messages, here or still to arrive, that belong to woken tasks.
        self._reserved = 0

    @property
    def spare(self) -> int:
        """Messages that are here and belong to no task."""
        return self._inbox.untaken - self._reserved

    async def until_woken(self) -> None:
        """Wait, behind all other tasks, until there is a message for this task, or none can arrive."""
        self._loop.require()
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        try:
            is_reserved = await future
        except BaseException:
            if future in self.futures:
                self.futures.remove(future)
            elif future.done() and not future.cancelled():
                # The next task gets the message that this task was woken for.
                self._reserved -= future.result()
                self.wake()
            raise
        self._reserved -= is_reserved

    def deliver(self, message: Message[T], size_bytes: int | None = None) -> None:
        """Put a message into the inbox, and wake the task that has waited longest."""
        self._inbox.deliver(message, size_bytes)
        self.wake()

    def wake(self) -> None:
        """Wake one task for each spare message."""
        if not self.futures:
            return
        spare = self.spare
        while spare > 0 and self.futures:
            future = self.futures.popleft()
            if not future.done():
                future.set_result(True)
                self._reserved += 1
                spare -= 1

    def wake_all(self) -> None:
        """Wake all tasks: no message will arrive any more."""
        while self.futures:
            future = self.futures.popleft()
            if not future.done():
                future.set_result(False)
