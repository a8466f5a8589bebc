"""An event loop that would fall asleep for a few microseconds stays awake instead.

To sleep and to be woken costs tens of microseconds on both sides, most of it on a machine that does nothing else: its
processors sleep, too.  Two ends that take turns every hundred microseconds would spend a third of their time on that.
So while messages follow each other closely, the loop looks for the next one a few times before it sleeps.  It takes
turns as ever, so that nobody else in it waits; and it lets other processes go first.

There is little to lose: it stays awake about as long as sleeping would cost, only where that has paid before, and only
while no other process wants the processor.
Whoever has a processor to spare, and chunks that must not wait, may ask for more: ``poll_busily``.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from permitflow.errors import InvalidParametersError
from permitflow.transports.carrier import Received, Take

__all__ = ["Wakefulness", "of_running_loop", "poll_busily", "staying_awake"]

# Without anything to do, between two messages.
_IDLE_SECONDS = 200e-6
# A turn that takes longer had something to do, or another process had.
_IDLE_TURN_SECONDS = 20e-6
# Messages that follow each other within this time, so many in a row, make a loop stay awake; none within it, sleep.
_CLOSE_SECONDS = 1e-3
_CLOSE_MESSAGES = 4
# Where another process has had the turn, so many more.
_OTHERS_MESSAGES = 100

_yield_to_others: Callable[[], object] = getattr(os, "sched_yield", lambda: None)


class Wakefulness:
    """Of one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """It may sleep.  ``clock`` is in seconds."""
        self.clock = clock
        """In seconds."""
        self._yield_to_others = _yield_to_others
        self.is_awake = False
        """Is it kept from sleeping now?"""
        self._close_messages = 0
        self._came_at = self._turned_at = clock()
        self._idle_seconds = 0.0
        self.busy_poll_seconds = 0.0
        """So long after each message it is kept awake in any case."""

    def note_message(self, came_at: float) -> None:
        """A message has come, then; to be called in the loop, before its turn ends."""
        is_close, self._came_at = came_at - self._came_at < _CLOSE_SECONDS, came_at
        self._idle_seconds = 0.0
        if self.is_awake:
            return
        self._close_messages = self._close_messages + 1 if is_close else min(0, self._close_messages)
        if self._close_messages >= _CLOSE_MESSAGES or self.busy_poll_seconds:
            self.is_awake, self._turned_at = True, came_at
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        now = self.clock()
        if now - self._turned_at < _IDLE_TURN_SECONDS:
            self._idle_seconds += now - self._turned_at
        self._turned_at = now
        has_waited = self._idle_seconds > _IDLE_SECONDS or now - self._came_at > _CLOSE_SECONDS
        if has_waited and now - self._came_at >= self.busy_poll_seconds:
            self._may_sleep(0)
            return
        self._yield_to_others()
        if self.clock() - now > _IDLE_TURN_SECONDS and not self.busy_poll_seconds:
            self._may_sleep(-_OTHERS_MESSAGES)
            return
        asyncio.get_running_loop().call_soon(self._turn)

    def _may_sleep(self, close_messages: int) -> None:
        self.is_awake, self._close_messages = False, close_messages


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Wakefulness] = WeakKeyDictionary()


def poll_busily(seconds: float) -> None:
    """Let the running event loop look for the next message so long after each one, instead of sleeping until it comes.

    A chunk that comes meanwhile finds a processor that is awake and caches that are warm.  It takes that processor, or
    what other processes leave of it, for as long as messages are not further apart.  Over every carrier, where there
    are at least two processors; 0, as at first: only for moments, while messages come in haste, over gRPC not at all.
    Also after the last message of all, though no stream may be left.

    Raises:
        InvalidParametersError: it is no number of seconds from 0 on.
    """
    if not 0 <= seconds < math.inf:
        raise InvalidParametersError(name="seconds", value=seconds, rule="must be a number from 0 on")
    _of_loop().busy_poll_seconds = seconds


def _of_loop() -> Wakefulness:
    return _of_loops.setdefault(asyncio.get_running_loop(), Wakefulness())


def of_running_loop() -> Wakefulness | None:
    """That of the running loop; None with one processor, where it may always sleep."""
    return None if _processors() < 2 else _of_loop()


def staying_awake(take: Take) -> Take:
    """The same, for messages that are to keep the running loop awake; with one processor, it may always sleep."""
    wakefulness = of_running_loop()
    if wakefulness is None:
        return take
    clock, note_message = wakefulness.clock, wakefulness.note_message

    def take_awake(message: Received) -> None:
        # When it came: whoever waits for the message may be at work with it for as long as it likes.
        came_at = clock()
        try:
            take(message)
        finally:
            note_message(came_at)

    return take_awake


def _processors() -> int:
    """That this process may use, where the system says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
