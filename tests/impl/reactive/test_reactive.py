"""What publishers and subscribers over stages and channels promise besides the rules of Reactive Streams.

``test_rules.py`` tests the rules.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from permitflow import ChannelParameters, Demand, LocalReceiver, LocalSender, Parameters, open_channel
from permitflow.errors import ChannelAbortedError, EndOfStream, InvalidParametersError, RemoteProtocolError
from permitflow.reactive import (
    IterablePublisher,
    Publisher,
    ReadingSubscriber,
    SendingSubscriber,
    SourcePublisher,
    StagesProcessor,
    Subscriber,
    Subscription,
    from_publisher,
)
from permitflow.stages import Source

Settle = Callable[[], Awaitable[None]]


class Collector(Subscriber[Any]):
    """Keeps what comes."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.elements: list[Any] = []
        self.errors: list[BaseException] = []
        self.is_complete = False
        self.subscription: Subscription

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        if self.first:
            subscription.request(self.first)

    def on_next(self, element: Any) -> None:
        self.elements.append(element)

    def on_error(self, error: BaseException) -> None:
        self.errors.append(error)

    def on_complete(self) -> None:
        self.is_complete = True


def ends(parameters: Parameters) -> tuple[LocalSender[Any], LocalReceiver[Any]]:
    return open_channel(parameters)


# Publishers.


async def test_requests_beyond_the_window_are_granted_within_it(settle: Settle) -> None:
    sender, receiver = ends(ChannelParameters(row_permits=2))
    feeding = asyncio.create_task(Source(range(10)).run_to(sender))
    collector = Collector(first=7)
    publisher = SourcePublisher(Source.receive(receiver).map(lambda message: message.payload))
    publisher.subscribe(collector)
    await settle()
    assert collector.elements == [*range(7)]
    collector.subscription.request(10)
    await feeding
    await settle()
    assert collector.elements == [*range(10)]
    assert collector.is_complete
    assert sender.statistics().peak_rows_held <= 2


@pytest.mark.parametrize("parameters", [Demand(size=3, initial=0), ChannelParameters(row_permits=3, initial_permits=0)])
async def test_a_channel_without_initial_credit_waits_for_a_request(parameters: Parameters, settle: Settle) -> None:
    sender, receiver = ends(parameters)
    feeding = asyncio.create_task(Source(range(5)).run_to(sender))
    collector = Collector()
    publisher = SourcePublisher(Source.receive(receiver))
    publisher.subscribe(collector)
    await settle()
    assert sender.statistics().sent_chunks == 0
    collector.subscription.request(1)
    await settle()
    assert len(collector.elements) == 1
    assert sender.statistics().sent_chunks == 3
    collector.subscription.request(9)
    await feeding
    await settle()
    assert collector.is_complete


async def test_cancelling_closes_the_source() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 0
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    publisher = SourcePublisher(Source(numbers()))
    collector = Collector(first=2)
    publisher.subscribe(collector)
    await asyncio.sleep(0)
    collector.subscription.cancel()
    await publisher.aclose()
    assert closed == ["closed"]
    assert collector.elements == [0]


async def test_a_source_that_cannot_be_closed_is_reported_to_the_loop(unhandled: list[dict[str, Any]]) -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 0
        finally:
            raise OSError("cannot be closed")

    publisher = SourcePublisher(Source(numbers()))
    publisher.subscribe(Collector(first=1))
    await asyncio.sleep(0)
    await publisher.aclose()
    assert [str(context["exception"]) for context in unhandled] == ["cannot be closed"]


async def test_a_subscriber_that_raises_is_cancelled_and_reported(
    settle: Settle, unhandled: list[dict[str, Any]]
) -> None:
    class Raises(Collector):
        def on_next(self, element: int) -> None:
            super().on_next(element)
            raise OSError("the subscriber's own")

    collector = Raises(first=5)
    SourcePublisher(Source(range(5))).subscribe(collector)
    await settle()
    assert collector.elements == [0]
    assert not collector.errors
    assert [str(context["exception"]) for context in unhandled] == ["the subscriber's own"]


