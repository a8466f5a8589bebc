"""A change for which several tasks may wait."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Self, final

__all__ = ["Change", "Changes"]

# So many who wait may have been cancelled; nobody counts them before.
_MANY = 16
_set_result = asyncio.Future[None].set_result  # without the loop's next turn


@final
class Change(asyncio.Future[None]):
    """What one task awaits, which may go on within the callback that brings the change.

    A task that awaits an ordinary future goes on in the loop's next turn: for one that waits for a message, that is a
    tenth of the message's way.
    """

    __slots__ = ("context", "go_on")

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        """Nobody awaits it yet."""
        super().__init__(loop=loop)
        self.go_on: Callable[[Change], object] | None = None
        """How the task that awaits it goes on, if one does."""
        self.context: Context | None = None
        """That of this task."""

    def add_done_callback(self, fn: Callable[[Self], object], /, *, context: Context | None = None) -> None:
        """Of the task that awaits it: how it goes on."""
        self.go_on, self.context = fn, context

    def set_result(self, result: None, /) -> None:
        """Let the task go on in its turn."""
        super().set_result(result)
        self._go_on_in_turn()

    def cancel(self, msg: object = None) -> bool:
        """As any future: the task goes on in its turn."""
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self._go_on_in_turn()
        return is_cancelled

    def _go_on_in_turn(self) -> None:
        if self.go_on is not None:
            self.get_loop().call_soon(self.go_on, self, context=self.context)


class Changes:
    """As an event that is set and cleared at once, for less: whoever waits awaits a future, and nothing else."""

    def __init__(self) -> None:
        """Of the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Change] = []

    def next(self) -> Change:
        """What to await until something has changed; for one task."""
        if len(self._waiting) >= _MANY:
            self._waiting = [change for change in self._waiting if not change.done()]
        change = Change(loop=self._loop)
        self._waiting.append(change)
        return change

    def tell(self) -> None:
        """Something has changed; whoever waits goes on in its turn."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for change in waiting:
                if not change.done():
                    change.set_result(None)

    def tell_at_once(self) -> None:
        """The same, and in a callback of the loop whoever waits goes on within this call, one after the other.

        Only where all books are right.  Whatever is to be done there afterwards is to be done in any case: as
        everywhere in asyncio, KeyboardInterrupt and SystemExit of a task come out here, and nothing else does.  Those
        behind one that is interrupted go on in their turn.
        """
        if not self._waiting:
            return
        if asyncio.current_task(self._loop) is not None:
            self.tell()
            return
        waiting, self._waiting = self._waiting, []
        try:
            for change in waiting:
                if not change.done():
                    _set_result(change, None)
                    if change.go_on is not None and change.context is not None:
                        change.context.run(change.go_on, change)
        except BaseException:
            since, self._waiting = self._waiting, waiting
            self.tell()
            self._waiting = since
            raise
