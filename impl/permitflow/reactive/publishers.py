"""Publishers: over sources of stages, in the event loop; over iterables, without one."""

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from permitflow.cancelling import until_over
from permitflow.reactive.interfaces import Publisher, Subscriber, Subscription
from permitflow.reactive.signals import Signals, require
from permitflow.stages.running import Elements
from permitflow.stages.source import Source

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_UNTOLD = "a subscriber has raised an error, or the source of a cancelled one could not be closed"
# The loop itself keeps no task alive.
_TASKS: set[asyncio.Task[Any]] = set()


def keep(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Keep a task until it has ended."""
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    return task


class SourcePublisher(Publisher[T]):
    """Publishes a source of stages: each subscriber has a run of its own, which asks for an element when it has asked.

    ``subscribe`` is called in the event loop, and all signals come in it.  Subscriptions may be used from any thread.
    """

    def __init__(self, source: Source[T]) -> None:
        """``Source(elements)``, ``Source.receive(receiver)``, or any stages behind one."""
        self._source = source
        self._runs: WeakSet[PublishedRun[T]] = WeakSet()

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Begin a run; if that is impossible, the subscriber's ``on_error`` says why.

        Raises:
            TypeError: ``subscriber`` is None.
        """
        run = PublishedRun(self._source, subscriber)
        self._runs.add(run)
        run.start()

    async def aclose(self) -> None:
        """Cancel all subscriptions, and wait until all sources are closed."""
        runs = list(self._runs)
        for run in runs:
            run.signals.cancel()  # now: a caller that is cancelled in this turn cancels the tasks before they begin
        await asyncio.gather(*[run.aclose() for run in runs])


class PublishedRun(Generic[T]):
    """One run of a source for one subscriber.  It has a task only while an element is wanted, or the source closes."""

    def __init__(self, source: Source[T], subscriber: Subscriber[T]) -> None:
        """Begin with ``start``.

        Raises:
            TypeError: ``subscriber`` is None.
        """
        require(subscriber, "subscriber")
        self.signals = Signals(subscriber, ask=self._on_asked, close=self._on_closed, report=self._report)
        self._source = source
        self._elements: Elements[T] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.get_ident()
        self._task: asyncio.Task[None] | None = None
        self._is_wanted = False
        self._is_reading = False
        """Does the task wait for the source?  Otherwise it sees by itself what has changed."""

    def start(self) -> None:
        """Open the source, and tell the subscriber, also if that has failed."""
        try:
            self._loop = asyncio.get_running_loop()
            self._elements = self._source.open()
        except Exception as error:
            self.signals.fail(error)
        self.signals.subscribe(_Handle(self))

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the loop's thread."""
        if self._loop is None or threading.get_ident() == self._thread:
            function(*arguments)
        else:
            # A loop that was closed runs nothing any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function, *arguments)

    async def aclose(self) -> None:
        """Cancel, and wait until the source is closed."""
        self.signals.cancel()
        while self._task is not None:
            await until_over(self._task)

    def _on_asked(self) -> None:
        self._is_wanted = True
        self._begin_task()

    def _on_closed(self) -> None:
        self._is_wanted = False
        if self._task is None:
            self._begin_task()
        elif self._is_reading:
            self._task.cancel()

    def _begin_task(self) -> None:
        if self._task is None and self._elements is not None and self._loop is not None and not self._loop.is_closed():
            self._task = keep(self._loop.create_task(self._read(self._elements)))

    async def _read(self, elements: Elements[T]) -> None:
        signals = self.signals
        try:
            while self._is_wanted:
                self._is_wanted = False
                await self._read_one(elements)
        except asyncio.CancelledError:
            if not signals.is_over:
                signals.fail(RuntimeError("the task that reads the source was cancelled"))
                raise
        finally:
            try:
                if signals.is_over:
                    await elements.aclose()
            except Exception as error:
                self._report(error)
            finally:
                self._task = None

    async def _read_one(self, elements: Elements[T]) -> None:
        self._is_reading = True
        try:
            element = await anext(elements)
        except StopAsyncIteration:
            self._is_reading = False
            self.signals.complete()
        except Exception as error:
            self._is_reading = False
            self.signals.fail(error)
        else:
            self._is_reading = False
            self.signals.offer(element)

    def _report(self, error: Exception) -> None:
        """What no subscriber can be told."""
        if self._loop is not None:
            self._loop.call_exception_handler({"message": _UNTOLD, "exception": error})


class _Handle(Subscription):
    """What a subscriber gets: its calls reach the run in the event loop, whichever thread they come from."""

    def __init__(self, run: PublishedRun[Any]) -> None:
        self._run = run

    def request(self, n: int) -> None:
        self._run.call(self._run.signals.request, n)

    def cancel(self) -> None:
        self._run.call(self._run.signals.cancel)


class IterablePublisher(Publisher[T]):
    """Publishes an iterable, within the calls of ``request``; it needs no event loop.

    Use it and its subscriptions in one thread.
    """

    def __init__(self, elements: Iterable[T]) -> None:
        """Each subscriber has an iterator of its own."""
        self._elements = elements

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Begin an iteration; if that is impossible, the subscriber's ``on_error`` says why.

        Raises:
            TypeError: ``subscriber`` is None.
        """
        require(subscriber, "subscriber")
        iteration = _Iteration(self._elements, subscriber)
        iteration.signals.subscribe(iteration.signals)


def reject(subscriber: Subscriber[Any], error: Exception) -> None:
    """Refuse a subscriber (rule 1.9).

    Raises:
        TypeError: ``subscriber`` is None.
    """
    require(subscriber, "subscriber")
    signals = _Iteration((), subscriber).signals
    signals.fail(error)
    signals.subscribe(signals)


class _Iteration(Generic[T]):
    """One iteration for one subscriber, whose subscription is the signals themselves."""

    def __init__(self, elements: Iterable[T], subscriber: Subscriber[T]) -> None:
        self.signals = Signals(subscriber, ask=self._read, close=self._close, report=self._report)
        self._iterator: Iterator[T] = iter(())
        try:
            self._iterator = iter(elements)
        except Exception as error:
            self.signals.fail(error)

    def _read(self) -> None:
        try:
            element = next(self._iterator)
        except StopIteration:
            self.signals.complete()
        except Exception as error:
            self.signals.fail(error)
        else:
            self.signals.offer(element)

    def _close(self) -> None:
        iterator, self._iterator = self._iterator, iter(())
        if isinstance(iterator, Generator):
            try:
                iterator.close()
            except Exception as error:
                self._report(error)

    @staticmethod
    def _report(error: Exception) -> None:
        _LOG.error(_UNTOLD, exc_info=error)