async def test_a_subscription_that_is_not_asked_has_no_task(settle: Settle) -> None:
    before = asyncio.all_tasks()
    collector = Collector(first=2)
    SourcePublisher(Source(range(5))).subscribe(collector)
    assert len(asyncio.all_tasks()) == len(before) + 1
    await settle()
    assert asyncio.all_tasks() == before
    collector.subscription.cancel()
    await settle()


async def test_an_endless_source_lets_others_run() -> None:
    async def numbers() -> AsyncIterator[int]:
        while True:
            yield 0

    publisher = SourcePublisher(Source(numbers()))
    collector = Collector(first=2**63 - 1)
    publisher.subscribe(collector)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    collector.subscription.cancel()
    await publisher.aclose()
    assert collector.elements


async def test_none_is_no_element(settle: Settle) -> None:
    collector = Collector(first=3)
    SourcePublisher(Source([1, None])).subscribe(collector)
    await settle()
    assert collector.elements == [1]
    assert "rule 2.13" in str(collector.errors[0])


async def test_a_number_that_is_not_whole_is_refused(settle: Settle) -> None:
    for wrong in (1.5, True, "3"):
        collector = Collector()
        SourcePublisher(Source(range(3))).subscribe(collector)
        collector.subscription.request(wrong)  # type: ignore[arg-type]
        await settle()
        assert isinstance(collector.errors[0], TypeError)
        assert repr(wrong) in str(collector.errors[0])


def test_a_subscriber_outside_an_event_loop_hears_why_it_is_refused() -> None:
    collector = Collector(first=1)
    SourcePublisher(Source(range(3))).subscribe(collector)
    assert "no running event loop" in str(collector.errors[0])


async def test_a_reader_that_is_cancelled_from_outside_fails_the_stream(settle: Settle) -> None:
    async def numbers() -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 0

    before = asyncio.all_tasks()
    collector = Collector(first=1)
    SourcePublisher(Source(numbers())).subscribe(collector)
    await settle()
    (reading,) = asyncio.all_tasks() - before
    reading.cancel()
    await settle()
    assert "was cancelled" in str(collector.errors[0])


async def test_all_signals_come_in_the_thread_of_the_loop(settle: Settle) -> None:
    threads: list[int] = []

    class Located(Collector):
        def on_next(self, element: Any) -> None:
            threads.append(threading.get_ident())

        def on_error(self, error: BaseException) -> None:
            threads.append(threading.get_ident())

    collector = Located()
    SourcePublisher(Source(range(5))).subscribe(collector)
    for n in (1, 0):
        await asyncio.to_thread(collector.subscription.request, n)
        await settle()
    assert threads == [threading.get_ident()] * 2


def test_cancelling_closes_a_generator() -> None:
    closed: list[str] = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(5)
        finally:
            closed.append("closed")

    collector = Collector(first=1)
    publisher = IterablePublisher(numbers())
    publisher.subscribe(collector)
    collector.subscription.cancel()
    assert closed == ["closed"]


# Subscribers.


class Scripted(Subscription):
    """Does what a test says when it is asked or cancelled, and watches that calls do not overlap."""

    def __init__(self, when_requested: Callable[[int], object] = lambda _: None) -> None:
        self.when_requested = when_requested
        self.requested = self.cancellations = self.calls = 0
        self.overlaps = False

    def request(self, n: int) -> None:
        self.overlaps |= self.calls > 0
        self.calls += 1
        self.requested += n
        self.when_requested(n)
        self.calls -= 1

    def cancel(self) -> None:
        self.overlaps |= self.calls > 0
        self.cancellations += 1


async def test_calls_of_a_reader_wait_until_another_thread_has_made_its_own() -> None:
    reading: ReadingSubscriber[int] = ReadingSubscriber(2)
    has_read = threading.Event()

    def emit(n: int) -> None:
        if subscription.requested == 2:
            for number in range(n):
                reading.on_next(number)
            assert has_read.wait(60)

    subscription = Scripted(emit)
    subscribing = asyncio.create_task(asyncio.to_thread(reading.on_subscribe, subscription))
    assert [await anext(reading), await anext(reading)] == [0, 1]
    has_read.set()
    await subscribing
    assert (subscription.requested, subscription.overlaps) == (4, False)


