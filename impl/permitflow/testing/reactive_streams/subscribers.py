"""Tests of a subscriber: from outside, and with its help."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Generic, TypeVar, cast

from permitflow.reactive.interfaces import Subscriber
from permitflow.testing.reactive_streams.probes import (
    Puppet,
    RecordingSubscription,
    RuleBroken,
    Verification,
    WhiteboxProbe,
    in_thread,
    required,
)

T = TypeVar("T")


class TestFailure(Exception):
    """What the tests give to ``on_error``."""

    __test__ = False


ENDS: dict[str, tuple[BaseException, ...]] = {"on_complete": (), "on_error": (TestFailure("a test's failure"),)}
"""The ways in which a stream ends, with arguments."""
NUMBERS = {"on_complete": "2.9", "on_error": "2.10"}
"""The rules about them."""


class _SubscriberVerification(Verification, Generic[T]):
    """The tests that need no help of the subscriber."""

    most_elements: ClassVar[int] = 8
    """The most elements that a test emits; the subscriber must ask for at least one at first."""

    def create_element(self, number: int) -> T:
        """The element with this number; by default the number."""
        return cast("T", number)

    def trigger_request(self, subscriber: Subscriber[T]) -> None:
        """Let a subscriber that asks for nothing by itself ask for an element; by default, nothing."""

    def _new(self) -> Subscriber[T]:
        raise NotImplementedError

    def _signal(self, number: str, signal: Callable[..., None], *arguments: object) -> None:
        """Give a signal, which must return normally."""
        try:
            signal(*arguments)
        except Exception as error:
            raise RuleBroken(number, f"{signal.__name__} must return normally, and raised {error!r}") from error

    def _end(self, number: str, subscriber: Subscriber[T], end: str) -> None:
        self._signal(number, getattr(subscriber, end), *ENDS[end])

    async def _subscribed(self, number: str) -> tuple[Subscriber[T], RecordingSubscription]:
        subscriber, subscription = self._new(), RecordingSubscription()
        self._signal(number, subscriber.on_subscribe, subscription)
        return subscriber, subscription

    async def _requesting(self, number: str) -> tuple[Subscriber[T], RecordingSubscription]:
        """A subscriber that has asked for an element."""
        subscriber, subscription = await self._subscribed(number)
        self.trigger_request(subscriber)
        await self.until(lambda: subscription.requests, "2.1", "the subscriber has not called request")
        return subscriber, subscription

    async def _quiet(self, subscription: RecordingSubscription) -> None:
        await self.rest()
        subscription.check()

    @required
    async def test_spec201_asks_for_elements(self) -> None:
        """A subscriber calls request, and goes on to do so as elements come."""
        subscriber, subscription = await self._requesting("2.1")
        for number in range(self.most_elements):
            if number >= subscription.requested:
                self.trigger_request(subscriber)
                text = f"{number} elements came, and no more were requested"
                await self.until(lambda number=number: subscription.requested > number, "2.1", text)  # type: ignore[misc]
            self._signal("2.13", subscriber.on_next, self.create_element(number))
        await self._quiet(subscription)
        self._signal("2.9", subscriber.on_complete)

    @required
    async def test_spec203_204_the_end_calls_nothing(self) -> None:
        """In on_complete and on_error, and afterwards, a subscriber calls nothing, even with elements left."""
        for end in ENDS:
            subscriber, subscription = await self._requesting("2.3")
            for number in range(min(subscription.requested, self.most_elements)):
                self._signal("2.13", subscriber.on_next, self.create_element(number))
            with subscription.ending(end):
                self._end("2.13", subscriber, end)
            await self._quiet(subscription)

    @required
    async def test_spec205_cancels_a_second_subscription(self) -> None:
        """A subscriber that has a subscription cancels another one, and asks it for nothing."""
        subscriber, first = await self._requesting("2.5")
        second = RecordingSubscription()
        self._signal("2.5", subscriber.on_subscribe, second)
        await self.until(lambda: second.cancellations, "2.5", "a second subscription was not cancelled")
        if second.requests or first.cancellations:
            raise RuleBroken("2.5", "a second subscription was asked for elements, or the first one was cancelled")
        self._signal("2.9", subscriber.on_complete)

    @required
    async def test_spec207_310_its_calls_never_overlap(self) -> None:
        """A subscriber never calls its subscription from two threads at once, though elements come within request."""
        subscriber, subscription = self._new(), RecordingSubscription()
        emitted = 0

        def emit(n: int) -> None:
            nonlocal emitted
            start = emitted
            emitted = min(start + n, self.most_elements)
            in_thread(self._emit, subscriber, subscription, start, emitted)

        subscription.when_requested = emit
        self._signal("3.10", subscriber.on_subscribe, subscription)
        self.trigger_request(subscriber)
        await self.until(lambda: emitted, "2.1", "the subscriber has not called request")
        await self._quiet(subscription)
        self._signal("2.9", subscriber.on_complete)

    def _emit(self, subscriber: Subscriber[T], subscription: RecordingSubscription, start: int, stop: int) -> None:
        try:
            for number in range(start, stop):
                self._signal("2.13", subscriber.on_next, self.create_element(number))
        except RuleBroken as broken:
            subscription.faults.append(broken)

    @required
    async def test_spec209_210_takes_the_end(self) -> None:
        """A subscriber takes on_complete and on_error, after it has called request and right after on_subscribe."""
        for end, number in NUMBERS.items():
            for begin in (self._requesting, self._subscribed):
                subscriber, _ = await begin(number)
                self._end(number, subscriber, end)
                await self.rest()

    @required
    async def test_spec213_raises_an_error_for_none(self) -> None:
        """on_subscribe, on_next and on_error raise TypeError or ValueError for None."""
        self._refuses_none("on_subscribe", self._new())
        for name, begin in {"on_next": self._requesting, "on_error": self._subscribed}.items():
            subscriber, _ = await begin("2.13")
            self._refuses_none(name, subscriber)

    def _refuses_none(self, name: str, subscriber: Subscriber[T]) -> None:
        try:
            getattr(subscriber, name)(None)
        except (TypeError, ValueError):
            return
        except Exception as error:
            raise RuleBroken("2.13", f"{name}(None) must raise TypeError or ValueError, not {error!r}") from error
        raise RuleBroken("2.13", f"{name}(None) raised no error")

    @required
    async def test_spec310_311_everything_may_come_within_request(self) -> None:
        """Elements and the end may come within the subscriber's own call of request."""
        for end in ENDS:
            subscriber, subscription = self._new(), RecordingSubscription()
            subscription.when_requested = partial(self._emit_all, subscriber, subscription, end)
            self._signal("3.11", subscriber.on_subscribe, subscription)
            self.trigger_request(subscriber)
            await self.until(lambda it=subscription: it.signal, "2.1", "the subscriber has not called request")  # type: ignore[misc]
            await self._quiet(subscription)

    def _emit_all(self, subscriber: Subscriber[T], subscription: RecordingSubscription, end: str, n: int) -> None:
        if subscription.signal:
            return
        self._emit(subscriber, subscription, 0, min(n, self.most_elements))
        try:
            with subscription.ending(end):
                self._end("3.11", subscriber, end)
        except RuleBroken as broken:
            subscription.faults.append(broken)


