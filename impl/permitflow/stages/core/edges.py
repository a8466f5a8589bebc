"""The open ends of an island: where elements come in from outside, and where they leave."""

from collections.abc import Callable
from typing import Any, TypeVar

from permitflow.stages.core.ports import Connection, Stage

T = TypeVar("T")


def _nothing() -> None:
    pass


class Entry(Stage[Any, T]):
    """Brings elements in: the shell pushes them into ``outlet`` when it is asked."""

    def __init__(self) -> None:
        """The callbacks are called while the island runs."""
        super().__init__()
        self.when_asked: Callable[[], None] = _nothing
        self.when_cancelled: Callable[[], None] = _nothing

    def on_pull(self, outlet: Connection[T]) -> None:
        """Tell the outside."""
        self.when_asked()

    def on_downstream_finish(self, outlet: Connection[T]) -> None:
        """Tell the outside."""
        self.when_cancelled()


class Exit(Stage[T, Any]):
    """Lets elements out: one that has arrived stays at ``inlet`` until it is grabbed."""

    def __init__(self) -> None:
        """``when_changed`` is called while the island runs: an element is here, or the end."""
        super().__init__()
        self.when_changed: Callable[[], None] = _nothing
        self.failure: BaseException | None = None

    def on_push(self, inlet: Connection[T]) -> None:
        """Tell the outside."""
        self.when_changed()

    def on_upstream_finish(self, inlet: Connection[T]) -> None:
        """Tell the outside."""
        self.when_changed()

    def on_upstream_failure(self, inlet: Connection[T], error: BaseException) -> None:
        """Keep the error, and tell the outside."""
        self.failure = error
        self.when_changed()
