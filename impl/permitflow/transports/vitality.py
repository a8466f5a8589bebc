"""Signs of life between the two ends of a connection that may be silent for hours.

The kernel keeps the connection of a stopped process or of a cut cable open for a long time, or for ever.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

from permitflow.errors import PermitflowError

__all__ = ["Vitality"]

_PING_EVERY_SECONDS = 2.0
# An application that keeps its event loop busy gives no sign of life meanwhile.
_PATIENCE_SECONDS = 20.0


class Vitality:
    """Pings where nothing else is written, and says when the peer has been silent for too long."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        ping: Callable[[], Coroutine[object, object, None]],
        give_up: Callable[[float], None],
    ) -> None:
        """Begin.

        Args:
            loop: in which all this happens.
            ping: gives a sign of life.
            give_up: called once, with the seconds for which the peer has been silent.
        """
        self._loop = loop
        self._ping = ping
        self._give_up = give_up
        self._last_sign = self._last_look = loop.time()
        self._has_come = False
        self._has_written = False
        self._pinging: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = loop.call_later(_PING_EVERY_SECONDS, self._look)

    def note_sign(self) -> None:
        """The peer has given one."""
        self._has_come = True

    def note_writing(self) -> None:
        """This end has given one."""
        self._has_written = True

    def _look(self) -> None:
        now = self._loop.time()
        # If this loop was busy, nothing was read: the peer is not to blame.
        was_busy = now - self._last_look > 2 * _PING_EVERY_SECONDS
        self._last_look = now
        if self._has_come or was_busy:
            self._last_sign = now
            self._has_come = False
        if now - self._last_sign > _PATIENCE_SECONDS:
            self._timer = None
            self._give_up(now - self._last_sign)
            return
        if not self._has_written:
            self._pinging = self._loop.create_task(self._ping_quietly())
        self._has_written = False
        self._timer = self._loop.call_later(_PING_EVERY_SECONDS, self._look)

    async def _ping_quietly(self) -> None:
        with suppress(PermitflowError):  # whoever reads or writes hears of it
            await self._ping()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pinging is not None:
            self._pinging.cancel()