class SubscriberBlackboxVerification(_SubscriberVerification[T]):
    """Tests of a subscriber from outside: subclass it, with a method ``create_subscriber``."""

    def create_subscriber(self) -> Subscriber[T]:
        """A new subscriber; it asks for elements by itself, or by ``trigger_request``."""
        raise NotImplementedError

    def _new(self) -> Subscriber[T]:
        return self.create_subscriber()


class SubscriberWhiteboxVerification(_SubscriberVerification[T]):
    """Tests of a subscriber that tells a probe what it does: subclass it, with a method ``create_subscriber``."""

    probe: WhiteboxProbe[T]
    """The probe of the newest subscriber."""

    def create_subscriber(self, probe: WhiteboxProbe[T]) -> Subscriber[T]:
        """A new subscriber; it calls a method of the probe for each signal that it has handled."""
        raise NotImplementedError

    def _new(self) -> Subscriber[T]:
        self.probe = WhiteboxProbe()
        return self.create_subscriber(self.probe)

    def trigger_request(self, subscriber: Subscriber[T]) -> None:
        """Let the puppet ask for an element."""
        if self.probe.puppet is not None:
            self.probe.puppet.trigger_request(1)

    async def _led(self) -> tuple[Subscriber[T], RecordingSubscription, Puppet]:
        subscriber, subscription = await self._subscribed("2.1")
        await self.until(lambda: self.probe.puppet, "2.1", "the subscriber has not called register_on_subscribe")
        return subscriber, subscription, cast("Puppet", self.probe.puppet)

    async def _requested(self, subscription: RecordingSubscription, count: int) -> None:
        text = f"{subscription.requested} elements were requested, after the puppet had asked for {count}"
        await self.until(lambda: subscription.requested >= count, "3.8", text)

    async def _next(self, subscriber: Subscriber[T], number: int) -> None:
        element = self.create_element(number)
        self._signal("2.13", subscriber.on_next, element)
        text = f"on_next({element!r}) did not lead to register_on_next"
        await self.until(lambda: len(self.probe.elements) > number, "2.11", text)
        if self.probe.elements[number] != element:
            raise RuleBroken("2.11", f"register_on_next got {self.probe.elements[number]!r} instead of {element!r}")

    @required
    async def test_a_run_from_request_to_cancel(self) -> None:
        """A subscriber asks for elements, handles them, asks again, and cancels."""
        subscriber, subscription, puppet = await self._led()
        for _ in range(2):
            puppet.trigger_request(1)
        await self._requested(subscription, 1)
        await self._next(subscriber, 0)
        puppet.trigger_request(1)
        await self._requested(subscription, 2)
        await self._next(subscriber, 1)
        puppet.signal_cancel()
        await self.until(lambda: subscription.cancellations, "2.6", "the subscriber has not called cancel")
        await self._quiet(subscription)

    @required
    async def test_spec208_takes_elements_after_its_cancellation(self) -> None:
        """A subscriber that has cancelled still takes what was on its way, and its end."""
        for end in ENDS:
            subscriber, subscription, puppet = await self._led()
            puppet.trigger_request(1)
            await self._requested(subscription, 1)
            puppet.signal_cancel()
            await self.until(lambda: subscription.cancellations, "2.8", "the subscriber has not called cancel")  # noqa: B023
            for number in range(min(subscription.requested, self.most_elements)):
                self._signal("2.8", subscriber.on_next, self.create_element(number))
            self._end("2.8", subscriber, end)
            await self._quiet(subscription)

    @required
    async def test_spec209_210_handles_the_end(self) -> None:
        """A subscriber handles on_complete and on_error after all elements, with a request or without."""
        for end, number in NUMBERS.items():
            for count in (0, 1):
                subscriber, subscription, puppet = await self._led()
                for position in range(count):
                    puppet.trigger_request(1)
                    await self._requested(subscription, position + 1)
                    await self._next(subscriber, position)
                self._end(number, subscriber, end)
                probe = self.probe
                text = f"{end} did not lead to register_{end}"
                await self.until(lambda it=probe: it.errors or it.completions, number, text)  # type: ignore[misc]
                if (probe.completions, *probe.errors) != (int(not ENDS[end]), *ENDS[end]):
                    raise RuleBroken(number, f"{end} led to {probe.completions} completions and to {probe.errors}")

    @required
    async def test_spec211_handles_signals_of_another_thread(self) -> None:
        """A subscriber handles all elements in order, and the end, if another thread brings them."""
        subscriber, subscription, puppet = await self._led()
        elements = [self.create_element(number) for number in range(3)]
        for count, element in enumerate(elements, start=1):
            puppet.trigger_request(1)
            await self._requested(subscription, count)
            await asyncio.to_thread(self._signal, "2.11", subscriber.on_next, element)
        await asyncio.to_thread(self._signal, "2.11", subscriber.on_complete)
        puppet.trigger_request(1)
        await self.until(lambda: self.probe.completions, "2.11", "on_complete did not lead to register_on_complete")
        if self.probe.elements != elements:
            raise RuleBroken("2.11", f"{elements} came, and {self.probe.elements} were handled")

    @required
    async def test_spec308_asks_for_as_many_as_it_is_told(self) -> None:
        """What the puppet asks for is requested in the end, added up."""
        subscriber, subscription, puppet = await self._led()
        puppet.trigger_request(2)
        await self._requested(subscription, 1)
        await self._next(subscriber, 0)
        await self._requested(subscription, 2)
        await self._next(subscriber, 1)
        puppet.trigger_request(3)
        await self._requested(subscription, 3)
        await self._next(subscriber, 2)
        await self._quiet(subscription)
