"""Stages that look at one element at a time."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from permitflow.stages.core.ports import EMPTY, Connection, HoldingStage, Stage

A = TypeVar("A")
B = TypeVar("B")


class Map(Stage[A, B]):
    """Emits the function's result for each element."""

    def __init__(self, function: Callable[[A], B]) -> None:
        """An exception of ``function`` fails the stage."""
        super().__init__()
        self._function = function

    def on_push(self, inlet: Connection[A]) -> None:
        """Emit the result."""
        self.outlet.push(self._function(inlet.grab()))


class Filter(Stage[A, A]):
    """Emits the elements for which the predicate holds."""

    def __init__(self, predicate: Callable[[A], object]) -> None:
        """An exception of ``predicate`` fails the stage."""
        super().__init__()
        self._predicate = predicate

    def on_push(self, inlet: Connection[A]) -> None:
        """Emit the element, or ask for the next one."""
        element = inlet.grab()
        if self._predicate(element):
            self.outlet.push(element)
        else:
            inlet.pull()


class MapConcat(HoldingStage[A, B]):
    """Emits all that the function makes of each element, one by one; the next one is made when it is asked for."""

    def __init__(self, function: Callable[[A], Iterable[B]]) -> None:
        """An exception of ``function``, or of what it returns, fails the stage."""
        super().__init__()
        self._function = function
        self._rest: Iterator[B] | None = None

    def holds(self) -> bool:
        """Perhaps more is to come of the last element."""
        return self._rest is not None

    def on_push(self, inlet: Connection[A]) -> None:
        """Begin with another element."""
        self._rest = iter(self._function(inlet.grab()))
        self.on_pull(self.outlet)

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
