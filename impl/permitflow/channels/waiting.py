"""Who waits at a local channel, in which order, and for how long.

Waking a task is not doing its work: a woken task acts by itself when it runs, so that a task that is cancelled in
between has done nothing.  What it was woken for stays its own until then, and goes to the next in line if it gives
up; newcomers go to the end of the line.

Going to sleep and being woken cost more than ten messages.  On a busy channel a task that has to wait therefore lets
all others have one turn of the loop first (``turn``): often that is enough.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from types import coroutine
from typing import Generic, TypeVar

from permitflow.errors import WouldBlock
from permitflow.protocol.messages import Message, Offered
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.sender import PermitSender

__all__ = ["BURST", "ParkedSend", "ReceiveLine", "SendLine", "Stopwatch", "turn"]

T = TypeVar("T")

BURST = 2
"""So many chunks since the last wait make a channel busy.  Where each chunk is waited for, a turn would be wasted."""


@coroutine
def turn() -> Generator[None, None, None]:
    """Let every task that can run do so once."""
    yield


class Stopwatch:
    """Measures the time during which at least one of several waits is going on, in seconds."""

    __slots__ = ("clock", "running", "since", "total")

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` tells the time in seconds; it is only asked when somebody waits."""
        self.clock = clock
        self.running = 0
        self.since = 0.0
        self.total = 0.0

    def start(self) -> None:
        """One more wait begins."""
        if not self.running:
            self.since = self.clock()
        self.running += 1

    def stop(self) -> None:
        """One wait is over."""
        self.running -= 1
        if self.running == 0:
            self.total += self.clock() - self.since

    @property
    def seconds(self) -> float:
        """The time so far, a wait that is going on included."""
        return self.total + (self.clock() - self.since if self.running else 0.0)


class ParkedSend(Generic[T]):
    """A send that waits: one message, or the slices of a chunk."""

    __slots__ = ("future", "is_awake", "is_over", "is_refused", "offered", "sent")

    def __init__(self, offered: list[Offered[T]]) -> None:
        """What the core was offered, in order."""
        self.offered = offered
        self.sent = 0
        """How many of them have left."""
        self.is_over = False
        """Is there nothing left to wait for?"""
        self.is_refused = False
        """Is that because the stream is over, so that the rest will never leave?"""
        self.is_awake = True
        """Has the task been woken since it went to sleep?"""
        self.future: asyncio.Future[None] | None = None

    @property
    def sent_rows(self) -> int:
        """Rows of what has left."""
        return sum(offered.message.rows for offered in self.offered[: self.sent])

    def sleep(self) -> asyncio.Future[None]:
        """What to await until somebody wakes this send."""
        self.is_awake = False
        self.future = asyncio.get_running_loop().create_future()
        return self.future

    def wake(self) -> None:
        """Let the task run; once is enough."""
        self.is_awake = True
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


class SendLine(Generic[T]):
    """Sends of one class that wait for permits, oldest first: the order in which the core holds their messages."""

    __slots__ = ("_deliver", "_send", "_sendable", "_withdraw", "parked")

    def __init__(
        self,
        sendable: Callable[[], int],
        send: Callable[[], Message[T]],
        withdraw: Callable[[Offered[T]], bool],
        deliver: Callable[[Message[T]], None],
    ) -> None:
        """The first three are the core's decisions; ``deliver`` is the way to the receiver."""
        self.parked: deque[ParkedSend[T]] = deque()
        self._sendable = sendable
        self._send = send
        self._withdraw = withdraw
        self._deliver = deliver

    def go(self, parked: ParkedSend[T]) -> None:
        """Let this send's messages leave as far as it is their turn and their permits are here."""
        line = self.parked
        while line and line[0] is parked and self._send_head():
            pass

    def advance(self) -> bool:
        """After a change for the better: finish a chunk that has left in part, and wake those whose turn it is.

        Does somebody still sleep, or is a chunk still on its way?
        """
        line = self.parked
        while line and line[0].sent:
            if not self._send_head():
                return True
        if not line:
            return False
        sendable = self._sendable()
        for parked in line:
            if not parked.is_awake:
                if sendable <= 0:
                    return True
                parked.wake()
            sendable -= len(parked.offered)
        return False

    def give_up(self, parked: ParkedSend[T]) -> None:
        """Take a cancelled send out of the line, unless a part of it has left: then the rest follows by itself."""
        if parked.sent or parked.is_refused:
            return
        self.parked.remove(parked)
        for offered in reversed(parked.offered):
            self._withdraw(offered)

    def refuse_all(self) -> None:
        """The stream is over: wake everybody with that news."""
        while self.parked:
            parked = self.parked.popleft()
            parked.is_over = parked.is_refused = True
            parked.wake()

    def _send_head(self) -> bool:
        try:
            message = self._send()
        except WouldBlock:
            return False
        parked = self.parked[0]
        parked.sent += 1
        if parked.sent == len(parked.offered):
            self.parked.popleft()
            parked.is_over = True
            if not parked.is_awake:
                parked.wake()
        self._deliver(message)
        return True


