"""One event loop for all blocking clients of this process, in a thread that the first client starts.

A fork copies no thread.  A child has no loop until it opens a stream itself, and cannot use its parent's streams.
At exit, running tasks are cancelled, and the thread ends.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar, cast

T = TypeVar("T")

# Cancelled tasks end at once; this only keeps a defect from hanging the process at its exit.
_JOIN_SECONDS = 5.0


class Background:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="permitflow's event loop", daemon=True)
        self.is_alive = False
        """Does the loop run in this process?"""
        self.is_inherited = False
        """Does it belong to a process from which this one was forked?"""

    def start(self) -> None:
        """Start the thread."""
        atexit.register(self.stop)
        self._thread.start()
        self.is_alive = True

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stopped.wait()

    def abandon(self) -> None:
        """Give the thread up; if it runs, it ends."""
        atexit.unregister(self.stop)
        self.is_alive = False
        self._loop.call_soon_threadsafe(self._stopped.set)

    def stop(self) -> None:
        """Cancel all tasks, and end the thread.  Stopping twice is harmless."""
        if self.is_alive:
            self.abandon()
            self._thread.join(_JOIN_SECONDS)

    def call(self, function: Callable[[], object]) -> None:
        """Let the loop call a function soon; twice, possibly, if a signal's exception interrupts this call."""
        try:
            self._loop.call_soon_threadsafe(function)
        except BaseException:
            # The call may be scheduled without the loop being woken.
            self._loop.call_soon_threadsafe(function)
            raise

    def run(self, function: Callable[[], Coroutine[object, object, T]], timeout_seconds: float | None = None) -> T:
        """Run a coroutine function in the loop and wait for its result; an interrupted wait cancels it.

        Raises:
            TimeoutError: it takes longer than ``timeout_seconds``.
        """
        answer = _Answer(function)
        try:
            self.call(answer.begin)
            seconds = -1 if timeout_seconds is None else min(timeout_seconds, threading.TIMEOUT_MAX)
            has_come = answer.has_come.acquire(timeout=seconds)
        except BaseException:
            self.call(answer.cancel)
            raise
        if not has_come:
            self.call(answer.cancel)
            raise TimeoutError
        if answer.error is not None:
            raise answer.error
        return cast("T", answer.result)


class _Answer(Generic[T]):
    """The result of a coroutine function.

    Not a ``concurrent.futures`` future: a signal's exception can leave its lock taken, and the loop would wait for it.
    """

    def __init__(self, function: Callable[[], Coroutine[object, object, T]]) -> None:
        self._function = function
        self._has_begun = False
        self._task: asyncio.Task[None] | None = None
        self.result: T | None = None
        self.error: Exception | None = None
        self.has_come = threading.Lock()
        self.has_come.acquire()

    def begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            self.result = await self._function()
        except Exception as error:
            self.error = error
        # Not in the caller's thread: code that runs while a task is destroyed loses exceptions, a signal's too.
        self._task = None
        self.has_come.release()

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


_lock = threading.Lock()
_running: Background | None = None


def background() -> Background:
    """The loop of this process, started if necessary."""
    global _running
    # On Python 3.14 a signal's exception can leave a lock taken (CPython's gh-148874): no lock where the loop runs.
    if (running := _running) is not None and running.is_alive:
        return running
    with _lock:
        if _running is None or not _running.is_alive:
            _running = Background()
            try:
                _running.start()
            except BaseException:
                # A signal's exception can keep a thread from ever starting.
                _running.abandon()
                _running = None
                raise
        return _running


def _forget() -> None:
    """Drop the parent's loop, in a forked child: its lock may stay taken for ever."""
    global _lock, _running
    if _running is not None:
        _running.is_alive, _running.is_inherited = False, True
        atexit.unregister(_running.stop)
    _lock, _running = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
