"""Signs of life between the two ends of a connection that may be silent for hours.

The kernel keeps the connection of a stopped process or of a cut cable open for a long time, or for ever.  A thread
gives the signs, because an application may keep its event loop busy for any time."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

# The thread needs the interpreter for a moment; an application that blocks it beyond the peer's deadline counts as
# dead.
_PING_EVERY_SECONDS = 1.0


class Heartbeat:
    """Gives signs of life, and reports a peer that was silent for too long."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        ping: Callable[[], None],
        is_listening: Callable[[], bool],
        give_up: Callable[[float], None],
        silence_seconds: float,
    ) -> None:
        """Begin.

        Args:
            loop: in which this object is used.
            ping: gives a sign of life, without waiting; called in a thread.
            is_listening: is this end reading?  While it is not, the peer's silence does not count.
            give_up: called once, with the seconds for which the peer has been silent.
            silence_seconds: the longest allowed silence.
        """
        self._silence_seconds = silence_seconds
        self._loop = loop
        self._ping = ping
        self._give_up = give_up
        self._last_sign = self._last_look = loop.time()
        self.has_sign = self._had_come = False
        self._is_listening = is_listening
        self._timer: asyncio.TimerHandle | None = loop.call_later(_PING_EVERY_SECONDS, self._look)
        _pinger().add(ping)

    @property
    def has_heard(self) -> bool:
        """Has the peer ever given a sign of life?"""
        return self.has_sign or self._had_come

    def _look(self) -> None:
        now = self._loop.time()
        # If this loop was busy, nothing was read: the silence does not count.
        was_busy = now - self._last_look > 2 * _PING_EVERY_SECONDS or not self._is_listening()
        self._last_look = now
        if self.has_sign or was_busy:
            self._last_sign = now
            self._had_come, self.has_sign = self.has_heard, False
        if now - self._last_sign > self._silence_seconds:
            self._timer = None
            self._give_up(now - self._last_sign)
            return
        self._timer = self._loop.call_later(_PING_EVERY_SECONDS, self._look)

    def stop(self) -> None:
        """Stop giving and expecting signs."""
        _pinger().remove(self._ping)
        if self._timer is not None:
            self._timer.cancel()


class _Pinger:
    """A thread that calls functions periodically, and lives as long as there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pings: set[Callable[[], None]] = set()
        self._thread: threading.Thread | None = None

    def add(self, ping: Callable[[], None]) -> None:
        with self._lock:
            self._pings.add(ping)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="permitflow gives signs of life", daemon=True)
                self._thread.start()

    def remove(self, ping: Callable[[], None]) -> None:
        with self._lock:
            self._pings.discard(ping)

    def _run(self) -> None:
        while True:
            time.sleep(_PING_EVERY_SECONDS)
            with self._lock:
                pings = list(self._pings)
                if not pings:
                    self._thread = None
                    return
            for ping in pings:
                try:
                    ping()
                except Exception:  # the others go on
                    self.remove(ping)
                    _log.exception("a connection gives no more signs of life")


# By process: no thread survives a fork.
_pingers: dict[int, _Pinger] = {}


def _pinger() -> _Pinger:
    return _pingers.setdefault(os.getpid(), _Pinger())
