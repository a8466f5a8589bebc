"""Ctrl-C ends a command, also where what it raises is lost on its way: in a finalizer, or between C and Python.

SIGTERM and a terminal that hangs up do the same: who just dies leaves the processes and folders that work for him.
"""

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType, TracebackType
from typing import NoReturn

__all__ = ["Interrupts"]


_NUMBERS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP"):  # not on Windows
    _NUMBERS.append(signal.SIGHUP)


class Interrupts:
    """Raises ``KeyboardInterrupt`` on these signals, as Python does on Ctrl-C, and knows that one has come."""

    def __init__(self) -> None:
        """None has come, and nobody looks."""
        self.number = 0
        """Of the signal; 0: none."""
        self._led_to: BaseException | None = None
        self._is_over = False

    def watch(self) -> None:
        """Look from now on; a process that was started to ignore one, as Ctrl-C in the background, goes on to do so."""
        sys.unraisablehook = self._note
        sys.excepthook = self._end
        atexit.register(self._leave)
        for number in _NUMBERS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                signal.signal(number, self._interrupt)

    @property
    def exit_code(self) -> int:
        """As a shell has it: 130 for Ctrl-C."""
        return 128 + self.number

    def end_with(self, error: BaseException) -> NoReturn:
        """End the process, which this error of an interrupted command has left."""
        # With it, all that the command has computed is kept: to take millions of states apart takes seconds on a busy
        # machine, and nobody needs that.
        self._led_to = error
        sys.exit(self.exit_code)

    def let_go(self) -> None:
        """The command is over: what is lost from now on stays lost, or it would cut off what is done at exit."""
        self._is_over = True

    def _leave(self) -> None:
        """The last of what is done at exit, as it was asked for first; what would follow is memory alone."""
        if self._led_to is not None:
            for output in (sys.stdout, sys.stderr):
                # A terminal that has hung up takes nothing more.
                with suppress(OSError, ValueError):
                    output.flush()
            os._exit(self.exit_code)

    def _interrupt(self, number: int, frame: FrameType | None) -> NoReturn:
        self.number = number
        raise KeyboardInterrupt

    def _end(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """What has left the command and all that is around it."""
        if self.number and issubclass(kind, KeyboardInterrupt):
            self.end_with(error)
        sys.__excepthook__(kind, error, trace)

    def _note(self, lost: "sys.UnraisableHookArgs") -> None:
        """What could not be raised, because nobody called: a finalizer, as each of Z3's terms has one."""
        if not self.number:
            sys.__unraisablehook__(lost)
        elif issubclass(lost.exc_type, KeyboardInterrupt) and not self._is_over:
            # In the next function that begins or ends; here it would be lost again.
            sys.setprofile(_again)
        # Else it is what the signal has left half done, and nobody's concern.


def _again(frame: FrameType, event: str, argument: object) -> None:
    if frame.f_code is not Interrupts._note.__code__:
        sys.setprofile(None)
        raise KeyboardInterrupt