async def test_a_subscription_after_its_reader_has_gone_is_cancelled() -> None:
    reading: ReadingSubscriber[int] = ReadingSubscriber()
    await reading.aclose()
    subscription = Scripted()
    reading.on_subscribe(subscription)
    assert (subscription.cancellations, subscription.requested) == (1, 0)
    with pytest.raises(StopAsyncIteration):
        await anext(reading)


async def test_a_subscription_that_comes_after_the_end_is_cancelled() -> None:
    reading: ReadingSubscriber[int] = ReadingSubscriber()
    reading.on_complete()
    subscription = Scripted()
    reading.on_subscribe(subscription)
    assert (subscription.cancellations, subscription.requested) == (1, 0)


async def test_a_subscriptions_error_reaches_its_reader_only() -> None:
    def lost(_: int) -> None:
        raise OSError("lost")

    reading: ReadingSubscriber[int] = ReadingSubscriber()
    reading.on_subscribe(Scripted(lost))
    with pytest.raises(OSError, match=r"^lost$"):
        await anext(reading)


async def test_a_processor_that_nobody_reads_cancels_when_it_is_closed() -> None:
    processor: StagesProcessor[int, int] = StagesProcessor(lambda source: source)
    subscription = Scripted()
    processor.on_subscribe(subscription)
    await processor.aclose()
    assert subscription.cancellations == 1


async def test_waiting_for_the_outcome_can_be_cancelled(settle: Settle) -> None:
    sender, receiver = ends(ChannelParameters(row_permits=2))
    subscriber: SendingSubscriber[int] = SendingSubscriber(sender)
    waiting = asyncio.create_task(subscriber.outcome())
    await settle()
    waiting.cancel()
    await settle()
    IterablePublisher(range(2)).subscribe(subscriber)
    assert [message.payload async for message in receiver] == [0, 1]
    await subscriber.outcome()


class Logged(IterablePublisher[int]):
    """Keeps the numbers that were requested, and how often it was cancelled."""

    def __init__(self, elements: range) -> None:
        super().__init__(elements)
        self.requests: list[int] = []
        self.cancellations = 0

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        log = self

        class Watched(Subscription):
            def __init__(self, subscription: Subscription) -> None:
                self.subscription = subscription

            def request(self, n: int) -> None:
                log.requests.append(n)
                self.subscription.request(n)

            def cancel(self) -> None:
                log.cancellations += 1
                self.subscription.cancel()

        class Between(Collector):
            def on_subscribe(self, subscription: Subscription) -> None:
                subscriber.on_subscribe(Watched(subscription))

            on_next = staticmethod(subscriber.on_next)
            on_error = staticmethod(subscriber.on_error)
            on_complete = staticmethod(subscriber.on_complete)

        super().subscribe(Between())


@pytest.mark.parametrize(
    ("prefetch", "requests"), [(8, [8, 4, 4]), (4, [4, 2, 2, 2, 2, 2]), (3, [3, *[1] * 10]), (1, [1] * 13)]
)
async def test_a_source_over_a_publisher_asks_for_half_of_its_prefetch(prefetch: int, requests: list[int]) -> None:
    publisher = Logged(range(12))
    assert [number async for number in from_publisher(publisher, prefetch)] == [*range(12)]
    assert publisher.requests == requests


async def test_a_source_over_a_publisher_keeps_no_more_than_its_prefetch() -> None:
    publisher = Logged(range(1_000))
    async with from_publisher(publisher, 4).open() as elements:
        for read in range(1, 20):
            await anext(elements)
            assert sum(publisher.requests) - read <= 4
    assert publisher.cancellations == 1


async def test_a_publisher_that_emits_too_much_is_cancelled() -> None:
    class Overflows(Publisher[int]):
        cancellations = 0

        def subscribe(self, subscriber: Subscriber[int]) -> None:
            subscriber.on_subscribe(self)
            for number in range(3):
                subscriber.on_next(number)

        def request(self, n: int) -> None:
            assert n == 2

        def cancel(self) -> None:
            self.cancellations += 1

    publisher = Overflows()
    elements = from_publisher(publisher, 2).open()
    assert [await anext(elements), await anext(elements)] == [0, 1]
    with pytest.raises(RemoteProtocolError, match=r"rule 1\.1"):
        await anext(elements)
    assert publisher.cancellations == 1


