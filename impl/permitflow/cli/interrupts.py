"""Ctrl-C ends a command, also where what it raises is lost on its way: in a finalizer, or between C and Python."""

import signal
import sys
from types import FrameType
from typing import NoReturn

__all__ = ["Interrupts"]


class Interrupts:
    """Raises ``KeyboardInterrupt`` on Ctrl-C, as Python does, and knows that it has come."""

    def __init__(self) -> None:
        """It has not come, and nobody looks."""
        self.have_come = False

    def watch(self) -> None:
        """Look from now on; a process that was started to ignore Ctrl-C, as in the background, goes on to do so."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        signal.signal(signal.SIGINT, self._interrupt)
        sys.unraisablehook = self._note

    def _interrupt(self, number: int, frame: FrameType | None) -> NoReturn:
        self.have_come = True
        raise KeyboardInterrupt

    def _note(self, lost: "sys.UnraisableHookArgs") -> None:
        """What could not be raised, because nobody called: a finalizer, as each of Z3's terms has one."""
        if not self.have_come:
            sys.__unraisablehook__(lost)
        elif issubclass(lost.exc_type, KeyboardInterrupt):
            # In the next function that begins or ends; here it would be lost again.
            sys.setprofile(_again)
        # Else it is what Ctrl-C has left half done, and nobody's concern.


def _again(frame: FrameType, event: str, argument: object) -> None:
    if frame.f_code is not Interrupts._note.__code__:
        sys.setprofile(None)
        raise KeyboardInterrupt
