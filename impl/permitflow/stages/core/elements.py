"""Stages that look at one element at a time."""

from collections.abc import AsyncIterable, Callable, Generator, Iterable, Iterator
from typing import TypeVar

from permitflow.callables import plain_of_one, refuse_awaitable, require_plain
from permitflow.errors import AsyncFunctionError
from permitflow.stages.core.parameters import require_at_least
from permitflow.stages.core.ports import EMPTY, Connection, HoldingStage, Stage

A = TypeVar("A")
B = TypeVar("B")

AWAITED_BY_MAP = "map_async(function, at_most=n) awaits it"
_PAIRS = "map_async it to pairs of element and answer, and filter these"
STREAMS_BY_FLAT_MAP = "flat_map(function) reads asynchronous streams"


class Map(Stage[A, B]):
    """Emits the function's result for each element."""

    def __init__(self, function: Callable[[A], B]) -> None:
        """An exception of ``function`` fails the stage."""
        super().__init__()
        require_plain(function, place="map(function)", hint=AWAITED_BY_MAP)
        self._function = function
        # The check of each result would cost a quarter of the stage: only a result of another type is looked at.
        self._plain_type: type | None = None

    def on_push(self, inlet: Connection[A]) -> None:
        """Emit the result."""
        made = self._function(inlet.grab())
        if type(made) is not self._plain_type:
            refuse_awaitable(made, self._function, place="map(function)", hint=AWAITED_BY_MAP)
            self._plain_type = type(made)
        self.outlet.push(made)


class Filter(Stage[A, A]):
    """Emits the elements for which the predicate holds."""

    def __init__(self, predicate: Callable[[A], object]) -> None:
        """An exception of ``predicate`` fails the stage."""
        super().__init__()
        require_plain(predicate, place="filter(predicate)", hint=_PAIRS)
        self._predicate = predicate
        self._plain_type: type | None = None

    def on_push(self, inlet: Connection[A]) -> None:
        """Emit the element, or ask for the next one."""
        element = inlet.grab()
        answer = self._predicate(element)
        if type(answer) is not self._plain_type:
            refuse_awaitable(answer, self._predicate, place="filter(predicate)", hint=_PAIRS)
            self._plain_type = type(answer)
        if answer:
            self.outlet.push(element)
        else:
            inlet.pull()


class Take(Stage[A, A]):
    """Emits this many elements, then completes: a further one is not asked for."""

    def __init__(self, count: int) -> None:
        """``count`` may be 0.

        Raises:
            InvalidParametersError: ``count`` is below 0.
        """
        super().__init__()
        require_at_least(0, count=count)
        self._left = count

    def start(self) -> None:
        """Complete at once if no element is to be taken: then not even the first is asked for."""
        if not self._left:
            self.complete_stage()

    def on_push(self, inlet: Connection[A]) -> None:
        """Emit the element, and complete behind the last one."""
        self._left -= 1
        self.outlet.push(inlet.grab())
        if not self._left:
            self.complete_stage()


class MapConcat(HoldingStage[A, B]):
    """Emits all that the function makes of each element, one by one; the next one is made when it is asked for."""

    def __init__(self, function: Callable[[A], Iterable[B]]) -> None:
        """An exception of ``function``, or of what it returns, fails the stage."""
        super().__init__()
        self._function = plain_of_one(function, place="map_concat(function)", hint=STREAMS_BY_FLAT_MAP)
        self._rest: Iterator[B] | None = None

    def holds(self) -> bool:
        """Perhaps more is to come of the last element."""
        return self._rest is not None

    def on_push(self, inlet: Connection[A]) -> None:
        """Begin with another element."""
        made = self._function(inlet.grab())
        if isinstance(made, AsyncIterable):
            given = f"one whose result is asynchronous, {type(made).__name__}"
            raise AsyncFunctionError(place="map_concat(function)", given=given, hint=STREAMS_BY_FLAT_MAP)
        self._rest = iter(made)
        self.on_pull(self.outlet)

    def release(self) -> None:
        """Close a generator that is not at its end."""
        rest, self._rest = self._rest, None
        if isinstance(rest, Generator):
            rest.close()

    def on_pull(self, outlet: Connection[B]) -> None:
        """Emit the next one, or ask for another element."""
        if self._rest is not None:
            made = next(self._rest, EMPTY)
            if made is not EMPTY:
                outlet.push(made)
                return
            self._rest = None
        if self.is_ended:
            self.end()
        else:
            self.ask(self.inlet)
