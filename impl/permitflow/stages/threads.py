"""An iterable that blocks, such as a cursor or a file, read by a thread of its own."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import suppress
from typing import Generic, TypeVar

from permitflow.change import Change
from permitflow.errors import BlockedThreadError
from permitflow.stages.core.parameters import require_above_0, require_at_least

T = TypeVar("T")


class InThread(AsyncIterable[T]):
    """Each iteration begins a thread, which reads up to ``ahead`` elements before they are asked for."""

    def __init__(self, iterable: Iterable[T], ahead: int, closing_seconds: float) -> None:
        """``closing_seconds``: how long an end waits for a thread that is within ``next``.

        Raises:
            InvalidParametersError: a number is out of its range.
        """
        require_at_least(1, ahead=ahead)
        require_above_0(closing_seconds=closing_seconds)
        self._iterable = iterable
        self._ahead = ahead
        self._closing_seconds = closing_seconds

    def __aiter__(self) -> AsyncIterator[T]:
        return _Thread(_Shared(self._iterable, self._ahead), self._closing_seconds)


class _Shared(Generic[T]):
    """What a thread and its consumer share.  It does not know the consumer: one that is gone can be collected."""

    def __init__(self, iterable: Iterable[T], ahead: int) -> None:
        self.name = getattr(iterable, "__qualname__", type(iterable).__name__)
        self._iterable = iterable
        self._ahead = ahead
        self._loop = asyncio.get_running_loop()
        self.changed = Change()
        self.is_awaited = False
        self.condition = threading.Condition()
        self.elements: deque[T] = deque()
        self.is_wanted = True
        self.is_over = False
        self.failure: BaseException | None = None
        """The error of the iterable, or of its closing."""

    def work(self) -> None:
        """Read until the end, or until nothing more is wanted, then close; runs in the thread."""
        try:
            iterator = iter(self._iterable)
            try:
                while self._may_read():
                    for element in iterator:
                        self._hand_over(element)
                        break
                    else:
                        break
            finally:
                # In the thread that has read: a cursor of sqlite3 is for one thread.
                if (close := getattr(iterator, "close", None)) is not None:
                    close()
        except BaseException as error:
            self.failure = error
        finally:
            with self.condition:
                self.is_over = True
            self._wake()

    def _may_read(self) -> bool:
        with self.condition:
            self.condition.wait_for(lambda: len(self.elements) < self._ahead or not self.is_wanted)
            return self.is_wanted

    def _hand_over(self, element: T) -> None:
        with self.condition:
            self.elements.append(element)
            is_awaited, self.is_awaited = self.is_awaited, False
        if is_awaited:
            self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # a loop that was closed has no consumer
            self._loop.call_soon_threadsafe(self.changed.note)

    def take(self) -> list[T]:
        """An element, if one is here; else note that it is awaited."""
        with self.condition:
            if not self.elements:
                self.is_awaited = True
                return []
            self.condition.notify()
            return [self.elements.popleft()]

    def end(self) -> None:
        """Nothing more is wanted."""
        with self.condition:
            self.is_wanted = False
            self.elements.clear()
            self.condition.notify()


class _Thread(AsyncIterator[T]):
    """The elements of one thread.  A cancelled call has taken none."""

    def __init__(self, shared: _Shared[T], closing_seconds: float) -> None:
        self._shared = shared
        self._closing_seconds = closing_seconds
        self._thread: threading.Thread | None = None

    async def __anext__(self) -> T:
        shared = self._shared
        if self._thread is None:
            # A thread that is blocked for ever must not keep the process alive.
            self._thread = threading.Thread(target=shared.work, name=f"next() of {shared.name}", daemon=True)
            self._thread.start()
        while True:
            is_over = shared.is_over  # before the look: what came until then is here
            if found := shared.take():
                return found[0]
            if is_over:
                failure, shared.failure = shared.failure, None
                raise failure or StopAsyncIteration
            await shared.changed.wait()

    async def aclose(self) -> None:
        """Let the thread close what it reads, and wait for that.

        Raises:
            BlockedThreadError: the thread does not come back from the iterable.
            Exception: that of closing.
        """
        shared = self._shared
        shared.end()
        if self._thread is None:
            return  # nothing was opened
        with suppress(TimeoutError):
            async with asyncio.timeout(self._closing_seconds):
                await shared.changed.until(lambda: shared.is_over)
        if not shared.is_over:
            raise BlockedThreadError(source=shared.name, waited_seconds=self._closing_seconds)
        failure, shared.failure = shared.failure, None
        if failure is not None:
            raise failure

    def __del__(self) -> None:
        self._shared.end()
