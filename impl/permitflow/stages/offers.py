"""Elements that come when nobody has asked: a bounded queue which other tasks, and other threads, offer to."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from enum import Enum
from typing import TypeVar

from permitflow.change import Change
from permitflow.channels.interface import require_count
from permitflow.errors import BufferOverflowError, LocalProtocolError, StalledGraphError
from permitflow.stages.core.drop_queue import DropQueue, Overflow
from permitflow.stages.core.ports import EMPTY
from permitflow.stages.source import Source
from permitflow.stages.standing import Watchdog

T = TypeVar("T")

_OWN_QUEUE = (
    "send waits for room in the queue of async_callback",
    "the queue waits until its consumer asks for an element",
    "the consumer does not ask: it is this task, or waits for it",
)


class Offered(Enum):
    """The answer to an offered element."""

    TAKEN = "taken"
    """It is in the queue, or with the consumer.  A strategy that drops buffered elements may still drop it."""
    DROPPED = "dropped"
    """The queue is full: nothing has changed, and a later offer may be taken."""
    CLOSED = "closed"
    """Nothing will be taken any more: the queue was completed or failed, or its consumer has gone."""


class Offers(AsyncIterator[T]):
    """The handle of ``async_callback``, and the elements that its stream reads; it serves one consumer."""

    def __init__(self, capacity: int, overflow: Overflow = Overflow.BLOCK, *, max_waiting: int | None = None) -> None:
        """Take up to ``capacity`` elements ahead of the consumer.

        Args:
            capacity: at least 1; 0, with ``BLOCK``: an element is taken only if the consumer waits for it.
            overflow: the element that gives way in a full queue; with ``BLOCK`` and ``DROP_INCOMING``, an element that
                was taken is never dropped.
            max_waiting: calls of ``send`` that may wait at once; None: any number, each a task that stands still.

        Raises:
            InvalidParametersError: a number is out of its range.
        """
        if max_waiting is not None:
            require_count(max_waiting, name="max_waiting")
        self._queue: DropQueue[T] = DropQueue(capacity, overflow)
        self._max_waiting = max_waiting
        # Held for moments only: by the consumer, and by threads that offer.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._changed = Change()
        self._is_awaited = False
        """Does the consumer wait for an element, with none handed over?"""
        self._handed: T = EMPTY
        self._is_completed = False
        self._is_closed = False
        self._failure: BaseException | None = None
        self._waiting: deque[asyncio.Event] = deque()
        """Calls of ``send``, oldest first."""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def dropped(self) -> int:
        """Elements that gave way: buffered ones, and incoming ones for ``DROP_INCOMING`` and ``FAIL``."""
        return self._queue.dropped

    # Producers.

    def offer(self, element: T) -> Offered:
        """Offer an element; never waits.  Call it from any task or thread."""
        with self._lock:
            if self._is_over:
                return Offered.CLOSED
            # Those that wait come first.
            answer = Offered.DROPPED if self._waiting else self._add(element)
        self._wake_consumer()
        return answer

    async def send(self, element: T) -> Offered:
        """Offer an element; with ``BLOCK``, wait until there is room.  Waiting calls are served in turn.

        A cancelled call has offered nothing.  Call it from the consumer's event loop.

        Returns:
            ``TAKEN``, or ``CLOSED`` if the consumer went meanwhile; for other strategies as ``offer``.

        Raises:
            LocalProtocolError: ``max_waiting`` calls already wait.
            StalledGraphError: nothing in this event loop can make room: the consumer awaits its own queue.
        """
        if self._queue.overflow is not Overflow.BLOCK or self._is_over:
            return self.offer(element)
        if not self._waiting and (answer := self.offer(element)) is not Offered.DROPPED:
            return answer
        if self._max_waiting is not None and len(self._waiting) >= self._max_waiting:
            raise LocalProtocolError(
                f"send: {len(self._waiting)} calls already wait for room, the most that may; await them first"
            )
        turn = asyncio.Event()
        self._waiting.append(turn)
        is_stalled = False

        def stall() -> None:
            nonlocal is_stalled
            is_stalled = True
            turn.set()

        look = Watchdog(stall)
        try:
            while True:
                await turn.wait()
                turn.clear()
                if is_stalled:
                    raise StalledGraphError(chain=_OWN_QUEUE)
                with self._lock:
                    answer = Offered.CLOSED if self._is_closed else self._add(element)
                if answer is not Offered.DROPPED:
                    return answer
        finally:
            look.end()
            self._waiting.remove(turn)
            self._wake_sender()
            self._wake_consumer()

    def complete(self) -> None:
        """End the stream, after all elements that were taken, and those that wait.  Call it from any thread.

        Raises:
            LocalProtocolError: it was completed, or failed, before.
        """
        self._end(None)

    def fail(self, error: BaseException) -> None:
        """End the stream with an error, after all elements that were taken, and those that wait.

        Raises:
            LocalProtocolError: it was completed, or failed, before.
        """
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with self._lock:
            if self._is_completed:
                raise LocalProtocolError("the queue was already completed or failed: it ends once")
            self._is_completed = True
            self._failure = error
        self._wake_consumer()

    @property
    def _is_over(self) -> bool:
        """Does nobody take new offers?"""
        return self._is_closed or self._is_completed

    def _add(self, element: T) -> Offered:
        if self._is_awaited:
            self._is_awaited = False
            self._handed = element
            return Offered.TAKEN
        try:
            return Offered.TAKEN if self._queue.offer(element) else Offered.DROPPED
        except BufferOverflowError as error:
            self._is_completed, self._failure = True, error
            return Offered.CLOSED

    def _wake_consumer(self) -> None:
        loop = self._loop
        if loop is None:
            # Nobody has asked yet.
            return
        if threading.get_ident() == self._thread:
            self._changed.note()
        else:
            # A loop that was closed has no consumer.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._changed.note)

    def _wake_sender(self) -> None:
        if self._waiting and (self._is_awaited or self._is_closed or not self._queue.is_full):
            self._waiting[0].set()

    # The consumer.

    async def __anext__(self) -> T:
        """The next element."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        try:
            while True:
                with self._lock:
                    if self._handed is not EMPTY:
                        element, self._handed = self._handed, EMPTY
                        return element
                    if self._queue:
                        return self._queue.take()
                    if self._is_closed or (self._is_completed and not self._waiting):
                        self._is_closed = True
                        break
                    self._is_awaited = True
                self._wake_sender()
                await self._changed.wait()
        finally:
            self._is_awaited = False
            self._wake_sender()
        failure, self._failure = self._failure, None
        raise failure or StopAsyncIteration

    async def aclose(self) -> None:
        """The consumer has gone: nothing is taken any more; waiting calls return ``CLOSED``."""
        with self._lock:
            self._is_closed = True
        self._wake_sender()


def async_callback(
    capacity: int, overflow: Overflow = Overflow.BLOCK, *, max_waiting: int = 1
) -> tuple[Source[T], Offers[T]]:
    """A source, and the handle with which other tasks and threads bring elements into it; see ``Offers``.

    Raises:
        InvalidParametersError: a number is out of its range.
    """
    offers: Offers[T] = Offers(capacity, overflow, max_waiting=max_waiting)
    return Source(offers), offers
