"""Stages that wait for something outside their island: calls, other streams, time."""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from permitflow.callables import refuse_awaitable
from permitflow.errors import IdleTimeoutError, NotAwaitableError
from permitflow.stages.core.parameters import require_above_0, require_at_least, require_choice
from permitflow.stages.core.ports import EMPTY, Connection, HoldingStage, Island, Stage
from permitflow.stages.core.rates import Supervision

A = TypeVar("A")
B = TypeVar("B")


class _Call(Generic[B]):
    """A call of ``MapAsync``, from its begin until its result has left."""

    __slots__ = ("cancel", "is_done", "result")

    def __init__(self) -> None:
        self.cancel: Callable[[], object] | None = None
        self.is_done = False
        self.result: B = EMPTY


class MapAsync(HoldingStage[A, B]):
    """Awaits the function's result for each element, at most this many at a time.

    A result that waits for the consumer counts as one.  If a call fails, those behind it are cancelled; the results
    before it leave, then the error.
    """

    acts_alone: ClassVar[bool] = True

    def __init__(
        self, function: Callable[[A], Awaitable[B]], at_most: int, *, is_ordered: bool, supervision: Supervision
    ) -> None:
        """Results leave in the order of their elements, or, if not ``is_ordered``, as they come.

        Raises:
            InvalidParametersError: ``at_most`` is below 1.
        """
        super().__init__()
        require_at_least(1, at_most=at_most)
        require_choice(Supervision, supervision=supervision)
        self._function = function
        self._at_most = at_most
        self._is_ordered = is_ordered
        self._supervision = supervision
        self._calls: deque[_Call[B]] = deque()
        """The calls in the order in which their results leave; if unordered, those that still run stand last."""

    def holds(self) -> bool:
        """Does a call run, or a result wait?"""
        return bool(self._calls)

    def on_pull(self, outlet: Connection[B]) -> None:
        """Emit the oldest result, and ask for elements."""
        self._go_on()

    def on_push(self, inlet: Connection[A]) -> None:
        """Begin a call."""
        call: _Call[B] = _Call()
        self._calls.append(call)
        try:
            made = self._awaitable(inlet.grab())
            call.cancel = self.island.outside.call(made, self, partial(self._on_done, call))
        except Exception as error:
            self._on_done(call, EMPTY, error)
        else:
            self._go_on()

    def _awaitable(self, element: A) -> Awaitable[B]:
        made = self._function(element)
        if not hasattr(type(made), "__await__"):
            raise NotAwaitableError(place="map_async(function)", given=type(made).__name__)
        return made

    def _on_done(self, call: _Call[B], result: B, error: BaseException | None) -> None:
        if call not in self._calls:
            return  # it was cancelled by this stage
        call.is_done, call.result = True, result
        if error is None and not self._is_ordered:
            self._calls.remove(call)
            done = sum(other.is_done for other in self._calls)
            self._calls.insert(done, call)
        elif error is not None and isinstance(error, Exception) and self._supervision is not Supervision.STOP:
            self._calls.remove(call)
        elif error is not None:
            self.inlet.cancel()
            while self._calls[-1] is not call and not (self._calls[-1].is_done and not self._is_ordered):
                self._cancel(self._calls.pop())
            if self._is_ordered:
                self._calls.pop()
            else:
                for other in [each for each in self._calls if not each.is_done or each is call]:
                    self._calls.remove(other)
                    self._cancel(other)
            self._failure, self.is_ended = error, True
        self._go_on()

    def _go_on(self) -> None:
        if self._calls and self._calls[0].is_done and self.outlet.is_asked:
            self.outlet.push(self._calls.popleft().result)
        if self.is_ended:
            if not self._calls:
                self.end()
        elif len(self._calls) < self._at_most:
            self.ask(self.inlet)

    @staticmethod
    def _cancel(call: _Call[B]) -> None:
        if call.cancel is not None and not call.is_done:
            call.cancel()

    def release(self) -> None:
        """Cancel the calls that run."""
        while self._calls:
            self._cancel(self._calls.pop())


