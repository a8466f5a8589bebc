"""Ctrl-C ends a command, also if it comes in a finalizer, where Python loses the ``KeyboardInterrupt``.

SIGTERM and SIGHUP do the same, so that a command can end its worker processes and remove its temporary folders.  The
third of them ends the process at once: a model of the user's own may catch whatever is raised.
"""

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress
from time import monotonic
from types import FrameType, TracebackType
from typing import NoReturn

_NUMBERS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP"):  # not on Windows
    _NUMBERS.append(signal.SIGHUP)


# After a signal whose exception was lost; by then the finalizer has returned.
_AGAIN_SECONDS = 0.05

# The signal that ends the process whatever catches what those before it raised, and what must lie between it and the
# first: several may come at one time.
_LAST_STRAW = 3
_PATIENCE_SECONDS = 1.0

_last = 0


def signalled_exit_code() -> int:
    """The exit code of a command that a signal has interrupted: 130 for Ctrl-C; 0 if none has."""
    return 128 + _last if _last else 0


class Interrupts:
    """Raises ``KeyboardInterrupt`` on these signals, as Python does on Ctrl-C, and remembers the signal."""

    def __init__(self) -> None:
        """No signal has come; ``watch`` installs the handlers."""
        self.number = 0
        """The number of the signal; 0: none has come."""
        self._count = 0
        self._first_at = 0.0
        self._led_to: BaseException | None = None
        self._is_over = False
        self._is_sent_again = False

    def watch(self) -> None:
        """Install the handlers; a signal that the process was started to ignore stays ignored."""
        sys.unraisablehook = self._note
        sys.excepthook = self._end
        atexit.register(self._leave)
        for number in _NUMBERS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                signal.signal(number, self._interrupt)

    @property
    def exit_code(self) -> int:
        """The exit code as a shell has it: 130 for Ctrl-C."""
        return 128 + self.number

    def end_with(self, error: BaseException) -> NoReturn:
        """End the process after an interrupted command has raised this error."""
        # The error keeps alive all that the command has computed: to free millions of states takes seconds on a busy
        # machine.
        self._led_to = error
        sys.exit(self.exit_code)

    def let_go(self) -> None:
        """The command is over: a late ``KeyboardInterrupt`` must not cut off the exit handlers."""
        self._is_over = True

    def _leave(self) -> None:
        """The last exit handler, since it was registered first: only memory would be freed after it."""
        if self._led_to is not None:
            for output in (sys.stdout, sys.stderr):
                # A terminal that has hung up raises an error.
                with suppress(OSError, ValueError):
                    output.flush()
            os._exit(self.exit_code)

    def _interrupt(self, number: int, frame: FrameType | None) -> NoReturn:
        global _last  # a signal belongs to the process
        self.number = _last = number
        now = monotonic()
        self._count += 1
        if self._count == 1:
            self._first_at = now
        elif self._count >= _LAST_STRAW and now - self._first_at >= _PATIENCE_SECONDS:
            with suppress(OSError):
                os.write(2, b"Error: interrupted\n")  # a stream of Python's may be in the middle of a call
            os._exit(self.exit_code)
        raise KeyboardInterrupt

    def _end(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Handle an error that has left the command and everything around it."""
        if self.number and issubclass(kind, KeyboardInterrupt):
            self.end_with(error)
        sys.__excepthook__(kind, error, trace)

    def _note(self, lost: "sys.UnraisableHookArgs") -> None:
        """Handle an error that Python could not raise: in a finalizer, as each of Z3's terms has one."""
        if not self.number:
            sys.__unraisablehook__(lost)
        elif issubclass(lost.exc_type, KeyboardInterrupt) and not self._is_sent_again:
            # Here it would be lost again.
            self._is_sent_again = True
            again = threading.Timer(_AGAIN_SECONDS, self._send_again)
            again.daemon = True
            again.start()
        # Other errors come from work that the signal has left half done.

    def _send_again(self) -> None:
        self._is_sent_again = False
        if not self._is_over:
            self._count -= 1  # it is the same one
            os.kill(os.getpid(), self.number)
