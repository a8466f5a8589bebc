"""Messages of a library that gives each one as the result of a coroutine, handed over in the loop's callbacks.

The coroutine is begun without a task, and goes on in the callback that says that what it waits for is here: so a
message is where it belongs before any task has woken up.  Whoever awaits all this hears of the end, and of errors.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from permitflow.transports.carrier import Take

__all__ = ["HandingOver"]

# While messages follow each other within this time, the next one is asked for before this one is taken: the library
# works meanwhile.  A message that comes alone is taken first.
_CLOSE_SECONDS = 1e-3


class _Asked(Protocol):
    """What is asked for a message: a coroutine, or what an async generator gives in place of one."""

    def send(self, value: None, /) -> "asyncio.Future[object] | None":
        """Go on until it waits for something."""
        ...

    def throw(self, error: BaseException, /) -> object:
        """Hear of an error where it waits."""
        ...


class _Failed(NamedTuple):
    """What comes in place of the last message."""

    error: BaseException


_Over: TypeAlias = "asyncio.Future[object]"
_Came: TypeAlias = Callable[[_Over, object], object]


class HandingOver:
    """Asks for one message after the other, for as long as ``read`` is awaited."""

    def __init__(self, ask: Callable[[], Awaitable[object]], *, clock: Callable[[], float] = time.monotonic) -> None:
        """``ask`` for the next message; anything but bytes means that there are no more.  ``clock`` is in seconds."""
        self._ask = ask
        self._clock = clock
        self._take: Take | None = None
        self._loop = asyncio.get_running_loop()
        self._over: _Over = self._loop.create_future()
        self._asked: _Asked | None = None
        self._awaited: asyncio.Future[object] | None = None
        self._came_at = -math.inf

    def hand_to(self, take: Take) -> None:
        """Call this with each message from now on, instead of returning it from ``read``."""
        self._take = take

    async def read(self) -> object:
        """The next message, or what comes after the last one; not for two tasks.

        Cancelled, or after an error, what was asked for last is cancelled, too.

        Raises:
            Exception: what ``ask`` or the taker of messages raises.
        """
        if self._take is None:
            message = await self._ask()
            if self._take is None or not isinstance(message, bytes):
                return message
            self._take(message)
        self._over = self._loop.create_future()
        self._ask_next()
        try:
            return await self._over
        finally:
            self._give_up()

    def _ask_next(self) -> None:
        self._asked = self._ask()  # type: ignore[assignment]  # a cast is a call
        # In its turn: the message before it may not be taken yet, or its taker may refuse it.
        self._go_on(self._over, self._heed_in_turn)

    def _go_on(self, over: _Over, heed: _Came, _: object = None) -> None:
        """Let what was asked for ``over`` go on until it waits for something, or ``heed`` what has come."""
        asked = self._asked
        if asked is None or over.done():
            return
        message: object
        try:
            awaited = self._awaited = asked.send(None)
        except StopIteration as came:
            message = came.value
        except (Exception, asyncio.CancelledError) as error:
            message = _Failed(error)
        else:
            go_on = partial(self._go_on, over, self._heed)
            if awaited is None:
                self._loop.call_soon(go_on)
            else:
                # What a task does with what its coroutine awaits.
                awaited._asyncio_future_blocking = False
                awaited.add_done_callback(go_on)
            return
        self._asked = None
        heed(over, message)

    def _heed_in_turn(self, over: _Over, message: object) -> None:
        self._loop.call_soon(self._heed, over, message)

    def _heed(self, over: _Over, message: object) -> None:
        # Those of a read that is over are done: nobody hears what was asked for it.
        if over.done():
            return
        if self._take is None or not isinstance(message, bytes):
            self._end(message)
            return
        now = self._clock()
        is_close, self._came_at = now - self._came_at < _CLOSE_SECONDS, now
        if is_close:
            self._ask_next()
        try:
            self._take(message)
        except Exception as error:
            if not self._over.done():
                self._over.set_exception(error)
        finally:
            # Also if a task that went on within this call was interrupted.
            if not is_close and not self._over.done():
                self._ask_next()

    def _end(self, last: object) -> None:
        if isinstance(last, _Failed):
            self._over.set_exception(last.error)
        else:
            self._over.set_result(last)

    def _give_up(self) -> None:
        self._over.cancel()
        asked, self._asked = self._asked, None
        if asked is None:
            return
        if self._awaited is not None:
            self._awaited.cancel()
        try:
            asked.throw(asyncio.CancelledError())
        except (Exception, asyncio.CancelledError):
            return
