"""The rules of Reactive Streams, as a table: number, scenario, what must be observed; and what our own ends add.

The TCK itself runs over the Java ends (``test_java_bridge.py``).  The rules left out forbid only slowness (2.2, 3.4),
or bind the user of a subscriber (1.10, 2.12, 3.1).
"""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple
from weakref import ref

import pytest

from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.errors import ChannelAbortedError, InvalidParametersError, RemoteProtocolError
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
from permitflow.reactive.signals import MOST_REQUESTED
from permitflow.stages import Source

Settle = Callable[[], Awaitable[None]]
Call = int | float | str
"""A number is requested, which should be whole; "cancel"."""

CANCEL = "cancel"


def ends(row_permits: int) -> tuple[LocalSender[int], LocalReceiver[int]]:
    return open_channel(ChannelParameters(row_permits=row_permits))


def failing(elements: int) -> Iterator[int]:
    yield from range(elements)
    raise OSError("lost")


class Unreadable(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise OSError("lost")


# Publishers.


class Recorder(Subscriber[Any]):
    """Writes signals down as words, all from one thread; makes calls within signals, if a scenario says so."""

    def __init__(
        self, when_subscribed: tuple[Call, ...] = (), when_next: dict[int, tuple[Call, ...]] | None = None
    ) -> None:
        self.words: list[str] = []
        self.when_subscribed = when_subscribed
        self.when_next = when_next or {}
        self.is_inside = False
        self.thread = threading.get_ident()
        self.subscription: Subscription

    def call(self, call: Call) -> None:
        if call == CANCEL:
            self.subscription.cancel()
        else:
            self.subscription.request(call)  # type: ignore[arg-type]

    def signal(self, word: str, calls: tuple[Call, ...] = ()) -> None:
        if self.is_inside or threading.get_ident() != self.thread:
            word = f"rules 1.3 and 3.3: {word} came within another signal, or from another thread"
        self.is_inside = True
        self.words.append(word)
        for call in calls:
            self.call(call)
        self.is_inside = False

    def on_subscribe(self, subscription: Subscription) -> None:
        assert not self.words, "rule 1.9: on_subscribe comes first, and once"
        self.subscription = subscription
        self.signal("subscribed", self.when_subscribed)

    def on_next(self, element: Any) -> None:
        self.signal(str(element), self.when_next.get(element, self.when_next.get(-1, ())))

    def on_error(self, error: BaseException) -> None:
        self.signal(type(error).__name__)

    def on_complete(self) -> None:
        self.signal("complete")


class PublisherRule(NamedTuple):
    number: str
    says: str
    elements: Callable[[], Iterable[int | None]]
    calls: tuple[Call, ...]
    signals: tuple[str, ...]
    """After ``subscribe``, and after each call."""
    when_subscribed: tuple[Call, ...] = ()
    when_next: dict[int, tuple[Call, ...]] | None = None
    """Calls within ``on_next`` of an element; -1: of each other one."""


def few(elements: int) -> Callable[[], range]:
    return lambda: range(elements)


PUBLISHER_RULES = [
    PublisherRule("1.1", "no more than was requested", few(9), (1, 1, 2), ("", "0", "1", "2 3")),
    PublisherRule("1.2", "fewer than were requested, and the end", few(3), (10,), ("", "0 1 2 complete")),
    PublisherRule("1.4", "a failure, and nothing more (1.7)", lambda: failing(2), (3, 10), ("", "0 1 OSError", "")),
    PublisherRule("1.5", "an end without elements, and nothing more (1.7)", few(0), (10,), ("complete", ""), (1,)),
    PublisherRule("1.6", "calls after the end do nothing", few(1), (2, 3, -1, CANCEL), ("", "0 complete", "", "", "")),
    PublisherRule("1.8", "no signal after a cancellation", few(4), (3, 1), ("", "0 1", ""), when_next={1: (CANCEL,)}),
    PublisherRule("3.2", "requests within signals", few(6), (), ("0 1 2 3 4 5 complete",), (1, 1, 1), {-1: (1,)}),
    PublisherRule("3.6", "a cancelled subscription does nothing (3.7)", few(3), (CANCEL, 1, -1, CANCEL), ("",) * 5),
    PublisherRule("3.8", "requests add up", few(20), (1, 2), ("0 1 2 3 4", "5", "6 7"), when_subscribed=(2, 3)),
    PublisherRule("3.9", "a request of 0", few(9), (0, 1), ("", "ValueError", "")),
    PublisherRule("3.9", "a request below 0", few(9), (-MOST_REQUESTED - 1,), ("", "ValueError")),
    PublisherRule("3.9", "a wrong request within a signal", few(9), (2,), ("", "0 ValueError"), when_next={0: (0,)}),
    PublisherRule("3.9", "a request of a part", few(9), (1.5,), ("", "TypeError")),
    PublisherRule("3.9", "a request of True", few(9), (True,), ("", "TypeError")),
    PublisherRule("3.9", "a request of a word", few(9), ("3",), ("", "TypeError")),
    PublisherRule("2.13", "None is not an element", lambda: [1, None], (3,), ("", "1 TypeError")),
    PublisherRule("3.12", "a cancellation from outside", few(9), (2, CANCEL, 2), ("", "0 1", "", "")),
    PublisherRule("3.17", "2^63-1 at once", few(2), (MOST_REQUESTED,), ("", "0 1 complete")),
    PublisherRule("3.17", "more than 2^63-1 in all", few(3), (1,), ("", "0 1 2 complete"), (), {-1: (MOST_REQUESTED,)}),
]


class Made:
    """A publisher of each kind, and what a test has to close."""

    def __init__(self, kind: str, elements: Iterable[Any] | AsyncIterator[Any]) -> None:
        self.feeding: asyncio.Future[Any] | None = None
        self.publisher: Publisher[Any] = getattr(self, kind)(elements)

    iterable = staticmethod(IterablePublisher)

    def source(self, elements: Iterable[int]) -> Publisher[int]:
        return SourcePublisher(Source(elements))

    def stages(self, elements: Iterable[int]) -> Publisher[int]:
        return SourcePublisher(Source(elements).async_boundary(2).map(abs).buffer(3))

    def channel(self, elements: Iterable[int]) -> Publisher[int]:
        """Its window is smaller than what is requested."""
        sender, receiver = ends(2)
        self.feeding = asyncio.ensure_future(Source(elements).run_to(sender))
        return SourcePublisher(Source.receive(receiver).map(lambda message: message.payload))

    def processor(self, elements: Iterable[int]) -> Publisher[int]:
        processor: StagesProcessor[int, int] = StagesProcessor(lambda source: source.buffer(2), 2)
        IterablePublisher(elements).subscribe(processor)
        return processor

    async def aclose(self) -> None:
        if isinstance(self.publisher, SourcePublisher | StagesProcessor):
            await self.publisher.aclose()
        if self.feeding is not None:
            self.feeding.cancel()
            await asyncio.gather(self.feeding, return_exceptions=True)


IN_THE_LOOP = ("source", "stages", "channel", "processor")


def publisher_cases() -> Iterator[tuple[str, bool, PublisherRule]]:
    """An ``IterablePublisher`` is for one thread; a channel is aborted if its source fails."""
    for rule in PUBLISHER_RULES:
        yield "iterable", False, rule
        for kind in IN_THE_LOOP:
            if kind != "channel" or isinstance(rule.elements(), range):
                yield kind, False, rule
                yield kind, True, rule


@pytest.mark.parametrize(("kind", "is_in_thread", "rule"), list(publisher_cases()))
async def test_a_publisher_keeps_its_rules(kind: str, is_in_thread: bool, rule: PublisherRule, settle: Settle) -> None:
    """Each call comes from the loop, or from another thread (rule 3.5)."""
    made = Made(kind, rule.elements())
    recorder = Recorder(rule.when_subscribed, rule.when_next)
    made.publisher.subscribe(recorder)
    seen = []
    for call in (None, *rule.calls):
        if call is not None and is_in_thread:
            await asyncio.to_thread(recorder.call, call)
        elif call is not None:
            recorder.call(call)
        await settle()
        seen.append(" ".join(recorder.words))
        recorder.words.clear()
    assert seen == [f"subscribed {rule.signals[0]}".strip(), *rule.signals[1:]]
    await made.aclose()


@pytest.mark.parametrize("last", [1, CANCEL])
@pytest.mark.parametrize("kind", ["iterable", *IN_THE_LOOP])
async def test_rules_106_313_the_subscriber_is_forgotten(kind: str, last: Call, settle: Settle) -> None:
    made = Made(kind, range(1))
    recorder = Recorder((1,))
    made.publisher.subscribe(recorder)
    await settle()
    recorder.call(last)
    await settle()
    subscription, forgotten = recorder.subscription, ref(recorder)
    del recorder
    gc.collect()
    assert forgotten() is None
    await made.aclose()
    del subscription


@pytest.mark.parametrize(
    ("publisher", "error"),
    [
        (IterablePublisher(Unreadable()), "OSError"),
        (SourcePublisher(Source(range(1)).broadcast(2)[0]), "InvalidParametersError"),
    ],
)
async def test_rule_109_a_refusal_comes_after_on_subscribe(publisher: Publisher[int], error: str) -> None:
    recorder = Recorder()
    publisher.subscribe(recorder)
    assert recorder.words == ["subscribed", error]


@pytest.mark.parametrize("kind", ["iterable", *IN_THE_LOOP])
async def test_rule_109_no_subscriber_is_refused(kind: str) -> None:
    made = Made(kind, range(1))
    with pytest.raises(TypeError, match="subscriber"):
        made.publisher.subscribe(None)  # type: ignore[arg-type]
    await made.aclose()


@pytest.mark.parametrize("kind", ["iterable", "source", "stages"])
async def test_rule_111_each_subscriber_gets_all_elements_at_its_own_pace(kind: str, settle: Settle) -> None:
    made = Made(kind, range(3))
    fast, slow = Recorder((9,)), Recorder((1,))
    for recorder in (fast, slow):
        made.publisher.subscribe(recorder)
    await settle()
    assert (fast.words, slow.words) == (["subscribed", "0", "1", "2", "complete"], ["subscribed", "0"])
    await made.aclose()


async def test_rule_109_a_second_subscriber_of_a_processor_is_refused(settle: Settle) -> None:
    made = Made("processor", range(3))
    first, second = Recorder(), Recorder()
    for recorder in (first, second):
        made.publisher.subscribe(recorder)
    await settle()
    assert (first.words, second.words) == (["subscribed"], ["subscribed", "LocalProtocolError"])
    await made.aclose()


@pytest.mark.parametrize("kind", ["iterable", "source", "stages", "processor"])
async def test_a_cancellation_closes_the_elements(kind: str, settle: Settle) -> None:
    closed: list[str] = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(5)
        finally:
            closed.append("closed")

    async def numbers_of_a_reader() -> AsyncIterator[int]:
        try:
            yield 0
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    made = Made(kind, numbers_of_a_reader() if kind in ("source", "stages") else numbers())
    recorder = Recorder((2,))
    made.publisher.subscribe(recorder)
    await settle()
    recorder.call(CANCEL)
    await made.aclose()
    assert (recorder.words[:2], closed) == (["subscribed", "0"], ["closed"])


async def test_closing_cancels_all_subscriptions_even_if_it_is_cancelled(settle: Settle) -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            await asyncio.Event().wait()
            yield 0
        finally:
            closed.append("closed")

    publisher = SourcePublisher(Source(numbers()))
    publisher.subscribe(Recorder((1,)))
    await settle()
    closing = asyncio.create_task(publisher.aclose())
    await asyncio.sleep(0)  # it begins
    closing.cancel()
    await settle()
    assert (closing.cancelled(), closed) == (True, ["closed"])


async def test_elements_that_cannot_be_closed_are_reported_to_the_loop(unhandled: list[dict[str, Any]]) -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 0
        finally:
            raise OSError("cannot be closed")

    publisher = SourcePublisher(Source(numbers()))
    publisher.subscribe(Recorder((1,)))
    await asyncio.sleep(0)
    await publisher.aclose()
    assert [str(context["exception"]) for context in unhandled] == ["cannot be closed"]


class Raising(Recorder):
    def on_next(self, element: Any) -> None:
        super().on_next(element)
        raise OSError("the subscriber's own")


async def test_a_subscriber_that_raises_is_cancelled_and_reported(
    settle: Settle, unhandled: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    from_loop, from_iteration = Raising((5,)), Raising((5,))
    SourcePublisher(Source(range(5))).subscribe(from_loop)
    IterablePublisher(range(5)).subscribe(from_iteration)
    await settle()
    assert from_loop.words == from_iteration.words == ["subscribed", "0"]
    assert [str(context["exception"]) for context in unhandled] == ["the subscriber's own"]
    assert "the subscriber's own" in caplog.text


async def test_a_reader_that_is_cancelled_from_outside_fails_the_stream(settle: Settle) -> None:
    async def numbers() -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 0

    before = asyncio.all_tasks()
    recorder = Recorder((1,))
    SourcePublisher(Source(numbers())).subscribe(recorder)
    await settle()
    (reading,) = asyncio.all_tasks() - before
    reading.cancel()
    await settle()
    assert recorder.words == ["subscribed", "RuntimeError"]


def test_a_subscriber_outside_an_event_loop_is_refused() -> None:
    recorder = Recorder((1,))
    SourcePublisher(Source(range(3))).subscribe(recorder)
    assert recorder.words == ["subscribed", "RuntimeError"]


@pytest.mark.parametrize("is_subscribed_first", [False, True])
@pytest.mark.parametrize(
    ("elements", "at_once", "asked"), [(few(0), ["complete"], []), (lambda: failing(2), [], ["0", "1", "OSError"])]
)
async def test_a_processor_tells_the_end_behind_its_last_element(
    elements: Callable[[], Iterable[int]],
    at_once: list[str],
    asked: list[str],
    is_subscribed_first: bool,
    settle: Settle,
) -> None:
    """Without a request for what is not there."""
    processor: StagesProcessor[int, int] = StagesProcessor(lambda source: source.map(abs))
    recorder = Recorder()
    steps: list[Callable[[], None]] = [
        lambda: processor.subscribe(recorder),
        lambda: IterablePublisher(elements()).subscribe(processor),
    ]
    for step in steps if is_subscribed_first else reversed(steps):
        step()
        await settle()
    assert recorder.words == ["subscribed", *at_once]
    recorder.call(2)
    await settle()
    assert recorder.words == ["subscribed", *at_once, *asked]
    await processor.aclose()


# Subscribers.


class Asked(Subscription):
    """Notes what is requested; gives signals within ``request``, if a scenario says so."""

    def __init__(self, when_requested: Callable[[int], object] = lambda _: None) -> None:
        self.requests: list[int] = []
        self.cancellations = 0
        self.when_requested = when_requested
        self.is_inside = False

    @property
    def requested(self) -> int:
        return sum(self.requests)

    def request(self, n: int) -> None:
        assert n > 0, "rule 3.9"
        assert not self.is_inside, "rule 2.7"
        self.is_inside = True
        self.requests.append(n)
        self.when_requested(n)
        self.is_inside = False

    def cancel(self) -> None:
        self.cancellations += 1


class SubscriberRule(NamedTuple):
    number: str
    says: str
    signals: str
    """A digit: an element; x: ``on_error``; a dot: ``on_complete``; |: a second subscription; <: the reader goes."""
    requested: int
    cancellations: tuple[int, ...]
    """Of the subscription, and of a second one."""
    read: str
    """In the same letters."""


SUBSCRIBER_RULES = [
    SubscriberRule("2.1", "it asks at first, and goes on as elements are read", "0123", 6, (0,), "0123"),
    SubscriberRule("2.4", "after the end it asks for nothing", "01.", 4, (0,), "01."),
    SubscriberRule("2.5", "a second subscription is cancelled, and asked for nothing", "0|1", 4, (0, 1), "01"),
    SubscriberRule("2.6", "it cancels when its reader has gone", "0<", 3, (1,), "0"),
    SubscriberRule("2.8", "what comes after its cancellation is dropped", "0<1x", 3, (1,), "0"),
    SubscriberRule("2.9", "the end may come before any element", ".", 2, (0,), "."),
    SubscriberRule("2.10", "an error comes after the elements before it", "0x", 3, (0,), "0x"),
]


class Read:
    """A subscriber with a prefetch of 2, and what is read behind it."""

    def __init__(self, kind: str) -> None:
        self.words = ""
        if kind == "reading":
            reading: ReadingSubscriber[int] = ReadingSubscriber(2)
            self.subscriber: Subscriber[int] = reading
            self.elements: AsyncIterator[int] = reading
            self.go: Callable[[], Awaitable[object]] = reading.aclose
        elif kind == "sending":
            sender, receiver = ends(8)
            sending: SendingSubscriber[int] = SendingSubscriber(sender, 2)
            self.subscriber = sending
            self.elements = (message.payload async for message in receiver)
            self.go = sending.aclose
        else:
            processor: StagesProcessor[int, int] = StagesProcessor(lambda source: source.map(abs), 2)
            self.subscriber = processor
            self.elements = from_publisher(processor).open()
            self.go = processor.aclose
        self.task = asyncio.ensure_future(self.read())

    async def read(self) -> None:
        try:
            async for element in self.elements:
                self.words += str(element)
        except (OSError, ChannelAbortedError, RemoteProtocolError):
            self.words += "x"
        else:
            self.words += "."

    async def aclose(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.go()
        if isinstance(self.subscriber, SendingSubscriber):
            await asyncio.gather(self.subscriber.outcome(), return_exceptions=True)


SUBSCRIBERS = ("reading", "sending", "processor")


@pytest.mark.parametrize("rule", SUBSCRIBER_RULES, ids=lambda rule: f"{rule.number}, {rule.says}")
@pytest.mark.parametrize("is_in_thread", [False, True])
@pytest.mark.parametrize("kind", SUBSCRIBERS)
async def test_a_subscriber_keeps_its_rules(
    kind: str, is_in_thread: bool, rule: SubscriberRule, settle: Settle
) -> None:
    """Each signal comes from the loop, or from another thread (rule 2.11)."""
    read, subscriptions = Read(kind), [Asked()]

    async def give(signal: Callable[..., None], *arguments: object) -> None:
        if is_in_thread:
            await asyncio.to_thread(signal, *arguments)
        else:
            signal(*arguments)
        await settle()

    await give(read.subscriber.on_subscribe, subscriptions[0])
    for letter in rule.signals:
        match letter:
            case "x":
                await give(read.subscriber.on_error, OSError("lost"))
            case ".":
                await give(read.subscriber.on_complete)
            case "|":
                subscriptions.append(Asked())
                await give(read.subscriber.on_subscribe, subscriptions[1])
            case "<":
                read.task.cancel()
                await read.go()
                await settle()
            case _:
                await give(read.subscriber.on_next, int(letter))
    assert subscriptions[0].requested == rule.requested
    assert tuple(each.cancellations for each in subscriptions) == rule.cancellations
    assert not any(each.requested for each in subscriptions[1:])
    assert read.words == rule.read
    await read.aclose()


@pytest.mark.parametrize("kind", SUBSCRIBERS)
async def test_rule_213_none_is_refused(kind: str) -> None:
    read = Read(kind)
    for signal in (read.subscriber.on_subscribe, read.subscriber.on_next, read.subscriber.on_error):
        with pytest.raises(TypeError, match=r"2\.13"):
            signal(None)  # type: ignore[arg-type]
    await read.aclose()


@pytest.mark.parametrize(
    ("kind", "end", "words"),
    [
        *((kind, ".", "01.") for kind in SUBSCRIBERS),
        ("reading", "x", "01x"),
        # An aborted channel drops what it holds.
        ("sending", "x", "x"),
        ("processor", "x", "01x"),
        # One more than was requested: rule 1.1.
        ("reading", "2", "01x"),
        ("sending", "2", "x"),
        ("processor", "2", "01x"),
    ],
)
async def test_rules_203_311_everything_may_come_within_request(
    kind: str, end: str, words: str, settle: Settle
) -> None:
    """And then nothing is called within the end, though elements are left to be read."""
    read = Read(kind)

    def emit(_: int) -> None:
        for number in range(2):
            read.subscriber.on_next(number)
        if end == "x":
            read.subscriber.on_error(OSError("lost"))
        elif end == ".":
            read.subscriber.on_complete()
        else:
            read.subscriber.on_next(2)

    subscription = Asked(emit)
    read.subscriber.on_subscribe(subscription)
    await settle()
    assert (subscription.requested, subscription.cancellations, read.words) == (2, int(end == "2"), words)
    await read.aclose()


@pytest.mark.parametrize(
    ("prefetch", "requests"), [(8, [8, 4, 4]), (4, [4, 2, 2, 2, 2, 2]), (3, [3, *[1] * 10]), (1, [1] * 13)]
)
async def test_half_of_the_prefetch_is_requested_at_a_time(prefetch: int, requests: list[int]) -> None:
    reading: ReadingSubscriber[int] = ReadingSubscriber(prefetch)
    left = iter(range(12))

    def emit(n: int) -> None:
        given = [*islice(left, n)]
        for number in given:
            reading.on_next(number)
        if len(given) < n:
            reading.on_complete()

    subscription = Asked(emit)
    reading.on_subscribe(subscription)
    assert [number async for number in reading] == [*range(12)]
    assert subscription.requests == requests


async def test_calls_of_a_reader_wait_until_another_thread_has_made_its_own() -> None:
    reading: ReadingSubscriber[int] = ReadingSubscriber(2)
    has_read = threading.Event()

    def emit(n: int) -> None:
        if subscription.requested == 2:
            for number in range(n):
                reading.on_next(number)
            assert has_read.wait(60)

    subscription = Asked(emit)
    subscribing = asyncio.create_task(asyncio.to_thread(reading.on_subscribe, subscription))
    assert [await anext(reading), await anext(reading)] == [0, 1]
    has_read.set()
    await subscribing
    assert subscription.requests == [2, 2]


@pytest.mark.parametrize("has_left", [False, True])
async def test_a_subscription_that_comes_after_the_end_is_cancelled(has_left: bool) -> None:
    reading: ReadingSubscriber[int] = ReadingSubscriber()
    if has_left:
        await reading.aclose()
    else:
        reading.on_complete()
    subscription = Asked()
    reading.on_subscribe(subscription)
    assert (subscription.cancellations, subscription.requests) == (1, [])
    with pytest.raises(StopAsyncIteration):
        await anext(reading)


async def test_a_subscription_that_raises_fails_the_stream() -> None:
    class Broken(Subscription):
        def request(self, n: int) -> None:
            raise OSError("lost")

        def cancel(self) -> None:
            raise OSError("lost, too")

    reading: ReadingSubscriber[int] = ReadingSubscriber()
    reading.on_subscribe(Broken())
    with pytest.raises(OSError, match=r"^lost$"):
        await anext(reading)


async def test_a_processor_that_nobody_reads_cancels_when_it_is_closed() -> None:
    processor: StagesProcessor[int, int] = StagesProcessor(lambda source: source)
    subscription = Asked()
    processor.on_subscribe(subscription)
    await processor.aclose()
    assert subscription.cancellations == 1


async def test_waiting_for_the_outcome_can_be_cancelled(settle: Settle) -> None:
    sender, receiver = ends(2)
    subscriber: SendingSubscriber[int] = SendingSubscriber(sender)
    waiting = asyncio.create_task(subscriber.outcome())
    await settle()
    waiting.cancel()
    await settle()
    IterablePublisher(range(2)).subscribe(subscriber)
    assert [message.payload async for message in receiver] == [0, 1]
    await subscriber.outcome()


@pytest.mark.parametrize(
    "make", [lambda prefetch: from_publisher(IterablePublisher([1]), prefetch), ReadingSubscriber], ids=["from", "read"]
)
def test_a_prefetch_below_one_is_refused(make: Callable[[int], object]) -> None:
    with pytest.raises(InvalidParametersError, match="prefetch"):
        make(0)
