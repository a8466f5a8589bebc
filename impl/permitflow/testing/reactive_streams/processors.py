"""Tests of a processor that passes elements on unchanged: it is a publisher and a subscriber."""

from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

from permitflow.reactive.interfaces import Processor, Publisher, Subscriber, Subscription
from permitflow.reactive.publishers import IterablePublisher, reject
from permitflow.testing.reactive_streams.probes import (
    Probe,
    Puppet,
    RecordingSubscription,
    RuleBroken,
    WhiteboxProbe,
    required,
    skip,
)
from permitflow.testing.reactive_streams.publishers import PublisherVerification
from permitflow.testing.reactive_streams.subscribers import ENDS, SubscriberWhiteboxVerification, TestFailure

T = TypeVar("T")


class IdentityProcessorVerification(PublisherVerification[T], SubscriberWhiteboxVerification[T], Generic[T]):
    """All tests of a publisher and of a subscriber, and some more: subclass it, with ``create_identity_processor``."""

    max_subscribers: ClassVar[int] = 1
    """How many subscribers the processor serves at once."""

    def create_identity_processor(self) -> Processor[T, T]:
        """A new processor that passes on what it gets."""
        raise NotImplementedError

    # As a publisher: the tests feed it.

    def create_publisher(self, elements: int) -> Publisher[T]:
        """The processor, behind a publisher of so many elements."""
        return self._fed(self.create_element(number) for number in range(elements))

    def create_failed_publisher(self) -> Publisher[T] | None:
        """The processor, behind a publisher that has failed."""
        processor = self.create_identity_processor()
        reject(processor, TestFailure("a test's failure"))
        return processor

    def create_failing_publisher(self, elements: int) -> Publisher[T] | None:
        """The processor, behind a publisher that fails."""

        def failing() -> Iterator[T]:
            yield from (self.create_element(number) for number in range(elements))
            raise TestFailure("a test's failure")

        return self._fed(failing())

    def _fed(self, elements: Iterator[T]) -> Processor[T, T]:
        processor = self.create_identity_processor()
        IterablePublisher(elements).subscribe(processor)
        return processor

    # As a subscriber: what comes out of it was handled.

    def create_subscriber(self, probe: WhiteboxProbe[T]) -> Subscriber[T]:
        """The processor, before a subscriber that tells the probe what comes."""
        processor = self.create_identity_processor()
        processor.subscribe(_Telling(probe))
        return processor

    # As both.

    @required
    async def test_spec104_all_subscribers_hear_of_a_failure(self) -> None:
        """A failure reaches all subscribers, also one that has requested nothing."""
        subscriber, subscription, probes = await self._two()
        probes[0].request(2)
        await self._requested(subscription, 1)
        self._signal("2.13", subscriber.on_next, self.create_element(0))
        await self._elements(probes[0], 1, "1.4")
        error = TestFailure("a test's failure")
        self._signal("2.10", subscriber.on_error, error)
        for probe in probes:
            await self.until(lambda probe=probe: probe.errors, "1.4", "a subscriber did not hear of the failure")  # type: ignore[misc]

    @required
    async def test_spec201_old_requests_are_remembered(self) -> None:
        """What one subscriber has requested long ago is still requested when another one comes."""
        subscriber, subscription, probes = await self._two()
        probes[0].request(20)
        for number in range(3):
            await self._requested(subscription, number + 1)
            self._signal("2.13", subscriber.on_next, self.create_element(number))
            await self._elements(probes[0], number + 1, "2.1")
        await self._nothing_more(probes[1], "1.1", "nothing was requested")
        await self._requested(subscription, 4)

    async def _two(self) -> tuple[Processor[T, T], RecordingSubscription, list[Probe[T]]]:
        if self.max_subscribers < 2:
            skip("the processor serves one subscriber at a time")
        processor, subscription = self.create_identity_processor(), RecordingSubscription()
        self._signal("2.13", processor.on_subscribe, subscription)
        return processor, subscription, [await self._subscribed_to(processor) for _ in range(2)]

    @required
    async def test_spec402_the_end_is_passed_on_at_once(self) -> None:
        """A failure is passed on without a request, if no element is left; so is the end."""
        for end, errors in ENDS.items():
            processor = self.create_identity_processor()
            self._signal("2.13", processor.on_subscribe, RecordingSubscription())
            probe = await self._subscribed_to(processor)
            await self.rest()
            self._end("2.13", processor, end)
            await self.until(lambda it=probe: it.is_over, "4.2", f"{end} was not passed on")  # type: ignore[misc]
            await self.rest()
            probe.check()
            if probe.errors != [*errors]:
                raise RuleBroken("4.2", f"{end} was passed on as {probe.errors}")

    @required
    async def test_a_cancellation_is_passed_on(self) -> None:
        """If its last subscriber cancels, the processor cancels its own subscription."""
        processor, subscription = self.create_identity_processor(), RecordingSubscription()
        self._signal("2.13", processor.on_subscribe, subscription)
        probe = await self._subscribed_to(processor)
        probe.request(1)
        await self.rest()
        probe.cancel()
        await self.until(lambda: subscription.cancellations, "2.6", "the processor has not called cancel")


class _Telling(Subscriber[T]):
    """A subscriber that tells a probe what comes, and does what a puppet is told."""

    def __init__(self, probe: WhiteboxProbe[T]) -> None:
        self._probe = probe

    def on_subscribe(self, subscription: Subscription) -> None:
        self._probe.register_on_subscribe(_Strings(subscription))

    def on_next(self, element: T) -> None:
        self._probe.register_on_next(element)

    def on_error(self, error: BaseException) -> None:
        self._probe.register_on_error(error)

    def on_complete(self) -> None:
        self._probe.register_on_complete()


class _Strings(Puppet):
    """Moves a subscriber by its subscription."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def trigger_request(self, n: int) -> None:
        self._subscription.request(n)

    def signal_cancel(self) -> None:
        self._subscription.cancel()
