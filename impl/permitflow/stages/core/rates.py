"""Stages between streams of different rates: they ask, or emit, by themselves."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Set
from enum import Enum
from math import inf
from typing import Any, ClassVar, TypeVar

from permitflow.callables import plain, plain_of_one
from permitflow.errors import InvalidParametersError, RateExceededError
from permitflow.stages.core.drop_queue import DropQueue, Overflow
from permitflow.stages.core.parameters import require_above_0, require_at_least, require_choice
from permitflow.stages.core.ports import EMPTY, Connection, HoldingStage
from permitflow.stages.core.token_bucket import TokenBucket

A = TypeVar("A")
B = TypeVar("B")

_MAP_BEFORE = "map_async before this stage awaits it"
_NANOSECONDS = 1_000_000_000
_AUTOMATIC_BURST_NANOSECONDS = 100_000_000


class Buffer(HoldingStage[A, A]):
    """Keeps up to ``capacity`` elements ahead of its consumer."""

    acts_alone: ClassVar[bool] = True

    def __init__(self, capacity: int, overflow: Overflow, *, when_dropped: Callable[[A], object] | None = None) -> None:
        """All strategies but ``BLOCK`` keep asking while the buffer is full.

        Raises:
            InvalidParametersError: ``capacity`` is below 1.
        """
        super().__init__()
        require_at_least(1, capacity=capacity)
        self._queue: DropQueue[A] = DropQueue(capacity, overflow, when_dropped=when_dropped)

    def start(self) -> None:
        """Ask for the first element."""
        self.inlet.pull()

    def holds(self) -> bool:
        """Is there anything in the buffer?"""
        return len(self._queue) > 0

    def may_act_at(self, coming: Set[Connection[Any]]) -> Iterable[Connection[Any]]:
        """What is held leaves first, unless it may overflow and fail."""
        if self._queue.overflow is Overflow.FAIL:
            return super().may_act_at(coming)
        return self.may_act_behind_what_is_held(coming)

    def on_push(self, inlet: Connection[A]) -> None:
        """Pass the element on if it is waited for, else keep it; ask for the next one unless that must wait."""
        element = inlet.grab()
        if self.outlet.is_asked:  # so nothing is buffered
            self.outlet.push(element)
        else:
            self._queue.offer(element)
        self._ask()

    def on_pull(self, outlet: Connection[A]) -> None:
        """Emit the oldest element."""
        if self._queue:
            outlet.push(self._queue.take())
        if self.is_ended and not self._queue:
            self.end()
        self._ask()

    def _ask(self) -> None:
        if not (self._queue.is_full and self._queue.overflow is Overflow.BLOCK):
            self.ask(self.inlet)


class Depth:
    """How many elements wait in an unbounded arc."""

    def __init__(self) -> None:
        """Nothing has waited."""
        self.waiting = 0
        self.peak = 0
        """The most that waited at once, since it was made."""

    def note(self, waiting: int) -> None:
        """Note how many wait now."""
        self.waiting = waiting
        self.peak = max(self.peak, waiting)

    def __repr__(self) -> str:
        return f"<{self.waiting} elements wait, at most {self.peak} did>"


class Unbounded(HoldingStage[A, A]):
    """Keeps any number of elements, so that its producer never has to wait."""

    acts_alone: ClassVar[bool] = True

    def __init__(self, alarm: int, when_alarmed: Callable[[int], object], depth: Depth | None = None) -> None:
        """``when_alarmed`` is called when this many elements wait, and each time that this number has doubled.

        Raises:
            InvalidParametersError: ``alarm`` is below 1.
        """
        super().__init__()
        require_at_least(1, alarm=alarm)
        self._alarm = alarm
        hint = "let it put the number into a queue"
        self._when_alarmed = plain_of_one(when_alarmed, place="when_alarmed", hint=hint)
        self._depth = depth or Depth()
        self._elements: deque[A] = deque()

    def start(self) -> None:
        """Ask for the first element."""
        self._depth.note(0)
        self.inlet.pull()

    def holds(self) -> bool:
        """Does an element wait?"""
        return bool(self._elements)

    def may_act_at(self, coming: Set[Connection[Any]]) -> Iterable[Connection[Any]]:
        """What is held leaves first."""
        return self.may_act_behind_what_is_held(coming)

    def on_push(self, inlet: Connection[A]) -> None:
        """Pass the element on if it is waited for, else keep it; ask for the next one."""
        element = inlet.grab()
        if self.outlet.is_asked:  # so nothing waits
            self.outlet.push(element)
        else:
            self._elements.append(element)
            self._depth.note(len(self._elements))
            if len(self._elements) == self._alarm:
                self._alarm *= 2
                self._when_alarmed(len(self._elements))
        self.ask(inlet)

    def on_pull(self, outlet: Connection[A]) -> None:
        """Emit the oldest element."""
        if self._elements:
            outlet.push(self._elements.popleft())
            self._depth.note(len(self._elements))
        if self.is_ended and not self._elements:
            self.end()


class Supervision(Enum):
    """What becomes of a stage whose function raises an exception."""

    STOP = "stop"
    """It fails with the exception."""
    RESUME = "resume"
    """It drops the element, and goes on."""
    RESTART = "restart"
    """It drops the element and what it has gathered, and goes on."""


class Batch(HoldingStage[A, B]):
    """Gathers elements while nobody asks, up to a weight; emits what it has gathered.

    An element heavier than ``max_weight`` is a batch of its own.

    Spec: Push, Pull, Complete of Conflate.
    """

    acts_alone: ClassVar[bool] = True

    def __init__(
        self,
        max_weight: float,
        weigh: Callable[[A], float],
        seed: Callable[[A], B],
        aggregate: Callable[[B, A], B],
        supervision: Supervision = Supervision.STOP,
    ) -> None:
        """``seed`` makes a batch of its first element, ``aggregate`` adds another one.

        Raises:
            InvalidParametersError: ``max_weight`` is not above 0.
        """
        super().__init__()
        # Conflation has no bound: its maximum is infinite.
        if max_weight != inf:
            require_above_0(max_weight=max_weight)
        require_choice(Supervision, supervision=supervision)
        self._max_weight = max_weight
        self._weigh = plain_of_one(weigh, place="batch_weighted(weigh=…)", hint=_MAP_BEFORE)
        self._seed = plain_of_one(seed, place="seed", hint=_MAP_BEFORE)
        self._aggregate = plain(aggregate, place="aggregate", hint=_MAP_BEFORE)
        self._supervision = supervision
        self._gathered: B = EMPTY
        self._left = max_weight
        """The weight that still fits beside what is gathered."""
        self._pending: A = EMPTY
        """An element that did not fit: the first of the next batch."""

    def start(self) -> None:
        """Ask for the first element."""
        self.inlet.pull()

    def holds(self) -> bool:
        """Is anything gathered?"""
        return self._gathered is not EMPTY

    def on_push(self, inlet: Connection[A]) -> None:
        """Gather the element, or keep it for the next batch; ask for the next one unless one is kept."""
        element = inlet.grab()
        try:
            self._gather(element)
        except Exception as error:
            if self._supervision is Supervision.STOP:
                # The elements gathered before leave first.
                inlet.cancel()
                self.on_upstream_failure(inlet, error)
            elif self._supervision is Supervision.RESTART:
                self._gathered = EMPTY
        if self.outlet.is_asked and self._gathered is not EMPTY:
            self._emit()
        if self._pending is EMPTY:
            self.ask(inlet)

    def on_pull(self, outlet: Connection[B]) -> None:
        """Emit the gathered elements."""
        if self._gathered is not EMPTY:
            self._emit()
        if self.is_ended and self._gathered is EMPTY:
            self.end()
        else:
            self.ask(self.inlet)

    def _gather(self, element: A) -> None:
        weight = self._weigh(element)
        if self._gathered is EMPTY:
            self._gathered = self._seed(element)
            self._left = self._max_weight - weight
        elif weight > self._left:
            self._pending = element
        else:
            self._gathered = self._aggregate(self._gathered, element)
            self._left -= weight

    def _emit(self) -> None:
        self.outlet.push(self._gathered)
        self._gathered = EMPTY
        if self._pending is not EMPTY:
            element, self._pending = self._pending, EMPTY
            try:
                self._gather(element)
            except Exception:
                if self._supervision is Supervision.STOP:
                    raise


class Expand(HoldingStage[A, B]):
    """Emits, as often as it is asked, what the function makes of the newest element.

    The next element takes over as soon as it comes.  At least one result of each element is emitted, also of the last.
    """

    acts_alone: ClassVar[bool] = True

    def __init__(self, extrapolate: Callable[[A], Iterable[B]]) -> None:
        """``extrapolate`` makes of an element the ones that are emitted until the next one comes; it may be endless."""
        super().__init__()
        self._extrapolate = plain_of_one(extrapolate, place="expand(extrapolate)", hint=_MAP_BEFORE)
        self._results: Iterator[B] = iter(())
        self._first: B = EMPTY
        """The first result of the newest element, while it has not left."""

    def start(self) -> None:
        """Ask for the first element."""
        self.inlet.pull()

    def holds(self) -> bool:
        """Is there an element of which nothing has left?"""
        return self._first is not EMPTY

    def on_push(self, inlet: Connection[A]) -> None:
        """Let the new element take over."""
        self.release()
        self._results = iter(self._extrapolate(inlet.grab()))
        self._first = next(self._results, EMPTY)
        if self._first is EMPTY:
            inlet.pull()
        elif self.outlet.is_asked:
            self.on_pull(self.outlet)

    def release(self) -> None:
        """Close a generator that is not at its end."""
        results, self._results = self._results, iter(())
        if isinstance(results, Generator):
            results.close()

    def on_pull(self, outlet: Connection[B]) -> None:
        """Emit the next result of the newest element."""
        if self._first is not EMPTY:
            outlet.push(self._first)
            self._first = EMPTY
            if self.is_ended:
                self.end()
            else:
                self.ask(self.inlet)
        elif (result := next(self._results, EMPTY)) is not EMPTY:
            outlet.push(result)


class ThrottleMode(Enum):
    """What becomes of an element that comes too early."""

    SHAPE = "shape"
    """It waits for its tokens."""
    ENFORCE = "enforce"
    """The stream fails with ``RateExceededError``."""


class Throttle(HoldingStage[A, A]):
    """Lets elements pass at a rate, and up to ``burst`` of them at once after a pause."""

    acts_alone: ClassVar[bool] = True

    def __init__(
        self,
        cost: int,
        per_seconds: float,
        *,
        burst: int | None = None,
        cost_of: Callable[[A], int] | None = None,
        mode: ThrottleMode = ThrottleMode.SHAPE,
    ) -> None:
        """``cost`` in ``per_seconds``; each element costs ``cost_of(element)``, by default 1.

        ``burst`` is by default what passes in a tenth of a second, and at least 1.

        Raises:
            InvalidParametersError: a number is out of its range, or the rate is above one in a nanosecond.
        """
        super().__init__()
        require_at_least(1, cost=cost)
        require_above_0(per_seconds=per_seconds)
        require_choice(ThrottleMode, mode=mode)
        self._period = round(per_seconds * _NANOSECONDS) // cost
        if self._period < 1:
            rule = f"must be at least a nanosecond for each of the {cost}"
            raise InvalidParametersError(name="per_seconds", value=per_seconds, rule=rule)
        if burst is None:
            burst = max(1, _AUTOMATIC_BURST_NANOSECONDS // self._period)
        require_at_least(0, burst=burst)
        self._burst = burst
        self._cost_of = (
            None if cost_of is None else plain_of_one(cost_of, place="throttle(cost_of=…)", hint=_MAP_BEFORE)
        )
        self._mode = mode
        self._bucket: TokenBucket
        self._held: A = EMPTY

    def start(self) -> None:
        """The bucket is full."""
        self._bucket = TokenBucket(self._burst, self._period, self._now())

    def _now(self) -> int:
        return round(self.island.now * _NANOSECONDS)

    def holds(self) -> bool:
        """Does an element wait for its tokens?"""
        return self._held is not EMPTY

    def on_push(self, inlet: Connection[A]) -> None:
        """Emit the element, or let it wait."""
        element = inlet.grab()
        cost = 1 if self._cost_of is None else self._cost_of(element)
        delay = self._bucket.offer(cost, self._now())
        if delay == 0:
            self.outlet.push(element)
        elif self._mode is ThrottleMode.ENFORCE:
            raise RateExceededError(early_seconds=delay / _NANOSECONDS, cost=cost)
        else:
            self._held = element
            self.island.set_timer(self, delay / _NANOSECONDS)

    def on_timer(self) -> None:
        """The tokens of the waiting element have come."""
        element, self._held = self._held, EMPTY
        self.outlet.push(element)
        if self.is_ended:
            self.end()