async def test_a_subscription_that_raises_fails_the_stream() -> None:
    class Broken(Publisher[int]):
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            subscriber.on_subscribe(self)

        def request(self, n: int) -> None:
            raise OSError("lost")

        def cancel(self) -> None:
            raise OSError("lost, too")

    with pytest.raises(OSError, match=r"^lost$"):
        await anext(from_publisher(Broken()).open())


def test_a_prefetch_below_one_is_refused() -> None:
    publisher = IterablePublisher([1])
    makers: list[Callable[[int], object]] = [lambda prefetch: from_publisher(publisher, prefetch), ReadingSubscriber]
    for make in makers:
        with pytest.raises(InvalidParametersError, match="prefetch"):
            make(0)


async def test_a_stream_passes_through_every_kind_of_end() -> None:
    first, second = ends(ChannelParameters(row_permits=3)), ends(ChannelParameters(row_permits=3))
    SourcePublisher(Source([n] for n in range(100))).subscribe(SendingSubscriber(first[0], 4))
    squares: StagesProcessor[Any, list[int]] = StagesProcessor(
        lambda source: source.map(lambda message: [n * n for n in message.payload]).buffer(2), 4
    )
    SourcePublisher(Source.receive(first[1])).subscribe(squares)
    sending = asyncio.create_task(from_publisher(squares, 4).run_to(second[0]))
    assert [message.payload async for message in second[1]] == [[n * n] for n in range(100)]
    await sending
    assert first[0].statistics().peak_rows_held <= 3


async def test_a_channel_that_is_cancelled_cancels_the_subscription() -> None:
    sender, receiver = ends(ChannelParameters(row_permits=2))
    publisher = Logged(range(100))
    subscriber: SendingSubscriber[int] = SendingSubscriber(sender, 2)
    publisher.subscribe(subscriber)
    await receiver.receive()
    await receiver.cancel("enough")
    await subscriber.outcome()
    assert publisher.cancellations == 1


async def test_a_stream_that_fails_aborts_the_channel() -> None:
    sender, receiver = ends(ChannelParameters(row_permits=4))
    subscriber: SendingSubscriber[int] = SendingSubscriber(sender)
    IterablePublisher(1 // n for n in (1, 0)).subscribe(subscriber)
    with pytest.raises(ZeroDivisionError):
        await subscriber.outcome()
    with pytest.raises(ChannelAbortedError, match="ZeroDivisionError"):
        await receiver.receive_many()


async def test_closing_a_sending_subscriber_cancels_and_aborts() -> None:
    sender, receiver = ends(ChannelParameters(row_permits=2))
    publisher = Logged(range(100))
    subscriber: SendingSubscriber[int] = SendingSubscriber(sender)
    publisher.subscribe(subscriber)
    await receiver.receive()
    await subscriber.aclose()
    assert publisher.cancellations == 1
    with pytest.raises(ChannelAbortedError):
        await receiver.receive()


async def test_the_end_of_a_publisher_ends_the_channel() -> None:
    sender, receiver = ends(ChannelParameters(row_permits=4))
    IterablePublisher(range(2)).subscribe(SendingSubscriber(sender))
    assert [(await receiver.receive()).payload for _ in range(2)] == [0, 1]
    with pytest.raises(EndOfStream):
        await receiver.receive()


async def test_a_processor_ends_without_a_request_if_nothing_is_left(settle: Settle) -> None:
    processor: StagesProcessor[int, int] = StagesProcessor(lambda source: source.map(abs))
    collector = Collector()
    processor.subscribe(collector)
    IterablePublisher(range(0)).subscribe(processor)
    await settle()
    assert collector.is_complete


async def test_a_processor_keeps_its_elements_before_an_error(settle: Settle) -> None:
    processor: StagesProcessor[int, int] = StagesProcessor(lambda source: source.map(abs))
    IterablePublisher(1 // n for n in (1, -1, 0)).subscribe(processor)
    collector = Collector()
    processor.subscribe(collector)
    await settle()
    assert not collector.errors
    collector.subscription.request(2)
    await settle()
    assert collector.elements == [1, 1]
    assert isinstance(collector.errors[0], ZeroDivisionError)
    await processor.aclose()