class FlatMap(HoldingStage[Any, B]):
    """Emits the elements of the streams that the function makes, of at most this many streams at a time.

    It asks nobody before it is asked; then the streams whose last element has left, and for a further stream.
    """

    acts_alone: ClassVar[bool] = True

    def __init__(
        self,
        function: Callable[[A], object],
        connect: Callable[[Island, object, Stage[Any, Any]], list[Stage[Any, Any]]],
        at_most: int,
    ) -> None:
        """``connect`` adds a stream's stages to the island, before this one.

        Raises:
            InvalidParametersError: ``at_most`` is below 1.
        """
        super().__init__()
        require_at_least(1, at_most=at_most)
        self._function = function
        self._connect = connect
        self._at_most = at_most
        self._streams: dict[Connection[B], list[Stage[Any, Any]]] = {}
        self._held: deque[tuple[Connection[B], B]] = deque()

    def holds(self) -> bool:
        """Is an element here, or a stream?"""
        return bool(self._held or self._streams)

    def on_push(self, inlet: Connection[Any]) -> None:
        """Read another stream, or emit an element of one."""
        if inlet is self.inlet:
            made = self._function(inlet.grab())
            refuse_awaitable(
                made, self._function, place="flat_map(function)", hint="map_async, then flat_map, awaits it"
            )
            stages = self._connect(self.island, made, self)
            self._streams[self.inlets[-1]] = stages
            self.island.begin(stages)
            self._ask()
            return
        self._held.append((inlet, inlet.grab()))
        if self.outlet.is_asked:
            self._emit()

    def on_pull(self, outlet: Connection[B]) -> None:
        """Emit an element, and ask."""
        if self._held:
            self._emit()
        self._ask()

    def _emit(self) -> None:
        self.outlet.push(self._held.popleft()[1])
        if self.is_ended and not self.holds():
            self.end()

    def _ask(self) -> None:
        waiting = {inlet for inlet, _ in self._held}
        for inlet in self._streams:
            if inlet not in waiting:
                self.ask(inlet)
        if not self.is_ended and len(self._streams) < self._at_most:
            self.ask(self.inlet)

    def on_upstream_finish(self, inlet: Connection[Any]) -> None:
        """A stream has ended: there is room for another one; or no stream will come."""
        if inlet is not self.inlet:
            self.island.forget(self._streams.pop(inlet))
            self.inlets.remove(inlet)
            if not self.is_ended:
                if not self._held:
                    self._ask()
                return
        self.is_ended = True
        if not self.holds():
            self.end()

    def on_upstream_failure(self, inlet: Connection[Any], error: BaseException) -> None:
        """A stream has failed: ask nobody, fail once nothing is held.  If its maker has: the streams go on first."""
        if self._failure is None:
            self._failure = error
        if inlet is not self.inlet:
            self._failure = error
            for each in self.inlets:
                each.cancel()
            self._streams.clear()
        self.is_ended = True
        if not self.holds():
            self.end()


class GroupedWithin(HoldingStage[A, list[A]]):
    """Emits lists of up to this many elements: when one is full, or this many seconds after its first element."""

    acts_alone: ClassVar[bool] = True

    def __init__(self, max_elements: int, seconds: float) -> None:
        """``seconds`` are of the loop's clock.

        Raises:
            InvalidParametersError: a number is out of its range.
        """
        super().__init__()
        require_at_least(1, max_elements=max_elements)
        require_above_0(seconds=seconds)
        self._max_elements = max_elements
        self._seconds = seconds
        self._group: list[A] = []
        self._is_due = False

    def start(self) -> None:
        """Ask for the first element."""
        self.inlet.pull()

    def holds(self) -> bool:
        """Is anything gathered?"""
        return bool(self._group)

    def on_push(self, inlet: Connection[A]) -> None:
        """Gather the element; ask for the next one while there is room."""
        self._group.append(inlet.grab())
        if len(self._group) == self._max_elements:
            self._is_due = True
        elif len(self._group) == 1:
            self.island.set_timer(self, self._seconds)
        self._go_on()

    def on_timer(self) -> None:
        """The time of the group is over; it grows on until it is asked for."""
        self._is_due = True
        self._go_on()

    def on_pull(self, outlet: Connection[list[A]]) -> None:
        """Emit the group that is due."""
        self._go_on()

    def on_upstream_finish(self, inlet: Connection[A]) -> None:
        """What is gathered leaves at once, when it is asked for."""
        self.is_ended = self._is_due = True
        self.island.forget_timer(self)
        self._go_on()

    def _go_on(self) -> None:
        if self._is_due and self._group and self.outlet.is_asked:
            group, self._group, self._is_due = self._group, [], self.is_ended
            self.island.forget_timer(self)
            self.outlet.push(group)
        if self.is_ended:
            if not self._group:
                self.end()
        elif len(self._group) < self._max_elements:
            self.ask(self.inlet)


class IdleTimeout(Stage[A, A]):
    """Fails if an element that was asked for does not come in time; a consumer that does not ask is not meant."""

    acts_alone: ClassVar[bool] = True

    def __init__(self, seconds: float) -> None:
        """``seconds`` are of the loop's clock.

        Raises:
            InvalidParametersError: ``seconds`` is not above 0.
        """
        super().__init__()
        require_above_0(seconds=seconds)
        self._seconds = seconds

    def on_pull(self, outlet: Connection[A]) -> None:
        """Ask, and begin to wait."""
        self.island.set_timer(self, self._seconds)
        self.inlet.pull()

    def on_push(self, inlet: Connection[A]) -> None:
        """It came in time."""
        self.island.forget_timer(self)
        self.outlet.push(inlet.grab())

    def on_timer(self) -> None:
        """It did not."""
        self.fail_stage(IdleTimeoutError(timeout_seconds=self._seconds))
