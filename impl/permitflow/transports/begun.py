"""A coroutine that was begun by whoever has no task, and finishes by itself.

For libraries that do their work in the first step of a coroutine, and then only wait to hear that it was done.  What it
waits for sets it going again, as it would a task; whoever wants to know how it has ended is told, or awaits it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress

__all__ = ["Begun"]


class Begun:
    """A coroutine after its first step; await it to hear how it has ended.  Cancelled then, it is cancelled."""

    def __init__(
        self,
        coroutine: Coroutine[object, None, None],
        awaited: object,
        finish: Callable[[Awaitable[None]], Coroutine[object, object, None]],
    ) -> None:
        """Let it finish.

        Args:
            coroutine: of which the first step was taken.
            awaited: what that step has returned: what it waits for, or None for a turn of the loop.
            finish: awaits this, and says in the carrier's words what has failed.
        """
        self._coroutine = coroutine
        self._finish = finish
        self.error: BaseException | None = None
        """With which it has ended, if so; whoever awaits it gets it."""
        self._over: asyncio.Future[None] | None = None
        self._call: Callable[[Begun], None] | None = None
        self.is_over = False
        """Has it ended, well or with an error?"""
        self._wait_for(awaited)

    def __call__(self) -> Coroutine[object, object, None]:
        """As a ``Rest``: to be awaited."""
        return self._finish(self)

    def at_end(self, call: "Callable[[Begun], None]") -> None:
        """Call this when it has ended; ``error`` says how."""
        self._call = call

    def _wait_for(self, awaited: object) -> None:
        if isinstance(awaited, asyncio.Future):
            # What a task does with what its coroutine awaits.
            awaited._asyncio_future_blocking = False
            awaited.add_done_callback(self._go_on)
        else:
            asyncio.get_running_loop().call_soon(self._go_on, None)
        self._awaited = awaited

    def _go_on(self, _: object) -> None:
        if self.is_over:
            return
        try:
            awaited = self._coroutine.send(None)
        except StopIteration:
            self._end(None)
        except (Exception, asyncio.CancelledError) as error:
            self._end(error)
        else:
            self._wait_for(awaited)

    def _end(self, error: BaseException | None) -> None:
        self.is_over, self.error = True, error
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
        if self._call is not None:
            self._call(self)

    def __await__(self) -> Generator[object, None, None]:
        if not self.is_over:
            self._over = asyncio.get_running_loop().create_future()
            try:
                yield from self._over
            except GeneratorExit:
                self.is_over = True
                self._coroutine.close()
                raise
            except BaseException as error:
                self._give_up(error)
                raise
        if self.error is not None:
            raise self.error

    def _give_up(self, error: BaseException) -> None:
        """Cancel what it waits for, and let it hear of that."""
        self.is_over = True
        if isinstance(self._awaited, asyncio.Future):
            self._awaited.cancel()
        with suppress(Exception, asyncio.CancelledError):
            self._coroutine.throw(error)
