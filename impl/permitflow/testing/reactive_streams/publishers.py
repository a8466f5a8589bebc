"""Tests of a publisher."""

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar, cast
from weakref import ref

from permitflow.reactive.interfaces import Publisher
from permitflow.reactive.signals import MOST_REQUESTED
from permitflow.testing.reactive_streams.probes import (
    Probe,
    RuleBroken,
    Verification,
    in_thread,
    optional,
    required,
    skip,
)

T = TypeVar("T")


class PublisherVerification(Verification, Generic[T]):
    """Tests of a publisher: ``class TestMine(PublisherVerification)`` with a method ``create_publisher``."""

    ENDLESS: Final = MOST_REQUESTED
    """As a number of elements: the stream has no end."""
    max_elements: ClassVar[int] = ENDLESS - 1
    """The most elements that the publisher can emit; ``ENDLESS``: it never completes."""
    most_depth: ClassVar[int] = 1
    """How deep ``on_next`` may nest in itself, by way of ``request`` (rule 3.3)."""

    def create_publisher(self, elements: int) -> Publisher[T]:
        """A publisher of exactly so many elements; ``ENDLESS``: without end."""
        raise NotImplementedError

    def create_failed_publisher(self) -> Publisher[T] | None:
        """A publisher that only calls ``on_subscribe`` and ``on_error``; None: there is none to test."""
        return None

    def create_failing_publisher(self, elements: int) -> Publisher[T] | None:
        """A publisher that fails after so many elements; None: there is none to test."""
        return None

    # What the tests share.

    def _publisher(self, elements: int, *, completes: bool = False) -> Publisher[T]:
        if elements > self.max_elements:
            skip(f"the publisher emits at most {self.max_elements} elements, and the test needs {elements}")
        if completes and self.max_elements == self.ENDLESS:
            skip("the publisher never completes")
        return self.create_publisher(elements)

    async def _subscribed_to(self, publisher: Publisher[T], probe: Probe[T] | None = None) -> Probe[T]:
        probe = probe or Probe()
        try:
            publisher.subscribe(probe)
        except Exception as error:
            raise RuleBroken("1.9", f"subscribe must return normally, and raised {error!r}") from error
        await self.until(lambda: probe.subscription, "1.9", "subscribe did not lead to on_subscribe")
        return probe

    async def _probe(self, elements: int, *, completes: bool = False, probe: Probe[T] | None = None) -> Probe[T]:
        return await self._subscribed_to(self._publisher(elements, completes=completes), probe)

    async def _elements(self, probe: Probe[T], count: int, number: str) -> None:
        """Wait for so many elements in all."""
        text = f"{probe.requested} elements were requested, and fewer than {count} came"
        await self.until(lambda: len(probe.elements) >= count or probe.is_over, number, text)
        probe.check()
        if len(probe.elements) < count:
            ended = f"failed with {probe.errors[0]!r}" if probe.errors else "completed"
            raise RuleBroken(number, f"the stream {ended} after {len(probe.elements)} elements; {count} were expected")

    async def _completion(self, probe: Probe[T], number: str = "1.5") -> None:
        """Wait for the end; ask for one element more, for a publisher that needs that to see its end."""
        if not probe.is_over:
            probe.request(1)
        await self.until(lambda: probe.is_over, number, f"no end came after {len(probe.elements)} elements")
        if probe.errors:
            raise RuleBroken(number, f"the stream failed instead of completing: {probe.errors[0]!r}")
        probe.check()

    async def _nothing_more(
        self, probe: Probe[T], number: str, after: str, act: Callable[[], object] = lambda: None
    ) -> None:
        """Watch that no signal comes, whatever is done."""
        before = probe.signals
        act()
        await self.rest()
        if probe.signals != before:
            raise RuleBroken(
                number, f"{after}: signals came (elements, errors, completions: {before}, {probe.signals})"
            )
        probe.check()

    # Publisher.

    @required
    async def test_create_publisher_emits_exactly_so_many_elements(self) -> None:
        """A publisher of one element, or of three, emits so many, one for each request, and completes."""
        for elements in (1, 3):
            probe = await self._probe(elements, completes=True)
            for count in range(1, elements + 1):
                probe.request(1)
                await self._elements(probe, count, "1.1")
            await self._completion(probe)
            if len(probe.elements) != elements:
                raise RuleBroken("1.1", f"create_publisher({elements}) emitted {len(probe.elements)} elements")

    @required
    async def test_spec101_emits_no_more_than_was_requested(self) -> None:
        """At all times, no more elements have come than were requested in all."""
        probe = await self._probe(5)
        await self._nothing_more(probe, "1.1", "nothing was requested")
        probe.request(1)
        await self._elements(probe, 1, "1.1")
        await self._nothing_more(probe, "1.1", "the one requested element had come")
        probe.request(1)
        probe.request(2)
        await self._elements(probe, 4, "1.1")
        await self._nothing_more(probe, "1.1", "the four requested elements had come")
        probe.cancel()

    @required
    async def test_spec102_may_emit_fewer_and_complete(self) -> None:
        """A publisher that has fewer elements than were requested emits those, and completes."""
        probe = await self._probe(3, completes=True)
        probe.request(10)
        await self._elements(probe, 3, "1.2")
        await self._completion(probe, "1.2")

    @required
    async def test_spec103_signals_come_one_after_the_other(self) -> None:
        """Signals do not overlap, from wherever elements are requested: a signal, later, a thread during a signal."""
        loop = asyncio.get_running_loop()
        ways: tuple[Callable[[Probe[T]], object], ...] = (
            lambda probe: probe.request(1),
            lambda probe: loop.call_soon(probe.request, 1),
            lambda probe: in_thread(probe.request, 1),
        )
        for ask in ways:
            probe = await self._probe(10, completes=True, probe=Probe(when_subscribed=ask, when_next=ask))
            await self._elements(probe, 10, "1.3")
            await self._completion(probe, "1.3")

    @required
    async def test_spec104_107_signals_a_failure_on_the_way_and_nothing_follows(self) -> None:
        """A publisher that fails after some elements calls on_error once; then nothing, whatever is requested."""
        publisher = self.create_failing_publisher(2)
        if publisher is None:
            skip("create_failing_publisher gives none")
        probe = await self._subscribed_to(publisher)
        probe.request(3)
        await self._elements(probe, 2, "1.4")
        await self.until(lambda: probe.errors, "1.4", "the failing publisher did not call on_error")
        await self._nothing_more(probe, "1.7", "the stream has failed", lambda: probe.request(10))
        if probe.completions:
            raise RuleBroken("1.4", "the stream has failed, and completed")

    @required
    async def test_spec105_107_completes_a_finite_stream_and_nothing_follows(self) -> None:
        """A stream that ends calls on_complete once; then nothing, whatever is requested."""
        probe = await self._probe(3, completes=True)
        for count in (1, 2, 3):
            probe.request(1)
            await self._elements(probe, count, "1.5")
        await self._completion(probe)
        await self._nothing_more(probe, "1.7", "the stream was complete", lambda: probe.request(10))

    @optional
    async def test_spec105_completes_an_empty_stream(self) -> None:
        """An empty stream calls on_complete without an element."""
        probe = await self._probe(0, completes=True)
        probe.request(1)
        await self._completion(probe)
        await self._nothing_more(probe, "1.7", "the stream was complete")

    @required
    async def test_spec106_the_end_cancels_the_subscription(self) -> None:
        """After the end, requests and cancellations do nothing, and the publisher has forgotten the subscriber."""
        probe = await self._probe(1, completes=True)
        probe.request(1)
        await self._elements(probe, 1, "1.6")
        await self._completion(probe)
        await self._nothing_more(probe, "1.6", "the subscription was used after on_complete", partial(_use, probe))
        subscription, forgotten = probe.subscription, ref(probe)
        del probe
        await self._forgotten(forgotten, "1.6", "on_complete")
        del subscription

    async def _forgotten(self, reference: "ref[Probe[T]]", number: str, after: str) -> None:
        await self.rest()
        gc.collect()
        text = f"after {after}, the publisher or the subscription still refers to the subscriber"
        await self.until(lambda: reference() is None, number, text)

    @required
    async def test_spec108_a_cancelled_subscriber_hears_nothing_any_more(self) -> None:
        """A subscriber that cancels, at whichever element, soon gets no signal, and no end for its last request."""
        for last in (1, 2, 3):
            probe: Probe[T] = Probe(when_next=lambda it, last=last: it.cancel() if len(it.elements) == last else None)  # type: ignore[misc]
            probe = await self._probe(4, probe=probe)
            probe.request(3)
            await self._elements(probe, last, "1.8")
            await self.rest()
            await self._nothing_more(probe, "1.8", f"the subscriber had cancelled within on_next number {last}")
            if probe.completions:
                raise RuleBroken("1.8", "on_complete was called for a subscriber that has cancelled")

    @required
    async def test_spec109_calls_on_subscribe_first(self) -> None:
        """The first signal is on_subscribe, and it comes once."""
        probe = await self._probe(0)
        await self.rest()
        probe.check()
        probe.cancel()

    @required
    async def test_spec109_raises_an_error_for_none(self) -> None:
        """A subscriber that is None is refused by an exception: TypeError or ValueError."""
        publisher = self._publisher(0)
        try:
            publisher.subscribe(cast("Any", None))
        except (TypeError, ValueError):
            return
        except Exception as error:
            raise RuleBroken("1.9", f"subscribe(None) must raise TypeError or ValueError, not {error!r}") from error
        raise RuleBroken("1.9", "subscribe(None) raised no error")

    @required
    async def test_spec104_109_refuses_a_subscriber_by_on_error(self) -> None:
        """A publisher that has failed, or cannot serve a subscriber, calls on_subscribe, then on_error."""
        publisher = self.create_failed_publisher()
        if publisher is None:
            skip("create_failed_publisher gives none")
        probe = await self._subscribed_to(publisher)
        await self.until(lambda: probe.errors, "1.9", "the failed publisher did not call on_error")
        await self._nothing_more(probe, "1.9", "the subscriber was refused")

    @optional
    async def test_spec111_each_subscriber_gets_an_element_or_the_end(self) -> None:
        """Each of two subscribers of one publisher gets a subscription, and an element or the end."""
        probes = await self._several(2, self._publisher(1))
        for probe in probes:
            probe.request(1)
        for probe in probes:
            await self.until(lambda probe=probe: any(probe.signals), "1.11", "a subscriber got no signal")  # type: ignore[misc]
            if probe.errors:
                raise RuleBroken("1.11", f"a subscriber was refused: {probe.errors[0]!r}")
            probe.cancel()

    async def _several(self, count: int, publisher: Publisher[T]) -> list[Probe[T]]:
        return [await self._subscribed_to(publisher) for _ in range(count)]

    @optional
    async def test_spec111_multicast_one_by_one(self) -> None:
        """All subscribers get the same elements in the same order, each at its own pace, and complete."""
        probes = await self._several(3, self._publisher(5, completes=True))
        for position, count in ((0, 1), (1, 2), (0, 1), (2, 3), (2, 1), (2, 1), (1, 3), (0, 2), (0, 1)):
            probes[position].request(count)
            await self._elements(probes[position], probes[position].requested, "1.11")
        await self._same(probes, completes=True)

    @optional
    async def test_spec111_multicast_many_upfront(self) -> None:
        """All subscribers get the same elements in the same order if they request many at once, and the same end."""
        probes = await self._several(3, self._publisher(3))
        for probe in probes:
            probe.request(4)
        for probe in probes:
            await self._elements(probe, 3, "1.11")
        await self._same(probes, completes=self.max_elements != self.ENDLESS)

    async def _same(self, probes: list[Probe[T]], *, completes: bool) -> None:
        for probe in probes:
            if completes:
                await self._completion(probe)
            if probe.elements != probes[0].elements:
                raise RuleBroken("1.11", f"subscribers got different elements: {probes[0].elements}, {probe.elements}")

    # Subscription.

    @required
    async def test_spec302_requests_may_come_within_signals(self) -> None:
        """request may be called within on_subscribe and on_next."""

        def thrice(probe: Probe[T]) -> None:
            for _ in range(3):
                probe.request(1)

        probe = await self._probe(6, probe=Probe(when_subscribed=thrice, when_next=lambda probe: probe.request(1)))
        await self._elements(probe, 6, "3.2")

    @required
    async def test_spec303_recursion_is_bounded(self) -> None:
        """A request within on_next does not lead to on_next within on_next without bound; ``most_depth`` is it."""
        count = self.most_depth + 1
        probe: Probe[T] = Probe(when_next=lambda probe: probe.request(1), most_depth=self.most_depth)
        probe = await self._probe(count, probe=probe)
        probe.request(1)
        await self._elements(probe, count, "3.3")
        probe.cancel()

    @required
    async def test_spec305_cancel_may_come_from_any_thread(self) -> None:
        """cancel may be called from any thread, several times."""
        probe = await self._probe(3)
        probe.request(1)
        await self._elements(probe, 1, "3.5")
        for _ in range(2):
            await asyncio.to_thread(probe.cancel)
        await self.rest()
        await self._nothing_more(probe, "3.5", "another thread had cancelled", lambda: probe.request(2))

    @required
    async def test_spec306_307_calls_after_cancel_do_nothing(self) -> None:
        """After a cancellation, request and cancel do nothing, also a request of a number below 1."""
        probe = await self._probe(3)
        probe.cancel()
        for count in (1, 1, 1, 0, -1):
            ask = partial(probe.request, count)
            await self._nothing_more(probe, "3.6", f"request({count}) was called after a cancellation", ask)
        await self._nothing_more(probe, "3.7", "cancel was called after a cancellation", probe.cancel)

    @required
    async def test_spec308_requests_add_up(self) -> None:
        """A request adds to those before it, whether or not elements have come in between."""

        def ask(probe: Probe[T]) -> None:
            probe.request(2)
            probe.request(3)

        probe = await self._probe(9, probe=Probe(when_subscribed=ask))
        await self._elements(probe, 5, "3.8")
        probe.request(1)
        probe.request(2)
        await self._elements(probe, 8, "3.8")
        await self._nothing_more(probe, "3.8", "the eight requested elements had come")
        probe.cancel()

    @required
    async def test_spec309_a_request_below_one_fails_the_stream(self) -> None:
        """request(0), and of any negative number, calls on_error with a ValueError."""
        for count in (0, -1, -1_234_567, -MOST_REQUESTED - 1):
            await self._refused(count)

    @optional
    async def test_spec309_the_error_names_the_rule(self) -> None:
        """The error of a request below 1 names the rule and the number."""
        text = str((await self._refused(-42)).errors[0])
        if "3.9" not in text or "-42" not in text:
            raise RuleBroken("3.9", f"the error names neither the rule nor the number: {text!r}")

    async def _refused(self, count: int) -> Probe[T]:
        probe = await self._probe(10)
        probe.request(count)
        await self.until(lambda: probe.errors, "3.9", f"request({count}) did not lead to on_error")
        if not isinstance(probe.errors[0], ValueError):
            raise RuleBroken("3.9", f"request({count}) led to {probe.errors[0]!r}, and not to a ValueError")
        await self._nothing_more(probe, "1.7", "the stream has failed")
        return probe

    @required
    async def test_spec309_a_wrong_request_within_a_signal_fails_the_stream_after_it(self) -> None:
        """A request below 1 within on_next calls on_error once on_next has returned."""
        inside: list[int] = []

        def ask(probe: Probe[T]) -> None:
            probe.request(0)
            inside.append(len(probe.errors))

        probe = await self._probe(3, probe=Probe(when_next=ask))
        probe.request(1)
        await self._elements(probe, 1, "3.9")
        await self.until(lambda: probe.errors, "3.9", "request(0) within on_next did not lead to on_error")
        if inside != [0]:
            raise RuleBroken("1.3", "on_error was called before on_next had returned")

    @required
    async def test_spec312_cancel_stops_the_signals(self) -> None:
        """After a cancellation, signals stop, at the latest when what was requested has come."""
        probe = await self._probe(20)
        probe.request(10)
        probe.request(5)
        await self._elements(probe, 1, "3.12")
        probe.cancel()
        await self.rest()
        await self._nothing_more(probe, "3.12", "the subscription was cancelled")

    @required
    async def test_spec313_cancel_drops_references(self) -> None:
        """After a cancellation, neither the publisher nor the subscription refers to the subscriber."""
        publisher = self._publisher(3)
        probe = await self._subscribed_to(publisher)
        probe.request(1)
        await self._elements(probe, 1, "3.13")
        probe.cancel()
        subscription, forgotten = probe.subscription, ref(probe)
        del probe
        await self._forgotten(forgotten, "3.13", "cancel")
        del publisher, subscription

    @required
    async def test_spec315_316_calls_return_normally(self) -> None:
        """request and cancel raise nothing, in any order, before and after the end."""
        for calls in ("rrc", "crc", "Rr", "rRc", "rc"):
            probe = await self._probe(2)
            for call in calls:
                match call:
                    case "r":
                        probe.request(1)
                    case "R":
                        probe.request(0)
                    case _:
                        probe.cancel()
            await self.rest()
            probe.cancel()

    @required
    async def test_spec317_requests_of_the_largest_number(self) -> None:
        """2^63-1 elements may be requested, at once and in several calls."""
        for counts in ((MOST_REQUESTED,), (MOST_REQUESTED // 2, MOST_REQUESTED // 2, 1)):

            def ask(probe: Probe[T], counts: tuple[int, ...] = counts) -> None:
                for count in counts:
                    probe.request(count)

            probe = await self._probe(3, completes=True, probe=Probe(when_subscribed=ask))
            await self._elements(probe, 3, "3.17")
            await self._completion(probe, "3.17")

    @required
    async def test_spec317_requests_beyond_the_largest_number_are_no_error(self) -> None:
        """Requests may add up to more than 2^63-1."""
        most_calls = 10

        def ask(probe: Probe[T]) -> None:
            if len(probe.elements) <= most_calls:
                probe.request(MOST_REQUESTED - 1)
            else:
                probe.cancel()

        probe = await self._probe(2 * most_calls, probe=Probe(when_next=ask))
        probe.request(1)
        await self._elements(probe, most_calls, "3.17")
        await self.rest()
        if probe.errors:
            raise RuleBroken("3.17", f"the stream failed: {probe.errors[0]!r}")
        probe.check()


def _use(probe: Probe[T]) -> None:
    for count in (3, -1):
        probe.request(count)
    probe.cancel()
