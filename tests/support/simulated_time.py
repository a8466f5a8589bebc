"""An event loop whose clock jumps to the next timer when nothing else is to do: no test waits, and times are exact.

Pauses before dialling again are the same in each run.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from random import Random
from typing import Any, ParamSpec, TypeVar
from unittest.mock import patch

from permitflow import pauses

P = ParamSpec("P")
T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, it moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "every task waits, and no timer is set: they would wait for ever"
            self.now += max(timeout, 0)
        return ready


class _SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def stand_still(self, seconds: float) -> None:
        self._jumping.now += seconds


class Clock:
    """Goes on when it is told to; for what asks a function for the time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


def in_simulated_time(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; its loop's clock begins at 0."""
    with patch.object(pauses, "dice", Random(0)), asyncio.Runner(loop_factory=_SimulatedLoop) as runner:
        return runner.run(work)


def simulated(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine, in simulated time."""

    @wraps(test)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        in_simulated_time(test(*arguments, **options))

    return run


def stand_still(seconds: float) -> None:
    """Inside such a run: its process is stopped for so long, and nothing is called meanwhile."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _SimulatedLoop)
    loop.stand_still(seconds)
