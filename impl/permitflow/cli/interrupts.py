"""Ctrl-C ends a command, also where what it raises is lost on its way: in a finalizer, or between C and Python."""

import atexit
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

__all__ = ["Interrupts"]


class Interrupts:
    """Raises ``KeyboardInterrupt`` on Ctrl-C, as Python does, and knows that it has come."""

    def __init__(self) -> None:
        """None has come, and nobody looks."""
        self.have_come = False
        self._led_to: BaseException | None = None
        self._exit_code = 0

    def watch(self) -> None:
        """Look from now on; a process that was started to ignore Ctrl-C, as in the background, goes on to do so."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        signal.signal(signal.SIGINT, self._interrupt)
        sys.unraisablehook = self._note
        atexit.register(self._leave)

    def end_with(self, error: BaseException, exit_code: int) -> NoReturn:
        """End the process, which this error of an interrupted command has left."""
        # With it, all that the command has computed is kept: to take millions of states apart takes seconds on a busy
        # machine, and nobody needs that.
        self._led_to = error
        self._exit_code = exit_code
        sys.exit(exit_code)

    def _leave(self) -> None:
        """The last of what is done at exit, as it was asked for first; what would follow is memory alone."""
        if self._led_to is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._exit_code)

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
