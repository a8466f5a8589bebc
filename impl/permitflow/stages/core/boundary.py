"""Read ahead of a consumer, and ask in batches: the input boundary of Akka's actors."""

from collections import deque
from collections.abc import Iterable, Set
from typing import Any, ClassVar, Generic, TypeVar

from permitflow.errors import InvalidParametersError, LocalProtocolError
from permitflow.stages.core.ports import Connection, HoldingStage

T = TypeVar("T")


class InputBoundary(Generic[T]):
    """A buffer of ``size`` elements that says when to ask for more: for ``size``, then for half as many at a time."""

    def __init__(self, size: int) -> None:
        """Begin empty.

        Raises:
            InvalidParametersError: ``size`` is not a power of two.
        """
        if not isinstance(size, int) or isinstance(size, bool) or size < 1 or size & (size - 1):
            raise InvalidParametersError(name="prefetch", value=size, rule="must be a power of two")
        self.size = size
        self._batch = max(1, size // 2)
        self._left_of_batch = self._batch
        self._elements: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._elements)

    def first_request(self) -> int:
        """How many to ask for at the start."""
        return self.size

    def arrive(self, element: T) -> None:
        """Keep an element that was asked for.

        Raises:
            LocalProtocolError: more came than were asked for.

        Spec: Deliver of GrpcCall.
        """
        if len(self._elements) >= self.size:
            raise LocalProtocolError(f"more elements came than the {self.size} that were asked for")
        self._elements.append(element)

    def take(self) -> tuple[T, int]:
        """The oldest element, and how many to ask for now: permits return when an element is taken.

        Raises:
            IndexError: no element is here.

        Spec: Emit of GrpcCall.
        """
        element = self._elements.popleft()
        self._left_of_batch -= 1
        if self._left_of_batch:
            return element, 0
        self._left_of_batch = self._batch
        return element, self._batch


class AsyncBoundary(HoldingStage[T, T]):
    """Lets the stages before it run ahead of those behind it, by up to ``prefetch`` elements.

    Before an error, the elements that are here leave: Akka's boundary drops them.
    """

    acts_alone: ClassVar[bool] = True

    def __init__(self, prefetch: int) -> None:
        """``prefetch`` is a power of two.

        Raises:
            InvalidParametersError: it is no power of two.
        """
        super().__init__()
        self._boundary: InputBoundary[T] = InputBoundary(prefetch)
        self._requested = 0
        """Elements that are asked for and have not come."""

    def start(self) -> None:
        """Ask for as many elements as there is room for."""
        self._request(self._boundary.first_request())

    def holds(self) -> bool:
        """Is an element here?"""
        return len(self._boundary) > 0

    def may_act_at(self, coming: Set[Connection[Any]]) -> Iterable[Connection[Any]]:
        """What is held leaves first."""
        return self.may_act_behind_what_is_held(coming)

    def on_push(self, inlet: Connection[T]) -> None:
        """Keep the element, and ask for what else was requested."""
        self._boundary.arrive(inlet.grab())
        self._request(-1)
        if self.outlet.is_asked:
            self.on_pull(self.outlet)

    def on_pull(self, outlet: Connection[T]) -> None:
        """Emit the oldest element."""
        if self._boundary:
            element, request = self._boundary.take()
            outlet.push(element)
            self._request(request)
        if self.is_ended and not self._boundary:
            self.end()

    def _request(self, more: int) -> None:
        self._requested += more
        if self._requested > 0:
            self.ask(self.inlet)
