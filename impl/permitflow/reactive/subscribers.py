"""Subscribers: any publisher as a source of stages, or into any channel; and stages as a processor."""

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable
from functools import partial
from typing import Any, TypeVar

from permitflow.cancelling import cancel_all
from permitflow.channels.interface import SendEnd, require_count
from permitflow.errors import LocalProtocolError, RemoteProtocolError
from permitflow.reactive.interfaces import Processor, Publisher, Subscriber, Subscription
from permitflow.reactive.publishers import PublishedRun, keep, reject
from permitflow.reactive.signals import require
from permitflow.stages.offers import Offers
from permitflow.stages.source import DEFAULT_PREFETCH, Source
from permitflow.stream.frames import EndOutcome

T = TypeVar("T")
U = TypeVar("U")


class ReadingSubscriber(Subscriber[T], AsyncIterator[T]):
    """A subscriber whose elements are read by iterating: ``async for element in subscriber``, ``Source(subscriber)``.

    It asks for ``prefetch`` elements at first, and for half as many whenever half of them were read; so it never keeps
    more than ``prefetch``.  Signals may come from any thread; its own calls of the subscription never overlap.
    """

    def __init__(self, prefetch: int = DEFAULT_PREFETCH) -> None:
        """It serves one subscription and one reader.

        Raises:
            InvalidParametersError: ``prefetch`` is below 1.
        """
        require_count(prefetch, name="prefetch")
        self._offers: Offers[T] = Offers(prefetch)
        self._prefetch = prefetch
        self._batch = max(1, prefetch // 2)
        self._expected = self._taken = 0
        """Elements that were requested and have not come; that were read, and for which nothing was requested yet."""
        # Held for moments, and never while a publisher is called.
        self._lock = threading.Lock()
        self._subscription: Subscription | None = None
        self._is_subscribed = False
        self._due = 0
        """How many elements are to be requested."""
        self._is_over = False
        """The stream has ended, or nothing is wanted any more."""
        self._is_cancelled = False
        self._is_calling = False
        """Does a thread call the subscription?  Then it also makes the calls that come up meanwhile."""

    # The publisher's side.

    def on_subscribe(self, subscription: Subscription) -> None:
        """Ask for the first elements; cancel a second subscription, or one that nobody needs (rule 2.5)."""
        require(subscription, "subscription")
        with self._lock:
            is_wanted = not (self._is_subscribed or self._is_over)
            if is_wanted:
                self._is_subscribed = True
                self._subscription = subscription
                self._due = self._expected = self._prefetch
        if is_wanted:
            self._call_subscription()
        else:
            subscription.cancel()

    def on_next(self, element: T) -> None:
        """Keep an element until it is read; after the end or a cancellation, drop it (rule 2.8)."""
        require(element, "element")
        with self._lock:
            is_wanted = self._is_over or self._expected > 0
            if is_wanted and not self._is_over:
                self._expected -= 1
                self._offers.offer(element)
        if not is_wanted:
            rule = "the publisher has emitted an element that was not requested (rule 1.1 of Reactive Streams)"
            self._fail(RemoteProtocolError(rule))
            self._call_subscription()

    def on_error(self, error: BaseException) -> None:
        """The reader gets the error after all elements that came before it."""
        require(error, "error")
        self._end(lambda: self._offers.fail(error))

    def on_complete(self) -> None:
        """The reader gets the end after all elements."""
        self._end(self._offers.complete)

    def _end(self, end: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_over:
                self._is_over = True
                self._subscription = None
                end()

    def _fail(self, error: Exception) -> None:
        """The publisher has broken a rule."""
        with self._lock:
            if not self._is_over:
                self._is_over = self._is_cancelled = True
                self._offers.fail(error)

    # The reader's side.

    async def __anext__(self) -> T:
        """The next element.

        Raises:
            BaseException: that of ``on_error``; ``RemoteProtocolError``: the publisher has broken a rule.
        """
        element = await anext(self._offers)
        with self._lock:
            self._taken += 1
            if self._taken == self._batch:
                self._due += self._batch
                self._expected += self._batch
                self._taken = 0
        self._call_subscription()
        return element

    async def aclose(self) -> None:
        """The reader has gone: cancel the subscription.  Has no effect after the end."""
        with self._lock:
            if not self._is_over:
                self._is_over = self._is_cancelled = True
        self._call_subscription()
        await self._offers.aclose()

    def _call_subscription(self) -> None:
        """Make the calls that are due, one after the other, whichever threads they come from (rule 2.7)."""
        with self._lock:
            if self._is_calling or self._subscription is None:
                return
            self._is_calling = True
        while (call := self._next_call()) is not None:
            try:
                call()
            except Exception as error:
                # Neither may raise (rules 3.15 and 3.16).
                self._fail(error)

    def _next_call(self) -> Callable[[], None] | None:
        with self._lock:
            subscription, due = self._subscription, self._due
            self._due = 0
            if subscription is not None and self._is_cancelled:
                self._subscription = None
                return subscription.cancel
            if subscription is not None and due:
                return partial(subscription.request, due)
            self._is_calling = False
            return None


def from_publisher(publisher: Publisher[T], prefetch: int = DEFAULT_PREFETCH) -> Source[T]:
    """Any publisher as a source of stages; each run subscribes anew, and keeps up to ``prefetch`` elements.

    Raises:
        InvalidParametersError: ``prefetch`` is below 1.
    """
    require_count(prefetch, name="prefetch")
    return Source(_Published(publisher, prefetch))


class _Published(AsyncIterable[T]):
    def __init__(self, publisher: Publisher[T], prefetch: int) -> None:
        self._publisher = publisher
        self._prefetch = prefetch

    def __aiter__(self) -> ReadingSubscriber[T]:
        reading: ReadingSubscriber[T] = ReadingSubscriber(self._prefetch)
        self._publisher.subscribe(reading)
        return reading


class _Passing(Subscriber[T]):
    """A subscriber that passes all signals to one that is read."""

    def __init__(self, prefetch: int) -> None:
        self._reading: ReadingSubscriber[T] = ReadingSubscriber(prefetch)

    def on_subscribe(self, subscription: Subscription) -> None:
        """As ``ReadingSubscriber``."""
        self._reading.on_subscribe(subscription)

    def on_next(self, element: T) -> None:
        """As ``ReadingSubscriber``."""
        self._reading.on_next(element)

    def on_error(self, error: BaseException) -> None:
        """As ``ReadingSubscriber``."""
        self._reading.on_error(error)

    def on_complete(self) -> None:
        """As ``ReadingSubscriber``."""
        self._reading.on_complete()


class SendingSubscriber(_Passing[T]):
    """A subscriber that writes into a channel; an element is sent when the last one has left, as by ``run_to``.

    If the channel's consumer cancels it, the subscription is cancelled; if the stream fails, the channel is aborted.
    """

    def __init__(self, sender: SendEnd[Any], prefetch: int = DEFAULT_PREFETCH) -> None:
        """Begin to send, in the running event loop.

        Raises:
            InvalidParametersError: ``prefetch`` is below 1.
        """
        super().__init__(prefetch)
        self._sending = keep(asyncio.get_running_loop().create_task(Source(self._reading).run_to(sender)))

    async def outcome(self) -> EndOutcome | None:
        """Wait until the stream and the channel have ended.

        Returns:
            What ``sender.end`` returns.

        Raises:
            BaseException: that of ``on_error``, or of the channel.
        """
        return await asyncio.shield(self._sending)

    async def aclose(self) -> None:
        """Cancel the subscription, and abort the channel, unless the stream has ended."""
        await cancel_all(self._sending)


class StagesProcessor(_Passing[T], Processor[T, U]):
    """Stages between a publisher and a subscriber: ``StagesProcessor(lambda source: source.map(f))``.

    Use it in one event loop, for one publisher and one subscriber.  When its publisher fails or completes, its
    subscriber hears that at once, or, if elements are left, after these (rule 4.2).  If its subscriber cancels, it
    cancels, too.
    """

    def __init__(self, stages: Callable[[Source[T]], Source[U]], prefetch: int = DEFAULT_PREFETCH) -> None:
        """Keep up to ``prefetch`` elements, besides those in the stages.

        Raises:
            InvalidParametersError: ``prefetch`` is below 1.
        """
        super().__init__(prefetch)
        self._source = stages(Source(self._reading))
        self._run: PublishedRun[U] | None = None
        self._is_ended = False

    def subscribe(self, subscriber: Subscriber[U]) -> None:
        """Begin; a second subscriber is refused, by its ``on_error``.

        Raises:
            TypeError: ``subscriber`` is None.
        """
        if self._run is not None:
            reject(subscriber, LocalProtocolError("this processor has a subscriber already, and serves only one"))
            return
        self._run = PublishedRun(self._source, subscriber)
        self._run.start()
        if self._is_ended:
            self._look_ahead()

    def on_error(self, error: BaseException) -> None:
        """Pass the error on."""
        super().on_error(error)
        self._look_ahead()

    def on_complete(self) -> None:
        """Pass the end on."""
        super().on_complete()
        self._look_ahead()

    async def aclose(self) -> None:
        """Cancel both subscriptions, and wait until the source is closed."""
        if self._run is not None:
            await self._run.aclose()
        await self._reading.aclose()

    def _look_ahead(self) -> None:
        self._is_ended = True
        if self._run is not None:
            self._run.call(self._run.signals.look_ahead)
