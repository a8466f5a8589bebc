"""What the tests put at the other end: subscribers and subscriptions that watch the rules; and how tests are run."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, ClassVar, Generic, NoReturn, Protocol, TypeVar

from permitflow.reactive.interfaces import Subscriber, Subscription
from permitflow.reactive.signals import MOST_REQUESTED

T = TypeVar("T")
V = TypeVar("V", bound="Verification")

PAUSE_SECONDS = 0.01
"""Between two looks at what takes real time."""

JOIN_SECONDS = 0.2
"""How long a thread waits for another one, which may have to wait for it."""


class RuleBroken(AssertionError):
    """A rule is broken; the message begins with its number."""

    def __init__(self, number: str, text: str) -> None:
        super().__init__(f"rule {number}: {text}")
        self.number = number


class Verification:
    """The common part of all verifications: how long they wait, and how a test runs."""

    turns: ClassVar[int] = 100
    """Turns of the event loop after which nothing more comes of what was done, if no real time is needed."""
    quiet_seconds: ClassVar[float] = 0.0
    """For streams with threads, timers or a network: how long to watch that nothing comes."""
    timeout_seconds: ClassVar[float] = 5.0
    """For the same streams: the longest wait for what must come."""

    async def rest(self) -> None:
        """Let everything run until nothing more comes of it."""
        for _ in range(self.turns):
            await asyncio.sleep(0)
        if self.quiet_seconds:
            await asyncio.sleep(self.quiet_seconds)

    async def until(self, is_so: Callable[[], object], number: str, text: str) -> None:
        """Wait for what a rule says must happen.

        Raises:
            RuleBroken: it does not.
        """
        for _ in range(self.turns):
            if is_so():
                return
            await asyncio.sleep(0)
        deadline = asyncio.get_running_loop().time() + (self.timeout_seconds if self.quiet_seconds else 0.0)
        while not is_so():
            if asyncio.get_running_loop().time() >= deadline:
                raise RuleBroken(number, text)
            await asyncio.sleep(PAUSE_SECONDS)

    async def tear_down(self) -> None:
        """Called after each test, within its event loop; override it to close what the test has opened."""


def in_thread(function: Callable[..., object], *arguments: object) -> None:
    """Call a function in another thread while this one waits; it may have to wait for this one, and goes on later."""
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join(JOIN_SECONDS)


def required(check: Callable[[V], Coroutine[Any, Any, None]], *, is_optional: bool = False) -> Callable[[V], None]:
    """A test that every implementation must pass; its docstring is the rule."""

    async def checked(self: V) -> None:
        try:
            await check(self)
        finally:
            await self.tear_down()

    @wraps(check)
    def test(self: V) -> None:
        __tracebackhide__ = True
        try:
            with asyncio.Runner() as runner:
                runner.run(checked(self))
        except RuleBroken as broken:
            if not is_optional:
                raise
            skip(f"the specification leaves this open; {broken}")

    test.is_optional = is_optional  # type: ignore[attr-defined]
    return test


optional = partial(required, is_optional=True)
"""A test of what the specification leaves open: it is skipped if it fails."""


def skip(reason: str) -> NoReturn:
    """Leave the test undecided."""
    # Only tests need pytest.
    import pytest

    pytest.skip(reason)


class _Watching:
    """Notes what is wrong."""

    faults: list[RuleBroken]

    def check(self) -> None:
        """Say what was wrong so far.

        Raises:
            RuleBroken: the first thing that was wrong.
        """
        if self.faults:
            raise self.faults[0]

    def _note(self, number: str, text: str) -> None:
        self.faults.append(RuleBroken(number, text))


class Probe(Subscriber[T], _Watching, Generic[T]):
    """A subscriber that records all signals, and what is wrong with them."""

    def __init__(
        self,
        *,
        when_subscribed: "Callable[[Probe[T]], object]" = lambda _: None,
        when_next: "Callable[[Probe[T]], object]" = lambda _: None,
        most_depth: int = MOST_REQUESTED,
    ) -> None:
        """The functions are called within ``on_subscribe`` and ``on_next``; the latter may nest so deep."""
        self.elements: list[T] = []
        self.errors: list[BaseException] = []
        self.completions = 0
        self.subscription: Subscription | None = None
        self.requested = 0
        self.is_cancelled = False
        self.faults: list[RuleBroken] = []
        self._when_subscribed = when_subscribed
        self._when_next = when_next
        self._most_depth = most_depth
        self._depth = 0
        self._thread = 0
        """The one that gives a signal."""

    # What tests do with it.

    def request(self, n: int) -> None:
        """Ask for elements.

        Raises:
            RuleBroken: ``request`` has raised an error.
        """
        assert self.subscription is not None, "request before on_subscribe"
        # Before the call, which may emit at once.
        if not self.is_cancelled:
            self.requested += max(n, 0)
        try:
            self.subscription.request(n)
        except Exception as error:
            raise RuleBroken("3.16", f"request({n}) must return normally, and raised {error!r}") from error

    def cancel(self) -> None:
        """Ask for nothing any more.

        Raises:
            RuleBroken: ``cancel`` has raised an error.
        """
        assert self.subscription is not None, "cancel before on_subscribe"
        self.is_cancelled = True
        try:
            self.subscription.cancel()
        except Exception as error:
            raise RuleBroken("3.15", f"cancel must return normally, and raised {error!r}") from error

    @property
    def is_over(self) -> bool:
        """Has the end come?"""
        return bool(self.errors or self.completions)

    @property
    def signals(self) -> tuple[int, int, int]:
        """How many elements, errors and completions have come."""
        return len(self.elements), len(self.errors), self.completions

    # The signals.

    def on_subscribe(self, subscription: Subscription) -> None:
        """Keep the subscription."""
        if self.subscription is not None:
            self._note("2.12", "on_subscribe was called twice for one subscriber")
        self.subscription = subscription
        with self._signal("on_subscribe"):
            self._when_subscribed(self)

    def on_next(self, element: T) -> None:
        """Record an element."""
        with self._signal(f"on_next({element!r})"):
            self.elements.append(element)
            if element is None:
                self._note("2.13", "on_next was called with None, which is no element")
            if len(self.elements) > self.requested:
                count = len(self.elements)
                self._note("1.1", f"{self.requested} elements were requested, and on_next was called {count} times")
            if self._depth > self._most_depth:
                self._note("3.3", f"on_next was called {self._depth} deep within itself; {self._most_depth} is allowed")
            self._when_next(self)

    def on_error(self, error: BaseException) -> None:
        """Record a failure."""
        with self._signal(f"on_error({error!r})"):
            if error is None:
                self._note("2.13", "on_error was called with None, which is no error")
            self.errors.append(error)

    def on_complete(self) -> None:
        """Record the end."""
        with self._signal("on_complete"):
            self.completions += 1

    @contextmanager
    def _signal(self, name: str) -> Iterator[None]:
        """While a signal is given."""
        if self.subscription is None:
            self._note("1.9", f"{name} was called before on_subscribe")
        if self.is_over:
            self._note("1.7", f"{name} was called after the end: {self.errors or 'on_complete'}")
        here = threading.get_ident()
        if self._depth and self._thread != here:
            self._note("1.3", f"{name} was called by a thread while another one was in a signal")
        self._thread = here
        self._depth += 1
        try:
            yield
        except RuleBroken as broken:
            self.faults.append(broken)
            raise
        finally:
            self._depth -= 1


class RecordingSubscription(Subscription, _Watching):
    """A subscription that records the calls of a subscriber, and what is wrong with them."""

    def __init__(self) -> None:
        self.when_requested: Callable[[int], object] = lambda _: None
        """Is called within ``request``."""
        self.requests: list[int] = []
        self.cancellations = 0
        self.faults: list[RuleBroken] = []
        self.signal = ""
        """The end that is being signalled, or was."""
        self._is_inside = False
        self._caller = 0

    @property
    def requested(self) -> int:
        """Elements that were asked for."""
        return sum(self.requests)

    @contextmanager
    def ending(self, signal: str) -> Iterator[None]:
        """While and after the subscriber gets its end."""
        self.signal, self._is_inside = signal, True
        try:
            yield
        finally:
            self._is_inside = False

    def request(self, n: int) -> None:
        """Record a request."""
        self._note_call(f"request({n})")
        if n < 1:
            self._note("3.9", f"request({n}) was called: at least 1 element must be asked for")
        if self.signal and not self._is_inside:
            self._note("2.4", f"request({n}) was called after {self.signal}")
        self.requests.append(n)
        before, self._caller = self._caller, threading.get_ident()
        try:
            self.when_requested(n)
        finally:
            self._caller = before

    def cancel(self) -> None:
        """Record a cancellation."""
        self._note_call("cancel()")
        self.cancellations += 1

    def _note_call(self, call: str) -> None:
        if self._is_inside:
            self._note("2.3", f"{call} was called within {self.signal}")
        if self._caller not in (0, threading.get_ident()):
            self._note("2.7", f"{call} was called by a thread while another one was in request")


class Puppet(Protocol):
    """What a test makes a subscriber do."""

    def trigger_request(self, n: int) -> None:
        """Let the subscriber ask for ``n`` elements, or more, soon."""
        ...

    def signal_cancel(self) -> None:
        """Let the subscriber cancel its subscription, soon."""
        ...


class WhiteboxProbe(Generic[T]):
    """What a subscriber tells the tests: call each method when your subscriber has handled that signal."""

    def __init__(self) -> None:
        self.puppet: Puppet | None = None
        self.elements: list[T] = []
        self.errors: list[BaseException] = []
        self.completions = 0

    def register_on_subscribe(self, puppet: Puppet) -> None:
        """The subscriber has a subscription; the puppet moves the subscriber."""
        if self.puppet is not None:
            raise RuleBroken("2.5", "a second subscription was accepted")
        self.puppet = puppet

    def register_on_next(self, element: T) -> None:
        """The subscriber has handled an element."""
        self.elements.append(element)

    def register_on_error(self, error: BaseException) -> None:
        """The subscriber has handled the error."""
        self.errors.append(error)

    def register_on_complete(self) -> None:
        """The subscriber has handled the end."""
        self.completions += 1
