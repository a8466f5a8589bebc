"""Notices that an adapter's code holds the event loop, so that nothing else can run: its stack is told.

Another thread asks the loop for a sign of life.  If none comes, and it is the adapter's code that runs and not the
kit's own search, the code is interrupted by a signal whose handler raises ``LoopBlocked``.
"""

import asyncio
import signal
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, StackSummary, walk_stack
from types import FrameType
from typing import NoReturn, TypeAlias

import permitflow_model

BLOCKED_SECONDS = 5.0
"""The adapter's code is interrupted after this long without a turn of the loop."""

_STRIKES = 3
_BETWEEN_STRIKES_SECONDS = 0.1

_STDLIB = sysconfig.get_paths()["stdlib"]
_HERE = Path(__file__).parent
_KIT = (str(_HERE), str(Path(permitflow_model.__file__).parent))
_EXAMPLES = str(_HERE / "examples")

WhenStuck: TypeAlias = Callable[[str], object]
"""Takes what is to be said of a loop that cannot be interrupted."""


class LoopBlocked(BaseException):
    """Raised in code that has held the event loop for too long; no error that an adapter would handle."""


def print_stuck(text: str) -> None:
    """Say it on standard error."""
    print(text, file=sys.stderr, flush=True)


class LoopWatch:
    """Watches an event loop while a rule is judged."""

    def __init__(self, seconds: float = BLOCKED_SECONDS, when_stuck: WhenStuck = print_stuck) -> None:
        """``when_stuck`` is called if the code cannot be interrupted; ``seconds`` is how long it may hold the loop."""
        self.blocked: list[str] = []
        """The stack of the code that was found to hold the loop, innermost last; empty if none was."""
        self._seconds = seconds
        self._when_stuck = when_stuck
        self._function = ""

    @property
    def sentence(self) -> str:
        """What is wrong."""
        return f"blocks the event loop in {self._function}: nothing else could run for {self._seconds:g} s"

    @contextmanager
    def over(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Watch this loop, which runs in this thread, until the end of the block."""
        state = _Watching(loop, threading.get_ident())
        number = _free_signal()
        if number is not None:
            signal.signal(number, _interrupt)
        watching = threading.Thread(target=self._watch, args=(state, number), name="loop watch", daemon=True)
        watching.start()
        try:
            yield
        finally:
            state.end()
            if number is not None:
                watching.join()  # it sends no signal any more
                signal.signal(number, signal.SIG_DFL)

    def _watch(self, state: "_Watching", number: int | None) -> None:
        interrupted = False
        while not state.is_over.wait(self._seconds / 4):
            stack = None if state.is_alive(self._seconds) else self._stack_of(state)
            if not stack:
                interrupted = False
                continue
            self._note(stack)
            if number is not None and not interrupted:
                interrupted = True
                signal.pthread_kill(state.thread, number)
            else:
                self._when_stuck("\n".join((f"It {self.sentence}, and it cannot be interrupted.", *self.blocked)))
                return

    def _note(self, stack: list[FrameSummary]) -> None:
        if not self.blocked:
            self._function = next((one.name for one in reversed(stack) if not one.filename.startswith(_STDLIB)), "?")
            self.blocked = [
                line for text in StackSummary.from_list(stack).format() for line in text.rstrip().split("\n")
            ]

    def _stack_of(self, state: "_Watching") -> list[FrameSummary] | None:
        """The stack of the adapter's code that holds the loop; None if the loop lives, or the kit computes."""
        stack: list[FrameSummary] | None = None
        for _ in range(_STRIKES):
            frame = sys._current_frames().get(state.thread)
            if state.answer.wait(_BETWEEN_STRIKES_SECONDS) or frame is None or _is_kit(frame):
                return None
            stack = _own_part(frame)
        return stack


def _free_signal() -> int | None:
    """A signal that nobody handles, to interrupt this thread with; None if it cannot be interrupted.

    The alarm comes last: test runners use it for their own time-outs.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_kill"):
        return None
    numbers = (signal.SIGUSR2, signal.SIGUSR1, signal.SIGALRM)
    return next((number for number in numbers if signal.getsignal(number) is signal.SIG_DFL), None)


class _Watching:
    """A loop that is watched, and the thread that it runs in."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        self.thread = thread
        self.is_over = threading.Event()
        self.answer = threading.Event()
        """Set by the loop's next turn, and by the end."""
        self._loop = loop

    def end(self) -> None:
        """Watch no more."""
        self.is_over.set()
        self.answer.set()

    def is_alive(self, seconds: float) -> bool:
        """Does the loop, if it runs, take a turn within this many seconds?"""
        self.answer.clear()
        if self.is_over.is_set() or not self._loop.is_running():
            return True
        try:
            self._loop.call_soon_threadsafe(self.answer.set)
        except RuntimeError:  # it was closed
            return True
        return self.answer.wait(seconds) or not self._loop.is_running()


def _is_kit(frame: FrameType | None) -> bool:
    """Does the kit itself compute?  What counts is who has called the standard library last."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_KIT) and not name.startswith(_EXAMPLES):
            return True
        if not name.startswith((_STDLIB, "<")):
            return False
        if frame.f_code.co_name == "_run_once":
            return False
        frame = frame.f_back
    return False


def _own_part(frame: FrameType) -> list[FrameSummary]:
    """The stack without the event loop and the kit around it, innermost last."""
    own = []
    for each, line in walk_stack(frame):
        name = each.f_code.co_filename
        if name == asyncio.events.__file__ or (name.startswith(_KIT) and not name.startswith(_EXAMPLES)):
            break
        own.append(FrameSummary(name, line, each.f_code.co_name))
    return own[::-1]


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise LoopBlocked
