"""A signal's exception in code that runs, wherever it may hit, one place after the other.

Python heeds signals where a function begins and where a C function has returned.  A profile function is called in just
these places, so it raises what a signal's handler would raise."""

import gc
import sys
from collections.abc import Callable
from types import FrameType


class SignalError(Exception):
    """What the handler raises."""


class Peer:
    """The other end, if it works in this process, too."""

    is_at_work = False
    """Is the other end running?  Signals of this end do not concern it."""


class Interrupting:
    """Raises once while ``call`` runs; counts on from call to call."""

    def __init__(self, place: int, peer: Peer) -> None:
        """In the place with this number, from 0, of what is not the peer's work."""
        self.peer = peer
        self.where = ""
        """In which function it was; empty before that."""
        self._left = place

    def call(self, function: Callable[[], object]) -> object:
        """Call a function; what it returns or raises.

        Raises:
            SignalError: the place was in this call.
        """

        def heed(frame: FrameType, event: str, arg: object) -> None:
            if event not in ("call", "c_return") or frame is own or self.where or self.peer.is_at_work:
                return
            self._left -= 1
            if self._left < 0:
                self.where = f"{frame.f_code.co_name}: {event}"
                raise SignalError

        if self.where:
            return function()
        own: FrameType | None = sys._getframe()
        before = sys.getprofile()
        # An exception raised during garbage collection has no caller, and is lost.
        gc.disable()
        sys.setprofile(heed)
        try:
            return function()
        finally:
            sys.setprofile(before)
            gc.enable()
            own = None  # else this frame would refer to itself, and to the function
