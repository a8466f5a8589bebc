"""The rules of Reactive Streams for what a publisher tells its subscriber; no I/O, no threads."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from permitflow.reactive.interfaces import Subscriber, Subscription

T = TypeVar("T")

MOST_REQUESTED: Final = 2**63 - 1
"""What is asked for beyond this is not counted (rule 3.17)."""


def require(argument: object, name: str) -> None:
    """Require an argument of ``subscribe`` or of a signal.

    Raises:
        TypeError: it is None (rules 1.9 and 2.13).
    """
    if argument is None:
        raise TypeError(f"{name} must not be None (rules 1.9 and 2.13 of Reactive Streams)")


def _refusal(n: object) -> Exception | None:
    """Why nobody may ask for that number."""
    if isinstance(n, bool) or not isinstance(n, int):
        return TypeError(f"request({n!r}): ask for a whole number of elements (rule 3.9 of Reactive Streams)")
    if n < 1:
        return ValueError(f"request({n}): ask for at least 1 element (rule 3.9 of Reactive Streams)")
    return None


class _Nothing:
    """The type of ``_NOTHING``."""


_NOTHING: Final[Any] = _Nothing()


class Signals(Generic[T]):
    """All signals to one subscriber, in order: one after the other, no more elements than were asked for, one end.

    A signal that follows from a call within a signal waits until that one has returned; so calls never nest (rules 1.3
    and 3.3).  All calls come from one thread.
    """

    __slots__ = (
        "_ask",
        "_close",
        "_element",
        "_end",
        "_is_asked",
        "_is_busy",
        "_looks_ahead",
        "_refused",
        "_report",
        "_requested",
        "_subscriber",
    )

    def __init__(
        self,
        subscriber: Subscriber[T],
        *,
        ask: Callable[[], object],
        close: Callable[[], object],
        report: Callable[[Exception], object],
    ) -> None:
        """Begin with ``subscribe``.

        Args:
            subscriber: is forgotten after the end or a cancellation (rule 3.13).
            ask: an element is wanted; it is answered by one call of ``offer``, ``complete`` or ``fail``, at once or
                later.
            close: nothing is wanted any more; called once.
            report: the subscriber has raised this, which no signal may (rule 2.13).
        """
        self._subscriber: Subscriber[T] | None = subscriber
        self._ask = ask
        self._close = close
        self._report = report
        self._requested = 0
        self._element: T = _NOTHING
        self._end: BaseException | bool = False
        """True if the stream has ended; its error if it has failed."""
        self._refused: Exception | None = None
        self._is_asked = False
        self._looks_ahead = False
        self._is_busy = True
        """Is a signal being given?  Nothing comes before ``subscribe``."""

    @property
    def is_over(self) -> bool:
        """Will the subscriber get no signal any more?"""
        return self._subscriber is None

    # The subscriber's side.

    def subscribe(self, subscription: Subscription) -> None:
        """Hand over the subscription; what the subscriber does with it at once takes effect afterwards."""
        if self._subscriber is not None:
            self._tell(self._subscriber.on_subscribe, subscription)
        self._is_busy = False
        self._go_on()

    def request(self, n: int) -> None:
        """More elements are wanted.  A number below 1 fails the stream (rule 3.9)."""
        if self._subscriber is None:
            return
        self._refused = self._refused or _refusal(n)
        if self._refused is None:
            self._requested = min(self._requested + n, MOST_REQUESTED)
        self._go_on()

    def cancel(self) -> None:
        """Nothing is wanted any more; has no effect after the end, or a second time."""
        if self._subscriber is not None:
            self._subscriber = None
            self._element = _NOTHING
            self._requested = 0
            self._close()

    # The source's side.

    def offer(self, element: T) -> None:
        """The element that was asked for."""
        self._is_asked = False
        if element is None:
            self.fail(TypeError("the source has emitted None, which is not an element (rule 2.13 of Reactive Streams)"))
        elif self._subscriber is not None:
            self._element = element
            self._go_on()

    def complete(self) -> None:
        """The source has ended."""
        self._end = True
        self._go_on()

    def fail(self, error: BaseException) -> None:
        """The source has failed."""
        self._end = error
        self._go_on()

    def look_ahead(self) -> None:
        """Ask for the next element though the subscriber has not, and keep it: the end may be behind the last one."""
        self._looks_ahead = True
        self._go_on()

    def _go_on(self) -> None:
        """Give the signals that are due, unless one is being given."""
        if self._is_busy:
            return
        self._is_busy = True
        while (subscriber := self._subscriber) is not None:
            if self._refused is not None:
                self.cancel()
                self._tell(subscriber.on_error, self._refused)
            elif self._element is not _NOTHING:
                if not self._requested:
                    break
                self._requested -= 1
                element, self._element = self._element, _NOTHING
                self._tell(subscriber.on_next, element)
            elif self._end is not False:
                self.cancel()
                if isinstance(self._end, BaseException):
                    self._tell(subscriber.on_error, self._end)
                else:
                    self._tell(subscriber.on_complete)
            elif (self._requested or self._looks_ahead) and not self._is_asked:
                self._is_asked = True
                self._ask()
            else:
                break
        self._is_busy = False

    def _tell(self, signal: Callable[..., None], *arguments: object) -> None:
        try:
            signal(*arguments)
        except Exception as error:
            self.cancel()
            self._report(error)