class ReceiveLine(Generic[T]):
    """The receiver's inbox and the tasks that wait for a message in it, oldest first."""

    __slots__ = ("_inbox", "_sender", "_sent_before", "at_arrival", "futures", "reserved")

    def __init__(self, inbox: PermitReceiver[T], sender: PermitSender[T]) -> None:
        """Nobody waits.  The sender is asked how much it has sent."""
        self._inbox = inbox
        self._sender = sender
        self._sent_before = 0
        self.futures: deque[asyncio.Future[bool]] = deque()
        """Tasks that have not been woken."""
        self.reserved = 0
        """Messages, here or to come, that belong to tasks which were woken, or let others have a turn."""
        self.at_arrival: Callable[[], None] | None = None
        """Called, before anybody is woken, at the end of a send that brings something to those who wait."""

    @property
    def spare(self) -> int:
        """Messages that are here and belong to nobody."""
        inbox = self._inbox
        return len(inbox._costs) - inbox._taken - self.reserved

    def deliver(self, message: Message[T]) -> None:
        """Put a message into the inbox, and wake whoever has waited longest."""
        self._inbox.deliver(message)
        if self.futures:
            self.wake()

    def begin_turn(self) -> bool:
        """Let a task that has to wait look again after a turn of the loop, if that is worth while.

        It is if a burst of chunks has come since the last wait: then the sender is busy, and may soon send more.
        The next message that comes is kept for this task, until it counts itself out of ``reserved`` or gives up.
        """
        sent = self._sender.sent_chunks
        before, self._sent_before = self._sent_before, sent
        if sent - before < BURST or self.reserved or self.futures:
            return False
        self.reserved = 1
        return True

    def abandon_turn(self) -> None:
        """The task was cancelled: what was kept for it is the next one's."""
        self.reserved -= 1
        if self.futures:
            self.wake()

    def sleep(self, *, is_first: bool = False) -> asyncio.Future[bool]:
        """What to await until a message is this task's (true), or there may never be one (false).

        It stands at the end of the line, or before all others.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if is_first:
            self.futures.appendleft(future)
        else:
            self.futures.append(future)
        return future

    def give_up(self, future: asyncio.Future[bool]) -> None:
        """After a cancellation: pass on what the task was woken for, or leave the line."""
        if future.done() and not future.cancelled():
            self.reserved -= future.result()
            self.wake()
        elif future in self.futures:
            self.futures.remove(future)

    def arrive(self) -> None:
        """A send has brought something, and has nothing else to do: ``wake``, unless somebody takes it at once."""
        if self.at_arrival is not None:
            self.at_arrival()
        if self._inbox._costs:
            self.wake()

    def wake(self) -> None:
        """Let as many tasks as there are spare messages take one each."""
        inbox = self._inbox
        spare = len(inbox._costs) - inbox._taken - self.reserved  # as ``spare``, without its calls
        while spare > 0 and self.futures:
            future = self.futures.popleft()
            if not future.done():
                future.set_result(True)
                self.reserved += 1
                spare -= 1

    def wake_all(self) -> None:
        """Let everybody see that no message will come any more."""
        while self.futures:
            future = self.futures.popleft()
            if not future.done():
                future.set_result(False)
