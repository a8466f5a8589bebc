"""The kit for Reactive Streams: our own publishers, subscribers and processors pass; each mistake breaks its rule."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.reactive import (
    IterablePublisher,
    Processor,
    Publisher,
    ReadingSubscriber,
    SendingSubscriber,
    SourcePublisher,
    StagesProcessor,
    Subscriber,
    Subscription,
)
from permitflow.reactive.publishers import reject
from permitflow.reactive.signals import MOST_REQUESTED, Signals, require
from permitflow.stages import Source
from permitflow.testing.reactive_streams import (
    IdentityProcessorVerification,
    PublisherVerification,
    RuleBroken,
    SubscriberBlackboxVerification,
    SubscriberWhiteboxVerification,
    WhiteboxProbe,
)


def two_ends(row_permits: int) -> tuple[LocalSender[Any], LocalReceiver[Any]]:
    return open_channel(ChannelParameters(row_permits=row_permits))


def failing(elements: int) -> Iterator[int]:
    yield from range(elements)
    raise OSError("lost")


class TestIterablePublisher(PublisherVerification[int]):
    """Emits within request."""

    def create_publisher(self, elements: int) -> Publisher[int]:
        return IterablePublisher(range(elements))

    def create_failed_publisher(self) -> Publisher[int]:
        class Broken(list[int]):
            def __iter__(self) -> Iterator[int]:
                raise OSError("cannot be read")

        return IterablePublisher(Broken())

    def create_failing_publisher(self, elements: int) -> Publisher[int]:
        return IterablePublisher(failing(elements))


class TestSourcePublisher(TestIterablePublisher):
    """Emits in a task."""

    def create_publisher(self, elements: int) -> Publisher[int]:
        return SourcePublisher(Source(range(elements)))

    def create_failed_publisher(self) -> Publisher[int]:
        return SourcePublisher(Source(range(1)).broadcast(2)[0])

    def create_failing_publisher(self, elements: int) -> Publisher[int]:
        return SourcePublisher(Source(failing(elements)))


class TestPublisherOfStages(TestSourcePublisher):
    """Behind stages with tasks of their own."""

    def create_publisher(self, elements: int) -> Publisher[int]:
        async def numbers() -> AsyncIterator[int]:
            for number in range(elements):
                await asyncio.sleep(0)
                yield number

        return SourcePublisher(Source(numbers()).async_boundary(2).map(lambda number: number + 1).buffer(3))

    def create_failing_publisher(self, elements: int) -> Publisher[int]:
        return SourcePublisher(Source(failing(elements)).buffer(2))


class TestPublisherOfChannel(PublisherVerification[Any]):
    """Behind a channel whose window is smaller than what is requested."""

    def create_publisher(self, elements: int) -> Publisher[Any]:
        sender, receiver = two_ends(2)
        self.feeding = asyncio.ensure_future(Source(range(elements)).run_to(sender))
        return SourcePublisher(Source.receive(receiver))

    async def tear_down(self) -> None:
        if (feeding := getattr(self, "feeding", None)) is not None:
            feeding.cancel()
            await asyncio.wait([feeding])


class TestReadingSubscriber(SubscriberBlackboxVerification[int]):
    def create_subscriber(self) -> Subscriber[int]:
        subscriber: ReadingSubscriber[int] = ReadingSubscriber(3)
        self.reading = asyncio.ensure_future(self.read(subscriber))
        return subscriber

    @staticmethod
    async def read(subscriber: ReadingSubscriber[int]) -> int:
        return len([number async for number in subscriber])

    async def tear_down(self) -> None:
        self.reading.cancel()
        await asyncio.gather(self.reading, return_exceptions=True)


class TestSendingSubscriber(SubscriberBlackboxVerification[int]):
    most_elements = 4

    def create_subscriber(self) -> Subscriber[int]:
        sender, self.receiver = two_ends(8)
        return SendingSubscriber(sender, 4)

    async def tear_down(self) -> None:
        self.receiver.close()


class TestWhitebox(SubscriberWhiteboxVerification[int]):
    """A reader that takes an element when it is told."""

    def create_subscriber(self, probe: WhiteboxProbe[int]) -> Subscriber[int]:
        return Told(probe)


class Told(ReadingSubscriber[int]):
    def __init__(self, probe: WhiteboxProbe[int]) -> None:
        super().__init__(1)
        self.probe = probe
        self.reading = asyncio.ensure_future(self.read())

    def on_subscribe(self, subscription: Subscription) -> None:
        is_first = not self._is_subscribed
        super().on_subscribe(subscription)
        if is_first:
            self.probe.register_on_subscribe(self)

    def trigger_request(self, n: int) -> None:
        """It asks by itself."""

    def signal_cancel(self) -> None:
        self.reading.cancel()
        self.closing = asyncio.ensure_future(self.aclose())

    async def read(self) -> None:
        try:
            async for number in self:
                self.probe.register_on_next(number)
            self.probe.register_on_complete()
        except Exception as error:
            self.probe.register_on_error(error)
        finally:
            await self.aclose()


class TestProcessor(IdentityProcessorVerification[int]):
    def create_identity_processor(self) -> StagesProcessor[int, int]:
        return StagesProcessor(lambda source: source.buffer(2), 2)


# Mistakes in a publisher: each is one method of the core, made wrong.


class IgnoresRequests(Signals[Any]):
    def subscribe(self, subscription: Subscription) -> None:
        super().subscribe(subscription)
        super().request(100)


class ForgetsOldRequests(Signals[Any]):
    def request(self, n: int) -> None:
        self._requested = 0
        super().request(n)


class EmitsAfterCancel(Signals[Any]):
    def cancel(self) -> None:
        if self._end is not False or self._refused is not None:
            super().cancel()


class EmitsAllOnCancel(EmitsAfterCancel):
    def cancel(self) -> None:
        super().cancel()
        if not self.is_over:
            self.request(MOST_REQUESTED)


class CompletesOnCancel(Signals[Any]):
    def cancel(self) -> None:
        subscriber, is_new = self._subscriber, self._end is False and self._refused is None
        super().cancel()
        if subscriber is not None and is_new:
            subscriber.on_complete()


class CompletesAgainWhenAsked(Signals[Any]):
    """And so refers to its subscriber for ever."""

    last: Subscriber[Any] | None = None

    def request(self, n: int) -> None:
        self.last = self._subscriber or self.last
        was_over = self.is_over
        super().request(n)
        if was_over and self._end is True and self.last is not None:
            self.last.on_complete()


class FailsAgainWhenAsked(CompletesAgainWhenAsked):
    def request(self, n: int) -> None:
        self.last = self._subscriber or self.last
        was_over = self.is_over
        super().request(n)
        if was_over and isinstance(self._end, BaseException) and self.last is not None:
            self.last.on_error(self._end)


class NeverCompletes(Signals[Any]):
    def complete(self) -> None:
        pass


class HidesItsFailure(Signals[Any]):
    def fail(self, error: BaseException) -> None:
        self.complete()


class SubscribesLate(Signals[Any]):
    def subscribe(self, subscription: Subscription) -> None:
        assert self._subscriber is not None
        self._subscriber.on_complete()
        super().subscribe(subscription)


class ForgetsRequestsWithinSignals(Signals[Any]):
    def request(self, n: int) -> None:
        if not self._is_busy:
            super().request(n)


class Recurses(Signals[Any]):
    """And so emits in two threads at once."""

    def _go_on(self) -> None:
        self._is_busy = False
        super()._go_on()


class KeepsItsSubscriber(Signals[Any]):
    def cancel(self) -> None:
        self.kept = self._subscriber or getattr(self, "kept", None)
        super().cancel()


class CancelsOnce(Signals[Any]):
    def cancel(self) -> None:
        if self.is_over:
            raise RuntimeError("cancelled already")
        super().cancel()


class RefusesRequestsAfterCancel(Signals[Any]):
    def request(self, n: int) -> None:
        if self.is_over:
            raise RuntimeError("over")
        super().request(n)


class IgnoresZero(Signals[Any]):
    def request(self, n: int) -> None:
        if n > 0:
            super().request(n)


class CountsIn32Bits(Signals[Any]):
    def request(self, n: int) -> None:
        super().request(n if n < 2**31 else -1)


class LosesTheFirst(Signals[Any]):
    is_first = True

    def offer(self, element: Any) -> None:
        if self.is_first:
            self.is_first = self._is_asked = False
            self._go_on()
        else:
            super().offer(element)


class AcceptsNone(Signals[Any]):
    def subscribe(self, subscription: Subscription) -> None:
        if self._subscriber is not None:
            super().subscribe(subscription)


PUBLISHER_MISTAKES: list[tuple[str, type[Signals[Any]], str]] = [
    ("test_create_publisher_emits_exactly_so_many_elements", LosesTheFirst, "1.1"),
    ("test_spec101_emits_no_more_than_was_requested", IgnoresRequests, "1.1"),
    ("test_spec102_may_emit_fewer_and_complete", NeverCompletes, "1.2"),
    ("test_spec103_signals_come_one_after_the_other", Recurses, "1.3"),
    ("test_spec104_107_signals_a_failure_on_the_way_and_nothing_follows", HidesItsFailure, "1.4"),
    ("test_spec104_107_signals_a_failure_on_the_way_and_nothing_follows", FailsAgainWhenAsked, "1.7"),
    ("test_spec104_109_refuses_a_subscriber_by_on_error", HidesItsFailure, "1.9"),
    ("test_spec105_107_completes_a_finite_stream_and_nothing_follows", CompletesAgainWhenAsked, "1.7"),
    ("test_spec106_the_end_cancels_the_subscription", KeepsItsSubscriber, "1.6"),
    ("test_spec108_a_cancelled_subscriber_hears_nothing_any_more", CompletesOnCancel, "1.8"),
    ("test_spec109_calls_on_subscribe_first", SubscribesLate, "1.9"),
    ("test_spec109_raises_an_error_for_none", AcceptsNone, "1.9"),
    ("test_spec302_requests_may_come_within_signals", ForgetsRequestsWithinSignals, "3.2"),
    ("test_spec303_recursion_is_bounded", Recurses, "3.3"),
    ("test_spec305_cancel_may_come_from_any_thread", EmitsAfterCancel, "3.5"),
    ("test_spec306_307_calls_after_cancel_do_nothing", EmitsAfterCancel, "3.6"),
    ("test_spec306_307_calls_after_cancel_do_nothing", CancelsOnce, "3.15"),
    ("test_spec308_requests_add_up", ForgetsOldRequests, "3.8"),
    ("test_spec309_a_request_below_one_fails_the_stream", IgnoresZero, "3.9"),
    ("test_spec309_a_wrong_request_within_a_signal_fails_the_stream_after_it", Recurses, "1.3"),
    ("test_spec312_cancel_stops_the_signals", EmitsAllOnCancel, "1.1"),
    ("test_spec313_cancel_drops_references", KeepsItsSubscriber, "3.13"),
    ("test_spec315_316_calls_return_normally", RefusesRequestsAfterCancel, "3.16"),
    ("test_spec317_requests_of_the_largest_number", CountsIn32Bits, "3.17"),
    ("test_spec317_requests_of_the_largest_number", ForgetsOldRequests, "3.17"),
    ("test_spec317_requests_beyond_the_largest_number_are_no_error", CountsIn32Bits, "3.17"),
]


def names_of(kit: type[Any]) -> set[str]:
    return {name for name in dir(kit) if name.startswith("test_")}


def breaks(kit: object, name: str, number: str) -> None:
    with pytest.raises(RuleBroken, match=rf"^rule {number}: "):
        getattr(kit, name)()


OPTIONAL = {name for name in names_of(PublisherVerification) if getattr(PublisherVerification, name).is_optional}


@pytest.mark.parametrize(("name", "mistake", "number"), PUBLISHER_MISTAKES)
def test_a_mistake_of_a_publisher_breaks_its_rule(
    name: str, mistake: type[Signals[Any]], number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("permitflow.reactive.publishers.Signals", mistake)
    if mistake is AcceptsNone:
        monkeypatch.setattr("permitflow.reactive.publishers.require", lambda *_: None)
    breaks(TestIterablePublisher(), name, number)


def test_each_rule_has_a_mistake_that_breaks_it() -> None:
    assert {name for name, _, _ in PUBLISHER_MISTAKES} == names_of(PublisherVerification) - OPTIONAL
    assert {name for name, _, _ in SUBSCRIBER_MISTAKES} == names_of(SubscriberWhiteboxVerification)
    assert names_of(SubscriberBlackboxVerification) < names_of(SubscriberWhiteboxVerification)
    own = names_of(IdentityProcessorVerification) - names_of(PublisherVerification)
    assert {name for name, _, _ in PROCESSOR_MISTAKES} == own - names_of(SubscriberWhiteboxVerification)


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_what_is_left_open_is_skipped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses(IterablePublisher[int]):
        """Serves nobody, and says so with an error that names no rule."""

        def subscribe(self, subscriber: Subscriber[int]) -> None:
            reject(subscriber, RuntimeError("closed"))

    kit = TestIterablePublisher()
    monkeypatch.setattr(kit, "create_publisher", lambda _: Refuses(()))
    with pytest.raises(pytest.skip.Exception, match="leaves this open; rule"):
        getattr(kit, name)()


# Mistakes in a subscriber.


class Plain(Subscriber[int]):
    """A right subscriber that does what a puppet is told, and handles signals at once."""

    def __init__(self, probe: WhiteboxProbe[int]) -> None:
        self.probe = probe
        self.subscription: Subscription | None = None
        self.is_over = False

    def on_subscribe(self, subscription: Subscription) -> None:
        require(subscription, "subscription")
        if self.subscription is None:
            self.subscription = subscription
            self.probe.register_on_subscribe(self)
        else:
            subscription.cancel()

    def trigger_request(self, n: int) -> None:
        if self.subscription is not None and not self.is_over:
            self.subscription.request(n)

    def signal_cancel(self) -> None:
        self.is_over = True
        if self.subscription is not None:
            self.subscription.cancel()

    def on_next(self, element: int) -> None:
        require(element, "element")
        if not self.is_over:
            self.probe.register_on_next(element)

    def on_error(self, error: BaseException) -> None:
        require(error, "error")
        self.is_over = True
        self.probe.register_on_error(error)

    def on_complete(self) -> None:
        self.is_over = True
        self.probe.register_on_complete()


class NeverAsks(Plain):
    def trigger_request(self, n: int) -> None:
        pass


class AsksForOne(Plain):
    def trigger_request(self, n: int) -> None:
        super().trigger_request(1)


class AsksAtTheEnd(Plain):
    def on_complete(self) -> None:
        self.trigger_request(1)
        super().on_complete()


class CancelsAtAnError(Plain):
    def on_error(self, error: BaseException) -> None:
        self.signal_cancel()
        super().on_error(error)


class AsksAfterTheEnd(Plain):
    def on_complete(self) -> None:
        super().on_complete()
        self.is_over = False
        asyncio.get_running_loop().call_soon(self.trigger_request, 1)


class TakesTwo(Plain):
    def on_subscribe(self, subscription: Subscription) -> None:
        require(subscription, "subscription")
        if self.subscription is None:
            super().on_subscribe(subscription)


class AsksInAnyThread(Plain):
    def on_next(self, element: int) -> None:
        super().on_next(element)
        self.trigger_request(1)


class RaisesAtTheEnd(Plain):
    def on_complete(self) -> None:
        raise RuntimeError("not yet")


class RaisesAtAnError(Plain):
    def on_error(self, error: BaseException) -> None:
        require(error, "error")
        raise error


def taking_none(name: str) -> type[Plain]:
    def take(self: Plain, it: object) -> None:
        if it is not None:
            getattr(Plain, name)(self, it)

    return type(f"TakesNoneBy{name}", (Plain,), {name: take})


class CompletesLater(Plain):
    is_asking = False

    def trigger_request(self, n: int) -> None:
        self.is_asking = True
        super().trigger_request(n)
        self.is_asking = False

    def on_complete(self) -> None:
        if self.is_asking:
            raise RuntimeError("not now")
        super().on_complete()


class FailsLater(CompletesLater):
    on_complete = Plain.on_complete

    def on_error(self, error: BaseException) -> None:
        if self.is_asking:
            raise RuntimeError("not now")
        super().on_error(error)


class NeverCancels(Plain):
    def signal_cancel(self) -> None:
        self.is_over = True


class RaisesAfterItsCancellation(Plain):
    def on_next(self, element: int) -> None:
        if self.is_over:
            raise RuntimeError("cancelled")
        super().on_next(element)


class HidesErrors(Plain):
    def on_error(self, error: BaseException) -> None:
        require(error, "error")


class HidesTheEnd(Plain):
    def on_complete(self) -> None:
        pass


class LosesWhatOtherThreadsBring(Plain):
    def on_next(self, element: int) -> None:
        if threading.current_thread() is threading.main_thread():
            super().on_next(element)


class TestPlain(SubscriberWhiteboxVerification[int]):
    def create_subscriber(self, probe: WhiteboxProbe[int]) -> Subscriber[int]:
        return Plain(probe)


SUBSCRIBER_MISTAKES: list[tuple[str, type[Plain], str]] = [
    ("test_spec201_asks_for_elements", NeverAsks, "2.1"),
    ("test_spec203_204_the_end_calls_nothing", AsksAtTheEnd, "2.3"),
    ("test_spec203_204_the_end_calls_nothing", AsksAfterTheEnd, "2.4"),
    ("test_spec203_204_the_end_calls_nothing", CancelsAtAnError, "2.3"),
    ("test_spec205_cancels_a_second_subscription", TakesTwo, "2.5"),
    ("test_spec207_310_its_calls_never_overlap", AsksInAnyThread, "2.7"),
    ("test_spec209_210_takes_the_end", RaisesAtTheEnd, "2.9"),
    ("test_spec209_210_takes_the_end", RaisesAtAnError, "2.10"),
    *(
        ("test_spec213_raises_an_error_for_none", taking_none(name), "2.13")
        for name in ("on_subscribe", "on_next", "on_error")
    ),
    ("test_spec310_311_everything_may_come_within_request", CompletesLater, "3.11"),
    ("test_spec310_311_everything_may_come_within_request", FailsLater, "3.11"),
    ("test_a_run_from_request_to_cancel", NeverCancels, "2.6"),
    ("test_spec208_takes_elements_after_its_cancellation", RaisesAfterItsCancellation, "2.8"),
    ("test_spec209_210_handles_the_end", HidesTheEnd, "2.9"),
    ("test_spec209_210_handles_the_end", HidesErrors, "2.10"),
    ("test_spec211_handles_signals_of_another_thread", LosesWhatOtherThreadsBring, "2.11"),
    ("test_spec308_asks_for_as_many_as_it_is_told", AsksForOne, "3.8"),
]


@pytest.mark.parametrize(("name", "mistake", "number"), SUBSCRIBER_MISTAKES)
def test_a_mistake_of_a_subscriber_breaks_its_rule(
    name: str, mistake: type[Plain], number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = TestPlain()
    monkeypatch.setattr(kit, "create_subscriber", mistake)
    breaks(kit, name, number)


# A processor with several subscribers, and mistakes in processors.


class Fan(Processor[int, int]):
    """Gives each subscriber all elements, at its own pace; keeps all of them."""

    def __init__(self) -> None:
        self.elements: list[int] = []
        self.positions: dict[Signals[int], int] = {}
        self.wanting: set[Signals[int]] = set()
        self.upstream: Subscription | None = None
        self.is_due = False
        self.end: BaseException | None = None
        self.has_ended = False

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        require(subscriber, "subscriber")
        signals: Signals[int]
        signals = Signals(subscriber, ask=lambda: self.ask(signals), close=lambda: self.drop(signals), report=print)
        self.positions[signals] = 0
        signals.subscribe(signals)
        if self.has_ended:
            self.tell(signals)

    def ask(self, signals: Signals[int]) -> None:
        if self.positions[signals] < len(self.elements):
            self.positions[signals] += 1
            signals.offer(self.elements[self.positions[signals] - 1])
        elif not self.has_ended:
            self.wanting.add(signals)
            self.ask_upstream()

    def ask_upstream(self) -> None:
        if self.upstream is not None and self.wanting and not self.is_due:
            self.is_due = True
            self.upstream.request(1)

    def drop(self, signals: Signals[int]) -> None:
        self.wanting.discard(signals)
        self.positions.pop(signals, None)
        if self.upstream is not None and not self.positions and not self.has_ended:
            self.upstream.cancel()

    def tell(self, signals: Signals[int]) -> None:
        if self.end is None:
            signals.complete()
        else:
            signals.fail(self.end)

    def on_subscribe(self, subscription: Subscription) -> None:
        require(subscription, "subscription")
        if self.upstream is None:
            self.upstream = subscription
            self.ask_upstream()
        else:
            subscription.cancel()

    def on_next(self, element: int) -> None:
        require(element, "element")
        self.is_due = False
        self.elements.append(element)
        wanting, self.wanting = self.wanting, set()
        for signals in wanting:
            self.ask(signals)

    def on_error(self, error: BaseException) -> None:
        require(error, "error")
        self.end = error
        self.on_complete()

    def on_complete(self) -> None:
        self.has_ended = True
        for signals in list(self.positions):
            self.tell(signals)


class FailsTheFirst(Fan):
    def on_error(self, error: BaseException) -> None:
        if len(self.positions) > 1:
            self.positions.popitem()
        super().on_error(error)


class AsksOnce(Fan):
    def ask_upstream(self) -> None:
        if not self.elements:
            super().ask_upstream()


class TestFan(IdentityProcessorVerification[int]):
    max_subscribers = 2

    def create_identity_processor(self) -> Processor[int, int]:
        return Fan()


class Deaf(StagesProcessor[int, int]):
    def __init__(self) -> None:
        super().__init__(lambda source: source)

    def on_error(self, error: BaseException) -> None:
        self._reading.on_error(error)


class Insatiable(Deaf):
    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(1)


PROCESSOR_MISTAKES: list[tuple[str, Callable[[], Processor[int, int]], str]] = [
    ("test_spec104_all_subscribers_hear_of_a_failure", FailsTheFirst, "1.4"),
    ("test_spec201_old_requests_are_remembered", AsksOnce, "3.8"),
    ("test_spec402_the_end_is_passed_on_at_once", Deaf, "4.2"),
    ("test_a_cancellation_is_passed_on", Insatiable, "2.6"),
]


@pytest.mark.parametrize(("name", "mistake", "number"), PROCESSOR_MISTAKES)
def test_a_mistake_of_a_processor_breaks_its_rule(
    name: str, mistake: Callable[[], Processor[int, int]], number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = TestFan()
    monkeypatch.setattr(kit, "create_identity_processor", mistake)
    breaks(kit, name, number)
