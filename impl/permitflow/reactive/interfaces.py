"""The four interfaces of Reactive Streams, in Python's spelling; their rules are numbered as in the specification.

All methods return at once, and none returns a value.  The rules: https://github.com/reactive-streams/reactive-streams-jvm
"""

from typing import Protocol, TypeVar

T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class Subscription(Protocol):
    """One subscriber of one publisher."""

    def request(self, n: int) -> None:
        """Ask for ``n`` more elements, at least 1, besides those that were asked for before."""
        ...

    def cancel(self) -> None:
        """Ask for nothing any more.  Elements that are on their way may still come."""
        ...


class Subscriber(Protocol[T_contra]):
    """Gets ``on_subscribe``, as many ``on_next`` as it has asked for, at most, and at last one end, or none."""

    def on_subscribe(self, subscription: Subscription) -> None:
        """Nothing comes before this, and no element before a request."""
        ...

    def on_next(self, element: T_contra) -> None:
        """An element; never None."""
        ...

    def on_error(self, error: BaseException) -> None:
        """The stream has failed; nothing follows."""
        ...

    def on_complete(self) -> None:
        """The stream has ended; nothing follows."""
        ...


class Publisher(Protocol[T_co]):
    """Brings each subscriber as many elements as it asks for, at most."""

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Call the subscriber's ``on_subscribe``; everything else follows from its requests."""
        ...


class Processor(Subscriber[T_contra], Publisher[T_co], Protocol[T_contra, T_co]):
    """A subscriber that publishes what it makes of the elements that it gets."""
